"""Temporal-difference learning of n-tuple tables by self-play, compiled: tables come in, and are changed by whole rounds.

A round is played by all seats with one set of tables, each looking one turn ahead, after a few random turns and some
lopsided ones, and now and then at random. Then it is gone through backwards. Every seat's value after every turn moves
towards a mixture of the seat's next value and all later ones up to the result (TD(λ), Sutton 1988). Where the turn played
was not the best one, the best one's value stands in for what came of it, so that exploring teaches nothing wrong. In the
last turns of two players' rounds the exact value of a position takes that place too, so that tables learn how they should be
played, and slips there are not blamed on what went before. There, every other turn's value is learnt now and then as well:
a search meets them all, and a player that looks one turn ahead chooses among them.

Each weight has a rate of its own, by temporal coherence (Beal and Smith 1999): the sum of its errors by the sum of their
sizes, so that a weight whose errors cancel out comes to rest. Both sums fade slowly, because what was learnt in play that has
long been outgrown says little. What plays in the end is an average over time, which is steadier than the last weights.

Legend: H phases, R seats with tables of their own, W weights (see `rolit_env.search.ntuple`), P players, n side.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, int64, uint64
from numba.extending import register_jitable

from rolit_env.bits import Words, draw, popcount, select
from rolit_env.kernel import lean_kernel
from rolit_env.search.ntuple import (
    LANES,
    TupleSet,
    add_up,
    best_child,
    find_position,
    make_scratch,
    win_share,
)
from rolit_env.search.playouts import share_round
from rolit_env.search.position import after_turn, legal_cells
from rolit_env.search.solver import make_memory, solve_pair

Floats = npt.NDArray[np.float32]


class Tables(NamedTuple):
    """What is learnt.

    Attributes:
        weights: The weights, float32 [H, R, W].
        errors: The sum of each weight's errors, and that of their sizes, float32 [H, R, W, 2].
    """

    weights: Floats
    errors: Floats


class Rules(NamedTuple):
    """How rounds are played and learnt from; the numbers that kernels need of a run's settings.

    Attributes:
        size: Side of the board, n.
        players: Number of players, P.
        opening_turns: The most random turns that a round starts with.
        lopsided: The part of rounds in which one seat then takes the most balls that it can, and the others the fewest.
        explore: Chance of a random turn after those.
        td_lambda: λ.
        learning_rate: How far the logit of a position moves for an error of 1 when all its weights are new.
        exact: With so many empty cells, what is won under best play of both is known, and stands in for what came of the
            turns before. For two players; 0 for never.
        siblings: Chance to learn, there, what comes of the turns that were not played, too.
        fading: What is kept of a weight's sums of errors each time that the threads' tables are put together and have met it.
    """

    size: int
    players: int
    opening_turns: int
    lopsided: float
    explore: float
    td_lambda: float
    learning_rate: float
    exact: int
    siblings: float
    fading: float


class Course(NamedTuple):
    """What stays the same over a run's rounds.

    Attributes:
        tuples: The tuples on the board.
        twins: For each weight the one of the mirrored contents, which stays equal, int64 [W] (see `mirror_twins`).
        phases: The phase of each turn of a round, int64 [n·n − 4].
        starts: The start of a round from the first mover's side, for each colour that may be first, uint64 [·, 4].
        rules: How to play and learn.
    """

    tuples: TupleSet
    twins: npt.NDArray[np.int64]
    phases: npt.NDArray[np.int64]
    starts: Words
    rules: Rules


class Workers:
    """Threads that play side by side, each learning on a copy of the tables; then what they learnt is put together.

    A table shared by threads would be slower, and what is learnt would depend on their timing.

    Args:
        tables: Changed in place by `play`, and by nobody else.
        average: The weights averaged over time, float32 [H, R, W], likewise.
        course: What the rounds have in common.
        states: The state of each thread's generator, uint64 [threads, 1], changed in place.
    """

    def __init__(self, tables: Tables, average: Floats, course: Course, states: Words) -> None:
        self._tables, self._average, self._course, self._states = tables, average, course, states
        self._copies = Tables(*(np.stack([table] * len(states)) for table in tables))  # made once: fresh memory is slow
        self._workspaces = [make_workspace(tables, course) for _ in states]
        self._pool = ThreadPoolExecutor(len(states))

    def play(self, rounds: int, averaging: float = 1) -> float:
        """Play so many rounds in each thread, and return the mean squared error of the values met.

        Args:
            rounds: Of each thread.
            averaging: The part of the new weights in their average.
        """
        weights, errors = self._copies
        played = self._pool.map(
            lambda worker: play_and_learn(
                Tables(weights[worker], errors[worker]),
                self._course,
                rounds,
                self._states[worker],
                self._workspaces[worker],
            ),
            range(len(self._states)),
        )
        mean = sum(played) / len(self._states)
        phases, seats, _ = self._tables.weights.shape
        tables = [(phase, seat) for phase in range(phases) for seat in range(seats)]
        tables_and_rules = self._tables, self._average, self._copies, self._course.rules, averaging
        list(self._pool.map(lambda at: _merge(*tables_and_rules, *at), tables))
        return mean


@lean_kernel
def _merge(tables: Tables, average: Floats, copies: Tables, rules: Rules, averaging: float, phase: int, seat: int) -> None:
    """Move one table by what its copies, with an axis for the threads in front, have learnt, and make them alike again.

    A weight moves by the mean of its moves, each counted by the errors behind it: a sum would go too far where all threads
    have learnt the same, the further the more threads there are.
    """
    weights, errors, mean = tables.weights[phase, seat], tables.errors[phase, seat], average[phase, seat]
    fading, averaging = float32(rules.fading), float32(averaging)
    for at in range(weights.shape[0]):
        weight, error, size = weights[at], errors[at, 0], errors[at, 1]
        moved, met, new_error, new_size = float32(0), float32(0), error, size
        for copy in range(copies.weights.shape[0]):
            grown = copies.errors[copy, phase, seat, at, 1] - size
            moved += grown * (copies.weights[copy, phase, seat, at] - weight)
            met += grown
            new_error += copies.errors[copy, phase, seat, at, 0] - error
            new_size += grown
        if met > 0:  # what was not met keeps all it knows
            weight += moved / met
            new_error *= fading
            new_size *= fading
            weights[at], errors[at, 0], errors[at, 1] = weight, new_error, new_size
            for copy in range(copies.weights.shape[0]):
                copies.weights[copy, phase, seat, at] = weight
                copies.errors[copy, phase, seat, at, 0] = new_error
                copies.errors[copy, phase, seat, at, 1] = new_size
        mean[at] += averaging * (weight - mean[at])


@register_jitable
def _random_part(state: Any) -> Any:
    """Draw a number from 0 to 1, 1 excluded."""
    return (draw(state) >> uint64(11)) / float(2**53)


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
        values[seat] = win_share(add_up(numbers[seat], tuples.offsets, weights[seat]))


@register_jitable
def _learn(weights: Any, errors: Any, numbers: Any, tuples: TupleSet, twins: Any, error: Any, rate: Any) -> None:
    """Move the weights that a position's numbers pick, and their mirror twins, by the error."""
    for lane in range(tuples.lanes):
        at = tuples.offsets[lane] + numbers[lane]
        size = errors[at, 1]
        coherence = abs(errors[at, 0]) / size if size > 0 else float32(1)
        weights[at] += rate * coherence * error
        errors[at, 0] += error
        errors[at, 1] += abs(error)
        twin = twins[at]
        if twin != at:
            weights[twin], errors[twin, 0], errors[twin, 1] = weights[at], errors[at, 0], errors[at, 1]


