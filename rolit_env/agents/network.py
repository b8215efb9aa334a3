"""Networks from policy files: an ONNX file comes in, the network that it holds goes out, ready for kernels."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.errors import AgentError, ModelFileError
from rolit_env.search.network import EIGHT, Head, Network, join_tables, make_network
from rolit_env.search.patterns import patterns, table_rows
from rolit_env.variant import Variant

KIND = "Afterstates"
"""What cards call the networks that kernels know."""

INSTALL = "install it with: pip install 'rolit-env[play]'"


def holds_network(card: dict[str, Any]) -> bool:
    """Return whether a policy's card says that its network is one that kernels know."""
    network = card.get("network")
    return isinstance(network, dict) and network.get("kind") == KIND


def can_read_networks() -> bool:
    """Return whether there is what it takes to read one."""
    return find_spec("onnx") is not None


def read_network(path: Path, chosen: Variant) -> Network:
    """Return the network in a policy file.

    Raises:
        AgentError: where the library onnx is missing.
        ModelFileError: for a file that holds no such network for this variant.
    """
    try:
        import onnx
    except ImportError:
        raise AgentError(f"the network of a policy file needs onnx; {INSTALL}") from None
    try:
        graph = onnx.load(path, load_external_data=False).graph
        found = {
            tensor.name.removeprefix("network."): np.asarray(onnx.numpy_helper.to_array(tensor), np.float32)
            for tensor in graph.initializer
            if tensor.name.startswith("network.")
        }
    except Exception as error:  # what protobuf and onnx raise for a bad file has no common base class
        raise ModelFileError(f"{path} is no ONNX file whose network can be read ({str(error).splitlines()[0]})") from None
    return assemble_network(found, chosen, str(path))


def assemble_network(weights: Mapping[str, npt.NDArray[np.float32]], chosen: Variant, whose: str) -> Network:
    """Return a network for kernels.

    Args:
        weights: By their names in `training.afterstate.Afterstates`, float32.
        chosen: The variant that it is for.
        whose: What an error calls them.

    Raises:
        ModelFileError: for weights of another network, or of one for another variant.
    """
    tables = [weights.get(f"{name}_table.weight", np.zeros((0, 0), np.float32)) for name in ("turn", "value")]
    size, width = table_rows(chosen.size), tables[0].shape[-1]
    if not width or width % EIGHT or any(table.shape != (size, width) for table in tables):
        raise ModelFileError(
            f"{whose} holds no network of afterstates for {chosen.name}, which has two tables of {size} rows, "
            f"their width a multiple of {EIGHT}"
        )
    if not all(np.isfinite(tensor).all() for tensor in weights.values()):
        raise ModelFileError(f"{whose} must hold finite weights alone")
    seats = weights.get("seat_values", np.zeros(chosen.players, np.float32))
    turn, value = (_head(weights, name, width) for name in ("turn", "value"))
    if turn is None or value is None or seats.shape != (chosen.players,):
        raise ModelFileError(f"{whose} holds no network of afterstates for {chosen.name}; its heads are other ones")
    rows = join_tables(tables[0], tables[1], chosen.size)
    return make_network(patterns(chosen.size), rows, turn, value, np.pad(seats, (0, 4 - chosen.players)))


def _head(weights: Mapping[str, npt.NDArray[np.float32]], name: str, width: int) -> Head | None:
    """Return a head of the network, or None where its layers do not fit."""
    nothing = np.zeros(0, np.float32)
    hidden, out = (weights.get(f"{name}_head.{layer}.weight", nothing) for layer in (1, 3))
    units = len(hidden)
    hidden_bias = weights.get(f"{name}_head.1.bias", np.zeros(units, np.float32))
    out_bias = weights.get(f"{name}_head.3.bias", np.zeros(1, np.float32))
    if not units or (hidden.shape, hidden_bias.shape, out.shape, out_bias.shape) != (
        (units, width),
        (units,),
        (1, units),
        (1,),
    ):
        return None
    return Head(np.concatenate([hidden, hidden_bias[:, None]], axis=1), np.concatenate([out[0], out_bias]))
