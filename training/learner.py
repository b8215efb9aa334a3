"""The whole state of a run: settings come in, a learner goes out that can be trained, saved and brought back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rolit_env.errors import ConfigError
from training.afterstate import Afterstates
from training.config import TrainConfig
from training.device import pick_device
from training.distributed import processes
from training.lazy_adam import LazyAdam, param_groups_of
from training.network import MLP, Network
from training.opponents import SnapshotPool
from training.run import Run


def make_network(config: TrainConfig) -> Network:
    """Build the network that the settings describe, with fresh weights, on the CPU."""
    if config.network == "mlp":
        return MLP(config.size, config.players, config.hidden)
    return Afterstates(config.size, config.players, config.width)


@dataclass(kw_only=True)
class Learner(Run):
    """Everything that a run changes, and so everything that its checkpoint holds.

    Attributes:
        config: The settings.
        device: Where the network lives.
        network: The policy and value network.
        optimizer: Adam over its weights, in the groups of `param_groups_of`.
        rng: The one source of chance in play and learning (evaluation has its own).
        pool: Past weights to play against.
    """

    config: TrainConfig
    device: torch.device
    network: Network
    optimizer: LazyAdam
    rng: np.random.Generator
    pool: SnapshotPool

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
        optimizer = LazyAdam(param_groups_of(network), lr=config.learning_rate, eps=1e-5, fused=True)
        rng = np.random.default_rng(config.seed)
        return cls(config=config, device=device, network=network, optimizer=optimizer, rng=rng, pool=pool)
