"""A trained network of any origin goes in, a policy file that plays anywhere without torch comes out, with its card.

The graph takes the environment's own observations, `planes` int8 [N, 4, n, n] and `mask` int8 [N, A], of any number of
positions N, and gives `logits`, float32 [N, A], finite but hopeless on illegal cells, and `values`, float32 [N, P], the
mover's first.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnxscript.function_libs.torch_lib.ops.core import aten_bitwise_left_shift, aten_bitwise_right_shift
from torch import Tensor, nn

from rolit_env.adapters.card import check_out, describe, measure, write_card
from rolit_env.adapters.masked import ILLEGAL, masked_logits
from rolit_env.agents import PolicyAgent
from rolit_env.agents.policy import OBSERVATION_VERSION
from rolit_env.batch import GameBatch
from rolit_env.errors import ModelFileError, OptionError
from rolit_env.files import replacing
from rolit_env.variant import Variant, variant

Answers = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

SHIFTS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.aten.__lshift__.Tensor: aten_bitwise_left_shift,
    torch.ops.aten.__rshift__.Tensor: aten_bitwise_right_shift,
}
"""What the exporter knows by other names alone."""

TOLERANCE = 1e-3
"""Largest difference between torch and onnxruntime that is put down to the order of float32 sums."""


def export_policy(
    module: nn.Module,
    out: str | Path,
    *,
    size: int,
    players: int,
    library: str,
    versions: Sequence[str] = (),
    about: dict[str, Any] | None = None,
    opponents: Sequence[str] = ("random", "greedy", "positional"),
    rounds: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """Write the policy of a network to `out` and its card beside it, and return the card.

    A copy of the network is exported, compared with the file on real positions, and the file then plays `rounds` rounds
    against each opponent, all before anything appears under its final name.

    Args:
        module: Takes planes, int8 [N, 4, n, n], and mask, int8 [N, A], and returns logits, float [N, A], and values, float
            [N, P], the mover's first, or only the mover's, [N] or [N, 1]: the others then share what it loses.
        out: The file, which must end in `.onnx`.
        size: Side of the board it was trained for.
        players: Players it was trained for.
        library: What trained it.
        versions: Packages whose installed versions the card notes, beside those that export.
        about: What the card says of the training, as JSON has it: turns, seconds, settings.
        opponents: Who it plays for the card.
        rounds: Rounds against each of them.
        seed: Seed of those rounds.

    Raises:
        VariantError: for another size or player count.
        OutputError: when `out` does not end in `.onnx` or can't be written.
        OptionError: for less than one round, or answers of another shape.
        ModelFileError: when onnxruntime and torch do not agree.
    """
    chosen = variant(size, players)
    policy = _Policy(module, players)
    _, values = policy.evaluate(GameBatch(3, size=size, players=players))  # here errors are clearer than in the exporter
    if values.shape != (3, players):
        wanted = f"(3, {players}), (3, 1) or (3,)"
        raise OptionError(f"the values of 3 positions must have the shape {wanted}; those of {library} have {values.shape}")
    return write_policy(
        policy,
        policy.evaluate,
        Path(out),
        chosen,
        versions=versions,
        opponents=opponents,
        rounds=rounds,
        seed=seed,
        network=describe_network(module),
        library=library,
        trained=about or {},
    )


def write_policy(
    graph: nn.Module,
    evaluate: Callable[[GameBatch], Answers],
    out: Path,
    chosen: Variant,
    *,
    versions: Sequence[str] = (),
    opponents: Sequence[str],
    rounds: int,
    seed: int,
    **about: Any,
) -> dict[str, Any]:
    """Write what takes and gives what the file does, as `export_policy` does, for which it does the work.

    Args:
        graph: Takes and gives what the file does.
        evaluate: Gives what the file is to answer to a batch, as `PolicyAgent.evaluate` does.
        out: The file, which must end in `.onnx`.
        chosen: The variant it plays.
        versions: Packages whose installed versions the card notes, beside those that export.
        opponents: Who it plays for the card.
        rounds: Rounds against each of them.
        seed: Seed of those rounds.
        about: What else the card says.

    Raises as `export_policy` does.
    """
    check_out(out, ".onnx", rounds)
    # The drafts lie side by side under one name, as policy and card do.
    with replacing(out.with_suffix(".json")) as card_draft, replacing(out) as draft:
        write_graph(graph, draft, chosen)
        facts = {"observation_version": OBSERVATION_VERSION, "illegal_logit": ILLEGAL, **about}
        card = describe(chosen, out, draft, ("rolit-env", "torch", "numpy", "onnx", *versions), **facts)
        write_card(card, card_draft)
        exported = PolicyAgent(draft)
        check_parity(evaluate, exported)
        exported.name = str(out)
        card["results"] = measure(exported, chosen, opponents, rounds, seed)
        write_card(card, card_draft)
    return card


def describe_network(module: nn.Module) -> dict[str, Any]:
    """Return what the card says of a network: its kind and the number of its parameters."""
    return {"kind": type(module).__name__, "parameters": sum(parameter.numel() for parameter in module.parameters())}


def write_graph(module: nn.Module, path: Path, chosen: Variant) -> None:
    """Write a network that takes and gives what the file does as an ONNX graph, wherever its weights are.

    Raises `ModelFileError` when the graph would take no more and no fewer positions than the example it was made with.
    """
    games = GameBatch(2, size=chosen.size, players=chosen.players, seed=0)
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    example = tuple(torch.from_numpy(array).to(device) for array in (games.planes(), games.legal_mask()))
    positions = torch.export.Dim("positions")
    for name in ("torch.onnx", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own internals
        program = torch.onnx.export(
            module.eval(),
            example,
            input_names=["planes", "mask"],
            output_names=["logits", "values"],
            dynamic_shapes={"planes": {0: positions}, "mask": {0: positions}},
            custom_translation_table=SHIFTS,
            dynamo=True,
            verbose=False,
        )
    assert program is not None  # it is None for the exporter without dynamo
    model = program.model_proto
    if not all(node.type.tensor_type.shape.dim[0].dim_param for node in (*model.graph.input, *model.graph.output)):
        raise ModelFileError(
            "the network's code fixes the number of positions, as len(planes) does where planes.shape[0] would not; "
            "nothing was exported"
        )
    # The exporter notes for each node the lines and folders of the source it came from; they are nobody's business.
    for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, path)  # weights and all in the one file


def check_parity(evaluate: Callable[[GameBatch], Answers], exported: PolicyAgent, games: int = 256, seed: int = 0) -> float:
    """Compare a file with what was exported on every turn of random rounds, one position alone and many at once.

    Args:
        evaluate: Gives the logits and values of a batch that are wanted, as `PolicyAgent.evaluate` does.
        exported: The file.
        games: Rounds to play.
        seed: Seed of the rounds.

    Returns the largest difference seen. Raises `ModelFileError` when it is above `TOLERANCE`.
    """
    rng = np.random.default_rng(seed)
    batch = GameBatch(games, size=exported.variant.size, players=exported.variant.players, seed=rng)
    worst = 0.0
    while not batch.done:
        for positions in (batch, batch[:1], batch[:7]):
            for found, wanted in zip(exported.evaluate(positions), evaluate(positions), strict=True):
                # Not a number compares as no difference, so it is ruled out first.
                difference = np.abs(found - wanted).max() if np.isfinite(found).all() else np.inf
                worst = max(worst, float(difference))
        if not worst <= TOLERANCE:
            raise ModelFileError(
                f"onnxruntime and torch differ by {worst:.2g} at turn {batch.ply + 1}, more than the {TOLERANCE:g} allowed; "
                "nothing was exported"
            )
        batch.step(batch.random_actions(rng))
    return worst


class _Policy(nn.Module):
    """A frozen copy of a network that answers as exported policies do."""

    def __init__(self, module: nn.Module, players: int) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).cpu().eval()
        self.players = players

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        logits, values = self.module(planes, mask)
        mover = values.float().reshape(values.shape[0], -1)
        if mover.shape[1] == 1:
            mover = torch.cat([mover, (-mover / (self.players - 1)).expand(-1, self.players - 1)], dim=1)
        return masked_logits(logits.float(), mask), mover

    @torch.no_grad()
    def evaluate(self, games: GameBatch) -> Answers:
        logits, values = self(torch.from_numpy(games.planes()), torch.from_numpy(games.legal_mask()))
        return logits.numpy(), values.numpy()
