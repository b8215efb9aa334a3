"""The rules of Rolit on words: which cells are legal, and which balls roll.

In go sets of cells as words (see `bits`), out come sets of cells as words. This is the only text of the rules.
It is straight-line code, so the same functions run on Python ints, on NumPy uint64 arrays, inside numba kernels, and on
torch int64 tensors: columns that a shift wrapped, bits past the board that a Python int keeps, and sign bits that an int64
shifts in all meet a mask before they count.

Balls of every other colour are opponents for a capture, so each function knows just two kinds of ball: `own` and `others`.
A run of `others` is enclosed along a line only where the line goes on at both ends: along a row off the first and last
columns, along a column off the first and last rows, along a diagonal off both. Runs of such balls never leave their line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import register_jitable

from rolit_env.bits import highest_bit

Word: TypeAlias = Any
"""A Python int, a numba or NumPy uint64, or a torch int64; one call uses one kind throughout."""


class Line(NamedTuple):
    """One of the four directions that a board's lines have; "up" is towards higher cells."""

    step: Word  # the shift from a cell to the next
    inner: Word  # the cells that have a neighbour on both sides
    up: Word  # the cells up from cell 0; shifted left by a cell's number, those up from that cell (and wrapped ones)
    down: Word  # the cells down from cell 63; shifted right, those down from another


class Geometry(NamedTuple):
    """The lines of a square board, and masks of its cells."""

    row: Line
    column: Line
    diagonal: Line
    antidiagonal: Line
    board: Word
    not_first_column: Word
    not_last_column: Word
    not_last_row: Word
    one: Word  # plain numbers as words, because numba turns a word and an int into a float
    last: Word  # 63, the number of a word's last bit

    def convert(self, convert: Callable[[int], Word]) -> Geometry:
        """Return the same in another kind of word."""
        lines = (Line(*map(convert, line)) for line in self[:4])
        return Geometry(*lines, *map(convert, self[4:]))


