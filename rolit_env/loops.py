"""The compiled loops over games in lockstep: words come in, and are changed in place or spread into bytes.

A turn takes two passes. The first rolls balls and leaves in `legal` what the next mover calls others, the second turns that
into legal cells; in one pass the processor would run out of registers. `CHUNK` games go through all passes before the next
games are touched, so that in between their words stay in the nearest cache. Free of branches, and with the board's shifts and
masks as constants, the passes turn into vector instructions.

Legend: B games; `balls` uint64 [4, B], `legal` uint64 [B]; `order` the four slots from the mover's side, as in
`Lockstep.mover_first`; `first` and `last` the range of games to work on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import int8, uint64
from numba.extending import register_jitable

from rolit_env import rules
from rolit_env.bits import GOLDEN, popcount, scramble, select
from rolit_env.kernel import kernel, kernel_for_each_size
from rolit_env.rules import word_geometry

CHUNK = 512
"""Games whose words (24 KiB) fit the nearest cache of any processor of today."""


@register_jitable(forceinline=True)
def _roll(own: Any, following: Any, third: Any, fourth: Any, cells: Any, others: Any, g: Any) -> None:
    for game in range(own.shape[0]):
        mine, first, second, last = rules.put_ball(
            uint64(cells[game]), own[game], following[game], third[game], fourth[game], g
        )
        own[game], following[game], third[game], fourth[game] = mine, first, second, last
        others[game] = mine | second | last


@register_jitable(forceinline=True)
def _find_legal(own: Any, legal: Any, g: Any) -> None:
    for game in range(own.shape[0]):
        legal[game] = rules.legal_cells(own[game], legal[game], g)


@register_jitable(forceinline=True)
def _choose(words: Any, key: Any, first: Any, cells: Any) -> None:
    """Draw one cell of each word, each equally likely; a cell depends on the word, the key and the number of the game only."""
    for game in range(words.shape[0]):
        word = words[game]
        number = scramble(key + uint64(first + game) * uint64(GOLDEN))
        # The upper half of number · count, from two products that fit: no chance is off by more than 2**-58.
        count = popcount(word)
        carried = ((number & uint64(0xFFFFFFFF)) * count) >> uint64(32)
        cells[game] = select(word, ((number >> uint64(32)) * count + carried) >> uint64(32))


@register_jitable(forceinline=True)
def _any_illegal(cells: Any, legal: Any) -> Any:
    numbers = illegal = uint64(0)
    for game in range(cells.shape[0]):
        cell = uint64(cells[game])  # a negative one becomes huge
        numbers |= cell
        illegal |= (uint64(1) << (cell & uint64(63))) & ~legal[game]
    return numbers > 63 or illegal != 0


@kernel
def any_illegal(cells: Any, legal: Any) -> Any:
    """Tell whether one of the cells, int64 [B], is illegal or off the board."""
    return _any_illegal(cells, legal)


@kernel_for_each_size
def step(size: int) -> Callable[..., bool]:
    """Make the loop that plays cells, int64 [B]. Asked to check, it returns False and changes nothing when one is illegal."""
    g = word_geometry(size)

    def step(balls: Any, order: Any, cells: Any, legal: Any, check: bool, first: int, last: int) -> bool:
        if check and _any_illegal(cells[first:last], legal[first:last]):
            return False
        own, following, third, fourth = balls[order[0]], balls[order[1]], balls[order[2]], balls[order[3]]
        for begin in range(first, last, CHUNK):
            end = min(begin + CHUNK, last)
            _roll(
                own[begin:end],
                following[begin:end],
                third[begin:end],
                fourth[begin:end],
                cells[begin:end],
                legal[begin:end],
                g,
            )
            _find_legal(following[begin:end], legal[begin:end], g)
        return True

    return step


@kernel_for_each_size
def play_random(size: int) -> Callable[..., None]:
    """Make the loop that plays uniformly random legal cells, one turn for each of the keys, uint64 [turns]."""
    g = word_geometry(size)

    def play_random(balls: Any, order: Any, keys: Any, players: int, legal: Any, first: int, last: int) -> None:
        chosen = np.empty(CHUNK, np.uint64)
        for begin in range(first, last, CHUNK):
            end = min(begin + CHUNK, last)
            own, following = balls[order[0]][begin:end], balls[order[1]][begin:end]
            third, fourth = balls[order[2]][begin:end], balls[order[3]][begin:end]
            cells, words = chosen[: end - begin], legal[begin:end]
            for turn in range(keys.shape[0]):
                _choose(words, keys[turn], begin, cells)
                _roll(own, following, third, fourth, cells, words, g)
                _find_legal(following, words, g)
                if players == 2:
                    own, following = following, own
                elif players == 3:
                    own, following, third = following, third, own
                else:
                    own, following, third, fourth = following, third, fourth, own

    return play_random


@kernel_for_each_size
def find_legal(size: int) -> Callable[..., None]:
    """Make the loop that finds the legal cells of the mover from nothing but the balls."""
    g = word_geometry(size)

    def find_legal(balls: Any, order: Any, legal: Any, first: int, last: int) -> None:
        own, following, third, fourth = balls[order[0]], balls[order[1]], balls[order[2]], balls[order[3]]
        for game in range(first, last):
            legal[game] = rules.legal_cells(own[game], following[game] | third[game] | fourth[game], g)

    return find_legal


@kernel_for_each_size
def spread(size: int) -> Callable[..., None]:
    """Make the loop that spreads rows of words into 0/1 bytes: out is int8 [B, rows, n·n]."""
    cells = size * size

    def spread(words: Any, order: Any, out: Any, first: int, last: int) -> None:
        for game in range(first, last):
            for at in range(len(order)):
                word = words[order[at], game]
                for cell in range(cells):
                    out[game, at, cell] = int8((word >> uint64(cell)) & uint64(1))

    return spread


@kernel
def choose(words: Any, key: Any, cells: Any) -> None:
    """Draw one cell of each word, uint64 [B], into cells, int64 [B]."""
    _choose(words, key, 0, cells)
