"""Work on the CPU in as many threads as torch has: shares of it come in, and it is done when the call returns."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


def for_each_share(work: Callable[[int, int], None], count: int, least: int = 64) -> None:
    """Do `work(start, stop)` for shares of so many things, none much smaller than `least`."""
    threads = min(torch.get_num_threads(), 1 + count // least)
    edges = [count * thread // threads for thread in range(threads + 1)]
    for_each(work, itertools.pairwise(edges))


def for_each(work: Callable[[int, int], None], shares: Iterable[tuple[int, int]]) -> None:
    """Do `work` for each pair of arguments; the work should release Python's lock, as kernels do."""
    first, *others = shares
    waiting = [_pool(torch.get_num_threads()).submit(work, *share) for share in others]
    work(*first)
    for done in waiting:
        done.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="rolit")


if hasattr(os, "register_at_fork"):  # a forked process has no threads, so it needs pools of its own
    os.register_at_fork(after_in_child=_pool.cache_clear)