@cache
def geometry(size: int) -> Geometry:
    """Return the geometry of a `size` by `size` board in Python ints."""
    cells = range(size * size)
    inner_columns = sum(1 << cell for cell in cells if 0 < cell % size < size - 1)
    inner_rows = sum(1 << cell for cell in cells if 0 < cell // size < size - 1)

    def line(step: int, inner: int) -> Line:
        steps = range(step, step * size, step)
        return Line(step, inner, sum(1 << far for far in steps), sum(1 << 63 - far for far in steps))

    return Geometry(
        row=line(1, inner_columns),
        column=line(size, inner_rows),
        diagonal=line(size + 1, inner_columns & inner_rows),
        antidiagonal=line(size - 1, inner_columns & inner_rows),
        board=sum(1 << cell for cell in cells),
        not_first_column=sum(1 << cell for cell in cells if cell % size > 0),
        not_last_column=sum(1 << cell for cell in cells if cell % size < size - 1),
        not_last_row=sum(1 << cell for cell in cells if cell < size * (size - 1)),
        one=1,
        last=63,
    )


@cache
def word_geometry(size: int) -> Geometry:
    """Return the geometry of a `size` by `size` board in uint64, for NumPy and numba."""
    return geometry(size).convert(np.uint64)


@register_jitable(forceinline=True)
def _beyond(own: Word, others: Word, line: Line) -> Word:
    """Return the cells that a run of `others` along a line parts from a ball of `own`; runs grow to 1, 2, 4 and 6 balls."""
    step, inner, _, _ = line
    through = others & inner
    up = through & (own << step)
    down = through & (own >> step)
    up = up | (through & (up << step))
    down = down | (through & (down >> step))
    up_pairs = through & (through << step)
    down_pairs = up_pairs >> step
    double = step + step
    up = up | (up_pairs & (up << double))
    down = down | (down_pairs & (down >> double))
    up = up | (up_pairs & (up << double))
    down = down | (down_pairs & (down >> double))
    return (up << step) | (down >> step)


@register_jitable(forceinline=True)
def _beyond_in_rows(own: Word, others: Word, line: Line) -> Word:
    """Return the same along the rows, and some balls of `others`."""
    step, inner, _, _ = line
    through = others & inner
    # The balls of a row are neighbouring bits, so an addition carries past whole runs at once (and keeps the others).
    up = through + (through & (own << step))
    down = through & (own >> step)
    down = down | (through & (down >> step))
    pairs = through & (through >> step)
    step = step + step
    down = down | (pairs & (down >> step))
    down = down | (pairs & (down >> step))
    return up | (down >> line.step)


@register_jitable(forceinline=True)
def capturing_cells(own: Word, others: Word, g: Geometry) -> Word:
    """Return the empty cells on which a new ball of `own` encloses at least one ball of `others`."""
    beyond = (
        _beyond_in_rows(own, others, g.row)
        | _beyond(own, others, g.column)
        | _beyond(own, others, g.diagonal)
        | _beyond(own, others, g.antidiagonal)
    )
    return beyond & (g.board ^ (own | others))


@register_jitable(forceinline=True)
def touching_cells(occupied: Word, g: Geometry) -> Word:
    """Return the empty cells next to a ball, diagonals included."""
    column = occupied | (occupied << g.column.step) | ((occupied >> g.column.step) & g.not_last_row)
    block = column | ((column << g.row.step) & g.not_first_column) | ((column >> g.row.step) & g.not_last_column)
    return block & (g.board ^ occupied)


@register_jitable(forceinline=True)
def legal_cells(own: Word, others: Word, g: Geometry) -> Word:
    """Return the legal cells: those that capture, or, where none does, all that touch a ball. Empty only on a full board."""
    capturing = capturing_cells(own, others, g)
    return capturing | (touching_cells(own | others, g) * (capturing == 0))


@register_jitable(forceinline=True)
def _crossed_up(cell: Word, move: Word, own: Word, others: Word, line: Line) -> Word:
    _, inner, up, _ = line
    ray = up << cell
    # Ones wherever a carry may pass: on the ray through the run, and everywhere off it. Adding the new ball carries to the
    # first cell of the ray that ends the run.
    open_way = (others & inner) | ~ray
    crossed = (open_way ^ (open_way + move)) & ray
    # It counts only where that cell holds a ball of `own`; multiplying by the truth value needs no branch.
    return crossed * ((crossed & own) != 0)


@register_jitable(forceinline=True)
def _crossed_down(cell: Word, move: Word, own: Word, others: Word, line: Line, g: Geometry) -> Word:
    _, inner, _, down = line
    ray = down >> (g.last - cell)
    # The first cell that ends the run is the highest, as no carry runs down. An empty ray has none: let bit 0 stand in.
    end = highest_bit((ray & ~(others & inner)) | g.one)
    # From the new ball down to that cell; with no ball of `own` on it this is the new ball alone, which is off the ray.
    return (move - (end & own)) & ray


@register_jitable(forceinline=True)
def rolled_balls(cell: Word, own: Word, others: Word, g: Geometry) -> Word:
    """Return the balls of `others` that roll when a ball of `own` is put on the empty cell with the number `cell`."""
    move = g.one << cell
    crossed = (
        _crossed_up(cell, move, own, others, g.row)
        | _crossed_up(cell, move, own, others, g.column)
        | _crossed_up(cell, move, own, others, g.diagonal)
        | _crossed_up(cell, move, own, others, g.antidiagonal)
        | _crossed_down(cell, move, own, others, g.row, g)
        | _crossed_down(cell, move, own, others, g.column, g)
        | _crossed_down(cell, move, own, others, g.diagonal, g)
        | _crossed_down(cell, move, own, others, g.antidiagonal, g)
    )
    return crossed & others  # without the balls of `own` at their ends


@register_jitable(forceinline=True)
def put_ball(cell: Word, own: Word, following: Word, third: Word, fourth: Word, g: Geometry) -> tuple[Word, Word, Word, Word]:
    """Return the words of the four colours after the first of them has put a ball on the legal cell number `cell`."""
    rolled = rolled_balls(cell, own, following | third | fourth, g)
    kept = g.board ^ rolled
    return own | rolled | (g.one << cell), following & kept, third & kept, fourth & kept
