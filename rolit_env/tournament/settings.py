"""The settings of a tournament: a YAML file comes in, checked settings come out, which know who meets whom."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from rolit_env.arena import check_opening, seat_assignments
from rolit_env.errors import ConfigError
from rolit_env.record import check_names, check_seed
from rolit_env.variant import Variant, variant

MOST_OPENINGS = 10**8

MOST_RATING = 10**5

PLAIN = {
    "openings": int,
    "size": int,
    "players": int,
    "opening_turns": int,
    "starter": str,
    "seed": int,
    "openings_at_once": int,
    "records": bool,
}
"""Of which type plain settings are."""


@dataclass(frozen=True)
class Settings:
    """What a tournament plays.

    Attributes:
        agents: Names and the descriptions that `make_agent` knows, P of them or more. The same description may come under
            several names; agents of one name never meet.
        openings: Openings that each group plays, in all P! assignments to seats.
        size: 8, 6 or 4.
        players: 2, 3 or 4, P.
        opening_turns: Uniformly random turns at the start of a round.
        starter: A colour, or `random`: drawn for each opening.
        seed: The same seed gives the same rounds.
        openings_at_once: Openings in a chunk, played side by side: what each worker loses when it is killed.
        anchors: Ratings that are given, by name; anchors alone make no group.
        records: Whether the games are kept, move by move.

    Raises:
        VariantError: for a variant that does not exist.
        ConfigError, RecordError: for agents, names or anchors that can't be.
        OptionError: for openings that can't be.
    """

    agents: dict[str, str]
    openings: int
    size: int = 8
    players: int = 2
    opening_turns: int = 4
    starter: str = "random"
    seed: int = 0
    openings_at_once: int = 50
    anchors: dict[str, float] = field(default_factory=dict)
    records: bool = False

    def __post_init__(self) -> None:
        for name, wanted in PLAIN.items():
            value = getattr(self, name)
            if type(value) is not wanted:
                raise ConfigError(f"{name}={value!r} has the wrong type; it must be of type {wanted.__name__}")
        check_opening(self.variant, self.opening_turns, self.starter, self.seed)
        check_names(self.names)
        check_seed(self.seed)
        for name in ("openings", "openings_at_once"):
            if not 1 <= getattr(self, name) <= MOST_OPENINGS:
                raise ConfigError(f"{name}={getattr(self, name)} does not fit; allowed are ints from 1 to {MOST_OPENINGS}")
        for name, rating in self.anchors.items():
            if name not in self.agents:
                raise ConfigError(f"the anchor {name!r} is none of the agents; allowed are {', '.join(self.agents)}")
            if type(rating) not in (int, float) or not -MOST_RATING <= rating <= MOST_RATING:
                raise ConfigError(f"the anchor {name!r} has the rating {rating!r}; allowed are numbers to {MOST_RATING}")
        if len(self.anchors) == len(self.agents):
            raise ConfigError("all agents are anchors, so there is nobody to rate; allowed are fewer anchors")
        if len(self.agents) < self.players:
            raise ConfigError(
                f"{len(self.agents)} agents are too few, for nobody meets itself; {self.variant.name} needs {self.players} or "
                "more (rolit evaluate plays one agent against copies of another)"
            )

    @property
    def variant(self) -> Variant:
        """The variant played."""
        return variant(self.size, self.players)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the agents, N of them."""
        return tuple(self.agents)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Who meets: every P of the N agents, by their numbers, but for those that are all anchors."""
        every = combinations(range(len(self.agents)), self.players)
        return [group for group in every if not all(self.names[number] in self.anchors for number in group)]

    @property
    def assignments(self) -> list[tuple[int, ...]]:
        """All ways to seat a group; an assignment has the member in each seat."""
        return seat_assignments(self.players, self.players)

    @property
    def chunks(self) -> int:
        """Chunks that each group plays."""
        return -(-self.openings // self.openings_at_once)

    def openings_in(self, chunk: int) -> int:
        """Return how many openings a chunk has: the last one may have fewer."""
        return min(self.openings_at_once, self.openings - chunk * self.openings_at_once)

    @property
    def rounds(self) -> int:
        """Rounds of the whole tournament."""
        return self.openings * len(self.assignments) * len(self.groups)


def read_config(path: Path) -> Settings:
    """Return the settings in a YAML file.

    Raises:
        ConfigError: for a file that can't be read, a setting that is unknown, missing, or can't be.
        VariantError, OptionError: as `Settings` does.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content, tree = yaml.safe_load(text), yaml.compose(text, yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{path} can't be read ({error.strerror}); it must be a YAML file") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} is no YAML ({error})") from None
    if isinstance(tree, yaml.MappingNode):
        for node in (tree, *(value for _, value in tree.value)):
            _check_keys(node, path)
    return make_settings(content, str(path))


def _check_keys(node: yaml.Node, path: Path) -> None:
    """Refuse a key that is given twice, of which the loader has dropped one."""
    keys = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"{path} has {key!r} twice; allowed is once")


def make_settings(content: Any, where: str) -> Settings:
    """Return the settings in a mapping read from a file that `where` names. Raises as `read_config` does."""
    known = [one.name for one in fields(Settings)]
    if not isinstance(content, dict):
        raise ConfigError(f"{where} must hold settings, each a line `name: value`; known are {', '.join(known)}")
    for name in content:
        if name not in known:
            raise ConfigError(f"{where} has a setting {name!r}, which does not exist; known are {', '.join(known)}")
    for name in ("agents", "openings"):
        if name not in content:
            raise ConfigError(f"{where} lacks the setting {name}")
    anchors = content.get("anchors", {})
    if not isinstance(anchors, dict):
        raise ConfigError("anchors must be lines `name: rating`")
    return Settings(**content | {"agents": _named(content["agents"]), "anchors": anchors})


def _named(agents: Any) -> dict[str, str]:
    """Return names and descriptions; in a list the descriptions are the names."""
    if isinstance(agents, list):
        for agent in agents:
            if agents.count(agent) > 1:
                raise ConfigError(f"the agent {agent!r} is there twice; give each a name of its own, `name: {agent}`")
        agents = {agent: agent for agent in agents if isinstance(agent, str)} if all(map(_said, agents)) else None
    if not isinstance(agents, dict) or not all(_said(name) and _said(text) for name, text in agents.items()):
        raise ConfigError("agents must be a list of descriptions, or lines `name: description`, all of them text")
    return agents


def _said(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())
