"""All turns of a position at once: a position comes in, the positions after each legal cell go out side by side.

Side by side they can be valued in vector instructions (see `evaluation`), eight of them in little more than the time of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, uint64
from numba.extending import register_jitable

from rolit_env import rules
from rolit_env.kernel import lean_kernel
from rolit_env.rules import word_geometry
from rolit_env.search.position import legal_cells, lowest, number

_GEOMETRY_8, _GEOMETRY_6, _GEOMETRY_4 = word_geometry(8), word_geometry(6), word_geometry(4)

VECTOR = 8
"""Words in a vector; loops run over a multiple of them, because the rest of a loop takes one word at a time."""

BEFORE = 63
"""The column of the position before the turn. None has more than 56 children: 7 balls touch 56 cells, and 8 leave 56 empty."""


def turn_rows(players: int) -> npt.NDArray[np.int64]:
    """Return the rows of `seat_children` that show positions as the next mover sees them, int64 [4]."""
    return np.array([players - 1, *(row for row in range(4) if row != players - 1)])


@lean_kernel
def pair_children(own: Any, other: Any, neutral: Any, size: int, cells: Any, words: Any) -> Any:
    """Write the legal cells of the mover of two, and the positions after them; return their number, int64.

    Args:
        own: Balls of the mover, uint64.
        other: Balls of the other player.
        neutral: Balls of nobody.
        size: Side of the board.
        cells: uint64 [64], numbers of cells to begin with; written, ascending.
        words: uint64 [3, 64]: written, as the next mover sees them; beyond the last child there may be anything, but the
            column `BEFORE` holds the position itself.
    """
    words[0, BEFORE], words[1, BEFORE], words[2, BEFORE] = other, own, neutral
    count = _list_cells(legal_cells(own, other | neutral, size), cells)
    if size == 8:
        _play_pair(own, other, neutral, cells, whole(count), words, _GEOMETRY_8)
    elif size == 6:
        _play_pair(own, other, neutral, cells, whole(count), words, _GEOMETRY_6)
    else:
        _play_pair(own, other, neutral, cells, whole(count), words, _GEOMETRY_4)
    return count


@lean_kernel
def seat_children(own: Any, following: Any, third: Any, fourth: Any, rows: Any, size: int, cells: Any, words: Any) -> Any:
    """Do the same for more players.

    Args:
        own: Balls of the mover, uint64.
        following: Those of another, uint64, as `third` and `fourth`.
        third: Those of a third.
        fourth: Those of a fourth, or of nobody.
        rows: The rows of `words` that the balls of the four go to, int64 [4].
        size: Side of the board.
        cells: uint64 [64], numbers of cells to begin with; written, ascending.
        words: uint64 [4, 64]: written, likewise.
    """
    words[rows[0], BEFORE], words[rows[1], BEFORE] = own, following
    words[rows[2], BEFORE], words[rows[3], BEFORE] = third, fourth
    count = _list_cells(legal_cells(own, following | third | fourth, size), cells)
    if size == 8:
        _play_seat(own, following, third, fourth, rows, cells, whole(count), words, _GEOMETRY_8)
    elif size == 6:
        _play_seat(own, following, third, fourth, rows, cells, whole(count), words, _GEOMETRY_6)
    else:
        _play_seat(own, following, third, fourth, rows, cells, whole(count), words, _GEOMETRY_4)
    return count


@register_jitable
def whole(count: Any) -> Any:
    """Return the next multiple of `VECTOR`."""
    return (count + VECTOR - 1) & -VECTOR


@register_jitable
def _list_cells(legal: Any, cells: Any) -> Any:
    count = int64(0)
    while legal:
        move = lowest(legal)
        legal ^= move
        cells[count] = number(move)
        count += 1
    return count


@register_jitable
def _play_pair(own: Any, other: Any, neutral: Any, cells: Any, count: Any, words: Any, g: Any) -> None:
    others, mine, rest = words[0], words[1], words[2]
    for at in range(count):
        cell = cells[at]
        rolled = rules.rolled_balls(cell, own, other | neutral, g)
        others[at] = other & ~rolled
        mine[at] = own | rolled | (uint64(1) << cell)
        rest[at] = neutral & ~rolled


@register_jitable
def _play_seat(
    own: Any, following: Any, third: Any, fourth: Any, rows: Any, cells: Any, count: Any, words: Any, g: Any
) -> None:
    others = following | third | fourth
    mine, first, second, last = words[rows[0]], words[rows[1]], words[rows[2]], words[rows[3]]
    for at in range(count):
        cell = cells[at]
        rolled = rules.rolled_balls(cell, own, others, g)
        mine[at] = own | rolled | (uint64(1) << cell)
        first[at] = following & ~rolled
        second[at] = third & ~rolled
        last[at] = fourth & ~rolled
