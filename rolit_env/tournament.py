"""Tournaments: settings come in, rounds between all groups of agents go into a folder, chunk by chunk.

A chunk is some openings, played by one group of as many agents as there are players in all their assignments to seats.
All groups play the same openings. A chunk has random streams and agents of its own, so it depends on nothing played before it,
and a tournament is nothing but a list of chunks: whoever plays them, in whatever order, gets the same rounds.

A folder holds `settings.json`, `results.jsonl` with a line for each chunk (`Chunk.line` writes it), and `timings.jsonl` with
the seconds each agent took. A line that was half written when a process was killed is played again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import yaml

from rolit_env.agents import FILES, make_agent
from rolit_env.arena import check_opening, make_openings, play_seated, seat_assignments
from rolit_env.errors import AgentError, ConfigError, OutputError, ResultsError, RolitError
from rolit_env.files import replacing
from rolit_env.variant import Variant, variant

if sys.platform != "win32":
    import fcntl

Balls = npt.NDArray[np.uint8]

SETTINGS, RESULTS, TIMINGS = "settings.json", "results.jsonl", "timings.jsonl"
"""The files of a folder."""

MOST_OPENINGS = 10**8


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
        openings_at_once: Openings in a chunk, played side by side: what is lost when a process is killed.
        newcomer: Name of an agent that all groups must have, so that the others don't play without it; empty for none.

    Raises:
        VariantError: for a variant that does not exist.
        ConfigError: for agents that can't be.
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
    newcomer: str = ""

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:
            value, wanted = getattr(self, field.name), str if field.name in ("starter", "newcomer") else int
            if type(value) is not wanted:
                raise ConfigError(f"{field.name}={value!r} has the wrong type; it must be of type {wanted.__name__}")
        check_opening(self.variant, self.opening_turns, self.starter, self.seed)
        for name in ("openings", "openings_at_once"):
            if not 1 <= getattr(self, name) <= MOST_OPENINGS:
                raise ConfigError(f"{name}={getattr(self, name)} does not fit; allowed are ints from 1 to {MOST_OPENINGS}")
        if self.newcomer and self.newcomer not in self.agents:
            raise ConfigError(f"newcomer={self.newcomer!r} is none of the agents; allowed are {', '.join(self.agents)}")
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
        """Who meets: every P of the N agents, by their numbers, or those with the newcomer."""
        newcomer = self.names.index(self.newcomer) if self.newcomer else None
        every = combinations(range(len(self.agents)), self.players)
        return [group for group in every if newcomer is None or newcomer in group]

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
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read ({error.strerror}); it must be a YAML file") from None
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} is no YAML ({error})") from None
    return _settings(content, str(path))


def _settings(content: Any, where: str) -> Settings:
    known = [field.name for field in fields(Settings)]
    if not isinstance(content, dict):
        raise ConfigError(f"{where} must hold settings, each a line `name: value`; known are {', '.join(known)}")
    for name in content:
        if name not in known:
            raise ConfigError(f"{where} has a setting {name!r}, which does not exist; known are {', '.join(known)}")
    for name in ("agents", "openings"):
        if name not in content:
            raise ConfigError(f"{where} lacks the setting {name}")
    return Settings(**content | {"agents": _named(content["agents"])})


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


@dataclass(frozen=True)
class Chunk:
    """What came out of some openings.

    Attributes:
        number: Which chunk of openings.
        group: Which group played.
        balls: Balls of each seat at the end, uint8 [assignments, openings, P].
    """

    number: int
    group: int
    balls: Balls

    def line(self, settings: Settings) -> str:
        """Return the line of `results.jsonl`.

        Its `balls` are a text for each assignment, in the order of `Settings.assignments`: two hexadecimal digits for each
        seat, seat after seat, round after round. Its `crc` is the CRC-32 of those texts joined.
        """
        balls = [rounds.tobytes().hex() for rounds in self.balls]
        agents = [settings.names[number] for number in settings.groups[self.group]]
        found = {"chunk": self.number, "group": self.group, "agents": agents, "balls": balls}
        return json.dumps(found | {"crc": zlib.crc32("".join(balls).encode())}, separators=(",", ":"))

    @classmethod
    def from_line(cls, text: str | bytes, settings: Settings) -> Chunk:
        """Read such a line. Raises `ValueError`, `KeyError` or `TypeError` for another."""
        found = json.loads(text)
        number, group = found["chunk"], found["group"]
        if not 0 <= number < settings.chunks:
            raise ValueError(f"there is no chunk {number}")
        joined = "".join(found["balls"])
        shape = len(settings.assignments), settings.openings_in(number), settings.players
        chunk = cls(number, group, np.frombuffer(bytes.fromhex(joined), np.uint8).reshape(shape))
        if group < 0 or chunk.line(settings).encode() != (text.encode() if isinstance(text, str) else text):
            raise ValueError("it is not as it was written")
        return chunk


def play_chunk(settings: Settings, number: int, group: int) -> tuple[Chunk, str]:
    """Play a chunk and return it with its line of `timings.jsonl`.

    That line has the seconds and moves of each member of the group, and the seconds of all of it.

    Raises `AgentError` when an agent fails.
    """
    began = time.perf_counter()
    first = number * settings.openings_at_once
    members = settings.groups[group]
    assignments = settings.assignments
    count = settings.openings_in(number)
    opening_rng = np.random.default_rng([settings.seed, first])
    agent_rngs = np.random.default_rng([settings.seed, first, group + 1]).spawn(len(assignments))
    start = make_openings(count, settings.variant, settings.opening_turns, settings.starter, opening_rng)
    # Made anew, because some agents remember what they met.
    names = [settings.names[member] for member in members]
    agents = [make_agent(settings.agents[name]) for name in names]
    seconds = np.zeros(len(members))
    try:
        balls = [play_seated(agents, seats, start, rng, seconds) for seats, rng in zip(assignments, agent_rngs, strict=True)]
    except RolitError as error:
        raise AgentError(f"a round of {', '.join(names)} failed: {error}") from error
    except Exception as error:  # the code of users raises what it likes
        raise AgentError(f"a round of {', '.join(names)} failed ({type(error).__name__}: {error})") from error
    turns = range(settings.opening_turns, settings.variant.plies)
    movers = [seats[turn % settings.players] for turn in turns for seats in assignments]
    moves = [count * movers.count(member) for member in range(len(members))]
    timing = {
        "chunk": number,
        "group": group,
        "seconds": [round(took, 6) for took in seconds],
        "moves": moves,
        "all": round(time.perf_counter() - began, 6),
    }
    return Chunk(number, group, np.array(balls, np.uint8)), json.dumps(timing, separators=(",", ":"))


def play_tournament(
    settings: Settings,
    folder: Path,
    *,
    workers: int = 1,
    ray: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Play what is left of a tournament in a folder, which is made if there is none.

    Args:
        settings: What to play.
        folder: Where the results are, or will be.
        workers: Processes that play; they change no result.
        ray: Address of a Ray cluster that plays instead (`auto`: the one that this machine belongs to).
        progress: Called with rounds played and rounds in all, at first and after each chunk.

    Raises:
        AgentError, ModelFileError, VariantError: for agents that can't be made or can't play the variant.
        ResultsError: for a folder of other settings, a damaged one, or one that another process plays in.
        OutputError: for a folder that can't be written to.
    """
    for text in settings.agents.values():
        make_agent(text).check_variant(settings.variant)
    with _locked(folder):
        _check_settings(settings, folder)
        _drop_half_line(folder / RESULTS)
        _drop_half_line(folder / TIMINGS)
        places = _places(folder, settings)
        each = len(settings.assignments)
        played = sum(settings.openings_in(number) * each for number, _ in places)
        every = ((number, group) for number in range(settings.chunks) for group in range(len(settings.groups)))
        tasks = [task for task in every if task not in places]
        if progress:
            progress(played, settings.rounds)
        with (folder / RESULTS).open("ab") as results, (folder / TIMINGS).open("ab") as timings:
            for chunk, timing in _play(settings, tasks, workers, ray):
                for file, line in ((results, chunk.line(settings)), (timings, timing)):
                    file.write(line.encode() + b"\n")
                    file.flush()
                played += settings.openings_in(chunk.number) * each
                if progress:
                    progress(played, settings.rounds)
        _sort(folder, settings)


