"""Fill in the tables of the learner's speed: `learner.json` beside this file comes in, README.md and learner.md go out.

python -m training.speed --json docs/learner.json
python docs/learner_tables.py
"""

from __future__ import annotations

import json
from pathlib import Path

from rolit_env.files import fill_in
from training import speed

START, END = "<!-- from docs/learner.json, by docs/learner_tables.py -->\n", "<!-- end -->\n"

DOCS = Path(__file__).parent


def main() -> None:
    """Put the tables between the marks in both files."""
    report = json.loads((DOCS / "learner.json").read_text(encoding="utf-8"))
    tricks = speed.markdown_table(speed.SPEED_HEADINGS, speed.speed_cells(report["tricks"]), 1)
    share = f"Outside the network's forward and backward passes it spends {speed.outside(report['profile']):.1%} of its time."
    profile = speed.markdown_table(speed.PROFILE_HEADINGS, speed.profile_cells(report["profile"]), 2)
    for path, parts in (
        (DOCS.parent / "README.md", [speed.conditions(report), tricks.rstrip(), share]),
        (DOCS / "learner.md", [speed.conditions(report), profile.rstrip()]),
    ):
        fill_in(path, START, END, "\n\n".join(parts))


if __name__ == "__main__":
    main()
