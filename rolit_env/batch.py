"""Thousands of rounds in lockstep: an action for each game comes in, words, masks and planes of the next turn come out.

Balls are stored by seat, because the colour that starts differs from game to game and the seat to move does not;
colours come back at the edges (`counts`, `board`).

Legend: B games, n side, P players, A = n·n actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import uint64

from rolit_env import rules
from rolit_env.bits import Words, popcount, select, unpack_words
from rolit_env.board import Board, explain_illegal, illegal_reason
from rolit_env.errors import (
    ActionError,
    IllegalMoveError,
    OptionError,
    PositionError,
    RoundOverError,
)
from rolit_env.kernel import kernel
from rolit_env.lockstep import Lockstep
from rolit_env.payoffs import Payoff, check_payoff, payoffs, win_shares
from rolit_env.rules import word_geometry
from rolit_env.variant import COLORS, PLAYING_COLORS, Variant, starter_color, variant

Actions = npt.NDArray[np.int64]


class GameBatch(Lockstep):
    """B rounds of one variant, played in lockstep.

    Args:
        games: Number of games, B.
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        starter: The colour that moves first in every game, or `random`: drawn for each game among those that play.
        seed: Seeds that draw; an int, a NumPy generator, or None for a fresh one.

    Attributes:
        variant: The variant played.
        balls: Cells of each slot's balls, uint64 [4, B]: the seats in turn order, then the neutral colours clockwise.
        legal: Legal cells of the seat to move, uint64 [B]. Both arrays are updated in place: read them, never write.
        starters: The colour in seat 0, int64 [B].
        ply: Turns played.

    Raises:
        VariantError: for another size or player count.
        OptionError: for a starter that does not play, or a number of games below 1.
    """

    def __init__(
        self,
        games: int,
        *,
        size: int = 8,
        players: int = 2,
        starter: str = "random",
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.variant: Variant = variant(size, players)
        if isinstance(games, bool) or not isinstance(games, int | np.integer) or games < 1:
            raise OptionError(f"games={games!r} is no number of games; allowed are ints from 1 up")
        self.starters: npt.NDArray[np.int64] = np.empty(int(games), np.int64)
        self.balls: Words = np.empty((4, int(games)), np.uint64)
        self.legal: Words = np.empty(int(games), np.uint64)
        self.reset(starter=starter, seed=seed)

    @classmethod
    def from_boards(cls, boards: Sequence[Board]) -> GameBatch:
        """Return a batch that goes on from boards of one variant and one turn. Raises `PositionError` for a mixture."""
        if len({(board.variant, board.ply) for board in boards}) != 1:
            raise PositionError("a batch needs at least one board, and all of one variant at one and the same turn")
        batch = cls(len(boards), size=boards[0].size, players=boards[0].players, starter=boards[0].starter)
        batch.starters[:] = [COLORS.index(board.starter) for board in boards]
        words = np.array([board.words for board in boards], np.uint64)
        batch.balls[:] = np.take_along_axis(words, batch._slot_colors(), axis=1).T
        batch.ply = boards[0].ply
        batch._find_legal()
        return batch

    def __len__(self) -> int:
        return len(self.legal)

    def reset(self, *, starter: str = "random", seed: int | np.random.Generator | None = None) -> None:
        """Start new rounds in the same arrays. Arguments and errors are those of the constructor."""
        players = self.variant.players
        playing = PLAYING_COLORS[players]
        if starter == "random":
            drawn = np.random.default_rng(seed).integers(players, size=len(self))
        else:
            drawn = np.full(len(self), playing.index(starter_color(starter, self.variant)))
        self.starters[:] = np.array(playing, np.int64)[drawn]
        self.balls[:] = np.array(self.variant.start, np.uint64)[self._slot_colors().T]
        self.ply = 0
        self._find_legal()

    def step(self, actions: npt.ArrayLike) -> None:
        """Play one action in each game.

        Args:
            actions: int [B], each a legal cell.

        Raises:
            RoundOverError: when the boards are full.
            ActionError: for an array of another shape or type, or cells off the board.
            IllegalMoveError: naming the games in which the rules forbid the action.
            Nothing changes in any game when one of these is raised.
        """
        cells = self._checked(actions)
        own, following, third, fourth = self._rows()
        _advance(own, following, third, fourth, cells, self.legal, word_geometry(self.variant.size))
        self.ply += 1
        if self.done:
            self.legal[:] = 0

    def random_actions(self, rng: np.random.Generator) -> Actions:
        """Return a uniformly random legal action for each game, int64 [B]. Raises `RoundOverError` at the end."""
        self.refuse_when_over()
        return draw_cells(self.legal, rng)

    def step_random(self, rng: np.random.Generator) -> None:
        """Play a uniformly random legal action in each game. Raises `RoundOverError` at the end."""
        self.step(self.random_actions(rng))

    def play_out(self, rng: np.random.Generator) -> None:
        """Play uniformly random legal actions until the boards are full; at the end already, nothing happens."""
        while not self.done:
            self.step_random(rng)

    def rolled(self, actions: npt.ArrayLike) -> Words:
        """Return the balls that one action in each game would roll, as words, uint64 [B]. Raises as `step` does."""
        cells = self._checked(actions)
        own, following, third, fourth = self._rows()
        rolled: Words = rules.rolled_balls(
            cells.astype(np.uint64), own, following | third | fourth, word_geometry(self.variant.size)
        )
        return rolled

    def view(self) -> Words:
        """Return the balls as the seat to move sees them, uint64 [B, 4]: its own, the others in turn order, neutral."""
        return np.stack(self._rows(), axis=1)

    def planes(self, out: npt.NDArray[np.int8] | None = None) -> npt.NDArray[np.int8]:
        """Return `view` as 0/1 planes, int8 [B, 4, n, n]: a fresh array, or `out`, which is overwritten.

        Raises `OptionError` for an `out` of another shape or type, or one that is not C-contiguous.
        """
        size = self.variant.size
        out = _checked_buffer(out, (len(self), 4, size, size))
        out[:] = unpack_words(self.view(), self.variant.cells).reshape(-1, 4, size, size)
        return out

    def legal_mask(self, out: npt.NDArray[np.int8] | None = None) -> npt.NDArray[np.int8]:
        """Return the legal cells as 0/1 vectors, int8 [B, A]: a fresh array, or `out`. Raises as `planes` does."""
        out = _checked_buffer(out, (len(self), self.variant.cells))
        out[:] = unpack_words(self.legal, self.variant.cells)
        return out

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the balls of each colour, int64 [B, 4]: red, yellow, green, blue."""
        by_color = np.empty((len(self), 4), np.int64)
        np.put_along_axis(by_color, self._slot_colors(), np.bitwise_count(self.balls.T).astype(np.int64), axis=1)
        return by_color

    def seat_counts(self) -> npt.NDArray[np.int64]:
        """Return the balls of each seat, int64 [B, P]."""
        return np.bitwise_count(self.balls[: self.variant.players].T).astype(np.int64)

    def payoffs(self, kind: Payoff = "win") -> npt.NDArray[np.float32]:
        """Return each seat's payoff, float32 [B, P] (see `payoffs.payoffs`).

        Raises `OptionError` for another kind and `RoundNotOverError` before the end.
        """
        check_payoff(kind)
        return payoffs(self._final_counts(), kind, self.variant.cells)

    def win_shares(self) -> npt.NDArray[np.float64]:
        """Return each seat's part of its round, float64 [B, P]; leaders share 1. Raises `RoundNotOverError`."""
        return win_shares(self._final_counts())

    def board(self, game: int) -> Board:
        """Return one game as a `Board` (without the turns that led to it)."""
        board = Board(self.variant.size, self.variant.players, COLORS[self.starters[game]])
        words = np.empty(4, np.uint64)
        words[self._slot_colors()[game]] = self.balls[:, game]
        board.set_words(words.tolist())
        return board

    def copy(self) -> GameBatch:
        """Return an independent batch in the same positions."""
        return self[:]

    __copy__ = copy

    def __getitem__(self, games: int | slice | npt.NDArray[Any]) -> GameBatch:
        """Return an independent batch of some of the games, in the order given (one, a slice, indices or a bool choice)."""
        if isinstance(games, int | np.integer):
            games = np.array([games])
        twin = GameBatch.__new__(GameBatch)
        twin.variant = self.variant
        twin.starters = self.starters[games].copy()
        twin.balls = np.array(self.balls[:, games], order="C")  # a copy, also of a slice
        twin.legal = self.legal[games].copy()
        twin.ply = self.ply
        return twin

    def _slot_colors(self) -> npt.NDArray[np.int64]:
        """Return the colour in each slot of `balls`, int64 [B, 4]."""
        slots: npt.NDArray[np.int64] = self.colors_by_starter()[self.starters]
        return slots

    def _rows(self) -> list[Words]:
        """Return the rows of `balls` from the mover's side: own, the next seat, then the rest in turn order, neutral last."""
        return [self.balls[slot] for slot in self.mover_first()]

    def _find_legal(self) -> None:
        own, following, third, fourth = self._rows()
        self.legal[:] = rules.legal_cells(own, following | third | fourth, word_geometry(self.variant.size))

    def _final_counts(self) -> npt.NDArray[np.int64]:
        self.refuse_before_end()
        return self.seat_counts()

    def _checked(self, actions: npt.ArrayLike) -> Actions:
        self.refuse_when_over()
        try:
            given = np.asarray(actions)
        except ValueError as error:  # lists of different lengths
            raise ActionError(f"actions must be ints of shape ({len(self)},), and this is no array ({error})") from None
        if given.shape != (len(self),) or given.dtype.kind not in "iu":
            raise ActionError(f"actions must be ints of shape ({len(self)},), not {given.dtype} of shape {given.shape}")
        cells = np.ascontiguousarray(given, np.int64)
        if _count_illegal(cells, self.legal):
            self._explain(cells)
        return cells

    def _explain(self, cells: Actions) -> None:
        off = np.flatnonzero((cells < 0) | (cells >= self.variant.cells))
        if len(off):
            raise ActionError(
                f"action {cells[off[0]]} of game {off[0]} is off the board; actions run from 0 to {self.variant.cells - 1}"
            )
        games = np.flatnonzero((self.legal >> cells.astype(np.uint64)) & np.uint64(1) == 0)
        first, size = int(games[0]), self.variant.size
        own, following, third, fourth = (int(row[first]) for row in self._rows())
        cell = int(cells[first])
        reason = illegal_reason(cell, own, following | third | fourth, self.variant.geometry)
        where = f"games {', '.join(map(str, games[:10]))}{', …' if len(games) > 10 else ''}"
        sentence = explain_illegal(cell, reason, int(self.legal[first]), size)
        raise IllegalMoveError(f"illegal in {where}; in game {first}, {sentence}", reason, games.tolist())


