"""Monte Carlo tree search over many games side by side: trees come in, and grow by so many simulations.

Each simulation goes down the tree of each game to a leaf, evaluates the leaves of all games together, and backs the results
up. How a leaf is evaluated is all that kinds of search differ in.

Legend: G games in a group, P players, A = n·n actions. Seats count from the mover of the root, who is 0, so the mover at depth
d is d % P.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, uint64
from numba.extending import register_jitable

from rolit_env.bits import Words, popcount
from rolit_env.kernel import kernel, kernel_for_each_size
from rolit_env.loops import _choose, _find_legal, _roll
from rolit_env.rules import word_geometry
from rolit_env.search.evaluation import SCALE, SHARE, pair_value, seat_values
from rolit_env.search.position import after_turn, empty_count, legal_cells, lowest, number
from rolit_env.search.tree import Tree, draw, expand

DEEPEST = 61
"""Nodes on the longest path: a round of 60 turns and the root."""


class Leaves(NamedTuple):
    """Where the simulations of a group of games have arrived.

    Attributes:
        words: Positions, uint64 [4, G].
        left: Turns left, int64 [G].
        depths: Turns from the root, int64 [G].
        paths: The entries from the root to the leaf, int32 [G, 61].
        shares: What the leaf is worth to each seat, to be filled in, float64 [G, 4].
    """

    words: Words
    left: npt.NDArray[np.int64]
    depths: npt.NDArray[np.int64]
    paths: npt.NDArray[np.int32]
    shares: npt.NDArray[np.float64]


class Formula(NamedTuple):
    """How a node chooses among its children.

    Attributes:
        explore: Weight of curiosity.
        puct: Curiosity in proportion to priors (PUCT); otherwise by the logarithm of the visits (UCT), where every child gets
            a visit before one gets a second.
    """

    explore: float
    puct: bool


class Playouts(NamedTuple):
    """How leaves are played out: each turn on a random cell, but not quite any.

    Attributes:
        best: Cells that are taken before any other; 0 for none.
        worst: Cells that are taken only when nothing else is legal; 0 for none.
    """

    best: np.uint64
    worst: np.uint64


def make_leaves(games: int) -> Leaves:
    """Return room for the leaves of so many games."""
    return Leaves(
        words=np.empty((4, games), np.uint64),
        left=np.empty(games, np.int64),
        depths=np.empty(games, np.int64),
        paths=np.empty((games, DEEPEST), np.int32),
        shares=np.zeros((games, 4), np.float64),
    )


@register_jitable
def _choose_child(tree: Any, node: Any, formula: Any) -> Any:
    first = int64(tree.firsts[node])
    last = first + int64(tree.counts[node])
    best, most = first, -np.inf
    if formula.puct:
        total, visits = 0.0, 0
        for child in range(first, last):
            total += tree.totals[child]
            visits += tree.visits[child]
        # A child without visits is taken to be worth what the node has been worth to its mover so far.
        expected = total / visits if visits else 0.0
        curiosity = formula.explore * np.sqrt(float(tree.visits[node]))
        for child in range(first, last):
            count = tree.visits[child]
            mean = tree.totals[child] / count if count else expected
            score = mean + curiosity * tree.priors[child] / (1 + count)
            if score > most:
                best, most = child, score
        return best
    curiosity = formula.explore * np.sqrt(np.log(float(tree.visits[node])))
    for child in range(first, last):
        if tree.visits[child] == 0:
            return child
        inverse = 1.0 / tree.visits[child]
        score = tree.totals[child] * inverse + curiosity * np.sqrt(inverse)
        if score > most:
            best, most = child, score
    return best


@register_jitable
def _descend(tree: Any, leaves: Any, game: Any, players: int, size: int, formula: Any) -> None:
    """Go down to a leaf: a node without turns left, without visits, or (for PUCT, whose priors come later) without children.

    The root of UCT needs no visit of its own, as nothing was to be chosen to get there.
    """
    own, following, third, fourth = tree.roots[0, game], tree.roots[1, game], tree.roots[2, game], tree.roots[3, game]
    left = empty_count(own, following, third, fourth, size)
    node, depth = int64(game), 0
    leaves.paths[game, 0] = node
    while left > 0:
        if tree.firsts[node] == 0:
            if formula.puct or (tree.visits[node] == 0 and depth > 0):
                break
            if not expand(tree, node, legal_cells(own, following | third | fourth, size)):
                break
        node = _choose_child(tree, node, formula)
        cell = uint64(tree.cells[node])
        own, following, third, fourth = after_turn(cell, own, following, third, fourth, players, size)
        left -= 1
        depth += 1
        leaves.paths[game, depth] = node
    leaves.words[0, game], leaves.words[1, game] = own, following
    leaves.words[2, game], leaves.words[3, game] = third, fourth
    leaves.left[game], leaves.depths[game] = left, depth


@register_jitable
def _back_up(tree: Any, leaves: Any, game: Any, players: int) -> None:
    mover = players - 1  # who moved into the root
    for depth in range(leaves.depths[game] + 1):
        node = leaves.paths[game, depth]
        tree.visits[node] += 1
        tree.totals[node] += leaves.shares[game, mover]
        mover = mover + 1 if mover + 1 < players else 0


@register_jitable
def _share(balls: Any, game: Any, players: int, shares: Any, at: Any) -> None:
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
def _play_out(
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
        _share(lanes, places[game], players, leaves.shares, game)


@register_jitable
def _play_out_alone(leaves: Any, lanes: Any, game: Any, random: Any, players: int, size: int, playouts: Any) -> None:
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
    _share(lanes, game, players, leaves.shares, game)


FEW = 3
"""Games up to which playing out one by one is faster than side by side: vectors of so few games are hardly filled."""


@kernel_for_each_size
def search_by_playouts(size: int) -> Callable[[Tree, Leaves, int, int, Formula, Playouts], None]:
    """Make the kernel that runs simulations in the trees of a group of games; a leaf is worth what one playout brings."""
    g = word_geometry(size)

    def search_by_playouts(tree: Any, leaves: Any, players: int, simulations: int, formula: Any, playouts: Any) -> None:
        games = leaves.left.shape[0]
        lanes, legal = np.empty((4, games), np.uint64), np.empty(games, np.uint64)
        cells, places = np.empty(games, np.uint64), np.empty(games, np.int64)
        turns = empty_count(tree.roots[0, 0], tree.roots[1, 0], tree.roots[2, 0], tree.roots[3, 0], size)
        for _ in range(simulations):
            for game in range(games):
                _descend(tree, leaves, game, players, size, formula)
            if games <= FEW:
                for game in range(games):
                    _play_out_alone(leaves, lanes, game, tree.random, players, size, playouts)
            else:
                _play_out(leaves, lanes, legal, cells, places, tree.random, players, turns, playouts, g)
            for game in range(games):
                _back_up(tree, leaves, game, players)

    return search_by_playouts


@register_jitable
def leaf_shares(own: Any, following: Any, third: Any, fourth: Any, players: int, size: int, evaluation: Any) -> Any:
    """Return what an evaluation expects each seat to win, four floats, the mover's first."""
    if players == 2:
        logit = float(pair_value(own, following, third, fourth, size, evaluation)) / SCALE
        share = 1.0 / (1.0 + np.exp(-logit))
        return share, 1.0 - share, 0.0, 0.0
    first, second, next_one, last = seat_values(own, following, third, fourth, players, size, evaluation)
    return first / SHARE, second / SHARE, next_one / SHARE, last / SHARE


