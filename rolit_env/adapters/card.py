"""What goes on the card of a trained file: how it was made and how it plays come in, the card goes out."""

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

from rolit_env.agents import Agent, make_agent
from rolit_env.arena import play_rounds
from rolit_env.errors import OptionError, OutputError
from rolit_env.variant import Variant


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


def describe(chosen: Variant, out: Path, draft: Path, packages: Sequence[str], **about: Any) -> dict[str, Any]:
    """Return a card without results: what `draft`, which is to become `out`, was made for, how, and its SHA-256 sum.

    Args:
        chosen: The variant it plays.
        out: Its name to be.
        draft: The file.
        packages: Whose versions are noted.
        about: What else there is to say of this kind of file.
    """
    return {
        "name": out.stem,
        "variant": {"size": chosen.size, "players": chosen.players},
        **about,
        "bytes": draft.stat().st_size,
        "versions": {name: version(name) for name in packages} | {"python": platform.python_version()},
        "sha256": hashlib.sha256(draft.read_bytes()).hexdigest(),
    }


def measure(agent: Agent, chosen: Variant, opponents: Sequence[str], rounds: int, seed: int) -> dict[str, Any]:
    """Play the agent against each opponent, as the command that comes with the results does."""
    command = ["rolit", "evaluate", agent.name, "--against", *opponents, "--size", str(chosen.size)]
    command += ["--players", str(chosen.players), "--rounds", str(rounds), "--seed", str(seed)]
    results = {}
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("")

        def advance(played: int, total: int) -> None:
            progress.update(task, completed=played, total=total)

        for name in opponents:
            progress.update(task, description=f"against {name}")
            results[name] = play_rounds(
                [agent, make_agent(name)], rounds, size=chosen.size, players=chosen.players, seed=seed, progress=advance
            ).to_dict()
    return {"command": shlex.join(command), "against": results}


def write_card(card: dict[str, Any], path: Path) -> None:
    """Write a card as JSON."""
    path.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
