"""Rolit for AgileRL: the vector environment with masks where rollouts look for them, and what was learnt as one network.

Legend: B rounds, N positions, n side, A = n·n actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from agilerl.algorithms import PPO
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorWrapper
from gymnasium.vector.utils import batch_space
from torch import Tensor, nn

from rolit_env.adapters.masked import masked_logits
from rolit_env.gym_env import Flags, Infos
from rolit_env.vector_env import RolitVectorEnv, Values

Rows = npt.NDArray[np.float32]


class RolitAgileEnv(VectorWrapper):
    """Many rounds in lockstep with one learner, each with a seat of its own and agents in the others.

    Observations are the planes as rows, float32 [B, 4·n·n], and every info has `action_mask`, int8 [B, A]: there AgileRL's
    rollouts, tests and evolution look for masks, and nowhere else. The step that ends a round starts the next one; `final_obs`
    in its info stays as the environment has it, because nobody there reads it.

    AgileRL keeps masks for learning. But make its PPO with `rollout_buffer_config={"use_gae": False}`: its rollouts note the
    end of a round at its last turn, its advantage estimator looks for it one turn later, and so would keep the result of each
    round from all turns but the last.

    Args:
        num_envs: Number of rounds, B.
        options: `size`, `players`, `seat`, `opponents`, `starter` and `reward`, as `RolitVectorEnv` takes them.

    Raises:
        As `RolitVectorEnv` does; an illegal action raises `IllegalMoveError` and changes nothing.
    """

    def __init__(self, num_envs: int, **options: Any) -> None:
        super().__init__(RolitVectorEnv(num_envs, **options, autoreset_mode=AutoresetMode.SAME_STEP))
        seen: Any = self.env.single_observation_space
        self.single_observation_space = spaces.Box(0, 1, (int(np.prod(seen["observation"].shape)),), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Rows, Infos]:
        """Start new rounds, as `RolitVectorEnv` does."""
        observation, infos = self.env.reset(seed=seed, options=options)
        return _rows(observation), {**infos, "action_mask": observation["action_mask"]}

    def step(self, actions: Any) -> tuple[Rows, Values, Flags, Flags, Infos]:
        """Play the learner's actions and the opponents up to its next turns, as `RolitVectorEnv` does."""
        observation, rewards, terminated, truncated, infos = self.env.step(actions)
        return _rows(observation), rewards, terminated, truncated, {**infos, "action_mask": observation["action_mask"]}


class PolicyAndValue(nn.Module):
    """What AgileRL's PPO has learnt over `RolitAgileEnv`, as a network for `TorchAgent`, `OpponentPool` and `export_policy`.

    It shares the learner's weights, so it goes on learning with it, until a mutation gives the learner other networks.

    Args:
        learner: The learner, with feed-forward networks.
    """

    def __init__(self, learner: PPO) -> None:
        super().__init__()
        # The layers alone: around them the learner keeps its last distribution, which can't be copied.
        self.shared = learner.share_encoders
        self.actor_features = learner.actor.encoder
        self.critic_features = learner.critic.encoder
        self.logits = learner.actor.head_net.wrapped
        self.value = learner.critic.head_net

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked logits, float32 [N, A], and the mover's values, float32 [N, 1].

        Args:
            planes: int8 [N, 4, n, n].
            mask: int8 [N, A].
        """
        rows = planes.float().flatten(1)
        actor = self.actor_features(rows)
        # A shared encoder is the actor's: the critic's is a copy from when it was made.
        critic = actor if self.shared else self.critic_features(rows)
        return masked_logits(self.logits(actor), mask), self.value(critic)


def _rows(observation: Any) -> Rows:
    planes = observation["observation"]
    rows: Rows = planes.reshape(len(planes), -1).astype(np.float32)
    return rows
