"""Rolit for Stable-Baselines3: actions of its learner come in, observations, rewards and masks of thousands of rounds go out.

For sb3-contrib's `MaskablePPO`, which takes `RolitEnv` as it is as well; `examples/sb3.py` shows both.

Legend: B sub-environments, n side, P players, A = n·n actions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from rolit_env.adapters.masked import TorchAgent, masked_logits
from rolit_env.adapters.pool import OpponentPool
from rolit_env.errors import OptionError
from rolit_env.gym_env import Infos, Observation, Opponents, Seat
from rolit_env.payoffs import Payoff
from rolit_env.vector_env import RolitVectorEnv

Rewards = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Indices = int | Iterable[int] | None


class RolitVecEnv(VecEnv):
    """`RolitVectorEnv` as a `VecEnv`, without a Python loop over the rounds and with masks that cost next to nothing.

    Rounds begin anew by themselves. The info of a step that ends a round has, as Stable-Baselines3 expects it,
    `terminal_observation`, `TimeLimit.truncated` (always False) and `episode`, a dict of the return `r`, the learner's turns
    `l` and the seconds `t` since this was made, so no `VecMonitor` is needed; and the `seat` that the learner had and its
    `win_share`. Other infos are empty.

    `seed` and `set_options` count from the next `reset`: the seed of the first sub-environment seeds all of them, and options
    must be the same for all.

    Args:
        num_envs: Number of sub-environments, B. Hundreds and more are what it is for.
        size: As `RolitVectorEnv` takes it, like all that follow.
        players: 2, 3 or 4.
        seat: The learner's seat, or `rotate`.
        opponents: Agents or descriptions; they act on batches.
        starter: The colour that moves first, or `random`.
        reward: `win`, `balls` or `rank`.
        render_mode: `ansi`, `rgb_array` or None.

    Attributes:
        env: The `RolitVectorEnv` inside.

    Raises:
        RolitError: as `RolitVectorEnv` does; an illegal action raises `IllegalMoveError` and changes nothing, so a learner
            that drops the mask is found out.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        size: int = 8,
        players: int = 2,
        seat: Seat = "rotate",
        opponents: Opponents = ("random",),
        starter: str = "random",
        reward: Payoff = "win",
        render_mode: Literal["ansi", "rgb_array"] | None = None,
    ) -> None:
        # With `copy=False` the learner would store the next observation in place of the last: it stores after the step.
        self.env = RolitVectorEnv(
            num_envs,
            size=size,
            players=players,
            seat=seat,
            opponents=opponents,
            starter=starter,
            reward=reward,
            autoreset_mode=AutoresetMode.SAME_STEP,
            render_mode=render_mode,
        )
        super().__init__(self.env.num_envs, self.env.single_observation_space, self.env.single_action_space)
        self._actions = np.zeros(0, np.int64)
        self._turns = np.zeros(self.num_envs, np.int64)
        self._made = time.monotonic()

    def reset(self) -> Observation:
        """Start new rounds and return the learner's first observations. Raises `OptionError` for options that differ."""
        options = self._options[0]
        if any(other != options for other in self._options):
            raise OptionError("options differ between sub-environments, which play in lockstep; allowed are the same for all")
        observation, _ = self.env.reset(seed=self._seeds[0], options=options)
        self._reset_seeds()
        self._reset_options()
        self._turns[:] = 0
        return observation

    def step_async(self, actions: npt.NDArray[np.int64]) -> None:
        """Take the actions of the next step, int [B]."""
        self._actions = actions

    def step_wait(self) -> tuple[Observation, Rewards, Flags, list[Infos]]:
        """Play the actions, and the opponents up to the learner's next turns; raises as `RolitVectorEnv.step` does.

        Returns:
            The observations (where a round has ended, the first of the next one), rewards float32 [B], ends bool [B], and
            infos, B dicts.
        """
        observation, rewards, ended, _, facts = self.env.step(self._actions)
        self._turns += 1
        infos: list[Infos] = [{} for _ in range(self.num_envs)]
        if facts:
            seconds = round(time.monotonic() - self._made, 6)
            final, results = facts["final_obs"], facts["final_info"]
            for row in np.flatnonzero(ended).tolist():
                infos[row] = {
                    "terminal_observation": {key: array[row] for key, array in final.items()},
                    "TimeLimit.truncated": False,
                    "episode": {"r": float(rewards[row]), "l": int(self._turns[row]), "t": seconds},
                    "seat": int(results["seat"][row]),
                    "win_share": float(results["win_share"][row]),
                }
            self._turns[ended] = 0
        return observation, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def has_attr(self, attr_name: str) -> bool:
        """Return whether `env_method` or `get_attr` knows the name."""
        return attr_name in ("action_masks", "render", "board", "seat", "render_mode", "observation_space", "action_space")

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return what `RolitEnv` has under one of these names, for each sub-environment asked for.

        Args:
            attr_name: `board`, `seat`, `render_mode`, `observation_space` or `action_space`.
            indices: Sub-environments; None for all.

        Raises:
            AttributeError: for another name.
        """
        rows = list(self._get_indices(indices))
        if attr_name == "board":
            return [self.env.board(row) for row in rows]
        if attr_name == "seat":
            return [int(seat) for seat in self.env.seats[rows]]
        if attr_name in ("observation_space", "action_space"):
            return [getattr(self.env, f"single_{attr_name}")] * len(rows)
        if attr_name == "render_mode":
            return [self.env.render_mode] * len(rows)
        raise AttributeError(
            f"RolitVecEnv has no {attr_name!r} for sub-environments; "
            "it has board, seat, render_mode, observation_space and action_space"
        )

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Raise `AttributeError`: rounds in lockstep are set up alike, when this is made."""
        raise AttributeError(f"{attr_name} of sub-environments can't be set; give it when RolitVecEnv is made")

    def env_method(self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any) -> list[Any]:
        """Return what `RolitEnv`'s method of that name does, for each sub-environment asked for.

        Args:
            method_name: `action_masks`, a bool [A] each, or `render`.
            method_args: None are taken.
            indices: Sub-environments; None for all.
            method_kwargs: None are taken.

        Raises:
            AttributeError: for another name.
        """
        if method_name not in ("action_masks", "render"):
            raise AttributeError(
                f"RolitVecEnv has no method {method_name!r} for sub-environments; it has action_masks and render"
            )
        results = getattr(self.env, method_name)(*method_args, **method_kwargs)
        if results is None:  # nothing is rendered
            results = [None] * self.num_envs
        return list(results) if indices is None else [results[row] for row in self._get_indices(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """Return False for each sub-environment asked for."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[npt.NDArray[np.uint8] | None]:
        """Return each sub-environment's picture, uint8 [H, W, 3]; None each when `render_mode` is not `rgb_array`."""
        return self.env_method("render") if self.render_mode == "rgb_array" else [None] * self.num_envs


class MaskableActor(nn.Module):
    """What `MaskablePPO` has learnt, as a network for `TorchAgent`, `OpponentPool` and `export_policy`.

    It shares the policy's weights, so it goes on learning with it.

    Args:
        policy: `model.policy` of a `MaskablePPO` over `RolitVecEnv` or `RolitEnv`: `MultiInputPolicy`, with any features
            extractor.

    Raises:
        OptionError: for another kind of policy, or one that does not observe `observation` and `action_mask`.
    """

    def __init__(self, policy: BasePolicy) -> None:
        super().__init__()
        if not isinstance(policy, MaskableActorCriticPolicy):
            raise OptionError(f"a {type(policy).__name__} takes no masks; allowed are the policies of MaskablePPO")
        space = policy.observation_space
        if not isinstance(space, spaces.Dict) or set(space.spaces) != {"observation", "action_mask"}:
            raise OptionError("a policy must observe a Dict of observation and action_mask, as Rolit's environments have it")
        # The layers alone: the policy around them keeps its optimizer and its last distribution, which can't be copied.
        self.shared = policy.share_features_extractor
        self.actor_features = policy.pi_features_extractor
        self.critic_features = policy.vf_features_extractor
        self.mlp = policy.mlp_extractor
        self.logits = policy.action_net
        self.value = policy.value_net

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked logits, float32 [B, A], and the mover's values, float32 [B, 1].

        Args:
            planes: int8 [B, 4, n, n].
            mask: int8 [B, A].
        """
        observation = {"observation": planes.float(), "action_mask": mask.float()}
        actor = self.actor_features(observation)
        critic = actor if self.shared else self.critic_features(observation)
        logits: Tensor = self.logits(self.mlp.forward_actor(actor))
        values: Tensor = self.value(self.mlp.forward_critic(critic))
        return masked_logits(logits, mask), values


class PoolCallback(BaseCallback):
    """Adds a frozen copy of what the model plays to a pool of opponents, again and again: self-play.

    A pool that draws the hardest is rated at the same time, which takes a while.

    Args:
        pool: The opponents of the model's environments.
        every: Rollouts from one copy to the next.
    """

    def __init__(self, pool: OpponentPool, every: int = 10) -> None:
        super().__init__()
        self.pool = pool
        self.every = every
        self._rollouts = 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._rollouts += 1
        if self._rollouts % self.every:
            return
        agent = TorchAgent(MaskableActor(self.model.policy), f"step {self.num_timesteps}", sample=True)
        self.pool.add(agent)
        if self.pool.sample == "hardest":
            board = self.training_env.get_attr("board", [0])[0]
            self.pool.rate(agent, size=board.size, players=board.players)
