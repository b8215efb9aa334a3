"""The report for a terminal: standings come in, tables go out."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rolit_env.report import words
from rolit_env.standings import Standings

WIDEST = 14
"""Agents that a matrix has room for."""

NAME = 16
"""Columns of a name that stay in one line; the rest of it may be folded."""

SPARED = ("openskill", "balls", "ms a move", "by seat")
"""What a narrow screen does without, the first one first."""


def screen(standings: Standings, sign: str = "±", width: int = 200) -> RenderableType:
    """Return the table of ratings, the matrix of who is ahead of whom, and what is odd about them.

    Args:
        standings: What to show.
        sign: What stands before a half width.
        width: Columns of the screen; where they are too few, the least important figures and the matrix are left out.
    """
    parts: list[RenderableType] = [Text(words.title(standings), style="bold"), Text(words.conditions(standings)), ""]
    table, spared = _table(standings, sign), 0
    while _width(table, standings) > width and spared < len(SPARED):
        spared += 1
        table = _table(standings, sign, SPARED[:spared])
    parts += [table, ""]
    left_out, legend = list(SPARED[:spared]), _legend(standings, sign)
    matrix = _matrix(standings)
    if len(standings.settings.names) <= WIDEST and _width(matrix, standings) <= width:
        parts += [matrix, ""]
        legend += "\nahead of: how often the row has more balls than the column, ties half"
    else:
        left_out.append("who is ahead of whom")
    parts += [Text(line) for line in words.upsets(standings)]
    legend += f"\nno room for: {', '.join(left_out)}" if left_out else ""
    return Group(*parts, Text(legend, style="dim"))


def _width(table: Table, standings: Standings) -> int:
    """Return the columns that a table needs when long names are folded."""
    longest = max(map(len, standings.settings.names))
    return Console(width=10_000, force_terminal=False).measure(table).maximum - max(0, longest - NAME)


def _table(standings: Standings, sign: str, spared: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("agent", overflow="fold")
    skills = standings.skills
    headings = ("rating", "95 %", *(["openskill"] if skills else []), "win share", "by seat", "balls", "ms a move")
    shown = [heading for heading in headings if heading not in spared]
    for heading in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for place, agent in enumerate(standings.order, 1):
        cells = {
            "rating": words.rating(standings, agent),
            "95 %": words.interval(standings, agent),
            "openskill": f"{round(skills.rating[agent])}" if skills else "",
            "win share": f"{words.share(standings.win_share[agent])} {words.half_width(standings.interval[agent], sign)}",
            "by seat": " ".join(words.share(one) for one in standings.by_seat[agent]),
            "balls": f"{standings.balls[agent]:.1f}",
            "ms a move": words.milliseconds(standings.milliseconds[agent]),
        }
        table.add_row(str(place), Text(standings.settings.names[agent]), *(cells[heading] for heading in shown))
    return table


def _matrix(standings: Standings) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("ahead of", overflow="fold")
    for place, _ in enumerate(standings.order, 1):
        table.add_column(str(place), justify="right", no_wrap=True)
    for place, agent in enumerate(standings.order, 1):
        cells = ("" if other == agent else words.share(standings.ahead[agent, other]) for other in standings.order)
        table.add_row(Text(f"{place} {standings.settings.names[agent]}"), *cells)
    return table


def _legend(standings: Standings, sign: str) -> str:
    par = words.share(1 / standings.settings.players)
    return (
        "rating: 400 points are ten times the chance to be first; by seat: moving first,\n"
        f"second, ...; win share {sign} 95 % interval, par {par}"
    )
