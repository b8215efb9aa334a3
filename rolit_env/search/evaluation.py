"""The value of a position that is not at its end: a position from the mover's side comes in, an estimate goes out, in ints.

Two functions are all that searches know: `pair_value` for two players, `seat_values` for more. What they go by is an
`Evaluation`, arrays that a search passes on as they are. Values are to be compared with each other only, and only at one and
the same number of empty cells; results at the end of a round are another thing and never met in one search.

The evaluation made by hand adds up, for each seat, weights for what it has on the board: balls by kind of cell, those on
cells next to a corner once more while the corner is empty, cells where it could capture, empty cells that its balls touch, and
balls that can't be rolled any more. Weights depend on the number of empty cells; `python -m training.tune` finds them.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64
from numba.extending import register_jitable

from rolit_env.bits import Words, popcount
from rolit_env.notation import cell_name
from rolit_env.rules import capturing_cells, touching_cells, word_geometry
from rolit_env.search.weights import WEIGHTS

KINDS = 16
"""Places for kinds of cells, of which a board has 10 at most: a full vector of words is faster than a part of one."""

FEATURES = ("edge", "inside", "safe")
"""What is counted for a seat beside kinds of cells: balls on an edge and inside, next to an empty corner; safe balls."""

BY_TURN = ("turn", "capturing", "touching")
"""What weighs by how soon the seat moves: a constant, its capturing cells, and the empty cells next to its balls."""

COLUMNS = KINDS + len(FEATURES) + 4 * len(BY_TURN)

SCALE = 1000
"""Points in a unit of the logistic function: at `SCALE` points ahead, two players win e times as often as they lose."""

SHARE = 1_000_000
"""A whole win in the values of `seat_values`."""

_GEOMETRY_8, _GEOMETRY_6, _GEOMETRY_4 = word_geometry(8), word_geometry(6), word_geometry(4)


class Evaluation(NamedTuple):
    """What `pair_value` and `seat_values` go by; searches pass it on as it is.

    Attributes:
        kinds: Cells of each kind, uint64 [KINDS].
        weights: int64 [n·n + 1, COLUMNS], a row for each number of empty cells: the weights of all kinds of cells, of
            `FEATURES`, and of `BY_TURN` for the mover, for the next seat and so on.
    """

    kinds: Any
    weights: Any


@cache
def hand_made(size: int, players: int) -> Evaluation:
    """Return the evaluation by hand for a variant. Its arrays are shared: read them, never write."""
    knots = {name: values for name, *values in map(str.split, WEIGHTS[size, players].strip().splitlines())}
    columns = [knots[name] for name in column_names(size, players)]
    return from_knots(np.array(columns, np.float64).T, size, players)


def column_names(size: int, players: int) -> list[str]:
    """Return the names of the weights of a variant: the first cell of each kind, `FEATURES`, and `BY_TURN` by turn."""
    kinds = [cell_name(int(kind & -kind).bit_length() - 1, size) for kind in cell_kinds(size).tolist() if kind]
    return [*kinds, *FEATURES, *(f"{name}{turn}" for turn in range(players) for name in BY_TURN)]


def from_knots(knots: npt.NDArray[np.float64], size: int, players: int) -> Evaluation:
    """Return an evaluation from weights named by `column_names`, float64 [knots, names].

    The first row is for a full board, the last for an empty one, the others evenly between; it goes straight from one to the
    next.
    """
    at = np.linspace(0, size * size, len(knots))
    given = [np.interp(np.arange(size * size + 1), at, column) for column in knots.T]
    kinds = len(given) - len(FEATURES) - players * len(BY_TURN)
    weights = np.zeros((size * size + 1, COLUMNS), np.int64)
    weights[:, :kinds] = np.rint(given[:kinds]).T
    weights[:, KINDS : KINDS + len(given) - kinds] = np.rint(given[kinds:]).T
    return Evaluation(kinds=cell_kinds(size), weights=weights)


@cache
def cell_kinds(size: int) -> Words:
    """Return the cells of each kind, uint64 [KINDS]: a kind is what the board's symmetries turn into each other.

    Kinds are in the order of their first cell: for 8x8 the corner, the three of the edge, the one inside the corner, …
    """
    half = (size + 1) // 2
    kinds = [(row, column) for row in range(half) for column in range(row, half)]
    words = np.zeros(KINDS, np.uint64)
    for cell in range(size * size):
        near, far = sorted(min(at, size - 1 - at) for at in divmod(cell, size))
        words[kinds.index((near, far))] |= np.uint64(1 << cell)
    return words


def _corners(size: int) -> np.uint64:
    return np.uint64(1 | 1 << size - 1 | 1 << size * (size - 1) | 1 << size * size - 1)


def _inside_corners(size: int) -> np.uint64:
    ring = [row * size + column for row in (1, size - 2) for column in (1, size - 2)]
    return np.uint64(sum(1 << cell for cell in ring))


_CORNERS_8, _CORNERS_6, _CORNERS_4 = _corners(8), _corners(6), _corners(4)
_INSIDE_8, _INSIDE_6, _INSIDE_4 = _inside_corners(8), _inside_corners(6), _inside_corners(4)


@register_jitable
def pair_value(own: Any, other: Any, third: Any, fourth: Any, size: int, evaluation: Any) -> Any:
    """Return the value of a position for the mover of two, int64; for the other it is the negative.

    Divided by `SCALE` it is the logit of the mover's expected win share.
    """
    occupied = own | other | third | fourth
    mine = _score(own, occupied, 0, size, evaluation)
    return mine - _score(other, occupied, 1, size, evaluation)


@register_jitable
def seat_values(own: Any, following: Any, third: Any, fourth: Any, players: int, size: int, evaluation: Any) -> Any:
    """Return the value of a position for each seat of three or four, four int64: the mover's first; without a player 0.

    They are expected win shares, of `SHARE` in all.
    """
    occupied = own | following | third | fourth
    first = math.exp(_score(own, occupied, 0, size, evaluation) / SCALE)
    second = math.exp(_score(following, occupied, 1, size, evaluation) / SCALE)
    next_one = math.exp(_score(third, occupied, 2, size, evaluation) / SCALE)
    last = 0.0
    if players == 4:
        last = math.exp(_score(fourth, occupied, 3, size, evaluation) / SCALE)
    part: Any = SHARE / (first + second + next_one + last)
    return int64(first * part), int64(second * part), int64(next_one * part), int64(last * part)


@register_jitable
def _score(mine: Any, occupied: Any, turn: int, size: int, evaluation: Any) -> Any:
    weights = evaluation.weights[size * size - int64(popcount(occupied))]
    score = int64(0)
    for kind in range(KINDS):
        score += int64(popcount(mine & evaluation.kinds[kind])) * weights[kind]
    edge, inside, safe, capturing, touching = seat_features(mine, occupied, size)
    at = KINDS + 3 + 3 * turn
    score += edge * weights[KINDS] + inside * weights[KINDS + 1] + safe * weights[KINDS + 2]
    return score + weights[at] + capturing * weights[at + 1] + touching * weights[at + 2]


@register_jitable
def seat_features(mine: Any, occupied: Any, size: int) -> Any:
    """Return the counts of `FEATURES` for a seat, and of the last two of `BY_TURN`."""
    if size == 8:
        return _seat_features(mine, occupied, _CORNERS_8, _INSIDE_8, _GEOMETRY_8)
    if size == 6:
        return _seat_features(mine, occupied, _CORNERS_6, _INSIDE_6, _GEOMETRY_6)
    return _seat_features(mine, occupied, _CORNERS_4, _INSIDE_4, _GEOMETRY_4)


@register_jitable
def _seat_features(mine: Any, occupied: Any, corners: Any, inside: Any, g: Any) -> Any:
    loose = mine & touching_cells(corners & ~occupied, g)  # next to an empty corner
    return (
        int64(popcount(loose & ~inside)),
        int64(popcount(loose & inside)),
        int64(popcount(_safe_balls(mine, occupied, g))),
        int64(popcount(capturing_cells(mine, occupied ^ mine, g))),
        int64(popcount(touching_cells(mine, g) & ~occupied)),
    )


@register_jitable
def safe_balls(mine: Any, occupied: Any, size: int) -> Any:
    """Return balls of a seat that nobody can roll any more, as a word; there may be more than it finds.

    A ball is safe that along each of the four axes has the board's edge on one side, or no empty cell on the whole line, or
    a safe ball of its own colour beside it.
    """
    if size == 8:
        return _safe_balls(mine, occupied, _GEOMETRY_8)
    if size == 6:
        return _safe_balls(mine, occupied, _GEOMETRY_6)
    return _safe_balls(mine, occupied, _GEOMETRY_4)


@register_jitable
def _safe_balls(mine: Any, occupied: Any, g: Any) -> Any:
    empty = g.board & ~occupied
    right, left, whole = g.not_first_column, g.not_last_column, g.board
    row = ~_on_lines(empty, g.row.step, right, left) | ~g.row.inner
    column = ~_on_lines(empty, g.column.step, whole, whole) | ~g.column.inner
    diagonal = ~_on_lines(empty, g.diagonal.step, right, left) | ~g.diagonal.inner
    antidiagonal = ~_on_lines(empty, g.antidiagonal.step, left, right) | ~g.antidiagonal.inner
    safe = mine & row & column & diagonal & antidiagonal
    grown = safe
    while grown:
        grown = mine & ~safe
        grown &= row | _beside(safe, g.row.step, right, left)
        grown &= column | _beside(safe, g.column.step, whole, whole)
        grown &= diagonal | _beside(safe, g.diagonal.step, right, left)
        grown &= antidiagonal | _beside(safe, g.antidiagonal.step, left, right)
        safe |= grown
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
        above |= (above << step) & up
        below |= (below >> step) & down
        up &= up << step
        down &= down >> step
        step = step + step
    return above | below