@register_jitable
def _solve(words: Any, seat: Any, size: int, memory: Any, targets: Any) -> None:
    """Write each seat's part of a round of two under best play, float64 [2]; the words are from the side of `seat`."""
    own, other, neutral = words[0], words[1], words[2] | words[3]
    balls = int64(solve_pair(own, other, neutral, int64(-1), int64(1), int64(size), memory))
    targets[seat] = 0.5 + 0.5 * max(min(balls, 1), -1)
    targets[1 - seat] = 1 - targets[seat]


class Workspace(NamedTuple):
    """What a thread writes to while it plays a round and learns from it; make it with `make_workspace`.

    Attributes:
        memory: Of the exact solver.
        scratch: Of the choice of moves.
        numbers: What picks the weights of each position of the round, uint16 [n·n − 4, R, L].
        values: Their values, float64 [n·n − 4, R].
        best_values: After a turn that was not the best one, the values that the best one would have led to, likewise.
        strayed: Where that was so, bool [n·n − 4].
        targets: What each seat's values move towards, float64 [P].
        solved: What each seat gets under best play after each turn, where it is known, float64 [n·n − 4, P].
        shares: What each seat got, float64 [1, P].
        words: The position, from the mover's side, uint64 [4].
        end: The last one, uint64 [4, 1].
        other_words: Another one, uint64 [4].
        other_numbers: Its numbers, uint16 [R, L].
        other_values: Its values, float64 [R].
    """

    memory: Any
    scratch: Any
    numbers: Any
    values: Any
    best_values: Any
    strayed: Any
    targets: Any
    solved: Any
    shares: Any
    words: Any
    end: Any
    other_words: Any
    other_numbers: Any
    other_values: Any


