"""Learn from a teacher: rounds whose every turn an agent has said its own move of go in, and the policy comes closer to those.

The learner itself plays, so it is taught in the positions that its own play leads to, mistakes included, as in DAgger (Ross,
Gordon and Bagnell 2011). Values learn from how these rounds end, as ever.

Legend: N turns that are learnt from, A actions, P players.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from training.config import TrainConfig
from training.learner import Learner
from training.ppo import Turns, UpdateStats, update
from training.rollout import Rollout


def imitate(learner: Learner, rollout: Rollout) -> UpdateStats:
    """Bring the policy closer to a teacher's moves on one rollout that has them. Raises `DivergedError`, as `update` does."""
    taught = replace(rollout, actions=rollout.advice)
    return update(learner.network, learner.optimizer, taught, learner.config, learner.rng, imitation_gradients)


@torch.no_grad()
def imitation_gradients(
    logits: Tensor, values: Tensor, turns: Turns, size: int, config: TrainConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `ppo_gradients` does, of the cross entropy between the policy and `turns.actions`, the teacher's moves.

    Of the figures the second last tells where the policy likes another move best, and the last is the cross entropy too: the
    KL divergence from the teacher, who has no doubts.
    """
    log_policy = logits.log_softmax(dim=1)
    policy = log_policy.exp()
    entropy = -(policy * log_policy).sum(dim=1)
    advised = turns.actions[:, None]
    surprise = -log_policy.gather(1, advised).squeeze(1)
    error = values - turns.targets
    by_logits = policy.scatter_add_(1, advised, policy.new_full(advised.shape, -1.0)).div_(size)
    by_values = error * (2 * config.value_weight / error.shape[1] / size)
    other = (logits.argmax(dim=1) != turns.actions).float()
    return by_logits, by_values, torch.stack([surprise, error.square().mean(dim=1), entropy, other, surprise])
