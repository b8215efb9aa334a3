"""Adam for tables of which a step meets few rows: gradients go in, and only the rows that have one change."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import float32, int64
from torch import Tensor, nn

from rolit_env.kernel import lean_kernel
from training.threads import for_each_share


def param_groups_of(network: nn.Module) -> list[dict[str, Any]]:
    """Return a network's parameters for `LazyAdam`: tables, which are all `nn.Embedding`, in a lazy group after the others."""
    tables = [module.weight for module in network.modules() if isinstance(module, nn.Embedding)]
    others = [parameter for parameter in network.parameters() if all(parameter is not table for table in tables)]
    return [{"params": others}, {"params": tables, "lazy": True}]


NOISE = 1e-4
"""A row whose gradients are all within this part of `eps` has none: it would hardly move, and where gradients cancel out, as
those of a row that all turns of a position share do, what rounding leaves must not count as a step."""


class LazyAdam(torch.optim.Adam):
    """Adam, but in the parameters of a group with `lazy=True` a row without gradient keeps its place and its moments.

    Plain Adam would go on moving rows long after they were met, and shrink their moments meanwhile, so that the next
    meeting moved them far too much. Here each row is as if it were alone: it counts its own steps (in the state's `step`,
    float32 [T], beside `exp_avg` and `exp_avg_sq` of the parameter's shape [T, W]). Of a lazy group's options `lr`, `betas`
    and `eps` count.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Move the parameters by their gradients, which `closure`, if given, makes first; return what it returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        lazy = [(group, parameter) for group in self.param_groups if group.get("lazy") for parameter in group["params"]]
        gradients = [parameter.grad for _, parameter in lazy]
        for _, parameter in lazy:
            parameter.grad = None  # the base class leaves alone what has none
        super().step()
        for (group, table), gradient in zip(lazy, gradients, strict=True):
            table.grad = gradient
            if gradient is not None:
                self._move(table, gradient, group)
        return loss

    def _move(self, table: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros(len(table), device=table.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        steps, mean, square = state["step"], state["exp_avg"], state["exp_avg_sq"]
        rate, eps, (beta1, beta2) = group["lr"], group["eps"], group["betas"]
        if table.device.type == "cpu":
            arrays = [tensor.detach().numpy() for tensor in (table, gradient, steps, mean, square)]
            grown = _grown(beta1, beta2)
            for_each_share(lambda start, stop: _move_rows(*arrays, rate, beta1, beta2, eps, grown, start, stop), len(table))
            return
        move_rows_in_torch(table, gradient, steps, mean, square, rate, beta1, beta2, eps)


def move_rows_in_torch(
    table: Tensor,
    gradient: Tensor,
    steps: Tensor,
    mean: Tensor,
    square: Tensor,
    rate: float,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """Do on any device what `_move_rows` does on the CPU."""
    met = (gradient.abs() > NOISE * eps).any(dim=1, keepdim=True)
    steps += met.squeeze(1)
    mean.copy_(torch.where(met, mean.lerp(gradient, 1 - beta1), mean))
    square.copy_(torch.where(met, square.lerp(gradient.square(), 1 - beta2), square))
    count = steps[:, None].clamp(min=1)
    size = (square / (1 - beta2**count)).sqrt_().add_(eps)
    table -= torch.where(met, rate * mean / (1 - beta1**count) / size, 0)


@cache
def _grown(beta1: float, beta2: float) -> npt.NDArray[np.float32]:
    """Return what part of their size mean and root of squares have after so many steps, having begun as 0, float32 [·, 2].

    It ends where both are 1 but for rounding: powers for each row would take longer than all the rest.
    """
    slower = max(beta1, beta2, 0.5)
    steps = np.arange(1 + math.ceil(math.log(2.0**-26, slower)))[:, None]
    return ((1 - np.array([beta1, beta2]) ** steps) ** (1, 0.5)).astype(np.float32)


@lean_kernel
def _move_rows(
    table: Any,
    gradient: Any,
    steps: Any,
    mean: Any,
    square: Any,
    rate: float,
    beta1: float,
    beta2: float,
    eps: float,
    grown: Any,
    start: int,
    stop: int,
) -> None:
    least_gradient = float32(NOISE * eps)
    for row in range(start, stop):
        met = False
        for place in range(table.shape[1]):
            met |= abs(gradient[row, place]) > least_gradient
        if not met:
            continue
        steps[row] += float32(1)
        # The corrections for having begun with moments of 0, put into one factor and into eps.
        count = min(int64(steps[row]), grown.shape[0] - 1)
        scale = grown[count, 1]
        pace = float32(rate) / grown[count, 0] * scale
        least = float32(eps) * scale
        for place in range(table.shape[1]):
            given = gradient[row, place]
            mean[row, place] += float32(1 - beta1) * (given - mean[row, place])
            square[row, place] += float32(1 - beta2) * (given * given - square[row, place])
            table[row, place] -= pace * mean[row, place] / (math.sqrt(square[row, place]) + least)
