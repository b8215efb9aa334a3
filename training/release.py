"""Trained runs go in, a file that agents play with comes out, with its card and a picture of its learning curves.

    python -m training.release runs/8x8-2p-0 runs/8x8-2p-1 runs/8x8-2p-2 --out models/8x8-2p.onnx
    python -m training.release runs/8x8-2p-ntuple-0 --out models/8x8-2p-ntuple.safetensors
    python -m training.release --again models/8x8-2p-ntuple.safetensors

Of several runs, which must differ in their seeds alone, the median is released, and the card has the results of all: runs
spread more than the intervals of one of them say. Runs of PPO become an exported policy, runs of n-tuple learning tables.
A released file is measured again when its opponents have changed.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from rolit_env import make_agent
from rolit_env.errors import OptionError, RolitError
from rolit_env.files import replacing
from rolit_env.released import models_folder, released_files
from rolit_env.variant import Variant, variant
from training import checkpoint, ntuple, train
from training.card import (
    check_out,
    describe,
    examine,
    history,
    limits,
    measure,
    print_results,
    seed_results,
    write_card,
)
from training.command import RunCommand, run_command
from training.config import OPPONENTS
from training.export import export
from training.learner import Learner
from training.ntuple import NTupleLearner
from training.plot import draw, group, load, save_picture, settings_apart
from training.run import Run

CONFIGS = Path(__file__).parents[1] / "configs"

SEARCHES = {
    2: ("alphabeta:depth=2", "alphabeta:depth=4", "alphabeta:depth=6", "mcts:simulations=400"),
    3: ("brs:depth=2", "brs:depth=3", "maxn:depth=2", "mcts:simulations=400"),
    4: ("brs:depth=2", "brs:depth=3", "maxn:depth=2", "mcts:simulations=400"),
}
"""The opponents that look ahead, for each number of players."""


def write_policy(run: Learner, path: Path) -> dict[str, Any]:
    """Write a run's policy and its card, which has no results, and return the card."""
    return export(run, path, opponents=())


def write_tables(run: NTupleLearner, path: Path) -> dict[str, Any]:
    """Write a run's tables and their card, which has no results, and return the card."""
    run.ntuples.save(path)
    facts = {"tuples": run.ntuples.tuples, "parameters": int(np.count_nonzero(run.ntuples.weights.astype(np.float16)))}
    packages = ("rolit-env", "numpy", "numba", "safetensors")
    card = describe(run.config.variant, path, path, packages, **facts, **history(run, run.config.workers))
    write_card(card, path.with_suffix(".json"))
    return card


class Kind(NamedTuple):
    """A kind of run.

    Attributes:
        ending: Of the files that are released.
        command: The command line that trains it.
        train: Trains a run in its folder.
        kept_in: The file in a run's folder.
        write: Writes the file of a run that is to be released and its card.
    """

    ending: str
    command: RunCommand
    train: Callable[..., None]
    kept_in: str
    write: Callable[[Any, Path], dict[str, Any]]


KINDS = {
    Learner: Kind(".onnx", train.COMMAND, train.train, checkpoint.FILE_NAME, write_policy),
    NTupleLearner: Kind(".safetensors", ntuple.COMMAND, ntuple.train, ntuple.FILE_NAME, write_tables),
}


