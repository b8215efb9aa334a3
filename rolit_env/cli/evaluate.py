"""`rolit evaluate`: agents come in, a table of win shares is printed and written."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from rich import box
from rich.progress import TimeRemainingColumn
from rich.table import Table

from rolit_env.agents import Agent, make_agent
from rolit_env.arena import ArenaResult, play_rounds, seat_assignments
from rolit_env.cli.parser import (
    AGENT_HELP,
    Verbs,
    add_json,
    add_verb,
    draft_of,
    int_from,
    progress_bars,
    table_console,
    write_report,
)
from rolit_env.errors import OptionError
from rolit_env.record import Record, recording
from rolit_env.report import words
from rolit_env.variant import variant

MOST_ROUNDS = 10**8
"""Rounds that can be asked for at once; more is a slip of the finger, and would run for days."""


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "evaluate",
        run,
        "Measure an agent: play rounds against others and show how often it wins.",
        f"""{AGENT_HELP}
Every agent plays every seat equally often, because the last seat wins most.

example: rolit evaluate greedy --against random positional
         rolit evaluate positional --against greedy+random --players 4""",
    )
    verb.add_argument("agent", metavar="AGENT", help="the agent to measure")
    verb.add_argument(
        "--against",
        nargs="+",
        required=True,
        metavar="OPPONENT",
        help="one row of the table for each: an agent for all the other seats, or several joined with +, "
        "of which the last fills the seats that are left",
    )
    verb.add_argument(
        "--rounds",
        type=int_from(1, MOST_ROUNDS),
        default=2000,
        help="rounds against each opponent, made up to a whole number of openings for all seatings (default: 2000)",
    )
    verb.add_argument("--seed", type=int_from(0), default=0, help="the same seed gives the same rounds (default: 0)")
    verb.add_argument(
        "--opening-turns",
        type=int,
        default=4,
        metavar="TURNS",
        help="uniformly random turns at the start of a round (default: 4)",
    )
    verb.add_argument("--starter", default="random", help="the colour that moves first, or random (default: random)")
    verb.add_argument(
        "--record", type=Path, metavar="FILE", help="write all rounds move by move: a .jsonl as JSON, any other as text"
    )
    add_json(verb)


def run(options: argparse.Namespace) -> None:
    """Play every table, then print and write what came out."""
    chosen = variant(options.size, options.players)
    agent = make_agent(options.agent)
    tables = [[agent, *(make_agent(description) for description in text.split("+"))] for text in options.against]
    for seated in tables:  # so that a mistake in the last one shows before hours of rounds against the first
        seat_assignments(len(seated), chosen.players)
        for one in seated:
            one.check_variant(chosen)
    same = options.record and options.json and options.record.resolve() == options.json.resolve()
    if same or (options.record and options.record.suffix == ".json"):
        raise OptionError(f"many rounds don't fit {options.record}; allowed is a .jsonl or a text, and not the file of --json")
    with recording(options.record) if options.record else nullcontext() as record, draft_of(options.json) as draft:
        results = _play_tables(tables, options, record)
        write_report(draft, options, results=[result.to_dict() for result in results])
    _print_results(results, chosen.name)


def _play_tables(
    tables: Sequence[Sequence[Agent]], options: argparse.Namespace, record: Callable[[Iterable[Record]], None] | None
) -> list[ArenaResult]:
    """Return the result of each table, showing progress on stderr: bars in a terminal, else a line when a table is done."""
    results = []
    with progress_bars("rounds", TimeRemainingColumn()) as bars:
        for seated in tables:
            label = f"against {' + '.join(agent.name for agent in seated[1:])}"
            bar = bars.add_task(label, total=None)
            result = play_rounds(
                seated,
                options.rounds,
                size=options.size,
                players=options.players,
                seed=options.seed,
                opening_turns=options.opening_turns,
                starter=options.starter,
                progress=lambda played, total, bar=bar: bars.update(bar, completed=played, total=total),  # type: ignore[misc]
                record=record,
            )
            results.append(result)
            if not bars.console.is_terminal:
                bars.console.print(f"{label}: {result.rounds:,} rounds played", soft_wrap=True)
    return results


def _print_results(results: Sequence[ArenaResult], name: str) -> None:
    """Print the table: a row for each result, with the numbers of its first agent."""
    console = table_console()
    half_width = "+-" if console.options.ascii_only else "±"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("against", overflow="fold")
    for heading in ("win share", "par", "by seat", "balls", "tied", "rounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            " + ".join(result.agents[1:]),
            f"{words.share(result.win_share[0])} {half_width} {words.share(result.interval[0])}",
            words.share(result.par[0]),
            " ".join(words.share(share) for share in result.by_seat[0]),
            f"{result.balls[0]:.1f}",
            words.share(result.tied),
            f"{result.rounds:,}",
        )
    console.print(f"{results[0].agents[0]} on {name}\n", style="bold")
    console.print(table)
    console.print()
    console.print(
        f"win share {half_width} 95 % interval, leaders share a tied round; par: that of equals;\n"
        "by seat: moving first, second, ...; balls: mean at the end; tied: of all rounds",
        style="dim",
    )
