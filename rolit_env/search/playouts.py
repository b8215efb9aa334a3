"""Playouts: leaves of trees come in, are played to the end at random, and the shares of their rounds go out.

Many are played side by side in the batch engine's loops over games; the seats are those of the roots, as in `mcts`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint64
from numba.extending import register_jitable

from rolit_env.bits import draw, popcount
from rolit_env.loops import _choose, _find_legal, _roll
from rolit_env.search.position import after_turn, legal_cells, lowest, number

FEW = 3
"""Games up to which playing out one by one is faster than side by side: vectors of so few games are hardly filled."""


class Playouts(NamedTuple):
    """How leaves are played out: each turn on a random cell, but not quite any.

    Attributes:
        best: Cells that are taken before any other; 0 for none.
        worst: Cells that are taken only when nothing else is legal; 0 for none.
    """

    best: np.uint64
    worst: np.uint64


@register_jitable
def share_round(balls: Any, game: Any, players: int, shares: Any, at: Any) -> None:
    """Split a full board's round among its leaders; `balls` by seat."""
    most, leaders = uint64(0), 0
    for seat in range(players):
        count = popcount(balls[seat, game])
        if count > most:
            most, leaders = count, 0
        if count == most:
            leaders += 1
    for seat in range(players):
        shares[at, seat] = 1.0 / leaders if popcount(balls[seat, game]) == most else 0.0


@register_jitable(forceinline=True)
def _favourites(legal: Any, playouts: Any) -> Any:
    best, fair = legal & playouts.best, legal & ~playouts.worst
    fair |= legal * (fair == 0)
    return best | (fair * (best == 0))


@register_jitable
def _favour(legal: Any, playouts: Any) -> None:
    for game in range(legal.shape[0]):
        legal[game] = _favourites(legal[game], playouts)


@register_jitable
def play_out(
    leaves: Any, lanes: Any, legal: Any, cells: Any, places: Any, random: Any, players: int, turns: int, playouts: Any, g: Any
) -> None:
    """Play the leaves of all games to the end, and share the rounds out.

    Games with most turns left come first, so that those under way are always the first ones of the arrays; others join when
    their turn comes.
    """
    games = leaves.left.shape[0]
    ends = np.zeros(turns + 2, np.int64)  # [t]: games with t turns left or more
    for game in range(games):
        ends[leaves.left[game]] += 1
    for left in range(turns - 1, -1, -1):
        ends[left] += ends[left + 1]
    for game in range(games):
        left, depth = leaves.left[game], leaves.depths[game]
        place = ends[left + 1]
        ends[left + 1] += 1
        places[game] = place
        for slot in range(4):
            lanes[(depth + slot) % players if slot < players else slot, place] = leaves.words[slot, game]
        legal[place] = leaves.words[1, game] | leaves.words[2, game] | leaves.words[3, game]
    # Counting up has moved each end on to the next: ends[t + 1] is where those with t turns left end.
    joined, mover = 0, 0
    for left in range(turns, 0, -1):
        playing = ends[left + 1]
        own, following = lanes[mover], lanes[(mover + 1) % players]
        third = lanes[(mover + 2) % players if players > 2 else 2]
        fourth = lanes[(mover + 3) % players if players > 3 else 3]
        if playing > joined:
            _find_legal(own[joined:playing], legal[joined:playing], g)
            joined = playing
        if playing:
            if playouts.best | playouts.worst:
                _favour(legal[:playing], playouts)
            _choose(legal[:playing], draw(random), 0, cells[:playing])
            _roll(own[:playing], following[:playing], third[:playing], fourth[:playing], cells[:playing], legal[:playing], g)
            _find_legal(following[:playing], legal[:playing], g)
        mover = (mover + 1) % players
    for game in range(games):
        share_round(lanes, places[game], players, leaves.shares, game)


@register_jitable
def play_out_alone(leaves: Any, lanes: Any, game: Any, random: Any, players: int, size: int, playouts: Any) -> None:
    """Play one leaf to the end, and share the round out: for few games, where loops over games gain nothing."""
    own, following, third, fourth = leaves.words[0, game], leaves.words[1, game], leaves.words[2, game], leaves.words[3, game]
    for _ in range(leaves.left[game]):
        legal = uint64(_favourites(legal_cells(own, following | third | fourth, size), playouts))
        for _ in range(((draw(random) >> uint64(32)) * popcount(legal)) >> uint64(32)):
            legal &= legal - uint64(1)
        cell = number(lowest(legal))
        own, following, third, fourth = after_turn(cell, own, following, third, fourth, players, size)
    mover = leaves.depths[game] + leaves.left[game]
    for slot, word in enumerate((own, following, third, fourth)):
        lanes[(mover + slot) % players if slot < players else slot, game] = word
    share_round(lanes, game, players, leaves.shares, game)
