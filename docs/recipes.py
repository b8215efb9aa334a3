"""Compare recipes of training, three seeds each: names come in, a table in recipes.md beside this file comes out.

    python docs/recipes.py train                  # all of them, going on where it was stopped
    python docs/recipes.py train "teacher" "width 16" --seeds 0
    python docs/recipes.py table

All train two players on 8x8 for the same minutes, each on one core, and differ from the first one in the settings named here.
What came of them is kept in recipes.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rolit_env import make_agent, play_rounds
from rolit_env.bench import machine
from rolit_env.errors import ConfigError
from rolit_env.files import fill_in, replacing
from training.agent import NetworkAgent
from training.checkpoint import FILE_NAME, load_checkpoint
from training.command import run_command, stop_on_interrupt
from training.config import TrainConfig
from training.run import current_commit
from training.side_by_side import run_side_by_side

DOCS = Path(__file__).parent
ROOT = DOCS.parent
KEPT = DOCS / "recipes.json"
START, END = "<!-- from docs/recipes.json, by docs/recipes.py -->\n", "<!-- end -->\n"

MINUTES = 4
LADDER = ("positional", "alphabeta:depth=2", "alphabeta:depth=4", "mcts:simulations=400", "8x8-2p-ntuple")

TABLES = "8x8-2p-ntuple"
SEARCH = f"alphabeta:depth=2,eval={TABLES}"
TAUGHT = {"teacher": SEARCH, "learning_rate": 0.004}
RECIPES: dict[str, dict[str, Any]] = {
    "afterstates": {},
    "mlp": {"network": "mlp"},
    "entropy .06": {"entropy": 0.06},
    "entropy .1": {"entropy": 0.1},
    "width 16": {"width": 16},
    "lambda .95": {"gae_lambda": 0.95},
    "fewer openings": {"opening_share": 0.15},
    "snapshots": {"snapshot_share": 0.25},
    "opponents": {"opponents": ["alphabeta:depth=4", TABLES], "opponent_share": 0.4},
    "teacher": TAUGHT,
    "teacher alone": TAUGHT | {"taught_share": 1.0},
    "teacher, epochs 4": TAUGHT | {"taught_share": 1.0, "epochs": 4},
    "teacher looks further": TAUGHT | {"teacher": f"alphabeta:depth=4,eval={TABLES}", "epochs": 4},
    "teacher by hand": TAUGHT | {"teacher": "alphabeta:depth=4"},
    "teacher, opponents": TAUGHT | {"opponents": ["alphabeta:depth=4", SEARCH, TABLES], "opponent_share": 0.4},
    "teacher, depth 4": TAUGHT | {"opponents": ["alphabeta:depth=4"], "opponent_share": 0.7},
    "teacher, searcher": TAUGHT | {"taught_share": 0.3, "searcher": "mcts:simulations=64", "epochs": 4},
}
"""The settings of each, beside `network: afterstates`."""


def command(name: str, seed: int, run: Path) -> list[str]:
    """Return the command that trains a seed of a recipe or goes on. Raises `ConfigError` for a run of other settings."""
    words = [sys.executable, "-m", "training.train"]
    settings = {"network": "afterstates", "evaluate_every": 0, "seed": seed, "minutes": MINUTES} | RECIPES[name]
    if (run / FILE_NAME).exists():
        if load_checkpoint(run, minutes=MINUTES).config != TrainConfig.from_dict(settings):
            raise ConfigError(f"the run in {run} has other settings than the recipe {name}; remove it or move it away")
        return [*words, "--resume", str(run), "--minutes", str(MINUTES)]
    for key, value in settings.items():
        words += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    return [*words, "--run", str(run)]


def measure(run: Path, rounds: int) -> dict[str, Any]:
    """Return what a run came to."""
    learner = load_checkpoint(run)
    agent = NetworkAgent(learner)
    shares = {
        opponent: float(play_rounds([agent, make_agent(opponent)], rounds, size=8, players=2, seed=0).win_share[0])
        for opponent in LADDER
    }
    return {"minutes": round(learner.seconds / 60, 2), "turns": learner.turns, "commit": learner.commit, "win_share": shares}


def train(jobs: Sequence[tuple[str, int]], rounds: int) -> int:
    """Train seeds of recipes side by side, one thread each, and keep what each came to. Returns how many were not done."""
    torch.set_num_threads(1)  # it measures beside those that train
    runs = {f"{name}, seed {seed}": (name, seed, folder(name, seed)) for name, seed in jobs}
    commands = {job: command(*of) for job, of in runs.items()}
    with stop_on_interrupt() as should_stop:
        for job, _ in run_side_by_side(commands, len(machine.cores()), threads=1, should_stop=should_stop):
            name, seed, run = runs[job]
            if not (run / FILE_NAME).exists() or not load_checkpoint(run).finished:
                continue
            result = measure(run, rounds)
            print(job, *(f"{opponent} {share:.3f}" for opponent, share in result["win_share"].items()), sep="  ", flush=True)
            keep(name, seed, rounds, result)
            del runs[job]
    return len(runs)


def folder(name: str, seed: int) -> Path:
    """Return where a run is kept."""
    return ROOT / "runs" / "recipes" / f"{name.replace(' ', '-').replace(',', '')}-{seed}"


def keep(name: str, seed: int, rounds: int, result: dict[str, Any]) -> None:
    """Put a seed's result in the place of the last one of that recipe and seed; those of other settings go."""
    kept = read()
    row = kept["recipes"].get(name, {})
    if row.get("settings") != RECIPES[name]:
        row = {"settings": RECIPES[name], "seeds": {}}
    row["seeds"] = dict(sorted((row["seeds"] | {str(seed): result}).items()))
    described = machine.describe()
    kept |= {
        "minutes": MINUTES,
        "rounds": rounds,
        "date": datetime.date.today().isoformat(),
        "commit": current_commit(),
        "machine": {key: described[key] for key in ("processor", "cores")},
        "recipes": {known: entry for known in RECIPES if (entry := (kept["recipes"] | {name: row}).get(known))},
    }
    with replacing(KEPT) as draft:
        draft.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def read() -> dict[str, Any]:
    """Return what was kept."""
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"recipes": {}}
    return found


