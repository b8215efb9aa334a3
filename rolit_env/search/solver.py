"""Exact play to the end of a round, compiled: positions come in, final ball differences and counts under best play go out.

For two players an alpha-beta search with null windows and a table of positions. All its state lives in one array of words, the
memory: a counter of nodes, a flag that stops the search, room for each depth's moves, and the table. Entries hold whole
positions and proven bounds, so one memory serves any sequence of positions of any size, and no value depends on what was
solved before. A thread needs a memory of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint64
from numba.extending import register_jitable

from rolit_env import rules
from rolit_env.bits import Words, popcount
from rolit_env.kernel import kernel, lean_kernel
from rolit_env.search.position import (
    after_turn,
    capturing_cells,
    empty_count,
    geometry_of,
    legal_cells,
    lowest,
    number,
    rolled_balls,
)

NODES = 0
"""Where a memory counts the positions searched. It only grows; set it to 0 to count anew."""

STOP = 1
"""Where a memory is told to stop: set it to anything but 0, and the search returns soon, with a value that means nothing."""

DONE = 2
"""Where `solve_moves` counts the positions it is done with."""

_GENERATION, _MASK = 3, 4
_SCRATCH = 8
_MOVES = 64
_TABLE = _SCRATCH + 64 * 2 * _MOVES  # both multiples of a cache line's 8 words
_ENTRY = 4

INFINITY = 100
"""More than any ball difference."""

ILLEGAL = -128
"""Stands in place of a value where a cell is not legal."""

_HASHED = 7  # from so many on positions go into the table
_LOOK_AHEAD = 9  # and from so many on the table is asked about all moves before any is searched
_HASHED_MANY = 4  # the same with more players, where there are no bounds


@register_jitable(forceinline=True)
def _rolled(cell: Any, own: Any, others: Any, g: Any) -> Any:
    return uint64(rules.rolled_balls(cell, own, others, g))


def make_memory(entries: int = 1 << 16) -> Words:
    """Return a fresh memory for a two-player search.

    Args:
        entries: Positions that the table holds, rounded up to a power of two; each takes 32 bytes. 2^16 serve a dozen empty
            cells, 2^21 twenty.

    Returns:
        uint64 [·], C-contiguous: `memory[NODES]`, `memory[STOP]`, `memory[DONE]` and what only the kernels know.
    """
    buckets = max(1, 1 << (max(entries, 2) - 1).bit_length() - 1)
    words = np.zeros(_TABLE + buckets * 2 * _ENTRY + 7, np.uint64)
    first = -(words.ctypes.data // 8) % 8  # so that a bucket lies in one cache line
    memory = words[first : first + _TABLE + buckets * 2 * _ENTRY]
    memory[_MASK] = buckets - 1
    return memory


def _quarters(size: int) -> tuple[np.uint64, ...]:
    half = size // 2
    first = sum(1 << row * size + column for row in range(half) for column in range(half))
    return tuple(np.uint64(first << row * size + column) for row in (0, half) for column in (0, half))


def _corner_cells(size: int) -> np.uint64:
    return np.uint64(sum(1 << cell for cell in (0, size - 1, size * size - size, size * size - 1)))


_QUARTERS_8, _QUARTERS_6, _QUARTERS_4 = _quarters(8), _quarters(6), _quarters(4)
_CORNERS_8, _CORNERS_6, _CORNERS_4 = _corner_cells(8), _corner_cells(6), _corner_cells(4)


@register_jitable
def _corners(size: Any) -> Any:
    return _CORNERS_8 if size == 8 else _CORNERS_6 if size == 6 else _CORNERS_4


@register_jitable
def _odd_quarters(empty: Any, size: Any) -> Any:
    """Return the quarters of the board with an odd number of empty cells, where who begins can move last too."""
    quarters = _QUARTERS_8 if size == 8 else _QUARTERS_6 if size == 6 else _QUARTERS_4
    odd = uint64(0)
    for quarter in quarters:
        odd |= quarter * (popcount(empty & quarter) & uint64(1))
    return odd


@register_jitable(forceinline=True)
def _bit(cell: Any) -> Any:
    return uint64(1) << uint64(cell)


@register_jitable(forceinline=True)
def _last_one(a: Any, own: Any, other: Any, neutral: Any, g: Any) -> Any:
    rolled = _rolled(a, own, other | neutral, g)
    return int64(popcount(own | rolled)) + int64(1) - int64(popcount(other & ~rolled))


@register_jitable(forceinline=True)
def _last_two(a: Any, b: Any, own: Any, other: Any, neutral: Any, beta: Any, g: Any) -> Any:
    best = int64(-INFINITY)
    for turn in range(4):
        rolled: Any = uint64(0)
        if turn < 2:
            rolled = _rolled(a, own, other | neutral, g)
        elif turn == 2 and best > -INFINITY:
            break
        if turn >= 2 or rolled != 0:
            value = -_last_one(b, other & ~rolled, own | rolled | _bit(a), neutral & ~rolled, g)
            if value > best:
                best = value
                if value >= beta:
                    break
        a, b = b, a
    return best


@register_jitable(forceinline=True)
def _last_three(a: Any, b: Any, c: Any, own: Any, other: Any, neutral: Any, alpha: Any, beta: Any, memory: Any, g: Any) -> Any:
    best = int64(-INFINITY)
    for turn in range(6):
        rolled: Any = uint64(0)
        if turn < 3:
            rolled = _rolled(a, own, other | neutral, g)
        elif turn == 3 and best > -INFINITY:
            break
        if turn >= 3 or rolled != 0:
            memory[NODES] += uint64(1)
            value = -_last_two(b, c, other & ~rolled, own | rolled | _bit(a), neutral & ~rolled, -max(alpha, best), g)
            if value > best:
                best = value
                if value >= beta:
                    break
        a, b, c = b, c, a
    return best


@register_jitable(forceinline=True)
def _last_four(own: Any, other: Any, neutral: Any, alpha: Any, beta: Any, memory: Any, g: Any) -> Any:
    empty = g.board ^ (own | other | neutral)
    legal: Any = uint64(rules.legal_cells(own, other | neutral, g))
    best = int64(-INFINITY)
    while legal != 0:
        move = lowest(legal)
        legal ^= move
        cell = number(move)
        rolled = _rolled(cell, own, other | neutral, g)
        rest = empty ^ move
        a = number(lowest(rest))
        rest &= rest - uint64(1)
        b = number(lowest(rest))
        rest &= rest - uint64(1)
        memory[NODES] += uint64(1)
        value = -_last_three(
            a,
            b,
            number(rest),
            other & ~rolled,
            own | rolled | move,
            neutral & ~rolled,
            -beta,
            -max(alpha, best),
            memory,
            g,
        )
        if value > best:
            best = value
            if value >= beta:
                break
    return best


@lean_kernel
def _last(own: Any, other: Any, neutral: Any, alpha: Any, beta: Any, size: Any, memory: Any) -> Any:
    """Return the value where four cells are empty."""
    memory[NODES] += uint64(1)
    return _last_four(own, other, neutral, alpha, beta, memory, geometry_of(size))


@register_jitable(forceinline=True)
def _bucket(own: Any, other: Any, neutral: Any, memory: Any) -> Any:
    """Return where in the memory a position's two entries lie."""
    mixed = own * uint64(0x9E3779B97F4A7C15) ^ (other * uint64(0xC2B2AE3D27D4EB4F) + neutral * uint64(0x165667B19E3779F9))
    mixed = (mixed ^ (mixed >> uint64(32))) * uint64(0xD6E8FEB86659FD93)
    return uint64(_TABLE) + ((mixed >> uint64(32)) & memory[_MASK]) * uint64(2 * _ENTRY)


