"""The network in training as an agent: it sits down in the arena like any other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from rolit_env import GameBatch
from rolit_env.agents import Agent
from training.device import autocast
from training.learner import Learner
from training.network import position_words


class NetworkAgent(Agent):
    """Plays the move with the highest logit, as the exported policy does."""

    def __init__(self, learner: Learner, name: str = "network") -> None:
        self.name = name
        self._learner = learner

    @torch.no_grad()
    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the network's actions, int64 [B]."""
        learner = self._learner
        with autocast(learner.config, learner.device):
            logits, _ = learner.network(position_words(games).to(learner.device))
        actions: npt.NDArray[np.int64] = logits.argmax(dim=1).cpu().numpy()
        return actions
