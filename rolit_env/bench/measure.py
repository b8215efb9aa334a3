"""One timing: work that plays games comes in, the turns it played and the seconds that took go out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

GAMES = (16384, 4096, 65536, 262144)
"""Games side by side where nothing else is said. The first, which fit the second cache of a core, for most layers; all of them
to see whether the cost grows."""


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Work:
    """What is timed, again and again, once set up.

    Attributes:
        play: Plays a while, usually one round, and returns the turns it took: one is one move of one game.
        result: A number that depends on all that `play` did, so that none of it can be left out.
        prepare: Runs before each `play`; its time does not count.
        facts: What else is worth noting down.
    """

    play: Callable[[], int]
    result: Callable[[], float]
    prepare: Callable[[], None] = _nothing
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """Something that can be timed.

    Attributes:
        name: What `--only` calls it.
        title: What it is, for the table; `{games}` stands for the number of games side by side.
        setup: Takes that number and returns the work. It imports what it needs, so that a process loads nothing else.
        cores: Whether it gets one core or all of them.
        needs: Packages it imports that may be missing, by import name.
        install: What a person would install to have them.
        peer: Whether it is another library, or something to compare with.
        games: Whether it takes a number of games side by side, and which of those asked for.
    """

    name: str
    title: str
    setup: Callable[[int], Work]
    cores: Literal["one", "all"] = "one"
    needs: tuple[str, ...] = ()
    install: str = ""
    peer: bool = False
    games: Literal["none", "first", "last", "all"] = "none"


def measure(work: Work, seconds: float) -> dict[str, float]:
    """Play until `seconds` have been timed, and once at least; return `turns`, `seconds` and `result`, that of the end."""
    turns, elapsed = 0, 0.0
    while not turns or elapsed < seconds:
        work.prepare()
        start = perf_counter()
        turns += work.play()
        elapsed += perf_counter() - start
    return {"turns": turns, "seconds": elapsed, "result": work.result()}