# An entry: own, other, neutral, and a word of lower bound + 128 (8 bits), upper bound + 128 (8), best cell (8), size (8),
# empty cells (8), generation (from bit 40 on). A position has balls, so the zeros of a fresh table are none.
@register_jitable(forceinline=True)
def _lookup(own: Any, other: Any, neutral: Any, size: Any, bucket: Any, memory: Any) -> Any:
    for at in (bucket, bucket + uint64(_ENTRY)):
        if memory[at] == own and memory[at + uint64(1)] == other and memory[at + uint64(2)] == neutral:
            known = memory[at + uint64(3)]
            if (known >> uint64(24)) & uint64(255) == uint64(size):
                return known
    return uint64(0)


@register_jitable(forceinline=True)
def _keep(
    own: Any, other: Any, neutral: Any, low: Any, high: Any, cell: Any, size: Any, empties: Any, bucket: Any, memory: Any
) -> None:
    generation = memory[_GENERATION]
    known = memory[bucket + uint64(3)]
    same = memory[bucket] == own and memory[bucket + uint64(1)] == other and memory[bucket + uint64(2)] == neutral
    # The first entry is for the position of this search with most empty cells, the second for the last one.
    keep_first = not same and known >> uint64(40) == generation and (known >> uint64(32)) & uint64(255) > uint64(empties)
    at = bucket + uint64(_ENTRY) * uint64(keep_first)
    memory[at], memory[at + uint64(1)], memory[at + uint64(2)] = own, other, neutral
    memory[at + uint64(3)] = (
        uint64(low + 128)
        | uint64(high + 128) << uint64(8)
        | uint64(cell) << uint64(16)
        | uint64(size) << uint64(24)
        | uint64(empties) << uint64(32)
        | generation << uint64(40)
    )


