"""The value of a position that is not at its end: positions from the mover's side come in, estimates go out, in ints.

Two functions are all that searches know: `pair_value` for two players, `seat_values` for more, each with a twin that takes
all positions after one at once, in vector instructions, and another that only guesses. What they go by is an `Evaluation`,
arrays that a search passes on as they are.
Values are to be compared with each other only, and only at one and the same number of empty cells; results at the end of a
round are another thing, and the two never meet in one search.

The evaluation made by hand adds up, for each seat, weights for what it has on the board: balls by kind of cell, those on
cells next to a corner once more while the corner is empty, balls that can't be rolled any more, cells where it could capture,
and empty cells next to its balls. Weights depend on the number of empty cells; `python -m training.tune` finds them.

The other kinds are learnt: tables of n-tuples (see `ntuple`), which `python -m training.ntuple` fills, and networks (see
`network`). Their values take many times as long, so that searches put moves in order by hand, and value leaves by tables one
at a time until one suffices. A search of two players can also leave turns out that look bad, to itself or to a policy.

Legend: K positions, P players.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, int64
from numba.extending import register_jitable

from rolit_env.bits import Words, cells_of, popcount
from rolit_env.kernel import lean_kernel
from rolit_env.notation import cell_name
from rolit_env.rules import Geometry, capturing_cells, touching_cells, word_geometry
from rolit_env.search.children import whole
from rolit_env.search.network import Network, answer_position, answer_turns
from rolit_env.search.ntuple import (
    Numbers,
    TupleSet,
    add_up,
    child_logit,
    find_position,
    make_numbers,
    prepare,
    tuple_set,
    win_share,
)
from rolit_env.search.safe import safe_balls
from rolit_env.search.weights import WEIGHTS

KINDS = 10
"""Kinds of cells on 8x8; smaller boards have fewer."""

FEATURES = ("edge", "inside", "safe")
"""What is counted for a seat beside kinds of cells: balls on an edge and inside, next to an empty corner; safe balls."""

BY_TURN = ("turn", "capturing", "touching")
"""What weighs by how soon the seat moves: a constant, its capturing cells, and the empty cells next to its balls."""

COLUMNS = KINDS + len(FEATURES) + 4 * len(BY_TURN)

SCALE = 1000
"""Points in a unit of the logistic function: at `SCALE` points ahead, two players win e times as often as they lose."""

SHARE = 1_000_000
"""A whole win in the values of `seat_values`, and a payoff of 1 in what a network says to two players."""


class Evaluation(NamedTuple):
    """What the functions below go by; searches pass it on as it is.

    Attributes:
        weights: Of what is made by hand, int64 [n·n + 1, COLUMNS], a row for each number of empty cells: the weights of all
            kinds of cells, of `FEATURES`, and of `BY_TURN` for the mover, for the next seat and so on.
        tables: Those of n-tuples, float32 [H, R, W], by which positions are valued if there are any (H > 0).
        tuples: How they lie on the board.
        phases: The phase of a position with so many empty cells, int64 [n·n + 1].
        numbers: What the value of a position writes to: searches in different threads need an evaluation each.
        network: Values positions if there is one. Kernels are compiled once more then, as for a policy, because handing on
            arrays that are not needed takes time.
        policy: The network that says which turns look best; without one the values of the positions after them do.
        width: Turns of a position that a search of two players looks at, the last turn but: those that look best; 0 for all.
    """

    weights: Any
    tables: Any
    tuples: TupleSet
    phases: Any
    numbers: Numbers
    network: Network | None
    policy: Network | None
    width: int

    def fresh(self) -> Evaluation:
        """Return the same for another search."""
        network, policy = (asked and asked.fresh() for asked in (self.network, self.policy))
        return self._replace(numbers=make_numbers(), network=network, policy=policy)


@cache
def hand_made(size: int, players: int) -> Evaluation:
    """Return the evaluation by hand for a variant. Its arrays are shared: read them, never write."""
    knots = {name: values for name, *values in map(str.split, WEIGHTS[size, players].strip().splitlines())}
    columns = [knots[name] for name in column_names(size, players)]
    return from_knots(np.array(columns, np.float64).T, size, players)


def column_names(size: int, players: int) -> list[str]:
    """Return the names of the weights of a variant: the first cell of each kind, `FEATURES`, and `BY_TURN` by turn."""
    kinds = [cell_name(next(cells_of(kind)), size) for kind in cell_kinds(size).tolist() if kind]
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
    return Evaluation(
        weights,
        np.zeros((0, 1, 1), np.float32),
        tuple_set((), size),
        np.zeros(size * size + 1, np.int64),
        make_numbers(),
        None,
        None,
        0,
    )


def learnt(
    tables: npt.NDArray[np.float32], tuples: TupleSet, phase_of_turn: npt.NDArray[np.int64], size: int, players: int
) -> Evaluation:
    """Return an evaluation by n-tuple tables, float32 [H, R, W], with the phase of each turn of a round, int64 [n·n − 4]."""
    # The last turn left no cell empty, the one before left one; positions before any turn count to the first.
    phases = np.pad(phase_of_turn[::-1], (0, size * size + 1 - len(phase_of_turn)), mode="edge")
    by_hand = hand_made(size, players)
    return by_hand._replace(tables=tables, tuples=tuples, phases=phases, numbers=make_numbers())


def asking(network: Network, size: int, players: int) -> Evaluation:
    """Return an evaluation by a network."""
    return hand_made(size, players)._replace(network=network)


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


class _Board(NamedTuple):
    """What is counted on boards of one size, as constants."""

    kinds: tuple[np.uint64, ...]
    corners: np.uint64
    inside: np.uint64
    g: Geometry


def _board(size: int) -> _Board:
    kinds = tuple(cell_kinds(size))
    inside = next(kind for kind in kinds if int(kind) >> size + 1 & 1)
    return _Board(kinds, kinds[0], inside, word_geometry(size))


_BOARD_8, _BOARD_6, _BOARD_4 = _board(8), _board(6), _board(4)


@register_jitable
def is_dear(evaluation: Any) -> Any:
    """Return whether values take so long that guesses are better for the order of moves."""
    return evaluation.network is not None or evaluation.tables.shape[0] > 0


@register_jitable
def _logit(own: Any, following: Any, third: Any, fourth: Any, seat: Any, size: int, evaluation: Any) -> Any:
    """Return the logit, by n-tuples, of the seat that moves `seat` turns from now; with two players of that just moved."""
    tables = evaluation.tables[evaluation.phases[size * size - int64(popcount(own | following | third | fourth))]]
    find_position((own, following, third, fourth), seat, tables.shape[0], size, evaluation.tuples, evaluation.numbers.found)
    return add_up(evaluation.numbers.found, evaluation.tuples.offsets, tables[seat])


@register_jitable
def seat_share(own: Any, following: Any, third: Any, fourth: Any, seat: Any, players: int, size: int, evaluation: Any) -> Any:
    """Return what `seat_values` has for a seat by n-tuples or by a network, int64."""
    if evaluation.network is not None:
        payoffs = _payoffs(own, following, third, fourth, players, size, evaluation.network)
        return _network_share(payoffs[seat], players)
    return int64(SHARE * win_share(_logit(own, following, third, fourth, seat, size, evaluation)))


@register_jitable
def _payoffs(own: Any, following: Any, third: Any, fourth: Any, players: int, size: int, network: Any) -> Any:
    """Return the payoffs that a network expects, four float32, the mover's first."""
    if network is None:
        return float32(0), float32(0), float32(0), float32(0)
    answer_position((own, following, third, fourth), players, size, network)
    return network.values[0], network.values[1], network.values[2], network.values[3]


