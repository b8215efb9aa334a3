"""Tournaments: settings come in, rounds between all groups of agents go into a folder, chunk by chunk.

A chunk is some openings, played by one group of as many agents as there are players in all their assignments to seats.
All groups play the same openings. A chunk has random streams and agents of its own, so it depends on nothing played before it,
and a tournament is nothing but a list of chunks: whoever plays them, in whatever order, gets the same rounds.
"""

from __future__ import annotations

from rolit_env.tournament.folder import (
    RECORDS,
    Chunk,
    chunks_at,
    find_lines,
    load_settings,
    open_results,
    read_chunks,
    read_timings,
)
from rolit_env.tournament.run import play_chunk, play_tournament
from rolit_env.tournament.settings import Settings, make_settings, read_config

__all__ = [
    "RECORDS",
    "Chunk",
    "Settings",
    "chunks_at",
    "find_lines",
    "load_settings",
    "make_settings",
    "open_results",
    "play_chunk",
    "play_tournament",
    "read_chunks",
    "read_config",
    "read_timings",
]
