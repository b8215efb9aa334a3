"""All of 4x4: nothing comes in, every position that two players can reach and its exact value come out.

Red starts here. Where green starts, each position is one of these mirrored in the diagonal from bottom left to top right,
which puts red's first ball in the place of green's and leaves the neutral balls where they are.

Positions are told apart by the balls of all four colours from the mover's side; the way that led to them does not matter. They
are found turn by turn in bulk with NumPy, and valued backwards from the full boards, whose value is counted.
"""

from __future__ import annotations

import numpy as np

from rolit_env.bits import Words
from rolit_env.search.expansion import play_all
from rolit_env.search.truth import DATA, ILLEGAL, SolvedPositions
from rolit_env.symmetry import cell_permutations, transform_words
from rolit_env.variant import variant

SIZE = 4
STORED = DATA / "4x4-2p.npz"
"""The solved positions that come with the package; `rolit solve --size 4 --store FILE` makes such a file anew."""

_PLACES = np.arange(0, 64, 16, dtype=np.uint64)
MIRROR = 6
"""The symmetry that leaves the cells of the diagonal from bottom left to top right where they are."""


def solve_small_board() -> SolvedPositions:
    """Return every position with a turn left, in the order of the turns, and the value of each legal move."""
    chosen = variant(SIZE, 2)
    start = np.array([[chosen.start[color] for color in chosen.slot_colors(0)]], np.uint64)
    layers, turns = [start], []
    for _ in range(chosen.plies):
        position, cell, after = play_all(layers[-1], SIZE)
        keys, reached = np.unique(pack(after), return_inverse=True)
        layers.append(unpack(keys))
        turns.append((position, cell, reached))

    full = layers.pop()
    worth = np.bitwise_count(full[:, 0]).astype(np.int8) - np.bitwise_count(full[:, 1]).astype(np.int8)
    tables = []
    for words, (position, cell, reached) in zip(reversed(layers), reversed(turns), strict=True):
        values = np.full((len(words), chosen.cells), ILLEGAL, np.int8)
        values[position, cell] = -worth[reached]
        worth = values.max(axis=1)
        tables.append(values)
    return SolvedPositions(SIZE, np.concatenate(layers), np.concatenate(tables[::-1]))


def small_board(starter: str = "red") -> SolvedPositions:
    """Return the stored positions that can be reached when red (or green) starts, in the order of the turns."""
    solved = SolvedPositions.load(STORED)
    if starter == "red":
        return solved
    places = cell_permutations(SIZE)
    values = np.empty_like(solved.values)
    values[:, places[MIRROR]] = solved.values
    return SolvedPositions(SIZE, transform_words(solved.words, places[np.full(len(solved), MIRROR)]), values)


def pack(words: Words) -> Words:
    """Return one word for the four of each position, uint64 [N]."""
    keys: Words = np.bitwise_or.reduce(words << _PLACES, axis=1)
    return keys


def unpack(keys: Words) -> Words:
    """Return the four words of each position, uint64 [N, 4]."""
    words: Words = (keys[:, None] >> _PLACES) & np.uint64(0xFFFF)
    return words


def find(solved: SolvedPositions, words: Words) -> int | None:
    """Return the number of a position, uint64 [4], in all of 4x4, or None where it can't be reached."""
    found = np.flatnonzero((solved.words == words).all(axis=1))
    return int(found[0]) if len(found) else None