@register_jitable(forceinline=True)
def _network_share(payoff: Any, players: int) -> Any:
    return int64(SHARE * (1 + payoff * (players - 1)) / players)


@register_jitable
def pair_value(own: Any, other: Any, third: Any, fourth: Any, size: int, evaluation: Any) -> Any:
    """Return the value of a position for the mover of two, int64; for the other it is the negative.

    Divided by `SCALE` it is the logit of the win share that the mover can expect, or, divided by `SHARE`, the payoff by a
    network. Neutral balls may be in either word.
    """
    if evaluation.network is not None:
        return int64(SHARE * _payoffs(own, other, third, fourth, 2, size, evaluation.network)[0])
    if evaluation.tables.shape[0]:
        return int64(-SCALE * _logit(own, other, third, fourth, 0, size, evaluation))
    weights = evaluation.weights[size * size - int64(popcount(own | other | third | fourth))]
    if size == 8:
        return _pair_value(own, other, third | fourth, weights, _BOARD_8)
    if size == 6:
        return _pair_value(own, other, third | fourth, weights, _BOARD_6)
    return _pair_value(own, other, third | fourth, weights, _BOARD_4)


@lean_kernel
def pair_values(words: Any, count: Any, size: int, evaluation: Any, values: Any) -> None:
    """Write `pair_value` of all positions after one.

    Args:
        words: Balls of the mover, of the other, and neutral ones, uint64 [3, 64], as `pair_children` writes them.
        count: How many to value.
        size: Side of the board.
        evaluation: To go by.
        values: int64 [64].
    """
    if not is_dear(evaluation):
        pair_guesses(words, count, size, evaluation, values)
        return
    if evaluation.network is not None:
        _ask(words, count, size, False, evaluation.network, values)
        return
    prepare_pair(words, count, size, evaluation)
    for at in range(count):
        values[at] = prepared_value(words, at, size, evaluation)