def draw_cells(words: Words, rng: np.random.Generator) -> Actions:
    """Return one of the cells of each word, uint64 [B], each equally likely, int64 [B].

    Raises `RoundOverError` for a word without cells: only a full board has no legal cell.
    """
    if not words.all():
        raise RoundOverError("there is no cell to draw from: the boards are full; start a new batch")
    cells = np.empty(len(words), np.int64)
    _draw(words, rng.random(len(words)), cells)
    return cells


def _checked_buffer(out: npt.NDArray[np.int8] | None, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    """Return `out`, or a new array where it is None."""
    if out is None:
        return np.empty(shape, np.int8)
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != np.int8 or not out.flags.c_contiguous:
        raise OptionError(f"out must be a C-contiguous int8 array of shape {shape}, not {_described(out)}")
    return out


def _described(given: object) -> str:
    return f"{given.dtype} of shape {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__


@kernel
def _count_illegal(cells: Any, legal: Any) -> Any:
    illegal = uint64(0)
    for game in range(cells.shape[0]):
        cell = uint64(cells[game])  # a negative one becomes huge
        on_board = uint64(cell < uint64(64))
        illegal += uint64(1) - (legal[game] >> (cell & uint64(63)) & on_board)
    return illegal


@kernel
def _advance(own: Any, following: Any, third: Any, fourth: Any, cells: Any, legal: Any, geometry: Any) -> None:
    # Rows come from the mover's side and the next seat is always the second, so no index depends on the game or the
    # turn, and the loop, free of branches, turns into vector instructions.
    for game in range(cells.shape[0]):
        mine, first, second, last = own[game], following[game], third[game], fourth[game]
        cell = uint64(cells[game])
        move = uint64(1) << cell
        rolled = rules.rolled_balls(cell, mine, first | second | last, geometry)
        mine = mine | move | rolled
        first = first & ~rolled
        second = second & ~rolled
        last = last & ~rolled
        own[game], following[game], third[game], fourth[game] = mine, first, second, last
        legal[game] = rules.legal_cells(first, mine | second | last, geometry)


@kernel
def _draw(words: Any, fractions: Any, cells: Any) -> None:
    for game in range(words.shape[0]):
        word = words[game]
        cells[game] = select(word, uint64(fractions[game] * popcount(word)))
