"""What verbs share: their options come in, readers of them, screens, bars of progress and files of JSON come out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from rolit_env import __version__
from rolit_env.agents import AGENTS
from rolit_env.errors import OptionError
from rolit_env.files import replacing
from rolit_env.released import released_names

AGENT_HELP = fill(
    f"Agents are {', '.join(AGENTS)}; the released models {released_names()}; a file: a policy, FILE.onnx, or n-tuple tables, "
    "ntuple:FILE.safetensors; or code of your own, package.module:factory. "
    "Options follow a colon: NAME:option=value,option=value. docs/opponents.md explains them all.",
    79,
    break_on_hyphens=False,
)


class Parser(argparse.ArgumentParser):
    """Complains in one sentence, without the usage, and takes no abbreviations that a later option could make ambiguous."""

    def __init__(self, **settings: object) -> None:
        super().__init__(
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **settings,  # type: ignore[arg-type]
        )

    def error(self, message: str) -> NoReturn:
        """Raise `OptionError` for what argparse complains about."""
        raise OptionError(f"{message} (see {self.prog} --help)")


Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What `add_subparsers` returns."""


def add_verb(
    verbs: Verbs,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    summary: str,
    notes: str,
    *,
    board: bool = True,
) -> Parser:
    """Add a verb and return its parser, for its other options.

    Args:
        verbs: The verbs so far.
        name: What is typed.
        run: Does the work, from the parsed options; may return an exit code.
        summary: One sentence for the help of `rolit` and of the verb.
        notes: Lines of at most 90 characters that end the help of the verb, with an example.
        board: Whether the verb takes --size and --players as most do.
    """
    verb = verbs.add_parser(name, help=summary, description=summary, epilog=notes)
    verb.set_defaults(run=run)
    if board:
        verb.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4 (default: 8)")
        verb.add_argument("--players", type=int, default=2, help="2, 3 or 4; 4x4 is for 2 (default: 2)")
    return verb


def add_json(verb: Parser) -> None:
    """Add --json, the file that `write_report` writes."""
    verb.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the results to a file, replaced as a whole when all is done"
    )


def int_from(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a reader of ints that complains about others in a full sentence."""
    allowed = f"allowed are ints from {low} {'up' if high is None else f'to {high}'}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no int; {allowed}") from None
        if number < low or (high is not None and number > high):
            raise argparse.ArgumentTypeError(f"{number} does not fit; {allowed}")
        return number

    return read


def seconds_to(most: int) -> Callable[[str], float]:
    """Return a reader of times in seconds, more than 0."""
    allowed = f"allowed are numbers of seconds above 0, to {most}"

    def read(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number; {allowed}") from None
        if not 0 < seconds <= most:
            raise argparse.ArgumentTypeError(f"{text} does not fit; {allowed}")
        return seconds

    return read


def draft_of(path: Path | None) -> AbstractContextManager[Path | None]:
    """Return what yields a draft of a file, as `replacing` does, or None where no file is asked for."""
    return replacing(path) if path else nullcontext()


def write_report(draft: Path | None, options: argparse.Namespace, /, **results: Any) -> dict[str, Any]:
    """Return results below the version and the command that led to them, written to a draft as JSON if there is one."""
    report = {"version": __version__, "command": options.command, **results}
    if draft:
        draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report


def table_console() -> Console:
    """Return a console on stdout that is wide enough for tables."""
    console = Console(highlight=False, markup=False, emoji=False)
    # A file or a pipe has no edge to wrap at, and on a narrow screen wrapped lines are better than lost columns.
    console.width = max(console.width, 80) if console.is_terminal else 200
    return console


def progress_bars(*columns: str | ProgressColumn, auto_refresh: bool = True) -> Progress:
    """Return bars for a terminal on stderr; where it is none, lines can be printed on their console instead.

    Args:
        columns: What stands after the description, the bar and its numbers.
        auto_refresh: Whether a thread draws the bars meanwhile.
    """
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    first = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    return Progress(
        *first,
        *columns,
        console=console,
        transient=True,
        auto_refresh=auto_refresh,
        speed_estimate_period=24 * 3600,  # steps may take minutes, quick ones and slow ones in turns
        disable=not console.is_terminal,
    )
