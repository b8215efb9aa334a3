"""Rolit for RLlib's new API stack: settings come in; an environment, a masked network, opponents and counts go out.

For one learner on one machine or on a Ray cluster, playing in some or all seats of a round; `examples/rllib.py` puts the
pieces together, and docs/ray.md goes on from there.

Legend: B positions, n side, P players, A = n·n actions.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from gymnasium import spaces
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from torch import Tensor, nn

from rolit_env import rolit_v0
from rolit_env.adapters.masked import masked_logits
from rolit_env.errors import IllegalMoveError, OptionError, RoundOverError
from rolit_env.gym_env import NO_ROUND

MAIN = "main"
"""The module that learns."""

OPTIONS = ("size", "players", "starter", "reward", "render_mode")

Seen = dict[str, Any]


class RolitMultiAgentEnv(MultiAgentEnv):  # type: ignore[misc]  # RLlib has no types
    """A round of Rolit as RLlib plays it, each seat an agent: `seat_0` moves first, `seat_1` next.

    Only the agent to move gets an observation, `Dict(observations=Box(0, 1, (4, n, n), int8), action_mask=Box(0, 1, (n·n,),
    int8))`, which is that of `rolit_v0` under the names RLlib's own modules want. With the last move all agents get one, and
    their payoffs, so losses reach the learner.

    An illegal action ends the round with −1 for the mover and 0 for the others, and its info says `illegal_moves`: 1. It does
    not raise, because RLlib would take that for a broken machine and start the runner anew.

    Args:
        config: `size`, `players`, `starter`, `reward` and `render_mode`, as `rolit_v0.env` takes them; none is needed.

    Raises:
        OptionError: for another key, and as `rolit_v0.env` does.
        VariantError: for another size or player count.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        options = dict(config or {})
        for name in options:
            if name not in OPTIONS:
                raise OptionError(f"env_config has a key {name!r}, which does not exist; allowed are {', '.join(OPTIONS)}")
        self._game = rolit_v0.raw_env(**options)
        self.render_mode = self._game.render_mode
        colors = self._game.possible_agents
        self.possible_agents = [f"seat_{seat}" for seat in range(len(colors))]
        self.agents = self.possible_agents.copy()
        seen = self._game.observation_space(colors[0])
        space = spaces.Dict({"observations": seen["observation"], "action_mask": seen["action_mask"]})
        self.observation_spaces = dict.fromkeys(self.agents, space)
        self.action_spaces = dict.fromkeys(self.agents, self._game.action_space(colors[0]))
        self._colors: dict[str, str] = {}
        self._seat: int | None = None
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, Seen]:
        """Start a new round, as `rolit_v0.raw_env.reset` does, and return the first observation and no infos."""
        self._game.reset(seed, options)
        colors = self._game.possible_agents
        first = colors.index(self._game.agent_selection)
        self._colors = dict(zip(self.agents, colors[first:] + colors[:first], strict=True))
        self._seat = 0
        return {self.agents[0]: self._see(self.agents[0])}, {}

    def step(self, action_dict: Mapping[str, Any]) -> tuple[Seen, Seen, Seen, Seen, Seen]:
        """Play the action of the agent to move.

        Returns:
            Observations, rewards, whether agents have terminated or were truncated, and infos, by agent.

        Raises:
            RoundOverError: when the round is over or none was started.
            OptionError: for any other agents than the one to move.
            ActionError: for anything that is no action.
        """
        if self._seat is None:
            raise RoundOverError(NO_ROUND)
        mover = self.agents[self._seat]
        if list(action_dict) != [mover]:
            raise OptionError(f"actions came for {', '.join(map(str, action_dict)) or 'nobody'}; only {mover} is to move")
        try:
            self._game.step(action_dict[mover])
        except IllegalMoveError:
            return self._end({agent: -1.0 if agent == mover else 0.0 for agent in self.agents}, illegal=mover)
        if self._game.terminations[self._colors[mover]]:
            return self._end({agent: self._game.rewards[color] for agent, color in self._colors.items()})
        self._seat = (self._seat + 1) % len(self.agents)
        following = self.agents[self._seat]
        return {following: self._see(following)}, {}, {"__all__": False}, {"__all__": False}, {}

    def render(self) -> Any:
        """Render as `rolit_v0.env` does."""
        return self._game.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self._game.close()

    def _see(self, agent: str) -> Seen:
        seen = self._game.observe(self._colors[agent])
        return {"observations": seen["observation"], "action_mask": seen["action_mask"]}

    def _end(self, rewards: Seen, illegal: str | None = None) -> tuple[Seen, Seen, Seen, Seen, Seen]:
        self._seat = None
        last = {agent: self._see(agent) for agent in self.agents}
        for seen in last.values():
            seen["action_mask"].fill(0)  # after an illegal move the board is not full
        infos = {agent: {"illegal_moves": int(agent == illegal)} for agent in self.agents}
        every = [*self.agents, "__all__"]
        return last, rewards, dict.fromkeys(every, True), dict.fromkeys(every, False), infos


