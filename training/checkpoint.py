"""A run on disk: a learner goes in, one safetensors file comes out, and back, bit for bit.

Tensors hold the network, Adam's moments and the snapshots; the file's metadata holds the rest as JSON: settings,
counters, the random state and the results so far. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from rolit_env.errors import CheckpointError, OutputError, RolitError
from rolit_env.files import replacing
from training.config import TrainConfig
from training.learner import Learner
from training.run import read_checkpoint

FILE_NAME = "checkpoint.safetensors"
FORMAT = "rolit-checkpoint-1"
MOMENTS = ("exp_avg", "exp_avg_sq")


def save_checkpoint(learner: Learner, run: Path) -> Path:
    """Write the learner into the run's folder, to a temporary name first. Raises `OutputError`."""
    tensors = {f"network.{name}": tensor for name, tensor in learner.network.state_dict().items()}
    for index, state in learner.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
    for index, snapshot in enumerate(learner.pool.snapshots):
        tensors |= {f"snapshot.{index}.{name}": tensor for name, tensor in snapshot.items()}
    state = {
        **learner.state(),
        "rng": learner.rng.bit_generator.state,
        "snapshots": len(learner.pool.snapshots),
    }
    path = run / FILE_NAME
    with replacing(path) as draft:
        try:
            save_file(tensors, draft, metadata={"format": FORMAT, "state": json.dumps(state)})
        except (OSError, SafetensorError) as error:
            raise OutputError(f"the checkpoint {path} can't be written ({error})") from None
    return path


def load_checkpoint(run: Path, **budget: float) -> Learner:
    """Bring a learner back, with another budget (`minutes`, `turns`) if wanted.

    Raises:
        CheckpointError: for a file that is missing, cut short, foreign, or does not hold what its settings ask for.
    """
    path = run / FILE_NAME
    tensors, state = read_checkpoint(path, FORMAT, "pt")
    try:
        config = TrainConfig.from_dict(state["config"] | budget)
        learner = Learner.fresh(config)
        learner.set_counters(state)
        learner.rng.bit_generator.state = state["rng"]
        learner.network.load_state_dict(_group(tensors, "network."))
        learner.pool.snapshots = [_group(tensors, f"snapshot.{index}.") for index in range(state["snapshots"])]
        for snapshot in learner.pool.snapshots:
            for name, tensor in learner.network.state_dict().items():
                if snapshot[name].shape != tensor.shape:
                    raise KeyError(f"a snapshot's {name} has shape {tuple(snapshot[name].shape)}")
                snapshot[name] = snapshot[name].to(learner.device)
        _load_optimizer(learner, tensors)
    except RolitError as error:
        raise CheckpointError(f"{path} can't go on with these settings: {error}") from None
    except (KeyError, TypeError, ValueError, RuntimeError) as error:  # RuntimeError: the network's shapes or names
        raise CheckpointError(f"{path} does not hold what its settings ask for ({str(error).splitlines()[0]})") from None
    return learner


def _load_optimizer(learner: Learner, tensors: dict[str, Tensor]) -> None:
    saved = learner.optimizer.state_dict()
    parameters = [(group, parameter) for group in learner.optimizer.param_groups for parameter in group["params"]]
    for index, (group, parameter) in enumerate(parameters):
        state = _group(tensors, f"optimizer.{index}.")
        if state:
            shapes = {"step": parameter.shape[:1] if group.get("lazy") else (), **dict.fromkeys(MOMENTS, parameter.shape)}
            for name, shape in shapes.items():
                if state[name].shape != shape:
                    raise KeyError(f"optimizer.{index}.{name} has shape {tuple(state[name].shape)}")
            saved["state"][index] = {name: state[name] for name in shapes}
    learner.optimizer.load_state_dict(saved)


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
