"""Past selves as opponents: weights of the learner come in now and then, a network that plays like one of them goes out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from training.network import Network


class SnapshotPool:
    """Frozen weights of the learner's past.

    Args:
        make_network: Builds a network of the learner's shape, which the drawn weights are put into.
        capacity: Snapshots kept. When full, a random one makes room, so that the pool spans the whole past.

    Attributes:
        snapshots: State dictionaries, oldest first.
    """

    def __init__(self, make_network: Callable[[], Network], capacity: int) -> None:
        self.capacity = capacity
        self.snapshots: list[dict[str, Tensor]] = []
        self._network = make_network()

    def add(self, network: Network, rng: np.random.Generator) -> None:
        """Keep a copy of the network's weights."""
        if len(self.snapshots) == self.capacity:
            del self.snapshots[rng.integers(self.capacity)]
        self.snapshots.append({name: tensor.detach().clone() for name, tensor in network.state_dict().items()})

    def draw(self, rng: np.random.Generator) -> Network | None:
        """Return a network with the weights of one snapshot, each equally likely; None while there is none.

        The same module is used again by the next draw.
        """
        if not self.snapshots:
            return None
        self._network.load_state_dict(self.snapshots[rng.integers(len(self.snapshots))])
        return self._network
