"""Rolit for two, three and four players: rules engine, PettingZoo environment, agents and arena."""

from __future__ import annotations

import gymnasium

from rolit_env import rolit_v0
from rolit_env.agents import make_agent
from rolit_env.arena import play_rounds
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.version import __version__

__all__ = ["Board", "GameBatch", "__version__", "make_agent", "play_rounds", "rolit_v0"]

# By name, so that it costs nothing until somebody makes one; a reloaded package is registered already.
if "rolit_env/Rolit-v0" not in gymnasium.registry:
    gymnasium.register(
        "rolit_env/Rolit-v0",
        entry_point="rolit_env.gym_env:RolitEnv",
        vector_entry_point="rolit_env.vector_env:RolitVectorEnv",
    )
