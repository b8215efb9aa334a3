"""Play: a network goes in, whole rounds of self-play come out, turn by turn, with their payoffs.

Legend: T turns of a round (plies), B rounds in lockstep, A actions, P players.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rolit_env import GameBatch
from training.config import TrainConfig
from training.device import autocast
from training.network import ILLEGAL, WORDS, Network, position_words


@dataclass(frozen=True)
class Rollout:
    """Whole rounds, all tensors on the learner's device.

    Attributes:
        words: Positions as the mover sees them, int64 [T, B, 5].
        actions: What was played, int64 [T, B].
        log_probs: The learner's log probability of that, float32 [T, B].
        values: The learner's values by seat (seat 0 first, whoever moves), float32 [T, B, P].
        learns: Whether the learner chose the action itself, bool [T, B]; not in random openings nor for snapshots.
        payoffs: What each seat got, float32 [B, P].
    """

    words: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    learns: Tensor
    payoffs: Tensor


@torch.no_grad()
def play(
    network: Network, config: TrainConfig, rng: np.random.Generator, device: torch.device, snapshot: Network | None = None
) -> Rollout:
    """Play B rounds from start to end.

    The learner plays every seat of most rounds. With a `snapshot`, in `config.snapshot_share` of them it plays one
    seat, each equally often, and the snapshot the others.
    """
    games = GameBatch(config.games, size=config.size, players=config.players, seed=rng)
    count, plies, players = len(games), games.plies, config.players
    words = torch.empty(plies, count, WORDS, dtype=torch.int64, device=device)
    actions = torch.empty(plies, count, dtype=torch.int64, device=device)
    log_probs = torch.empty(plies, count, device=device)
    values = torch.empty(plies, count, players, device=device)
    learns = torch.empty(plies, count, dtype=torch.bool, device=device)

    opening_turns = torch.from_numpy(rng.integers(config.opening_turns + 1, size=count)).to(device)
    learner_seat = torch.full((count,), -1, device=device)  # −1: every seat
    if snapshot is not None:
        against_snapshot = round(config.snapshot_share * count)
        learner_seat[count - against_snapshot :] = torch.arange(against_snapshot, device=device) % players

    with autocast(config, device):
        for ply in range(plies):
            words[ply] = position_words(games).to(device)
            logits, relative_values = network(words[ply])
            values[ply] = relative_values.roll(games.seat, dims=1)  # from mover first to seat 0 first

            foreign = (learner_seat >= 0) & (learner_seat != games.seat)
            opening = ply < opening_turns
            learns[ply] = ~(foreign | opening)
            choice = logits
            if snapshot is not None and foreign.any():
                choice = logits.clone()
                choice[foreign] = snapshot(words[ply][foreign])[0]
            # A random opening is a policy too: the one with flat logits over the legal cells.
            choice = torch.where(opening[:, None] & (logits > ILLEGAL), torch.zeros_like(logits), choice)

            # Of logits minus the log of exponential noise, the largest is a draw from their softmax (and noise can be 0).
            noise = torch.from_numpy(rng.standard_exponential(choice.shape, dtype=np.float32)).to(device)
            actions[ply] = (choice - noise.clamp(min=1e-30).log()).argmax(dim=1)
            log_probs[ply] = logits.log_softmax(dim=1).gather(1, actions[ply][:, None]).squeeze(1)
            games.step(actions[ply].cpu().numpy())

    payoffs = torch.from_numpy(games.payoffs(config.payoff)).to(device)
    return Rollout(words, actions, log_probs, values, learns, payoffs)
