"""One measurement in a process of its own: a name and a number of games come in, a line of JSON for each timing goes out.

`python -m rolit_env.bench NAME GAMES SECONDS` sets up, plays a while so that everything is compiled, and writes what is to be
noted down. Then each line on standard input asks for one timing of at least so many seconds, and its end ends the process.
"""

from __future__ import annotations

import json
import os
import sys

from rolit_env.bench import ROWS
from rolit_env.bench.measure import measure

WARM_UP = 0.5
"""Seconds of playing before any timing; some things are compiled only once they have been used a while."""


def main() -> None:
    """Run until standard input ends."""
    name, games, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    # Libraries greet on standard output; the answers go where it went, and the greetings to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work = ROWS[name].setup(games)
    measure(work, WARM_UP)
    print(json.dumps(work.facts), file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(measure(work, seconds)), file=answers, flush=True)


main()
