"""Compiled loops over games: a plain function comes in, a numba kernel whose disk cache can be trusted comes out."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Timer
from types import ModuleType
from typing import Any, TypeVar

from numba import njit
from numba.core import event
from numba.core.options import DefaultOptions

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = Path(__file__).parent

_STAMPS = {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in PACKAGE.rglob("*.py")}
"""What the files were when they were imported: kernels are made later, when a file may have changed on disk."""

PATIENCE = 1.0
"""Seconds of compiling, summed up in a process, after which the reason of the pause is logged."""


def kernel(function: Function) -> Function:
    """Compile at the first call and keep the machine code on disk, so that the next process starts without a pause.

    Kernels release Python's lock, so that threads can share the games of a batch. Where no folder takes the cache, or it is
    damaged, each process compiles for itself.
    """
    return _compiled(function)


def lean_kernel(function: Function) -> Function:
    """Compile one that makes no arrays: then nobody counts references to its views, which takes longer than to look at them.

    Arrays, copies of slices too, must come in as arguments, and can't be returned.
    """
    # An option that numba keeps private, and refuses at the first call when it does not know it.
    return _compiled(function, **({"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}))


def _compiled(function: Function, **options: Any) -> Function:
    options |= {"error_model": "numpy", "nogil": True}
    dispatcher: Any
    try:
        dispatcher = njit(cache=True, **options)(function)
        cache = dispatcher._cache
        cache._cache_file = _CacheFile(cache._cache_file, _sources(function.__globals__, {function.__code__.co_filename}))
    except (AttributeError, RuntimeError):
        # No folder on this machine takes the cache (RuntimeError), or this numba keeps its cache in another way, or compiles
        # nothing (NUMBA_DISABLE_JIT): then rather compile in each process than fail, or trust a stale cache.
        dispatcher = njit(**options)(function)
    compiled: Function = dispatcher
    return compiled


def _sources(names: dict[str, Any], found: set[str]) -> set[str]:
    """Add to `found` the files of this package whose functions can be compiled into one that knows these names."""
    found.add(__file__)  # says how
    for value in names.values():
        module = sys.modules.get(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "")
        path = getattr(module, "__file__", None)
        if path in _STAMPS and path not in found:
            found.add(path)
            _sources(vars(module), found)
    return found


class _CacheFile:
    """Numba's file of cached machine code, made safe.

    numba takes a cached kernel for stale when the kernel's own file changes, and does not look at the files of the functions
    inlined in it: after a change of the rules, games in bulk would go on by the old ones. And two processes that compile
    at once may choose the same file for different kernels, and later processes load the wrong one. So each entry says what
    it is, the stamps of all its sources included, and an entry that is another's is no entry. A cache is no place to fail,
    so one that can't be written or read is as good as none.

    Args:
        inner: Numba's own.
        sources: The files that the kernel is compiled from.
    """

    def __init__(self, inner: Any, sources: set[str]) -> None:
        self._inner = inner
        self._inner._source_stamp = (inner._source_stamp, *((path, _STAMPS.get(path)) for path in sorted(sources)))

    def save(self, key: Any, data: Any) -> None:
        """Keep machine code, if that can be done."""
        entry = (key, self._inner._source_stamp), data
        try:
            self._inner.save(key, entry)
        except Exception:
            with suppress(Exception):  # a damaged index can be begun anew, a full disk can't be helped
                self._inner.flush()
                self._inner.save(key, entry)

    def load(self, key: Any) -> Any:
        """Return the machine code that was kept, or None."""
        with suppress(Exception):
            kept, data = self._inner.load(key)
            if kept == (key, self._inner._source_stamp):
                return data
        return None

    def flush(self) -> None:
        """Forget what was kept."""
        self._inner.flush()


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
        module = event.data["dispatcher"].__module__ or ""  # functions made by exec have none
        if self._depth == 1 and self.left > 0 and module.startswith("rolit_env."):
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
        logging.getLogger("rolit_env").warning("rolit_env is compiling its loops for this machine, which takes a few seconds")


announcement = _Announcement()
event.register("numba:compile", announcement)  # type: ignore[no-untyped-call]
