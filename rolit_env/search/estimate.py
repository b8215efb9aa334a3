"""What solving a position would take: a position comes in, how fast the work grows and what that makes of it goes out.

Rounds go on from the position at random, and are solved exactly at so many empty cells: ten at first, then one more each time.
The logarithm of the positions searched grows about evenly, so a straight line goes through all of them and on to where the
question is. Its interval is that of one position, for what was seen; that the growth goes on as seen is an assumption.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import OptionError, SolveError, VariantError
from rolit_env.search.solver import INFINITY, NODES, make_memory, solve_pair

FEWEST_EMPTIES = 10
"""Empty cells to begin with: fewer take too little for their growth to say anything."""

POSITIONS = 16
"""Positions that are solved at each number of empty cells."""


@dataclass(frozen=True)
class Sample:
    """The positions with so many empty cells: nodes searched for the exact value of each, and seconds for all."""

    empties: int
    nodes: tuple[int, ...]
    seconds: float

    @property
    def typical(self) -> float:
        """The geometric mean of the nodes."""
        return float(np.exp(np.log(self.nodes).mean()))

    @property
    def rate(self) -> float:
        """Nodes a second."""
        return sum(self.nodes) / self.seconds


@dataclass(frozen=True)
class Estimate:
    """What solving a position would take on one core.

    Attributes:
        empties: Its empty cells.
        samples: What was solved, fewest empty cells first.
        growth: How many times as many nodes one more empty cell takes,
        growth_interval: and its half width at 95 %.
        nodes: Nodes that makes for the position,
        low: and the ends of the interval
        high: at 95 %.
        rate: Nodes a second where most cells were empty.
    """

    empties: int
    samples: tuple[Sample, ...]
    growth: float
    growth_interval: float
    nodes: float
    low: float
    high: float
    rate: float


def estimate(
    board: Board, seconds: float = 60, seed: int = 0, report: Callable[[Sample], None] | None = None, entries: int = 1 << 22
) -> Estimate:
    """Solve positions that follow from one of two players, and say what solving the position itself would take.

    Args:
        board: The position.
        seconds: Time for it: what would probably take longer is not begun, but three numbers of empty cells always are.
        seed: The same seed gives the same positions.
        report: Called after each number of empty cells.
        entries: Positions in the table of the search.

    Raises:
        VariantError: for more than two players.
        SolveError: for a position with too few empty cells, which is solved in less time than this takes.
        OptionError: for a time that is not above 0.
    """
    empties = board.variant.plies - board.ply
    if board.players != 2:
        raise VariantError(f"{board.variant.name} has no estimate; only two players are solved that far from the end")
    if empties < FEWEST_EMPTIES + 3:
        raise SolveError(f"{empties} cells are empty, which needs no estimate; from {FEWEST_EMPTIES + 3} on there is one")
    if not seconds > 0:
        raise OptionError(f"seconds={seconds!r} is no time; allowed are numbers above 0")
    rng, memory, samples = np.random.default_rng(seed), make_memory(entries), list[Sample]()
    solve_pair(np.uint64(1), np.uint64(0), np.uint64(board.variant.geometry.board - 1), -1, 1, board.size, memory)  # compiles
    for left in range(FEWEST_EMPTIES, empties):
        games = GameBatch.from_boards([board] * POSITIONS)
        games.step_random(rng, empties - left)
        start, nodes = time.perf_counter(), []
        for own, other, third, fourth in games.view():
            memory[NODES] = 0
            solve_pair(own, other, third | fourth, -INFINITY, INFINITY, board.size, memory)
            nodes.append(int(memory[NODES]))
        samples.append(Sample(left, tuple(nodes), time.perf_counter() - start))
        if report:
            report(samples[-1])
        if len(samples) >= 3 and sum(sample.seconds for sample in samples) + 3 * samples[-1].seconds > seconds:
            break
    return _extrapolate(samples, empties)


def _extrapolate(samples: list[Sample], empties: int) -> Estimate:
    """Fit a line to the logarithms of the nodes, by least squares, and follow it to so many empty cells."""
    x = np.repeat([sample.empties for sample in samples], [len(sample.nodes) for sample in samples]).astype(float)
    y = np.log(np.concatenate([sample.nodes for sample in samples]))
    spread = np.square(x - x.mean()).sum()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / spread
    variance = np.square(y - y.mean() - slope * (x - x.mean())).sum() / (len(x) - 2)
    middle = y.mean() + slope * (empties - x.mean())
    width = 1.96 * np.sqrt(variance * (1 + 1 / len(x) + (empties - x.mean()) ** 2 / spread))
    return Estimate(
        empties=empties,
        samples=tuple(samples),
        growth=float(np.exp(slope)),
        growth_interval=float(np.exp(slope) * 1.96 * np.sqrt(variance / spread)),
        nodes=float(np.exp(middle)),
        low=float(np.exp(middle - width)),
        high=float(np.exp(middle + width)),
        rate=samples[-1].rate,
    )
