"""What the training commands share: arguments come in, a run that is new or goes on comes out, and in the end an exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from rolit_env.errors import ConfigError, OutputError, RolitError
from training.config import RunConfig


def run_command(program: str, body: Callable[[], int]) -> int:
    """Run `body` and return its exit code, 2 after one line on stderr about what was wrong, or 130 after Ctrl-C."""
    try:
        return body()
    except MemoryError:
        print(f"{program}: there is not enough memory for this; ask for fewer games", file=sys.stderr)
        return 2
    except UnicodeDecodeError as error:
        print(f"{program}: a file that was given is no text in UTF-8 ({error})", file=sys.stderr)
        return 2
    except (RolitError, ArgumentError, OSError) as error:
        print(f"{program}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Within, the first Ctrl-C (or SIGTERM) ends training after the current iteration, and a second one breaks off."""
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def remember(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        restore()

    for number in before:
        signal.signal(number, remember)
    try:
        yield lambda: bool(caught)
    finally:
        restore()


def make_folder(run: Path, file_name: str) -> None:
    """Make the folder of a new run. Raises `OutputError` when that fails, or when it holds a run's file already."""
    if (run / file_name).exists():
        raise OutputError(f"{run} holds a run already; go on with --resume {run}, or choose another folder with --run")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {run} can't be made ({error.strerror})") from None


@dataclass(frozen=True)
class RunCommand:
    """The command line of a kind of run: a new one with its settings, or `--resume` with a new budget.

    Attributes:
        program: What is typed to start it.
        description: What it does, in a sentence or two.
        example: A file of settings.
        config: The class of its settings.
        folder: The folder of a run that is given none; `{name}` is the variant's name.
        start: Makes the run's folder and a fresh run.
        load: Brings a run back from its folder, with another budget (`minutes`, `turns`) if wanted.
    """

    program: str
    description: str
    example: str
    config: type[RunConfig]
    folder: str
    start: Callable[[Any, Path], Any]
    load: Callable[..., Any]

    def parser(self) -> ArgumentParser:
        """Return the parser of a new run's command line."""
        new_run = ArgumentParser(prog=self.program, description=self.description, exit_on_error=False, allow_abbrev=False)
        new_run.add_argument("--config", action="config", help=f"YAML file with settings, such as {self.example}")
        default = self.folder.format(name="VARIANT")
        new_run.add_argument("--run", type=str | None, help=f"folder for checkpoint and logs (default: {default})")
        new_run.add_argument(
            "--resume", type=str | None, help="folder of a run to go on with; only --minutes and --turns go with it"
        )
        new_run.add_class_arguments(self.config)
        return new_run

    def resume_parser(self) -> ArgumentParser:
        """Return the parser of a command line that goes on with a run."""
        resumed = ArgumentParser(prog=self.program, exit_on_error=False, allow_abbrev=False)
        resumed.add_argument("--resume", type=str, required=True, help="folder of a run to go on with")
        resumed.add_argument("--minutes", type=float | None, help="new budget in minutes, what is done included")
        resumed.add_argument("--turns", type=int | None, help="new budget in turns, what is done included")
        return resumed

    def prepare(self, argv: list[str]) -> tuple[Any, Path]:
        """Turn the command line into a run and its folder. Raises the errors that `run_command` explains."""
        if any(argument.split("=")[0] == "--resume" for argument in argv):
            try:
                options = self.resume_parser().parse_args(argv)
            except ArgumentError as error:
                raise ConfigError(f"{error}; with --resume RUN only --minutes and --turns may be given") from None
            # The budget that is given replaces the other one.
            budget: dict[str, float] = {"turns": 0, "minutes": options.minutes} if options.minutes else {}
            budget = {"turns": options.turns} if options.turns else budget
            return self.load(Path(options.resume), **budget), Path(options.resume)
        config, path = self.settings(argv)
        return self.start(config, path), path

    def settings(self, argv: list[str]) -> tuple[RunConfig, Path]:
        """Return the settings and the folder of a new run from its command line. Raises as `prepare` does."""
        settings = self.parser().parse_args(argv).as_dict()
        run, resume, _ = (settings.pop(name) for name in ("run", "resume", "config"))
        if resume:
            raise ConfigError(
                "a run is resumed by the option --resume, written in full; only --minutes and --turns go with it"
            )
        config = self.config.from_dict(settings)
        return config, Path(run or self.folder.format(name=config.variant.name))
