"""One position inside a kernel: the words from the mover's side and a cell come in, the words from the next mover's go out.

A position is four words, as `GameBatch.view` gives them: the mover's balls, the others' in turn order, neutral balls last. Who
moves, and how many turns are left, follow from the number of balls, because nobody passes.

All functions are for numba, on uint64. A kernel that calls itself must be called with the types that it calls itself with (all
words uint64, all else int64): numba can't load a recursion of several types from its cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint64
from numba.extending import register_jitable

from rolit_env import rules
from rolit_env.bits import popcount
from rolit_env.rules import Geometry, Line, word_geometry


def _flat(g: Geometry) -> list[np.uint64]:
    return [word for part in g for word in (part if isinstance(part, Line) else (part,))]


# One copy of the code serves all boards and reads their shifts and masks here, which is as fast and compiles sooner.
_GEOMETRIES = np.array([_flat(word_geometry(size)) for size in (4, 6, 8)])


@register_jitable(forceinline=True)
def _line(at: Any, first: int) -> Any:
    return Line(_GEOMETRIES[at, first], _GEOMETRIES[at, first + 1], _GEOMETRIES[at, first + 2], _GEOMETRIES[at, first + 3])


@register_jitable(forceinline=True)
def geometry_of(size: Any) -> Any:
    """Return the geometry of a board."""
    at = (size - 4) >> 1
    return Geometry(
        _line(at, 0),
        _line(at, 4),
        _line(at, 8),
        _line(at, 12),
        _GEOMETRIES[at, 16],
        _GEOMETRIES[at, 17],
        _GEOMETRIES[at, 18],
        _GEOMETRIES[at, 19],
        _GEOMETRIES[at, 20],
        _GEOMETRIES[at, 21],
    )


@register_jitable
def legal_cells(own: Any, others: Any, size: Any) -> Any:
    """Return the legal cells of the mover."""
    return uint64(rules.legal_cells(own, others, geometry_of(size)))


@register_jitable
def capturing_cells(own: Any, others: Any, size: Any) -> Any:
    """Return the cells on which the mover would roll a ball."""
    return uint64(rules.capturing_cells(own, others, geometry_of(size)))


@register_jitable
def rolled_balls(cell: Any, own: Any, others: Any, size: Any) -> Any:
    """Return the balls that roll when the mover puts one on the empty cell number `cell`."""
    return uint64(rules.rolled_balls(cell, own, others, geometry_of(size)))


@register_jitable(forceinline=True)
def after_turn(cell: Any, own: Any, following: Any, third: Any, fourth: Any, players: int, size: int) -> Any:
    """Return the four words after the mover has put a ball on the legal cell number `cell`, from the next mover's side."""
    rolled = rolled_balls(cell, own, following | third | fourth, size)
    kept = ~rolled
    mine = own | rolled | (uint64(1) << uint64(cell))
    if players == 2:
        return following & kept, mine, third & kept, fourth & kept
    if players == 3:
        return following & kept, third & kept, mine, fourth & kept
    return following & kept, third & kept, fourth & kept, mine


@register_jitable(forceinline=True)
def number(low: Any) -> Any:
    """Return the number of the cell in a word of one cell."""
    return popcount(low - uint64(1))


@register_jitable(forceinline=True)
def lowest(word: Any) -> Any:
    """Return the lowest cell of a word as a word; 0 of 0."""
    return word & (~word + uint64(1))


@register_jitable(forceinline=True)
def empty_count(own: Any, following: Any, third: Any, fourth: Any, size: int) -> Any:
    """Return the number of empty cells, which is the number of turns left."""
    return int64(size * size) - int64(popcount(own | following | third | fourth))
