"""Monte Carlo tree search as an agent: positions of a whole batch come in, the most visited moves go out."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.agents.base import Agent
from rolit_env.agents.ntuple import load_released
from rolit_env.agents.policy import PolicyAgent
from rolit_env.agents.scripted import grade_words
from rolit_env.batch import GameBatch
from rolit_env.errors import AgentError
from rolit_env.search import mcts
from rolit_env.search.evaluation import Evaluation, hand_made
from rolit_env.search.mcts import Formula, Leaves
from rolit_env.search.network import Network
from rolit_env.search.ntuple import make_scratch
from rolit_env.search.playouts import Playouts
from rolit_env.search.solver import make_memory
from rolit_env.search.tree import ENTRY_BYTES, Tree, compact, make_tree, most_visited, plant
from rolit_env.solve import move_values
from rolit_env.variant import Variant

SIMULATIONS = 800
"""Simulations a move where no budget is given."""

EXPLORE = {
    "random": (0.5, 0.5),
    "graded": (0.5, 0.5),
    "none": (0.03, 0.1),
    "policy": (0.15, 0.5),
    "network": (0.2, 0.2),
}
"""Curiosity where none is given, by what leaves go by, for two players and for more; found by play on 8x8.

A policy is a `network` where kernels know it.
"""

TEMPERATURE = 3.0
"""That of a network's priors, which come from play without search and are too sure of themselves for it."""

PLAYOUTS = ("random", "graded", "none")

EXACT, EXACT_OF_NETWORK = 8, 10
MOST_EXACT = 14
"""Empty cells: with which moves are solved where nothing is said, and with which they can be, in a moment still."""

GROUP = 64
"""Games searched side by side with playouts: enough for vector loops, few enough for their trees to stay in cache."""

POLICY_GROUP = 1024
"""Games searched side by side with a policy, which answers many positions at once sooner than a few at a time."""

TREE_BYTES = 1 << 28
"""Most memory for the trees of a group that is being searched, and for all that is kept between moves."""

SLICE = 1024
"""Simulations, all games of a group together, between two looks at the clock."""


