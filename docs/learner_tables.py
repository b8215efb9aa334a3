"""Fill in the tables of the learner's speed: `learner.json` beside this file comes in, README.md and learner.md go out.

python -m training.speed --json docs/learner.json
python docs/learner_tables.py
"""

from __future__ import annotations

import json
from pathlib import Path

from rolit_env.files import replacing
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
        before, _, rest = path.read_text(encoding="utf-8").partition(START)
        _, _, after = rest.partition(END)
        with replacing(path) as draft:
            draft.write_text("\n\n".join([before + START.rstrip(), *parts, END + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
