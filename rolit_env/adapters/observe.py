"""An environment of Rolit comes in, the same goes out with observations in the form that a library wants.

    env = observe(rolit_v0.env(), flat=True, dtype=np.float32, names={"observation": "observations"})  # as RLlib's modules

Observations stay dicts and masks stay what they are: int8, never stacked, scaled or mixed up with the planes.

Legend: B sub-environments, n side, P players, k frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from pettingzoo import AECEnv  # type: ignore[import-untyped]
from pettingzoo.utils.wrappers import BaseWrapper  # type: ignore[import-untyped]

from rolit_env import rolit_v0
from rolit_env.errors import OptionError
from rolit_env.gym_env import Flags, Infos, Observation, RolitEnv
from rolit_env.lockstep import checked_count
from rolit_env.vector_env import Actions, RolitVectorEnv, Values

Planes = npt.NDArray[np.int8]
Seen = dict[str, npt.NDArray[Any]]


def observe(
    env: Any,
    *,
    frames: int = 1,
    indicator: bool = False,
    flat: bool = False,
    dtype: npt.DTypeLike = np.int8,
    names: Mapping[str, str] | None = None,
) -> Any:
    """Return a one-seat, vector or PettingZoo environment of Rolit, wrapped in one of its own kind that observes otherwise.

    Args:
        env: Of `RolitEnv`, `RolitVectorEnv` or `rolit_v0`, in wrappers or without.
        frames: Positions that are seen, k: the present one, and before it those of the observer's turns before, oldest first
            and empty boards where there were none. Each has four planes.
        indicator: Whether P more planes follow, all ones for the observer's seat and zeros for the others, which planes that
            have the observer's balls first don't tell.
        flat: Whether the planes become one vector, [(4k + P) · n · n], or [4k · n · n] without the indicator.
        dtype: What planes are cast to, such as `np.float32`; they are 0 and 1 in any.
        names: New names of the keys `observation` and `action_mask`.

    Raises:
        OptionError: for another environment, or less than one frame.
    """
    base = getattr(env, "unwrapped", None)
    if not isinstance(base, RolitEnv | RolitVectorEnv | rolit_v0.raw_env):
        raise OptionError(f"{env!r} is no environment of Rolit; allowed are RolitEnv, RolitVectorEnv and those of rolit_v0")
    view = View(base._variant.players, checked_count("frames", frames), indicator, flat, np.dtype(dtype), dict(names or {}))
    kind: Any = ObservedAECEnv if isinstance(env, AECEnv) else ObservedVectorEnv if isinstance(env, VectorEnv) else ObservedEnv
    return kind(env, view)


@dataclass(frozen=True)
class View:
    """How observations are to look; the fields are as `observe` takes them."""

    players: int
    frames: int
    indicator: bool
    flat: bool
    dtype: np.dtype[Any]
    names: dict[str, str]

    def space(self, space: spaces.Dict) -> spaces.Dict:
        """Return the space of the observations that this makes of those of a space."""
        side = space["observation"].shape[-1]  # type: ignore[index]
        channels = 4 * self.frames + self.players * self.indicator
        shape = (channels * side * side,) if self.flat else (channels, side, side)
        return spaces.Dict(self._named(spaces.Box(0, 1, shape, self.dtype.type), space["action_mask"]))

    def __call__(self, observation: Observation, past: Sequence[Planes] | Planes, seat: npt.ArrayLike) -> Seen:
        """Return one observation or a batch of them; `past` are the planes of the k − 1 before, int8 [..., 4, n, n]."""
        planes = np.concatenate([*past, observation["observation"]], axis=-3)
        if self.indicator:
            own = (np.arange(self.players) == np.expand_dims(seat, -1))[..., None, None]
            own = np.broadcast_to(own, (*own.shape[:-2], *planes.shape[-2:]))
            planes = np.concatenate([planes, own], axis=-3, dtype=np.int8)
        if self.flat:
            planes = planes.reshape(*planes.shape[:-3], -1)
        return self._named(planes.astype(self.dtype, copy=False), observation["action_mask"])

    def _named(self, planes: Any, mask: Any) -> dict[str, Any]:
        return {self.names.get(key, key): part for key, part in (("observation", planes), ("action_mask", mask))}


class ObservedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A one-seat environment under another view."""

    def __init__(self, env: gymnasium.Env[Any, Any], view: View) -> None:
        super().__init__(env)
        self._view = view
        self.observation_space = view.space(self.env.observation_space)  # type: ignore[arg-type]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, Infos]:
        """Start a new round, as the environment does."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._now: Planes = observation["observation"]
        self._past: list[Planes] = [np.zeros_like(self._now)] * (self._view.frames - 1)
        return self._see(observation), info

    def step(self, action: Any) -> tuple[Seen, Any, bool, bool, Infos]:
        """Play an action, as the environment does."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (observation["observation"] != self._now).any():  # an illegal move leaves everything as it is
            self._past = [*self._past, self._now][1:]
            self._now = observation["observation"]
        return self._see(observation), reward, terminated, truncated, info

    def _see(self, observation: Observation) -> Seen:
        return self._view(observation, self._past, self.env.unwrapped.seat)  # type: ignore[attr-defined]


