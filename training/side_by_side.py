"""Run commands side by side, each in a process with its share of the cores: commands go in, exit codes come out as they end.

Parts of a training wait for each other, so a run with two threads leaves cores idle; two runs with one thread each do not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that say how many threads a process may use for torch and NumPy."""


def run_side_by_side(
    commands: Mapping[str, Sequence[str]], at_once: int, threads: int, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[tuple[str, int]]:
    """Run commands and yield the name and exit code of each that has ended; show what they print, with their name before it.

    Args:
        commands: Each by a name.
        at_once: How many of them run at the same time.
        threads: Threads that each of them may use.
        should_stop: Asked ten times a second; once it says so, none is started any more, and those that run are
            interrupted, once.
    """
    waiting, running, stopped = list(commands), dict[str, subprocess.Popen[str]](), False
    try:
        while running or (waiting and not should_stop()):
            while waiting and len(running) < at_once and not should_stop():
                name = waiting.pop(0)
                running[name] = _start(name, commands[name], threads)
            if should_stop() and not stopped:
                stopped = True
                for process in running.values():
                    process.send_signal(signal.SIGINT)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                yield name, running.pop(name).returncode
            time.sleep(0.1)
    finally:
        for process in running.values():
            process.terminate()


def _start(name: str, command: Sequence[str], threads: int) -> subprocess.Popen[str]:
    # A session of its own, so that Ctrl-C in a terminal comes to it once, from here. Where this process is killed, nobody
    # reads what the other prints any more, and it ends at its next line.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",  # where nobody read on, the other would wait for ever
        env=os.environ | dict.fromkeys(THREADS, str(threads)),
        start_new_session=True,
    )
    threading.Thread(target=_show, args=(name, process.stdout), daemon=True).start()
    return process


def _show(name: str, lines: IO[str]) -> None:
    for line in lines:
        print(f"{name}: {line}", end="", file=sys.stderr, flush=True)
