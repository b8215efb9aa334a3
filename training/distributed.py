"""Several processes as one learner: what each of them has comes in, what all of them have together comes out.

    torchrun --nproc-per-node 2 -m -- training.train --config configs/8x8-2p.yaml

Every process holds the same network and draws the same random numbers. Each plays its share of the rounds, all get to know
all of them, each learns from its share of every minibatch, and the gradients are added up: how many processes there are
changes who computes what, and nothing else. Without torchrun there is one process, whose share is everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor


@cache
def rank() -> int:
    """Return this process's number, 0 for the first, which alone logs, evaluates and saves."""
    return int(os.environ["RANK"]) if dist.is_torchelastic_launched() else 0


@cache
def processes() -> int:
    """Return how many processes learn together."""
    return int(os.environ["WORLD_SIZE"]) if dist.is_torchelastic_launched() else 1


def local_rank() -> int:
    """Return this process's number on its machine, which is the number of its GPU."""
    return int(os.environ["LOCAL_RANK"]) if dist.is_torchelastic_launched() else 0


@contextmanager
def connected() -> Iterator[None]:
    """Within, the processes can talk to each other; waits until all of them are there."""
    if processes() == 1:
        yield
        return
    import torch._dynamo  # noqa: F401  # imported later, it holds on to the group, and the process may abort when it ends

    dist.init_process_group()  # gloo between CPUs, NCCL between GPUs
    try:
        yield
    finally:
        dist.destroy_process_group()


def share(count: int) -> slice:
    """Return this process's part of so many things in a row; the parts are as equal as they can be."""
    return slice(count * rank() // processes(), count * (rank() + 1) // processes())


def join(part: Tensor, count: int, dim: int = 0) -> Tensor:
    """Put the shares of all processes together along one axis, which has `count` places then: the inverse of `share`."""
    if processes() == 1:
        return part
    whole = part.new_zeros((*part.shape[:dim], count, *part.shape[dim + 1 :]))
    mine = share(count)
    whole.narrow(dim, mine.start, mine.stop - mine.start).copy_(part)
    dist.all_reduce(whole)  # nobody else has anything but zeros in these places
    return whole


def add_up(tensors: Sequence[Tensor]) -> None:
    """Replace each float32 tensor by its sum over all processes, in one message."""
    if processes() == 1:
        return
    sums = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(sums)
    for tensor, total in zip(tensors, sums.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))


def agree(seconds: float, stop: bool) -> tuple[float, bool]:
    """Return the first process's clock, and whether any process wants to stop: the same answer everywhere."""
    if processes() == 1:
        return seconds, stop
    answers = torch.tensor([seconds if rank() == 0 else 0.0, stop], dtype=torch.float64)
    dist.all_reduce(answers)
    return answers[0].item(), bool(answers[1] > 0)
