"""Values of positions from n-tuple tables: two words come in, the logit of a seat's expected win share goes out.

An n-tuple is a few cells whose contents, each empty, the seat's own or any other ball, are the digits of a number. That number
picks a weight from the tuple's table, and the weights of all tuples add up to the logit. Each tuple lies on the board in all
eight symmetries, and all its placements share a table. As far as the number fits 16 bits, empty cells are told apart: up to 8
cells by whether the seat's rival, the other one that moves first, could capture there, up to 6 by whether the seat could, too.
So tables know what is about to happen in a place, which balls alone don't say.

Six more tables say what cells near each other can't, of the seat and of its rival: on how many cells each could capture; how
many balls each has while they are few, and how many the seat has, with the number of empty cells; how many balls of each can't
be rolled any more; how many empty cells each touches; and on how many the seat could capture of how many that it touches.

A position is valued after a turn. The tables differ by phase of the round and by how soon the seat moves again; with two
players only that of the seat that has just moved is kept, because the other's logit is the negative.

Legend: L lanes, one for each placement and some idle; W weights of all tables together; R seats that have tables of their
own, all of them or, with two players, 1.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, int64, uint16, uint64
from numba.extending import register_jitable

from rolit_env import rules
from rolit_env.bits import popcount
from rolit_env.errors import OptionError
from rolit_env.kernel import lean_kernel
from rolit_env.notation import parse_cell
from rolit_env.search.children import BEFORE, seat_children, turn_rows, whole
from rolit_env.search.position import geometry_of, lowest, number
from rolit_env.search.safe import safe_balls
from rolit_env.symmetry import cell_permutations

LANES = 96
"""Numbers of a position at most, L: three vectors of 32, whose loops are unrolled."""

FEATURE_LANES = 6
"""Lanes that come before those of the tuples, see `feature_numbers`."""

MOST = 31
"""More cells or balls than this count as so many."""

FEW = 7
"""More balls than this count as so many."""

FEATURE_TABLES = (1024, 4096, 1024, 1024, 1024, 4096)
"""Weights in the tables of those lanes: for two numbers up to `MOST`, or for the number of empty cells and 64 others."""

FEATURE_WEIGHTS = sum(FEATURE_TABLES)
"""Weights in all of them, which come first."""

BASES = (0, 6, 6, 6, 6, 6, 6, 4, 4, 3, 3)
"""How many contents a cell of a tuple may have, by the number of its cells: the most whose numbers fit 16 bits."""

FOURS = 16
"""Groups of four neighbouring bits in a word."""


class TupleSet(NamedTuple):
    """Tuples laid out on a board, ready for kernels; make it with `tuple_set`.

    Attributes:
        first: The number of each lane on an empty board, uint16 [L].
        digits: What the seat's balls on four neighbouring cells add to it, uint16 [FOURS, 16, L]; other balls add it twice.
        captures: What four cells on which the seat could capture take off, and those of its rival, uint16 [2, FOURS, 16, L].
        offsets: Where each lane's table begins, int64 [L]. Tables begin at 1: the weight 0 is that of idle lanes.
        lanes: Lanes in use.
        size: Weights of all tables, W.
    """

    first: npt.NDArray[np.uint16]
    digits: npt.NDArray[np.uint16]
    captures: npt.NDArray[np.uint16]
    offsets: npt.NDArray[np.int64]
    lanes: int
    size: int


class Numbers(NamedTuple):
    """What the value of a position writes to; make it with `make_numbers`.

    Attributes:
        found: The numbers of a position, uint16 [L].
        before: Those before the turn, without any captures, likewise.
        features: For each turn those of the features' lanes after it, uint16 [FEATURE_LANES, 64].
        captures: For each turn the cells on which the seat could capture after it, and those on which the rival could,
            uint64 [2, 64].
    """

    found: npt.NDArray[np.uint16]
    before: npt.NDArray[np.uint16]
    features: npt.NDArray[np.uint16]
    captures: npt.NDArray[np.uint64]


def make_numbers() -> Numbers:
    """Return new ones."""
    return Numbers(
        np.zeros(LANES, np.uint16),
        np.zeros(LANES, np.uint16),
        np.zeros((FEATURE_LANES, 64), np.uint16),
        np.zeros((2, 64), np.uint64),
    )


class Scratch(NamedTuple):
    """What the choice of a move writes to; make it with `make_scratch`.

    Attributes:
        rows: Where the words of a position stand after a turn, int64 [4].
        cells: Legal cells, uint64 [64].
        words: The positions after them, uint64 [4, 64].
        numbers: Of those positions.
    """

    rows: npt.NDArray[np.int64]
    cells: npt.NDArray[np.uint64]
    words: npt.NDArray[np.uint64]
    numbers: Numbers


def make_scratch(players: int) -> Scratch:
    """Return scratch for a number of players."""
    return Scratch(turn_rows(players), np.zeros(64, np.uint64), np.zeros((4, 64), np.uint64), make_numbers())


@cache
def placements(cells: tuple[int, ...], size: int) -> tuple[tuple[int, ...], ...]:
    """Return a tuple's cells in each symmetry in which they cover other cells than in those before."""
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for permutation in cell_permutations(size):
        placed = tuple(int(permutation[cell]) for cell in cells)
        found.setdefault(frozenset(placed), placed)
    return tuple(found.values())


