"""Networks: the words of N positions go in, masked logits and one value per seat come out.

Whatever takes and gives the same (`Network`) trains, plays and exports with everything else in this folder.

Legend: N positions, n side, A = n·n actions, P players.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rolit_env import GameBatch
from rolit_env.adapters.masked import masked_logits
from rolit_env.torch_batch import TorchBatch

WORDS = 5
"""Words of a position: the mover's balls, the others' in turn order, neutral balls, and the legal cells."""


class Network(nn.Module, ABC):
    """What the learner, the arena and the exporter need of a network."""

    @abstractmethod
    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked logits, float32 [N, A], and values, float32 [N, P], from words, int64 [N, 5].

        Values belong to the mover first, then to the others in turn order, and sum to zero as payoffs do.
        """

    @abstractmethod
    def from_planes(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same from planes, float32 [N, 4, n, n], and legal mask, float32 [N, A]: the form that is exported."""


def position_words(games: GameBatch | TorchBatch) -> Tensor:
    """Return the words of a batch's positions, int64 [B, 5], as the networks take them, on the device where the games are."""
    if isinstance(games, TorchBatch):
        return torch.column_stack([games.view(), games.legal])
    return torch.from_numpy(np.column_stack([games.view(), games.legal]).view(np.int64))


class MLP(Network):
    """A plain perceptron on the five planes (the legal cells tell it about captures, which lines of balls it can't see).

    Args:
        size: Side of the board.
        players: Number of players.
        hidden: Width of each hidden layer.
    """

    # For each byte its eight bits: looking them up spares the wide int64 planes that shifts would make on the way.
    bits: Tensor

    def __init__(self, size: int, players: int, hidden: Sequence[int] = (512, 512)) -> None:
        super().__init__()
        self.cells = size * size
        self.players = players
        widths = [WORDS * self.cells, *hidden]
        layers: list[nn.Module] = []
        for width_in, width_out in itertools.pairwise(widths):
            layers += [nn.Linear(width_in, width_out), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers)
        self.policy = nn.Linear(widths[-1], self.cells)
        self.value = nn.Linear(widths[-1], players)
        with torch.no_grad():
            self.policy.weight.mul_(0.1)  # start close to uniform play,
            self.value.weight.mul_(0.1)  # and to expecting a draw
        table = torch.arange(256)[:, None] >> torch.arange(8) & 1
        self.register_buffer("bits", table.float(), persistent=False)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        planes = self.unpack(words)
        return self._answer(planes.flatten(1), planes[:, WORDS - 1])

    def unpack(self, words: Tensor) -> Tensor:
        """Return words, int64 [N, 5], as 0/1 planes, float [N, 5, A], in the precision that the network computes in."""
        octets = words.view(torch.uint8).reshape(-1, WORDS, 8)[:, :, : -(-self.cells // 8)].int()
        # Under autocast the table is cast, not the far larger planes.
        device = words.device.type
        table = self.bits.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else self.bits
        return nn.functional.embedding(octets, table).flatten(2)[:, :, : self.cells]

    def from_planes(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        return self._answer(torch.cat([planes.flatten(1), mask], dim=1), mask)

    def _answer(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(inputs)
        logits = masked_logits(self.policy(features).float(), mask)
        values = self.value(features).float()
        return logits, values - values.mean(dim=1, keepdim=True)
