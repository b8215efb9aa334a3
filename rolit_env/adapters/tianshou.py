"""Rolit for Tianshou: the vector environment as its collectors step it, and networks in the forms that its learners call.

Legend: B rounds, N positions, n side, A = n·n actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from tianshou.data import Batch
from tianshou.env import BaseVectorEnv
from torch import Tensor, nn

from rolit_env.adapters.masked import masked_logits
from rolit_env.errors import OptionError
from rolit_env.vector_env import RolitVectorEnv


class RolitTianshouEnv(BaseVectorEnv):
    """Many rounds in lockstep with one learner, each with a seat of its own and agents in the others.

    Take it where Tianshou takes a vector environment. Observations are a `Batch` of `obs`, int8 [B, 4, n, n], and `mask`, bool
    [B, A], the names by which Tianshou's DQN knows a mask. A step runs from the learner's turn to its next one and carries all
    the reward in between, so losses arrive and the next observation is the learner's own. (In Tianshou's `PettingZooEnv` each
    is that of whoever moves next, and its multi-agent learners look for a player's rewards only where that player moved.)

    Collect by `n_step`, a multiple of B, or by an `n_episode` that is one: rounds in lockstep are stepped all at once. Infos
    are empty. All rounds end together, but on 6x6 with three players.

    Args:
        num_envs: Number of rounds, B.
        options: `size`, `players`, `seat`, `opponents`, `starter` and `reward`, as `RolitVectorEnv` takes them.

    Attributes:
        rounds: The vector environment inside.

    Raises:
        As `RolitVectorEnv` does; an illegal action raises `IllegalMoveError` and changes nothing.
    """

    def __init__(self, num_envs: int, **options: Any) -> None:
        # Not the base class's own, which makes and steps one environment for each round. Collectors reset what has ended.
        self.rounds = RolitVectorEnv(num_envs, **options, autoreset_mode=AutoresetMode.DISABLED)
        self.env_num = self.rounds.num_envs
        self.is_async = False
        self.is_closed = False
        self._next_seed: int | None = None

    def reset(  # type: ignore[override]  # the base class takes whatever its environments would
        self, env_id: Any = None, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """Start new rounds and return their first observations and empty infos.

        Args:
            env_id: The rounds to start, those that have ended together among them all or none; without it, all.
            seed: Seeds all that follows.
            options: As `RolitVectorEnv.reset` takes them.

        Raises as `RolitVectorEnv.reset` does.
        """
        rows = np.asarray(self._wrap_id(env_id))
        if len(rows) < self.env_num:
            chosen = np.zeros(self.env_num, np.bool_)
            chosen[rows] = True
            options = {**(options or {}), "reset_mask": chosen}
        seed, self._next_seed = self._next_seed if seed is None else seed, None
        observation, _ = self.rounds.reset(seed=seed, options=options)
        return _as_batch(observation)[rows], _no_infos(len(rows))

    def step(self, action: Any, id: Any = None) -> Any:  # noqa: A002  # the base class has the name
        """Play the learner's actions, int [B], and the opponents up to its next turns.

        Returns:
            Observations, rewards float64 [B], whether rounds are over, bool [B], whether they were cut short, which never
            happens, and infos, all empty.

        Raises:
            OptionError: for some of the rounds only.
            IllegalMoveError, ActionError, RoundOverError: as `RolitVectorEnv.step` does.
        """
        if not np.array_equal(self._wrap_id(id), np.arange(self.env_num)):
            raise OptionError(
                f"rounds in lockstep are stepped all at once; collect a number of steps or rounds that {self.env_num} divides"
            )
        observation, rewards, terminated, truncated, _ = self.rounds.step(action)
        return _as_batch(observation), rewards, terminated, truncated, _no_infos(self.env_num)

    def seed(self, seed: Any = None) -> Any:
        """Seed all that follows the next reset; of several seeds the first. Returns it for each round."""
        self._next_seed = seed[0] if isinstance(seed, Sequence) else seed
        return [self._next_seed] * self.env_num

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:  # noqa: A002
        """Return `action_space`, `observation_space`, `metadata`, `spec` or `render_mode` for each round asked for."""
        name = f"single_{key}" if key in ("action_space", "observation_space") else key
        return [getattr(self.rounds, name)] * len(self._wrap_id(id))

    def set_env_attr(self, key: str, value: Any, id: Any = None) -> None:  # noqa: A002
        """Raise `AttributeError`: rounds in lockstep are set up alike, when this is made."""
        raise AttributeError(f"{key} of single rounds can't be set; give it when RolitTianshouEnv is made")

    def render(self, **_: Any) -> list[Any]:
        """Return each round as text or picture, or nothing, by `render_mode`."""
        return list(self.rounds.render() or [])

    def close(self) -> None:
        """Close the environment."""
        self.rounds.close()
        self.is_closed = True


class MaskedActor(nn.Module):
    """An actor for PPO and Tianshou's other on-policy learners, which know nothing of masks: it masks itself.

    Collectors store observations with their masks, so learning sees the distribution that acting drew from.

    Args:
        network: Takes planes, float [N, 4, n, n], and gives logits, float [N, A].
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Batch, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        """Return masked logits, float [N, A], of observations, and the state as it came."""
        seen: Any = obs
        return masked_logits(self.network(_floats(seen.obs)), torch.as_tensor(seen.mask)), state


class PlanesCritic(nn.Module):
    """The value of the learner's seat, from the planes alone.

    Args:
        network: Takes planes, float [N, 4, n, n], and gives values, float [N, 1].
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Batch, **_: Any) -> Tensor:
        """Return values, float [N, 1], of observations."""
        seen: Any = obs
        values: Tensor = self.network(_floats(seen.obs))
        return values


class PlanesQ(nn.Module):
    """Action values for Tianshou's DQN, which masks them itself.

    Args:
        network: Takes planes, float [N, 4, n, n], and gives what each action is worth, float [N, A].
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        """Return action values, float [N, A], of planes, int8 [N, 4, n, n], and the state as it came."""
        return self.network(_floats(obs)), state


class PolicyAndValue(nn.Module):
    """What an actor and a critic have learnt, as a network for `TorchAgent`, `OpponentPool` and `export_policy`.

    It shares their weights, so it goes on learning with them.
    """

    def __init__(self, actor: MaskedActor, critic: PlanesCritic) -> None:
        super().__init__()
        self.policy = actor.network
        self.value = critic.network

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked logits, float32 [N, A], and the mover's values, float32 [N, 1].

        Args:
            planes: int8 [N, 4, n, n].
            mask: int8 [N, A].
        """
        seen = planes.float()
        return masked_logits(self.policy(seen), mask), self.value(seen)


class GreedyQ(nn.Module):
    """The same for action values: they are the logits, so that the best one is played, and the best one is the value."""

    def __init__(self, q: PlanesQ) -> None:
        super().__init__()
        self.network = q.network

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked action values, float32 [N, A], and the mover's values, float32 [N], as `PolicyAndValue` does."""
        values = masked_logits(self.network(planes.float()), mask)
        return values, values.amax(dim=1)


def _floats(planes: Any) -> Tensor:
    return torch.as_tensor(planes).float()


def _as_batch(observation: Any) -> Batch:
    return Batch(obs=observation["observation"], mask=observation["action_mask"].astype(np.bool_))


def _no_infos(count: int) -> Any:
    infos = np.empty(count, object)
    infos[:] = [{} for _ in range(count)]
    return infos
