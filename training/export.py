"""A trained run goes in, a policy file that plays anywhere without torch comes out, with its card.

    python -m training.export runs/8x8-2p --out models/8x8-2p.onnx

The graph takes the environment's own observations, `planes` int8 [N, 4, n, n] and `mask` int8 [N, A], of any number of
positions N, and gives `logits`, float32 [N, A], finite but hopeless on illegal cells, and `values`, float32 [N, P], the
mover's first.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import shlex
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.agents import PolicyAgent
from rolit_env.agents.policy import OBSERVATION_VERSION
from rolit_env.errors import ModelFileError, OptionError, OutputError
from rolit_env.files import replacing
from training.checkpoint import load_checkpoint
from training.command import run_command
from training.learner import Learner
from training.network import ILLEGAL, position_words
from training.run import OPPONENTS

TOLERANCE = 1e-3
"""Largest difference between torch and onnxruntime that is put down to the order of float32 sums."""


def export(learner: Learner, out: Path, rounds: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Write the policy to `out` and its card beside it, and return the card.

    The exported file is compared with the network on real positions, then plays `rounds` rounds against each scripted
    agent, all before anything appears under its final name.

    Raises:
        OutputError: when `out` does not end in `.onnx` or can't be written.
        ModelFileError: when onnxruntime and torch do not agree.
    """
    if out.suffix != ".onnx":
        raise OutputError(f"{out} must end in .onnx")
    if rounds < 1:
        raise OptionError(f"rounds={rounds} is too few; allowed are ints from 1 up")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out} can't be written ({error.strerror})") from None
    # The drafts lie side by side under one name, as policy and card do.
    with replacing(out.with_suffix(".json")) as card_draft, replacing(out) as draft:
        _write_graph(learner, draft)
        card = _describe(learner, out, draft)
        _write_card(card, card_draft)
        exported = PolicyAgent(draft)
        check_parity(learner, exported)
        card["results"] = _measure(learner, exported, out, rounds, seed)
        _write_card(card, card_draft)
    return card


def check_parity(learner: Learner, exported: PolicyAgent, games: int = 256, seed: int = 0) -> float:
    """Compare the file with the network in float32 on every turn of random rounds, one position alone and many at once.

    Returns the largest difference seen. Raises `ModelFileError` when it is above `TOLERANCE`.
    """
    config = learner.config
    rng = np.random.default_rng(seed)
    batch = GameBatch(games, size=config.size, players=config.players, seed=rng)
    worst = 0.0
    while not batch.done:
        for positions in (batch, batch[:1], batch[:7]):
            with torch.no_grad():
                expected = [answer.cpu() for answer in learner.network(position_words(positions).to(learner.device))]
            for found, wanted in zip(exported.evaluate(positions), expected, strict=True):
                # Not a number compares as no difference, so it is ruled out first.
                difference = np.abs(found - wanted.numpy()).max() if np.isfinite(found).all() else np.inf
                worst = max(worst, float(difference))
        if not worst <= TOLERANCE:
            raise ModelFileError(
                f"onnxruntime and torch differ by {worst:.2g} at turn {batch.ply + 1}, more than the {TOLERANCE:g} allowed; "
                "nothing was exported"
            )
        batch.step(batch.random_actions(rng))
    return worst


class _Observed(nn.Module):
    """The network behind the inputs that are exported."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.network = learner.network

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.from_planes(planes.float(), mask.float())


def _write_graph(learner: Learner, path: Path) -> None:
    games = GameBatch(2, size=learner.config.size, players=learner.config.players, seed=0)
    example = tuple(torch.from_numpy(array).to(learner.device) for array in (games.planes(), games.legal_mask()))
    positions = torch.export.Dim("positions")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own internals
        program = torch.onnx.export(
            _Observed(learner).eval(),
            example,
            input_names=["planes", "mask"],
            output_names=["logits", "values"],
            dynamic_shapes={"planes": {0: positions}, "mask": {0: positions}},
            dynamo=True,
            verbose=False,
        )
    model = program.model_proto
    # The exporter notes for each node the lines and folders of the source it came from; they are nobody's business.
    for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, path)  # weights and all in the one file


def _describe(learner: Learner, out: Path, model_path: Path) -> dict[str, Any]:
    config = learner.config
    return {
        "name": out.stem,
        "variant": {"size": config.size, "players": config.players},
        "observation_version": OBSERVATION_VERSION,
        "illegal_logit": ILLEGAL,
        "network": {
            "kind": type(learner.network).__name__,
            "parameters": sum(parameter.numel() for parameter in learner.network.parameters()),
        },
        "trained": {
            "turns": learner.turns,
            "minutes": round(learner.seconds / 60, 2),
            "iterations": learner.iteration,
            "evaluations": learner.evaluations,
        },
        "config": config.to_dict(),
        "commit": learner.commit,
        "versions": {name: version(name) for name in ("rolit-env", "torch", "numpy", "onnx")}
        | {"python": platform.python_version()},
        "sha256": hashlib.sha256(model_path.read_bytes()).hexdigest(),
    }


def _measure(learner: Learner, agent: PolicyAgent, out: Path, rounds: int, seed: int) -> dict[str, Any]:
    """Play the exported file against each scripted agent, as the command noted beside the results does."""
    config = learner.config
    command = ["rolit", "evaluate", str(out), "--against", *OPPONENTS, "--size", str(config.size)]
    command += ["--players", str(config.players), "--rounds", str(rounds), "--seed", str(seed)]
    results = {}
    agent.name = str(out)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for name in OPPONENTS:
            task = progress.add_task(f"against {name}")
            results[name] = play_rounds(
                [agent, make_agent(name)],
                rounds,
                size=config.size,
                players=config.players,
                seed=seed,
                progress=lambda played, total, task=task: progress.update(task, completed=played, total=total),
            ).to_dict()
    return {"command": shlex.join(command), "against": results}


def _write_card(card: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = ArgumentParser(
        prog="python -m training.export",
        description="Export a run's policy to one ONNX file and a card with its measured results.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    options.add_argument("run", type=str, help="folder of the run")
    options.add_argument("--out", type=str, required=True, help="file to write, such as models/8x8-2p.onnx")
    options.add_argument("--rounds", type=int, default=2000, help="rounds against each scripted agent for the card")
    options.add_argument("--seed", type=int, default=0, help="seed of those rounds")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.export", lambda: _run(parser().parse_args(argv)))


def _run(options: Namespace) -> int:
    card = export(load_checkpoint(Path(options.run)), Path(options.out), options.rounds, options.seed)
    for name, result in card["results"]["against"].items():
        print(f"{name:>12}  {result['win_share'][0]:.3f} ± {result['interval'][0]:.3f}  (par {result['par'][0]:.2f})")
    print(f"wrote {options.out} and its card; the figures again: {card['results']['command']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
