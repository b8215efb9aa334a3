"""Agents that take part in training, as teachers or as opponents: games of a batch go in, their moves come out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rolit_env import GameBatch, make_agent
from rolit_env.variant import Variant
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
            agent = self._agents.pop() if self._agents else make_agent(self.description)
            moves[start:stop] = agent.act(games[start:stop], np.random.default_rng([seed, start]))
            self._agents.append(agent)

        for_each_share(ask, len(games))
        return torch.from_numpy(moves)
