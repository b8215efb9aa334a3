"""What every kind of training run keeps count of: settings and a budget come in, how far it is comes out."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolit_env import make_agent, play_rounds
from rolit_env.agents import Agent
from training.config import RunConfig

OPPONENTS = ("random", "greedy", "positional")
"""The agents that a run is measured against."""


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
        """Play `OPPONENTS`, note the win shares in `evaluations`, and return them."""
        config = self.config
        shares = {}
        for name in OPPONENTS:
            result = play_rounds(
                [agent, make_agent(name)], config.evaluate_rounds, size=config.size, players=config.players, seed=config.seed
            )
            shares[name] = float(result.win_share[0])
        self.evaluations.append({"turns": self.turns, "seconds": self.seconds, "win_share": shares})
        return shares
