"""The card of a released file: runs and results come in, what the file is, how it plays and what it is not for go out."""

from __future__ import annotations

import math
from typing import Any

from rolit_env.adapters.card import check_out, describe, measure, write_card
from rolit_env.agents import Agent
from rolit_env.bench.machine import describe as describe_machine
from rolit_env.exam import take_exam
from rolit_env.variant import Variant
from training.run import Run

__all__ = ["check_out", "describe", "examine", "history", "limits", "measure", "print_results", "seed_results", "write_card"]


def history(run: Run, threads: int) -> dict[str, Any]:
    """Return what a card says of the training, and of the machine, which is taken to be that of the training."""
    trained = {
        "turns": run.turns,
        "minutes": round(run.seconds / 60, 2),
        "iterations": run.iteration,
        "evaluations": run.evaluations,
    }
    machine = describe_machine()
    machine = {name: machine[name] for name in ("processor", "features", "cores", "system")} | {"threads": threads}
    return {"trained": trained, "config": run.config.to_dict(), "commit": run.commit, "machine": machine}


def seed_results(run: Run, results: dict[str, Any]) -> dict[str, Any]:
    """Return what the card of the run that is released says of another seed, or of itself beside the others."""
    return {
        "seed": run.config.seed,
        "minutes": round(run.seconds / 60, 2),
        "turns": run.turns,
        "win_share": {name: result["win_share"][0] for name, result in results["against"].items()},
    }


def examine(agent: Agent, chosen: Variant) -> list[dict[str, Any]]:
    """Return the results of all exams there are of a variant: none but for two players, on 4x4 one for each starter."""
    if chosen.players != 2:
        return []
    starters = chosen.colors if chosen.size == 4 else chosen.colors[:1]
    return [take_exam(agent, size=chosen.size, starter=starter).to_dict() for starter in starters]


def limits(card: dict[str, Any], said: str = "") -> list[str]:
    """Return sentences about what a file is not for and whom it does not beat, from the results on its card.

    Args:
        card: The card, with `results`, and `exam` if there is one.
        said: What else there is to say.
    """
    size, players = card["variant"]["size"], card["variant"]["players"]
    sentences = [f"Plays {size}x{size} with {players} players and no other variant, and always the same move in a position."]
    for name, result in card["results"]["against"].items():
        share, interval, par = _figures(result)
        figures = f"win share {share:.3f} ± {interval:.3f}, par {par:.2f}"
        if share + interval < par:
            sentences.append(f"Weaker than {name}: {figures}.")
        elif share - interval <= par:
            sentences.append(f"No stronger than {name}: {figures}.")
    for exam in card.get("exam", ()):
        kept, empties = exam["overall"]["kept"], list(exam["by_empties"])
        if not exam["complete"]:
            worst = min(exam["by_empties"], key=lambda count: exam["by_empties"][count]["kept"])
            sentences.append(
                f"Keeps the exact value in {_percent(kept)} of endgames with {empties[-1]} to {empties[0]} empty cells, in "
                f"{_percent(exam['by_empties'][worst]['kept'])} of those with {worst}; a search to the end keeps it in all."
            )
        elif kept < 1:
            own = _percent(exam["own_play"]["kept"])
            sentences.append(
                f"With {exam['starter']} first it keeps the exact value in {_percent(kept)} of all positions, and in {own} of "
                "those that come up under its own play."
            )
    return [*sentences, *([said] if said else [])]


def _percent(share: float) -> str:
    """Write 99.99 %, and 100 % of nothing less."""
    return "100 %" if share == 1 else f"{min(100 * share, 99.99):.2f} %"


def print_results(results: dict[str, Any]) -> None:
    """Print the win share against each opponent."""
    for name, result in results["against"].items():
        share, interval, par = _figures(result)
        print(f"{name:>24}  {share:.3f} ± {interval:.3f}  (par {par:.2f})")


def _figures(result: dict[str, Any]) -> tuple[float, float, float]:
    """Return the win share, its half width, which one opening alone leaves open, and par."""
    interval = result["interval"][0]
    return result["win_share"][0], math.inf if interval is None else interval, result["par"][0]
