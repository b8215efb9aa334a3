"""A trained run goes in, a policy file that plays anywhere without torch comes out, with its card.

    python -m training.export runs/8x8-2p --out models/8x8-2p.onnx

What the file takes and gives stands in `rolit_env.adapters.export`, which exports networks of any origin.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from torch import Tensor, nn

from rolit_env import GameBatch
from rolit_env.adapters.export import Answers, describe_network, write_policy
from training.card import history, print_results
from training.checkpoint import load_checkpoint
from training.command import run_command
from training.config import OPPONENTS
from training.learner import Learner
from training.network import Network, position_words


def export(
    learner: Learner, out: Path, rounds: int = 2000, seed: int = 0, opponents: Sequence[str] = OPPONENTS
) -> dict[str, Any]:
    """Write the policy to `out` and its card beside it, and return the card.

    The exported file is compared with the network on real positions, then plays `rounds` rounds against each opponent, all
    before anything appears under its final name.

    Raises:
        OutputError: when `out` does not end in `.onnx` or can't be written.
        ModelFileError: when onnxruntime and torch do not agree.
    """
    network = copy.deepcopy(learner.network).cpu()
    for module in network.modules():
        if isinstance(module, nn.Embedding):
            module.half()  # tables are most of the file
    return write_policy(
        _Observed(network),
        _evaluate(copy.deepcopy(network).float()),
        out,
        learner.config.variant,
        opponents=opponents,
        rounds=rounds,
        seed=seed,
        network=describe_network(network),
        **history(learner, torch.get_num_threads()),
    )


def _evaluate(network: Network) -> Callable[[GameBatch], Answers]:
    """Return the network as it is in training, on words, which the file's planes are to agree with."""

    @torch.no_grad()
    def evaluate(games: GameBatch) -> Answers:
        logits, values = network(position_words(games))
        return logits.numpy(), values.numpy()

    return evaluate


class _Observed(nn.Module):
    """The network behind the inputs that are exported."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.from_planes(planes.float(), mask.float())


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