@cache
def tuple_set(tuples: tuple[str, ...], size: int, bases: tuple[int, ...] = BASES) -> TupleSet:
    """Lay out tuples, each written as its cells (`"a1 b1 c1 d1"`), on a board.

    Args:
        tuples: The tuples.
        size: Side of the board.
        bases: As `BASES`, each 3, 4 or 6: fewer contents make smaller tables.

    Raises:
        ActionError: for what is no cell.
        OptionError: for a tuple without cells, with too many or one twice, or for more placements than there are lanes.
    """
    first, offsets = np.zeros(LANES, np.uint16), np.zeros(LANES, np.int64)
    digits, captures = np.zeros((FOURS, 16, LANES), np.uint16), np.zeros((2, FOURS, 16, LANES), np.uint16)
    offsets[:FEATURE_LANES] = 1 + np.cumsum((0, *FEATURE_TABLES[:-1]))
    lane, end = FEATURE_LANES, 1 + FEATURE_WEIGHTS
    for text in tuples:
        cells = tuple(parse_cell(name, size) for name in text.split())
        if not 1 <= len(set(cells)) == len(cells) < len(bases):
            raise OptionError(f"{text!r} is no tuple; allowed are 1 to {len(bases) - 1} different cells")
        base = bases[len(cells)]
        for placed in placements(cells, size):
            if lane == LANES:
                most = LANES - FEATURE_LANES
                raise OptionError(f"{len(tuples)} tuples have too many placements; allowed are {most} in all symmetries")
            offsets[lane] = end
            for place, cell in enumerate(placed):
                # Empty cells come first, those on which the rival could capture before the others, and those on which the
                # seat could before both; then an own ball, and another one.
                first[lane] += (base - 3) * base**place
                having = (base**place * (np.arange(16) >> cell % 4 & 1)).astype(np.uint16)
                digits[cell // 4, :, lane] += having
                if base == 6:
                    captures[0, cell // 4, :, lane] += 2 * having
                if base >= 4:
                    captures[1, cell // 4, :, lane] += having
            lane += 1
        end += base ** len(cells)
    return TupleSet(first, digits, captures, offsets, lane, end)


def mirror_twins(tuples: tuple[str, ...], size: int, bases: tuple[int, ...] = BASES) -> npt.NDArray[np.int64]:
    """Return for each weight that of the same contents mirrored, int64 [W]; itself where no symmetry keeps a tuple's cells.

    The arguments are those of `tuple_set`.

    Raises `OptionError` for a tuple that more than one mirror keeps.
    """
    end = 1 + FEATURE_WEIGHTS
    twins = [np.arange(end)]
    for text in tuples:
        cells = [parse_cell(name, size) for name in text.split()]
        images = {tuple(permutation[cells].tolist()) for permutation in cell_permutations(size)}
        kept = [image for image in images if set(image) == set(cells) and list(image) != cells]
        if len(kept) > 1:
            raise OptionError(f"the tuple {text!r} is its own image in too many ways; allowed are the board's mirrors, once")
        base = bases[len(cells)]
        numbers = np.arange(base ** len(cells))
        if kept:
            digits = [numbers // base**place % base for place in range(len(cells))]
            numbers = sum(digits[cells.index(cell)] * base**place for place, cell in enumerate(kept[0]))
        twins.append(end + numbers)
        end += len(numbers)
    return np.concatenate(twins)


@register_jitable
def find_numbers(own: Any, others: Any, tuples: TupleSet, numbers: Any) -> None:
    """Write the number of each tuple, uint16 [L], as if nobody could capture; `own`: the seat's balls, `others`: the rest."""
    for lane in range(LANES):
        found = tuples.first[lane]
        for four in range(FOURS):
            mine = int64((own >> uint64(4 * four)) & uint64(15))
            theirs = int64((others >> uint64(4 * four)) & uint64(15))
            found += tuples.digits[four, mine, lane] + uint16(2) * tuples.digits[four, theirs, lane]
        numbers[lane] = found


@register_jitable
def change_numbers(before: Any, up: Any, down: Any, tuples: TupleSet, numbers: Any) -> None:
    """Write the numbers, uint16 [L], when the digits of some cells of `before` rise by 1 and those of others fall by 1."""
    for lane in range(LANES):
        numbers[lane] = before[lane]
    changed = up | down
    while changed:
        shift = number(lowest(changed)) & uint64(60)
        more, less = int64((up >> shift) & uint64(15)), int64((down >> shift) & uint64(15))
        for lane in range(LANES):
            numbers[lane] += tuples.digits[shift >> uint64(2), more, lane] - tuples.digits[shift >> uint64(2), less, lane]
        changed &= ~(uint64(15) << shift)


@register_jitable
def take_captures(mine: Any, theirs: Any, tuples: TupleSet, numbers: Any) -> None:
    """Change the numbers, uint16 [L], by the cells on which the seat could capture, and those on which its rival could."""
    either = mine | theirs
    while either:
        shift = number(lowest(either)) & uint64(60)
        ours, others = int64((mine >> shift) & uint64(15)), int64((theirs >> shift) & uint64(15))
        for lane in range(LANES):
            four = shift >> uint64(2)
            numbers[lane] -= tuples.captures[0, four, ours, lane] + tuples.captures[1, four, others, lane]
        either &= ~(uint64(15) << shift)


@register_jitable(forceinline=True)
def captures_of(own: Any, rival: Any, occupied: Any, g: Any) -> Any:
    """Return the cells on which a seat could capture, and those on which its rival could, as words."""
    return rules.capturing_cells(own, occupied ^ own, g), rules.capturing_cells(rival, occupied ^ rival, g)


@register_jitable(forceinline=True)
def feature_numbers(own: Any, rival: Any, mine: Any, theirs: Any, occupied: Any, size: int, g: Any) -> Any:
    """Return the numbers of the first `FEATURE_LANES` lanes for a seat and its rival; `mine`, `theirs`: their captures."""
    balls, empty = popcount(own), uint64(size * size) - popcount(occupied)
    capturing, touching = popcount(mine), popcount(rules.touching_cells(own, g) & ~occupied)
    rival_touching = popcount(rules.touching_cells(rival, g) & ~occupied)
    return (
        _both(capturing, popcount(theirs), MOST),
        empty * uint64(64) + _both(balls, popcount(rival), FEW),
        _both(popcount(safe_balls(own, occupied, g)), popcount(safe_balls(rival, occupied, g)), MOST),
        _both(touching, rival_touching, MOST),
        _both(capturing, touching, MOST),
        empty * uint64(64) + min(balls, uint64(63)),
    )


@register_jitable(forceinline=True)
def _both(first: Any, second: Any, most: int) -> Any:
    """Return one number for two, each cut to `most`."""
    return min(first, uint64(most)) * uint64(most + 1) + min(second, uint64(most))


@register_jitable(fastmath={"reassoc", "nsz"})  # or the sum would be taken one by one
def add_up(numbers: Any, offsets: Any, weights: Any) -> Any:
    """Return the sum of the weights, float32 [W], that the numbers pick: a logit."""
    logit = float32(0)
    for lane in range(LANES):
        logit += weights[offsets[lane] + numbers[lane]]
    return logit


@register_jitable
def win_share(logit: Any) -> Any:
    """Return the win share whose logit it is."""
    return 1 / (1 + math.exp(-logit))


@register_jitable
def prepare(words: Any, count: Any, seat: int, rival: int, size: int, tuples: TupleSet, numbers: Numbers) -> None:
    """Write what `child_numbers` needs of all positions after one.

    Args:
        words: The positions, uint64 [3 or 4, 64], as `children` writes them.
        count: How many there are.
        seat: The row with the balls of the seat.
        rival: The row with those of the other seat that moves first.
        size: Side of the board.
        tuples: The tuples on the board.
        numbers: To write to.
    """
    last = words.shape[0] - 1
    features, mine, theirs = numbers.features, numbers.captures[0], numbers.captures[1]
    first, second, third, fourth, fifth, sixth = (
        features[0],
        features[1],
        features[2],
        features[3],
        features[4],
        features[5],
    )
    g = geometry_of(size)
    for at in range(whole(count)):  # in vector instructions
        occupied = words[0, at] | words[1, at] | words[2, at] | words[last, at]
        own, other = words[seat, at], words[rival, at]
        mine[at], theirs[at] = captures_of(own, other, occupied, g)
        first[at], second[at], third[at], fourth[at], fifth[at], sixth[at] = feature_numbers(
            own, other, mine[at], theirs[at], occupied, size, g
        )
    had = words[seat, BEFORE]
    filled = words[0, BEFORE] | words[1, BEFORE] | words[2, BEFORE] | words[last, BEFORE]
    find_numbers(had, filled ^ had, tuples, numbers.before)


@register_jitable
def child_logit(words: Any, child: Any, seat: int, tuples: TupleSet, weights: Any, numbers: Numbers) -> Any:
    """Return the logit in one of the positions that `prepare` has seen; `weights`: of the phase, for the seat, float32 [W]."""
    child_numbers(words, child, seat, tuples, numbers, numbers.found)
    return add_up(numbers.found, tuples.offsets, weights)


@register_jitable
def child_numbers(words: Any, child: Any, seat: int, tuples: TupleSet, numbers: Numbers, found: Any) -> None:
    """Write the numbers, uint16 [L], of one of the positions that `prepare` has seen."""
    last = words.shape[0] - 1
    had, own = words[seat, BEFORE], words[seat, child]
    filled = words[0, BEFORE] | words[1, BEFORE] | words[2, BEFORE] | words[last, BEFORE]
    move = (words[0, child] | words[1, child] | words[2, child] | words[last, child]) ^ filled
    change_numbers(numbers.before, move | (had & ~own), own & filled & ~had, tuples, found)
    if not move & own:
        change_numbers(found, move, uint64(0), tuples, found)
    take_captures(numbers.captures[0, child], numbers.captures[1, child], tuples, found)
    for lane in range(FEATURE_LANES):
        found[lane] = numbers.features[lane, child]


@register_jitable
def find_position(words: Any, seat: int, seats: int, size: int, tuples: TupleSet, numbers: Any) -> None:
    """Write all numbers, uint16 [L], of a position, uint64 [4] from the next mover's side.

    They are for the seat that moves `seat` turns from now; with two players (`seats` being 1) for the one that has just moved.
    """
    own = words[1] if seats == 1 else words[seat]
    rival = words[1] if seats > 1 and seat == 0 else words[0]
    occupied = words[0] | words[1] | words[2] | words[3]
    find_numbers(own, occupied ^ own, tuples, numbers)
    mine, theirs = captures_of(own, rival, occupied, geometry_of(size))
    take_captures(mine, theirs, tuples, numbers)
    numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5] = feature_numbers(
        own, rival, mine, theirs, occupied, size, geometry_of(size)
    )


@register_jitable
def best_child(view: Any, players: int, size: int, tuples: TupleSet, weights: Any, scratch: Scratch) -> Any:
    """Return the mover's cell with the highest logit after its turn, and that logit, looking no turn further.

    Args:
        view: The position from the mover's side, uint64 [4].
        players: Number of players.
        size: Side of the board.
        tuples: The tuples on the board.
        weights: Of the turn's phase, for the seat that has just moved, float32 [W].
        scratch: To work with.
    """
    count = seat_children(view[0], view[1], view[2], view[3], scratch.rows, size, scratch.cells, scratch.words)
    mine = players - 1
    prepare(scratch.words, count, mine, 0, size, tuples, scratch.numbers)
    best: Any = int64(0)
    highest: Any = float32(-np.inf)
    for child in range(count):
        logit = child_logit(scratch.words, child, mine, tuples, weights, scratch.numbers)
        if logit > highest:
            best, highest = child, logit
    return scratch.cells[best], highest


@lean_kernel
def choose_best(view: Any, players: int, size: int, tuples: TupleSet, weights: Any, scratch: Scratch, cells: Any) -> None:
    """Write the best cell of each game, int64 [B], for `view`, uint64 [B, 4], as `best_child` does."""
    for game in range(view.shape[0]):
        cell, _ = best_child(view[game], players, size, tuples, weights, scratch)
        cells[game] = int64(cell)
