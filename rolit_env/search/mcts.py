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
from rolit_env.rules import word_geometry
from rolit_env.search.children import seat_children
from rolit_env.search.evaluation import SCALE, SHARE, pair_value, seat_values
from rolit_env.search.network import Network, answer_position, answer_turns
from rolit_env.search.ntuple import Scratch
from rolit_env.search.playouts import FEW, Playouts, play_out, play_out_alone, share_round
from rolit_env.search.position import after_turn, empty_count, legal_cells
from rolit_env.search.solver import solve_pair
from rolit_env.search.tree import Tree, expand

SOLVED = 5
"""Empty cells with which leaves of two players are solved, where a network values the others: it takes no longer."""

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
def _mean_so_far(tree: Any, first: Any, last: Any) -> Any:
    """Return the mean share that children of a node have brought its mover, 0 before any visit."""
    total, visits = 0.0, 0
    for child in range(first, last):
        total += tree.totals[child]
        visits += tree.visits[child]
    return total / visits if visits else 0.0


@register_jitable
def _choose_child(tree: Any, node: Any, formula: Any) -> Any:
    first = int64(tree.firsts[node])
    last = first + int64(tree.counts[node])
    best, most = first, -np.inf
    if formula.puct:
        # A child without visits is taken to be worth what a network says, or else what the node was to its mover so far.
        expected = _mean_so_far(tree, first, last) if np.isnan(tree.worths[first]) else 0.0
        curiosity = formula.explore * np.sqrt(float(tree.visits[node]))
        for child in range(first, last):
            count = tree.visits[child]
            inverse = 1.0 / (1 + count)
            mean = expected if np.isnan(tree.worths[child]) else tree.worths[child]
            if count:
                mean = tree.totals[child] / count
            score = mean + curiosity * tree.priors[child] * inverse
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
                    play_out_alone(leaves, lanes, game, tree.random, players, size, playouts)
            else:
                play_out(leaves, lanes, legal, cells, places, tree.random, players, turns, playouts, g)
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
    share_round(leaves.words, game, players, leaves.shares, game)  # by seat from the mover
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
                leaves.shares[game, (mover + slot) % players] = _share(values[at, slot], players)
            node = leaves.paths[game, mover]
            if expand(tree, node, legal[game]):
                first = int64(tree.firsts[node])
                for child in range(first, first + int64(tree.counts[node])):
                    tree.priors[child] = logits[at, tree.cells[child]]
                _soften(tree, node, 1.0)
            at += 1
        _back_up(tree, leaves, game, players)


@register_jitable
def _share(payoff: Any, players: int) -> Any:
    """Return the share of the round that a payoff (`win`) stands for."""
    return min(max((1.0 + payoff * (players - 1)) / players, 0.0), 1.0)


@register_jitable
def _soften(tree: Any, node: Any, temperature: Any) -> None:
    """Turn the logits that the priors of a node's children hold into priors: their softmax."""
    first = int64(tree.firsts[node])
    last = first + int64(tree.counts[node])
    most = -np.inf
    for child in range(first, last):
        most = max(most, tree.priors[child])
    total = 0.0
    for child in range(first, last):
        tree.priors[child] = np.exp((tree.priors[child] - most) / temperature)
        total += tree.priors[child]
    for child in range(first, last):
        tree.priors[child] /= total