def make_workspace(tables: Tables, course: Course) -> Workspace:
    """Return a new one."""
    plies, players, seats = len(course.phases), course.rules.players, tables.weights.shape[1]
    return Workspace(
        memory=make_memory(),
        scratch=make_scratch(players),
        numbers=np.zeros((plies, seats, LANES), np.uint16),
        values=np.zeros((plies, seats)),
        best_values=np.zeros((plies, seats)),
        strayed=np.zeros(plies, np.bool_),
        targets=np.zeros(players),
        solved=np.zeros((plies, players)),
        shares=np.zeros((1, players)),
        words=np.zeros(4, np.uint64),
        end=np.zeros((4, 1), np.uint64),
        other_words=np.zeros(4, np.uint64),
        other_numbers=np.zeros((seats, LANES), np.uint16),
        other_values=np.zeros(seats),
    )


@lean_kernel
def play_and_learn(tables: Tables, course: Course, rounds: int, state: Words, workspace: Workspace) -> float:
    """Play rounds, learn from each of them in turn, and return the mean squared error of the values met.

    Args:
        tables: Changed in place.
        course: What the rounds have in common.
        rounds: Rounds to play.
        state: The state of the generator, uint64 [1], changed in place.
        workspace: Holds the last round in the end.
    """
    squares = 0.0
    for _ in range(rounds):
        _play_round(tables, course, state, workspace)
        squares += _learn_round(tables, course, workspace)
    return squares / (rounds * workspace.values.size)


@register_jitable
def _most_or_fewest(words: Any, legal: Any, most: Any, rules: Rules, after: Any) -> Any:
    """Return those of the legal cells, as a word, that leave the mover with the most balls, or with the fewest."""
    kept, top = uint64(0), int64(-65)
    while legal:
        move = legal & (~legal + uint64(1))
        legal ^= move
        _after(words, select(move, uint64(0)), rules, after)
        balls = int64(popcount(after[rules.players - 1]))  # from the next mover's side the last seat is the one that moved
        score = balls if most else -balls
        if score > top:
            kept, top = uint64(0), score
        if score == top:
            kept |= move
    return kept


@register_jitable
def _learn_siblings(tables: Tables, course: Course, ply: Any, played: Any, workspace: Workspace) -> None:
    """Learn the exact values after two players' other turns, which `best_child` has just left in the scratch."""
    rules, words, after, scratch = course.rules, workspace.words, workspace.other_words, workspace.scratch
    weights, errors = tables.weights[course.phases[ply]], tables.errors[course.phases[ply], 0]
    rate = float32(rules.learning_rate / course.tuples.lanes)
    for child in range(popcount(legal_cells(words[0], words[1] | words[2] | words[3], rules.size))):
        if scratch.cells[child] == played:
            continue
        for row in range(4):
            after[row] = scratch.words[row, child]
        _find_values(after, rules.size, course.tuples, weights, workspace.other_numbers, workspace.other_values)
        _solve(after, (ply + 1) % 2, rules.size, workspace.memory, workspace.targets)
        error = float32(workspace.targets[ply % 2] - workspace.other_values[0])
        _learn(weights[0], errors, workspace.other_numbers[0], course.tuples, course.twins, error, rate)


