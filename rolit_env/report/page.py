"""The report as one HTML file that needs nothing else: standings come in, a page goes out.

It loads nothing, is as wide as the screen, light or dark as the reader likes it, and every picture has its figures beside it
as text.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path

import numpy as np

from rolit_env import __version__
from rolit_env.report import plots, words
from rolit_env.standings import Standings
from rolit_env.tournament import RECORDS

STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1c2024;--dim:#5b636c;--line:#d5dae0;--fill:#2563eb;--card:#f6f7f9}
@media(prefers-color-scheme:dark){:root{--back:#14181d;--text:#e8eaed;--dim:#a3abb5;--line:#39414b;--fill:#7aa7ff;--card:#1c2229}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:72rem;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.15rem;margin:2rem 0 .25rem}
p,figure{margin:.25rem 0 .75rem}
a{color:var(--fill)}
.dim,caption,figcaption{color:var(--dim);font-size:.9rem}
caption{text-align:left;padding-bottom:.4rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.full{width:100%}
th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);font-weight:400}
thead th{color:var(--dim);font-size:.85rem}
thead th:first-child,thead .plot{text-align:left}
th[scope=row]{text-align:left;white-space:normal;min-width:7rem}
.matrix td,.matrix thead th+th{min-width:3.4rem;text-align:center}
.matrix small{display:block;color:var(--dim)}
.matrix th[scope=row]{position:sticky;left:0;background:var(--back)}
svg{display:block;width:100%;overflow:visible}
svg path{vector-effect:non-scaling-stroke}
.whisker{height:20px;min-width:9rem}
.bar{height:8px;min-width:4.5rem}
.histogram{height:90px;border-bottom:1px solid var(--line)}
.axis{stroke:var(--dim);stroke-width:1;stroke-dasharray:3 3;fill:none}
.line{stroke:var(--fill);stroke-width:2;fill:none}
.point{stroke:var(--fill);stroke-width:9;stroke-linecap:round;fill:none}
.fill{fill:var(--fill)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:1rem}
.cards figure{background:var(--card);padding:.75rem;border-radius:.5rem;margin:0;min-width:0}
.cards figcaption{overflow-wrap:anywhere;margin-bottom:.5rem}
.scale{display:flex;justify-content:space-between;font-size:.8rem;color:var(--dim)}
@media(max-width:40rem){body{padding:.75rem}th,td{padding:.3rem .4rem}.extra{display:none}
th[scope=row]{min-width:6rem}.whisker{min-width:4.5rem}.bar{min-width:3rem}}
"""


