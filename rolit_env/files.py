"""Files that appear whole or not at all: a path comes in, a draft beside it goes out and takes its place at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolit_env.errors import OutputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of an empty draft that takes the place of `path` when the block ends well; else what was there stays.

    The draft has the same ending and lies in the same folder; links are followed.

    Raises:
        OutputError: at once when the path can't be written to, at the end when the draft can't take its place.
    """
    try:
        target = path.resolve()
        if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
            raise OutputError(f"{path} can't be written to; it must be a file that may be replaced, or a new one")
        draft = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
        draft.touch()  # one of a process that was killed may lie there: in a container the next one has the same number
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError
        raise OutputError(f"{path} can't be written to; its folder must exist and take new files") from None
    try:
        yield draft
        try:
            draft.replace(target)
        except OSError as error:
            raise OutputError(f"{path} can't be written to ({error.strerror})") from None
    finally:
        draft.unlink(missing_ok=True)


def fill_in(path: Path, start: str, end: str, text: str) -> None:
    """Put a text, a table for instance, in the place of what stands between two marks of a file of text.

    Raises `OutputError` when a mark is missing, as `replacing` does, and leaves the file as it was.
    """
    before, first, rest = path.read_text(encoding="utf-8").partition(start)
    _, last, after = rest.partition(end)
    if not last:
        raise OutputError(f"{path} must have the marks {start.strip()} and {end.strip()}, to be filled in between")
    with replacing(path) as draft:
        draft.write_text(f"{before}{first}\n{text.strip()}\n\n{last}{after}", encoding="utf-8")
