"""What every batch of games in lockstep knows without looking at its arrays: whose turn it is, and when the rounds end.

A round always lasts n·n − 4 turns and nobody passes, so games started together are always at the same turn with the
same seat to move; a batch needs no done flags and no turn array.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.errors import OptionError, RoundNotOverError, RoundOverError
from rolit_env.variant import PLAYING_COLORS, Variant


class Lockstep:
    """Rounds of one variant, all at the same turn.

    Attributes:
        variant: The variant played.
        ply: Turns played.
    """

    variant: Variant
    ply: int

    @property
    def plies(self) -> int:
        """Turns in a round, n·n − 4."""
        return self.variant.plies

    @property
    def seat(self) -> int:
        """The seat to move in every game, 0 to P − 1."""
        return self.ply % self.variant.players

    @property
    def done(self) -> bool:
        """Whether the boards are full."""
        return self.ply == self.variant.plies

    def refuse_when_over(self) -> None:
        """Raise `RoundOverError` when the boards are full."""
        if self.done:
            raise RoundOverError("the rounds are over: the boards are full, so no move is legal; start a new batch")

    def refuse_turns(self, turns: int) -> None:
        """Raise `RoundOverError` when the boards are full, and `OptionError` when so many turns can't be played."""
        self.refuse_when_over()
        if not 1 <= turns <= self.plies - self.ply:
            raise OptionError(f"turns={turns!r} can't be played; allowed are 1 to {self.plies - self.ply}, which are left")

    def refuse_before_end(self) -> None:
        """Raise `RoundNotOverError` when the boards are not full."""
        if not self.done:
            raise RoundNotOverError(f"rounds have payoffs only when they are over; {self.plies - self.ply} turns are left")

    def mover_first(self) -> tuple[int, int, int, int]:
        """Return the four slots from the mover's side: its own, the other seats in turn order, neutral colours last."""
        return _mover_first(self.variant.players, self.seat)

    def colors_by_starter(self) -> npt.NDArray[np.int64]:
        """Return the colour in each of the four slots for each colour that starts, int64 [4, 4] (rows that can't be: 0)."""
        table = np.zeros((4, 4), np.int64)
        for color in PLAYING_COLORS[self.variant.players]:
            table[color] = self.variant.slot_colors(color)
        return table


@cache
def _mover_first(players: int, seat: int) -> tuple[int, int, int, int]:
    first, second, third, fourth = (*((seat + turn) % players for turn in range(players)), *range(players, 4))
    return first, second, third, fourth


def checked_choice(games: Any, count: int) -> npt.NDArray[np.int64]:
    """Return a choice of so many games (one, a slice, indices or a bool choice) as indices, int64 [chosen].

    Raises `OptionError` for what chooses none, and `IndexError` for games that are not there.
    """
    chosen: npt.NDArray[np.int64] = np.ascontiguousarray(np.arange(count)[games])  # at least one axis
    if chosen.ndim > 1 or not len(chosen):
        raise OptionError("no games are chosen; allowed are one, a slice, indices and a bool choice, with one game or more")
    return chosen


def checked_count(name: str, given: object) -> int:
    """Return a number of games (or of what else `name` says) as an int, or raise `OptionError` when it is none."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise OptionError(f"{name}={given!r} is no number of {name}; allowed are ints from 1 up")
    return int(given)
