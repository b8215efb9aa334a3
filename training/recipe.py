"""A recipe goes in, a released model comes out: its seeds are trained one after the other, and their median is released.

    python -m training.recipe 8x8-2p
    python -m training.recipe 8x8-2p-ntuple --seeds 0 1 2 --runs runs --out models

A recipe is a file of settings in configs/; those whose names end in `-ntuple` are for tables, the others for policies. The
same command again goes on where it was stopped or killed: runs that are trained stay as they are, others go on from what they
saved. Policies are trained side by side, each run on its share of the cores; tables use all cores themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from jsonargparse import ArgumentParser
from rich.console import Console

from rolit_env.bench.machine import cores
from rolit_env.errors import ConfigError, OptionError
from training.command import run_command, stop_on_interrupt
from training.config import RunConfig
from training.learner import Learner
from training.ntuple import NTupleLearner
from training.release import CONFIGS, KINDS, Kind, print_card, release
from training.run import Run
from training.side_by_side import run_side_by_side

TABLES = "-ntuple"
"""What the names of recipes for tables end in."""


def train_seeds(file: Path, seeds: Sequence[int], folder: Path, at_once: int = 1) -> list[Run] | None:
    """Train runs that differ in their seeds, or go on with them; return them, or None when one is not done.

    Args:
        file: The recipe.
        seeds: Their seeds.
        folder: The folder that holds the runs, each in a folder `RECIPE-SEED`.
        at_once: Runs trained at the same time. One is trained in this process, several in processes of their own.

    Raises:
        ConfigError: for a run of the same name with other settings.
        CheckpointError: for one that can't be brought back.
    """
    kind, console = kind_of(file), Console(markup=False, highlight=False)
    configs = [kind.command.settings(["--config", str(file), "--seed", str(seed)])[0] for seed in seeds]
    places = [folder / f"{file.stem}-{seed}" for seed in seeds]
    found = [_bring_back(kind, config, place, file) for config, place in zip(configs, places, strict=True)]
    runs = [run or kind.command.start(config, place) for run, config, place in zip(found, configs, places, strict=True)]
    todo = {place: run for run, place in zip(runs, places, strict=True) if not run.finished}
    for place, run in todo.items():
        budget = f"{run.config.turns:,} turns" if run.config.turns else f"{run.config.minutes:g} minutes"
        console.print(f"{file.stem}, seed {run.config.seed}: {budget}, in {place}")
    with stop_on_interrupt() as should_stop:
        if at_once == 1:
            for place, run in todo.items():
                if not should_stop():
                    kind.train(run, place, should_stop)
        else:
            words = [sys.executable, *kind.command.program.split()[1:], "--resume"]
            commands = {f"seed {run.config.seed}": [*words, str(place)] for place, run in todo.items()}
            for _ in run_side_by_side(commands, at_once, threads_each(at_once), should_stop):
                pass  # how far a run came is read from its folder, and what went wrong was said
            runs = [kind.command.load(place) for place in places]
    for run, place in zip(runs, places, strict=True):
        done = f"{run.turns:,} turns, {run.seconds / 60:.1f} minutes"
        console.print(f"seed {run.config.seed}: {done}, in {place}{'' if run.finished else ' - not done'}")
    if not all(run.finished for run in runs):
        console.print("stopped; the same command goes on")
        return None
    return runs


def threads_each(at_once: int) -> int:
    """Return how many threads each of some runs at the same time has."""
    return max(1, len(cores()) // at_once)


def kind_of(file: Path) -> Kind:
    """Return what a recipe makes, by its name."""
    return KINDS[NTupleLearner if file.stem.endswith(TABLES) else Learner]


def find_recipe(name: str | None) -> Path:
    """Return the file of a recipe: a name in configs/, or any path that ends in `.yaml`. Raises `ConfigError`."""
    paths = sorted(CONFIGS.glob("*.yaml"), key=lambda path: path.stem)
    recipes = {path.stem: path for path in paths if not path.stem.startswith("tournament")}
    file = Path(name) if name and name.endswith(".yaml") else recipes.get(name or "")
    if not file or not file.is_file():
        what = f"there is no recipe {name}" if name else "a recipe must be named"
        raise ConfigError(f"{what}; there are {', '.join(recipes)}, and files of settings that end in .yaml")
    return file


def _bring_back(kind: Kind, config: RunConfig, place: Path, file: Path) -> Run | None:
    """Return the run in a folder, with the recipe's budget, or None where there is none."""
    if not (place / kind.kept_in).exists():
        return None
    run: Run = kind.command.load(place, minutes=config.minutes, turns=config.turns)
    wanted, found = config.to_dict(), run.config.to_dict()
    differ = [f"{name} {found[name]}, not {wanted[name]}" for name in wanted if found[name] != wanted[name]]
    if differ:
        raise ConfigError(
            f"the run in {place} has other settings than {file} ({', '.join(differ)}); move it away, or name another folder "
            "with --runs"
        )
    return run


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = ArgumentParser(
        prog="python -m training.recipe",
        description="Train the seeds of a recipe one after the other and release their median. Again, it goes on.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    options.add_argument("recipe", type=str, nargs="?", help="name of a file in configs/, such as 8x8-2p, or FILE.yaml")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the runs")
    options.add_argument("--runs", type=str, default="runs", help="folder of the runs, each in RECIPE-SEED")
    options.add_argument(
        "--at_once", type=int | None, help="runs trained at the same time (default: as many as there are cores; tables 1)"
    )
    options.add_argument("--out", type=str, default="models", help="folder of the file, its card and its picture")
    options.add_argument("--rounds", type=int, default=2000, help="rounds against each opponent for the card")
    options.add_argument("--limits", type=str, default="", help="what the card says of its limits beside what results say")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, 1 when stopped, or 2 after one line about what was wrong with it."""
    return run_command("training.recipe", lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    file = find_recipe(options.recipe)
    seeds = list(dict.fromkeys(options.seeds))
    at_once = options.at_once
    if at_once is None:
        at_once = min(len(seeds), len(cores())) if kind_of(file) is KINDS[Learner] else 1
    if at_once < 1:
        raise OptionError(f"--at_once {at_once} trains nothing; allowed is 1 and up")
    if at_once > 1:
        torch.set_num_threads(threads_each(at_once))  # so that the card says it
    runs = train_seeds(file, seeds, Path(options.runs), at_once)
    if runs is None:
        return 1
    out = Path(options.out, file.stem + kind_of(file).ending)
    print(f"measuring {len(runs)} seeds, {options.rounds} rounds against each opponent", flush=True)
    print_card(release(runs, out, options.rounds, said=options.limits), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
