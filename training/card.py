"""The card of a released file: a run, the file and an agent that plays it come in, what it is and how it plays goes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rolit_env.adapters import card
from rolit_env.adapters.card import check_out, write_card
from rolit_env.agents import Agent
from training.run import Run

__all__ = ["check_out", "describe", "history", "measure", "print_results", "write_card"]


def describe(run: Run, out: Path, draft: Path, packages: Sequence[str], **about: Any) -> dict[str, Any]:
    """Return the card of a run without results; the arguments are those of `rolit_env.adapters.card.describe`."""
    return card.describe(run.config.variant, out, draft, packages, **about, **history(run))


def history(run: Run) -> dict[str, Any]:
    """Return what a card says of the training."""
    trained = {
        "turns": run.turns,
        "minutes": round(run.seconds / 60, 2),
        "iterations": run.iteration,
        "evaluations": run.evaluations,
    }
    return {"trained": trained, "config": run.config.to_dict(), "commit": run.commit}


def measure(run: Run, agent: Agent, opponents: Sequence[str], rounds: int, seed: int) -> dict[str, Any]:
    """Play the agent against each opponent, as the command that comes with the results does."""
    return card.measure(agent, run.config.variant, opponents, rounds, seed)


def print_results(results: dict[str, Any]) -> None:
    """Print the win share against each opponent."""
    for name, result in results["against"].items():
        print(f"{name:>24}  {result['win_share'][0]:.3f} ± {result['interval'][0]:.3f}  (par {result['par'][0]:.2f})")
