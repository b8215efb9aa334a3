"""Learn: whole rounds go in, the network's weights change, and a few figures about how come out.

Legend: T turns of a round, B rounds, A actions, P players, N turns that are learnt from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rolit_env.errors import DivergedError
from rolit_env.symmetry import cell_permutations, transform_words
from training.config import TrainConfig
from training.device import autocast
from training.network import Network
from training.rollout import Rollout


@dataclass(frozen=True)
class UpdateStats:
    """Means over an iteration's gradient steps: losses, entropy, and how far the policy moved."""

    policy_loss: float
    value_loss: float
    entropy: float
    clipped: float
    approx_kl: float
    explained_variance: float


def lambda_returns(values: Tensor, payoffs: Tensor, gae_lambda: float) -> Tensor:
    """Return what each seat can expect from each turn on, float32 [T, B, P].

    Nothing is paid before the end and nothing is discounted, so each seat's trajectory is its column of values, ended
    by its payoff: no sign flips between seats, and a loss reaches exactly the seats that lost. A return mixes the value
    one turn on with the return from there, `(1 − λ)·V + λ·R`; minus the value now it is GAE's advantage.

    Args:
        values: Values by seat at every turn, float32 [T, B, P].
        payoffs: Payoffs by seat, float32 [B, P].
        gae_lambda: λ, from 0 (trust the next value) to 1 (trust the payoff alone).
    """
    returns = torch.empty_like(values)
    returns[-1] = payoffs
    for ply in range(len(values) - 2, -1, -1):
        returns[ply] = (1 - gae_lambda) * values[ply + 1] + gae_lambda * returns[ply + 1]
    return returns


def mover_first(by_seat: Tensor) -> Tensor:
    """Turn the last axis from seat 0 first to mover first at each turn, [T, B, P] to [T, B, P]."""
    players = by_seat.shape[-1]
    return torch.stack([by_seat[ply].roll(-(ply % players), dims=-1) for ply in range(len(by_seat))])


def update(
    network: Network, optimizer: torch.optim.Optimizer, rollout: Rollout, config: TrainConfig, rng: np.random.Generator
) -> UpdateStats:
    """Improve the network on one rollout with PPO's clipped objective. Raises `DivergedError` when the loss is not finite."""
    returns = lambda_returns(rollout.values, rollout.payoffs, config.gae_lambda)
    targets = mover_first(returns)[rollout.learns]
    values = mover_first(rollout.values)[rollout.learns]
    advantages = (targets - values)[:, 0]
    advantages = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    words, actions, log_probs = (
        rollout.words[rollout.learns],
        rollout.actions[rollout.learns],
        rollout.log_probs[rollout.learns],
    )

    if len(actions) < 2:  # nothing to compare an advantage with
        return UpdateStats(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sums = torch.zeros(5, device=words.device)
    steps = 0
    for _ in range(config.epochs):
        if config.symmetry:
            words, actions = _shuffle_symmetries(words, actions, config.size, rng)
            log_probs = _log_probs(network, words, actions, config)  # a network may see a turned board differently
        order = torch.from_numpy(rng.permutation(len(actions))).to(words.device)
        for batch in order.split(config.minibatch):
            if len(batch) * 2 < config.minibatch and steps:
                continue  # the rest is too small a sample for a step of its own
            with autocast(config, words.device):
                logits, predicted = network(words[batch])
            all_log_probs = logits.log_softmax(dim=1)
            ratio_log = all_log_probs.gather(1, actions[batch][:, None]).squeeze(1) - log_probs[batch]
            ratio = ratio_log.exp()
            gain = advantages[batch]
            policy_loss = -torch.min(ratio * gain, ratio.clamp(1 - config.clip, 1 + config.clip) * gain).mean()
            value_loss = (predicted - targets[batch]).square().mean()
            entropy = -(all_log_probs.exp() * all_log_probs).sum(dim=1).mean()
            loss = policy_loss + config.value_weight * value_loss - config.entropy * entropy
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
            optimizer.step()
            with torch.no_grad():
                clipped = ((ratio - 1).abs() > config.clip).float().mean()
                sums += torch.stack([policy_loss, value_loss, entropy, clipped, (ratio - 1 - ratio_log).mean()])
            steps += 1
    explained = 1 - (targets - values).var(correction=0) / (targets.var(correction=0) + 1e-8)
    means = (sums / steps).tolist()
    if not all(math.isfinite(mean) for mean in means):
        raise DivergedError("the loss is no longer a finite number; go on from the last checkpoint with a lower learning_rate")
    return UpdateStats(*means, explained_variance=explained.item())


@torch.no_grad()
def _log_probs(network: Network, words: Tensor, actions: Tensor, config: TrainConfig) -> Tensor:
    """Return the log probability of each action, float32 [N]."""
    with autocast(config, words.device):
        parts = [network(part)[0].log_softmax(dim=1) for part in words.split(config.minibatch)]
    return torch.cat(parts).gather(1, actions[:, None]).squeeze(1)


def _shuffle_symmetries(words: Tensor, actions: Tensor, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Show each position in one of the eight symmetries, drawn uniformly; the action goes with it."""
    permutations = cell_permutations(size)
    drawn = rng.integers(8, size=len(words))
    turned = transform_words(words.cpu().numpy().view(np.uint64), permutations[drawn])
    moved = permutations[drawn, actions.cpu().numpy()]
    return torch.from_numpy(turned.view(np.int64)).to(words.device), torch.from_numpy(moved).to(words.device)
