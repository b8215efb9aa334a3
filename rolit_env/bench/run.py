"""Side by side: names of layers and peers come in, the timings of all of them go out as plain data."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rolit_env.bench import ROWS
from rolit_env.bench.machine import ROOT, cores, describe
from rolit_env.bench.measure import Row
from rolit_env.errors import OptionError

LEARNER = "learner"
"""The name of the learner's two phases. A checkout's own program times them, because the package knows no learner."""

NAMES = (*ROWS, LEARNER)
"""What can be asked for."""

RATIOS = (
    ("step", "rust-reversi", 80.0),
    ("random", "pgx", 150.0),
    ("aec", "empty", 0.85),
    ("aec", "connect-four", 1.6),
)
"""A layer, what it is compared with, and how many times as fast it is meant to be."""

FLAT = 1.2
"""How many times as fast the best number of games side by side may be as the worst."""

Progress = Callable[[str, str, int, int], None]


def run_bench(
    names: Sequence[str] | None = None,
    *,
    games: Sequence[int],
    repeats: int,
    seconds: float,
    threads: int | None = None,
    peers: bool = True,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Time layers and peers side by side.

    Args:
        names: Some of `NAMES`, or None for all.
        games: Numbers of games side by side. `step` and `random` are timed at all of them, `threads` at the last, others at
            the first.
        repeats: Timings of each.
        seconds: Shortest time of one timing.
        threads: Cores for what uses several, None for all that this process may use.
        peers: Whether other libraries are timed too.
        progress: Called before each step: with what is going on, which row it is about, how many timings are done and
            how many there will be.

    Returns:
        `date`, `machine`, `settings`, `rows` and `ratios`, all ready for JSON. A row has `turns_per_second`, one number a
        repeat, or `missing`, what to install, or `error`, the last words of a process that failed.

    Raises:
        OptionError: for an unknown name, none that is left, or more threads than there are cores.
    """
    available = cores()
    threads = len(available) if threads is None else threads
    if not 1 <= threads <= len(available):
        raise OptionError(
            f"threads={threads} does not fit; allowed are 1 to {len(available)}, the cores that may be used here"
        )
    chosen = _chosen(names, peers)
    report: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": describe(),
        "settings": {"games": list(games), "repeats": repeats, "seconds": seconds, "threads": threads},
    }
    with ExitStack() as stack:
        measurements: list[_Measurement] = []
        for name in chosen:
            if name in ROWS:
                row = ROWS[name]
                pinned = available[:threads] if row.cores == "all" else available[-1:]
                counts = {"none": [None], "first": games[:1], "last": games[-1:], "all": games}[row.games]
                measurements += [stack.enter_context(_Measurement(row, count, seconds, pinned)) for count in counts]
        total = len(measurements) * repeats
        # Two at a time start up: while one is waited for, the next already imports.
        for measurement, following in zip_longest(measurements, measurements[1:]):
            progress("starting", measurement.row.name, 0, total)
            measurement.start()
            if following:
                following.start()
            measurement.wait_until_ready()
        for repeat in range(repeats):
            for number, measurement in enumerate(measurements):
                progress(f"round {repeat + 1}", measurement.row.name, repeat * len(measurements) + number, total)
                measurement.time()
    report["rows"] = [measurement.result for measurement in measurements]
    if LEARNER in chosen:
        progress("running the program of the learner", LEARNER, total, total)
        report["rows"] += _learner_rows(available[:threads])
    report["ratios"] = _ratios(report["rows"])
    return report


def _chosen(names: Sequence[str] | None, peers: bool) -> list[str]:
    unknown = [name for name in names or () if name not in NAMES]
    if unknown:
        raise OptionError(f"there is nothing called {unknown[0]!r} to time; allowed are {', '.join(NAMES)}")
    wanted = [name for name in NAMES if names is None or name in names]
    left = [name for name in wanted if peers or name not in ROWS or not ROWS[name].peer]
    if not left:
        allowed = ", ".join(name for name in NAMES if name not in ROWS or not ROWS[name].peer)
        raise OptionError(f"without peers nothing is left to time; allowed are {allowed}")
    return left


