"""Alpha-beta search for two players: positions and a budget come in, each one's best cells and its value go out.

Iterative deepening, principal variation search, and a table of positions met before. The values are those of plain minimax on
the same leaves, whatever was searched earlier: an entry of the table counts only in the search that wrote it, and only at
equal depth. Values are in the evaluation's points, or, where the search reaches the end of the round, the mover's balls less
the other's: a round never ends early, so all leaves of one depth are of one sort.

An evaluation with a width makes it a search of some turns only: in every position, those before a leaf apart, just the turns
that look best count.

Legend: B positions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numba.extending import register_jitable

from rolit_env.bits import popcount
from rolit_env.kernel import lean_kernel
from rolit_env.search import solver
from rolit_env.search.children import pair_children
from rolit_env.search.evaluation import (
    pair_guesses,
    pair_prospects,
    pair_values,
    prepare_pair,
    prepared_value,
)
from rolit_env.search.position import empty_count
from rolit_env.search.solver import INFINITY, make_memory, solve_pair

INFINITE = 1 << 40
"""More than any value."""

STOP, NODES, LIMIT, SEARCH = range(4)
"""Places in `Memory.control`: not 0 ends the search soon, positions looked at, how many may be, the search's number."""

_KEY, _VALUE, _ABOUT = range(3)
_EXACT, _AT_LEAST, _AT_MOST = range(3)


class Memory(NamedTuple):
    """What a search writes to; one search at a time may use it.

    Attributes:
        table: Positions met, int64 [2**bits, 4]: a key, the value, and from the high bits down the search's number, depth,
            bound and best child.
        cells: Legal cells at each depth, uint64 [64, 64].
        words: The positions after them, uint64 [64, 3, 64].
        values: Their values, int64 [64, 64].
        order: In which order they are tried, int64 [64, 64].
        control: int64 [4]; another thread may write to `STOP` and read `NODES`.
        solver: Of the exact search.
    """

    table: Any
    cells: Any
    words: Any
    values: Any
    order: Any
    control: Any
    solver: Any


def pair_memory(bits: int = 15) -> Memory:
    """Return a new memory with 2**bits positions of 32 bytes, and no limit."""
    return Memory(
        table=np.zeros((1 << bits, 4), np.int64),
        cells=np.zeros((64, 64), np.uint64),
        words=np.zeros((64, 3, 64), np.uint64),
        values=np.zeros((64, 64), np.int64),
        order=np.zeros((64, 64), np.int64),
        control=np.array([0, 0, INFINITE, 0], np.int64),
        solver=make_memory(),
    )


