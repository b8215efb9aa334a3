"""`rolit play`: agents and a colour come in, a round is played in the terminal."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console

from rolit_env.agents import make_agent
from rolit_env.board import Board
from rolit_env.cli.parser import AGENT_HELP, Verbs, add_verb, int_from
from rolit_env.errors import OptionError
from rolit_env.play import play_round, seat_agents
from rolit_env.record import RoundRecord, write_records
from rolit_env.variant import variant


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "play",
        run,
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
        "--seed", type=int_from(0), help="the same seed and cells give the same round (default: a new one, shown)"
    )
    verb.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the round to a file, replaced at once and after every turn, for rolit replay; "
        "JSON if it ends in .json or .jsonl, else text",
    )


def run(options: argparse.Namespace) -> None:
    """Draw what is left to chance, say who plays and play."""
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
    names = {options.color: "person"} | {color: agent.name for color, agent in agents.items()}
    after_turn = _record(options.record, board, names, seed) if options.record else None
    console = Console(highlight=False, markup=False, emoji=False)
    opponents = ", ".join(f"{agent.name} ({color})" for color, agent in agents.items())
    console.print(f"Rolit {chosen.size}x{chosen.size}: you ({options.color}) against {opponents}. Seed {seed}.")
    console.print(f"{starter.capitalize()} begins. Type a cell such as b3; ? helps, q leaves.")
    try:
        play_round(board, options.color, agents, rng=rng, console=console, after_turn=after_turn)
    finally:
        if options.record:
            turns = "The round" if board.is_over else f"{board.ply} of {chosen.plies} turns"
            console.print(f"{turns} can be seen again with 'rolit replay {options.record}'.", soft_wrap=True)


def _record(path: Path, board: Board, names: Mapping[str, str], seed: int) -> Callable[[float], None]:
    """Write a record at once and return what writes it anew after each turn, so that nothing ends a round unrecorded."""
    seconds: list[float] = []

    def write() -> None:
        write_records(path, [RoundRecord.from_board(board, names, seconds=tuple(seconds) or None, seed=seed)])

    def after_turn(time: float) -> None:
        seconds.append(round(time, 3))
        write()

    write()
    return after_turn