class _Measurement:
    """A row of the table and the process that times it."""

    def __init__(self, row: Row, games: int | None, seconds: float, pinned: Sequence[int]) -> None:
        self.row = row
        self.result: dict[str, Any] = {
            "name": row.name,
            "title": row.title.format(games=f"{games or 1:,}"),
            "kind": "peer" if row.peer else "layer",
            "games": games,
            "cores": len(pinned),
        }
        self._command = [sys.executable, "-m", "rolit_env.bench", row.name, str(games or 1), str(seconds)]
        self._pinned = pinned
        self._process: subprocess.Popen[str] | None = None
        if any(find_spec(package) is None for package in row.needs):
            self.result["missing"] = f"pip install {row.install}"

    def __enter__(self) -> _Measurement:
        self._words = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # __exit__ closes it
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
        self._words.close()

    def start(self) -> None:
        """Start the process, unless it runs already or something is missing."""
        if self._process is None and "missing" not in self.result:
            self._process = start_pinned(
                self._command,
                self._pinned,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                start_new_session=True,  # Ctrl-C in the terminal reaches this process only, which ends the others
            )

    def wait_until_ready(self) -> None:
        """Wait until everything is imported, compiled and warm, and note down what the process says about itself."""
        self.result |= self._read()

    def time(self) -> None:
        """Ask for one timing."""
        if not self._process:
            return
        try:
            assert self._process.stdin
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()
            return
        timing = self._read()
        if timing:
            self.result.setdefault("turns_per_second", []).append(timing["turns"] / timing["seconds"])
            self.result["result"] = timing["result"]

    def _read(self) -> dict[str, Any]:
        if not self._process:
            return {}
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._fail()
            return {}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _fail(self) -> None:
        assert self._process
        self._process.communicate()
        self._process = None
        self._words.seek(0)
        lines = self._words.read().strip().splitlines()
        self.result.pop("turns_per_second", None)
        self.result["error"] = lines[-1] if lines else "the process ended without a word"


def start_pinned(command: Sequence[str], pinned: Sequence[int], **settings: Any) -> subprocess.Popen[str]:
    """Start a process that may use some cores only, where the system can do that, and knows how many."""
    count = str(len(pinned))
    environment = os.environ | {"NUMBA_NUM_THREADS": count, "OMP_NUM_THREADS": count, "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    if not hasattr(os, "sched_setaffinity"):
        return subprocess.Popen(command, env=environment, text=True, **settings)
    # A new process inherits the cores of the thread that starts it, so that libraries find them when they are imported.
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, pinned)
    try:
        return subprocess.Popen(command, env=environment, text=True, **settings)
    finally:
        os.sched_setaffinity(0, before)


def _learner_rows(pinned: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rows that the learner's own program gives."""
    row = {"name": LEARNER, "title": "the learner's phases", "kind": "learner", "games": None, "cores": len(pinned)}
    if not (ROOT / "training" / "speed.py").exists():
        return [row | {"missing": "run rolit from a checkout with training/ in it"}]
    if find_spec("torch") is None:
        return [row | {"missing": "pip install '.[train]'"}]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "speed.json"
        command = [sys.executable, "-m", "training.speed", "--only", "learner", "--json", str(file)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with start_pinned(command, pinned, cwd=ROOT, start_new_session=True, **pipes) as process:
            try:
                said, _ = process.communicate()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            lines = said.strip().splitlines()
            return [row | {"error": lines[-1] if lines else "the process ended without a word"}]
        rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return [{**row, "title": given["name"], **given, "kind": "learner"} for given in rows]


def _ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare repeat by repeat, because what the machine did to one timing it did to its neighbours too."""
    ratios = []

    def timed(name: str) -> list[dict[str, Any]]:
        return [row for row in rows if row["name"] == name and "turns_per_second" in row]

    def compare(name: str, of: dict[str, Any], to: dict[str, Any], **goal: float) -> None:
        quotients = [one / other for one, other in zip(of["turns_per_second"], to["turns_per_second"], strict=True)]
        ratios.append(
            {"name": name, "median": statistics.median(quotients), "lowest": min(quotients), "highest": max(quotients), **goal}
        )

    for name, other, at_least in RATIOS:
        if timed(name) and timed(other):
            compare(f"{name} / {other}", timed(name)[0], timed(other)[0], at_least=at_least)
    for name in (row.name for row in ROWS.values() if row.games == "all"):
        by_rate = sorted(timed(name), key=lambda row: statistics.median(row["turns_per_second"]))
        if len(by_rate) > 1:
            compare(f"{name}: best / worst number of games", by_rate[-1], by_rate[0], at_most=FLAT)
    return ratios
