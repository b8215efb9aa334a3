"""Agents that take part in training, as teachers or as opponents: games of a batch go in, their moves come out."""

from __future__ import annotations

from copy import copy

import numpy as np
import torch
from torch import Tensor

from rolit_env import GameBatch, make_agent
from rolit_env.agents import Agent
from rolit_env.agents.mcts import MctsAgent
from rolit_env.agents.network import assemble_network
from rolit_env.errors import ConfigError
from rolit_env.search.network import Network as KernelNetwork
from rolit_env.variant import Variant
from training.network import Network
from training.run import opponent_for
from training.threads import for_each_share


class Guest:
    """An agent that is asked for its moves in as many threads as torch has.

    Args:
        description: What `make_agent` makes it from.
        variant: What is played.

    Raises:
        ConfigError: when it can't play that.
        RolitError: for a description that names no agent.
    """

    def __init__(self, description: str, variant: Variant) -> None:
        self.description = description
        self._agents = [opponent_for(description, variant)]

    def moves(self, games: GameBatch, seed: int) -> Tensor:
        """Return its moves, int64 [B]. What it draws depends on the seed and on the number of threads."""
        moves = np.empty(len(games), np.int64)

        def ask(start: int, stop: int) -> None:
            # An agent may remember things, so each thread has one of its own.
            agent = self._agents.pop() if self._agents else self._make()
            moves[start:stop] = agent.act(games[start:stop], np.random.default_rng([seed, start]))
            self._agents.append(agent)

        for_each_share(ask, len(games))
        return torch.from_numpy(moves)

    def _make(self) -> Agent:
        return make_agent(self.description)


class Searcher(Guest):
    """A search that goes by the network in training.

    Args:
        description: A search of the kind `mcts`, without any values of its own, such as `mcts:simulations=64`.
        variant: What is played.

    Raises:
        ConfigError: for another agent.
        RolitError: for a description that names no agent.
    """

    def __init__(self, description: str, variant: Variant) -> None:
        super().__init__(description, variant)
        agent = self._agents.pop()
        if not isinstance(agent, MctsAgent) or agent.policy or agent.ntuples:
            raise ConfigError(
                f"searcher={description} does not search by the learner's network; allowed is mcts, without policy or eval, "
                "such as mcts:simulations=64"
            )
        self._searcher, self._variant = agent, variant
        self._network: KernelNetwork | None = None

    def follow(self, network: Network) -> None:
        """Go by the weights that a network of afterstates has now. Raises `ModelFileError` where they are not finite."""
        weights = {name: tensor.float().cpu().numpy() for name, tensor in network.state_dict().items()}
        self._network = assemble_network(weights, self._variant, "the learner")
        self._agents.clear()

    def _make(self) -> Agent:
        if self._network is None:
            raise RuntimeError("follow comes before moves")
        agent = copy(self._searcher)
        agent.follow(self._network.fresh())
        return agent
