"""Every error this package raises on purpose, one class for each kind of failure.

All are `ValueError`s, each says in one sentence what was wrong and what is allowed, and none leaves anything half done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

IllegalReason = Literal["occupied", "not_adjacent", "capture_missed"]


class RolitError(ValueError):
    """The base of all errors below."""


class VariantError(RolitError):
    """A board size and player count that Rolit is not played with, or a file made for another variant."""


class OptionError(RolitError):
    """A named option (colour, reward, render mode, ...) with a value that does not exist."""


class ActionError(RolitError):
    """An action of the wrong type, shape or range: not a cell of the board at all."""


class IllegalMoveError(RolitError):
    """A cell of the board that the rules forbid now.

    Attributes:
        reason: The rule it breaks, for a batch that of the first game in `games`.
        games: The games of a batch in which the move is illegal; empty for a single board.
    """

    def __init__(self, message: str, reason: IllegalReason, games: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.games = tuple(games)

    def __reduce__(self) -> tuple[type[IllegalMoveError], tuple[str, IllegalReason, tuple[int, ...]]]:
        return type(self), (str(self), self.reason, self.games)


class RoundOverError(RolitError):
    """A move asked of, or made in, a round whose board is full, or that was never started."""


class RoundNotOverError(RolitError):
    """A result asked for while the round still goes on."""


class PositionError(RolitError):
    """A text or a set of words that is no position of Rolit."""


class AgentError(RolitError):
    """An agent description that names no agent, or an option the agent does not have."""


class ModelFileError(RolitError):
    """A policy file or its card that is missing, cut short, foreign, or in conflict with each other."""


class ConfigError(RolitError):
    """A setting of a training or tournament that is unknown, of the wrong type, or out of range."""


class CheckpointError(RolitError):
    """A checkpoint that is missing, cut short, foreign, or from another configuration."""


class DivergedError(RolitError):
    """A training whose loss is no longer a finite number."""


class OutputError(RolitError):
    """A path that can't be written to."""


class RecordError(RolitError):
    """A record of a round or a match that is cut short, foreign, or tells of something that the rules forbid.

    Attributes:
        turn: The number of the turn, from 1, where there is one.
    """

    def __init__(self, message: str, turn: int | None = None) -> None:
        super().__init__(message)
        self.turn = turn

    def __reduce__(self) -> tuple[type[RecordError], tuple[str, int | None]]:
        return type(self), (str(self), self.turn)


class ResultsError(RolitError):
    """Results of a tournament that are missing, damaged, of other settings, or being written by another process."""


class SolveError(RolitError):
    """A position with too many empty cells to be solved, or a time that ran out before it was."""


class BenchError(RolitError):
    """A measurement of `rolit bench` failed; those of the others are there."""