class Network(nn.Module):
    """Planes, int8 [B, 4, n, n], and mask, int8 [B, A] → masked logits, float32 [B, A], and values, float32 [B]."""

    def __init__(self, size: int, width: int = 256) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4 * size * size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.logits = nn.Linear(width, size * size)
        self.value = nn.Linear(width, 1)

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked logits and values."""
        features = self.body(planes.float().flatten(1))
        return masked_logits(self.logits(features), mask), self.value(features).squeeze(1)


class MaskedModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]
    """A policy that can't play illegally, in play and in learning alike: a network that masks itself, as RLlib wants it.

    Attributes:
        network: What `make_network` returned. `TorchAgent` and `export_policy` take it as it is.
    """

    network: nn.Module

    def setup(self) -> None:
        """Make the network."""
        self.network = self.make_network(self.observation_space["observations"].shape[-1])

    def make_network(self, size: int) -> nn.Module:
        """Return a network for boards of this side; override it for one of your own, with what `Network` takes and gives.

        `model_config` of the `RLModuleSpec` is at hand as `self.model_config`; this one reads `width` there.
        """
        return Network(size, self.model_config.get("width", 256))

    def _forward(self, batch: Seen, **_: Any) -> Seen:
        return {Columns.ACTION_DIST_INPUTS: self._answer(batch)[0]}

    def _forward_train(self, batch: Seen, **_: Any) -> Seen:
        logits, values = self._answer(batch)
        return {Columns.ACTION_DIST_INPUTS: logits, Columns.EMBEDDINGS: values}

    def compute_values(self, batch: Seen, embeddings: Tensor | None = None) -> Tensor:
        """Return the values, float32 [B]: those that the forward pass of the same batch left as `embeddings`, if it did."""
        return self._answer(batch)[1] if embeddings is None else embeddings

    def _answer(self, batch: Seen) -> tuple[Tensor, Tensor]:
        seen = batch[Columns.OBS]
        logits, values = self.network(seen["observations"], seen["action_mask"])
        return logits, values


def snapshot_names(count: int) -> list[str]:
    """Return the names of the modules that hold past selves of the learner."""
    return [f"past_{number}" for number in range(count)]


@dataclass(frozen=True)
class SeatMapping:
    """RLlib's `policy_mapping_fn`: which module plays which seat, drawn anew for each round.

    One seat, each equally often, is the learner's. Each of the others is a past self's with the chance `past`, and else the
    learner's too, which then learns from both.

    Attributes:
        players: Players in a round, P.
        snapshots: Past selves, one of which is drawn for a seat, each equally often; with 0 the learner has all seats.
        past: The chance.
    """

    players: int
    snapshots: int = 0
    past: float = 0.5

    def __call__(self, agent_id: str, episode: MultiAgentEpisode, **_: Any) -> str:
        """Return the name of the module that plays an agent, the same whenever it is asked for the same round."""
        rng = random.Random(episode.id_)
        learner = rng.randrange(self.players)
        draws = [(rng.random(), rng.random()) for _ in range(self.players)]
        seat = int(agent_id.removeprefix("seat_"))
        chance, which = draws[seat]
        if seat == learner or not self.snapshots or chance >= self.past:
            return MAIN
        return snapshot_names(self.snapshots)[int(which * self.snapshots)]


class SnapshotCallback(RLlibCallback):  # type: ignore[misc]
    """Keeps past selves of the learner as opponents, and counts how its rounds end.

    Results of `train` then have, under `env_runners`, for the seats of the learner: `won`, `drawn` (a shared lead), `lost` and
    `illegal_moves`, counted in that iteration; and `return_against_past`, the mean payoff over recent rounds in which it met a
    past self, where 0 is as good as they were.

    Args:
        snapshots: Modules that hold past selves. They begin as they were made, which is to say at random, and the last of
            several stays that way: a learner that meets good play alone forgets how to beat bad play.
        every: Iterations after which the oldest of the others becomes what the learner is then.
    """

    def __init__(self, snapshots: int, every: int = 10) -> None:
        super().__init__()
        self.names = snapshot_names(snapshots)
        self.every = every

    def on_train_result(self, *, algorithm: Algorithm, **_: Any) -> None:
        """Take a snapshot when its time has come."""
        number, rest = divmod(algorithm.iteration, self.every)
        if not rest and self.names:
            name = self.names[(number - 1) % max(1, len(self.names) - 1)]
            state = {"rl_module": {name: algorithm.get_module(MAIN).get_state()}}
            algorithm.learner_group.set_state({"learner": state})  # for checkpoints
            # `Algorithm.set_state` would not do: it sends weights that runners take for those that they got after learning.
            reference = ray.put(state)
            algorithm.env_runner_group.foreach_env_runner(lambda runner: runner.set_state(ray.get(reference)))

    def on_episode_end(self, *, episode: MultiAgentEpisode, metrics_logger: MetricsLogger, **_: Any) -> None:
        """Count how a round ended."""
        seats = [agent for agent in episode.agent_episodes.values() if agent.module_id == MAIN]
        returns = [agent.get_return() for agent in seats]
        worst = -1 / (len(episode.agent_episodes) - 1)
        won, lost = sum(value > 0.999 for value in returns), sum(value < worst + 0.001 for value in returns)
        counts = {"won": won, "drawn": len(returns) - won - lost, "lost": lost}
        counts["illegal_moves"] = sum(agent.get_infos(-1).get("illegal_moves", 0) for agent in seats)
        for name, count in counts.items():
            metrics_logger.log_value(name, count, reduce="sum")
        if len(seats) < len(episode.agent_episodes):
            metrics_logger.log_value("return_against_past", float(np.mean(returns)), reduce="mean", window=1000)
