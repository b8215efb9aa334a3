"""Play: a network goes in, whole rounds of self-play come out, turn by turn, with their payoffs.

Legend: T turns of a round (plies), B rounds in lockstep, A actions, P players.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rolit_env import GameBatch
from rolit_env.adapters.masked import ILLEGAL
from rolit_env.torch_batch import TorchBatch
from training.config import TrainConfig
from training.device import autocast
from training.distributed import join, share
from training.guests import Guest
from training.network import WORDS, Network, position_words


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
        advice: What a teacher would have played where the learner chose, int64 [T, B]; None without a teacher.
    """

    words: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    learns: Tensor
    payoffs: Tensor
    advice: Tensor | None = None


@torch.no_grad()
def play(
    network: Network,
    config: TrainConfig,
    rng: np.random.Generator,
    device: torch.device,
    snapshot: Network | None = None,
    opponent: Guest | None = None,
    teacher: Guest | None = None,
) -> Rollout:
    """Play B rounds from start to end.

    The learner plays every seat of most rounds. With a `snapshot`, in `config.snapshot_share` of them it plays one
    seat, each equally often, and the snapshot the others; with an `opponent` likewise, in `config.opponent_share`. A `teacher`
    says what it would play wherever the learner chooses. Several processes share the rounds, and each gets all of them.
    """
    # All chance is drawn at once and for all rounds: inside a round nothing has to cross to a GPU or back, and how a round
    # goes does not depend on the process that plays it.
    count, plies, players = config.games, config.variant.plies, config.players
    starts = GameBatch(count, size=config.size, players=players, seed=rng)
    turn = np.arange(plies)[:, None]
    opening = turn < rng.integers(config.opening_turns + 1, size=count)
    foreign, hired = np.zeros((2, plies, count), bool)
    if snapshot is not None:
        last = np.arange(round(config.snapshot_share * count))
        foreign[:, count - len(last) :] = turn % players != last % players
    if opponent is not None:
        first = np.arange(round(config.opponent_share * (count - foreign.any(axis=0).sum())))
        hired[:, : len(first)] = turn % players != first % players
    chance = rng.random((plies, count), dtype=np.float32)
    guests = opponent is not None or teacher is not None
    seeds = rng.integers(2**63, size=plies if guests else 0)

    mine = share(count)
    games = starts[mine] if guests else place(starts[mine], device)  # guests play on the CPU
    step = games.step if isinstance(games, GameBatch) else partial(games.step, check=False)  # to check, the host would wait
    choosing = ~(opening | foreign | hired)
    hired &= ~opening
    learns = torch.from_numpy(choosing).to(device)
    opens, points = (torch.from_numpy(array[:, mine]).to(device) for array in (opening, chance))
    others = [torch.from_numpy(np.flatnonzero(foreign[seat, mine])).to(device) for seat in range(players)]

    words = torch.empty(plies, len(games), WORDS, dtype=torch.int64, device=device)
    actions = torch.empty(plies, len(games), dtype=torch.int64, device=device)
    probs = torch.empty(plies, len(games), device=device)
    values = torch.empty(plies, len(games), players, device=device)
    advice = None if teacher is None else torch.zeros_like(actions)

    with autocast(config, device):
        for ply in range(plies):
            words[ply] = position_words(games)
            logits, relative_values = network(words[ply])
            values[ply] = relative_values.roll(games.seat, dims=1)  # from mover first to seat 0 first

            policy = played = logits.softmax(dim=1)
            if len(foreigners := others[games.seat]):
                played = policy.index_copy(0, foreigners, snapshot(words[ply, foreigners])[0].softmax(dim=1))
            if ply < config.opening_turns:
                # A random opening is a policy too: the one with the same weight on each legal cell.
                played = torch.where(opens[ply, :, None], (logits > ILLEGAL) / 64, played)

            actions[ply] = draw(played, points[ply])
            probs[ply] = policy.gather(1, actions[ply, :, None]).squeeze(1)
            for guest, theirs, moves in ((teacher, choosing, advice), (opponent, hired, actions)):
                if guest is not None and (asked := theirs[ply, mine]).any():
                    moves[ply, asked] = guest.moves(games[asked], int(seeds[ply])).to(device)
            step(actions[ply].cpu() if guests else actions[ply])

    payoffs = torch.as_tensor(games.payoffs(config.payoff), device=device)
    words, actions, log_probs, values = (join(part, count, dim=1) for part in (words, actions, probs.log(), values))
    if advice is not None:
        advice = join(advice, count, dim=1)
    return Rollout(words, actions, log_probs, values, learns, join(payoffs, count), advice)


def place(games: GameBatch, device: torch.device) -> GameBatch | TorchBatch:
    """Return the games where the network lives."""
    return games if device.type == "cpu" else TorchBatch.from_games(games, device=device)


def draw(policy: Tensor, points: Tensor) -> Tensor:
    """Return an action from each policy, int64 [B].

    Args:
        policy: Probabilities, float32 [B, A].
        points: Random numbers from 0 up to 1, float32 [B]. Lay the probabilities side by side, and the action is the one that
            the point lies in.
    """
    # In whole numbers, whose sums are exact: rounding could put a point on a cell that has no probability at all.
    ends = (policy * 2**23).int().cumsum(dim=1)
    return torch.searchsorted(ends, (points * ends[:, -1]).long()[:, None], right=True).squeeze(1)
