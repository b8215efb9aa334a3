"""The folder of a tournament: chunks of rounds go in as lines, and come out again checked and in order.

It holds `settings.json`, `results.jsonl` with a line for each chunk (`Chunk.line` writes it), `timings.jsonl` with the seconds
each agent took, and `records/` with the games of each chunk where they are kept. A line that was half written when a process
was killed is dropped, and its chunk is played again; anything else that is damaged is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from rolit_env.agents import FILES
from rolit_env.errors import OutputError, ResultsError, RolitError
from rolit_env.files import replacing
from rolit_env.released import released_files
from rolit_env.tournament.settings import Settings, make_settings

if sys.platform != "win32":
    import fcntl

Balls = npt.NDArray[np.uint8]

SETTINGS, RESULTS, TIMINGS, RECORDS = "settings.json", "results.jsonl", "timings.jsonl", "records"
"""What a folder holds."""


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


def records_path(folder: Path, chunk: int, group: int) -> Path:
    """Return where the games of a chunk are kept."""
    return folder / RECORDS / f"group-{group}-chunk-{chunk}.txt"


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole, and its folder where there is none. Raises `OutputError`."""
    make_folder(path.parent)
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def make_folder(folder: Path) -> None:
    """Make a folder where there is none. Raises `OutputError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} can't be made ({error.strerror}); allowed is a new folder, or one with results") from None


def load_settings(folder: Path) -> Settings:
    """Return the settings of a folder. Raises `ResultsError` for one without."""
    try:
        return make_settings(_read_json(folder)["settings"], str(folder / SETTINGS))
    except (KeyError, TypeError):
        raise ResultsError(f"{folder} holds no tournament: {SETTINGS} is not as it was written") from None
    except RolitError as error:
        raise ResultsError(f"{folder} holds no tournament: {error}") from None


def read_chunks(folder: Path, settings: Settings) -> Iterator[Chunk]:
    """Yield the chunks of a folder in order, first all groups of the first one, and leave the folder as it is.

    Raises `ResultsError` for a line that is damaged, unless it is the last one and only half there.
    """
    with open_results(folder) as file:
        yield from chunks_at(file, settings, find_lines(file, settings))


@contextmanager
def open_results(folder: Path) -> Iterator[BinaryIO]:
    """Yield the results, if there are any.

    In what was opened lines stay where they are, also when the tournament ends meanwhile and a file with its lines in order
    takes the name.
    """
    try:
        file: BinaryIO = (folder / RESULTS).open("rb")
    except FileNotFoundError:
        file = BytesIO()
    with file:
        yield file


def find_lines(file: BinaryIO, settings: Settings) -> dict[tuple[int, int], int]:
    """Return where the line of each chunk and group begins, after a look at all of them. Raises as `read_chunks` does."""
    places: dict[tuple[int, int], int] = {}
    for at, place, line in _whole_lines(file):
        try:
            chunk = Chunk.from_line(line, settings)
            if (chunk.number, chunk.group) in places:
                raise ValueError("it is there twice")
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise ResultsError(f"line {at} of {file.name} is damaged ({error}); take it out and it is played again") from None
        places[chunk.number, chunk.group] = place
    return places


def chunks_at(file: BinaryIO, settings: Settings, places: Mapping[tuple[int, int], int]) -> Iterator[Chunk]:
    """Yield in order the chunks whose lines begin where `find_lines` said. Raises `ResultsError` where that has changed."""
    for key in sorted(places):
        file.seek(places[key])
        try:
            yield Chunk.from_line(file.readline().rstrip(b"\n"), settings)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ResultsError(f"{file.name} was changed while it was read ({error}); try again") from None


def read_timings(folder: Path, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the lines of `timings.jsonl`. Raises `ResultsError` for one that is damaged."""
    if (folder / TIMINGS).exists():
        with (folder / TIMINGS).open("rb") as file:
            for at, _, line in _whole_lines(file):
                try:
                    timing = json.loads(line)
                    chunk, group, seconds, moves = (timing[key] for key in ("chunk", "group", "seconds", "moves"))
                    if not 0 <= chunk < settings.chunks or not 0 <= group < len(settings.groups):
                        raise ValueError(f"there is no chunk {chunk} of group {group}")
                    if not len(seconds) == len(moves) == settings.players or min(*seconds, *moves, timing["all"]) < 0:
                        raise ValueError("seconds and moves don't fit the group")
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise ResultsError(f"line {at} of {folder / TIMINGS} is damaged ({error!r}); delete the file") from None
                yield timing


def _whole_lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, place and content of all lines that end; behind one that does not, what is being written may appear."""
    place = 0
    for at, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            return
        yield at, place, line[:-1]
        place += len(line)


def drop_half_line(path: Path) -> None:
    """Cut off a last line that does not end."""
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(max((place + len(line) + 1 for _, place, line in _whole_lines(file)), default=0))


def sort_lines(folder: Path, settings: Settings) -> None:
    """Put the lines of finished results in order, so that the file doesn't tell who played when."""
    with open_results(folder) as file:
        places = find_lines(file, settings)
    if list(places) == sorted(places):
        return
    with replacing(folder / RESULTS) as draft, draft.open("wb") as out, open_results(folder) as file:
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


def check_settings(settings: Settings, folder: Path) -> None:
    """Keep the settings in a new folder; in another, refuse all but those it was begun with."""
    wanted: dict[str, dict[str, Any]] = {"settings": asdict(settings), "files": _file_sums(settings.agents.values())}
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
        if part == "settings":  # that came later are at their defaults in folders from before
            kept = {one.name: one.default for one in fields(Settings) if one.default is not MISSING} | {"anchors": {}} | kept
        for name in (*values, *kept):
            # As text, because the order of the agents is that of the groups.
            now, then = json.dumps(values.get(name)), json.dumps(kept.get(name))
            if now != then:
                what = f"{name}={then}, not {now}" if len(now + then) < 60 else f"another setting {name}"
                raise ResultsError(f"{folder} was begun with {what}; choose another folder, or the settings it was begun with")


def _file_sums(descriptions: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 sum of each trained file that descriptions name, by its path or as a released model."""
    released = released_files()
    parts = {part for text in descriptions for part in re.split("[:=,]", text)}
    paths = {str(Path(part)): Path(part) for part in parts if part.endswith(tuple(FILES))}
    paths |= {part: released[part] for part in parts & released.keys()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(paths.items()) if path.is_file()}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder and keep other processes from playing in it; the system opens the lock when this one dies."""
    make_folder(folder)
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