if TYPE_CHECKING:
    _VectorWrapper = VectorWrapper[Seen, Actions, Observation, Actions, npt.NDArray[Any]]
else:
    _VectorWrapper = VectorWrapper  # not generic before gymnasium 1.3


class ObservedVectorEnv(_VectorWrapper):
    """A vector environment under another view, in any autoreset mode."""

    def __init__(self, env: VectorEnv[Observation, Actions, npt.NDArray[Any]], view: View) -> None:
        super().__init__(env)
        self._view = view
        self.single_observation_space = view.space(env.single_observation_space)  # type: ignore[arg-type]
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._over = np.zeros(env.num_envs, np.bool_)  # where the next step only starts a new round

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, Infos]:
        """Start new rounds, as the environment does."""
        observation, infos = self.env.reset(seed=seed, options=options)
        self._now = observation["observation"].copy()
        chosen = (options or {}).get("reset_mask")
        if chosen is None:
            self._past: Planes = np.zeros((self._view.frames - 1, *self._now.shape), np.int8)
            self._over[:] = False
        else:
            self._past[:, chosen] = 0
            self._over[chosen] = False
        return self._see(observation), infos

    def step(self, actions: Actions) -> tuple[Seen, Values, Flags, Flags, Infos]:
        """Play the actions, as the environment does."""
        observation, rewards, ended, truncated, infos = self.env.step(actions)
        self._past = np.concatenate([self._past, self._now[None]])[1:]
        self._past[:, self._over] = 0
        if "final_obs" in infos:
            final = self._view(infos["final_obs"], self._past, infos["final_info"]["seat"])
            for part in final.values():
                part[~ended] = 0
            infos["final_obs"] = final
            self._past[:, ended] = 0
        self._over = ended & (self.env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP)
        self._now = observation["observation"].copy()
        return self._see(observation), rewards, ended, truncated, infos

    def _see(self, observation: Observation) -> Seen:
        return self._view(observation, self._past, self.env.unwrapped.seats)  # type: ignore[attr-defined]


class ObservedAECEnv(BaseWrapper):  # type: ignore[misc]  # PettingZoo has no types
    """A PettingZoo environment under another view."""

    def __init__(self, env: AECEnv, view: View) -> None:
        super().__init__(env)
        self._view = view
        self.observation_spaces = {agent: view.space(env.observation_space(agent)) for agent in env.possible_agents}

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return the observation space of an agent, always the same object."""
        return self.observation_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a new round, as the environment does."""
        self.env.reset(seed=seed, options=options)
        agents = self.env.possible_agents
        first = agents.index(self.env.agent_selection)
        self._seats = {agent: (number - first) % len(agents) for number, agent in enumerate(agents)}
        empty = np.zeros_like(self.env.state())
        self._past: dict[str, list[Planes]] = {agent: [empty] * (self._view.frames - 1) for agent in agents}

    def step(self, action: int | None) -> None:
        """Play an action, as the environment does."""
        agent = self.env.agent_selection
        before = self.env.observe(agent)["observation"]
        self.env.step(action)
        if (self.env.observe(agent)["observation"] != before).any():  # not for None, nor an illegal move
            self._past[agent] = [*self._past[agent], before][1:]

    def observe(self, agent: str) -> Seen:
        """Return what an agent sees: its own past turns, and the present."""
        return self._view(self.env.observe(agent), self._past[agent], self._seats[agent])
