"""Fill in the standing tables of opponents.md: folders of tournaments come in, what is known of them is kept beside this file.

rolit tournament configs/tournament-8x8-2p.yaml
python docs/standing_tables.py runs/tournament-8x8-2p  # into standings.json, and from there into opponents.md
python docs/standing_tables.py                         # the tables again
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rolit_env.bench.machine import describe
from rolit_env.files import fill_in, replacing
from rolit_env.report import words
from rolit_env.standings import make_standings

DOCS = Path(__file__).parent


def summary(folder: Path) -> dict[str, Any]:
    """Return what the tables show of a tournament, what they depend on, and how to play it again."""
    standings = make_standings(folder)
    settings = standings.settings
    ended = datetime.fromtimestamp((folder / "results.jsonl").stat().st_mtime, UTC)
    return {
        "command": f"rolit tournament configs/{folder.name}.yaml",
        "date": ended.date().isoformat(),
        "machine": describe(),
        "seed": settings.seed,
        "rounds": standings.rounds,
        "openings": standings.openings,
        "opening_turns": settings.opening_turns,
        "players": settings.players,
        "agents": [
            {
                "description": settings.agents[settings.names[agent]],
                "rating": words.rating(standings, agent),
                "interval": words.interval(standings, agent),
                "win_share": f"{words.share(standings.win_share[agent])} {words.half_width(standings.interval[agent])}",
                "milliseconds": words.milliseconds(standings.milliseconds[agent]),
            }
            for agent in standings.order
        ],
    }


def table(report: dict[str, Any]) -> str:
    """Return the table of a tournament, in Markdown, with a line that says where it comes from."""
    lines = [
        f"`{report['command']}`, seed {report['seed']}, {report['date']}: {report['rounds']:,} rounds from "
        f"{report['openings']} openings of {report['opening_turns']} random turns; par {1 / report['players']:.2f}.",
        "",
        "| | agent | rating | 95 % | win share | ms a move |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for place, agent in enumerate(report["agents"], 1):
        description, *figures = agent.values()
        lines.append(f"| {place} | `{description}` | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    """Keep what is new, and fill in the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="*", type=Path, help="folders of finished tournaments")
    kept, page = DOCS / "standings.json", DOCS / "opponents.md"
    reports = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    folders = options.parse_args().folders
    reports |= {folder.name: summary(folder) for folder in folders}
    if folders:
        with replacing(kept) as draft:
            draft.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    for name, report in reports.items():
        fill_in(page, f"<!-- {name} -->\n", "<!-- end -->", table(report))


if __name__ == "__main__":
    main()
