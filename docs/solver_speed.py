"""Time the solver: numbers of empty cells come in, a table of times and of positions searched goes out.

    python docs/solver_speed.py --empties 12 16 20 --positions 100 20 5

The positions come from uniformly random play with the seed 0. Each is solved alone by `rolit_env.solve.solve`, all best moves
included, on one core.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

import numpy as np

from rolit_env import GameBatch
from rolit_env.solve import Solution, solve


def solutions(size: int, players: int, empties: int, positions: int) -> list[Solution]:
    """Return the solutions of so many positions of random play."""
    rng = np.random.default_rng(0)
    games = GameBatch(positions, size=size, players=players, seed=rng)
    while games.plies - games.ply > empties:
        games.step_random(rng)
    solve(games.board(0), seconds=1e-3)  # compiles
    return [solve(games.board(game)) for game in range(positions)]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--empties", type=int, nargs="+", default=[12, 16, 20])
    parser.add_argument("--positions", type=int, nargs="+", default=[100, 20, 5], help="one number for each of the empties")
    options = parser.parse_args(argv)
    print("| empty cells | positions | mean, s | median, s | longest, s | searched, mean | searched a second |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for empties, positions in zip(options.empties, options.positions, strict=True):
        found = solutions(options.size, options.players, empties, positions)
        seconds, nodes = [one.seconds for one in found], [one.nodes for one in found]
        times = f"{statistics.mean(seconds):.4f} | {statistics.median(seconds):.4f} | {max(seconds):.4f}"
        rate = sum(nodes) / sum(seconds)
        print(f"| {empties} | {positions} | {times} | {statistics.mean(nodes):,.0f} | {rate / 1e6:.1f} M |", flush=True)


if __name__ == "__main__":
    main()
