"""The report as files: standings and a folder come in, `report.csv`, `report.json` and `report.html` are written there."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

from rolit_env.files import replacing
from rolit_env.report.page import page
from rolit_env.standings import Standings


def write_reports(standings: Standings, folder: Path) -> list[Path]:
    """Write all three, each whole or not at all, and return their paths. Raises `OutputError`."""
    paths = [folder / f"report.{ending}" for ending in ("csv", "json", "html")]
    with replacing(paths[0]) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(_rows(standings))
    with replacing(paths[1]) as draft:
        draft.write_text(json.dumps(standings.to_dict(), indent=1) + "\n", encoding="utf-8")
    with replacing(paths[2]) as draft:
        draft.write_text(page(standings, folder), encoding="utf-8")
    return paths


def _rows(standings: Standings) -> list[list[str]]:
    """Return a heading and a row for each agent, the strongest first; what is not known or not finite is empty."""
    settings, seats = standings.settings, range(1, standings.settings.players + 1)
    heading = ["place", "agent", "description", "rating", "low", "high", "openskill", "win_share", "interval"]
    heading += [f"seat_{seat}" for seat in seats] + [f"seat_{seat}_interval" for seat in seats] + ["balls", "milliseconds"]
    rows = [heading]
    for place, at in enumerate(standings.order, 1):
        name, ratings, skills = settings.names[at], standings.ratings, standings.skills
        figures = [
            ratings.rating[at],
            ratings.low[at],
            ratings.high[at],
            skills.rating[at] if skills else math.nan,
            standings.win_share[at],
            standings.interval[at],
            *standings.by_seat[at],
            *standings.by_seat_interval[at],
            standings.balls[at],
            standings.milliseconds[at],
        ]
        rows.append(
            [str(place), name, settings.agents[name], *(f"{one:.6g}" if math.isfinite(one) else "" for one in figures)]
        )
    return rows
