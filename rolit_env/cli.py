"""The command line `rolit`: arguments come in, text on stdout and an exit code come out.

A new verb is one function that takes the parsed options, and one block in `build_parser`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from textwrap import fill
from typing import NoReturn

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from rolit_env import __version__
from rolit_env.agents import AGENTS, Agent, make_agent
from rolit_env.arena import ArenaResult, play_rounds, seat_assignments
from rolit_env.bench.measure import GAMES
from rolit_env.bench.report import screen
from rolit_env.bench.run import NAMES, run_bench
from rolit_env.board import Board
from rolit_env.errors import BenchError, OptionError, RolitError, SolveError, VariantError
from rolit_env.exam import ExamResult, Score, make_endgames, take_exam
from rolit_env.files import replacing
from rolit_env.perft import divide, perft
from rolit_env.play import play_round, seat_agents
from rolit_env.search.estimate import FEWEST_EMPTIES, Sample, estimate
from rolit_env.search.long_solve import LongProgress
from rolit_env.search.small_board import small_board, solve_small_board
from rolit_env.solve import LONG, MOST_EMPTIES_OF_MANY, Solution, describe, read_position, solve, to_dict
from rolit_env.solve import Progress as SolveProgress
from rolit_env.solve_start import look_up, solve_long
from rolit_env.variant import variant

AGENT_HELP = fill(
    f"Agents are {', '.join(AGENTS)}, or a file: a policy, FILE.onnx, or n-tuple tables, ntuple:FILE.safetensors. "
    "Options follow a colon: NAME:option=value,option=value. docs/opponents.md explains them all.",
    79,
)

MOST_ROUNDS = 10**8
"""Rounds that can be asked for at once; more is a slip of the finger, and would run for days."""

MOST_SECONDS = 10**7
"""Seconds that a position can be worked on, a third of a year."""

MOST_ENDGAMES = 10**6
"""Endgames that can be made at once, for the same reason."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code: 0 when all went well, 2 for bad input (one line on stderr), 130 after Ctrl-C.

    Args:
        argv: The arguments after `rolit`; None takes those of the process.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        options = build_parser().parse_args(arguments)
        options.command = ["rolit", *arguments]
        options.run(options)
        sys.stdout.flush()  # so that a reader that went away shows here
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Python flushes once more at exit; with nobody listening that must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except MemoryError:
        print("rolit: there is not enough memory for this; ask for fewer rounds", file=sys.stderr)
        return 2
    except (RolitError, OSError) as error:
        print(f"rolit: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    """Complains in one sentence, without the usage, and takes no abbreviations that a later option could make ambiguous."""

    def __init__(self, **settings: object) -> None:
        super().__init__(
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **settings,  # type: ignore[arg-type]
        )

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message} (see {self.prog} --help)")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs; each sets `run`, the function that does the work."""
    parser = _Parser(
        prog="rolit",
        description="Rolit for two, three and four players: play it, measure agents, check the rules.",
        epilog="'rolit VERB --help' explains a verb and gives an example.",
    )
    parser.add_argument("--version", action="version", version=f"rolit {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    def add_verb(
        name: str, run: Callable[[argparse.Namespace], None], summary: str, notes: str, *, board: bool = True
    ) -> argparse.ArgumentParser:
        verb = verbs.add_parser(name, help=summary, description=summary, epilog=notes)
        verb.set_defaults(run=run)
        if board:
            verb.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4 (default: 8)")
            verb.add_argument("--players", type=int, default=2, help="2, 3 or 4; 4x4 is for 2 (default: 2)")
        return verb

    verb = add_verb(
        "play",
        _play,
        "Play a round in the terminal against agents.",
        f"""{AGENT_HELP}
Balls are letters where there is no colour, and with NO_COLOR=1 in the environment.

example: rolit play --against positional --color green""",
    )
    verb.add_argument(
        "--against",
        nargs="+",
        default=["positional"],
        metavar="AGENT",
        help="one agent for all the other seats, or one for each, clockwise after you (default: positional)",
    )
    verb.add_argument("--color", default="red", help="your colour (default: red)")
    verb.add_argument("--starter", default="random", help="the colour that moves first, or random (default: random)")
    verb.add_argument(
        "--seed", type=_int_from(0), help="the same seed and cells give the same round (default: a new one, shown)"
    )

    verb = add_verb(
        "evaluate",
        _evaluate,
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
        type=_int_from(1, MOST_ROUNDS),
        default=2000,
        help="rounds against each opponent, made up to a whole number of openings for all seatings (default: 2000)",
    )
    verb.add_argument("--seed", type=_int_from(0), default=0, help="the same seed gives the same rounds (default: 0)")
    verb.add_argument(
        "--opening-turns",
        type=int,
        default=4,
        metavar="TURNS",
        help="uniformly random turns at the start of a round (default: 4)",
    )
    verb.add_argument("--starter", default="random", help="the colour that moves first, or random (default: random)")
    verb.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the results to a file, replaced as a whole when all is done"
    )

    verb = add_verb(
        "exam",
        _exam,
        "Hold an agent's moves against positions whose exact value is known.",
        f"""{AGENT_HELP}
On 4x4 it is asked in every position that can be reached, on 6x6 and 8x8 in a stored
sample of endgames with 10 to 14 empty cells. All with two players.

example: rolit exam positional --size 4
         rolit exam --make endgames.npz --size 8 --positions 2500 --seed 0""",
    )
    verb.add_argument("agent", metavar="AGENT", nargs="?", help="the agent to examine")
    verb.add_argument("--starter", default="red", help="the colour that moves first; it matters on 4x4 (default: red)")
    verb.add_argument("--seed", type=_int_from(0), default=0, help="the same seed gives the same chance (default: 0)")
    verb.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the results to a file, replaced as a whole when all is done"
    )
    verb.add_argument(
        "--make",
        type=Path,
        metavar="FILE",
        help="examine nobody: make a sample of endgames as the package has it, and solve it",
    )
    verb.add_argument(
        "--positions", type=_int_from(1, MOST_ENDGAMES), default=2500, help="endgames in a sample that is made (default: 2500)"
    )

    verb = add_verb(
        "solve",
        _solve,
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
        "--seconds", type=_seconds_to(MOST_SECONDS), help="stop after so long, with the bounds known by then (default: never)"
    )
    verb.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print JSON, or write it to a file too, which must end in .json and is replaced as a whole",
    )
    verb.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in a folder, or begin it there")
    verb.add_argument("--depth", type=_int_from(1), help="of a run: moves to the positions that it solves (default: chosen)")
    verb.add_argument("--threads", type=_int_from(1), help="of a run: positions solved at a time (default: 1)")
    verb.add_argument(
        "--estimate",
        action="store_true",
        help="solve nothing but positions nearer to the end, for --seconds (default: 60), and say what this one would take",
    )
    verb.add_argument("--store", type=Path, metavar="FILE", help="solve all of 4x4 anew and write the table that is looked up")

    verb = add_verb(
        "perft",
        _perft,
        "Count the legal sequences of so many turns from the start, to check the rules.",
        "example: rolit perft --size 8 --players 4 --depth 6    (44154)",
    )
    verb.add_argument("--depth", type=_int_from(0), required=True, help="turns in a sequence, from 0")
    verb.add_argument("--starter", default="red", help="the colour that moves first (default: red)")
    verb.add_argument("--divide", action="store_true", help="show the count behind each first move too")

    verb = add_verb(
        "bench",
        _bench,
        "Measure turns a second, side by side with the other libraries that are installed.",
        f"""{fill(f"Layers and peers are {', '.join(NAMES)}.", 79)}
Each is timed in a process of its own, and they take turns. One turn is one move of
one game. All play is legal and random; docs/speed.md says what is timed.

example: rolit bench --only step rust-reversi
         rolit bench --json speed.json""",
        board=False,
    )
    verb.add_argument("--only", nargs="+", action="extend", metavar="LAYER", help="measure only these (default: everything)")
    verb.add_argument("--no-peers", dest="peers", action="store_false", help="measure no other libraries")
    verb.add_argument("--repeats", type=_int_from(1), default=7, help="timings of each (default: 7)")
    verb.add_argument("--seconds", type=_seconds_to(60), default=0.4, help="shortest time of one timing (default: 0.4)")
    verb.add_argument(
        "--games",
        type=_int_from(1),
        nargs="+",
        default=GAMES,
        help="games side by side; step and random are measured at each of these numbers, threads at the last, "
        f"others at the first (default: {' '.join(map(str, GAMES))})",
    )
    verb.add_argument("--threads", type=_int_from(1), help="cores for what uses several (default: all that may be used here)")
    verb.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the results to a file, replaced as a whole when all is done"
    )
    return parser


