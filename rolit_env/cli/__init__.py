"""The command line `rolit`: arguments come in, text on stdout and an exit code come out.

A new verb is one module of this package, listed in `VERBS`, with two functions: `add_to` adds the verb and its options to the
parser, `run` takes the parsed options and does the work. What verbs share is in `parser`. Bad input is any `RolitError`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rolit_env import __version__
from rolit_env.cli import bench, check, evaluate, exam, match, perft, play, rate, replay, report, solve, tournament
from rolit_env.cli.parser import Parser
from rolit_env.errors import RolitError

VERBS = (play, replay, match, evaluate, rate, tournament, report, exam, check, solve, perft, bench)
"""In the order of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code: 0 when all went well, 2 for bad input (one line on stderr), 130 after Ctrl-C.

    A verb may return another one: `check` returns 1 for models that don't agree with their cards.

    Args:
        argv: The arguments after `rolit`; None takes those of the process.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        options = build_parser().parse_args(arguments)
        options.command = ["rolit", *arguments]
        code: int = options.run(options) or 0
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
    return code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs; each sets `run`, the function that does the work."""
    parser = Parser(
        prog="rolit",
        description="Rolit for two, three and four players: play it, measure agents, check the rules.",
        epilog="'rolit VERB --help' explains a verb and gives an example.",
    )
    parser.add_argument("--version", action="version", version=f"rolit {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        verb.add_to(verbs)
    return parser
