"""The whole state of a run: settings come in, a learner goes out that can be trained, saved and brought back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from training.config import TrainConfig
from training.device import pick_device
from training.network import MLP
from training.opponents import SnapshotPool


def make_network(config: TrainConfig) -> MLP:
    """Build the network that the settings describe, with fresh weights, on the CPU."""
    return MLP(config.size, config.players, config.hidden)


@dataclass
class Learner:
    """Everything that a run changes, and so everything that its checkpoint holds.

    Attributes:
        config: The settings.
        device: Where the network lives.
        network: The policy and value network.
        optimizer: Adam over its weights.
        rng: The one source of chance in play and learning (evaluation has its own).
        pool: Past weights to play against.
        iteration: Rollouts learnt from.
        turns: Turns played, random openings included.
        seconds: Training time, evaluation included.
        evaluations: Results over time, oldest first: turns, seconds and win share against each opponent.
    """

    config: TrainConfig
    device: torch.device
    network: MLP
    optimizer: torch.optim.Adam
    rng: np.random.Generator
    pool: SnapshotPool
    iteration: int = 0
    turns: int = 0
    seconds: float = 0.0
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def fresh(cls, config: TrainConfig) -> Learner:
        """Start a run. Weights depend on the seed alone; the global random states are left as they are."""
        device = pick_device(config)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            network = make_network(config).to(device)
            pool = SnapshotPool(lambda: make_network(config).to(device), config.snapshots)
        optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        return cls(config, device, network, optimizer, np.random.default_rng(config.seed), pool)

    @property
    def progress(self) -> float:
        """Part of the budget that is used up, 0 to 1: of turns where they are limited, else of minutes."""
        config = self.config
        used = self.turns / config.turns if config.turns else self.seconds / (60 * config.minutes)
        return min(used, 1.0)

    @property
    def finished(self) -> bool:
        """Whether one of the budgets is used up."""
        config = self.config
        out_of_turns = bool(config.turns) and self.turns >= config.turns
        return out_of_turns or (bool(config.minutes) and self.seconds >= 60 * config.minutes)
