"""`rolit bench`: names of layers and peers come in, a table of their speeds is printed and written."""

from __future__ import annotations

import argparse
from textwrap import fill

from rolit_env.bench.measure import GAMES
from rolit_env.bench.report import screen
from rolit_env.bench.run import NAMES, run_bench
from rolit_env.cli.parser import (
    Verbs,
    add_json,
    add_verb,
    draft_of,
    int_from,
    progress_bars,
    seconds_to,
    table_console,
    write_report,
)
from rolit_env.errors import BenchError


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "bench",
        run,
        "Measure turns a second, side by side with the other libraries that are installed.",
        f"""{fill(f"Layers and peers are {', '.join(NAMES)}.", 79, break_on_hyphens=False)}
Each is timed in a process of its own, and they take turns. One turn is one move of
one game. All play is legal and random; docs/speed.md says what is timed.

example: rolit bench --only step rust-reversi
         rolit bench --json speed.json""",
        board=False,
    )
    verb.add_argument("--only", nargs="+", action="extend", metavar="LAYER", help="measure only these (default: everything)")
    verb.add_argument("--no-peers", dest="peers", action="store_false", help="measure no other libraries")
    verb.add_argument("--repeats", type=int_from(1), default=7, help="timings of each (default: 7)")
    verb.add_argument("--seconds", type=seconds_to(60), default=0.4, help="shortest time of one timing (default: 0.4)")
    verb.add_argument(
        "--games",
        type=int_from(1),
        nargs="+",
        default=GAMES,
        help="games side by side; step and random are measured at each of these numbers, threads at the last, "
        f"others at the first (default: {' '.join(map(str, GAMES))})",
    )
    verb.add_argument("--threads", type=int_from(1), help="cores for what uses several (default: all that may be used here)")
    add_json(verb)


def run(options: argparse.Namespace) -> None:
    """Time everything that is asked for, then print and write what came out."""
    # Drawn only between timings, which a thread that draws meanwhile would disturb.
    with draft_of(options.json) as draft, progress_bars("timings", auto_refresh=False) as bars:
        bar = bars.add_task("", total=None)
        said = ""

        def progress(what: str, name: str, done: int, total: int) -> None:
            nonlocal said
            bars.update(bar, description=f"{what}: {name}", completed=done, total=total, refresh=True)
            if not bars.console.is_terminal and what != said:
                said = what
                bars.console.print(f"{what} ({done} of {total} timings done)", soft_wrap=True)

        found = run_bench(
            options.only,
            games=options.games,
            repeats=options.repeats,
            seconds=options.seconds,
            threads=options.threads,
            peers=options.peers,
            progress=progress,
        )
        report = write_report(draft, options, **found)
    table_console().print(screen(report))
    failed = [row["name"] for row in report["rows"] if "error" in row]
    if failed:
        raise BenchError(f"what failed: {', '.join(failed)}; the other figures hold")
