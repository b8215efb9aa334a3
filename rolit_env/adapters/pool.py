"""Snapshots of a learner come in, one opponent that plays as any of them goes out: self-play for every library.

    pool = OpponentPool("random")
    env = RolitVectorEnv(512, opponents=pool)
    ...  # learn, and now and then
    pool.add(TorchAgent(network, sample=True))

An environment takes the pool for any number of seats, and its `seat="rotate"` sends the learner round all of them.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from rolit_env.adapters.masked import TorchAgent
from rolit_env.agents import Agent, make_agent
from rolit_env.arena import play_rounds
from rolit_env.batch import GameBatch
from rolit_env.errors import OptionError
from rolit_env.lockstep import checked_count
from rolit_env.variant import Variant

Sample = Literal["uniform", "recent", "hardest"]


class OpponentPool(Agent):
    """Frozen agents, of which one is drawn for each round and each seat, to play until the round ends.

    Any number of environments may share a pool, as long as each brings a generator of its own, as Rolit's do: by it the pool
    knows its rounds again. Draws come from that generator too. A copy in another process is a pool of its own.

    Args:
        first: An agent, or a description for `make_agent`, that stays whatever comes: weak and unlike the learner, it keeps
            self-play from forgetting how to beat what it no longer meets.
        capacity: Snapshots kept beside it. When there are more, a random one makes room, so that the pool spans the past.
        sample: Whom to draw. `uniform`: all alike. `recent`: half of all draws go to the newest quarter of the members, the
            others to all alike. `hardest`: as (1 − s)², where s is the learner's win share against the member, from the last
            `rate`, and 0 before, so that who is new is met at once; nobody falls below a hundredth of the hardest.
        seed: Seeds who makes room.

    Attributes:
        members: The agents, the first one and then the snapshots, oldest first.

    Raises:
        OptionError: for another sample, a capacity below 1 or a seed below 0.
        AgentError: for a description that names no agent.
    """

    def __init__(
        self, first: Agent | str = "random", *, capacity: int = 10, sample: Sample = "uniform", seed: int | None = 0
    ) -> None:
        if sample not in get_args(Sample):
            raise OptionError(f"sample={sample!r} does not exist; allowed are {', '.join(get_args(Sample))}")
        if seed is not None and seed < 0:
            raise OptionError(f"seed={seed} is no seed; allowed are ints from 0 up")
        self.name = "pool"
        self.capacity = checked_count("capacity", capacity)
        self.sample = sample
        self.members: list[Agent] = []
        self._shares: list[float] = []
        self._variants: set[Variant] = set()
        self._rng = np.random.default_rng(seed)
        # By generator and seat: that generator, so that its id is taken, the turn, and who plays in which game.
        self._rounds: dict[tuple[int, int], tuple[np.random.Generator, int, list[Agent], npt.NDArray[np.int64]]] = {}
        self.add(first)

    def add(self, agent: Agent | str) -> None:
        """Add a frozen copy of an agent, or what `make_agent` makes of a description; rounds that are on don't notice.

        Raises `AgentError` and `ModelFileError` as `make_agent` does, and `VariantError` when it can't play what the pool has
        been taken for.
        """
        agent = make_agent(agent) if isinstance(agent, str) else copy.deepcopy(agent)
        if isinstance(agent, TorchAgent):
            agent.module.eval().requires_grad_(False)
        for known in self._variants:
            agent.check_variant(known)
        if len(self.members) > self.capacity:
            leaving = 1 + int(self._rng.integers(self.capacity))
            del self.members[leaving], self._shares[leaving]
        self.members.append(agent)
        self._shares.append(0.0)

    def check_variant(self, variant: Variant) -> None:
        """Raise `VariantError` when a member can't play this variant; who is added later must be able to."""
        for member in self.members:
            member.check_variant(variant)
        self._variants.add(variant)

    def rate(self, learner: Agent, *, size: int = 8, players: int = 2, rounds: int = 200, seed: int = 0) -> list[float]:
        """Play the learner against each member, in all seats, for `hardest`, and return its win shares, oldest member first.

        Against two or three copies of a member where there are more players. Raises as `play_rounds` does.
        """
        options: dict[str, Any] = {"size": size, "players": players, "seed": seed}
        self._shares = [float(play_rounds([learner, member], rounds, **options).win_share[0]) for member in self.members]
        return list(self._shares)

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the chance of each member to be drawn, float64 [members]; they sum to 1."""
        count = len(self.members)
        weights = np.full(count, 1 / count)
        if self.sample == "recent":
            newest = -(-count // 4)
            weights /= 2
            weights[-newest:] += 0.5 / newest
        elif self.sample == "hardest":
            weights = (1 - np.array(self._shares)) ** 2
            weights = np.maximum(weights, weights.max() / 100) if weights.any() else np.ones(count)
            weights /= weights.sum()
        return weights

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return each game's opponent's actions, int64 [B]; in a seat's first turn of a round the opponents are drawn."""
        key = id(rng), games.seat
        _, ply, members, drawn = self._rounds.pop(key, (rng, games.plies, [], np.zeros(0, np.int64)))
        if games.ply < ply or len(drawn) != len(games):
            members, drawn = list(self.members), rng.choice(len(self.members), len(games), p=self.weights())
        if games.ply + games.variant.players < games.plies:  # not this seat's last turn
            self._rounds[key] = rng, games.ply, members, drawn
        actions = np.empty(len(games), np.int64)
        for number in np.unique(drawn):
            rows = drawn == number
            actions[rows] = members[number].act(games if rows.all() else games[rows], rng)
        return actions

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rounds": {}}
