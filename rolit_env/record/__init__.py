"""Records of rounds and matches: what was played comes in, files that any program can write go out, and back, verified.

A file whose name ends in `.json` or `.jsonl` holds JSON, any other the text form; `docs/records.md` explains both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rolit_env.errors import OptionError, RecordError
from rolit_env.files import replacing
from rolit_env.record.json_form import format_json, from_dict, parse_json, to_dict
from rolit_env.record.model import MatchRecord, Record, RoundRecord, check_names, check_seed
from rolit_env.record.recorder import Recorder
from rolit_env.record.text_form import format_text, parse_text

__all__ = [
    "MatchRecord",
    "Record",
    "Recorder",
    "RoundRecord",
    "check_names",
    "check_seed",
    "format_json",
    "format_record",
    "format_text",
    "from_dict",
    "parse_json",
    "parse_records",
    "parse_text",
    "read_records",
    "recording",
    "to_dict",
    "write_records",
]


def parse_records(text: str) -> list[Record]:
    """Return the records of a text in either form, at least one, all verified. Raises `RecordError` for anything else."""
    return parse_json(text) if text.lstrip()[:1] in ("{", "[") else parse_text(text)


def read_records(path: Path | str) -> list[Record]:
    """Return the records of a file in either form, whatever its name, all verified move by move.

    Raises:
        RecordError: for what is no file of records; the sentence says where, and names the turn where there is one.
        OSError: when the file can't be read.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: byte {error.start + 1} is no UTF-8 text") from None
    try:
        return parse_records(text)
    except RecordError as error:
        raise RecordError(f"{path}: {error}", error.turn) from None


def format_record(record: Record, path: Path) -> str:
    """Return a record in the form that a file's name asks for."""
    return format_json(record) if path.suffix in (".json", ".jsonl") else format_text(record)


def write_records(path: Path | str, records: Iterable[Record]) -> None:
    """Write records to a file, which is replaced as a whole.

    Raises:
        OutputError: when the file can't be written to.
        OptionError: for none, or several in a `.json`; `.jsonl` and text take any number.
    """
    path, given = Path(path), list(records)
    if not given or (path.suffix == ".json" and len(given) > 1):
        raise OptionError(f"{len(given)} records don't fit {path}; allowed is one, or more in a .jsonl or a text")
    with recording(path) as write:
        write(given)


@contextmanager
def recording(path: Path) -> Iterator[Callable[[Iterable[Record]], None]]:
    """Yield a function that writes records to a file as they come; the file appears when the block ends well.

    Any number fit a `.jsonl` and text. Raises `OutputError` when the file can't be written to.
    """
    separator = "" if path.suffix in (".json", ".jsonl") else "\n"
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        written = 0

        def write(records: Iterable[Record]) -> None:
            nonlocal written
            for record in records:
                file.write((separator if written else "") + format_record(record, path))
                written += 1

        yield write
