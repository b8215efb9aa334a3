"""The eight symmetries of the board: positions and actions come in, their turned and mirrored twins come out.

The rules commute with all of them, so a learner may see each position in any of eight ways.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt


@cache
def cell_permutations(size: int) -> npt.NDArray[np.int64]:
    """Return where each cell goes, int64 [8, A]: symmetry k moves a ball from cell c to `cell_permutations(n)[k, c]`.

    0 is the identity; 0 to 3 are quarter turns, 4 to 7 the same after a mirror. The array is shared: do not write.
    """
    cells = np.arange(size * size).reshape(size, size)
    boards = [np.rot90(board, turns) for board in (cells, cells.T) for turns in range(4)]
    origin = np.stack([board.reshape(-1) for board in boards])  # origin[k, d]: the cell whose ball arrives at d
    permutations = np.argsort(origin, axis=1)
    permutations.flags.writeable = False
    return permutations


def transform_word(word: int, permutation: npt.NDArray[np.int64]) -> int:
    """Return a word with each of its cells moved, given one row of `cell_permutations`."""
    return sum(1 << int(to) for cell, to in enumerate(permutation) if word >> cell & 1)
