"""Search for three and four players: positions and a budget come in, each one's best cells and their values go out.

Three ways to think of the others. `PARANOID`: all of them play against the one who searches, so alpha-beta holds. `MAXN`
(Luckhardt and Irani, 1986): each plays for itself, and of cells of equal value takes the one with the lowest number. No bounds
hold, because an evaluation need not promise that all shares add up to the same. `BEST_REPLY` (Schadd and Winands, 2011): after
a turn of the one who searches only the strongest reply of all the others counts, who stay out of that turn otherwise; then it
is its turn again. A reply fills one cell as any turn does, so that all leaves of one depth have equally many empty cells.

Values are win shares: estimates from 0 to `SHARE`, or, where the search reaches the end of the round, `SHARE` divided by the
number of leaders, plus the balls, which so decide between equal shares. `MAXN` has one for each seat; the other two have that
of the one who searches.

Legend: B positions, P players.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numba.extending import register_jitable

from rolit_env.bits import popcount
from rolit_env.kernel import lean_kernel
from rolit_env.search import solver
from rolit_env.search.children import seat_children, turn_rows
from rolit_env.search.evaluation import (
    SHARE,
    is_dear,
    many_seat_guesses,
    many_seat_values,
    prepare_seat,
    prepared_share,
    seat_share,
    seat_values,
)
from rolit_env.search.position import empty_count
from rolit_env.search.solver import make_memory, seat_balls, solve_many

PARANOID, MAXN, BEST_REPLY = range(3)

INFINITE = 1 << 40
"""More than any value."""

STOP, NODES, LIMIT = range(3)
"""Places in `Memory.control`: not 0 ends the search soon; positions looked at; how many may be."""


class Memory(NamedTuple):
    """What a search writes to; one search at a time may use it.

    Attributes:
        cells: Legal cells at each depth of up to three players, uint64 [64, 3, 64].
        words: The positions after them, uint64 [64, 3, 4, 64].
        values: Their values, int64 [64, 3, 4, 64].
        order: In which order they are tried, int64 [64, 192].
        turns: `turn_rows` for each number of players, int64 [5, 4].
        replies: The rows that positions go to when number k moves and nobody's place changes, int64 [4, 4].
        control: int64 [3]; another thread may write to `STOP` and read `NODES`.
        solver: Of the exact search.
    """

    cells: Any
    words: Any
    values: Any
    order: Any
    turns: Any
    replies: Any
    control: Any
    solver: Any


def seat_memory() -> Memory:
    """Return a new memory without a limit."""
    return Memory(
        cells=np.zeros((64, 3, 64), np.uint64),
        words=np.zeros((64, 3, 4, 64), np.uint64),
        values=np.zeros((64, 3, 4, 64), np.int64),
        order=np.zeros((64, 192), np.int64),
        turns=np.array([turn_rows(max(players, 1)) for players in range(5)]),
        replies=np.array([[mover, *(row for row in range(4) if row != mover)] for mover in range(4)], np.int64),
        control=np.array([0, 0, INFINITE], np.int64),
        solver=make_memory(),
    )


@lean_kernel
def search_seats(
    view: Any,
    players: int,
    size: int,
    method: int,
    begin: int,
    depth: int,
    evaluation: Any,
    memory: Any,
    best: Any,
    values: Any,
    depths: Any,
    nodes: Any,
) -> None:
    """Search positions one after another, from depth `begin` to `depth` or until `memory.control` ends it.

    Args:
        view: uint64 [B, 4], as `GameBatch.view` gives it; no board may be full.
        players: 3 or 4.
        size: Side of the board.
        method: `PARANOID`, `MAXN` or `BEST_REPLY`.
        begin: The first depth, which is always finished.
        depth: Turns to look ahead, from 1; cut to what is left of the round.
        evaluation: Of the leaves.
        memory: To work with.
        best: All cells of the mover's highest value, a word for each position, uint64 [B]; written, as are the others.
        values: The values of the one of them with the lowest number, int64 [B, 4]: the mover's first, and 0 for what the
            method has none.
        depths: The depth of the last search that was finished, int64 [B].
        nodes: Positions looked at, int64 [B].
    """
    for at in range(view.shape[0]):
        own, following, third, fourth = view[at, 0], view[at, 1], view[at, 2], view[at, 3]
        left = empty_count(own, following, third, fourth, size)
        memory.control[NODES] = 0
        first = min(begin, left)
        for deeper in range(first, min(depth, left) + 1):
            if deeper > first and _stopped(memory):
                break
            values_before = values[at, 0], values[at, 1], values[at, 2], values[at, 3]
            word = _root(
                own, following, third, fourth, method, int64(deeper), left, players, size, evaluation, memory, values[at]
            )
            if deeper > first and _stopped(memory):
                values[at, 0], values[at, 1], values[at, 2], values[at, 3] = values_before
                break
            best[at], depths[at] = word, deeper
        nodes[at] = memory.control[NODES]


@register_jitable
def _stopped(memory: Any) -> Any:
    return memory.control[STOP] != 0 or memory.control[NODES] >= memory.control[LIMIT]


@register_jitable
def _root(
    own: Any,
    following: Any,
    third: Any,
    fourth: Any,
    method: Any,
    depth: Any,
    left: Any,
    players: Any,
    size: Any,
    evaluation: Any,
    memory: Any,
    values: Any,
) -> Any:
    """Return all best cells as a word, and write the values."""
    mine = int64(players - 1)  # where the mover is when the next seat moves
    cells, words, guesses, order = memory.cells[depth, 0], memory.words[depth, 0], memory.values[depth, 0], memory.order[depth]
    stays = method == BEST_REPLY and depth > 1
    rows = memory.replies[0] if stays else memory.turns[players]
    count = seat_children(own, following, third, fourth, rows, size, cells, words)
    memory.control[NODES] += 1
    if depth == 1:
        many_seat_values(words, count, players, size, evaluation, guesses)
    else:
        many_seat_guesses(words, count, players, size, evaluation, guesses)
    for child in range(count):
        order[child] = child if method == MAXN else (-guesses[0 if stays else mine, child] << 8) | child
    if method != MAXN:
        _sort(order, count)
    best, word = int64(-INFINITE), uint64(0)
    for at in range(count):
        child = order[at] & 255
        first, second, next_one, last = words[0, child], words[1, child], words[2, child], words[3, child]
        floor = max(best - 1, int64(-INFINITE))  # one below the best so far, because equals count
        a, b, c = int64(0), int64(0), int64(0)
        if depth == 1:
            memory.control[NODES] += 1
            value = guesses[mine, child]
            if left == 1:
                value = _payoff(words, child, mine, players)
            if method == MAXN:
                a, b, c = guesses[0, child], guesses[1, child], guesses[2, child]
                if left == 1:
                    a, b = _payoff(words, child, 0, players), _payoff(words, child, 1, players)
                    c = _payoff(words, child, 2, players)
        elif method == MAXN:
            a, b, c, d = _maxn(first, second, next_one, last, depth - 1, left - 1, players, size, evaluation, memory)
            value = c if players == 3 else d
        elif method == PARANOID:
            value = _paranoid(
                first,
                second,
                next_one,
                last,
                mine,
                depth - 1,
                floor,
                int64(INFINITE),
                left - 1,
                players,
                size,
                evaluation,
                memory,
            )
        else:
            value = _best_reply(
                first,
                second,
                next_one,
                last,
                int64(1),
                depth - 1,
                floor,
                int64(INFINITE),
                left - 1,
                players,
                size,
                evaluation,
                memory,
            )
        if value > best:
            best, word = value, uint64(0)
            values[0], values[1], values[2], values[3] = value, a, b, c
            if players == 3:
                values[3] = 0
        if value == best:
            word |= uint64(1) << cells[child]
    return word


@register_jitable
def _sort(order: Any, count: Any) -> None:
    for child in range(1, count):
        key = order[child]
        at = child
        while at > 0 and order[at - 1] > key:
            order[at] = order[at - 1]
            at -= 1
        order[at] = key


@register_jitable
def _payoff(words: Any, child: Any, seat: Any, players: Any) -> Any:
    """Return what the end of a round is worth for one seat; it stands in column `child` of `words`."""
    balls = (
        int64(popcount(words[0, child])),
        int64(popcount(words[1, child])),
        int64(popcount(words[2, child])),
        int64(popcount(words[3, child])),
    )
    return _worth(balls, seat, players)


@register_jitable
def _worth(balls: Any, seat: Any, players: Any) -> Any:
    leaders = 0
    for other in range(players):
        if balls[other] > balls[seat]:
            return balls[seat]
        leaders += balls[other] == balls[seat]
    return SHARE // leaders + balls[seat]


@lean_kernel
def _paranoid(
    own: Any,
    following: Any,
    third: Any,
    fourth: Any,
    root: Any,
    depth: Any,
    alpha: Any,
    beta: Any,
    left: Any,
    players: Any,
    size: Any,
    evaluation: Any,
    memory: Any,
) -> Any:
    """Return the value of the player who moves `root` turns from now, or a bound of it beyond alpha or beta."""
    if _stopped(memory):
        return int64(0)
    memory.control[NODES] += 1
    cells, words, values, order = memory.cells[depth, 0], memory.words[depth, 0], memory.values[depth, 0], memory.order[depth]
    count = seat_children(own, following, third, fourth, memory.turns[players], size, cells, words)
    sign = int64(1) if root == 0 else int64(-1)
    root = int64(players - 1) if root == 0 else root - 1
    if left == 1:
        memory.control[NODES] += 1
        return _payoff(words, 0, root, players)
    many_seat_guesses(words, count, players, size, evaluation, values)
    best = int64(-INFINITE)
    if depth == 1 and not is_dear(evaluation):
        memory.control[NODES] += count
        for child in range(count):
            best = max(best, sign * values[root, child])
        return sign * best
    for child in range(count):
        order[child] = (-sign * values[root, child] << 8) | child
    _sort(order, count)
    if depth == 1:
        prepare_seat(words, count, root, size, evaluation)
    for at in range(count):
        child = order[at] & 255
        if depth == 1:  # dear ones, so one at a time
            memory.control[NODES] += 1
            value = prepared_share(words, child, root, players, size, evaluation)
        else:
            value = _paranoid(
                words[0, child],
                words[1, child],
                words[2, child],
                words[3, child],
                root,
                depth - 1,
                alpha,
                beta,
                left - 1,
                players,
                size,
                evaluation,
                memory,
            )
        best = max(best, sign * value)
        if sign > 0:
            alpha = max(alpha, value)
        else:
            beta = min(beta, value)
        if alpha >= beta:
            break
    return sign * best


@lean_kernel
def _best_reply(
    own: Any,
    following: Any,
    third: Any,
    fourth: Any,
    reply: Any,
    depth: Any,
    alpha: Any,
    beta: Any,
    left: Any,
    players: Any,
    size: Any,
    evaluation: Any,
    memory: Any,
) -> Any:
    """Return the value of the first player or a bound of it beyond alpha or beta; it moves, or, with `reply`, the others."""
    if _stopped(memory):
        return int64(0)
    memory.control[NODES] += 1
    order = memory.order[depth]
    sign, mine, total = int64(1), int64(0), int64(0)
    best = int64(-INFINITE)
    if reply == 0:
        rows = memory.replies[0]
        if depth == 1:  # at a leaf the next seat moves
            rows, mine = memory.turns[players], int64(players - 1)
        total = seat_children(own, following, third, fourth, rows, size, memory.cells[depth, 0], memory.words[depth, 0])
        many_seat_guesses(memory.words[depth, 0], total, players, size, evaluation, memory.values[depth, 0])
        for child in range(total):
            order[child] = (-memory.values[depth, 0, mine, child] << 8) | child
    else:
        sign = int64(-1)
        for mover in range(1, players):
            cells, words, values = (
                memory.cells[depth, mover - 1],
                memory.words[depth, mover - 1],
                memory.values[depth, mover - 1],
            )
            rows = memory.replies[mover]
            if mover == 1:
                count = seat_children(following, own, third, fourth, rows, size, cells, words)
            elif mover == 2:
                count = seat_children(third, own, following, fourth, rows, size, cells, words)
            else:
                count = seat_children(fourth, own, following, third, rows, size, cells, words)
            many_seat_guesses(words, count, players, size, evaluation, values)
            for child in range(count):
                order[total + child] = (values[0, child] << 8) | (64 * (mover - 1) + child)
            total += count
    dear = is_dear(evaluation) and left > 1
    if depth == 1 and not dear:
        memory.control[NODES] += total
        for at in range(total):
            group, child = (order[at] & 255) >> 6, order[at] & 63
            value = memory.values[depth, group, mine, child]
            if left == 1:
                value = _payoff(memory.words[depth, group], child, mine, players)
            best = max(best, sign * value)
        return sign * best
    _sort(order, total)
    for at in range(total):
        group, child = (order[at] & 255) >> 6, order[at] & 63
        words = memory.words[depth, group]
        if depth == 1:  # dear ones, so one at a time
            memory.control[NODES] += 1
            value = seat_share(
                words[0, child], words[1, child], words[2, child], words[3, child], mine, players, size, evaluation
            )
        else:
            value = _best_reply(
                words[0, child],
                words[1, child],
                words[2, child],
                words[3, child],
                1 - reply,
                depth - 1,
                alpha,
                beta,
                left - 1,
                players,
                size,
                evaluation,
                memory,
            )
        best = max(best, sign * value)
        if sign > 0:
            alpha = max(alpha, value)
        else:
            beta = min(beta, value)
        if alpha >= beta:
            break
    return sign * best


@lean_kernel
def _maxn(
    own: Any,
    following: Any,
    third: Any,
    fourth: Any,
    depth: Any,
    left: Any,
    players: Any,
    size: Any,
    evaluation: Any,
    memory: Any,
) -> Any:
    """Return the values of all seats, the mover's first."""
    zero = int64(0)
    if _stopped(memory):
        return zero, zero, zero, zero
    memory.control[NODES] += 1
    words, values = memory.words[depth, 0], memory.values[depth, 0]
    count = seat_children(own, following, third, fourth, memory.turns[players], size, memory.cells[depth, 0], words)
    mine = int64(players - 1)
    dear = is_dear(evaluation) and left > 1
    if depth == 1:
        memory.control[NODES] += count
        if left == 1:
            for seat in range(players):
                values[seat, 0] = _payoff(words, 0, seat, players)
        elif dear:  # dear ones, so those of the other seats only where they count
            prepare_seat(words, count, mine, size, evaluation)
            for child in range(count):
                values[mine, child] = prepared_share(words, child, mine, players, size, evaluation)
        else:
            many_seat_values(words, count, players, size, evaluation, values)
        chosen = 0
        for child in range(1, count):
            if values[mine, child] > values[mine, chosen]:
                chosen = child
        if dear:
            values[0, chosen], values[1, chosen], values[2, chosen], values[3, chosen] = seat_values(
                words[0, chosen], words[1, chosen], words[2, chosen], words[3, chosen], players, size, evaluation
            )
        fourth_value = values[2, chosen] if players == 4 else zero
        return values[mine, chosen], values[0, chosen], values[1, chosen], fourth_value
    best, second, third_value, last = int64(-INFINITE), zero, zero, zero
    for child in range(count):
        a, b, c, d = _maxn(
            words[0, child],
            words[1, child],
            words[2, child],
            words[3, child],
            depth - 1,
            left - 1,
            players,
            size,
            evaluation,
            memory,
        )
        value = c if players == 3 else d
        if value > best:
            best, second, third_value, last = value, a, b, zero if players == 3 else c
    return best, second, third_value, last