@kernel
def search_by_values(
    tree: Tree, leaves: Leaves, players: int, size: int, simulations: int, formula: Formula, evaluation: Any
) -> None:
    """Run simulations in the trees of a group of games; a leaf is worth what an evaluation says, or what the round brought."""
    games = leaves.left.shape[0]
    for _ in range(simulations):
        for game in range(games):
            _descend(tree, leaves, game, players, size, formula)
            mover = leaves.depths[game]
            if leaves.left[game] == 0:
                _share_leaf(leaves, game, players)
            else:
                own, following = leaves.words[0, game], leaves.words[1, game]
                third, fourth = leaves.words[2, game], leaves.words[3, game]
                for slot, share in enumerate(leaf_shares(own, following, third, fourth, players, size, evaluation)):
                    if slot < players:
                        leaves.shares[game, (mover + slot) % players] = share
            _back_up(tree, leaves, game, players)


@register_jitable
def _share_leaf(leaves: Any, game: Any, players: int) -> None:
    """Split the round at a leaf that is its end."""
    _share(leaves.words, game, players, leaves.shares, game)  # by seat from the mover
    mover = leaves.depths[game]
    shares = leaves.shares[game].copy()
    for slot in range(players):
        leaves.shares[game, (mover + slot) % players] = shares[slot]


@kernel
def descend(tree: Tree, leaves: Leaves, players: int, size: int, formula: Formula, legal: Words) -> None:
    """Go down to the leaf of every game, and write the legal cells there, uint64 [G] (none on a full board)."""
    for game in range(leaves.left.shape[0]):
        _descend(tree, leaves, game, players, size, formula)
        own, others = leaves.words[0, game], leaves.words[1, game] | leaves.words[2, game] | leaves.words[3, game]
        legal[game] = legal_cells(own, others, size)


@kernel
def back_up(tree: Tree, leaves: Leaves, players: int, legal: Words, logits: Any, values: Any) -> None:
    """Give the leaves children with priors, and back up what a policy thinks of them.

    Args:
        tree: Where the leaves are.
        leaves: As `descend` left them; `shares` is filled in.
        players: P.
        legal: Legal cells, uint64 [G].
        logits: Of the leaves that are not full boards, in order, float32 [leaves, A].
        values: Payoffs (`win`) expected there, the mover's first, float32 [leaves, P].
    """
    at = 0
    for game in range(leaves.left.shape[0]):
        mover = leaves.depths[game]
        if leaves.left[game] == 0:
            _share_leaf(leaves, game, players)
        else:
            for slot in range(players):
                share = (1.0 + values[at, slot] * (players - 1)) / players
                leaves.shares[game, (mover + slot) % players] = min(max(share, 0.0), 1.0)
            node = leaves.paths[game, mover]
            if expand(tree, node, legal[game]):
                _set_priors(tree, node, logits[at])
            at += 1
        _back_up(tree, leaves, game, players)


@register_jitable
def _set_priors(tree: Any, node: Any, logits: Any) -> None:
    """Write the softmax of the legal cells' logits into the children."""
    first = int64(tree.firsts[node])
    last = first + int64(tree.counts[node])
    most = -np.inf
    for child in range(first, last):
        most = max(most, logits[tree.cells[child]])
    total = 0.0
    for child in range(first, last):
        weight = np.exp(logits[tree.cells[child]] - most)
        tree.priors[child] = weight
        total += weight
    for child in range(first, last):
        tree.priors[child] /= total