@register_jitable
def prepare_pair(words: Any, count: Any, size: int, evaluation: Any) -> None:
    """Prepare n-tuples for `prepared_value`."""
    prepare(words, count, 1, 0, size, evaluation.tuples, evaluation.numbers)


@register_jitable
def prepared_value(words: Any, child: Any, size: int, evaluation: Any) -> Any:
    """Return `pair_value` by n-tuples of one of the prepared positions."""
    weights = evaluation.tables[
        evaluation.phases[size * size - int64(popcount(words[0, child] | words[1, child] | words[2, child]))], 0
    ]
    return int64(-SCALE * child_logit(words, child, 1, evaluation.tuples, weights, evaluation.numbers))


@lean_kernel
def pair_prospects(words: Any, count: Any, size: int, evaluation: Any, values: Any) -> None:
    """Write by what turns are chosen where a search looks at some alone: the lower, the better for whoever made the turn."""
    if not _ask(words, count, size, True, evaluation.policy, values):
        pair_values(words, count, size, evaluation, values)


@register_jitable
def _ask(words: Any, count: Any, size: int, prospects: bool, network: Any, values: Any) -> bool:
    """Write what a network says, as `pair_prospects` or as `pair_values` does; return whether there is one."""
    if network is None:
        return False
    answer_turns(words, count, 1, 0, size, network)
    for at in range(count):
        values[at] = int64(-SCALE * network.logits[at] if prospects else -SHARE * network.values[at])
    return True


@lean_kernel
def pair_guesses(words: Any, count: Any, size: int, evaluation: Any, values: Any) -> None:
    """Write what the evaluation made by hand says, which costs little and is good enough for the order of moves."""
    count = whole(count)  # the words of the last few may be anything
    weights = evaluation.weights[size * size - int64(popcount(words[0, 0] | words[1, 0] | words[2, 0]))]
    if size == 8:
        _pair_values(words, count, weights, values, _BOARD_8)
    elif size == 6:
        _pair_values(words, count, weights, values, _BOARD_6)
    else:
        _pair_values(words, count, weights, values, _BOARD_4)


@register_jitable
def _pair_values(words: Any, count: Any, weights: Any, values: Any, board: Any) -> None:
    own, other, neutral = words[0], words[1], words[2]
    for at in range(count):
        values[at] = _pair_value(own[at], other[at], neutral[at], weights, board)


