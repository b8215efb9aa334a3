"""`rolit exam`: an agent comes in, a table of how often it keeps known values is printed and written."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich import box
from rich.progress import TimeRemainingColumn
from rich.table import Table

from rolit_env.agents import make_agent
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
from rolit_env.errors import OptionError, VariantError
from rolit_env.exam import ExamResult, Score, make_endgames, take_exam

MOST_ENDGAMES = 10**6
"""Endgames that can be made at once; more is a slip of the finger, and would run for days."""


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "exam",
        run,
        "Hold an agent's moves against positions whose exact value is known.",
        f"""{AGENT_HELP}
On 4x4 it is asked in every position that can be reached, on 6x6 and 8x8 in a stored
sample of endgames with 10 to 14 empty cells. All with two players.

example: rolit exam positional --size 4
         rolit exam --make endgames.npz --size 8 --positions 2500 --seed 0""",
    )
    verb.add_argument("agent", metavar="AGENT", nargs="?", help="the agent to examine")
    verb.add_argument("--starter", default="red", help="the colour that moves first; it matters on 4x4 (default: red)")
    verb.add_argument("--seed", type=int_from(0), default=0, help="the same seed gives the same chance (default: 0)")
    add_json(verb)
    verb.add_argument(
        "--make",
        type=Path,
        metavar="FILE",
        help="examine nobody: make a sample of endgames as the package has it, and solve it",
    )
    verb.add_argument(
        "--positions", type=int_from(1, MOST_ENDGAMES), default=2500, help="endgames in a sample that is made (default: 2500)"
    )


def run(options: argparse.Namespace) -> None:
    """Examine an agent, or make the endgames to examine with."""
    if (options.agent is None) == (options.make is None):
        raise OptionError("exam takes either an AGENT to examine or --make FILE (see rolit exam --help)")
    with draft_of(options.make or options.json) as draft, progress_bars("positions", TimeRemainingColumn()) as bars:
        bar = bars.add_task("solving" if options.make else "asking", total=None)

        def progress(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total)

        if options.make and draft:
            if options.players != 2:
                raise VariantError(f"players={options.players} have no endgames; exact values are known for two players")
            make_endgames(options.size, options.positions, options.seed, progress).save(draft)
            return
        board = {"size": options.size, "players": options.players, "starter": options.starter}
        result = take_exam(make_agent(options.agent), **board, seed=options.seed, progress=progress)
        write_report(draft, options, result=result.to_dict())
    _print_exam(result)


def _print_exam(result: ExamResult) -> None:
    """Print the table: a row for all positions, one for those under the agent's own play, one for each number of empties."""
    console = table_console()
    half_width = "+-" if console.options.ascii_only else "±"

    def percent(share: float, interval: float | None) -> str:
        # 100 % is said of nothing less, and one position of many thousands shows.
        digits = 2 if result.complete else 1
        text = "100" if share == 1 else f"{min(100 * share, 100 - 0.1**digits):.{digits}f}"
        return f"{text} %" if interval is None else f"{text} {half_width} {100 * interval:.1f} %"

    def row(name: str, one: Score) -> None:
        table.add_row(
            name,
            percent(one.kept, one.kept_interval),
            percent(one.par, None),
            percent(one.outcome_kept, one.outcome_interval),
            f"{one.lost:.2f}" if one.lost_interval is None else f"{one.lost:.2f} {half_width} {one.lost_interval:.2f}",
            f"{one.positions:,}",
        )

    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("positions", no_wrap=True)
    for heading in ("value kept", "par", "outcome kept", "balls lost", "number"):
        table.add_column(heading, justify="right", no_wrap=True)
    row("all", result.overall)
    if result.own_play:
        row("own play", result.own_play)
    for empties, one in result.by_empties.items():
        row(f"{empties} empty", one)
    which = f"{result.starter} first, all positions" if result.complete else "stored endgames"
    console.print(f"{result.agent} on {result.size}x{result.size} with two players, {which}\n", style="bold")
    console.print(table)
    console.print()
    notes = ["value kept: no move would have won a ball more; par: that of random moves;"]
    notes += ["outcome kept: win, draw or loss; balls lost: mean difference to the best move"]
    if result.own_play:
        notes += ["own play: what it meets in one seat, whatever the other player does"]
    else:
        notes += [f"{half_width} 95 % interval"]
    console.print("\n".join(notes), style="dim")