def _play(settings: Settings, tasks: Sequence[tuple[int, int]], workers: int, ray: str | None) -> Iterator[tuple[Chunk, str]]:
    """Play chunks and yield each as soon as it is there."""
    if workers == 1 and ray is None:
        for task in tasks:
            yield play_chunk(settings, *task)
        return
    from joblib import Parallel, delayed, parallel_config  # a sixth of a second that nothing else needs

    if ray is None:
        parallel = Parallel(n_jobs=workers, batch_size=1, return_as="generator_unordered")
        yield from parallel(delayed(play_chunk)(settings, *task) for task in tasks)
        return
    try:
        import ray as cluster
        from ray.util.joblib import register_ray
    except ImportError:
        raise ResultsError("playing on a Ray cluster needs Ray; install it with: pip install ray") from None
    cluster.init(address=ray, ignore_reinit_error=True, log_to_driver=False)
    register_ray()
    cores = int(cluster.cluster_resources().get("CPU", 1))
    with parallel_config("ray", n_jobs=cores):
        wave = 4 * cores  # this backend hands out nothing before all that it was given is done
        for first in range(0, len(tasks), wave):
            yield from Parallel(batch_size=1)(delayed(play_chunk)(settings, *task) for task in tasks[first : first + wave])


def load_settings(folder: Path) -> Settings:
    """Return the settings of a folder. Raises `ResultsError` for one without."""
    try:
        return _settings(_read_json(folder)["settings"], str(folder / SETTINGS))
    except (KeyError, TypeError, RolitError) as error:
        raise ResultsError(f"{folder} holds no tournament: {error}") from None