@register_jitable(forceinline=True)
def _pair_value(own: Any, other: Any, neutral: Any, weights: Any, board: Any) -> Any:
    occupied = own | other | neutral
    return _score(own, occupied, 0, weights, board) - _score(other, occupied, 1, weights, board)


@register_jitable
def seat_values(own: Any, following: Any, third: Any, fourth: Any, players: int, size: int, evaluation: Any) -> Any:
    """Return the value of a position for each seat of three or four, four int64: the mover's first; without a player 0.

    They are the win shares that seats can expect: of `SHARE` in all by hand, and by tables each as the seat's own ones say.
    """
    if evaluation.network is not None:
        values = _payoffs(own, following, third, fourth, players, size, evaluation.network)
        return (
            _network_share(values[0], players),
            _network_share(values[1], players),
            _network_share(values[2], players),
            _network_share(values[3], players) if players == 4 else int64(0),
        )
    if evaluation.tables.shape[0]:
        return (
            seat_share(own, following, third, fourth, 0, players, size, evaluation),
            seat_share(own, following, third, fourth, 1, players, size, evaluation),
            seat_share(own, following, third, fourth, 2, players, size, evaluation),
            seat_share(own, following, third, fourth, 3, players, size, evaluation) if players == 4 else int64(0),
        )
    weights = evaluation.weights[size * size - int64(popcount(own | following | third | fourth))]
    if size == 8:
        return _shares(players, *_scores(own, following, third, fourth, weights, _BOARD_8))
    return _shares(players, *_scores(own, following, third, fourth, weights, _BOARD_6))


@lean_kernel
def many_seat_values(words: Any, count: Any, players: int, size: int, evaluation: Any, values: Any) -> None:
    """Write `seat_values` of all positions after one.

    Args:
        words: Balls of the mover, the next seat, the third and the fourth (or neutral ones), uint64 [4, 64], as
            `seat_children` writes them.
        count: How many to value.
        players: 3 or 4.
        size: Side of the board.
        evaluation: To go by.
        values: int64 [4, 64], the mover's first.
    """
    if not is_dear(evaluation):
        many_seat_guesses(words, count, players, size, evaluation, values)
        return
    if evaluation.network is not None:
        for at in range(count):
            values[0, at], values[1, at], values[2, at], values[3, at] = seat_values(
                words[0, at], words[1, at], words[2, at], words[3, at], players, size, evaluation
            )
        return
    for seat in range(players):
        prepare_seat(words, count, seat, size, evaluation)
        for at in range(count):
            values[seat, at] = prepared_share(words, at, seat, players, size, evaluation)


@register_jitable
def prepare_seat(words: Any, count: Any, seat: Any, size: int, evaluation: Any) -> None:
    """Prepare n-tuples for `prepared_share`."""
    if evaluation.tables.shape[0]:
        prepare(words, count, seat, 1 if seat == 0 else 0, size, evaluation.tuples, evaluation.numbers)


@register_jitable
def prepared_share(words: Any, child: Any, seat: Any, players: int, size: int, evaluation: Any) -> Any:
    """Return what `seat_values` has for a seat, by n-tuples or by a network, in one of the prepared positions."""
    if evaluation.network is not None:
        return seat_share(words[0, child], words[1, child], words[2, child], words[3, child], seat, players, size, evaluation)
    occupied = words[0, child] | words[1, child] | words[2, child] | words[3, child]
    weights = evaluation.tables[evaluation.phases[size * size - int64(popcount(occupied))], seat]
    return int64(SHARE * win_share(child_logit(words, child, seat, evaluation.tuples, weights, evaluation.numbers)))


@lean_kernel
def many_seat_guesses(words: Any, count: Any, players: int, size: int, evaluation: Any, values: Any) -> None:
    """Write what the evaluation made by hand says, which costs little and is good enough for the order of moves."""
    count = whole(count)
    weights = evaluation.weights[size * size - int64(popcount(words[0, 0] | words[1, 0] | words[2, 0] | words[3, 0]))]
    if size == 8:
        _many_seat_values(words, count, players, weights, values, _BOARD_8)
    else:
        _many_seat_values(words, count, players, weights, values, _BOARD_6)


