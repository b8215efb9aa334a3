"""Golden games: one complete round of each variant, played by the oracle from a seed, as text to review in diffs.

`python -m tests.golden` writes `tests/data/golden.txt` anew. It should never change.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tests.oracle import PLAYING, VARIANTS, Oracle, cell_name

PATH = Path(__file__).parent / "data" / "golden.txt"
RULER = "-" * 40


@dataclass(frozen=True)
class GoldenGame:
    size: int
    players: int
    starter: str
    moves: list[str]
    counts: str
    diagram: str


def counts_line(counts: dict[str, int]) -> str:
    return ", ".join(f"{color} {balls}" for color, balls in counts.items())


def play_text(size: int, players: int, rng: random.Random) -> str:
    oracle = Oracle(size, players, rng.choice(PLAYING[players]))
    moves = []
    while not oracle.over():
        cell = rng.choice(oracle.legal())
        moves.append(cell_name(cell))
        oracle.play(*cell)
    lines = [f"{size} {players} {oracle.starter}"]
    lines += [" ".join(moves[first : first + 20]) for first in range(0, len(moves), 20)]
    return "\n".join([*lines, "", counts_line(oracle.counts()), "", oracle.text(), ""])


def golden_text() -> str:
    return f"{RULER}\n".join(play_text(size, players, random.Random(f"golden {size} {players}")) for size, players in VARIANTS)


def read_golden() -> list[GoldenGame]:
    games = []
    for block in PATH.read_text(encoding="utf-8").split(f"{RULER}\n"):
        head, counts, diagram = block.strip("\n").split("\n\n")
        first, *moves = head.splitlines()
        size, players, starter = first.split()
        games.append(GoldenGame(int(size), int(players), starter, " ".join(moves).split(), counts, diagram))
    return games


if __name__ == "__main__":
    PATH.write_text(golden_text(), encoding="utf-8")
    print(f"wrote {PATH}")
