"""Fill in the tables of speeds: `bench.json` beside this file comes in, README.md and speed.md with its figures go out.

`make bench` measures and runs this; alone it is: python docs/speed_table.py
"""

from __future__ import annotations

import json
from pathlib import Path

from rolit_env.bench.report import markdown, size_markdown
from rolit_env.files import fill_in

START, END = "<!-- from docs/bench.json, by docs/speed_table.py -->\n", "<!-- end -->\n"

DOCS = Path(__file__).parent


def main() -> None:
    """Put the tables between the marks in both files."""
    report = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))
    for path, tables in ((DOCS.parent / "README.md", markdown(report)), (DOCS / "speed.md", size_markdown(report))):
        fill_in(path, START, END, tables)


if __name__ == "__main__":
    main()
