"""Compiled loops over games: a plain function comes in, a numba kernel whose disk cache can be trusted comes out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar

from numba import njit
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., Any])

INLINED = ("bits.py", "rules.py")
"""Files whose functions are compiled into kernels of other files."""

PATIENCE = 1.0
"""Seconds of compiling, summed up in a process, after which the reason of the pause is logged."""


def kernel(function: Function) -> Function:
    """Compile at the first call and keep the machine code on disk, so that the next process starts without a pause.

    Kernels release Python's lock, so that threads can share the games of a batch.

    numba takes a cached kernel for stale when the kernel's own file changes, and does not look at the files of the
    functions inlined in it: after a change of the rules, games in bulk would go on by the old ones. So those files'
    stamps are added to the kernel's.
    """
    stamps = [(name, (stat := (Path(__file__).parent / name).stat()).st_mtime_ns, stat.st_size) for name in INLINED]
    dispatcher: Any
    try:
        dispatcher = njit(cache=True, error_model="numpy", nogil=True)(function)
        cache_file = dispatcher._cache._cache_file
        cache_file._source_stamp = (cache_file._source_stamp, *stamps)
    except (AttributeError, RuntimeError):
        # No folder on this machine takes the cache (RuntimeError), or another numba keeps its stamp elsewhere: then
        # rather compile in each process than fail, or trust a stale cache.
        dispatcher = njit(error_model="numpy", nogil=True)(function)
    compiled: Function = dispatcher
    return compiled


def kernel_for_each_size(make: Callable[[int], Function]) -> Callable[[int], Function]:
    """Turn a maker of plain functions, which takes the side of a board, into one of kernels, each made when first asked for.

    A kernel that knows its board's shifts and masks as constants is faster than one that is handed them. What the made
    function refers to must be constants (or globals): numba's cache misses in every new process for anything compiled.
    """

    @cache
    def made(size: int) -> Function:
        return kernel(make(size))

    return made


class _Announcement(event.Listener):
    """Logs, once, why nothing happens: compiling may take a few seconds when a machine runs a kernel for the first time."""

    def __init__(self) -> None:
        self._depth = 0  # a kernel's compilation contains those of the functions inlined in it
        self.left = PATIENCE
        self._started = 0.0
        self._timer: Timer | None = None

    def on_start(self, event: Any) -> None:
        """Begin to wait."""
        self._depth += 1
        if self._depth == 1 and self.left > 0 and event.data["dispatcher"].__module__.startswith("rolit_env."):
            self._started = time.monotonic()
            self._timer = Timer(self.left, self._tell)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, _event: Any) -> None:
        """Count what was waited."""
        self._depth -= 1
        if self._depth == 0 and self._timer:
            self._timer.cancel()
            self._timer = None
            self.left -= time.monotonic() - self._started

    def _tell(self) -> None:
        logging.getLogger("rolit_env").warning(
            "rolit_env is compiling its loops for this machine; this takes a few seconds, once"
        )


announcement = _Announcement()
event.register("numba:compile", announcement)  # type: ignore[no-untyped-call]
