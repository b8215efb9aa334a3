"""`rolit match`: agents come in, a match is played, its rounds and who won are printed and written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from rolit_env.cli.parser import (
    AGENT_HELP,
    Verbs,
    add_json,
    add_verb,
    draft_of,
    int_from,
    seconds_to,
    table_console,
    write_report,
)
from rolit_env.errors import OptionError
from rolit_env.match import MOST_SECONDS, Match
from rolit_env.record import MatchRecord, RoundRecord, format_record

MOST_ROUNDS = 10_000
"""Rounds of a match; whoever wants to know more exactly wants `rolit evaluate`."""


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "match",
        run,
        "Play a match: rounds with changing seats, of which the most win.",
        f"""{AGENT_HELP}
Name one agent for each player; the same one may be named twice. Each round a ball is
rolled for the colour that starts, and the agents change seats. Most rounds won wins the
match, then most balls; several leaders of a round are credited with it. With --seconds
a turn that takes longer is played at random. Ctrl-C keeps the rounds that are over.
A few rounds say little about strength: measure with rolit evaluate.

example: rolit match alphabeta:depth=4 mcts:simulations=200 --rounds 4 --record match.txt""",
        board=False,
    )
    verb.add_argument("agents", metavar="AGENT", nargs="+", help="the agents, one for each player")
    verb.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4 (default: 8)")
    verb.add_argument(
        "--rounds",
        type=int_from(1, MOST_ROUNDS),
        help="rounds to play; a multiple of the players gives all equal chances (default: as many as players)",
    )
    verb.add_argument("--seconds", type=seconds_to(MOST_SECONDS), help="time allowed a turn (default: no limit)")
    verb.add_argument("--seed", type=int_from(0), default=0, help="the same seed gives the same rounds (default: 0)")
    verb.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write all moves to a file, replaced as a whole, for rolit replay; JSON if it ends in .json or .jsonl, else text",
    )
    add_json(verb)


def run(options: argparse.Namespace) -> None:
    """Play, printing a line for each round, then print and write what came out."""
    if options.record and options.json and options.record.resolve() == options.json.resolve():
        raise OptionError(f"--record and --json both name {options.record}; allowed are two files")
    match = Match(options.agents, size=options.size, rounds=options.rounds, seconds=options.seconds, seed=options.seed)
    console = table_console()
    interrupted = None
    with draft_of(options.record) as record_draft, draft_of(options.json) as draft:

        def after_round(match: Match) -> None:
            number = len(match.rounds)
            agents = [agent.name for agent in match.agents]
            console.print(round_line(number, match.rounds[-1], match.seats(number - 1), agents), soft_wrap=True)

        try:
            match.play(after_round)
        except KeyboardInterrupt as error:
            if not match.rounds:
                raise
            interrupted = error
        record = match.record
        if record_draft:
            record_draft.write_text(format_record(record, options.record), encoding="utf-8", newline="\n")
        write_report(draft, options, **_results(record))
    console.print()
    print_standing(record, console)
    if interrupted:
        raise interrupted


def round_line(number: int, played: RoundRecord, seats: Sequence[int], agents: Sequence[str]) -> str:
    """Return what came out of a round of a match, in words: the agents in turn order, with their balls."""
    names = _labels(agents)
    shown = (f"{names[agent]} ({color}) {played.counts[color]}" for agent, color in zip(seats, played.order, strict=True))
    return f"Round {number}: {', '.join(shown)}"


def print_standing(record: MatchRecord, console: Console) -> None:
    """Print what each agent has, and who leads or has won."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("agent", overflow="fold")
    for heading in ("rounds won", "balls", "out of time", "mean time", "longest"):
        table.add_column(heading, justify="right", no_wrap=True)
    names = _labels(record.agents)
    for agent, name in enumerate(names):
        times, late = _turns(record, agent)
        mean, longest = (f"{sum(times) / len(times):.3f} s", f"{max(times):.3f} s") if times else ("-", "-")
        table.add_row(name, str(record.won[agent]), str(record.points[agent]), str(late), mean, longest)
    console.print(table)
    console.print()
    console.print(_verdict(record, names), style="bold", soft_wrap=True)


def _verdict(record: MatchRecord, names: Sequence[str]) -> str:
    winners = [names[agent] for agent in record.winners]
    rounds = f"{len(record.rounds)} {'round' if len(record.rounds) == 1 else 'rounds'}"
    if not record.is_finished:
        return f"{' and '.join(winners)} {'leads' if len(winners) == 1 else 'lead'} after {rounds} of {record.planned}."
    if len(winners) > 1:
        return f"The match is drawn between {' and '.join(winners)}: as many rounds won and as many balls."
    tied = record.won.count(max(record.won)) > 1
    return f"{winners[0]} wins the match of {rounds}{', by the balls' if tied else ''}."


def _turns(record: MatchRecord, agent: int) -> tuple[list[float], int]:
    """Return the seconds of an agent's turns, as far as they are known, and how many ran out of time."""
    times: list[float] = []
    late = 0
    for played, seats in zip(record.rounds, record.seats, strict=True):
        turns = range(seats.index(agent), len(played.moves), played.players)
        times += [played.seconds[turn] for turn in turns] if played.seconds else []
        late += sum(turn + 1 in played.timeouts for turn in turns)
    return times, late


def _results(record: MatchRecord) -> dict[str, object]:
    """Return what is written as JSON; agents are numbered from 1, as in records."""
    return {
        "variant": record.rounds[0].variant.name,
        "agents": record.agents,
        "seed": record.seed,
        "limit": record.rounds[0].limit,
        "planned": record.planned,
        "won": record.won,
        "points": record.points,
        "winners": [agent + 1 for agent in record.winners],
        "timeouts": [_turns(record, agent)[1] for agent in range(len(record.agents))],
        "rounds": [
            {"starter": played.starter, "seats": [agent + 1 for agent in seats], "balls": balls}
            for played, seats, balls in zip(record.rounds, record.seats, record.balls, strict=True)
        ],
    }


def _labels(agents: Sequence[str]) -> list[str]:
    """Return the agents' names, with their numbers where one stands there twice."""
    return [f"{name} #{number}" if agents.count(name) > 1 else name for number, name in enumerate(agents, start=1)]
