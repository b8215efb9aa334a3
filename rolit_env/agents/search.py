"""Agents that look ahead: positions of a whole batch come in, the best moves within a budget go out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.agents.base import Agent
from rolit_env.agents.ntuple import NTuples, load_released
from rolit_env.agents.policy import PolicyAgent
from rolit_env.batch import GameBatch, draw_cells
from rolit_env.bits import Words
from rolit_env.errors import AgentError, VariantError
from rolit_env.released import file_of
from rolit_env.search import alphabeta, many, solver
from rolit_env.search.alphabeta import pair_memory, search_pairs, solve_pairs
from rolit_env.search.evaluation import Evaluation, asking, hand_made
from rolit_env.search.many import search_seats, seat_memory, solve_seats
from rolit_env.variant import Variant

DEEPEST = 60
"""Turns of the longest round."""

MOST_TURNS = 60
"""More than any position has."""

TABLE_BITS, LARGE_TABLE_BITS = 15, 20
"""Positions that a search remembers, as a power of two: what fits a core's cache, and for long searches."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found out about each game of a batch.

    Attributes:
        actions: The moves chosen, int64 [B]: drawn among the best ones.
        values: What the mover can reach, int64 [B], or what each seat will, the mover's first, int64 [B, P]: points of the
            evaluation, or results of the round where `depth` reaches its end. The module of the search says which.
        depth: Turns that the last finished search looked ahead, int64 [B].
        nodes: Positions looked at, int64 [B].
    """

    actions: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]
    depth: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int64]


class SearchAgent(Agent):
    """What all of them share: the budget, and many games with one call.

    Args:
        depth: Turns to look ahead, 1 to 60. Where the rest of the round is shorter it is searched to its end.
        nodes: Positions to look at for each move: the search deepens turn by turn until then, and the last depth that it
            finished counts, 1 at least.
        seconds: Time for each move, likewise; a batch of B games takes B times as long. With several budgets, whichever ends
            first. With none, the default depth.
        exact: With so many empty cells or fewer the whole rest of the round is searched, whatever the budget.
        eval: What values the leaves: n-tuple tables, `.safetensors`, or the network of a policy, `.onnx`, for the variant they
            were made for; without, the evaluation made by hand does.

    Attributes:
        evaluation: What values the leaves; None for the one made by hand, which differs from variant to variant.
        ntuples: The tables of `eval`, or None.
        policy: The policy whose network is asked, or None.

    Raises:
        AgentError: for budgets that can't be, and where a network can't be read without the library onnx.
        ModelFileError: for files that can't be used.
    """

    evaluation: Evaluation | None = None
    kind: str
    default_depth: int
    default_exact: int
    most_exact: int

    def __init__(
        self,
        depth: int | None = None,
        nodes: int | None = None,
        seconds: float | None = None,
        exact: int | None = None,
        eval: str | None = None,  # noqa: A002  (what is typed)
    ) -> None:
        if depth is not None and not 1 <= depth <= DEEPEST:
            raise AgentError(f"depth={depth} does not exist; allowed are ints from 1 to {DEEPEST}")
        if nodes is not None and not 1 <= nodes <= 10**12:
            raise AgentError(f"nodes={nodes} does not exist; allowed are ints from 1 to a trillion")
        if seconds is not None and not 0 < seconds <= 10**6:
            raise AgentError(f"seconds={seconds:g} does not exist; allowed are numbers above 0, to a million")
        if exact is not None and not 0 <= exact <= self.most_exact:
            raise AgentError(f"exact={exact} does not exist; allowed are ints from 0 to {self.most_exact}")
        if depth is nodes is seconds is None:
            depth = self.default_depth
        self._options: dict[str, Any] = {}
        self._describe(depth=depth, nodes=nodes, seconds=seconds, exact=exact, eval=eval)
        self.depth = depth or DEEPEST
        self.nodes = nodes
        self.seconds = seconds
        self.exact = self.default_exact if exact is None else exact
        self.ntuples: NTuples | None = None
        self.policy: PolicyAgent | None = None
        if eval is not None and file_of(eval, ".onnx").suffix == ".onnx":
            self.policy = PolicyAgent(eval)
            chosen = self.policy.variant
            self.evaluation = asking(self.policy.network, chosen.size, chosen.players)
        elif eval is not None:
            self.ntuples = load_released(eval)[1]
            self.evaluation = self.ntuples.evaluation()
        self._memories: list[Any] = []

    def _describe(self, **given: Any) -> None:
        """Add options to those that make the name and copies."""
        self._options |= {key: value for key, value in given.items() if value is not None}
        self.name = f"{self.kind}:" + ",".join(f"{key}={value}" for key, value in self._options.items())

    def __reduce__(self) -> tuple[Any, ...]:
        # What a search wrote is of no use to a copy.
        return partial(type(self), **self._options), ()

    def check_variant(self, variant: Variant) -> None:
        """Raise `VariantError` when tables or a policy are for another variant."""
        if self.ntuples:
            self.ntuples.check_variant(variant, self.name)
        if self.policy:
            self.policy.check_variant(variant)

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the best moves, int64 [B]; ties are drawn."""
        return self.search(games, rng).actions

    def search(self, games: GameBatch, rng: np.random.Generator) -> SearchResult:
        """Search each game for itself; a result depends on its position and the budget, the draw among equals on `rng` too.

        Raises `VariantError` for a number of players that the search is not for, and `RoundOverError` at the end of a round.
        """
        self.check_variant(games.variant)
        games.refuse_when_over()
        view = games.view()
        best, values = np.zeros(len(games), np.uint64), np.zeros((len(games), 4), np.int64)
        depths, nodes = np.zeros(len(games), np.int64), np.zeros(len(games), np.int64)
        try:
            memory = self._memories.pop()  # taken out, because two threads with one agent must not share a memory
        except IndexError:
            memory = self._make_memory()
        left = games.plies - games.ply
        run = self._solver(games.variant, memory) if left <= self.exact else self._searcher(games.variant, memory)
        run(view[:0], best, values, depths, nodes)  # compiles, which is not the search's time
        if self.seconds is None:
            self._run(memory, run, view, best, values, depths, nodes)
        else:
            for at in range(len(games)):
                one = slice(at, at + 1)
                self._run(memory, run, view[one], best[one], values[one], depths[one], nodes[one])
        self._memories.append(memory)
        return SearchResult(draw_cells(best, rng), self._reported(values, games.variant.players), depths, nodes)

    def _run(self, memory: Any, run: Callable[..., None], *arrays: npt.NDArray[Any]) -> None:
        """Search in a thread, so that time and Ctrl-C can end it: kernels can do neither for themselves."""
        memory.control[alphabeta.STOP] = 0
        memory.control[alphabeta.LIMIT] = alphabeta.INFINITE if self.nodes is None else self.nodes
        thread = Thread(target=run, args=arrays, daemon=True)
        thread.start()
        try:
            thread.join(self.seconds)
        except BaseException:
            memory.solver[solver.STOP] = 1  # it is used no more
            raise
        finally:
            memory.control[alphabeta.STOP] = 1
            thread.join()

    def _reported(self, values: npt.NDArray[np.int64], players: int) -> npt.NDArray[np.int64]:
        """Return what the search has of the values it wrote, int64 [B, 4]."""
        return values[:, 0]

    @abstractmethod
    def _make_memory(self) -> Any:
        """Return a memory for the search."""

    @abstractmethod
    def _searcher(self, variant: Variant, memory: Any) -> Callable[..., None]:
        """Return a function that searches positions: it takes them and the arrays to write to."""

    @abstractmethod
    def _solver(self, variant: Variant, memory: Any) -> Callable[..., None]:
        """Return a function that does the same to the end of the round."""

    def _evaluation(self, variant: Variant) -> Evaluation:
        return (self.evaluation or hand_made(variant.size, variant.players)).fresh()