def release(runs: Sequence[Run], out: Path, rounds: int = 2000, seed: int = 0, said: str = "") -> dict[str, Any]:
    """Measure the runs, write the file of the median to `out`, card and picture beside it, and return the card.

    The median is that of the mean win shares over all opponents; of an even number of runs the lower one of the middle. There
    is no picture of runs of which one was never evaluated.

    Args:
        runs: At least one.
        out: The file, whose ending tells the kind of the runs.
        rounds: Rounds against each opponent.
        seed: Seed of those rounds.
        said: What the card says of the file's limits, beside what its results do.

    Raises:
        OutputError: when `out` has another ending or can't be written.
        OptionError: for runs that differ in more than their seeds, or less than one round.
        ModelFileError: when the file does not answer as the run does.
    """
    first, *others = map(settings_apart, runs)
    differ = sorted({name for other in others for name in first.keys() | other if first.get(name) != other.get(name)})
    if differ:
        raise OptionError(f"the runs differ in {', '.join(differ)}; allowed are runs that differ in their seeds alone")
    kind, chosen = KINDS[type(runs[0])], runs[0].config.variant
    check_out(out, kind.ending, rounds)
    name = name_of(out)
    picture = out.with_suffix(".png") if all(run.evaluations for run in runs) else None
    with (
        replacing(out.with_suffix(".json")) as card_draft,
        replacing(out) as draft,
        replacing(picture) if picture else nullcontext() as picture_draft,
        TemporaryDirectory() as folder,
    ):
        if picture_draft:
            save_picture(draw(group(runs)), picture_draft)
        files = [Path(folder, f"{number}{kind.ending}") for number in range(len(runs))]
        cards = [kind.write(run, file) for run, file in zip(runs, files, strict=True)]
        agents = [make_agent(str(file)) for file in files]  # what is measured is what is released: halves of float32
        for agent in agents:
            agent.name = name
        results = [measure(agent, chosen, ladder(chosen, kind), rounds, seed) for agent in agents]
        means = [np.mean([result["win_share"][0] for result in played["against"].values()]) for played in results]
        median = int(np.argsort(means)[(len(runs) - 1) // 2])
        shutil.copyfile(files[median], draft)
        card = cards[median] | {"name": out.stem, "picture": picture and picture.name, "results": results[median]}
        card |= {"exam": exams} if (exams := examine(agents[median], chosen)) else {}
        card["seeds"] = [seed_results(run, played) for run, played in zip(runs, results, strict=True)]
        card["limits"] = limits(card, said)
        card["commands"] = {
            "training": training_command(runs[median], out.stem),
            "results": f"make models-check TARGET={name}" if name == out.stem else shlex.join(["rolit", "check", name]),
        }
        write_card(card, card_draft)
    return card


def measure_again(file: Path, rounds: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Play a released file against today's opponents, take today's exams, put that on its card, and return the card.

    What the card says of other seeds stays as it was: there are no files of them.

    Args:
        file: The file, whose card lies beside it.
        rounds: Rounds against each opponent.
        seed: Seed of those rounds.

    Raises:
        ModelFileError: for a file that does not agree with its card, or has none.
        OptionError: for less than one round, or a file that this module has not made.
    """
    kind = next((kind for kind in KINDS.values() if kind.ending == file.suffix), None)
    if kind is None:
        endings = " or ".join(kind.ending for kind in KINDS.values())
        raise OptionError(f"{file} was not released by this; allowed are files that end in {endings}")
    agent = make_agent(str(file))
    check_out(file, kind.ending, rounds)
    card = dict(getattr(agent, "card", {}))
    if missing := {"variant", "results", "seeds", "config"} - card.keys():
        raise OptionError(
            f"the card of {file} lacks {', '.join(sorted(missing))}; allowed are files that were released by this"
        )
    agent.name = name_of(file)
    chosen = variant(**card["variant"])
    of_itself = limits(card)
    said = " ".join(sentence for sentence in card.get("limits", ()) if sentence not in of_itself)
    card["results"] = measure(agent, chosen, ladder(chosen, kind), rounds, seed)
    card |= {"exam": exams} if (exams := examine(agent, chosen)) else {}
    shares = {name: result["win_share"][0] for name, result in card["results"]["against"].items()}
    card["seeds"] = [one | {"win_share": shares} if one["seed"] == card["config"]["seed"] else one for one in card["seeds"]]
    card["limits"] = limits(card, said)
    with replacing(file.with_suffix(".json")) as draft:
        write_card(card, draft)
    return card


def name_of(file: Path) -> str:
    """Return what a released file is called: the short name in the folder of released models, elsewhere its path."""
    return file.stem if file.parent.resolve() == models_folder().resolve() else str(file)


def ladder(chosen: Variant, kind: Kind) -> tuple[str, ...]:
    """Return whom the files of a variant play: for policies that includes the released tables."""
    tables = f"{chosen.name}-ntuple"
    also = (tables,) if kind.ending == ".onnx" and tables in released_files() else ()
    return (*OPPONENTS, *SEARCHES[chosen.players], *also)


def training_command(run: Run, recipe: str) -> str:
    """Return the command that trains such a run again: all of a recipe's seeds, or, without a recipe, this one."""
    command, file = KINDS[type(run)].command, CONFIGS / f"{recipe}.yaml"
    if file.is_file():
        try:
            config, _ = command.settings(["--config", str(file), "--seed", str(run.config.seed)])
            if config == run.config:
                return f"make models TARGET={recipe}"
        except (RolitError, ArgumentError):
            pass  # it is a recipe of another kind
    usual = command.config().to_dict()
    words = command.program.split()
    for name, value in run.config.to_dict().items():
        if value != usual[name]:
            words += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    return shlex.join(words)


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = ArgumentParser(
        prog="python -m training.release",
        description="Release the median of some runs: one file, a card with measured results, a picture of learning curves.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    options.add_argument("runs", type=str, nargs="*", help="folders of runs, of training.train or training.ntuple")
    options.add_argument(
        "--out", type=str | None, help="file to write, such as models/8x8-2p.onnx or models/8x8-2p-ntuple.safetensors"
    )
    options.add_argument("--again", type=str | None, help="in place of runs: a released file, whose card gets new results")
    options.add_argument("--rounds", type=int, default=2000, help="rounds against each opponent for the card")
    options.add_argument("--seed", type=int, default=0, help="seed of those rounds")
    options.add_argument("--limits", type=str, default="", help="what the card says of its limits beside what results say")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.release", lambda: _run(parser().parse_args(argv)))


def _run(options: Namespace) -> int:
    if bool(options.again) == bool(options.runs) or bool(options.again) == bool(options.out):
        raise OptionError("what to release is not clear; allowed are runs with --out FILE, or --again FILE alone")
    if options.again:
        print_results(measure_again(Path(options.again), options.rounds, options.seed)["results"])
        print(f"wrote the card of {options.again}")
        return 0
    runs = [load(Path(run)) for run in options.runs]
    card = release(runs, Path(options.out), options.rounds, options.seed, options.limits)
    print_card(card, Path(options.out))
    return 0


def print_card(card: dict[str, Any], out: Path) -> None:
    """Print what a released file came to."""
    print_results(card["results"])
    beside = f", its card and {card['picture']}" if card["picture"] else " and its card"
    print(f"wrote {out} (seed {card['config']['seed']}){beside}; the figures again: {card['commands']['results']}")


if __name__ == "__main__":
    sys.exit(main())
