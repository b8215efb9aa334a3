"""Figures as people read them: standings come in, short texts go out, the same on every report."""

from __future__ import annotations

import math

from rolit_env.standings import Standings


def share(value: float) -> str:
    """Write .987, 1.000 for all, and - for none that is known."""
    return "-" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def half_width(value: float, sign: str = "±") -> str:
    """Write ± .012, and nothing where there is no spread to see."""
    return f"{sign} {share(value)}" if math.isfinite(value) else ""


def rating(standings: Standings, agent: int) -> str:
    """Write 144, and - where all that is known is the other end, see `interval`."""
    low, high = standings.ratings.low[agent], standings.ratings.high[agent]
    return "-" if math.isinf(low) != math.isinf(high) else f"{round(standings.ratings.rating[agent])}"


def interval(standings: Standings, agent: int) -> str:
    """Write where the rating lies, or that it was given."""
    if agent in standings.anchors:
        return "given"
    low, high = standings.ratings.low[agent], standings.ratings.high[agent]
    if math.isinf(low) and math.isinf(high):
        return "unknown"
    if math.isinf(high):
        return f"above {round(low)}"
    if math.isinf(low):
        return f"below {round(high)}"
    return f"{round(low)} to {round(high)}"


def milliseconds(value: float) -> str:
    """Write a time to three digits; what takes less than a microsecond only costs what the arena does."""
    return "-" if math.isnan(value) else f"{value:.3g}" if value >= 0.001 else "< 0.001"


def title(standings: Standings) -> str:
    """Name the variant and how much was played."""
    settings = standings.settings
    players = {2: "two", 3: "three", 4: "four"}[settings.players]
    return f"Rolit for {players} on {settings.size}x{settings.size}: {len(settings.names)} agents"


def conditions(standings: Standings) -> str:
    """Say in a few sentences what the figures depend on."""
    settings = standings.settings
    far = "" if standings.openings == settings.openings else f" of {settings.openings:,} so far"
    but = " but those of anchors alone" if settings.anchors else ""
    speed = ""
    if not math.isnan(standings.rounds_per_second):
        speed = f"; {float(f'{standings.rounds_per_second:.3g}'):,.0f} rounds a second on each core"
    starter = "a drawn colour" if settings.starter == "random" else settings.starter
    return (
        f"{standings.rounds:,} rounds: {standings.openings:,} openings{far}, {settings.opening_turns} random turns each, "
        f"{starter} first, played by every group of {settings.players} agents{but} in all assignments to seats. "
        f"Seed {settings.seed}{speed}. First place was shared in {share(standings.tied)} of the rounds."
    )


def upsets(standings: Standings) -> list[str]:
    """Say who beats whom against the ratings, a sentence each."""
    names = standings.settings.names
    lines = [
        f"{names[a]} is ahead of {names[b]} ({share(standings.ahead[a, b])}), although it is rated lower."
        for a, b in standings.upsets
    ]
    return lines + [
        f"{names[a]} is ahead of {names[b]}, that of {names[c]}, and that of {names[a]} again." for a, b, c in standings.cycles
    ]
