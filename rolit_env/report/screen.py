"""The report for a terminal: standings come in, tables go out."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rolit_env.report import words
from rolit_env.standings import Standings

WIDEST = 14
"""Agents that a matrix has room for."""


def screen(standings: Standings, sign: str = "±") -> RenderableType:
    """Return the table of ratings, the matrix of who is ahead of whom, and what is odd about them."""
    parts: list[RenderableType] = [Text(words.title(standings), style="bold"), Text(words.conditions(standings)), ""]
    parts += [_table(standings, sign), ""]
    if len(standings.settings.names) <= WIDEST:
        parts += [_matrix(standings), ""]
    parts += [Text(line) for line in words.upsets(standings)]
    parts.append(Text(_legend(standings, sign), style="dim"))
    return Group(*parts)


def _table(standings: Standings, sign: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("#", justify="right")
    table.add_column("agent", overflow="fold")
    skills = standings.skills
    headings = ("rating", "95 %", *(["openskill"] if skills else []), "win share", "by seat", "balls", "ms a move")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for place, agent in enumerate(standings.order, 1):
        table.add_row(
            str(place),
            Text(standings.settings.names[agent]),
            words.rating(standings, agent),
            words.interval(standings, agent),
            *([f"{round(skills.rating[agent])}"] if skills else []),
            f"{words.share(standings.win_share[agent])} {words.half_width(standings.interval[agent], sign)}",
            " ".join(words.share(one) for one in standings.by_seat[agent]),
            f"{standings.balls[agent]:.1f}",
            words.milliseconds(standings.milliseconds[agent]),
        )
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
        f"rating: 400 points are ten times the chance to be first; win share {sign} 95 % interval, par {par}; by seat:\n"
        "moving first, second, ...; ahead of: how often the row has more balls than the column, ties half"
    )
