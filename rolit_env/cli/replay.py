"""`rolit replay`: a file of records comes in, is verified, and its rounds are shown turn by turn."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from rolit_env.cli.match import print_standing, round_line
from rolit_env.cli.parser import Verbs, add_verb, int_from, table_console
from rolit_env.errors import OptionError, RecordError
from rolit_env.notation import parse_cell
from rolit_env.play import describe_move, show_position, verdict
from rolit_env.record import MatchRecord, Record, RoundRecord, read_records

HELP = """\
  Enter  the next turn        b  the turn before
  13     turn 13, 0 the start  e  the last turn
  ?      show this help        q  leave"""


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "replay",
        run,
        "Check a record move by move and step through a round, forward and back.",
        f"""While stepping, type
{HELP}
A file may hold several rounds, and matches; all are checked, and one is shown. Where
output goes into a file or a pipe and nobody is asked for commands, all turns are shown.
docs/records.md explains the files.

example: rolit replay match.txt --round 2 --at 30""",
        board=False,
    )
    verb.add_argument("file", metavar="FILE", type=Path, help="a record, as text or JSON")
    verb.add_argument("--round", type=int_from(1), metavar="N", help="the round to show (default: 1)")
    shown = verb.add_mutually_exclusive_group()
    shown.add_argument("--at", type=int_from(0), metavar="TURN", help="show the board after a turn, 0 for the start, and end")
    shown.add_argument("--all", action="store_true", help="show every turn and end")


def run(options: argparse.Namespace) -> None:
    """Read, which verifies, say what the file holds, and show what the options ask for."""
    try:
        records = read_records(options.file)
    except OSError as error:
        raise RecordError(f"{options.file} can't be read ({error.strerror}); it must be a file of records") from None
    rounds = [played for record in records for played in (record.rounds if isinstance(record, MatchRecord) else [record])]
    number = options.round or 1
    if number > len(rounds):
        raise OptionError(f"there is no round {number}; {options.file} has {_several(len(rounds), 'round')}")
    played = rounds[number - 1]
    turns = len(played.moves)
    if (options.at or 0) > turns:
        raise OptionError(f"there is no turn {options.at}; round {number} has {_several(turns, 'turn')}")
    _print_contents(records, options.file)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"\n{_title(played, number, len(rounds))}", soft_wrap=True)
    if options.at is not None:
        _show(played, options.at, console)
    elif options.all or sys.stdin is None or (sys.stdin.isatty() and not sys.stdout.isatty()):
        for turn in range(turns + 1):
            _show(played, turn, console)
    else:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="backslashreplace")  # a stray byte is a wrong command, no reason to crash
        step_through(played, console)


def step_through(played: RoundRecord, console: Console, read: Callable[[str], str] = input) -> None:
    """Show a round from its start, going where the person's commands say, until the person leaves.

    Args:
        played: The round, verified.
        console: Where screens go.
        read: Shows a prompt and returns a typed line; raises EOFError when there are no more.
    """
    turn, last = 0, len(played.moves)
    _show(played, turn, console)
    while True:
        try:
            typed = read(f"Turn {turn} of {last} (Enter, b, number, e, ?, q): ").strip().lower()
        except EOFError:
            console.print()
            return
        if typed == "q":
            return
        if typed == "?":
            console.print(HELP)
            continue
        if typed == "":
            wanted, complaint = turn + 1, "This is the end; b goes back and q leaves."
        elif typed == "b":
            wanted, complaint = turn - 1, "This is the start; Enter goes on and q leaves."
        elif typed == "e":
            wanted, complaint = last, ""
        else:
            complaint = f"{typed[:20]!r} is no turn from 0 to {last} and no command; ? shows them."
            wanted = int(typed) if typed.isascii() and typed.isdecimal() and len(typed) < 9 else -1
        if 0 <= wanted <= last:
            turn = wanted
            _show(played, turn, console)
        else:
            console.print(complaint)


def _show(played: RoundRecord, turn: int, console: Console) -> None:
    """Print the board after a turn, from 1, below what was done in it; the start is turn 0."""
    board, fresh = played.board(max(turn - 1, 0)), []
    console.print()
    if turn:
        move = parse_cell(played.moves[turn - 1], board.size)
        console.print(f"Turn {turn}{_circumstances(played, turn)}:", soft_wrap=True)
        console.print(describe_move(board, move, played.agents[board.color_to_move]), soft_wrap=True)
        board.push(move)
        fresh = [move]
    show_position(board, played.agents, fresh, console)
    if board.is_over:
        console.print(verdict(board), style="bold")
    elif turn == len(played.moves):
        console.print("The record ends here: the round was left before its end.")


def _circumstances(played: RoundRecord, turn: int) -> str:
    """Return what the record says of a turn, in words for behind its number."""
    said = []
    if turn <= played.opening_turns:
        said.append("of the opening, drawn at random")
    if turn in played.timeouts:
        said.append("out of time, drawn at random")
    if played.seconds is not None:
        said.append(f"{played.seconds[turn - 1]:.3f} s")
    return f" ({', '.join(said)})" if said else ""


def _print_contents(records: list[Record], file: Path) -> None:
    """Say what a file holds, with the standing of each match."""
    matches = [record for record in records if isinstance(record, MatchRecord)]
    rounds = len(records) - len(matches)
    held = [_several(rounds, "round")] if rounds else []
    held += [_several(len(matches), "match")] if matches else []
    print(f"{file}: {' and '.join(held)}, all moves and counts verified")
    console = table_console()
    for record in matches:
        console.print()
        for number, (played, seats) in enumerate(zip(record.rounds, record.seats, strict=True), start=1):
            console.print(round_line(number, played, seats, record.agents), soft_wrap=True)
        console.print()
        print_standing(record, console)


def _title(played: RoundRecord, number: int, rounds: int) -> str:
    agents = ", ".join(f"{played.agents[color]} ({color})" for color in played.order)
    where = f"Round {number} of {rounds}" if rounds > 1 else "Round"
    turns = "" if played.is_finished else f", {_several(len(played.moves), 'turn')} of {played.variant.plies}"
    return f"{where} on {played.size}x{played.size}{turns}, in turn order: {agents}"


def _several(number: int, thing: str) -> str:
    plural = "matches" if thing == "match" else f"{thing}s"
    return f"{number} {thing if number == 1 else plural}"