@lean_kernel
def _search(own: Any, other: Any, neutral: Any, alpha: Any, beta: Any, size: Any, memory: Any) -> Any:
    """Return the value, or a bound where it lies outside of alpha to beta (at most alpha, at least beta)."""
    others = other | neutral
    empties = int64(size * size) - int64(popcount(own | others))
    if empties == 4:
        return int64(_last(own, other, neutral, alpha, beta, size, memory))
    memory[NODES] += uint64(1)
    if empties == 0:
        return int64(popcount(own)) - int64(popcount(other))
    if memory[STOP] != 0:
        return int64(0)
    best = int64(-INFINITY)
    if empties < _HASHED:
        legal = legal_cells(own, others, size)
        first = legal & _odd_quarters((uint64(1) << uint64(size * size - 1)) * uint64(2) - uint64(1) ^ (own | others), size)
        legal ^= first
        while first | legal != 0:
            if first != 0:
                move = lowest(first)
                first ^= move
            else:
                move = lowest(legal)
                legal ^= move
            rolled = rolled_balls(number(move), own, others, size)
            value = -int64(
                _search(other & ~rolled, own | rolled | move, neutral & ~rolled, -beta, -max(alpha, best), size, memory)
            )
            if value > best:
                best = value
                if value >= beta:
                    break
        return best

    bucket = _bucket(own, other, neutral, memory)
    known = _lookup(own, other, neutral, size, bucket, memory)
    low, high, favourite = int64(-INFINITY), int64(INFINITY), uint64(64)
    if known != 0:
        low = int64(known & uint64(255)) - int64(128)
        high = int64((known >> uint64(8)) & uint64(255)) - int64(128)
        favourite = (known >> uint64(16)) & uint64(255)
        if low >= beta or low == high:
            return low
        if high <= alpha:
            return high
    floor = max(alpha, low)
    ceiling = min(beta, high)

    # Score every move: where the opponent has few replies first.
    legal = legal_cells(own, others, size)
    odd = _odd_quarters((uint64(1) << uint64(size * size - 1)) * uint64(2) - uint64(1) ^ (own | others), size)
    corners = _corners(size)
    base = uint64(_SCRATCH) + uint64(empties * 2 * _MOVES)
    count = uint64(0)
    while legal != 0:
        move = lowest(legal)
        legal ^= move
        cell = number(move)
        rolled = rolled_balls(cell, own, others, size)
        mine, theirs, rest = own | rolled | move, other & ~rolled, neutral & ~rolled
        if empties >= _LOOK_AHEAD:
            reply = _lookup(theirs, mine, rest, size, _bucket(theirs, mine, rest, memory), memory)
            if reply != 0:
                value = int64(128) - int64((reply >> uint64(8)) & uint64(255))
                if value >= ceiling:
                    return value
        replies = capturing_cells(theirs, mine | rest, size)
        score = int64(4) * int64(popcount(replies) + popcount(replies & corners))
        if move & corners != 0:
            score -= int64(8)
        if move & odd != 0:
            score -= int64(2)
        if cell == favourite:
            score = int64(-500)
        memory[base + count] = uint64(score + int64(512)) << uint64(8) | cell
        memory[base + count + uint64(_MOVES)] = rolled
        count += uint64(1)

    chosen = uint64(0)
    at = uint64(0)
    while at < count:
        least = at
        for other_at in range(at + uint64(1), count):
            if memory[base + uint64(other_at)] < memory[base + least]:
                least = uint64(other_at)
        key = memory[base + least]
        rolled = memory[base + least + uint64(_MOVES)]
        memory[base + least] = memory[base + at]
        memory[base + least + uint64(_MOVES)] = memory[base + at + uint64(_MOVES)]
        cell = key & uint64(255)
        move = _bit(cell)
        mine, theirs, rest = own | rolled | move, other & ~rolled, neutral & ~rolled
        bound = max(floor, best)
        if at == 0 or bound + 1 >= ceiling:
            value = -int64(_search(theirs, mine, rest, -ceiling, -bound, size, memory))
        else:
            value = -int64(_search(theirs, mine, rest, -bound - int64(1), -bound, size, memory))
            if bound < value < ceiling:
                value = -int64(_search(theirs, mine, rest, -ceiling, -value, size, memory))
        if value > best:
            best, chosen = value, cell
            if value >= ceiling:
                break
        at += uint64(1)
    if memory[STOP] != 0:
        return int64(0)
    if best > floor:
        low = max(low, best)
    if best < ceiling:
        high = min(high, best)
    _keep(own, other, neutral, low, high, chosen, size, empties, bucket, memory)
    return best