@lean_kernel
def solve_seats(view: Any, players: int, size: int, memory: Any, best: Any, values: Any, depths: Any, nodes: Any) -> None:
    """Search positions to the end of the round by max^n, with the exact solver and without a limit; arguments as above."""
    for at in range(view.shape[0]):
        own, following, third, fourth = view[at, 0], view[at, 1], view[at, 2], view[at, 3]
        left = empty_count(own, following, third, fourth, size)
        memory.solver[solver.NODES] = 0
        cells, words, balls = memory.cells[left, 0], memory.words[left, 0], memory.values[left, 0, 0]
        count = seat_children(own, following, third, fourth, memory.turns[players], size, cells, words)
        top, word = int64(-1), uint64(0)
        for child in range(count):
            counts = solve_many(
                words[0, child], words[1, child], words[2, child], words[3, child], int64(players), int64(size), memory.solver
            )
            for seat in range(players):
                balls[seat] = int64(seat_balls(counts, (seat + players - 1) % players))  # the mover is last in the child
            value = _worth(balls, 0, players)
            if value > top:
                top, word = value, uint64(0)
                for seat in range(players):
                    values[at, seat] = _worth(balls, seat, players)
            if value == top:
                word |= uint64(1) << cells[child]
        best[at], depths[at], nodes[at] = word, left, memory.solver[solver.NODES]
