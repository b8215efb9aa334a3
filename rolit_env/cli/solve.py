"""`rolit solve`: a position comes in, its value and best cells are printed or written, or what finding them would take."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from rolit_env.board import Board
from rolit_env.cli.parser import Verbs, add_verb, draft_of, int_from, progress_bars, seconds_to, write_report
from rolit_env.errors import OptionError, SolveError
from rolit_env.search.estimate import FEWEST_EMPTIES, Sample, estimate
from rolit_env.search.long_solve import LongProgress
from rolit_env.search.small_board import small_board, solve_small_board
from rolit_env.solve import LONG, MOST_EMPTIES_OF_MANY, Progress, Solution, describe, read_position, solve, to_dict
from rolit_env.solve_start import look_up, solve_long

MOST_SECONDS = 10**7
"""Seconds that a position can be worked on, a third of a year."""


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "solve",
        run,
        "Find out who wins a position under best play, by how much and with which cells.",
        f"""A position comes from FILE, as the text that rolit and str(board) write, or is the start;
--moves plays on from there. A value is the mover's balls at the end minus the most that
another player has. Two players with more than {LONG} empty cells need --seconds; when the time
is over, the last line on stderr says which values are left, and the exit code is 2.
Three and four players can be solved with up to {MOST_EMPTIES_OF_MANY} empty cells: each takes the cell with
the larger win share, then with more balls of its own, then with the lowest number.
All of 4x4 and the start of 6x6 are known and looked up. Positions far from the end are solved
with --resume: what is found is kept in a folder, so that the run can be stopped at any time
and goes on with the same command; it names the cells that are proven best, and there may be
more. --estimate says what to expect.

