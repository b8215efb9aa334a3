"""The whole state of a run: settings come in, a learner goes out that can be trained, saved and brought back."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rolit_env.errors import ConfigError
from training.config import TrainConfig
from training.device import pick_device
from training.distributed import processes
from training.network import Network, make_network
from training.opponents import SnapshotPool


def current_commit() -> str | None:
    """Return the checkout's commit, marked when files differ from it; None outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


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
        commit: The checkout's commit when the run was started, None outside a checkout.
    """

    config: TrainConfig
    device: torch.device
    network: Network
    optimizer: torch.optim.Adam
    rng: np.random.Generator
    pool: SnapshotPool
    iteration: int = 0
    turns: int = 0
    seconds: float = 0.0
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    commit: str | None = field(default_factory=current_commit)

    @classmethod
    def fresh(cls, config: TrainConfig) -> Learner:
        """Start a run. Weights depend on the seed alone; torch's global random states are left as they are.

        Raises `ConfigError` when there are more processes than games to share, or no such device.
        """
        if config.games < processes():
            raise ConfigError(f"games={config.games} is too few for {processes()} processes; allowed is one each and up")
        device = pick_device(config)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            network = make_network(config).to(device)
            pool = SnapshotPool(lambda: make_network(config).to(device), config.snapshots)
        optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        return cls(config, device, network, optimizer, np.random.default_rng(config.seed), pool)

    @property
    def progress(self) -> float:
        """Part of the budget that is used up, 0 to 1."""
        config = self.config
        used = self.turns / config.turns if config.turns else self.seconds / (60 * config.minutes)
        return min(used, 1.0)

    @property
    def finished(self) -> bool:
        """Whether the budget is used up."""
        return self.progress == 1.0
