"""The cheapest AEC environment there can be: actions come in and are forgotten, the same observation goes out each time.

In PettingZoo's wrappers it shows what the API and these wrappers cost before a game is played.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pettingzoo  # type: ignore[import-untyped]
from gymnasium import spaces
from pettingzoo.utils.wrappers import (  # type: ignore[import-untyped]
    AssertOutOfBoundsWrapper,
    OrderEnforcingWrapper,
    TerminateIllegalWrapper,
)

from rolit_env.variant import variant

LEGAL = (5, 10, 15, 20, 30, 40, 50, 60)
"""Cells that are always legal: as many as a turn of Rolit has on average."""


def env() -> OrderEnforcingWrapper:
    """Return the environment in the wrappers that PettingZoo's own classic games have."""
    return OrderEnforcingWrapper(AssertOutOfBoundsWrapper(TerminateIllegalWrapper(EmptyEnv(), illegal_reward=-1)))


class EmptyEnv(pettingzoo.AECEnv):  # type: ignore[misc]  # PettingZoo has no types
    """Spaces and length of a round of Rolit for two on 8x8, and no game."""

    metadata: ClassVar[dict[str, Any]] = {"name": "empty_v0", "render_modes": [], "is_parallelizable": False}
    render_mode = None

    def __init__(self) -> None:
        super().__init__()
        self._variant = variant(8, 2)
        size, cells = self._variant.size, self._variant.cells
        self.possible_agents: list[str] = list(self._variant.colors)
        self.action_spaces = {agent: spaces.Discrete(cells) for agent in self.possible_agents}
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": spaces.Box(0, 1, (4, size, size), np.int8),
                    "action_mask": spaces.Box(0, 1, (cells,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        first, second = self.possible_agents
        self._next = {first: second, second: first}
        mask = np.zeros(cells, np.int8)
        mask[list(LEGAL)] = 1
        self._observation = {"observation": np.zeros((4, size, size), np.int8), "action_mask": mask}

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return the observation space, that of Rolit for two on 8x8."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the action space."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start over; seed and options change nothing."""
        self.agents = self.possible_agents.copy()
        self.agent_selection = self.agents[0]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._skip_agent_selection = None
        self._ply = 0

    def step(self, action: int | None) -> None:
        """Count the turn and hand it to the other agent, until there were as many as in a round."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._ply += 1
        self.agent_selection = self._next[agent]
        if self._ply == self._variant.plies:
            self.terminations = dict.fromkeys(self.agents, True)

    def observe(self, agent: str) -> dict[str, npt.NDArray[np.int8]]:
        """Return the one observation there is, always in the same arrays."""
        return self._observation
