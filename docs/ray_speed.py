"""Time RLlib with one and two processes that play, and work out what more would do: a table goes into ray.md beside this file.

    python docs/ray_speed.py

It learns by the settings of `examples/rllib.py`, on this machine's own cores. With N processes a turn costs the learner's time
for it, plus an Nth of what a process takes to play it and hand it over; that is all the arithmetic there is.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray

from examples.rllib import make_config
from rolit_env.bench import machine
from rolit_env.files import fill_in, replacing

START, END = "<!-- from docs/ray.json, by docs/ray_speed.py -->\n", "<!-- end -->\n"
DOCS = Path(__file__).parent
MEASURED, COMPUTED = (1, 2), (8, 64)


def measure(runners: int, size: int, players: int, iterations: int) -> dict[str, Any]:
    """Return medians over so many iterations, after two that don't count: turns, and seconds of learning and of the rest."""
    algorithm = make_config(size, players, runners=runners).build_algo()
    update, learning = algorithm.learner_group.update, [0.0]

    def timed(**arguments: Any) -> Any:
        began = time.perf_counter()
        results = update(**arguments)
        learning[0] = time.perf_counter() - began
        return results

    algorithm.learner_group.update = timed
    turns, learn, rest = [], [], []
    for _ in range(2 + iterations):
        began = time.perf_counter()
        turns.append(int(algorithm.train()["env_runners"]["num_env_steps_sampled"]))
        learn.append(learning[0])
        rest.append(time.perf_counter() - began - learning[0])
    algorithm.stop()
    return {
        "runners": runners,
        "turns": statistics.median(turns[2:]),
        "learn": round(statistics.median(learn[2:]), 4),
        "rest": round(statistics.median(rest[2:]), 4),
    }


def table(report: dict[str, Any]) -> str:
    """Return what was measured and what follows for more processes, as a Markdown table."""
    one = report["measured"][0]
    play, learn = one["rest"] / one["turns"], one["learn"] / one["turns"]
    rows = ["| processes that play | turns/s | of the time, learning | |", "| ---: | ---: | ---: | --- |"]
    for found in report["measured"]:
        seconds = found["learn"] + found["rest"]
        rows.append(f"| {found['runners']} | {found['turns'] / seconds:,.0f} | {found['learn'] / seconds:.0%} | measured |")
    for runners in (*MEASURED[1:], *COMPUTED):
        seconds = play / runners + learn
        rows.append(f"| {runners} | {1 / seconds:,.0f} | {learn / seconds:.0%} | computed from the first row |")
    rows.append(f"| any number | {1 / learn:,.0f} | 100% | the most that this learner takes in |")
    return "\n".join(rows)


def conditions(report: dict[str, Any]) -> str:
    """Return a sentence on where this was measured."""
    where, versions = report["machine"], report["machine"]["versions"]
    return (
        f"{where['processor']}, {where['cores']} cores; ray {report['ray']}, torch {versions['torch']}, "
        f"commit {str(where['commit'])[:10]}, {report['date']}; "
        f"{report['players']} players on {report['size']}x{report['size']}. Medians of {report['iterations']} iterations."
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and put the table between its marks."""
    parser = argparse.ArgumentParser(prog="python docs/ray_speed.py", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=10)
    options = parser.parse_args(argv)
    ray.init(log_to_driver=False, logging_level="error", num_cpus=max(MEASURED))
    report = {
        "machine": machine.describe(),
        "ray": ray.__version__,
        "date": datetime.date.today().isoformat(),
        **vars(options),
        "measured": [measure(runners, options.size, options.players, options.iterations) for runners in MEASURED],
    }
    with replacing(DOCS / "ray.json") as draft:
        draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    fill_in(DOCS / "ray.md", START, END, f"{conditions(report)}\n\n{table(report)}")
    print(f"{conditions(report)}\n\n{table(report)}")


if __name__ == "__main__":
    main()
