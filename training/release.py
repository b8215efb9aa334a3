"""Runs of n-tuple learning go in, a file of tables that agents play with comes out, with its card.

    python -m training.release runs/8x8-2p-ntuple --out models/8x8-2p-ntuple.safetensors
    python -m training.release runs/seed-0 runs/seed-1 runs/seed-2 --out models/8x8-2p-ntuple.safetensors

Of several runs, which should differ in their seeds alone, the median is released, and the card has the results of all: runs
spread more than the intervals of one of them say.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from jsonargparse import ArgumentParser, Namespace

from rolit_env.agents.ntuple import NTupleAgent
from rolit_env.errors import OptionError
from rolit_env.files import replacing
from training.card import check_out, describe, measure, print_results, write_card
from training.command import run_command
from training.ntuple import NTupleLearner, load
from training.run import OPPONENTS

SEARCHES = {
    2: ("alphabeta:depth=2", "alphabeta:depth=4", "mcts:simulations=400"),
    3: ("brs:depth=2", "maxn:depth=2", "mcts:simulations=400"),
    4: ("brs:depth=2", "maxn:depth=2", "mcts:simulations=400"),
}
"""The opponents that look ahead, for each number of players."""


def release(runs: list[NTupleLearner], out: Path, rounds: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Measure the runs, write the tables of the median to `out` and its card beside it, and return the card.

    The median is that of the mean win shares over all opponents; of an even number of runs the lower one of the middle.

    Raises:
        OutputError: when `out` does not end in `.safetensors` or can't be written.
        OptionError: for runs of different variants.
    """
    check_out(out, ".safetensors", rounds)
    if len({run.config.variant for run in runs}) != 1:
        raise OptionError("the runs are of different variants; allowed are runs of one")
    opponents = (*OPPONENTS, *SEARCHES[runs[0].config.players])
    with replacing(out.with_suffix(".json")) as card_draft, replacing(out) as draft:
        results = []
        for run in runs:
            run.ntuples.save(draft)  # what is measured is what is released: halves of float32
            write_card({"variant": {"size": run.config.size, "players": run.config.players}}, card_draft)
            agent = NTupleAgent(draft)
            agent.name = f"ntuple:{out}"
            results.append(measure(run, agent, opponents, rounds, seed))
        means = [np.mean([result["win_share"][0] for result in played["against"].values()]) for played in results]
        chosen = int(np.argsort(means)[(len(runs) - 1) // 2])
        run = runs[chosen]
        run.ntuples.save(draft)
        card = describe(run, out, draft, ("rolit-env", "numpy", "numba", "safetensors"), tuples=run.ntuples.tuples)
        card["results"] = results[chosen]
        card["seeds"] = [
            {
                "seed": run.config.seed,
                "minutes": round(run.seconds / 60, 2),
                "turns": run.turns,
                "win_share": {name: result["win_share"][0] for name, result in played["against"].items()},
            }
            for run, played in zip(runs, results, strict=True)
        ]
        write_card(card, card_draft)
    return card


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = ArgumentParser(
        prog="python -m training.release",
        description="Release the tables of the median of some runs: one file and a card with measured results.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    options.add_argument("runs", type=str, nargs="+", help="folders of runs of python -m training.ntuple")
    options.add_argument("--out", type=str, required=True, help="file to write, such as models/8x8-2p-ntuple.safetensors")
    options.add_argument("--rounds", type=int, default=2000, help="rounds against each opponent for the card")
    options.add_argument("--seed", type=int, default=0, help="seed of those rounds")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.release", lambda: _run(parser().parse_args(argv)))


def _run(options: Namespace) -> int:
    card = release([load(Path(run)) for run in options.runs], Path(options.out), options.rounds, options.seed)
    print_results(card["results"])
    print(f"wrote {options.out} (seed {card['config']['seed']}) and its card; the figures again: {card['results']['command']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
