"""A recipe goes in, a policy file comes out, in one command: trains, evaluates, exports, evaluates the file without torch.

python -m training.demo
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser
from jsonargparse.typing import PositiveInt
from rich.console import Console
from rich.table import Table

from rolit_env import make_agent, play_rounds
from training.agent import NetworkAgent
from training.checkpoint import FILE_NAME, load_checkpoint
from training.command import run_command, stop_on_interrupt
from training.config import OPPONENTS
from training.export import export
from training.learner import Learner
from training.release import SEARCHES
from training.train import COMMAND, train

SEED = 0
"""Seed of all evaluations, so that the network, the file and its card play the same openings."""

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from rolit_env.cli import main; sys.exit(main(sys.argv[1:]))"
"""A program that is the `rolit` command, except that importing torch fails."""


def demo(config: Path, run: Path, minutes: float, rounds: int) -> bool:
    """Run all steps, each said aloud; return False when the person stopped the training."""
    console = Console(markup=False, highlight=False)
    learner = _learner(config, run, minutes, console)
    if not learner.finished:
        console.rule(f"1. Training {learner.config.variant.name} by self-play, {learner.config.minutes:g} minutes")
        with stop_on_interrupt() as should_stop:
            train(learner, run, should_stop)
        if not learner.finished:
            console.print(f"Stopped; the same command goes on where this run stands ({run}).")
            return False

    variant = learner.config.variant
    opponents = (*OPPONENTS, SEARCHES[variant.players][1])
    console.rule(f"2. The network against the scripted agents and a search, {rounds} rounds each")
    agent = NetworkAgent(learner)
    network = {
        name: play_rounds([agent, make_agent(name)], rounds, size=variant.size, players=variant.players, seed=SEED).to_dict()
        for name in opponents
    }

    policy = run / "policy.onnx"
    console.rule(f"3. Exporting it to {policy}")
    export(learner, policy, rounds, SEED)

    console.rule("4. The exported file, in a process that can't import torch")
    exported = _evaluate_without_torch(policy, opponents, rounds, learner)

    console.rule("Results")
    console.print(_table(network, exported, rounds, learner))
    console.print(f"\nThe policy is {policy}, its card {policy.with_suffix('.json')}. What to try next:\n", soft_wrap=True)
    against = f"--size {variant.size} --players {variant.players}"
    for command, purpose in (
        (f"rolit play --against {policy} {against}", "play against it yourself"),
        (f"rolit evaluate {policy} --against positional {against}", "measure it again"),
        (f"python -m training.train --resume {run} --minutes {2 * minutes:g}", "train on"),
        ("python -m training.train --config configs/8x8-4p.yaml --minutes 8", "train four players"),
    ):
        console.print(f"  .venv/bin/{command}", soft_wrap=True)
        console.print(f"      {purpose}", style="dim")
    return True


def _learner(config: Path, run: Path, minutes: float, console: Console) -> Learner:
    """Bring back the learner of an earlier call, or start one."""
    if not (run / FILE_NAME).exists():
        return COMMAND.prepare(["--config", str(config), "--run", str(run), "--minutes", str(minutes)])[0]
    learner = load_checkpoint(run, minutes=minutes, turns=0)
    console.print(
        f"Found {run} with {learner.seconds / 60:.1f} minutes of training; going on with it (remove it to start anew)."
    )
    return learner


def _evaluate_without_torch(policy: Path, opponents: Sequence[str], rounds: int, learner: Learner) -> dict[str, Any]:
    config = learner.config
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = ["evaluate", str(policy), "--against", *opponents, "--size", str(config.size), "--seed", str(SEED)]
        command += ["--players", str(config.players), "--rounds", str(rounds), "--json", str(report)]
        subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *command], check=True, stdout=subprocess.DEVNULL)
        results = json.loads(report.read_text(encoding="utf-8"))["results"]
    return dict(zip(opponents, results, strict=True))


def _table(network: dict[str, Any], exported: dict[str, Any], rounds: int, learner: Learner) -> Table:
    table = Table(
        title=f"win share over {rounds} rounds, every seat equally often, 95 % intervals",
        caption=f"{learner.turns:,} turns in {learner.seconds / 60:.1f} minutes of training",
    )
    table.add_column("against")
    for column in ("the network", "its file, no torch", "its balls", "tied"):
        table.add_column(column, justify="right")
    for name in network:
        before, after = network[name], exported[name]
        table.add_row(name, _share(before), _share(after), f"{after['balls'][0]:.1f}", f"{after['tied']:.1%}")
    return table


def _share(result: dict[str, Any]) -> str:
    return f"{result['win_share'][0]:.3f} ± {result['interval'][0]:.3f}"


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, 1 when stopped, or 2 after one line about what was wrong with it."""
    parser = ArgumentParser(
        prog="python -m training.demo",
        description="Train, evaluate and export a policy.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=str, default="configs/8x8-2p.yaml", help="settings of the training")
    parser.add_argument("--run", type=str, default="runs/demo", help="folder for the run and the exported policy")
    parser.add_argument("--minutes", type=float, default=8.0, help="training time")
    parser.add_argument("--rounds", type=PositiveInt, default=2000, help="rounds of each evaluation")

    def body() -> int:
        options = parser.parse_args(argv)
        return 0 if demo(Path(options.config), Path(options.run), options.minutes, options.rounds) else 1

    return run_command("training.demo", body)


if __name__ == "__main__":
    sys.exit(main())