def _int_from(low: int, high: int | None = None) -> Callable[[str], int]:
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


def _seconds_to(most: int) -> Callable[[str], float]:
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


def _perft(options: argparse.Namespace) -> None:
    board = Board(options.size, options.players, options.starter)
    if options.divide:
        counts = divide(board, options.depth)
        for cell, count in counts.items():
            print(f"{cell} {count}")
        print(sum(counts.values()))
    else:
        print(perft(board, options.depth))


def _play(options: argparse.Namespace) -> None:
    chosen = variant(options.size, options.players)
    agents = seat_agents([make_agent(description) for description in options.against], options.color, chosen)
    seed = int(np.random.default_rng().integers(10**6)) if options.seed is None else options.seed
    rng = np.random.default_rng(seed)
    starter = chosen.colors[rng.integers(chosen.players)] if options.starter == "random" else options.starter
    board = Board(options.size, options.players, starter)
    if sys.stdin is None:
        raise OptionError("play reads cells from standard input, which is closed; allowed are a terminal, a pipe or a file")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="backslashreplace")  # a stray byte is a wrong cell, no reason to crash
    console = Console(highlight=False, markup=False, emoji=False)
    opponents = ", ".join(f"{agent.name} ({color})" for color, agent in agents.items())
    console.print(f"Rolit {chosen.size}x{chosen.size}: you ({options.color}) against {opponents}. Seed {seed}.")
    console.print(f"{starter.capitalize()} begins. Type a cell such as b3; ? helps, q leaves.")
    play_round(board, options.color, agents, rng=rng, console=console)


