"""A network that looks at where each legal turn leads: a score for every position after a turn, and a softmax over them.

Legend: N positions, M legal turns of them together, n side, A = n·n actions, P players, L lanes, T rows, W width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rolit_env.adapters.masked import ILLEGAL
from rolit_env.search.patterns import table_rows
from training.network import Network
from training.patterns import RowSums, afterstate_rows, patterns, position_rows, rows_in_torch


class Afterstates(Network):
    """Scores each turn by the patterns of the position after it, and values positions by their own.

    Patterns are as the mover sees them, with the next mover as its rival, and all others as one. The rows that they pick from
    a table are added up, and a small head makes a score of the sum. Values have a table and a head of their own, and each seat
    sees the position for itself. The eight symmetries share their rows, so a mirrored position gets the mirrored answer.

    Args:
        size: Side of the board.
        players: Number of players.
        width: Numbers in a row of the tables, a multiple of 8.
        hidden: Width of the heads.
    """

    def __init__(self, size: int, players: int, width: int = 8, hidden: int = 32) -> None:
        super().__init__()
        self.size = size
        self.players = players
        rows = table_rows(size)
        self.turn_table, self.value_table = nn.Embedding(rows, width), nn.Embedding(rows, width)
        # What all turns, or all seats, have in common makes no difference.
        self.turn_head = _head(width, hidden, bias=False)
        self.value_head = _head(width, hidden, bias=players == 2)
        if players > 2:
            self.seat_values = nn.Parameter(torch.zeros(players))
        with torch.no_grad():
            self.turn_table.weight.mul_(0.02)
            self.value_table.weight.mul_(0.02)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        if words.device.type != "cpu":
            legal = words[:, 4:] >> torch.arange(self.size**2, device=words.device) & 1
            return self._in_torch(words[:, :4], legal)
        tuples = patterns(self.size)
        positions, cells, rows = afterstate_rows(words, self.size, self.players)
        turns = RowSums.apply(self.turn_table.weight, rows, tuples)
        seen = RowSums.apply(self.value_table.weight, position_rows(words, self.size, self.players), tuples)
        return self._answer(len(words), positions, cells, turns, seen)

    def from_planes(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        # In halves, because onnxruntime adds whole numbers up in float64, which holds 53 bits.
        halves = planes.flatten(2).long().split(32, dim=2)
        low, *high = ((half << torch.arange(half.shape[2], device=half.device)).sum(dim=2) for half in halves)
        return self._in_torch(low | high[0] << 32 if high else low, mask)

    def _in_torch(self, view: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        positions, cells = legal.nonzero().unbind(1)
        after, now = rows_in_torch(view, positions, cells, self.size, self.players)
        turns, seen = self.turn_table(after).float().sum(dim=1), self.value_table(now).float().sum(dim=1)
        return self._answer(view.shape[0], positions, cells, turns, seen)

    def _answer(self, count: int, positions: Tensor, cells: Tensor, turns: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values from sums of rows, float32 [M, W] and [N, W], or [N · P, W] for three and four players."""
        scores, worth = self.turn_head(turns).squeeze(1), self.value_head(seen)
        logits = scores.new_full((count, self.size**2), ILLEGAL).index_put((positions, cells), scores)
        if self.players == 2:
            return logits, torch.cat([-worth, worth], dim=1)
        values = worth.view(count, self.players) + self.seat_values
        return logits, values - values.mean(dim=1, keepdim=True)


def _head(width: int, hidden: int, bias: bool) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1, bias=bias))
