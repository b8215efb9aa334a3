"""Rolit for two, three and four players: rules engine, PettingZoo environment, agents and arena."""

from __future__ import annotations

from importlib import metadata

from rolit_env import rolit_v0
from rolit_env.agents import make_agent
from rolit_env.arena import play_rounds
from rolit_env.batch import GameBatch
from rolit_env.board import Board

__all__ = ["Board", "GameBatch", "__version__", "make_agent", "play_rounds", "rolit_v0"]

try:
    __version__ = metadata.version("rolit-env")
except metadata.PackageNotFoundError:  # a checkout that was never installed
    __version__ = "unknown"
