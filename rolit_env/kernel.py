"""Compiled loops over games: a plain function comes in, a numba kernel whose disk cache can be trusted comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

INLINED = ("bits.py", "rules.py")
"""Files whose functions are compiled into kernels of other files."""


def kernel(function: Function) -> Function:
    """Compile at the first call and keep the machine code on disk, so that the next process starts without a pause.

    numba takes a cached kernel for stale when the kernel's own file changes, and does not look at the files of the
    functions inlined in it: after a change of the rules, games in bulk would go on by the old ones. So those files'
    stamps are added to the kernel's.
    """
    stamps = [(name, (stat := (Path(__file__).parent / name).stat()).st_mtime_ns, stat.st_size) for name in INLINED]
    dispatcher: Any
    try:
        dispatcher = njit(cache=True, error_model="numpy")(function)
        cache_file = dispatcher._cache._cache_file
        cache_file._source_stamp = (cache_file._source_stamp, *stamps)
    except (AttributeError, RuntimeError):
        # No folder on this machine takes the cache (RuntimeError), or another numba keeps its stamp elsewhere: then
        # rather compile in each process than fail, or trust a stale cache.
        dispatcher = njit(error_model="numpy")(function)
    compiled: Function = dispatcher
    return compiled
