"""Every move of many positions of two players at once: words come in, those after each legal move go out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env import rules
from rolit_env.bits import Words
from rolit_env.rules import word_geometry


def play_all(words: Words, size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Words]:
    """Play every legal move of every position with NumPy, which needs no compiling.

    Args:
        words: Balls of the mover, of the other player, and of the two neutral colours, uint64 [N, 4].
        size: Side of the board, n.

    Returns:
        The number of the position, int64 [M], the cell, int64 [M], and the position after it from the next mover's side,
        uint64 [M, 4]; positions and cells ascend.
    """
    g: Any = word_geometry(size)
    own, following, third, fourth = words.T
    legal = rules.legal_cells(own, following | third | fourth, g)
    position, cell = np.nonzero((legal[:, None] >> np.arange(size * size, dtype=np.uint64)) & np.uint64(1))
    mine, second, third, fourth = rules.put_ball(cell.astype(np.uint64), *words[position].T, g)
    return position, cell, np.stack([second, mine, third, fourth], axis=1)