@register_jitable
def _many_seat_values(words: Any, count: Any, players: int, weights: Any, values: Any, board: Any) -> None:
    for at in range(count):
        scores = _scores(words[0, at], words[1, at], words[2, at], words[3, at], weights, board)
        values[0, at], values[1, at], values[2, at], values[3, at] = _shares(players, *scores)


@register_jitable(forceinline=True)
def _scores(own: Any, following: Any, third: Any, fourth: Any, weights: Any, board: Any) -> Any:
    occupied = own | following | third | fourth
    return (
        _score(own, occupied, 0, weights, board),
        _score(following, occupied, 1, weights, board),
        _score(third, occupied, 2, weights, board),
        _score(fourth, occupied, 3, weights, board),
    )


@register_jitable(forceinline=True)
def _shares(players: int, own: Any, following: Any, third: Any, fourth: Any) -> Any:
    return _parts(_exponential(own), _exponential(following), _exponential(third), _exponential(fourth) * (players == 4))


@register_jitable(forceinline=True)
def _parts(first: Any, second: Any, next_one: Any, last: Any) -> Any:
    part: Any = SHARE / (first + second + next_one + last)
    return int64(first * part), int64(second * part), int64(next_one * part), int64(last * part)


@register_jitable(forceinline=True)
def _exponential(score: Any) -> Any:
    # A vector of them: e^x is (e^(x/64))^64, and close to 0 six terms are enough. Nobody is worth e^32 times another.
    x: Any = min(max(score, -32 * SCALE), 32 * SCALE) / (64 * SCALE)
    x = 1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))))
    for _ in range(6):
        x = x * x
    return x


@register_jitable(forceinline=True)
def _score(mine: Any, occupied: Any, turn: int, weights: Any, board: Any) -> Any:
    """Add up what a seat has, without a branch, so that a loop over positions turns into vector instructions."""
    score = int64(0)
    for kind in range(KINDS):
        score += int64(popcount(mine & board.kinds[kind])) * weights[kind]
    loose, safe, capturing, touching = _seat_words(mine, occupied, board)
    score += int64(popcount(loose & ~board.inside)) * weights[KINDS]
    score += int64(popcount(loose & board.inside)) * weights[KINDS + 1]
    score += int64(popcount(safe)) * weights[KINDS + 2]
    at = KINDS + 3 + 3 * turn
    return score + weights[at] + int64(popcount(capturing)) * weights[at + 1] + int64(popcount(touching)) * weights[at + 2]


@register_jitable(forceinline=True)
def _seat_words(mine: Any, occupied: Any, board: Any) -> Any:
    """Return balls by an empty corner, safe balls, capturing cells, and empty cells next to a ball."""
    g = board.g
    return (
        mine & touching_cells(board.corners & ~occupied, g),
        safe_balls(mine, occupied, g),
        capturing_cells(mine, occupied ^ mine, g),
        touching_cells(mine, g) & ~occupied,
    )


@register_jitable
def seat_counts(mine: Any, occupied: Any, size: int) -> Any:
    """Return what is counted for a seat beside kinds of cells: `FEATURES`, then `BY_TURN` without the constant."""
    if size == 8:
        return _seat_counts(mine, occupied, _BOARD_8)
    if size == 6:
        return _seat_counts(mine, occupied, _BOARD_6)
    return _seat_counts(mine, occupied, _BOARD_4)


@register_jitable
def _seat_counts(mine: Any, occupied: Any, board: Any) -> Any:
    loose, safe, capturing, touching = _seat_words(mine, occupied, board)
    return (
        int64(popcount(loose & ~board.inside)),
        int64(popcount(loose & board.inside)),
        int64(popcount(safe)),
        int64(popcount(capturing)),
        int64(popcount(touching)),
    )