example: rolit solve --size 4 --moves "d2 c1" --all
         rolit solve endgame.txt --seconds 60 --json
         rolit solve --size 6 --moves e5 --resume runs/e5 --threads 2""",
        board=False,
    )
    verb.add_argument("file", metavar="FILE", nargs="?", help="a position as text, - for standard input (default: the start)")
    verb.add_argument("--moves", default="", metavar="CELLS", help="cells to play first, such as 'f4 c3'")
    verb.add_argument("--size", type=int, help="side of the board at the start: 8, 6 or 4 (default: 8)")
    verb.add_argument("--players", type=int, help="players at the start: 2, 3 or 4 (default: 2)")
    verb.add_argument("--starter", help="the colour that moves first (default: red)")
    verb.add_argument("--all", action="store_true", help="find the value of every move too")
    verb.add_argument(
        "--seconds", type=seconds_to(MOST_SECONDS), help="stop after so long, with the bounds known by then (default: never)"
    )
    verb.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print JSON, or write it to a file too, which must end in .json and is replaced as a whole",
    )
    verb.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in a folder, or begin it there")
    verb.add_argument("--depth", type=int_from(1), help="of a run: moves to the positions that it solves (default: chosen)")
    verb.add_argument("--threads", type=int_from(1), help="of a run: positions solved at a time (default: 1)")
    verb.add_argument(
        "--estimate",
        action="store_true",
        help="solve nothing but positions nearer to the end, for --seconds (default: 60), and say what this one would take",
    )
    verb.add_argument("--store", type=Path, metavar="FILE", help="solve all of 4x4 anew and write the table that is looked up")


def run(options: argparse.Namespace) -> None:
    """Look up, solve, go on with a run or estimate, whichever the options ask for."""
    if options.file == "-" and sys.stdin is None:
        raise OptionError("solve reads a position from standard input, which is closed; name a file instead")
    text = options.file and (
        sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8", errors="replace")
    )
    board = read_position(text, options.moves, options.size, options.players, options.starter)
    _check_solve_options(options, board)
    if options.store:
        solve_small_board().save(options.store)
        return
    if options.estimate:
        _estimate(board, options)
        return
    known = None if options.resume or (options.all and board.size > 4) else look_up(board)
    empties = board.variant.plies - board.ply
    if board.players == 2 and empties > LONG and not (known or options.seconds or options.resume):
        raise SolveError(
            f"{empties} cells are empty; more than {LONG} may take hours or days, so --seconds must say how long, "
            "or --resume where to keep what is found"
        )
    file = None if options.json in (None, "-") else Path(options.json)
    if file and file.suffix != ".json":  # it may be the position's file, given after --json by mistake
        raise OptionError(
            f"--json {file} would replace a file that does not end in .json; a position's FILE comes before --json"
        )
    with draft_of(file) as draft:
        solution = known or (_go_on if options.resume else _solve_showing_progress)(board, options)
        report = write_report(draft, options, **to_dict(solution, board))
    if options.json == "-":
        print(json.dumps(report, indent=2))
    else:
        print(board)
        print()
        if solution.value is not None:
            print(
                f"{describe(solution, board)}; best {'is' if len(report['best']) == 1 else 'are'} {' '.join(report['best'])}"
            )
        if options.all:
            values = sorted(report["moves"].items(), key=lambda item: -item[1])
            print("\n".join(f"  {cell} {value:+d}" for cell, value in values))
        if not known:
            print(f"{solution.nodes:,} positions searched in {solution.seconds:.2f} s")
        elif board.size == 6:
            print(f"looked up; finding out took {solution.nodes:,} positions and {duration(solution.seconds)} on one core")
        elif board.ply == 0:
            print(f"looked up; {len(small_board()):,} positions can be reached, full boards not counted")
    if not solution.complete and options.resume:
        raise SolveError(f"{describe(solution, board)}; the same command goes on to find out which")
    if not solution.complete:
        said = describe(solution, board) + (", but there may be more best cells" if solution.value is not None else "")
        raise SolveError(f"the time ran out after {solution.seconds:.1f} s: {said}")


def _check_solve_options(options: argparse.Namespace, board: Board) -> None:
    """Raise `OptionError` for options of which one has no meaning beside the other."""
    if sum(map(bool, (options.resume, options.estimate, options.store))) > 1:
        raise OptionError("--resume, --estimate and --store are three different things; allowed is one of them")
    if options.all and (options.resume or options.estimate):
        raise OptionError("--all goes with neither --resume nor --estimate; it takes the whole value of every move")
    if (options.depth or options.threads) and not options.resume:
        raise OptionError("--depth and --threads are for a run; --resume says in which folder it is")
    if options.store and (board.size != 4 or board.ply or options.json):
        raise OptionError("--store is for all of 4x4; allowed is rolit solve --size 4 --store FILE")


def _go_on(board: Board, options: argparse.Namespace) -> Solution:
    """Go on with a run, showing progress on stderr: a bar in a terminal, else a line when bounds or question change."""
    start, first, said = time.monotonic(), 0, ""
    with progress_bars("{task.fields[rest]}") as bars:
        bar = bars.add_task("", total=None, rest="")

        def progress(now: LongProgress) -> None:
            nonlocal first, said
            label = f"{board.color_to_move}: {now.low:+d} to {now.high:+d}"
            if now.low < now.high:
                label += f", is it {now.question:+d} or more?"
            first = first or now.answers
            found = now.answers - first
            left = duration((time.monotonic() - start) / found * now.to_do) if found else "?"
            rest = f"answers, for this question {left} at least"
            bars.update(bar, description=label, completed=now.answers, total=now.answers + now.to_do, rest=rest)
            if not bars.console.is_terminal and label != said:
                said = label
                bars.console.print(f"{label} ({now.answers:,} answers, {now.nodes:,} positions)", soft_wrap=True)

        try:
            return solve_long(
                board,
                options.resume,
                depth=options.depth,
                threads=options.threads or 1,
                seconds=options.seconds,
                progress=progress,
            )
        except KeyboardInterrupt:
            bars.console.print(f"stopped; what was found is in {options.resume}, and the same command goes on", soft_wrap=True)
            raise


def _solve_showing_progress(board: Board, options: argparse.Namespace) -> Solution:
    """Solve a board, showing progress on stderr: a bar in a terminal, else a line for each new bound after a second."""
    start, shown = time.monotonic(), (-board.variant.cells, board.variant.cells)
    with progress_bars("moves, {task.fields[nodes]:,} positions, {task.fields[rate]:.1f} M/s") as bars:
        bar = bars.add_task("", total=None, nodes=0, rate=0.0)

        def progress(now: Progress) -> None:
            nonlocal shown
            seconds = time.monotonic() - start
            label = f"{board.color_to_move}: {now.low:+d} to {now.high:+d}"
            rate = now.nodes / seconds / 1e6
            bars.update(bar, description=label, completed=now.done, total=now.moves, nodes=now.nodes, rate=rate)
            if not bars.console.is_terminal and seconds > 1 and shown != (now.low, now.high):
                shown = now.low, now.high
                bars.console.print(f"{label}, {now.nodes:,} positions, {rate:.1f} M/s", soft_wrap=True)

        return solve(board, every_move=options.all, seconds=options.seconds, progress=progress)


def _estimate(board: Board, options: argparse.Namespace) -> None:
    """Print how the work grows with the empty cells, as it is measured, and what that makes for a board."""
    if options.json:
        raise OptionError("--estimate prints a text; --json goes with solutions only")

    def report(sample: Sample) -> None:
        if sample.empties == FEWEST_EMPTIES:
            print("empty cells  positions searched, typically      at most  millions a second")
        print(
            f"{sample.empties:11d}  {sample.typical:18,.0f}  {max(sample.nodes):17,.0f}  {sample.rate / 1e6:17.1f}", flush=True
        )

    found = estimate(board, options.seconds or 60, report=report)
    times = [duration(nodes / found.rate) for nodes in (found.nodes, found.low, found.high)]
    least, most = found.growth - found.growth_interval, found.growth + found.growth_interval
    first, last = found.samples[0].empties, found.samples[-1].empties
    print(
        f"""
Each empty cell more takes {found.growth:.2f} times as many positions (95 %: {least:.2f} to {most:.2f}).
With {found.empties} empty cells that makes about {found.nodes:.0e} (95 %: {found.low:.0e} to {found.high:.0e}),
or {times[0]} on one core of this machine ({times[1]} to {times[2]}), if the work goes on
growing as it does from {first} to {last} empty cells in positions from random play. Nothing guarantees
that: a position in which both have played well may take more, and a table of positions that
overflows certainly does."""
    )


def duration(seconds: float) -> str:
    """Write a time in the largest unit of which there are two or more: 90 seconds, 3 hours."""
    for unit, length in (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
