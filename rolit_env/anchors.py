"""Anchors: a variant comes in, the agents of known rating come out that others are measured by.

Their ratings are kept in `data/anchors.json`, so that what `rolit rate` says stays comparable from run to run and from one
machine to another. They come from tournaments of the anchors alone, in which `random` has 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rolit_env.errors import AgentError
from rolit_env.standings import make_standings
from rolit_env.tournament import Settings
from rolit_env.variant import Variant, all_variants

ANCHORS = {
    2: ("random", "greedy", "positional", "alphabeta:depth=2", "alphabeta:depth=4"),
    3: ("random", "greedy", "positional", "brs:depth=2", "maxn:depth=3"),
    4: ("random", "greedy", "positional", "brs:depth=2", "maxn:depth=3"),
}
"""By number of players: `random` first, all quick, none that needs a file."""

OPENINGS = {2: 400, 3: 100, 4: 50}
"""Openings of a rating where nothing is said, by number of players: some thousand rounds."""

FILE = Path(__file__).with_name("data") / "anchors.json"


def anchor_ratings(chosen: Variant) -> dict[str, float]:
    """Return the anchors of a variant and their ratings."""
    ratings: dict[str, float] = json.loads(FILE.read_text(encoding="utf-8"))["ratings"][chosen.name]
    return ratings


def rating_settings(agent: str, chosen: Variant, openings: int | None = None, seed: int = 0) -> Settings:
    """Return the tournament in which an agent meets every group of anchors.

    Args:
        agent: Its description.
        chosen: The variant.
        openings: Openings of each group; None for `OPENINGS`.
        seed: The same seed gives the same rounds.

    Raises:
        AgentError: for an agent that is an anchor itself.
        OptionError: for a seed that can't be.
    """
    ratings = anchor_ratings(chosen)
    if agent in ratings:
        raise AgentError(f"{agent} is an anchor of {chosen.name}, with the rating {ratings[agent]:.0f}; rate another agent")
    return Settings(
        agents={name: name for name in (*ratings, agent)},
        openings=openings or OPENINGS[chosen.players],
        size=chosen.size,
        players=chosen.players,
        seed=seed,
        openings_at_once=10,
        anchors=ratings,
    )


def rate_anchors(
    openings: Mapping[int, int], seed: int, play: Callable[[Settings, Path], None], folder: Path
) -> dict[str, Any]:
    """Return what `data/anchors.json` holds, from a tournament of each variant.

    Args:
        openings: Openings of each group, by number of players.
        seed: The same seed gives the same rounds.
        play: Plays a tournament in a folder.
        folder: Where the tournaments are, each in a folder named by its variant; what was played there counts.
    """
    ratings = {}
    for chosen in all_variants():
        settings = Settings(
            agents={name: name for name in ANCHORS[chosen.players]},
            openings=openings[chosen.players],
            size=chosen.size,
            players=chosen.players,
            seed=seed,
        )
        play(settings, folder / chosen.name)
        rated = make_standings(folder / chosen.name).ratings.rating
        ratings[chosen.name] = {name: round(float(rating), 1) for name, rating in zip(settings.names, rated, strict=True)}
    return {
        "ratings": ratings,
        "openings": dict(openings),
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
    }