def table(kept: dict[str, Any]) -> str:
    """Return the table: medians over seeds, and from the lowest to the highest."""
    lines = [
        f"| recipe | settings | seeds | million turns | {' | '.join(LADDER)} |",
        f"| --- | --- | ---: | ---: |{' ---: |' * len(LADDER)}",
    ]
    for name, row in kept["recipes"].items():
        seeds = list(row["seeds"].values())
        settings = ", ".join(f"`{key}: {json.dumps(value)}`" for key, value in row["settings"].items())
        cells = [name, settings, str(len(seeds)), f"{statistics.median(seed['turns'] for seed in seeds) / 1e6:.1f}"]
        for opponent in LADDER:
            shares = [seed["win_share"][opponent] for seed in seeds]
            cells.append(f"{statistics.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})")
        lines.append(f"| {' | '.join(cells)} |")
    where = kept["machine"]
    ended = f"{where['processor']}, {where['cores']} cores, {kept['date']}; {kept['rounds']:,} rounds for each share, seed 0."
    return "\n".join([*lines, "", ended])


def main(argv: Sequence[str] | None = None) -> int:
    """Train, or fill in the table."""
    parser = argparse.ArgumentParser(prog="python docs/recipes.py", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    training = verbs.add_parser("train", help="train, and keep what came of it")
    training.add_argument("recipes", nargs="*", metavar="RECIPE", help=f"some of: {', '.join(RECIPES)} (default: all)")
    training.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    training.add_argument("--rounds", type=int, default=2000, help="rounds against each opponent")
    verbs.add_parser("table", help="fill in the table with what was kept")
    options = parser.parse_args(argv)
    if options.verb == "table":
        fill_in(DOCS / "recipes.md", START, END, table(read()))
        return 0
    if unknown := set(options.recipes) - RECIPES.keys():
        parser.error(f"there is no recipe {', '.join(sorted(unknown))}; there are {', '.join(RECIPES)}")
    kept = read()["recipes"]
    jobs = [
        (name, seed)
        for name in options.recipes or RECIPES
        for seed in options.seeds
        if kept.get(name, {}).get("settings") != RECIPES[name] or str(seed) not in kept[name]["seeds"]
    ]
    return run_command("docs/recipes.py", lambda: 1 if train(jobs, options.rounds) else 0)


if __name__ == "__main__":
    sys.exit(main())