@lean_kernel
def begin(memory: Any) -> None:
    """Begin a new search: from now on what earlier ones kept makes room."""
    memory[_GENERATION] = (memory[_GENERATION] + uint64(1)) & uint64(0xFFFFFF)


@lean_kernel
def solve_on(own: Any, other: Any, neutral: Any, alpha: Any, beta: Any, size: Any, memory: Any) -> Any:
    """Return what `solve_pair` does, as one more step of the search that `begin` began."""
    alpha, beta = max(int64(alpha), int64(-INFINITY)), min(int64(beta), int64(INFINITY))
    return _search(uint64(own), uint64(other), uint64(neutral), alpha, beta, int64(size), memory)


@lean_kernel
def solve_pair(own: Any, other: Any, neutral: Any, alpha: Any, beta: Any, size: Any, memory: Any) -> Any:
    """Return the mover's balls minus the other's at the end of a two-player round under best play of both.

    Args:
        own: The mover's balls, uint64.
        other: Those of the other player, uint64.
        neutral: Those of colours without a player, uint64.
        alpha: int64. A value of alpha or less is only known to be no more than what comes back.
        beta: int64, above alpha. A value of beta or more is only known to be no less than what comes back.
        size: Side of the board, int64.
        memory: From `make_memory`; changed. When `memory[STOP]` is set the value means nothing.

    Any number of cells may be empty; `-INFINITY` and `INFINITY` leave out nothing.
    """
    begin(memory)
    return solve_on(own, other, neutral, alpha, beta, size, memory)


@kernel
def solve_moves(words: Any, size: Any, values: Any, memory: Any) -> None:
    """Solve every legal move of many positions of two players.

    Args:
        words: The positions, mover first, as `GameBatch.view` gives them, uint64 [B, 4].
        size: Side of the board, n, int64.
        values: Filled with ball differences from the mover's view, `ILLEGAL` where a move is illegal, int8 [B, n·n].
        memory: From `make_memory`; changed. `memory[DONE]` counts the positions; `memory[STOP]` ends it early.
    """
    values[:] = ILLEGAL
    for game in range(words.shape[0]):
        own, other, neutral = words[game, 0], words[game, 1], words[game, 2] | words[game, 3]
        begin(memory)
        legal = legal_cells(own, other | neutral, size)
        while legal != 0:
            move = lowest(legal)
            legal ^= move
            rolled = rolled_balls(number(move), own, other | neutral, size)
            value = -solve_on(other & ~rolled, own | rolled | move, neutral & ~rolled, -INFINITY, INFINITY, size, memory)
            values[game, number(move)] = value
        if memory[STOP] != 0:
            return
        memory[DONE] += uint64(1)