class AlphaBetaAgent(SearchAgent):
    """Searches by alpha-beta, for two players; without a width its values are exactly those of plain minimax.

    Args:
        depth: Turns to look ahead, as the other budgets: see `SearchAgent`.
        nodes: Positions to look at.
        seconds: Time.
        exact: Empty cells.
        eval: What values the leaves.
        policy: A policy, `.onnx`, whose network says which turns look best; without, that of `eval` does, or else the values
            of the positions that they lead to.
        width: Look at so many turns of a position only, those that look best, but at all before a leaf. Weaker at equal depth,
            but so much faster that it can look further.
    """

    kind = "alphabeta"
    default_depth = 4
    default_exact = 10
    most_exact = 14

    def __init__(
        self,
        depth: int | None = None,
        nodes: int | None = None,
        seconds: float | None = None,
        exact: int | None = None,
        eval: str | None = None,  # noqa: A002  (what is typed)
        policy: str | None = None,
        width: int | None = None,
    ) -> None:
        super().__init__(depth, nodes, seconds, exact, eval)
        if width is not None and not 1 <= width <= MOST_TURNS:
            raise AgentError(f"width={width} does not exist; allowed are ints from 1 to {MOST_TURNS}")
        if policy is not None and width is None:
            raise AgentError("policy says which turns a search looks at; give width, how many, too")
        if policy is not None and self.policy:
            raise AgentError("policy and eval both have a network; allowed is one of them")
        self.width = width
        if policy is not None:
            self.policy = PolicyAgent(policy)
            _ = self.policy.network  # so that what can't be used is refused here
        self._describe(policy=policy, width=width)

    def _evaluation(self, variant: Variant) -> Evaluation:
        evaluation = super()._evaluation(variant)
        if self.width is None:
            return evaluation
        policy = self.policy.network.fresh() if self.policy else None
        return evaluation._replace(policy=policy, width=self.width)

    def check_variant(self, variant: Variant) -> None:
        """Raise `VariantError` when there are not two players, or tables for another variant."""
        if variant.players != 2:
            raise VariantError(
                f"{self.name} can't play {variant.name}: alpha-beta is for two players; "
                "for more there are paranoid, maxn and brs"
            )
        super().check_variant(variant)

    def _make_memory(self) -> Any:
        quick = self.nodes is None and self.seconds is None and self.depth <= 6
        return pair_memory(TABLE_BITS if quick else LARGE_TABLE_BITS)

    def _searcher(self, variant: Variant, memory: Any) -> Callable[..., None]:
        evaluation = self._evaluation(variant)
        step = 2 if self.nodes is None and self.seconds is None else 1

        def run(view: Words, best: Words, values: npt.NDArray[np.int64], *arrays: npt.NDArray[np.int64]) -> None:
            search_pairs(view, variant.size, self.depth, step, evaluation, memory, best, values, *arrays)

        return run

    def _solver(self, variant: Variant, memory: Any) -> Callable[..., None]:
        return lambda view, *arrays: solve_pairs(view, variant.size, memory, *arrays)


