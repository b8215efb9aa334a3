"""The perft table: `tests/data/perft.csv` comes in, the leaf counts of each variant come out."""

from __future__ import annotations

import csv
from pathlib import Path

PATH = Path(__file__).parent / "data" / "perft.csv"


def read_perft() -> list[tuple[int, int, list[int]]]:
    """Return size, players and the leaf counts for depths 1 to 6, red first."""
    with PATH.open(encoding="utf-8") as file:
        table = [[int(field) for field in row] for row in list(csv.reader(file))[1:]]
    return [(size, players, leaves) for size, players, *leaves in table]