def _evaluate(options: argparse.Namespace) -> None:
    chosen = variant(options.size, options.players)
    agent = make_agent(options.agent)
    tables = [[agent, *(make_agent(description) for description in text.split("+"))] for text in options.against]
    for seated in tables:  # so that a mistake in the last one shows before hours of rounds against the first
        seat_assignments(len(seated), chosen.players)
        for one in seated:
            one.check_variant(chosen)
    with replacing(options.json) if options.json else nullcontext() as draft:
        results = _play_tables(tables, options)
        if draft:
            report = {"version": __version__, "command": options.command, "results": [result.to_dict() for result in results]}
            draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    _print_results(results, chosen.name)


def _play_tables(tables: Sequence[Sequence[Agent]], options: argparse.Namespace) -> list[ArenaResult]:
    """Return the result of each table, showing progress on stderr: bars in a terminal, else a line when a table is done."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeRemainingColumn(),
    )
    results = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
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
            )
            results.append(result)
            if not console.is_terminal:
                console.print(f"{label}: {result.rounds:,} rounds played", soft_wrap=True)
    return results


def _exam(options: argparse.Namespace) -> None:
    if (options.agent is None) == (options.make is None):
        raise OptionError("exam takes either an AGENT to examine or --make FILE (see rolit exam --help)")
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("positions"),
        TimeRemainingColumn(),
    )
    path = options.make or options.json
    with (
        replacing(path) if path else nullcontext() as draft,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars,
    ):
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
        if draft:
            report = {"version": __version__, "command": options.command, "result": result.to_dict()}
            draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    _print_exam(result)


def _print_exam(result: ExamResult) -> None:
    """Print the table: a row for all positions, one for those under the agent's own play, one for each number of empties."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, 80) if console.is_terminal else 200
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