class _SeatAgent(SearchAgent):
    """A search for three and four players."""

    method: int
    default_exact = 6
    most_exact = 9

    def check_variant(self, variant: Variant) -> None:
        """Raise `VariantError` when there are not three or four players, or tables for another variant."""
        if variant.players == 2:
            raise VariantError(
                f"{self.name} can't play {variant.name}: it is for three and four players; for two there is alphabeta"
            )
        super().check_variant(variant)

    def _make_memory(self) -> Any:
        return seat_memory()

    def _searcher(self, variant: Variant, memory: Any) -> Callable[..., None]:
        evaluation = self._evaluation(variant)
        begin = self.depth if self.nodes is None and self.seconds is None else 1

        def run(view: Words, *arrays: npt.NDArray[Any]) -> None:
            search_seats(view, variant.players, variant.size, self.method, begin, self.depth, evaluation, memory, *arrays)

        return run

    def _solver(self, variant: Variant, memory: Any) -> Callable[..., None]:
        return lambda view, *arrays: solve_seats(view, variant.players, variant.size, memory, *arrays)


class ParanoidAgent(_SeatAgent):
    """Searches as if all the others played against it, by alpha-beta; for three and four players."""

    kind = "paranoid"
    method = many.PARANOID
    default_depth = 3


class MaxNAgent(_SeatAgent):
    """Searches as if each played for itself (max^n); for three and four players."""

    kind = "maxn"
    method = many.MAXN
    default_depth = 3

    def _reported(self, values: npt.NDArray[np.int64], players: int) -> npt.NDArray[np.int64]:
        return values[:, :players]


class BestReplyAgent(_SeatAgent):
    """Searches as if after each of its turns only the strongest reply of the others counted; for three and four players.

    Deeper than three turns it plays worse, not better: the second time round it fears the best of too many replies.
    """

    kind = "brs"
    method = many.BEST_REPLY
    default_depth = 3
