"""The rules of Rolit on words: which cells are legal, and which balls roll.

In go sets of cells as words (see `bits`), out come sets of cells as words. This is the only text of the rules.
It is straight-line code with a mask after every shift, so the same functions run on Python ints, on
NumPy uint64 arrays, inside numba kernels, and on torch int64 tensors: the mask removes the columns that wrapped,
the bits past the board that a Python int keeps, and the sign bits that int64 shifts in.

Balls of every other colour are opponents for a capture, so each function knows just two kinds of ball: `own` and `others`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import register_jitable

Word: TypeAlias = Any
"""A Python int, a numba or NumPy uint64, or a torch int64; one call uses one kind throughout."""


class Geometry(NamedTuple):
    """Shifts and masks of a square board. A step in a direction is a shift, then the mask of cells it can arrive at."""

    east: Word  # also the amount that west shifts the other way
    south: Word
    south_east: Word
    south_west: Word
    to_east: Word
    to_south: Word
    to_south_east: Word
    to_south_west: Word
    to_west: Word
    to_north: Word
    to_north_west: Word
    to_north_east: Word
    board: Word


@cache
def geometry(size: int) -> Geometry:
    """Return the geometry of a `size` by `size` board in Python ints."""
    cells = range(size * size)
    board = sum(1 << cell for cell in cells)
    not_first_column = sum(1 << cell for cell in cells if cell % size > 0)
    not_last_column = sum(1 << cell for cell in cells if cell % size < size - 1)
    not_first_row = sum(1 << cell for cell in cells if cell >= size)
    not_last_row = sum(1 << cell for cell in cells if cell < size * (size - 1))
    return Geometry(
        east=1,
        south=size,
        south_east=size + 1,
        south_west=size - 1,
        to_east=not_first_column,
        to_south=not_first_row,
        to_south_east=not_first_row & not_first_column,
        to_south_west=not_first_row & not_last_column,
        to_west=not_last_column,
        to_north=not_last_row,
        to_north_west=not_last_row & not_last_column,
        to_north_east=not_last_row & not_first_column,
        board=board,
    )


@cache
def word_geometry(size: int) -> Geometry:
    """Return the geometry of a `size` by `size` board in uint64, for NumPy and numba (which turn mixed ints into floats)."""
    return Geometry(*(np.uint64(field) for field in geometry(size)))


@register_jitable(forceinline=True)
def _run_up(start: Word, others: Word, shift: Word, arrive: Word) -> Word:
    """Collect the unbroken run of `others` next to `start` towards higher cells, by doubling: 1, 2, 4, then 6 balls."""
    through = others & arrive
    run = through & (start << shift)
    run = run | (through & (run << shift))
    through = through & (through << shift)
    shift = shift + shift
    run = run | (through & (run << shift))
    return run | (through & (run << shift))


@register_jitable(forceinline=True)
def _run_down(start: Word, others: Word, shift: Word, arrive: Word) -> Word:
    """Collect the unbroken run of `others` next to `start` towards lower cells."""
    through = others & arrive
    run = through & (start >> shift)
    run = run | (through & (run >> shift))
    through = through & (through >> shift)
    shift = shift + shift
    run = run | (through & (run >> shift))
    return run | (through & (run >> shift))


@register_jitable(forceinline=True)
def _beyond_up(own: Word, others: Word, shift: Word, arrive: Word) -> Word:
    return (_run_up(own, others, shift, arrive) << shift) & arrive


@register_jitable(forceinline=True)
def _beyond_down(own: Word, others: Word, shift: Word, arrive: Word) -> Word:
    return (_run_down(own, others, shift, arrive) >> shift) & arrive


@register_jitable(forceinline=True)
def capturing_cells(own: Word, others: Word, g: Geometry) -> Word:
    """Return the empty cells on which a new ball of `own` encloses at least one ball of `others`."""
    beyond = (
        _beyond_up(own, others, g.east, g.to_east)
        | _beyond_up(own, others, g.south, g.to_south)
        | _beyond_up(own, others, g.south_east, g.to_south_east)
        | _beyond_up(own, others, g.south_west, g.to_south_west)
        | _beyond_down(own, others, g.east, g.to_west)
        | _beyond_down(own, others, g.south, g.to_north)
        | _beyond_down(own, others, g.south_east, g.to_north_west)
        | _beyond_down(own, others, g.south_west, g.to_north_east)
    )
    return beyond & (g.board ^ (own | others))


@register_jitable(forceinline=True)
def touching_cells(occupied: Word, g: Geometry) -> Word:
    """Return the empty cells next to a ball, diagonals included."""
    row = occupied | ((occupied << g.east) & g.to_east) | ((occupied >> g.east) & g.to_west)
    block = row | ((row << g.south) & g.to_south) | ((row >> g.south) & g.to_north)
    return block & (g.board ^ occupied)


@register_jitable(forceinline=True)
def legal_cells(own: Word, others: Word, g: Geometry) -> Word:
    """Return the legal cells: those that capture, or, where none does, all that touch a ball. Empty only on a full board."""
    capturing = capturing_cells(own, others, g)
    return capturing | (touching_cells(own | others, g) * (capturing == 0))


@register_jitable(forceinline=True)
def _enclosed_up(move: Word, own: Word, others: Word, shift: Word, arrive: Word) -> Word:
    run = _run_up(move, others, shift, arrive)
    # A run counts only where a ball of `own` closes it; multiplying by the truth value needs no branch.
    return run * (((run << shift) & arrive & own) != 0)


@register_jitable(forceinline=True)
def _enclosed_down(move: Word, own: Word, others: Word, shift: Word, arrive: Word) -> Word:
    run = _run_down(move, others, shift, arrive)
    return run * (((run >> shift) & arrive & own) != 0)


@register_jitable(forceinline=True)
def rolled_balls(move: Word, own: Word, others: Word, g: Geometry) -> Word:
    """Return the balls of `others` that roll when a ball of `own` is put on the one cell in `move`."""
    return (
        _enclosed_up(move, own, others, g.east, g.to_east)
        | _enclosed_up(move, own, others, g.south, g.to_south)
        | _enclosed_up(move, own, others, g.south_east, g.to_south_east)
        | _enclosed_up(move, own, others, g.south_west, g.to_south_west)
        | _enclosed_down(move, own, others, g.east, g.to_west)
        | _enclosed_down(move, own, others, g.south, g.to_north)
        | _enclosed_down(move, own, others, g.south_east, g.to_north_west)
        | _enclosed_down(move, own, others, g.south_west, g.to_north_east)
    )
