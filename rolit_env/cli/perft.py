"""`rolit perft`: a depth comes in, counts of legal sequences are printed."""

from __future__ import annotations

import argparse

from rolit_env.board import Board
from rolit_env.cli.parser import Verbs, add_verb, int_from
from rolit_env.perft import divide, perft


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "perft",
        run,
        "Count the legal sequences of so many turns from the start, to check the rules.",
        "example: rolit perft --size 8 --players 4 --depth 6    (44154)",
    )
    verb.add_argument("--depth", type=int_from(0), required=True, help="turns in a sequence, from 0")
    verb.add_argument("--starter", default="red", help="the colour that moves first (default: red)")
    verb.add_argument("--divide", action="store_true", help="show the count behind each first move too")


def run(options: argparse.Namespace) -> None:
    """Print the count, and what lies behind each first move where that is asked for."""
    board = Board(options.size, options.players, options.starter)
    if options.divide:
        counts = divide(board, options.depth)
        for cell, count in counts.items():
            print(f"{cell} {count}")
        print(sum(counts.values()))
    else:
        print(perft(board, options.depth))