@lean_kernel
def search_pairs(
    view: Any, size: int, depth: int, step: int, evaluation: Any, memory: Any, best: Any, values: Any, depths: Any, nodes: Any
) -> None:
    """Search positions one after another, each to `depth` or until `memory.control` ends it, and to depth 1 at least.

    Args:
        view: uint64 [B, 4], as `GameBatch.view` gives it; no board may be full.
        size: Side of the board.
        depth: Turns to look ahead, from 1; cut to what is left of the round.
        step: How many turns deeper each search is than the one before, after the first. 2 is quicker to a known depth, because
            every other depth orders moves nearly as well as all.
        evaluation: Of the leaves.
        memory: To work with.
        best: All cells of the highest value, a word for each position, uint64 [B]; written, as are the others.
        values: That value, int64 [B, 4], in the first column.
        depths: The depth of the last search that was finished, int64 [B].
        nodes: Positions looked at, int64 [B].
    """
    for at in range(view.shape[0]):
        own, other, neutral = view[at, 0], view[at, 1], view[at, 2] | view[at, 3]
        left = empty_count(own, other, neutral, uint64(0), size)
        memory.control[NODES] = 0
        memory.control[SEARCH] += 1
        best[at], values[at, 0] = _root(own, other, neutral, int64(1), left, uint64(0), size, evaluation, memory)
        depths[at] = 1
        deepest = min(depth, left)
        for deeper in range(deepest - (deepest - 2) // step * step, deepest + 1, step):
            if _stopped(memory):
                break
            cells, value = _root(own, other, neutral, int64(deeper), left, best[at], size, evaluation, memory)
            if _stopped(memory):
                break
            best[at], values[at, 0], depths[at] = cells, value, deeper
        nodes[at] = memory.control[NODES]


@register_jitable
def _stopped(memory: Any) -> Any:
    return memory.control[STOP] != 0 or memory.control[NODES] >= memory.control[LIMIT]


@register_jitable
def _root(
    own: Any, other: Any, neutral: Any, depth: Any, left: Any, favourites: Any, size: int, evaluation: Any, memory: Any
) -> Any:
    """Return all best cells as a word, and their value. The cells of `favourites` are tried first."""
    cells, words, order = memory.cells[depth], memory.words[depth], memory.order[depth]
    count = pair_children(own, other, neutral, size, cells, words)
    memory.control[NODES] += 1
    if depth == 1:
        pair_values(words, count, size, evaluation, memory.values[depth])
        _sort(memory.values[depth], count, order)
    else:
        count = _choose_turns(words, count, int64(-1), size, evaluation, memory.values[depth], order)
    best, word = int64(-INFINITE), uint64(0)
    for turn in range(2):  # the favourites, then the others
        for at in range(count):
            child = order[at] & 63
            move = uint64(1) << cells[child]
            if (move & favourites != 0) != (turn == 0):
                continue
            if depth == 1:
                memory.control[NODES] += 1
                value = -memory.values[depth, child]
                if left == 1:
                    value = int64(popcount(words[1, child])) - int64(popcount(words[0, child]))
            else:
                # The floor is one below the best so far, because equals count.
                floor = max(best - 1, int64(-INFINITE))
                ceiling = floor + 1 if word else int64(INFINITE)
                value = -_search(
                    words[0, child],
                    words[1, child],
                    words[2, child],
                    depth - 1,
                    -ceiling,
                    -floor,
                    left - 1,
                    size,
                    evaluation,
                    memory,
                )
                if value >= ceiling:
                    value = -_search(
                        words[0, child],
                        words[1, child],
                        words[2, child],
                        depth - 1,
                        int64(-INFINITE),
                        -floor,
                        left - 1,
                        size,
                        evaluation,
                        memory,
                    )
            if value > best:
                best, word = value, uint64(0)
            if value == best:
                word |= move
    return word, best


@register_jitable
def _sort(values: Any, count: Any, order: Any) -> None:
    """Write children in ascending order of value, which is the next mover's; the child is in the low six bits."""
    for child in range(count):
        key = (values[child] << 6) | child
        at = child
        while at > 0 and order[at - 1] > key:
            order[at] = order[at - 1]
            at -= 1
        order[at] = key


@register_jitable
def _choose_turns(words: Any, count: Any, first: Any, size: int, evaluation: Any, values: Any, order: Any) -> Any:
    """Write the order in which turns are tried, child `first` at the head unless it is -1, and return how many are."""
    if evaluation.width:
        pair_prospects(words, count, size, evaluation, values)
    else:
        pair_guesses(words, count, size, evaluation, values)
    if first >= 0:  # with a width it is one of the best too, having been searched before
        values[first] = -INFINITE
    _sort(values, count, order)
    return min(count, int64(evaluation.width)) if evaluation.width else count


@lean_kernel
def _search(
    own: Any,
    other: Any,
    neutral: Any,
    depth: Any,
    alpha: Any,
    beta: Any,
    left: Any,
    size: int,
    evaluation: Any,
    memory: Any,
) -> Any:
    """Return the value if it lies between alpha and beta, else a bound of it on the same side; nonsense once stopped."""
    if _stopped(memory):
        return int64(0)
    control = memory.control
    control[NODES] += 1
    cells, words, values, order = memory.cells[depth], memory.words[depth], memory.values[depth], memory.order[depth]
    if depth == 1:
        count = pair_children(own, other, neutral, size, cells, words)
        if left == 1:
            control[NODES] += 1
            return int64(popcount(words[1, 0])) - int64(popcount(words[0, 0]))
        if evaluation.network is not None:
            pair_values(words, count, size, evaluation, values)
        else:
            pair_guesses(words, count, size, evaluation, values)
        best = int64(-INFINITE)
        if evaluation.tables.shape[0]:  # dear ones, so one at a time
            _sort(values, count, order)
            prepare_pair(words, count, size, evaluation)
            for at in range(count):
                control[NODES] += 1
                best = max(best, -prepared_value(words, order[at] & 63, size, evaluation))
                if best >= beta:
                    break
            return best
        control[NODES] += count
        for child in range(count):
            best = max(best, -values[child])
        return best

    key = int64(_hash(own, other, neutral))
    slot = key & (memory.table.shape[0] - 1)
    first = int64(-1)
    about = memory.table[slot, _ABOUT]
    if memory.table[slot, _KEY] == key and about >> 16 == control[SEARCH]:
        first = about & 63
        if (about >> 8) & 63 == depth:
            value, bound = memory.table[slot, _VALUE], (about >> 6) & 3
            if bound == _EXACT or (bound == _AT_LEAST and value >= beta) or (bound == _AT_MOST and value <= alpha):
                return value

    count = pair_children(own, other, neutral, size, cells, words)
    count = _choose_turns(words, count, first, size, evaluation, values, order)
    best, chosen, floor = int64(-INFINITE), int64(0), alpha
    for at in range(count):
        child = order[at] & 63
        ceiling = beta if at == 0 else floor + 1
        value = -_search(
            words[0, child], words[1, child], words[2, child], depth - 1, -ceiling, -floor, left - 1, size, evaluation, memory
        )
        if ceiling <= value < beta:
            value = -_search(
                words[0, child], words[1, child], words[2, child], depth - 1, -beta, -floor, left - 1, size, evaluation, memory
            )
        if value > best:
            best, chosen = value, child
            floor = max(floor, value)
            if value >= beta:
                break
    if not _stopped(memory):
        bound = _AT_LEAST if best >= beta else _AT_MOST if best <= alpha else _EXACT
        memory.table[slot, _KEY], memory.table[slot, _VALUE] = key, best
        memory.table[slot, _ABOUT] = (control[SEARCH] << 16) | (depth << 8) | (bound << 6) | chosen
    return best


@register_jitable(forceinline=True)
def _hash(own: Any, other: Any, neutral: Any) -> Any:
    # The finaliser of MurmurHash3 (Appleby, 2011), fed with a word at a time.
    key = own * uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> uint64(32)) ^ other) * uint64(0xFF51AFD7ED558CCD)
    key = (key ^ (key >> uint64(33)) ^ neutral) * uint64(0xC4CEB9FE1A85EC53)
    return key ^ (key >> uint64(33))


@lean_kernel
def solve_pairs(view: Any, size: int, memory: Any, best: Any, values: Any, depths: Any, nodes: Any) -> None:
    """Search positions to the end of the round, with the exact solver and without a limit; arguments as above."""
    for at in range(view.shape[0]):
        own, other, neutral = view[at, 0], view[at, 1], view[at, 2] | view[at, 3]
        left = empty_count(own, other, neutral, uint64(0), size)
        memory.solver[solver.NODES] = 0
        cells, words = memory.cells[left], memory.words[left]
        count = pair_children(own, other, neutral, size, cells, words)
        top, word = int64(-INFINITY), uint64(0)
        for child in range(count):
            # One below the best so far, because equals count.
            ceiling = -(top - 1)
            value = -int64(
                solve_pair(
                    words[0, child], words[1, child], words[2, child], int64(-INFINITY), ceiling, int64(size), memory.solver
                )
            )
            if value > top:
                top, word = value, uint64(0)
            if value == top:
                word |= uint64(1) << cells[child]
        best[at], values[at, 0], depths[at], nodes[at] = word, top, left, memory.solver[solver.NODES]
