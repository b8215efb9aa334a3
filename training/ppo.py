"""Learn: whole rounds go in, the network's weights change, and a few figures about how come out.

Legend: T turns of a round, B rounds, A actions, P players, N turns that are learnt from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rolit_env.errors import DivergedError
from rolit_env.symmetry import cell_permutations, transform_words
from training.config import TrainConfig
from training.device import autocast
from training.distributed import add_up, join, share
from training.network import Network
from training.rollout import Rollout


@dataclass(frozen=True)
class UpdateStats:
    """Means over an iteration's gradient steps: losses, entropy, and how far the policy moved.

    While a teacher is imitated, `policy_loss` and `approx_kl` are the policy's cross entropy with its moves, and `clipped` is
    the part of turns in which the policy likes another move best.
    """

    policy_loss: float
    value_loss: float
    entropy: float
    clipped: float
    approx_kl: float
    explained_variance: float


@dataclass(frozen=True)
class Turns:
    """Turns to learn from.

    Attributes:
        words: Positions as the mover sees them, int64 [N, 5].
        actions: What was played, int64 [N].
        log_probs: Its log probability at the time, float32 [N].
        advantages: How much better it went for the mover than expected, in standard deviations, float32 [N].
        targets: What the values should have been, the mover's first, float32 [N, P].
    """

    words: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.actions)

    def __getitem__(self, turns: slice) -> Turns:
        return Turns(*(tensor[turns] for tensor in vars(self).values()))

    def ordered(self, order: Tensor) -> Turns:
        """Return the turns in another order, int64 [N]."""
        return Turns(*(tensor.index_select(0, order) for tensor in vars(self).values()))


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
    plies, _, players = by_seat.shape
    turn, place = torch.arange(plies, device=by_seat.device), torch.arange(players, device=by_seat.device)
    seats = (turn[:, None, None] + place) % players
    return by_seat.gather(2, seats.expand(by_seat.shape))


def update(
    network: Network,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    config: TrainConfig,
    rng: np.random.Generator,
    gradients: Callable[..., tuple[Tensor, Tensor, Tensor]] | None = None,
) -> UpdateStats:
    """Improve the network on one rollout. Raises `DivergedError` when the loss is not finite.

    Several processes share each minibatch and take the same step, the one that a single process would take.

    Args:
        network: The network, changed in place.
        optimizer: Of its parameters.
        rollout: What was played.
        config: The settings.
        rng: Draws the order of turns, and symmetries.
        gradients: The objective's gradients: those of PPO's clipped one (`ppo_gradients`), or others of the same form.
    """
    gradients = gradients or ppo_gradients
    device = rollout.learns.device
    learns = rollout.learns.nonzero(as_tuple=True)
    values = mover_first(rollout.values)[learns]
    targets = mover_first(lambda_returns(rollout.values, rollout.payoffs, config.gae_lambda))[learns]
    advantages = (targets - values)[:, 0]
    advantages = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    turns = Turns(rollout.words[learns], rollout.actions[learns], rollout.log_probs[learns], advantages, targets)
    if len(turns) < 2:  # nothing to compare an advantage with
        return UpdateStats(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    parameters = list(network.parameters())
    terms: list[Tensor] = []
    learnt = 0
    for _ in range(config.epochs):
        if config.symmetry:
            turns = _shuffle_symmetries(turns, network, config, rng)
        shuffled = turns.ordered(torch.from_numpy(rng.permutation(len(turns))).to(device))
        for start in range(0, len(turns), config.minibatch):
            minibatch = shuffled[start : start + config.minibatch]
            size = len(minibatch)
            if size * 2 < config.minibatch and terms:
                continue  # the rest is too small a sample for a step of its own
            minibatch = minibatch[share(size)]
            with autocast(config, device):
                logits, predicted = network(minibatch.words)
            by_logits, by_values, figures = gradients(logits, predicted, minibatch, size, config)
            optimizer.zero_grad()
            torch.autograd.backward([logits, predicted], [by_logits, by_values])
            add_up([parameter.grad for parameter in parameters])
            torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm, foreach=True)
            optimizer.step()
            terms.append(figures)
            learnt += size

    means = torch.cat(terms, dim=1).sum(dim=1) / learnt
    add_up([means])
    explained = 1 - (targets - values).var(correction=0) / (targets.var(correction=0) + 1e-8)
    stats = UpdateStats(*means.tolist(), explained.item())
    if not all(math.isfinite(figure) for figure in vars(stats).values()):
        raise DivergedError("the loss is no longer a finite number; go on from the last checkpoint with a lower learning_rate")
    return stats


@torch.no_grad()
def ppo_gradients(
    logits: Tensor, values: Tensor, turns: Turns, size: int, config: TrainConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of PPO's loss by logits and by values, and figures about it.

    The loss of a turn is `−min(r·g, clip(r)·g) + value_weight · e² − entropy · H`: the ratio r of the played action's new
    probability to its old one, the advantage g, the values' error e (its square's mean over seats) and the policy's entropy H.
    The gradients are worked out by hand, because autograd takes twice the time for so small a formula.

    Args:
        logits: What the network says now, float32 [N, A].
        values: And what it expects, the mover's first, float32 [N, P].
        turns: What was played and how it went.
        size: Turns in the whole minibatch, of which these may be a share; its loss is the mean over all of them.
        config: Its `clip`, `value_weight` and `entropy` count.

    Returns:
        The gradients, float32 [N, A] and [N, P]. Figures, float32 [5, N]: policy loss, value loss, entropy, whether the ratio
        is outside the clip, and its part of the KL divergence.
    """
    policy, log_policy = logits.softmax(dim=1), logits.log_softmax(dim=1)
    played = turns.actions[:, None]
    log_ratio = log_policy.gather(1, played).squeeze(1) - turns.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    gain, clipped_gain = ratio * turns.advantages, clipped * turns.advantages
    entropy = -(policy * log_policy).sum(dim=1)
    error = values - turns.targets

    # With the log probability of what was played, r·g changes by r·g, and clip(r)·g not at all. With the logits, that log
    # probability changes by 1 at the action's own, less the policy, and H by −policy · (log policy + H).
    pull = torch.where(gain <= clipped_gain, gain / size, 0.0)[:, None]
    by_logits = (log_policy + entropy[:, None]).mul_(config.entropy / size).add_(pull).mul_(policy)
    by_logits.scatter_add_(1, played, -pull)
    by_values = error * (2 * config.value_weight / error.shape[1] / size)

    policy_loss, value_loss = -torch.min(gain, clipped_gain), error.square().mean(dim=1)
    outside = (ratio != clipped).float()
    return by_logits, by_values, torch.stack([policy_loss, value_loss, entropy, outside, ratio - 1 - log_ratio])


@torch.no_grad()
def _shuffle_symmetries(turns: Turns, network: Network, config: TrainConfig, rng: np.random.Generator) -> Turns:
    """Show each turn in one of the eight symmetries, drawn uniformly, with what the network says of its action there."""
    words, actions = turn_boards(turns.words, turns.actions, config.size, rng)
    mine = share(len(turns))
    with autocast(config, words.device):
        parts = [network(part)[0].log_softmax(dim=1) for part in words[mine].split(config.minibatch)]
    log_probs = torch.cat(parts).gather(1, actions[mine, None]).squeeze(1)
    return replace(turns, words=words, actions=actions, log_probs=join(log_probs, len(turns)))


def turn_boards(words: Tensor, actions: Tensor, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Turn or mirror each position, int64 [N, 5], at random, and its action, int64 [N], with it."""
    permutations = cell_permutations(size)
    drawn = rng.integers(8, size=len(words))
    turned = transform_words(words.cpu().numpy().view(np.uint64), permutations[drawn])
    moved = permutations[drawn, actions.cpu().numpy()]
    return torch.from_numpy(turned.view(np.int64)).to(words.device), torch.from_numpy(moved).to(words.device)
