"""Every move of many positions of two players at once: words come in, those after each legal move go out, in layers if wanted.

All with NumPy, which needs no compiling. Legend: N positions, M moves, n side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env import rules
from rolit_env.bits import Words
from rolit_env.rules import word_geometry
from rolit_env.symmetry import cell_permutations, transform_words

Numbers = npt.NDArray[np.int64]

FRONTIER = 200_000
"""Positions that a frontier has at most, unless its depth is given."""


@dataclass(frozen=True)
class Layer:
    """The positions after so many moves, and the moves that lead on.

    Attributes:
        words: Balls of the mover, of the other player, and neutral ones, uint64 [N, 3].
        first: Where each position's moves begin in `after`, int64 [N].
        after: The number, in the next layer, of the position after each move, int64 [M]; empty in the last layer.
    """

    words: Words
    first: Numbers
    after: Numbers


def play_all(words: Words, size: int) -> tuple[Numbers, Numbers, Words]:
    """Play every legal move of every position.

    Args:
        words: Balls of the mover, of the other player, and of the two neutral colours, uint64 [N, 4].
        size: Side of the board, n.

    Returns:
        The number of the position, int64 [M], the cell, int64 [M], and the position after it from the next mover's side,
        uint64 [M, 4]; positions and cells ascend.
    """
    g: Any = word_geometry(size)
    own, following, third, fourth = words.T
    legal = rules.legal_cells(own, following | third | fourth, g)
    position, cell = np.nonzero((legal[:, None] >> np.arange(size * size, dtype=np.uint64)) & np.uint64(1))
    own, following, third, fourth = words[position].T
    mine, second, third, fourth = rules.put_ball(cell.astype(np.uint64), own, following, third, fourth, g)
    return position, cell, np.stack([second, mine, third, fourth], axis=1)


def canonical(words: Words, size: int) -> Words:
    """Return of each position, uint64 [N, 3], the one of its eight turned and mirrored twins with the smallest words."""
    rows, least = np.arange(len(words)), np.ascontiguousarray(words)
    for places in cell_permutations(size)[1:]:
        twin = transform_words(np.ascontiguousarray(words), np.tile(places, (len(words), 1)))
        first = (twin != least).argmax(axis=1)  # the word that decides
        least = np.where((twin[rows, first] < least[rows, first])[:, None], twin, least)
    return least


def spread(words: Words, size: int, depth: int | None) -> list[Layer]:
    """Return the layers from a position, uint64 [3], to `depth` moves on; None stops before there are more than `FRONTIER`."""
    layers: list[Layer] = []
    now = canonical(words[None], size)
    while len(layers) != depth:
        position, _, after = play_all(one_neutral(now), size)
        following, number = np.unique(canonical(after[:, :3], size), axis=0, return_inverse=True)
        if not len(position) or (depth is None and layers and len(following) > FRONTIER):
            break
        layers.append(Layer(now, np.searchsorted(position, np.arange(len(now))), number.reshape(-1)))
        now = following
    return [*layers, Layer(now, np.zeros(0, np.int64), np.zeros(0, np.int64))]


def one_neutral(words: Words) -> Words:
    """Return the same positions with the neutral balls in one colour, uint64 [N, 4]."""
    return np.insert(words, 3, 0, axis=1)
