"""A trained run goes in, a policy file that plays anywhere without torch comes out, with its card.

    python -m training.export runs/8x8-2p --out models/8x8-2p.onnx

What the file takes and gives stands in `rolit_env.adapters.export`, which exports networks of any origin.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from torch import Tensor, nn

from rolit_env import GameBatch
from rolit_env.adapters.export import Answers, write_graph
from rolit_env.adapters.export import check_parity as parity
from rolit_env.agents import PolicyAgent
from rolit_env.agents.policy import OBSERVATION_VERSION
from rolit_env.files import replacing
from training.card import check_out, describe, measure, print_results, write_card
from training.checkpoint import load_checkpoint
from training.command import run_command
from training.learner import Learner
from training.network import ILLEGAL, position_words
from training.run import OPPONENTS


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
    """Compare the file with the network in float32, which trains on words, as `rolit_env.adapters.export` does."""

    @torch.no_grad()
    def evaluate(positions: GameBatch) -> Answers:
        logits, values = learner.network(position_words(positions).to(learner.device))
        return logits.cpu().numpy(), values.cpu().numpy()

    return parity(evaluate, exported, games, seed)


class _Observed(nn.Module):
    """The network behind the inputs that are exported."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.network = learner.network

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.from_planes(planes.float(), mask.float())


def _write_graph(learner: Learner, path: Path) -> None:
    write_graph(_Observed(learner), path, learner.config.variant)


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