@register_jitable
def _play_round(tables: Tables, course: Course, state: Words, workspace: Workspace) -> None:
    tuples, phases, rules, words = course.tuples, course.phases, course.rules, workspace.words
    plies, players, seats = phases.shape[0], rules.players, tables.weights.shape[1]
    start = course.starts[int64(_random_part(state) * course.starts.shape[0])]
    for row in range(4):
        words[row] = start[row]
    opening = int64(_random_part(state) * (rules.opening_turns + 1))
    lopsided, taker = opening, int64(_random_part(state) * players)
    if _random_part(state) < rules.lopsided:
        lopsided += int64(_random_part(state) * plies / 2)
    for ply in range(plies):
        weights = tables.weights[phases[ply]]
        cell, _ = best_child(words, players, rules.size, tuples, weights[seats - 1], workspace.scratch)
        workspace.strayed[ply] = False
        if ply < lopsided or _random_part(state) < rules.explore:
            legal = legal_cells(words[0], words[1] | words[2] | words[3], rules.size)
            if opening <= ply < lopsided:
                legal = _most_or_fewest(words, legal, ply % players == taker, rules, workspace.other_words)
            drawn = select(legal, uint64(_random_part(state) * popcount(legal)))
            if drawn != cell:
                workspace.strayed[ply] = True
                _after(words, cell, rules, workspace.other_words)
                _find_values(
                    workspace.other_words, rules.size, tuples, weights, workspace.other_numbers, workspace.best_values[ply]
                )
                cell = drawn
        if rules.exact and ply >= plies - 1 - rules.exact and _random_part(state) < rules.siblings:
            _learn_siblings(tables, course, ply, cell, workspace)
        _after(words, cell, rules, words)
        _find_values(words, rules.size, tuples, weights, workspace.numbers[ply], workspace.values[ply])
        if rules.exact and ply >= plies - 1 - rules.exact:
            _solve(words, (ply + 1) % players, rules.size, workspace.memory, workspace.solved[ply])
    for row in range(4):
        workspace.end[row, 0] = words[row]
    share_round(workspace.end, 0, players, workspace.shares, 0)


@register_jitable
def _learn_round(tables: Tables, course: Course, workspace: Workspace) -> Any:
    """Go through a round backwards, and return the sum of squared errors."""
    tuples, phases, rules, targets = course.tuples, course.phases, course.rules, workspace.targets
    plies, players, seats = phases.shape[0], rules.players, tables.weights.shape[1]
    rate = float32(rules.learning_rate / tuples.lanes)
    squares = 0.0
    for turn in range(players):
        targets[(plies + turn) % players] = workspace.shares[0, turn]
    for ply in range(plies - 1, -1, -1):
        phase = phases[ply]
        known = ply == plies - 1
        if rules.exact and ply >= plies - 1 - rules.exact:
            known = True
            for seat in range(players):
                targets[seat] = workspace.solved[ply, seat]
        for turn in range(seats):
            seat = ply % 2 if seats == 1 else (ply + 1 + turn) % players
            value = workspace.values[ply, turn]
            error = targets[seat] - value
            squares += error * error
            weights, errors = tables.weights[phase, turn], tables.errors[phase, turn]
            _learn(weights, errors, workspace.numbers[ply, turn], tuples, course.twins, float32(error), rate)
            if workspace.strayed[ply]:
                targets[seat] = workspace.best_values[ply, turn]
            elif not known:  # an estimate would only blur what is known
                targets[seat] = rules.td_lambda * targets[seat] + (1 - rules.td_lambda) * value
        if seats == 1:
            targets[1 - ply % 2] = 1 - targets[ply % 2]
    return squares
