"""What a finished round is worth: ball counts by seat come in, a zero-sum vector by seat comes out."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from rolit_env.errors import OptionError

Payoff = Literal["win", "balls", "rank"]
PAYOFFS: tuple[Payoff, ...] = get_args(Payoff)


def check_payoff(kind: str) -> Payoff:
    """Return `kind`, or raise `OptionError` naming the payoffs that exist."""
    if kind not in PAYOFFS:
        raise OptionError(f"payoff {kind!r} does not exist; allowed are {', '.join(PAYOFFS)}")
    return kind


def win_shares(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return each seat's part of the round: leaders share 1 equally. int [..., P] to float64 [..., P]."""
    balls = np.asarray(counts)
    leads = balls == balls.max(axis=-1, keepdims=True)
    shares: npt.NDArray[np.float64] = leads / leads.sum(axis=-1, keepdims=True)
    return shares


def payoffs(counts: npt.ArrayLike, kind: Payoff, cells: int) -> npt.NDArray[np.float32]:
    """Return the payoff of each seat, zero-sum, a sole winner's `win` and `rank` being +1.

    Args:
        counts: Balls by seat, int [..., P].
        kind: `win` shares 1 among the leaders, centred and scaled: ±1 for two players, +1 and −1/(P − 1) otherwise.
            `balls` is the share of the board, centred. `rank` runs from +1 (first) to −1 (last), ties get their mean.
        cells: Cells of the board, which `balls` divides by.

    Returns:
        float32 [..., P].
    """
    balls = np.asarray(counts)
    players = balls.shape[-1]
    if kind == "win":
        value = (win_shares(balls) - 1 / players) * players / (players - 1)
    elif kind == "balls":
        value = (balls - balls.mean(axis=-1, keepdims=True)) / cells
    else:
        beats = np.sign(balls[..., :, None] - balls[..., None, :]).sum(axis=-1)
        value = beats / (players - 1)
    result: npt.NDArray[np.float32] = value.astype(np.float32)
    return result