def _solve(options: argparse.Namespace) -> None:
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
    with replacing(file) if file else nullcontext() as draft:
        solution = known or (_go_on if options.resume else _solve_showing_progress)(board, options)
        report = {"version": __version__, "command": options.command, **to_dict(solution, board)}
        if draft:
            draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
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
            print(f"looked up; finding out took {solution.nodes:,} positions and {_duration(solution.seconds)} on one core")
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
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rest]}", markup=False),
    )
    start, first, said = time.monotonic(), 0, ""
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("", total=None, rest="")

        def progress(now: LongProgress) -> None:
            nonlocal first, said
            label = f"{board.color_to_move}: {now.low:+d} to {now.high:+d}"
            if now.low < now.high:
                label += f", is it {now.question:+d} or more?"
            first = first or now.answers
            found = now.answers - first
            left = _duration((time.monotonic() - start) / found * now.to_do) if found else "?"
            rest = f"answers, for this question {left} at least"
            bars.update(bar, description=label, completed=now.answers, total=now.answers + now.to_do, rest=rest)
            if not console.is_terminal and label != said:
                said = label
                console.print(f"{label} ({now.answers:,} answers, {now.nodes:,} positions)", soft_wrap=True)

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
            console.print(f"stopped; what was found is in {options.resume}, and the same command goes on", soft_wrap=True)
            raise


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
    times = [_duration(nodes / found.rate) for nodes in (found.nodes, found.low, found.high)]
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


def _duration(seconds: float) -> str:
    """Write a time in the largest unit of which there are two or more: 90 seconds, 3 hours."""
    for unit, length in (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _solve_showing_progress(board: Board, options: argparse.Namespace) -> Solution:
    """Solve a board, showing progress on stderr: a bar in a terminal, else a line for each new bound after a second."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("moves, {task.fields[nodes]:,} positions, {task.fields[rate]:.1f} M/s", markup=False),
    )
    start, shown = time.monotonic(), (-board.variant.cells, board.variant.cells)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("", total=None, nodes=0, rate=0.0)

        def progress(now: SolveProgress) -> None:
            nonlocal shown
            seconds = time.monotonic() - start
            label = f"{board.color_to_move}: {now.low:+d} to {now.high:+d}"
            rate = now.nodes / seconds / 1e6
            bars.update(bar, description=label, completed=now.done, total=now.moves, nodes=now.nodes, rate=rate)
            if not console.is_terminal and seconds > 1 and shown != (now.low, now.high):
                shown = now.low, now.high
                console.print(f"{label}, {now.nodes:,} positions, {rate:.1f} M/s", soft_wrap=True)

        return solve(board, every_move=options.all, seconds=options.seconds, progress=progress)


def _bench(options: argparse.Namespace) -> None:
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("timings"))
    # Drawn only between timings, which a thread that draws meanwhile would disturb.
    with (
        replacing(options.json) if options.json else nullcontext() as draft,
        Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal) as bars,
    ):
        bar = bars.add_task("", total=None)
        said = ""

        def progress(what: str, name: str, done: int, total: int) -> None:
            nonlocal said
            bars.update(bar, description=f"{what}: {name}", completed=done, total=total, refresh=True)
            if not console.is_terminal and what != said:
                said = what
                console.print(f"{what} ({done} of {total} timings done)", soft_wrap=True)

        report = run_bench(
            options.only,
            games=options.games,
            repeats=options.repeats,
            seconds=options.seconds,
            threads=options.threads,
            peers=options.peers,
            progress=progress,
        )
        report = {"version": __version__, "command": options.command, **report}
        if draft:
            draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, 80) if console.is_terminal else 200
    console.print(screen(report))
    failed = [row["name"] for row in report["rows"] if "error" in row]
    if failed:
        raise BenchError(f"what failed: {', '.join(failed)}; the other figures hold")


def _print_results(results: Sequence[ArenaResult], name: str) -> None:
    """Print the table: a row for each result, with the numbers of its first agent."""
    console = Console(highlight=False, markup=False, emoji=False)
    # A file or a pipe has no edge to wrap at, and on a narrow screen wrapped lines are better than lost columns.
    console.width = max(console.width, 80) if console.is_terminal else 200
    half_width = "+-" if console.options.ascii_only else "±"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("against", overflow="fold")
    for heading in ("win share", "par", "by seat", "balls", "tied", "rounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            " + ".join(result.agents[1:]),
            f"{_share(result.win_share[0])} {half_width} {_share(result.interval[0])}",
            _share(result.par[0]),
            " ".join(_share(share) for share in result.by_seat[0]),
            f"{result.balls[0]:.1f}",
            _share(result.tied),
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


def _share(share: float) -> str:
    """Write .987, and 1.000 for all."""
    return f"{share:.3f}".removeprefix("0")
