"""The eight symmetries of the board: positions and actions come in, their turned and mirrored twins come out.

The rules commute with all of them, so a learner may see each position in any of eight ways.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from numba import uint64

from rolit_env.bits import Words
from rolit_env.kernel import kernel


@cache
def cell_permutations(size: int) -> npt.NDArray[np.int64]:
    """Return where each cell goes, int64 [8, A]: symmetry k moves a ball from cell c to `cell_permutations(n)[k, c]`.

    0 is the identity; 0 to 3 are quarter turns, 4 to 7 the same after a mirror. The array is shared and read-only.
    """
    cells = np.arange(size * size).reshape(size, size)
    boards = [np.rot90(board, turns) for board in (cells, cells.T) for turns in range(4)]
    origin = np.stack([board.reshape(-1) for board in boards])  # origin[k, d]: the cell whose ball arrives at d
    permutations = np.argsort(origin, axis=1)
    permutations.flags.writeable = False
    return permutations


def transform_words(words: Words, permutations: npt.NDArray[np.int64]) -> Words:
    """Return words with all their cells moved, uint64 [N, W], each row by its own permutation, int64 [N, A]."""
    moved = np.empty_like(words)
    _move_cells(words, permutations, moved)
    return moved


@kernel
def _move_cells(words: Words, permutations: npt.NDArray[np.int64], moved: Words) -> None:
    for row in range(words.shape[0]):
        for column in range(words.shape[1]):
            left = words[row, column]
            result = uint64(0)
            cell = uint64(0)
            while left:
                if left & uint64(1):
                    result |= uint64(1) << uint64(permutations[row, cell])
                left >>= uint64(1)
                cell += uint64(1)
            moved[row, column] = result
