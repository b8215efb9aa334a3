"""`rolit tournament`: settings in a file come in, rounds go into a folder, and a report of them is printed and written."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path

from rich.progress import TimeRemainingColumn

from rolit_env.bench.machine import cores
from rolit_env.cli.parser import Verbs, add_verb, int_from, progress_bars, table_console
from rolit_env.report import screen, write_reports
from rolit_env.standings import make_standings
from rolit_env.tournament import Settings, play_tournament, read_config


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "tournament",
        run,
        "Let every group of agents play, all in every seat equally often, and rate them.",
        """Settings are explained in docs/tournaments.md. Rounds are kept as they are played: the same command
goes on where a killed one stopped, and the number of workers changes no result.

example: rolit tournament configs/tournament-8x8-2p.yaml --out runs/ladder""",
        board=False,
    )
    verb.add_argument("config", metavar="CONFIG", type=Path, help="YAML file with the settings")
    verb.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the rounds and the report (default: runs/CONFIG's name)"
    )
    add_workers(verb)


def add_workers(verb: argparse.ArgumentParser) -> None:
    """Add the options that say who plays."""
    verb.add_argument("--workers", type=int_from(1, 4096), help="processes that play (default: one for each core)")
    verb.add_argument("--ray", metavar="ADDRESS", help="play on a Ray cluster instead; auto is the one of this machine")


def run(options: argparse.Namespace) -> None:
    """Play what is left, then report."""
    folder = options.out or Path("runs") / options.config.stem
    play(read_config(options.config), folder, options)
    show(folder)


def play(settings: Settings, folder: Path, options: argparse.Namespace) -> None:
    """Play what is left with progress on stderr: a bar in a terminal, else a line at each tenth."""
    # Output is for the report: Ray would print there which machine died.
    with progress_bars("rounds", TimeRemainingColumn()) as bars, redirect_stdout(sys.stderr):
        bar = bars.add_task("playing", total=None)
        tenth = -1

        def progress(played: int, total: int) -> None:
            nonlocal tenth
            bars.update(bar, completed=played, total=total)
            if not bars.console.is_terminal and 10 * played // total > tenth:
                tenth = 10 * played // total
                bars.console.print(f"{played:,} of {total:,} rounds played", soft_wrap=True)

        workers = options.workers or len(cores())
        play_tournament(settings, folder, workers=workers, ray=options.ray, progress=progress)


def show(folder: Path) -> None:
    """Print the report of a folder and write its files."""
    standings = make_standings(folder)
    console = table_console()
    console.print(screen(standings, "+-" if console.options.ascii_only else "±", console.width))
    paths = write_reports(standings, folder)
    console.print(f"\nWritten: {', '.join(map(str, paths))}", style="dim", soft_wrap=True)
