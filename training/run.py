"""What every kind of training run keeps count of: settings and a budget come in, how far it is comes out."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from rolit_env import make_agent, play_rounds
from rolit_env.agents import Agent
from rolit_env.errors import CheckpointError, ConfigError, VariantError
from rolit_env.variant import Variant
from training.config import RunConfig

COUNTERS = {"iteration": int, "turns": int, "seconds": float, "evaluations": list, "commit": str | None}
"""What is kept of a `Run` beside its settings, and of which type each is."""


def current_commit() -> str | None:
    """Return the checkout's commit, marked when files differ from it; None outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


@dataclass(kw_only=True)
class Run:
    """How far a run is.

    Attributes:
        config: The settings.
        iteration: Batches of rounds learnt from.
        turns: Turns played, random openings included.
        seconds: Training time, evaluation included.
        evaluations: Results over time, oldest first: turns, seconds and win share against each opponent.
        commit: The checkout's commit when the run was started, None outside a checkout.
    """

    config: RunConfig
    iteration: int = 0
    turns: int = 0
    seconds: float = 0.0
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    commit: str | None = field(default_factory=current_commit)

    def state(self) -> dict[str, Any]:
        """Return settings and counters, ready for JSON."""
        return {"config": self.config.to_dict(), **{name: getattr(self, name) for name in COUNTERS}}

    def set_counters(self, state: dict[str, Any]) -> None:
        """Take the counters from what `state` gave. Raises `KeyError` or `TypeError` for what it can't have given."""
        for name, kind in COUNTERS.items():
            if not isinstance(state[name], kind):
                raise TypeError(f"{name} is {state[name]!r}")
            setattr(self, name, state[name])

    @property
    def progress(self) -> float:
        """Part of the budget that is used up, 0 to 1."""
        config = self.config
        used = self.turns / config.turns if config.turns else self.seconds / (60 * config.minutes)
        return min(used, 1.0)

    @property
    def finished(self) -> bool:
        """Whether the budget is used up."""
        return self.progress == 1.0

    def evaluate(self, agent: Agent) -> dict[str, float]:
        """Play `evaluate_against`, note the win shares in `evaluations`, and return them. Raises as `opponent_for` does."""
        config = self.config
        shares = {}
        for name in config.evaluate_against:
            opponent = opponent_for(name, config.variant)
            result = play_rounds(
                [agent, opponent], config.evaluate_rounds, size=config.size, players=config.players, seed=config.seed
            )
            shares[name] = float(result.win_share[0])
        self.evaluations.append({"turns": self.turns, "seconds": self.seconds, "win_share": shares})
        return shares


def opponent_for(description: str, chosen: Variant) -> Agent:
    """Return an agent that takes part in the training of a variant.

    Raises `ConfigError` when it can't play that, and `RolitError` for a description that names no agent.
    """
    agent = make_agent(description)
    try:
        agent.check_variant(chosen)
    except VariantError as error:
        raise ConfigError(f"{description} is of no use in this training: {error}") from None
    return agent


def check_opponents(config: RunConfig) -> None:
    """Raise what `opponent_for` raises for an agent that a run is to be measured against."""
    for description in config.evaluate_against:
        opponent_for(description, config.variant)


def read_checkpoint(path: Path, mark: str, framework: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors and the state in a run's file.

    Args:
        path: The file.
        mark: The format that its metadata must name.
        framework: Of the tensors: `pt` or `numpy`.

    Raises:
        CheckpointError: for a file that is missing, cut short or foreign.
    """
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}; name the folder of a run that has saved one")
    try:
        with safe_open(path, framework=framework) as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if framework == "pt":  # those are views of the file, which may change or shrink while we go on
                tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        state = json.loads(metadata["state"]) if metadata.get("format") == mark else None
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path} is cut short or no safetensors file ({error})") from None
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} is no checkpoint of this trainer (it lacks the mark {mark})")
    return tensors, state
