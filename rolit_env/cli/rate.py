"""`rolit rate`: an agent comes in, where it stands among agents of known rating is printed and written."""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import nullcontext
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from rolit_env.anchors import OPENINGS, rate_anchors, rating_settings
from rolit_env.cli.parser import AGENT_HELP, Verbs, add_json, add_verb, draft_of, int_from, table_console, write_report
from rolit_env.cli.tournament import add_workers, play
from rolit_env.errors import OptionError
from rolit_env.report import words, write_reports
from rolit_env.standings import Standings, make_standings
from rolit_env.tournament.settings import MOST_OPENINGS
from rolit_env.variant import variant


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "rate",
        run,
        "Say where an agent stands: play it against agents of known rating.",
        f"""{AGENT_HELP}
It plays all groups of anchors, every seat equally often. docs/tournaments.md says what a
rating means.

example: rolit rate models/8x8-2p.onnx
         rolit rate my_agents:Careful:depth=3 --players 4
         rolit rate --make anchors.json""",
    )
    verb.add_argument("agent", metavar="AGENT", nargs="?", help="the agent to rate")
    usual = ", ".join(f"{openings} for {players}" for players, openings in OPENINGS.items())
    verb.add_argument(
        "--openings",
        type=int_from(1, MOST_OPENINGS),
        help=f"openings that each group plays in all seatings (default: {usual} players; with --make five times as many)",
    )
    verb.add_argument("--seed", type=int_from(0), default=0, help="the same seed gives the same rounds (default: 0)")
    verb.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="keep the rounds in a folder, to go on from (default with --make: runs/anchors)",
    )
    add_workers(verb)
    add_json(verb)
    verb.add_argument("--make", type=Path, metavar="FILE", help="rate nobody: rate the anchors of all variants anew")


def run(options: argparse.Namespace) -> None:
    """Rate an agent, or the anchors."""
    if (options.agent is None) == (options.make is None):
        raise OptionError("rate takes either an AGENT to rate or --make FILE (see rolit rate --help)")
    if options.make:
        if options.json:
            raise OptionError("--make FILE writes the ratings themselves; leave out --json")
        openings = {players: options.openings or 5 * usual for players, usual in OPENINGS.items()}
        with draft_of(options.make) as draft:
            found = rate_anchors(
                openings, options.seed, lambda settings, at: play(settings, at, options), options.out or Path("runs/anchors")
            )
            if draft:
                draft.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    chosen = variant(options.size, options.players)
    settings = rating_settings(options.agent, chosen, options.openings, options.seed)
    with draft_of(options.json) as draft, nullcontext(options.out) if options.out else tempfile.TemporaryDirectory() as folder:
        play(settings, Path(folder), options)
        standings = make_standings(Path(folder))
        write_report(draft, options, result=standings.to_dict())
        if options.out:
            write_reports(standings, options.out)
    _print_place(standings, options.agent)


def _print_place(standings: Standings, agent: str) -> None:
    """Print a table of the anchors with the agent in its place, and what the agent costs."""
    console = table_console()
    sign = "+-" if console.options.ascii_only else "±"
    names = standings.settings.names
    at = names.index(agent)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("agent", overflow="fold")
    for heading in ("rating", "95 %", "ahead of it", "ms a move"):
        table.add_column(heading, justify="right", no_wrap=True)
    for other in standings.order:
        ahead = f"{words.share(standings.ahead[at, other])} {words.half_width(standings.ahead_interval[at, other], sign)}"
        table.add_row(
            Text(names[other]),
            words.rating(standings, other),
            words.interval(standings, other),
            "" if other == at else ahead,
            words.milliseconds(standings.milliseconds[other]),
            style="bold" if other == at else "",
        )
    console.print(Text(f"{agent} on {standings.settings.variant.name}\n"), style="bold")
    console.print(table)
    console.print()
    par = words.share(1 / standings.settings.players)
    share = f"{words.share(standings.win_share[at])} {words.half_width(standings.interval[at], sign)}".strip()
    console.print(
        f"{standings.rounds:,} rounds, win share {share} (par {par}); by seat "
        f"{' '.join(words.share(one) for one in standings.by_seat[at])}\n"
        "rating: 400 points are ten times the chance to be first, random has 0;\n"
        "ahead of it: how often the agent has more balls, ties half",
        style="dim",
        soft_wrap=True,
    )
