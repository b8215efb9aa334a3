"""Train with other libraries and fill in the tables of docs/libraries.md and README.md: examples come in, figures go out.

    python docs/libraries.py learn shared --only sb3 skrl --seconds 300   # in the environment of that session of noxfile.py
    python docs/libraries.py table                                        # fails where a share is below what is wanted

`make learn-libraries` runs all. Rows stand in libraries.json beside this file, each as its last training left it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolit_env.bench import machine
from rolit_env.files import fill_in, replacing

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ROWS = DOCS / "libraries.json"
WANTED = 0.7  # win share against random over all seats
START, END = "<!-- from docs/libraries.json, by docs/libraries.py -->\n", "<!-- end -->\n"
SHARE = re.compile(r"^.+ against random: ([\d.]+) ± ([\d.]+) ", re.MULTILINE)  # first in the library, then of the file


@dataclass(frozen=True)
class Example:
    """One row.

    Attributes:
        library: What people call it.
        package: What pip calls it.
        module: The example, `examples.MODULE`.
        more: What is added to its command line.
        session: Where it is installed, by noxfile.py.
    """

    library: str
    package: str
    module: str
    more: tuple[str, ...] = ()
    session: str = "shared"


EXAMPLES = {
    "sb3": Example("Stable-Baselines3, MaskablePPO", "sb3_contrib", "sb3"),
    "torchrl": Example("TorchRL, PPO", "torchrl", "torchrl"),
    "skrl": Example("skrl, PPO", "skrl", "skrl"),
    "tianshou": Example("Tianshou, PPO", "tianshou", "tianshou"),
    "tianshou-dqn": Example("Tianshou, DQN", "tianshou", "tianshou", ("--dqn",)),
    "openspiel": Example("OpenSpiel, PPO", "open-spiel", "openspiel"),
    "cleanrl-style": Example("one file in the manner of CleanRL, PPO", "torch", "cleanrl_style"),
    "rllib": Example("RLlib, PPO", "ray", "rllib", ("--runners", "2"), session="rllib"),
    "agilerl": Example("AgileRL, PPO", "agilerl", "agilerl", session="agilerl"),
}
CONSTRAINTS = {"shared": "constraints.txt", "rllib": "constraints-rllib.txt", "agilerl": "constraints-agilerl.txt"}


def learn(name: str, size: int, players: int, seconds: float, seed: int) -> dict[str, Any] | None:
    """Run an example, show what it prints, and return its row, or None when it fails."""
    example, out = EXAMPLES[name], ROOT / "runs" / "libraries" / f"{name}.onnx"
    command = ["python", "-m", f"examples.{example.module}", "--size", str(size), "--players", str(players)]
    command += ["--seconds", f"{seconds:g}", "--seed", str(seed), "--out", str(out.relative_to(ROOT)), *example.more]
    print(*command, flush=True)
    printed = []
    with subprocess.Popen([sys.executable, *command[1:]], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout or ():
            print(line, end="", flush=True)
            printed.append(line)
    shares = SHARE.findall("".join(printed))
    played = None if run.returncode or not shares else evaluate(out, size, players, seed + 1)
    if played is None:
        print(f"{name} has failed", file=sys.stderr)
        return None
    card = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    described = machine.describe()
    share, interval = shares[0]
    return {
        "name": name,
        "command": " ".join(command),
        "date": datetime.date.today().isoformat(),
        "machine": {key: described[key] for key in ("processor", "cores", "commit")},
        "versions": card["versions"],
        "turns": card["trained"]["turns"],
        "seconds": seconds,
        "size": size,
        "players": players,
        "inside": {"win_share": float(share), "interval": float(interval)},
        "file": {"win_share": played["win_share"][0], "interval": played["interval"][0]},
    }


def evaluate(file: Path, size: int, players: int, seed: int) -> Any:
    """Return what `rolit evaluate` says of a file, on other rounds than those that the example has played, or None."""
    command = ["rolit", "evaluate", str(file.relative_to(ROOT)), "--against", "random", "--size", str(size)]
    command += ["--players", str(players), "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        print(*command, flush=True)
        run = subprocess.run([sys.executable, "-m", "rolit_env", *command[1:], "--json", str(report)], cwd=ROOT, check=False)
        return None if run.returncode else json.loads(report.read_text(encoding="utf-8"))["results"][0]


def keep(row: dict[str, Any]) -> None:
    """Put a row in the place of the last one of that name."""
    report = json.loads(ROWS.read_text(encoding="utf-8"))
    rows = {kept["name"]: kept for kept in report["rows"]} | {row["name"]: row}
    report = {"tested": row["date"], "rows": [rows[name] for name in EXAMPLES if name in rows]}
    with replacing(ROWS) as draft:
        draft.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def short(row: dict[str, Any]) -> list[str]:
    """Return what is wrong with a row."""
    inside, file = row["inside"], row["file"]
    wrong = []
    if file["win_share"] < WANTED:
        wrong.append(f"{row['name']} wins {file['win_share']:.3f} of its rounds against random, less than {WANTED:.2f}")
    if abs(inside["win_share"] - file["win_share"]) > inside["interval"] + file["interval"]:
        wrong.append(f"{row['name']} wins {inside['win_share']:.3f} in its library and {file['win_share']:.3f} as a file")
    return wrong


def measured(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of trainings."""
    if not rows:
        return "Not measured yet: `make learn-libraries` does it.\n"
    lines = ["| library | board, players | seconds | turns | turns/s | win share in it | win share of its file |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        cells = [EXAMPLES[row["name"]].library, f"{row['size']}×{row['size']}, {row['players']}", f"{row['seconds']:g}"]
        rate = float(f"{row['turns'] / row['seconds']:.2g}")  # no more digits than another run would give again
        cells += [f"{row['turns']:,}", f"{rate:,.0f}"]
        cells += [f"{row[key]['win_share']:.3f} ± {row[key]['interval']:.3f}" for key in ("inside", "file")]
        lines.append(f"| {' | '.join(cells)} |")
    where = {(row["machine"]["processor"], row["machine"]["cores"], row["date"]) for row in rows}
    lines += ["", *(f"{processor}, {cores} cores, {date}." for processor, cores, date in sorted(where))]
    return "\n".join(lines) + "\n"


def versions(tested: str) -> str:
    """Return the table of the versions that the constraints pin, each library once."""
    lines = ["| library | package | pinned in | tested |", "| --- | --- | --- | --- |"]
    for example in {example.package: example for example in EXAMPLES.values()}.values():
        file = CONSTRAINTS[example.session]
        pins = (ROOT / file).read_text(encoding="utf-8")
        (version,) = re.findall(rf"^{re.escape(example.package)}==(.+)$", pins, flags=re.MULTILINE | re.IGNORECASE)
        library = example.library.partition(",")[0]
        lines.append(f"| {library} | {example.package} {version} | [{file}]({file}) | {tested} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Train, or fill in the tables."""
    parser = argparse.ArgumentParser(prog="python docs/libraries.py", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    training = verbs.add_parser("learn", help="train, and keep what came of it")
    training.add_argument("session", choices=CONSTRAINTS, help="the environment that this runs in")
    training.add_argument("--only", nargs="+", choices=EXAMPLES, default=list(EXAMPLES), help="some of its examples")
    training.add_argument("--size", type=int, default=8, help="side of the board")
    training.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    training.add_argument("--seconds", type=float, default=300, help="time for each training")
    training.add_argument("--seed", type=int, default=0)
    verbs.add_parser("table", help="fill in the tables with what was kept")
    options = parser.parse_args(argv)
    if options.verb == "learn":
        failed = 0
        for name in options.only:
            if EXAMPLES[name].session == options.session:
                row = learn(name, options.size, options.players, options.seconds, options.seed)
                if row is None:
                    failed += 1
                else:
                    keep(row)
        return 1 if failed else 0
    report = json.loads(ROWS.read_text(encoding="utf-8"))
    table = measured(report["rows"])
    fill_in(DOCS / "libraries.md", START, END, table)
    fill_in(ROOT / "README.md", START, END, versions(report["tested"]))
    print(table, end="")
    wrong = [complaint for row in report["rows"] for complaint in short(row)]
    wrong += [f"{name} is missing" for name in EXAMPLES if name not in {row["name"] for row in report["rows"]}]
    for complaint in wrong:
        print(complaint, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
