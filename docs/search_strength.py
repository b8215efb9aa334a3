"""Measure what searches make of policies: names of policies come in, tables of strength and time in opponents.md go out.

    python docs/search_strength.py 8x8-2p 8x8-4p --openings 512  # into search_strength.json, and from there into opponents.md
    python docs/search_strength.py                               # the tables again
    python docs/search_strength.py 8x8-2p --agents mcts:simulations=200,policy=8x8-2p --against alphabeta:depth=8

With `--agents` or `--against` what was found is printed, and kept nowhere. A time is the processor's, for a move of games
played 64 at a time by one process; set OMP_NUM_THREADS=1, for onnxruntime would take all cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.agents import Agent, PolicyAgent
from rolit_env.bench.machine import describe
from rolit_env.errors import OptionError, RolitError
from rolit_env.files import fill_in, replacing
from rolit_env.report import words
from rolit_env.variant import Variant

DOCS = Path(__file__).parent
KEPT, PAGE = DOCS / "search_strength.json", DOCS / "opponents.md"

GAMES = 64
"""Openings played at once."""

OPPONENTS = {
    2: ("alphabeta:depth=6", "alphabeta:depth=8"),
    3: ("mcts:simulations=400", "brs:depth=3"),
    4: ("mcts:simulations=400", "brs:depth=3"),
}
"""By number of players."""

SEARCHES = {
    2: (
        "{policy}",
        "mcts:simulations=400,policy={policy}",
        "alphabeta:depth=6,eval={policy},width=4",
        "alphabeta:depth=6,eval={tables},policy={policy},width=4",
        "alphabeta:depth=8,eval={tables},policy={policy},width=4",
        "alphabeta:depth=6,eval={tables}",
    ),
    3: (
        "{policy}",
        "mcts:simulations=300,policy={policy}",
        "brs:depth=3,eval={policy}",
        "mcts:simulations=400,eval={tables}",
        "brs:depth=3,eval={tables}",
    ),
}
SEARCHES[4] = SEARCHES[3]
"""Those in the tables, by number of players."""


class Timed(Agent):
    """An agent and the time that it takes.

    Attributes:
        seconds: Of the processor, for all moves.
        moves: How many there were.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent, self.name = agent, agent.name
        self.seconds, self.moves = 0.0, 0

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return what the agent does."""
        began = time.process_time()
        actions = self.agent.act(games, rng)
        self.seconds += time.process_time() - began
        self.moves += len(games)
        return actions

    def check_variant(self, variant: Variant) -> None:
        """Raise what the agent does."""
        self.agent.check_variant(variant)


def measure(description: str, opponent: str, chosen: Variant, openings: int, seed: int) -> dict[str, Any]:
    """Play an agent against copies of another, from every seat, and return its win share and its time a move."""
    agent, other = Timed(make_agent(description)), make_agent(opponent)
    shares, widths = [], []
    for block in range(-1, -(-openings // GAMES)):
        if block < 0:  # compiles
            play_rounds([agent, other], 1, size=chosen.size, players=chosen.players)
            agent.seconds, agent.moves = 0.0, 0
            continue
        found = play_rounds(
            [agent, other], GAMES * chosen.players, size=chosen.size, players=chosen.players, seed=seed + block
        )
        shares.append(found.win_share[0])
        widths.append(found.interval[0])
    return {
        "win_share": float(np.mean(shares)),
        "interval": float(np.sqrt(np.square(widths).sum()) / len(widths)),  # blocks know nothing of each other
        "milliseconds": 1000 * agent.seconds / agent.moves,
    }


def compare(
    policy: str, openings: int, seed: int, agents: Sequence[str] | None = None, against: Sequence[str] | None = None
) -> dict[str, Any]:
    """Measure searches with a policy, or other agents of its variant, and return what a table shows."""
    known = make_agent(policy)
    if not isinstance(known, PolicyAgent):
        raise OptionError(f"{policy} is no policy; allowed are names of released ones, and FILE.onnx")
    chosen = known.variant
    tables = f"{chosen.name}-ntuple"
    agents = agents or [text.format(policy=policy, tables=tables) for text in SEARCHES[chosen.players]]
    against = against or OPPONENTS[chosen.players]
    rows: dict[str, dict[str, Any]] = {agent: {} for agent in agents}
    for agent in agents:
        for opponent in against:
            rows[agent][opponent] = found = measure(agent, opponent, chosen, openings, seed)
            print(f"{agent} against {opponent}: {cell(found)}, {found['milliseconds']:.3f} ms a move", file=sys.stderr)
    blocks = -(-openings // GAMES)
    return {
        "command": f"python docs/search_strength.py {policy} --openings {openings}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": describe(),
        "seed": seed,
        "players": chosen.players,
        "openings": blocks * GAMES,
        "rounds": blocks * GAMES * chosen.players,
        "rows": rows,
    }


def cell(found: dict[str, Any]) -> str:
    """Return a win share and its interval as text."""
    return f"{words.share(found['win_share'])} {words.half_width(found['interval'])}"


def table(report: dict[str, Any]) -> str:
    """Return a table in Markdown, with a line that says where it comes from."""
    against = list(next(iter(report["rows"].values())))
    copies = "" if report["players"] == 2 else f"{report['players'] - 1} × "
    headings = ["agent", *(f"against {copies}`{name}`" for name in against), "ms a move"]
    lines = [
        f"`{report['command']}`, seed {report['seed']}, {report['date']}: {report['rounds']:,} rounds each, from "
        f"{report['openings']:,} openings of 4 random turns; par {words.share(1 / report['players'])}.",
        "",
        f"| {' | '.join(headings)} |",
        f"| --- {'| ---: ' * (len(headings) - 1)}|",
    ]
    for agent, results in report["rows"].items():
        spent = np.mean([found["milliseconds"] for found in results.values()])
        cells = [f"`{agent}`", *(cell(results[name]) for name in against), words.milliseconds(float(spent))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is asked for, keep it, and fill in the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("policies", nargs="*", help="names of released policies, or files")
    options.add_argument("--openings", type=int, default=GAMES, help="for each pair, made up to a multiple of 64")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--agents", nargs="+", help="other agents than those in the tables; printed only")
    options.add_argument("--against", nargs="+", help="other opponents; printed only")
    given = options.parse_args()
    try:
        run(given)
    except RolitError as error:
        sys.exit(f"search_strength.py: {error}")


def run(given: argparse.Namespace) -> None:
    """Do what the options say."""
    if given.openings < 1:
        raise OptionError(f"openings={given.openings} is no number of openings; allowed are ints from 1 up")
    if given.agents or given.against:
        for policy in given.policies:
            print(table(compare(policy, given.openings, given.seed, given.agents, given.against)))
        return
    reports = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for policy in given.policies:
        reports[policy] = compare(policy, given.openings, given.seed)
        with replacing(KEPT) as draft:
            draft.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    fill_in(PAGE, "<!-- search -->\n", "<!-- end -->", "\n\n".join(table(reports[policy]) for policy in sorted(reports)))


if __name__ == "__main__":
    main()