def read_chunks(folder: Path, settings: Settings) -> Iterator[Chunk]:
    """Yield the chunks of a folder in order, first all groups of the first one, and leave the folder as it is.

    Raises `ResultsError` for a line that is damaged, unless it is the last one and only half there.
    """
    places = _places(folder, settings)
    if not places:
        return
    with (folder / RESULTS).open("rb") as file:
        for key in sorted(places):
            file.seek(places[key])
            yield Chunk.from_line(file.readline().rstrip(b"\n"), settings)


def read_timings(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of `timings.jsonl`. Raises `ResultsError` for one that is damaged."""
    if (folder / TIMINGS).exists():
        with (folder / TIMINGS).open("rb") as file:
            for at, _, line in _whole_lines(file):
                try:
                    timing = json.loads(line)
                    if len(timing["seconds"]) != len(timing["moves"]) or not isinstance(timing["group"], int):
                        raise ValueError("seconds and moves don't match")
                except (ValueError, KeyError, TypeError) as error:
                    raise ResultsError(f"line {at} of {folder / TIMINGS} is damaged ({error!r}); delete the file") from None
                yield timing


def _places(folder: Path, settings: Settings) -> dict[tuple[int, int], int]:
    """Return where the line of each chunk and group begins, after a look at all of them."""
    places: dict[tuple[int, int], int] = {}
    path = folder / RESULTS
    if not path.exists():
        return places
    with path.open("rb") as file:
        for at, place, line in _whole_lines(file):
            try:
                chunk = Chunk.from_line(line, settings)
                if (chunk.number, chunk.group) in places:
                    raise ValueError("it is there twice")
            except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
                raise ResultsError(f"line {at} of {path} is damaged ({error}); take it out and it is played again") from None
            places[chunk.number, chunk.group] = place
    return places


def _whole_lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, place and content of all lines that end."""
    place = 0
    for at, line in enumerate(file, 1):
        if line.endswith(b"\n"):
            yield at, place, line[:-1]
        place += len(line)


def _drop_half_line(path: Path) -> None:
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(max((place + len(line) + 1 for _, place, line in _whole_lines(file)), default=0))


def _sort(folder: Path, settings: Settings) -> None:
    """Put the lines of finished results in order, so that the file doesn't tell who played when."""
    places = _places(folder, settings)
    if list(places) == sorted(places):
        return
    with replacing(folder / RESULTS) as draft, draft.open("wb") as out, (folder / RESULTS).open("rb") as file:
        for key in sorted(places):
            file.seek(places[key])
            out.write(file.readline())


def _read_json(folder: Path) -> Any:
    try:
        return json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(f"there is no {folder / SETTINGS}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"{folder / SETTINGS} can't be read ({error})") from None


def _check_settings(settings: Settings, folder: Path) -> None:
    """Keep the settings in a new folder; in another, refuse all but those it was begun with."""
    wanted = {"settings": asdict(settings), "files": _file_sums(settings.agents.values())}
    if not (folder / SETTINGS).exists():
        if (folder / RESULTS).exists():
            raise ResultsError(f"{folder} has results without settings; choose another folder")
        with replacing(folder / SETTINGS) as draft:
            draft.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
        return
    found = _read_json(folder)
    for part, values in wanted.items():
        kept = found.get(part) if isinstance(found, dict) else None
        kept = kept if isinstance(kept, dict) else {}
        for name in (*values, *kept):
            # As text, because the order of the agents is that of the groups.
            now, then = json.dumps(values.get(name)), json.dumps(kept.get(name))
            if now != then:
                what = f"{name}={then}, not {now}" if len(now + then) < 60 else f"another setting {name}"
                raise ResultsError(f"{folder} was begun with {what}; choose another folder, or the settings it was begun with")


def _file_sums(descriptions: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 sum of each trained file that descriptions name."""
    endings = "|".join(map(re.escape, FILES))
    paths = {Path(found) for text in descriptions for found in re.findall(rf"[^:=,]+(?:{endings})", text)}
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths) if path.is_file()}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make a folder and keep other processes from playing in it; the system opens the lock when this one dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} can't be made ({error.strerror}); allowed is a new folder, or one with results") from None
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ResultsError(f"another process plays in {folder}; wait for it, or choose another folder") from None
        yield
    finally:
        os.close(handle)
