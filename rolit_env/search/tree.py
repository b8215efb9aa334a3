"""The trees of many games side by side: new positions come in, what is known about them is kept, the best moves go out.

The trees of a group of games are one pool of entries, the children of a node side by side. An entry has children once it is
expanded; a full pool expands no more. Positions are not kept: going down replays the turns from the root. A payoff is a share
of the round for each seat, and every seat chooses for itself alone (max^n), so an entry keeps one sum only: the shares of the
seat that moves into it.

Legend: G games in a group, N entries in its pool, P players; positions are four mover-first words, as in `position`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, uint64
from numba.extending import register_jitable

from rolit_env.bits import Words, draw, popcount
from rolit_env.kernel import kernel
from rolit_env.search.position import after_turn, lowest, number


class Tree(NamedTuple):
    """The trees of a group of games. Entry number `game` of the pool is the root of that game.

    Attributes:
        roots: Positions of the roots, uint64 [4, G].
        visits: Simulations that went through an entry, int64 [N].
        totals: Shares that they brought the seat that moves into the entry, summed, float64 [N].
        priors: How much a policy thinks of the move, float32 [N].
        worths: What share a network expects for whoever makes the move, before any visit, float32 [N]; NaN if none was asked.
        firsts: The first of an entry's children, 0 before it is expanded, int32 [N].
        counts: The number of its children, int8 [N].
        cells: The move that leads into it, int8 [N].
        used: Entries in use, int64 [1].
        random: The state of the random numbers, uint64 [1].
    """

    roots: Words
    visits: npt.NDArray[np.int64]
    totals: npt.NDArray[np.float64]
    priors: npt.NDArray[np.float32]
    worths: npt.NDArray[np.float32]
    firsts: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int8]
    cells: npt.NDArray[np.int8]
    used: npt.NDArray[np.int64]
    random: Words


MOST_CHILDREN = 64
"""Entries for each root that nothing which is kept may take, so that every root has children."""

ENTRY_BYTES = 8 + 8 + 4 + 4 + 4 + 1 + 1
"""What an entry takes."""


def make_tree(games: int, entries: int) -> Tree:
    """Return room for the trees of so many games, with nothing in it."""
    return Tree(
        roots=np.zeros((4, games), np.uint64),
        visits=np.empty(entries, np.int64),
        totals=np.empty(entries, np.float64),
        priors=np.empty(entries, np.float32),
        worths=np.empty(entries, np.float32),
        firsts=np.empty(entries, np.int32),
        counts=np.empty(entries, np.int8),
        cells=np.empty(entries, np.int8),
        used=np.zeros(1, np.int64),
        random=np.zeros(1, np.uint64),
    )


@register_jitable
def _add_entry(tree: Any, at: Any, cell: Any) -> None:
    tree.visits[at] = 0
    tree.totals[at] = 0.0
    tree.priors[at] = 0.0
    tree.worths[at] = np.nan
    tree.firsts[at] = 0
    tree.counts[at] = 0
    tree.cells[at] = cell


@register_jitable
def expand(tree: Any, node: Any, legal: Any) -> bool:
    """Give a node its children, in random order; where the pool has no room, return False."""
    first, count = tree.used[0], int64(popcount(legal))
    if first + count > tree.visits.shape[0]:
        return False
    tree.used[0] = first + count
    tree.firsts[node], tree.counts[node] = first, count
    for at in range(count):
        low = lowest(legal)
        legal ^= low
        # Shuffled from the inside out: the newcomer goes to a random place, who was there to the end.
        place = int64((draw(tree.random) >> uint64(32)) * uint64(at + 1) >> uint64(32))
        _add_entry(tree, first + at, tree.cells[first + place])
        tree.cells[first + place] = number(low)
    return True


@kernel
def plant(tree: Tree, kept: Tree, view: Words, players: int, size: int) -> None:
    """Put up positions as new roots, with all that is known about them.

    Args:
        tree: What it held is overwritten.
        kept: Trees of as many games. A position that is up to P turns away from the root there comes with what is below it.
        view: Positions, uint64 [G, 4].
        players: P.
        size: Side of the board.
    """
    games = view.shape[0]
    tree.used[0] = games
    sources = np.empty(tree.visits.shape[0], np.int32)
    for game in range(games):
        for slot in range(4):
            tree.roots[slot, game] = view[game, slot]
        _add_entry(tree, game, 0)
        source = _find(kept, game, view[game], players, size) if kept.used[0] else -1
        if source >= 0:
            _copy(kept, source, tree, game, sources, tree.visits.shape[0] - MOST_CHILDREN * games)


@register_jitable
def _find(kept: Any, game: Any, position: Any, players: int, size: int) -> int:
    """Return the entry of a position below a root, the most visited one if several turns lead there, -1 if there is none."""
    before = kept.roots[0, game] | kept.roots[1, game] | kept.roots[2, game] | kept.roots[3, game]
    after = position[0] | position[1] | position[2] | position[3]
    added = after & ~before
    turns = int64(popcount(added))
    if before & ~after or turns > players:
        return -1
    # All ways to put balls on the added cells, turn by turn: 24 at most.
    nodes, words = np.empty((2, 24), np.int64), np.empty((2, 24, 4), np.uint64)
    nodes[0, 0], found = game, 1
    for slot in range(4):
        words[0, 0, slot] = kept.roots[slot, game]
    for turn in range(turns):
        now, then, grown = turn % 2, (turn + 1) % 2, 0
        for at in range(found):
            first = int64(kept.firsts[nodes[now, at]])
            own, following, third, fourth = words[now, at, 0], words[now, at, 1], words[now, at, 2], words[now, at, 3]
            for child in range(first, first + int64(kept.counts[nodes[now, at]])):
                cell = uint64(kept.cells[child])
                if (added >> cell) & uint64(1):
                    a, b, c, d = after_turn(cell, own, following, third, fourth, players, size)
                    words[then, grown, 0], words[then, grown, 1], words[then, grown, 2], words[then, grown, 3] = a, b, c, d
                    nodes[then, grown] = child
                    grown += 1
        found = grown
    last, best, most = turns % 2, -1, -1
    for at in range(found):
        same = True
        for slot in range(4):
            same = same and words[last, at, slot] == position[slot]
        if same and kept.visits[nodes[last, at]] > most:
            best, most = nodes[last, at], kept.visits[nodes[last, at]]
    return best


@register_jitable
def _copy(kept: Any, source: int, tree: Any, root: int, sources: Any, room: int) -> None:
    """Copy an entry and all below it, as far as `room` entries go; `sources` remembers where each new one came from."""
    tree.visits[root], tree.totals[root] = kept.visits[source], kept.totals[source]
    sources[root] = source
    node, following = root, tree.used[0]
    while True:
        first, count = int64(kept.firsts[sources[node]]), int64(kept.counts[sources[node]])
        begin = tree.used[0]
        if first and begin + count <= room:
            tree.firsts[node], tree.counts[node] = begin, count
            tree.used[0] = begin + count
            for at in range(count):
                sources[begin + at] = first + at
                tree.visits[begin + at], tree.totals[begin + at] = kept.visits[first + at], kept.totals[first + at]
                tree.priors[begin + at], tree.worths[begin + at] = kept.priors[first + at], kept.worths[first + at]
                tree.cells[begin + at], tree.firsts[begin + at], tree.counts[begin + at] = kept.cells[first + at], 0, 0
        if following == tree.used[0]:
            return
        node = following
        following += 1


@kernel
def most_visited(tree: Tree, cells: npt.NDArray[np.int64]) -> None:
    """Write the move of each root that got most visits, int64 [G]; among equals that with the higher mean, then prior."""
    for game in range(cells.shape[0]):
        first = int64(tree.firsts[game])
        best = first
        for child in range(first + 1, first + int64(tree.counts[game])):
            more = tree.visits[child] - tree.visits[best]
            better = tree.totals[child] - tree.totals[best]
            if more > 0 or (more == 0 and (better > 0 or (better == 0 and tree.priors[child] > tree.priors[best]))):
                best = child
        cells[game] = tree.cells[best]


def root_moves(tree: Tree, game: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the moves from a root: their cells, visits, and totals (see `Tree`)."""
    children = slice(tree.firsts[game], tree.firsts[game] + tree.counts[game])
    return tree.cells[children], tree.visits[children], tree.totals[children]


def compact(tree: Tree) -> Tree:
    """Return a copy without the room that is not in use."""
    used = int(tree.used[0])
    return Tree(
        roots=tree.roots.copy(),
        visits=tree.visits[:used].copy(),
        totals=tree.totals[:used].copy(),
        priors=tree.priors[:used].copy(),
        worths=tree.worths[:used].copy(),
        firsts=tree.firsts[:used].copy(),
        counts=tree.counts[:used].copy(),
        cells=tree.cells[:used].copy(),
        used=tree.used.copy(),
        random=tree.random.copy(),
    )
