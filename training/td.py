"""Temporal-difference learning of n-tuple tables by self-play, compiled: tables come in, and are changed by whole rounds.

A round is played by all seats with one set of tables, each looking one turn ahead, now and then at random. Then it is gone
through backwards. Every seat's value after every turn moves towards a mixture of the seat's next value and all later ones up
to the result (TD(λ), Sutton 1988). Where the turn played was not the best one, the best one's value stands in for what came
of it, so that exploring teaches nothing wrong. Near the end of two players' rounds the exact value of a position takes that
place too, so that slips in the last turns are not blamed on what went before.

Each weight has a rate of its own, by temporal coherence (Beal and Smith 1999): the sum of its errors by the sum of their
sizes, so that a weight whose errors cancel out comes to rest.

Legend: H phases, R seats with tables of their own, W weights (see `rolit_env.search.ntuple`), P players, n side.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, int64, uint64
from numba.extending import register_jitable

from rolit_env.bits import Words, draw, popcount, select
from rolit_env.errors import OptionError
from rolit_env.kernel import kernel
from rolit_env.notation import parse_cell
from rolit_env.search.ntuple import FEATURE_WEIGHTS, LANES, TupleSet, add_up, best_cell, find_position
from rolit_env.search.playouts import share_round
from rolit_env.search.position import after_turn, legal_cells
from rolit_env.search.solver import make_memory, solve_pair
from rolit_env.symmetry import cell_permutations

Floats = npt.NDArray[np.float32]


class Tables(NamedTuple):
    """What is learnt, each float32 [H, R, W].

    Attributes:
        weights: The weights.
        errors: The sum of each weight's errors.
        sizes: The sum of their sizes.
    """

    weights: Floats
    errors: Floats
    sizes: Floats


class Rules(NamedTuple):
    """How rounds are played and learnt from; the numbers that kernels need of a run's settings.

    Attributes:
        size: Side of the board, n.
        players: Number of players, P.
        opening_turns: The most random turns that a round starts with.
        explore: Chance of a random turn after those.
        td_lambda: λ.
        learning_rate: Part of an error that a turn's weights together take in, at most.
        exact: With so many empty cells, what is won under best play of both is known, and stands in for what came of the
            turns before. For two players; 0 for never.
    """

    size: int
    players: int
    opening_turns: int
    explore: float
    td_lambda: float
    learning_rate: float
    exact: int


class Course(NamedTuple):
    """What stays the same over a run's rounds.

    Attributes:
        tuples: The tuples on the board.
        twins: For each weight the one of the mirrored contents, which stays equal, int64 [W] (see `mirror_twins`).
        phases: The phase of each turn of a round, int64 [n·n − 4].
        start: The start of a round from the first mover's side, uint64 [4].
        rules: How to play and learn.
    """

    tuples: TupleSet
    twins: npt.NDArray[np.int64]
    phases: npt.NDArray[np.int64]
    start: Words
    rules: Rules


def mirror_twins(tuples: tuple[str, ...], size: int) -> npt.NDArray[np.int64]:
    """Return for each weight that of the same contents mirrored, int64 [W]; itself where no symmetry keeps a tuple's cells.

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
        numbers = np.arange(3 ** len(cells))
        if kept:
            digits = [numbers // 3**place % 3 for place in range(len(cells))]
            numbers = sum(digits[cells.index(cell)] * 3**place for place, cell in enumerate(kept[0]))
        twins.append(end + numbers)
        end += len(numbers)
    return np.concatenate(twins)


class Workers:
    """Threads that play side by side, each learning on a copy of the tables; then what they learnt is summed up.

    A table shared by threads would be slower, and what is learnt would depend on their timing.

    Args:
        tables: Changed in place by `play`, and by nobody else.
        course: What the rounds have in common.
        states: The state of each thread's generator, uint64 [threads, 1], changed in place.
    """

    def __init__(self, tables: Tables, course: Course, states: Words) -> None:
        self._tables, self._course, self._states = tables, course, states
        self._copies = [np.stack([table] * len(states)) for table in tables]  # made once: fresh memory is slow
        self._memories = [make_memory() for _ in states]
        self._pool = ThreadPoolExecutor(len(states))

    def play(self, rounds: int) -> float:
        """Play so many rounds in each thread, and return the mean squared error of the values met."""
        workers = range(len(self._states))
        errors = self._pool.map(
            lambda worker: play_rounds(
                Tables(*(copies[worker] for copies in self._copies)),
                self._course,
                rounds,
                self._states[worker],
                self._memories[worker],
            ),
            workers,
        )
        mean = sum(errors) / len(workers)
        for table, copies in zip(self._tables, self._copies, strict=True):
            flat, copies = table.reshape(-1), copies.reshape(len(workers), -1)
            ends = np.linspace(0, flat.size, len(workers) + 1).astype(np.int64)
            list(self._pool.map(_sum_up, [flat] * len(workers), [copies] * len(workers), ends[:-1], ends[1:]))
        return mean


@kernel
def _sum_up(table: Floats, copies: Floats, first: int, last: int) -> None:
    """Add to a part of a table, float32 [N], what its copies, [threads, N], have learnt, and make them alike again."""
    for at in range(first, last):
        old = table[at]
        new = old
        for copy in range(copies.shape[0]):
            new += copies[copy, at] - old
        table[at] = new
        for copy in range(copies.shape[0]):
            copies[copy, at] = new


@register_jitable
def _random_part(state: Any) -> Any:
    """Draw a number from 0 to 1, 1 excluded."""
    return (draw(state) >> uint64(11)) / float(2**53)


@register_jitable
def _share(logit: Any) -> Any:
    return 1 / (1 + math.exp(-logit))


@register_jitable
def _after(words: Any, cell: Any, rules: Rules, out: Any) -> None:
    out[0], out[1], out[2], out[3] = after_turn(
        cell, words[0], words[1], words[2], words[3], int64(rules.players), int64(rules.size)
    )


@register_jitable
def _find_values(words: Any, size: int, tuples: TupleSet, weights: Any, numbers: Any, values: Any) -> None:
    """Write the numbers, uint16 [R, L], and the values, float64 [R], of all seats with tables."""
    seats = weights.shape[0]
    for seat in range(seats):
        find_position(words, seat, seats, size, tuples, numbers[seat])
        values[seat] = _share(add_up(numbers[seat], tuples.offsets, weights[seat]))


@register_jitable
def _learn(tables: Any, numbers: Any, tuples: TupleSet, twins: Any, error: Any, rate: Any) -> None:
    """Move the weights that a position's numbers pick, and their mirror twins, by the error."""
    weights, errors, sizes = tables
    for lane in range(tuples.lanes):
        at = tuples.offsets[lane] + numbers[lane]
        size = sizes[at]
        coherence = abs(errors[at]) / size if size > 0 else float32(1)
        weights[at] += rate * coherence * error
        errors[at] += error
        sizes[at] += abs(error)
        twin = twins[at]
        weights[twin], errors[twin], sizes[twin] = weights[at], errors[at], sizes[at]


@register_jitable
def _solve(words: Any, seat: Any, size: int, memory: Any, targets: Any) -> None:
    """Write each seat's part of a round of two under best play, float64 [2]; the words are from the side of `seat`."""
    own, other, neutral = words[0], words[1], words[2] | words[3]
    balls = int64(solve_pair(own, other, neutral, int64(-1), int64(1), int64(size), memory))
    targets[seat] = 0.5 + 0.5 * max(min(balls, 1), -1)
    targets[1 - seat] = 1 - targets[seat]


@kernel
def play_rounds(
    tables: Tables,
    course: Course,
    rounds: int,
    state: Words,
    memory: Words,
) -> float:
    """Play rounds, learn from each of them in turn, and return the mean squared error of the values met.

    Args:
        tables: Changed in place.
        course: What the rounds have in common.
        rounds: Rounds to play.
        state: The state of the generator, uint64 [1], changed in place.
        memory: Of the exact solver.
    """
    tuples, twins, phases, start, rules = course
    plies, players, seats = phases.shape[0], rules.players, tables.weights.shape[1]
    words, best = np.empty(4, np.uint64), np.empty(4, np.uint64)
    numbers = np.empty((plies, seats, LANES), np.uint16)
    values, best_values = np.empty((plies, seats)), np.empty((plies, seats))
    before, scratch = np.empty(LANES, np.uint16), np.empty((seats, LANES), np.uint16)
    strayed = np.empty(plies, np.bool_)
    targets, solved, shares = np.empty(players), np.empty(players), np.empty((1, players))
    rate = float32(rules.learning_rate / tuples.lanes)
    squares = 0.0
    for _ in range(rounds):
        words[:] = start
        opening = int64(_random_part(state) * (rules.opening_turns + 1))
        for ply in range(plies):
            weights = tables.weights[phases[ply]]
            others = words[1] | words[2] | words[3]
            cell, _ = best_cell(words[0], words[1], others, rules.size, tuples, weights[seats - 1], before, scratch[0])
            strayed[ply] = False
            if ply < opening or _random_part(state) < rules.explore:
                legal = legal_cells(words[0], others, rules.size)
                drawn = select(legal, uint64(_random_part(state) * popcount(legal)))
                if drawn != cell:
                    strayed[ply] = True
                    _after(words, cell, rules, best)
                    _find_values(best, rules.size, tuples, weights, scratch, best_values[ply])
                    cell = drawn
            _after(words, cell, rules, words)
            _find_values(words, rules.size, tuples, weights, numbers[ply], values[ply])
            if rules.exact and ply == plies - 1 - rules.exact:
                _solve(words, (ply + 1) % players, rules.size, memory, solved)
        share_round(words.reshape(4, 1), 0, players, shares, 0)
        for turn in range(players):
            targets[(plies + turn) % players] = shares[0, turn]
        for ply in range(plies - 1, -1, -1):
            phase = phases[ply]
            if rules.exact and ply == plies - 1 - rules.exact:
                targets[:] = solved
            for turn in range(seats):
                seat = ply % 2 if seats == 1 else (ply + 1 + turn) % players
                error = targets[seat] - values[ply, turn]
                squares += error * error
                learnt = (tables.weights[phase, turn], tables.errors[phase, turn], tables.sizes[phase, turn])
                _learn(learnt, numbers[ply, turn], tuples, twins, float32(error), rate)
                if strayed[ply]:
                    targets[seat] = best_values[ply, turn]
                else:
                    targets[seat] = rules.td_lambda * targets[seat] + (1 - rules.td_lambda) * values[ply, turn]
            if seats == 1:
                targets[1 - ply % 2] = 1 - targets[ply % 2]
    return squares / (rounds * plies * seats)
