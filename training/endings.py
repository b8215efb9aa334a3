"""The truth about the last turns of two players' rounds: positions go in, who wins them under best play of both comes out.

Legend: N positions.
"""

from __future__ import annotations

from threading import local
from typing import Any

import numpy as np
import torch
from numba import int64
from torch import Tensor

from rolit_env.kernel import lean_kernel
from rolit_env.search.solver import make_memory, solve_pair
from training.threads import for_each_share

_of_thread = local()


def outcomes(words: Tensor, size: int) -> Tensor:
    """Return what the mover of each position gets with best play of both: 1 for a win, 0 for a draw, -1 for a loss.

    Args:
        words: Positions of two players as the mover sees them, int64 [N, 5], with few empty cells: each more doubles the time.
        size: Side of the board.

    Returns:
        Payoffs of the kind `win`, float32 [N].
    """
    view, found = words.cpu().numpy().view(np.uint64), np.empty(len(words), np.float32)

    def solve(start: int, stop: int) -> None:
        if not hasattr(_of_thread, "memory"):
            _of_thread.memory = make_memory()
        _solve(view, size, _of_thread.memory, start, stop, found)

    for_each_share(solve, len(view))
    return torch.from_numpy(found).to(words.device)


@lean_kernel
def _solve(words: Any, size: int, memory: Any, start: int, stop: int, found: Any) -> None:
    for at in range(start, stop):
        own, other, neutral = words[at, 0], words[at, 1], words[at, 2] | words[at, 3]
        balls = int64(solve_pair(own, other, neutral, int64(-1), int64(1), int64(size), memory))
        found[at] = max(min(balls, 1), -1)
