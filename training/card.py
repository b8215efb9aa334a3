"""The card of a released file: a run, the file and an agent that plays it come in, what it is and how it plays goes out."""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from rolit_env import make_agent, play_rounds
from rolit_env.agents import Agent
from rolit_env.errors import OptionError, OutputError
from training.run import Run


def check_out(out: Path, ending: str, rounds: int) -> None:
    """Make the folder of a file that is to be released.

    Raises `OutputError` for another ending or a folder that can't be made, and `OptionError` for less than one round.
    """
    if out.suffix != ending:
        raise OutputError(f"{out} must end in {ending}")
    if rounds < 1:
        raise OptionError(f"rounds={rounds} is too few; allowed are ints from 1 up")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out} can't be written ({error.strerror})") from None


def describe(run: Run, out: Path, draft: Path, packages: Sequence[str], **about: Any) -> dict[str, Any]:
    """Return a card without results: what `draft`, which is to become `out`, was made for, how, and its SHA-256 sum.

    Args:
        run: Where it comes from.
        out: Its name to be.
        draft: The file.
        packages: Whose versions are noted.
        about: What else there is to say of this kind of file.
    """
    return {
        "name": out.stem,
        "variant": {"size": run.config.size, "players": run.config.players},
        **about,
        "trained": {
            "turns": run.turns,
            "minutes": round(run.seconds / 60, 2),
            "iterations": run.iteration,
            "evaluations": run.evaluations,
        },
        "config": run.config.to_dict(),
        "commit": run.commit,
        "versions": {name: version(name) for name in packages} | {"python": platform.python_version()},
        "sha256": hashlib.sha256(draft.read_bytes()).hexdigest(),
    }


def measure(run: Run, agent: Agent, opponents: Sequence[str], rounds: int, seed: int) -> dict[str, Any]:
    """Play the agent against each opponent, as the command that comes with the results does."""
    config = run.config
    command = ["rolit", "evaluate", agent.name, "--against", *opponents, "--size", str(config.size)]
    command += ["--players", str(config.players), "--rounds", str(rounds), "--seed", str(seed)]
    results = {}
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for name in opponents:
            task = progress.add_task(f"against {name}")
            results[name] = play_rounds(
                [agent, make_agent(name)],
                rounds,
                size=config.size,
                players=config.players,
                seed=seed,
                progress=lambda played, total, task=task: progress.update(task, completed=played, total=total),
            ).to_dict()
    return {"command": shlex.join(command), "against": results}


def write_card(card: dict[str, Any], path: Path) -> None:
    """Write a card as JSON."""
    path.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def print_results(results: dict[str, Any]) -> None:
    """Print the win share against each opponent."""
    for name, result in results["against"].items():
        print(f"{name:>24}  {result['win_share'][0]:.3f} ± {result['interval'][0]:.3f}  (par {result['par'][0]:.2f})")
