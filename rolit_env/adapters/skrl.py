"""Rolit for skrl: the vector environment as skrl steps it, and models that mask, because skrl itself knows nothing of masks.

Legend: N positions, n side, A = n·n actions.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode
from skrl.envs.wrappers.torch import Wrapper, wrap_env
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.utils.spaces.torch import unflatten_tensorized_space
from torch import Tensor, nn
from torch.distributions import Distribution

from rolit_env.adapters.masked import masked_logits
from rolit_env.vector_env import RolitVectorEnv

# Importing skrl stops all distributions in the process from checking their arguments, those of other libraries as well, and so
# hides logits that are no numbers. This is what torch begins with.
Distribution.set_default_validate_args(__debug__)


def make_env(num_envs: int, **options: Any) -> Wrapper:
    """Return the vector environment in skrl's wrapper.

    The step that ends a round starts the next one (`SAME_STEP`): skrl resets once and then only steps, so that with
    `NEXT_STEP` it would learn, for every round, from a turn that nobody played.

    Args:
        num_envs: Number of rounds.
        options: `size`, `players`, `seat`, `opponents`, `starter` and `reward`, as `RolitVectorEnv` takes them.

    Raises:
        As `RolitVectorEnv` does.
    """
    return wrap_env(RolitVectorEnv(num_envs, **options, autoreset_mode=AutoresetMode.SAME_STEP), wrapper="gymnasium")


class MaskedPolicy(CategoricalMixin, Model):  # type: ignore[misc]
    """A policy over the legal cells, in acting and in learning.

    skrl hands a model one row of floats for each position, the whole observation with the mask in it, and keeps those rows for
    learning. So a mask that the model applies counts in both; one applied outside would count in acting alone.

    Args:
        observation_space: The environment's.
        action_space: The environment's.
        network: Takes planes, float [N, 4, n, n], and gives logits, float [N, A].
        device: Where it computes.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        network: nn.Module,
        device: str | torch.device = "cpu",
    ) -> None:
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        CategoricalMixin.__init__(self, unnormalized_log_prob=True)
        self.network = network

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Tensor, dict[str, Any]]:
        """Return masked logits, float [N, A], of the rows in `inputs["observations"]`."""
        seen = unflatten_tensorized_space(self.observation_space, inputs["observations"])
        return masked_logits(self.network(seen["observation"]), seen["action_mask"]), {}


class PlanesValue(DeterministicMixin, Model):  # type: ignore[misc]
    """The value of the learner's seat, from the planes alone.

    Args:
        observation_space: The environment's.
        action_space: The environment's.
        network: Takes planes, float [N, 4, n, n], and gives values, float [N, 1].
        device: Where it computes.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        network: nn.Module,
        device: str | torch.device = "cpu",
    ) -> None:
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        DeterministicMixin.__init__(self)
        self.network = network

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Tensor, dict[str, Any]]:
        """Return values, float [N, 1], of the rows in `inputs["observations"]`."""
        seen = unflatten_tensorized_space(self.observation_space, inputs["observations"])
        return self.network(seen["observation"]), {}


class PolicyAndValue(nn.Module):
    """Both networks as one, as arena and export take it.

    Args:
        policy: The policy.
        value: The value.
    """

    def __init__(self, policy: MaskedPolicy, value: PlanesValue) -> None:
        super().__init__()
        self.policy, self.value = policy.network, value.network

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked logits, float [N, A], and values, float [N, 1], of int8 planes and masks."""
        return masked_logits(self.policy(planes.float()), mask), self.value(planes.float())