@kernel
def search_by_network(
    tree: Tree,
    leaves: Leaves,
    players: int,
    size: int,
    simulations: int,
    formula: Formula,
    temperature: float,
    network: Network,
    scratch: Scratch,
    memory: Words,
) -> None:
    """Run simulations in the trees of a group of games, one tree after another; a network gives priors and values.

    Args:
        tree: The trees.
        leaves: Of as many games.
        players: P.
        size: Side of the board.
        simulations: In each game.
        formula: PUCT.
        temperature: Priors are the softmax of logits divided by it.
        network: To ask.
        scratch: To work with.
        memory: Of the exact solver.
    """
    for game in range(leaves.left.shape[0]):  # before one tree takes the others' room
        if tree.firsts[game] == 0:
            root = tree.roots[0, game], tree.roots[1, game], tree.roots[2, game], tree.roots[3, game]
            _open_by_network(tree, game, root, players, size, temperature, network, scratch)
    for game in range(leaves.left.shape[0]):
        for _ in range(simulations):
            _descend_by_network(tree, leaves, game, players, size, formula, temperature, network, scratch)
            depth, left = leaves.depths[game], leaves.left[game]
            own, following = leaves.words[0, game], leaves.words[1, game]
            third, fourth = leaves.words[2, game], leaves.words[3, game]
            node = leaves.paths[game, depth]
            if left == 0:
                _share_leaf(leaves, game, players)
            elif players == 2:
                share = min(max(tree.worths[node], 0.0), 1.0)  # of who moved here
                if left <= SOLVED and tree.visits[node]:
                    share = tree.totals[node] / tree.visits[node]  # all visits brought the same
                elif left <= SOLVED:
                    value = solve_pair(own, following, third | fourth, int64(-1), int64(1), int64(size), memory)
                    share = 0.5 - 0.5 * np.sign(value)
                leaves.shares[game, depth % 2], leaves.shares[game, (depth + 1) % 2] = 1.0 - share, share
            else:
                answer_position((own, following, third, fourth), players, size, network)
                for slot in range(players):
                    leaves.shares[game, (depth + slot) % players] = _share(network.values[slot], players)
            _back_up(tree, leaves, game, players)


@register_jitable
def _descend_by_network(
    tree: Any, leaves: Any, game: Any, players: int, size: int, formula: Any, temperature: Any, network: Any, scratch: Any
) -> None:
    """Go down to a leaf: a position without visits, near its end, or without room for children.

    Most leaves are never met again, so the turns from them are looked at no sooner than at the second visit.
    """
    own, following, third, fourth = tree.roots[0, game], tree.roots[1, game], tree.roots[2, game], tree.roots[3, game]
    left = empty_count(own, following, third, fourth, size)
    node, depth = int64(game), 0
    leaves.paths[game, 0] = node
    while left > 0 and (depth == 0 or (tree.visits[node] and (players > 2 or left > SOLVED))):
        if tree.firsts[node] == 0:
            words = own, following, third, fourth
            if not _open_by_network(tree, node, words, players, size, temperature, network, scratch):
                break
        node = _choose_child(tree, node, formula)
        own, following, third, fourth = after_turn(uint64(tree.cells[node]), own, following, third, fourth, players, size)
        left -= 1
        depth += 1
        leaves.paths[game, depth] = node
    leaves.words[0, game], leaves.words[1, game] = own, following
    leaves.words[2, game], leaves.words[3, game] = third, fourth
    leaves.left[game], leaves.depths[game] = left, depth


@register_jitable
def _open_by_network(
    tree: Any, node: Any, position: Any, players: int, size: int, temperature: Any, network: Any, scratch: Any
) -> bool:
    """Give a node its children, with priors and advantages; where the pool has no room, return False."""
    own, following, third, fourth = position
    legal = legal_cells(own, following | third | fourth, size)
    if not expand(tree, node, legal):
        return False
    count = seat_children(own, following, third, fourth, scratch.rows, size, scratch.cells, scratch.words)
    answer_turns(scratch.words, count, players - 1, 0, size, network)
    first = int64(tree.firsts[node])
    for child in range(first, first + count):
        # The network's answers are in the order of the cells, a node's children in any.
        at = int64(popcount(legal & ((uint64(1) << uint64(tree.cells[child])) - uint64(1))))
        tree.priors[child] = network.logits[at]
        tree.worths[child] = (1.0 + network.values[at] * (players - 1)) / players
    _soften(tree, node, temperature)
    if players > 2:
        _centre(tree, first, count, position, players, size, network)
    return True


@register_jitable
def _centre(tree: Any, first: Any, count: Any, position: Any, players: int, size: int, network: Any) -> None:
    """Move the worths of children so that on average, by their priors, they are the share of the position's mover.

    That of one seat alone lacks the mean of all seats, which is about the same for all children.
    """
    answer_position(position, players, size, network)
    lacking = _share(network.values[0], players)
    for child in range(first, first + count):
        lacking -= tree.priors[child] * tree.worths[child]
    for child in range(first, first + count):
        tree.worths[child] += lacking