class MctsAgent(Agent):
    """Searches by Monte Carlo: UCT with random playouts, or PUCT with a policy's priors and values.

    Every seat has its own share of the round in mind, also with three and four players (max^n). The move with most visits is
    played. What was found below a position is kept until the agent's next move, up to P turns later, and new simulations
    come on top of it; the same agent may play several seats. Trees take up to 256 MB during a search, where more simulations
    find no room they go no deeper; and up to 256 MB in between, where more games would need more nothing is kept.

    Args:
        simulations: Simulations a move.
        seconds: Seconds a move; a batch of B games takes B times as long. With `simulations` too, whichever ends first.
            With neither, 800 simulations.
        explore: Weight of curiosity against what a move has brought so far, in shares of the round. The surer leaves are, the
            less it takes: `EXPLORE` has what is usual.
        playouts: `random`; or `graded`: by the grades that `positional` goes by, corners first, and, with two players, cells
            next to a corner last; or `none`: a leaf is worth what the evaluation of the other searches says.
        policy: A policy file, `.onnx`, or a released one's name; there are no playouts then.
        eval: N-tuple tables, `.safetensors`, that value leaves; there are no playouts then.
        exact: With so many empty cells or fewer, two players' moves are solved instead (8, or 10 by a network), which is
            faster then. The end of a round of more players depends on how others choose among moves that are alike to them, so
            it is searched.
        temperature: That of a network's priors (3): above 1 makes the policy less sure of itself.

    Attributes:
        evaluation: What values leaves without playouts; None for the one made by hand, which differs from variant to variant.

    Raises:
        AgentError: for budgets, weights or playouts that can't be.
        ModelFileError: for a file that can't be used.
    """

    evaluation: Evaluation | None = None

    def __init__(
        self,
        simulations: int | None = None,
        seconds: float | None = None,
        explore: float | None = None,
        playouts: str | None = None,
        policy: str | None = None,
        exact: int | None = None,
        eval: str | None = None,  # noqa: A002  (what is typed)
        temperature: float | None = None,
    ) -> None:
        if simulations is not None and not 1 <= simulations <= 10**9:
            raise AgentError(f"simulations={simulations} does not exist; allowed are ints from 1 to a billion")
        if seconds is not None and not 0 < seconds <= 10**6:
            raise AgentError(f"seconds={seconds:g} does not exist; allowed are numbers above 0, to a million")
        if explore is not None and not 0 <= explore < float("inf"):
            raise AgentError(f"explore={explore:g} does not exist; allowed are numbers from 0 up")
        if policy is not None and eval is not None:
            raise AgentError("policy and eval both say what a leaf is worth; allowed is one of them")
        if playouts is not None and (playouts not in PLAYOUTS or policy is not None or eval is not None):
            allowed = ", ".join(PLAYOUTS) if policy is eval is None else "none beside a policy or tables"
            raise AgentError(f"playouts={playouts} does not exist; allowed are {allowed}")
        if exact is not None and not 0 <= exact <= MOST_EXACT:
            raise AgentError(f"exact={exact} does not exist; allowed are ints from 0 to {MOST_EXACT}")
        if temperature is not None and not 0 < temperature < float("inf"):
            raise AgentError(f"temperature={temperature:g} does not exist; allowed are numbers above 0")
        if simulations is None and seconds is None:
            simulations = SIMULATIONS
        options = {
            "simulations": simulations,
            "seconds": seconds,
            "explore": explore,
            "playouts": playouts,
            "policy": policy,
            "exact": exact,
            "eval": eval,
            "temperature": temperature,
        }
        self._options: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
        self.name = "mcts:" + ",".join(f"{key}={value}" for key, value in self._options.items())
        self.simulations = simulations
        self.seconds = seconds
        self.playouts = playouts or ("none" if eval is not None else PLAYOUTS[0])
        self.policy = PolicyAgent(policy) if policy is not None else None
        self.network: Network | None = self.policy.known_network if self.policy else None
        if temperature is not None and self.network is None:
            raise AgentError(f"temperature={temperature:g} has no use; only a policy whose network kernels know has one")
        self.temperature = TEMPERATURE if temperature is None else temperature
        self._exact = exact
        self.ntuples = load_released(eval)[1] if eval is not None else None
        if self.ntuples:
            self.evaluation = self.ntuples.evaluation()
        self.explore = explore
        self._kept: list[Tree] = []
        self._kept_for: tuple[Variant, int] | None = None
        self._room: Tree | None = None
        self._solver = make_memory(1 << 16 if self.network else 2)

    @property
    def exact(self) -> int:
        """From how many empty cells on two players' moves are solved."""
        usual = EXACT_OF_NETWORK if self.network else EXACT
        return usual if self._exact is None else self._exact

    def follow(self, network: Network) -> None:
        """Search by this network from now on, such as one that is being trained, as by that of a policy."""
        self.network = network
        self._solver = make_memory(1 << 16)
        self._kept, self._kept_for = [], None

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy starts without trees.
        return partial(type(self), **self._options), ()

    def check_variant(self, variant: Variant) -> None:
        """Raise `VariantError` when the policy or the tables are for another variant."""
        if self.policy:
            self.policy.check_variant(variant)
        if self.ntuples:
            self.ntuples.check_variant(variant, self.name)

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the most visited moves, int64 [B]."""
        self.check_variant(games.variant)
        games.refuse_when_over()
        actions = np.empty(len(games), np.int64)
        if games.variant.players == 2 and games.plies - games.ply <= self.exact:
            best: npt.NDArray[np.int64] = move_values(games).argmax(axis=1)
            return best
        now = games.variant, len(games)
        kept = self._kept if self._kept_for == now else []
        self._kept, self._kept_for = [], now
        group, keeps = POLICY_GROUP if self.policy and not self.network else GROUP, TREE_BYTES
        for number, first in enumerate(range(0, len(games), group)):
            chosen = slice(first, first + group)
            tree = self._search(games, chosen, kept[number] if number < len(kept) else None, rng)
            most_visited(tree, actions[chosen])
            keeps -= int(tree.used[0]) * ENTRY_BYTES
            if keeps < 0:
                self._kept.clear()
            else:
                self._kept.append(compact(tree))
        return actions

    def _search(self, games: GameBatch, chosen: slice, kept: Tree | None, rng: np.random.Generator) -> Tree:
        """Return the trees of some of the games after all simulations."""
        view = games.view()[chosen]
        tree, players, size = self._make_room(len(view)), games.variant.players, games.variant.size
        plant(tree, kept or make_tree(len(view), 0), view, players, size)
        tree.random[0] = rng.integers(1 << 64, dtype=np.uint64)
        leaves, formula = mcts.make_leaves(len(view)), self._formula(games.variant)
        left = self.simulations or 1 << 62
        end = time.monotonic() + (self.seconds or float("inf")) * len(view)
        most, scratch = max(1, SLICE // len(view)), make_scratch(players)
        while left > 0:
            count = min(left, most)
            if self.network:
                mcts.search_by_network(
                    tree, leaves, players, size, count, formula, self.temperature, self.network, scratch, self._solver
                )
            elif self.policy:
                self._simulate_with_policy(self.policy, games, tree, leaves, formula)
                count = 1
            elif self.playouts == "none":
                evaluation = self.evaluation or hand_made(size, players)
                mcts.search_by_values(tree, leaves, players, size, count, formula, evaluation.fresh())
            else:
                mcts.search_by_playouts(size)(tree, leaves, players, count, formula, self._playouts(games.variant))
            left -= count
            if time.monotonic() >= end:
                break
        return tree

    def _simulate_with_policy(
        self, policy: PolicyAgent, games: GameBatch, tree: Tree, leaves: Leaves, formula: Formula
    ) -> None:
        """Run one simulation in each game, all leaves evaluated in one batch."""
        players, size = games.variant.players, games.variant.size
        legal = np.empty(len(leaves.left), np.uint64)
        mcts.descend(tree, leaves, players, size, formula, legal)
        going_on = np.flatnonzero(legal)
        logits, values = np.empty((0, size * size), np.float32), np.empty((0, players), np.float32)
        if len(going_on):
            # The leaves are at different turns; a policy sees them from the mover's side, who is in seat 0 of this batch.
            batch = games[going_on]
            batch.ply = 0
            batch.balls[:] = leaves.words[:, going_on]
            batch.legal[:] = legal[going_on]
            logits, values = policy.evaluate(batch)
        mcts.back_up(tree, leaves, players, legal, logits, values)

    def _formula(self, variant: Variant) -> Formula:
        kind = "network" if self.network else "policy" if self.policy else self.playouts
        usual = EXPLORE[kind][variant.players > 2]
        return Formula(usual if self.explore is None else float(self.explore), kind in ("network", "policy"))

    def _playouts(self, variant: Variant) -> Playouts:
        if self.playouts == "random":
            return Playouts(np.uint64(0), np.uint64(0))
        best, *_, worst = grade_words(variant.size)
        return Playouts(best, worst if variant.players == 2 else np.uint64(0))

    def _make_room(self, games: int) -> Tree:
        """Return a tree for so many games, the last one again if it fits."""
        entries = TREE_BYTES // ENTRY_BYTES
        if self.simulations:
            entries = min(entries, games * (self.simulations * 16 + 64))
        if self._room is None or self._room.roots.shape[1] != games:
            self._room = make_tree(games, entries)
        return self._room