def page(standings: Standings, folder: Path) -> str:
    """Return the page; it links to `records/` where the folder of the tournament has recorded games."""
    title = escape(words.title(standings))
    parts = [
        f"<h1>{title}</h1><p>{escape(words.conditions(standings))}</p>",
        _ratings(standings),
        _matrix(standings),
        _upsets(standings),
        _seats(standings),
        _margins(standings),
    ]
    if (folder / RECORDS).is_dir():
        parts.append(f'<h2>Recorded games</h2><p><a href="{RECORDS}/">All recorded games of this tournament</a></p>')
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{chr(10).join(part for part in parts if part)}
</main>
<footer class="dim"><p>Made by rolit {escape(__version__)}.</p></footer>
</body>
</html>
"""


def _table(caption: str, head: list[str], rows: list[str], kind: str = "full") -> str:
    """Return a table; the cells of the head are complete."""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="{kind}">'
        f"<caption>{escape(caption)}</caption><thead><tr>{''.join(head)}</tr></thead>"
        f"<tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table></div>"
    )


def _column(text: str, *, extra: bool = False) -> str:
    return f'<th scope="col"{_extra(extra)}>{escape(text)}</th>'


def _cell(text: str, *, extra: bool = False) -> str:
    return f"<td{_extra(extra)}>{text}</td>"


def _extra(extra: bool) -> str:
    """Mark what narrow screens can do without."""
    return ' class="extra"' if extra else ""


def _name(standings: Standings, place: int, agent: int) -> str:
    return f'<th scope="row">{place}&nbsp;{_breakable(standings.settings.names[agent])}</th>'


def _breakable(name: str) -> str:
    """Let a long description go on in a new line between its parts."""
    return re.sub("([:,=/])", r"\1<wbr>", name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def _ratings(standings: Standings) -> str:
    ratings, skills = standings.ratings, standings.skills
    known = [end for ends in (ratings.rating, ratings.low, ratings.high) for end in ends if math.isfinite(end)]
    first, last = min(0.0, *known), max(1.0, *known)
    room = 0.03 * (last - first)
    head = [
        _column("agent"),
        _column("rating"),
        _column("95 % interval", extra=True),
        '<th scope="col" class="plot">plot</th>',
    ]
    head += [_column("OpenSkill", extra=True)] if skills else []
    head += [_column("win share"), _column("balls", extra=True), _column("ms a move")]
    rows = []
    for place, agent in enumerate(standings.order, 1):
        name = standings.settings.names[agent]
        rating, interval = words.rating(standings, agent), words.interval(standings, agent)
        ends = ratings.low[agent], ratings.high[agent]
        label = f"{name}: rating {rating}, 95 % interval: {interval}"
        share = f"{words.share(standings.win_share[agent])} {words.half_width(standings.interval[agent])}"
        rows.append(
            _name(standings, place, agent)
            + _cell(rating)
            + _cell(interval, extra=True)
            + _cell(plots.whisker(ratings.rating[agent], *ends, first - room, last + room, label))
            + (_cell(f"{round(skills.rating[agent])}", extra=True) if skills else "")
            + _cell(share)
            + _cell(f"{standings.balls[agent]:.1f}", extra=True)
            + _cell(escape(words.milliseconds(standings.milliseconds[agent])))
        )
    par = words.share(1 / standings.settings.players)
    note = (
        "400 points of rating are ten times the chance to be first. Intervals are at 95 %, from the spread between openings; "
        f"the win share of equals is {par}. Times are those of moves made side by side in batches."
    )
    return f"<h2>Ratings</h2>{_table('Agents from the strongest down', head, rows)}<p class=dim>{escape(note)}</p>"


def _matrix(standings: Standings) -> str:
    order = list(enumerate(standings.order, 1))
    head = [_column("agent"), *(_column(str(place)) for place, _ in order)]
    rows = []
    for place, agent in order:
        cells = []
        for _, other in order:
            share = standings.ahead[agent, other]
            if agent == other or math.isnan(share):
                cells.append("<td></td>")
                continue
            color = "37,99,235" if share > 0.5 else "217,119,6"
            width = words.half_width(standings.ahead_interval[agent, other])
            names = standings.settings.names
            told = escape(f"{names[agent]} against {names[other]}")
            tint = f"background:rgba({color},{1.1 * abs(share - 0.5):.2f})"
            cells.append(f'<td style="{tint}" title="{told}">{words.share(share)}<small>{width}</small></td>')
        rows.append(_name(standings, place, agent) + "".join(cells))
    two = standings.settings.players == 2
    what = (
        "Win share of the row's agent against the column's" if two else "How often the row's agent has more balls, ties half"
    )
    return f"<h2>Who beats whom</h2>{_table(what, head, rows, 'matrix')}"


def _upsets(standings: Standings) -> str:
    lines = words.upsets(standings)
    if not lines:
        return "<p class=dim>Nobody is clearly ahead of an agent that is rated higher.</p>"
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _seats(standings: Standings) -> str:
    players = standings.settings.players
    par = 1 / players
    head = [_column("agent"), *(_column(f"seat {seat + 1}") for seat in range(players))]

    def cells(shares: list[float], widths: list[float], name: str) -> str:
        texts = []
        for seat, (share, width) in enumerate(zip(shares, widths, strict=True), 1):
            text = f"{words.share(share)} <span{_extra(True)}>{words.half_width(width)}</span>"
            label = f"{name} in seat {seat}: {words.share(share)}, par {words.share(par)}"
            texts.append(_cell(f"{text}{plots.bar(share, par, label)}"))
        return "".join(texts)

    everybody = np.nanmean(standings.by_seat, axis=0).tolist()
    rows = ['<th scope="row">mean of all</th>' + cells(everybody, [math.nan] * players, "all agents")]
    for place, agent in enumerate(standings.order, 1):
        name = standings.settings.names[agent]
        shares, widths = standings.by_seat[agent].tolist(), standings.by_seat_interval[agent].tolist()
        rows.append(_name(standings, place, agent) + cells(shares, widths, name))
    caption = f"Win share in each seat, in order of turns; the mark is par, {words.share(par)}"
    return f"<h2>Seats</h2>{_table(caption, head, rows)}"


def _margins(standings: Standings) -> str:
    cells = standings.settings.variant.cells
    seen = np.flatnonzero(standings.margins.sum(axis=0))
    far = int(max(np.abs(seen - cells).max(), 1)) if len(seen) else 1
    figures = []
    for place, agent in enumerate(standings.order, 1):
        name, counts = standings.settings.names[agent], standings.margins[agent, cells - far : cells + far + 1]
        total = max(int(counts.sum()), 1)
        mean = float((counts * np.arange(-far, far + 1)).sum()) / total
        # Half of the rounds lie between these.
        low, middle, high = (int(np.searchsorted(counts.cumsum(), part * total)) - far for part in (0.25, 0.5, 0.75))
        told = f"mean {mean:+.1f}, median {middle:+d}, half of the rounds from {low:+d} to {high:+d}".replace("-", "−")
        label = f"{name}, balls less those of the best other: {told}"
        figures.append(
            f"<figure><figcaption><b>{place} {escape(name)}</b><br>{told}</figcaption>{plots.histogram(counts, far, label)}"
            f'<div class="scale" aria-hidden="true"><span>−{far}</span><span>0</span><span>+{far}</span></div></figure>'
        )
    note = "How many rounds ended with so many balls more or fewer than the best other member of the group."
    return f'<h2>Differences of balls</h2><p class=dim>{note}</p><div class="cards">{"".join(figures)}</div>'
