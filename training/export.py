"""A trained run goes in, a policy file that plays anywhere without torch comes out, with its card.

    python -m training.export runs/8x8-2p --out models/8x8-2p.onnx

The graph takes the environment's own observations, `planes` int8 [N, 4, n, n] and `mask` int8 [N, A], of any number of
positions N, and gives `logits`, float32 [N, A], finite but hopeless on illegal cells, and `values`, float32 [N, P], the
mover's first.
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from jsonargparse import ArgumentParser, Namespace
from torch import Tensor, nn

from rolit_env import GameBatch
from rolit_env.agents import PolicyAgent
from rolit_env.agents.policy import OBSERVATION_VERSION
from rolit_env.errors import ModelFileError
from rolit_env.files import replacing
from training.card import check_out, describe, measure, print_results, write_card
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
    check_out(out, ".onnx", rounds)
    # The drafts lie side by side under one name, as policy and card do.
    with replacing(out.with_suffix(".json")) as card_draft, replacing(out) as draft:
        _write_graph(learner, draft)
        card = describe(
            learner,
            out,
            draft,
            ("rolit-env", "torch", "numpy", "onnx"),
            observation_version=OBSERVATION_VERSION,
            illegal_logit=ILLEGAL,
            network={
                "kind": type(learner.network).__name__,
                "parameters": sum(parameter.numel() for parameter in learner.network.parameters()),
            },
        )
        write_card(card, card_draft)
        exported = PolicyAgent(draft)
        check_parity(learner, exported)
        exported.name = str(out)
        card["results"] = measure(learner, exported, OPPONENTS, rounds, seed)
        write_card(card, card_draft)
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
    print_results(card["results"])
    print(f"wrote {options.out} and its card; the figures again: {card['results']['command']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
