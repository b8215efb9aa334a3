"""Balls that nobody can roll any more: the words of a position come in, a word of such balls goes out."""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable


@register_jitable(forceinline=True)
def safe_balls(mine: Any, occupied: Any, g: Any) -> Any:
    """Return balls that nobody can roll any more; there may be a few more than it finds.

    A ball is safe that along each of the four axes has the board's edge on one side, or no empty cell on the whole line, or
    a safe ball of its own colour beside it: whoever rolled it along that line would have to roll its neighbour too.
    Like the rules it runs on torch's int64 too, whose sign a shift to the right repeats in the last row: hence `not_last_row`.
    """
    empty = g.board & ~occupied
    right, left, whole = g.not_first_column, g.not_last_column, g.board
    row = ~_on_lines(empty, g.row.step, right, left) | ~g.row.inner
    column = ~_on_lines(empty, g.column.step, whole, g.not_last_row) | ~g.column.inner
    diagonal = ~_on_lines(empty, g.diagonal.step, right, left & g.not_last_row) | ~g.diagonal.inner
    antidiagonal = ~_on_lines(empty, g.antidiagonal.step, left, right & g.not_last_row) | ~g.antidiagonal.inner
    safe = mine & row & column & diagonal & antidiagonal
    for _ in range(3):
        grown = mine
        grown = grown & (row | _beside(safe, g.row.step, right, left))
        grown = grown & (column | _beside(safe, g.column.step, whole, g.not_last_row))
        grown = grown & (diagonal | _beside(safe, g.diagonal.step, right, left & g.not_last_row))
        grown = grown & (antidiagonal | _beside(safe, g.antidiagonal.step, left, right & g.not_last_row))
        safe = safe | grown
    return safe


@register_jitable(forceinline=True)
def _beside(cells: Any, step: Any, up: Any, down: Any) -> Any:
    """Return the neighbours of some cells along an axis; `up` are the cells that have a neighbour below, `down` above."""
    return ((cells << step) & up) | ((cells >> step) & down)


@register_jitable(forceinline=True)
def _on_lines(cells: Any, step: Any, up: Any, down: Any) -> Any:
    """Return all cells that share a line of one axis with one of `cells`, which are among them."""
    above = below = cells
    for _ in range(3):  # 1, 3 and 7 steps away
        above = above | ((above << step) & up)
        below = below | ((below >> step) & down)
        up = up & (up << step)
        down = down & (down >> step)
        step = step + step
    return above | below