@register_jitable(forceinline=True)
def seat_balls(counts: Any, turns: Any) -> Any:
    """Return how many balls the player who moves `turns` turns from now has, from what `solve_many` gave."""
    return (counts >> int64(8 * turns)) & int64(255)


@register_jitable(forceinline=True)
def seen_before(counts: Any, players: Any) -> Any:
    """Return final counts from the view of the player before the mover, who is last in the mover's view."""
    return (counts << int64(8) | counts >> int64(8 * (players - 1))) & ((int64(1) << int64(8 * players)) - int64(1))


@register_jitable(forceinline=True)
def preference(counts: Any, players: Any) -> Any:
    """Return a number that is higher the more the mover likes final counts: first the win share, then its own balls."""
    own = seat_balls(counts, 0)
    leaders = int64(1)
    for turns in range(1, players):
        balls = seat_balls(counts, turns)
        if balls > own:
            return own
        leaders += int64(balls == own)
    return int64(12) // leaders * int64(256) + own


# What else there is to know about an entry of more players: it fills a bucket. Its words 3 and 7 have no size where entries of
# two players have theirs, so neither kind is ever taken for the other.
@lean_kernel
def _search_many(own: Any, following: Any, third: Any, fourth: Any, players: Any, size: Any, memory: Any) -> Any:
    """Return the final counts from the mover's view, eight bits each."""
    memory[NODES] += uint64(1)
    if memory[STOP] != 0:
        return int64(0)
    empties = empty_count(own, following, third, fourth, size)
    if empties == 0:
        counts = int64(popcount(own)) | int64(popcount(following)) << int64(8) | int64(popcount(third)) << int64(16)
        if players == 4:
            counts |= int64(popcount(fourth)) << int64(24)
        return counts
    kind = uint64(size) | uint64(players) << uint64(8)
    bucket = _bucket(own, following, third ^ (fourth << uint64(1)), memory)
    if empties >= _HASHED_MANY and (
        memory[bucket] == own
        and memory[bucket + uint64(1)] == following
        and memory[bucket + uint64(2)] == third
        and memory[bucket + uint64(3)] == kind
        and memory[bucket + uint64(4)] == fourth
        and memory[bucket + uint64(7)] & uint64(0xFFFFFFFF) == 0
    ):
        return int64(memory[bucket + uint64(7)] >> uint64(32))
    legal = legal_cells(own, following | third | fourth, size)
    best, liked = int64(0), int64(-1)
    while legal != 0:
        move = lowest(legal)
        legal ^= move
        first, second, next_third, last = after_turn(number(move), own, following, third, fourth, players, size)
        counts = int64(_search_many(first, second, next_third, last, players, size, memory))
        counts = seen_before(counts, players)
        likes = preference(counts, players)
        if likes > liked:  # among equals the lowest cell stays
            best, liked = counts, likes
    if empties >= _HASHED_MANY and memory[STOP] == 0:
        memory[bucket], memory[bucket + uint64(1)], memory[bucket + uint64(2)] = own, following, third
        memory[bucket + uint64(3)], memory[bucket + uint64(4)] = kind, fourth
        memory[bucket + uint64(7)] = uint64(best) << uint64(32)
    return best


@lean_kernel
def solve_many(own: Any, following: Any, third: Any, fourth: Any, players: Any, size: Any, memory: Any) -> Any:
    """Return everybody's balls at the end of a round of three or four in which each plays for itself (max^n).

    Each mover takes the cell with the larger win share (leaders at the end share one win), then with more balls of its own,
    then with the lowest number. With this rule the end is a function of the position.

    Args:
        own: The mover's balls, uint64.
        following: Those of the player whose turn is next, uint64.
        third: Those of the player after that, uint64.
        fourth: Those of the fourth player, or, of three players, the neutral balls, uint64.
        players: 3 or 4, int64.
        size: Side of the board, int64.
        memory: From `make_memory`; changed. When `memory[STOP]` is set the counts mean nothing.

    Returns:
        int64, a byte for each player from the mover on; `seat_balls` reads it.
    """
    return _search_many(uint64(own), uint64(following), uint64(third), uint64(fourth), int64(players), int64(size), memory)
