"""Measures the opponents of docs/opponents.md and fills in its tables: how strong each is, and what a move of it costs.

python docs/opponent_tables.py --measure    # plays all matches anew, into docs/opponents.json (half an hour or so)
python docs/opponent_tables.py              # writes the tables again from what is there
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.bench.machine import describe
from rolit_env.files import replacing

HERE = Path(__file__).parent
SEED = 0
GAMES = 64
"""Games side by side when the cost of a move is measured."""

LADDER = {
    2: (
        "random",
        "greedy",
        "positional",
        "alphabeta:depth=2",
        "alphabeta:depth=4",
        "alphabeta:depth=6",
        "mcts:simulations=400",
        "mcts:simulations=400,playouts=graded",
        "models/8x8-2p.onnx",
        "mcts:simulations=50,policy=models/8x8-2p.onnx",
        "ntuple:models/8x8-2p-ntuple.safetensors",
        "mcts:simulations=400,eval=models/8x8-2p-ntuple.safetensors",
        "alphabeta:depth=4,eval=models/8x8-2p-ntuple.safetensors",
    ),
    4: (
        "random",
        "greedy",
        "positional",
        "paranoid:depth=3",
        "maxn:depth=3",
        "brs:depth=3",
        "mcts:simulations=400",
        "models/8x8-4p.onnx",
        "ntuple:models/8x8-4p-ntuple.safetensors",
        "mcts:simulations=400,eval=models/8x8-4p-ntuple.safetensors",
        "brs:depth=3,eval=models/8x8-4p-ntuple.safetensors",
    ),
}
"""The agents of a table, on 8x8, for each number of players."""

YARDSTICKS = {
    2: (("positional", 2000), ("alphabeta:depth=2", 2000), ("alphabeta:depth=4", 2000), ("alphabeta:depth=6", 400)),
    4: (("greedy", 2000), ("positional", 2000), ("brs:depth=2", 800), ("mcts:simulations=400", 400)),
}
"""Who they play, and how many rounds; with four players one of them meets three."""


def measure() -> dict[str, Any]:
    """Play everybody against the yardsticks, and time their moves."""
    rows = []
    total = sum(len(LADDER[players]) * (len(YARDSTICKS[players]) + 1) for players in LADDER)
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=total)
        for players, agents in LADDER.items():
            for name in agents:
                row: dict[str, Any] = {"players": players, "agent": name, "against": {}}
                for opponent, rounds in YARDSTICKS[players]:
                    progress.update(bar, description=f"{name} against {opponent}")
                    if name != opponent:
                        result = play_rounds([name, opponent], rounds, players=players, seed=SEED)
                        row["against"][opponent] = result.to_dict()
                    progress.advance(bar)
                progress.update(bar, description=f"{name}: its time")
                row["milliseconds"] = milliseconds(name, players)
                progress.advance(bar)
                rows.append(row)
    return {"machine": describe(), "seed": SEED, "rows": rows}


def milliseconds(name: str, players: int) -> float:
    """Return the time of a move, all moves of a round counted alike, with `GAMES` games side by side."""
    agent, rng = make_agent(name), np.random.default_rng(SEED)
    times = []
    for timed in (False, True):  # the first round compiles
        games = GameBatch(GAMES, players=players, seed=SEED)
        while not games.done:
            if games.ply % 5 == 0:
                start = time.perf_counter()
                agent.act(games, rng)
                if timed:
                    times.append(time.perf_counter() - start)
            games.step_random(rng)
    return 1000 * float(np.mean(times)) / GAMES


def table(report: dict[str, Any], players: int) -> str:
    """Return the table for a number of players, in Markdown."""
    names = [name for name, _ in YARDSTICKS[players]]
    lines = [f"| agent | ms a move | {' | '.join(names)} |", f"| --- | ---: |{' ---: |' * len(names)}"]
    for row in report["rows"]:
        if row["players"] == players:
            cells = []
            for name in names:
                result = row["against"].get(name)
                cells.append(f"{result['win_share'][0]:.3f} ± {result['interval'][0]:.3f}" if result else "-")
            lines.append(f"| `{row['agent']}` | {row['milliseconds']:.3g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure if asked to, and fill in the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--measure", action="store_true", help="play all matches anew")
    path, page = HERE / "opponents.json", HERE / "opponents.md"
    if options.parse_args().measure:
        with replacing(path) as draft:
            draft.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
    report = json.loads(path.read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    for players in LADDER:
        marks = rf"(<!-- {players} players -->\n).*?(\n<!-- end -->)"
        filled = table(report, players)
        text = re.sub(marks, lambda found, filled=filled: f"{found[1]}\n{filled}\n{found[2]}", text, flags=re.DOTALL)
    with replacing(page) as draft:
        draft.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
