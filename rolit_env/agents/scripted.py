"""The baselines: agents that look at the next move only. Each narrows the legal cells down to its favourites, then draws."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import uint64

from rolit_env import rules
from rolit_env.agents.base import Agent
from rolit_env.batch import GameBatch, draw_cells
from rolit_env.bits import Words, popcount
from rolit_env.kernel import kernel
from rolit_env.rules import word_geometry


class RandomAgent(Agent):
    """Plays each legal cell with equal chance."""

    name = "random"

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return uniformly random legal actions, int64 [B]."""
        return games.random_actions(rng)


class GreedyAgent(Agent):
    """Rolls as many balls as it can this turn; ties are drawn."""

    name = "greedy"

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the actions that roll most balls, int64 [B]."""
        view = games.view()
        best = np.empty(len(games), np.uint64)
        _most_rolled(view, games.legal, best, word_geometry(games.variant.size))
        return draw_cells(best, rng)


class PositionalAgent(Agent):
    """Takes the legal cell with the highest of the booklet's five grades; ties are drawn."""

    name = "positional"

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the actions on the best graded cells, int64 [B]."""
        best = np.zeros(len(games), np.uint64)
        for cells in grade_words(games.variant.size):
            best = np.where(best, best, games.legal & cells)
        return draw_cells(best, rng)


@cache
def cell_grades(size: int) -> tuple[int, ...]:
    """Return the grade of each cell, 4 very strong to 0 very weak, A of them.

    The booklet's figure 8 is not public in readable form. Its text says that corners and part of the edges are worth
    most; the customary reading is: corners very strong, edge cells two from a corner strong, cells touching a corner
    very weak. Here the other edge cells and the inner ones are medium, and those next to an edge weak.
    """
    return tuple(_grade(*(min(at, size - 1 - at) for at in divmod(cell, size))) for cell in range(size * size))


def _grade(row: int, column: int) -> int:
    """Grade a cell by its distances from the nearest horizontal and vertical edge."""
    near, far = sorted((row, column))
    if far == 0:
        return 4
    if far == 1:
        return 0
    if near == 0:
        return 3 if far == 2 else 2
    return 1 if near == 1 else 2


@cache
def grade_words(size: int) -> tuple[np.uint64, ...]:
    """Return the cells of each grade as words, best grade first."""
    grades = cell_grades(size)
    return tuple(
        np.uint64(sum(1 << cell for cell, grade in enumerate(grades) if grade == wanted)) for wanted in (4, 3, 2, 1, 0)
    )


@kernel
def _most_rolled(view: Words, legal: Words, best: Words, geometry: Any) -> None:
    for game in range(legal.shape[0]):
        own = view[game, 0]
        others = view[game, 1] | view[game, 2] | view[game, 3]
        left = legal[game]
        most, favourites = uint64(0), uint64(0)
        while left:
            move = left & (~left + uint64(1))
            left ^= move
            cell = popcount(move - uint64(1))
            rolled = popcount(rules.rolled_balls(cell, own, others, geometry))
            if rolled > most:
                most, favourites = rolled, uint64(0)
            if rolled == most:
                favourites |= move
        best[game] = favourites
