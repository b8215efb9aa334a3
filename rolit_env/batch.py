"""Thousands of rounds in lockstep: an action for each game comes in, words, masks and planes of the next turn come out.

Balls are stored by seat, because the colour that starts differs from game to game and the seat to move does not;
colours come back at the edges (`counts`, `board`).

Legend: B games, n side, P players, A = n·n actions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env import loops, rules
from rolit_env.bits import Words
from rolit_env.board import Board, explain_illegal, illegal_reason
from rolit_env.errors import (
    ActionError,
    IllegalMoveError,
    OptionError,
    PositionError,
    RoundOverError,
)
from rolit_env.lockstep import Lockstep, checked_choice, checked_count
from rolit_env.payoffs import Payoff, check_payoff, payoffs, win_shares
from rolit_env.rules import word_geometry
from rolit_env.variant import COLORS, PLAYING_COLORS, Variant, starter_color, variant

Actions = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int64] | npt.NDArray[np.int8]


class GameBatch(Lockstep):
    """B rounds of one variant, played in lockstep.

    Args:
        games: Number of games, B.
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        starter: The colour that moves first in every game, or `random`: drawn for each game among those that play.
        seed: Seeds that draw; an int, a NumPy generator, or None for a fresh one.
        threads: Threads that share the games; they pay from some ten thousand games on, and change no result.

    Attributes:
        variant: The variant played.
        balls: Cells of each slot's balls, uint64 [4, B]: the seats in turn order, then the neutral colours clockwise.
        legal: Legal cells of the seat to move, uint64 [B]. Both arrays are updated in place: read them, never write.
        starters: The colour in seat 0, int64 [B].
        ply: Turns played.
        threads: As given.

    A game takes 48 bytes: five words and the starter.

    Raises:
        VariantError: for another size or player count.
        OptionError: for a starter that does not play, or a number of games or threads below 1.
    """

    def __init__(
        self,
        games: int,
        *,
        size: int = 8,
        players: int = 2,
        starter: str = "random",
        seed: int | np.random.Generator | None = None,
        threads: int = 1,
    ) -> None:
        self.variant: Variant = variant(size, players)
        games, self.threads = checked_count("games", games), checked_count("threads", threads)
        self.starters: npt.NDArray[np.int64] = np.empty(games, np.int64)
        self.balls: Words = np.empty((4, games), np.uint64)
        self.legal: Words = np.empty(games, np.uint64)
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
        if starter == "random":
            playing = np.array(PLAYING_COLORS[self.variant.players], np.int64)
            self.starters[:] = playing[np.random.default_rng(seed).integers(len(playing), size=len(self))]
        else:
            self.starters[:] = starter_color(starter, self.variant)
        by_starter = np.array(self.variant.start, np.uint64)[self.colors_by_starter()]
        for slot in range(4):
            np.take(by_starter[:, slot], self.starters, out=self.balls[slot], mode="clip")  # `clip` writes without a copy
        self.ply = 0
        self._find_legal()

    def step(self, actions: npt.ArrayLike) -> None:
        """Play one action in each game.

        Args:
            actions: int [B], each a legal cell; int64 and int8 are played as they are, other ints are converted.

        Raises:
            RoundOverError: when the boards are full.
            ActionError: for an array of another shape or type, or cells off the board.
            IllegalMoveError: naming the games in which the rules forbid the action.
            Nothing changes in any game when one of these is raised.
        """
        self.refuse_when_over()
        cells = action_cells(actions, len(self))
        loop = loops.step(self.variant.size)
        if self.threads == 1:
            if not loop(self.balls, self.mover_first(), cells, self.legal, True, 0, len(cells)):
                self._explain(cells)
        else:
            self._refuse_illegal(cells)  # in all games, before a thread plays in some
            self._run(loop, self.balls, self.mover_first(), cells, self.legal, False)
        self.ply += 1

    def random_actions(self, rng: np.random.Generator) -> Actions:
        """Return a uniformly random legal action for each game, int64 [B]. Raises `RoundOverError` at the end."""
        self.refuse_when_over()
        return draw_cells(self.legal, rng)

    def step_random(self, rng: np.random.Generator, turns: int = 1) -> None:
        """Play a uniformly random legal action in each game, as `step(random_actions(rng))` does, but faster.

        Args:
            rng: Draws the actions; the same state draws the same, turn by turn or several at once.
            turns: Turns to play, 1 and up.

        Raises:
            RoundOverError: when the boards are full.
            OptionError: for less than one turn, or more than are left.
            Nothing changes in any game when one of these is raised.
        """
        self.refuse_turns(turns)
        self._play_random(turns, rng)

    def play_out(self, rng: np.random.Generator) -> None:
        """Play uniformly random legal actions until the boards are full, as `step_random` would, but faster.

        At the end already, nothing happens.
        """
        self._play_random(self.plies - self.ply, rng)

    def rolled(self, actions: npt.ArrayLike) -> Words:
        """Return the balls that one action in each game would roll, as words, uint64 [B]. Raises as `step` does."""
        self.refuse_when_over()
        cells = action_cells(actions, len(self))
        self._refuse_illegal(cells)
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

        Raises `OptionError` for an `out` of another shape or type, or one that is read-only or not C-contiguous.
        """
        size = self.variant.size
        out = _checked_buffer(out, (len(self), 4, size, size))
        self._spread(self.balls, self.mover_first(), out)
        return out

    def legal_mask(self, out: npt.NDArray[np.int8] | None = None) -> npt.NDArray[np.int8]:
        """Return the legal cells as 0/1 vectors, int8 [B, A]: a fresh array, or `out`. Raises as `planes` does."""
        out = _checked_buffer(out, (len(self), self.variant.cells))
        self._spread(self.legal[None], (0,), out)
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
        chosen = checked_choice(games, len(self))
        twin = GameBatch.__new__(GameBatch)
        twin.variant = self.variant
        twin.starters = self.starters[chosen]
        twin.balls = np.take(self.balls, chosen, axis=1)
        twin.legal = self.legal[chosen]
        twin.ply = self.ply
        twin.threads = self.threads
        return twin

    def _slot_colors(self) -> npt.NDArray[np.int64]:
        """Return the colour in each slot of `balls`, int64 [B, 4]."""
        slots: npt.NDArray[np.int64] = self.colors_by_starter()[self.starters]
        return slots

    def _rows(self) -> list[Words]:
        """Return the rows of `balls` from the mover's side: own, the next seat, then the rest in turn order, neutral last."""
        return [self.balls[slot] for slot in self.mover_first()]

    def _find_legal(self) -> None:
        self._run(loops.find_legal(self.variant.size), self.balls, self.mover_first(), self.legal)

    def _play_random(self, turns: int, rng: np.random.Generator) -> None:
        keys = rng.random(turns).view(np.uint64)  # 53 random bits each, six times as fast as ints
        self._run(loops.play_random(self.variant.size), self.balls, self.mover_first(), keys, self.variant.players, self.legal)
        self.ply += turns

    def _spread(self, words: Words, order: tuple[int, ...], out: npt.NDArray[np.int8]) -> None:
        self._run(loops.spread(self.variant.size), words, order, out.reshape(len(self), len(order), -1))

    def _run(self, loop: Callable[..., Any], *arguments: Any) -> None:
        """Run a loop over all games, each thread over a range of them."""
        if self.threads == 1:
            loop(*arguments, 0, len(self))
            return
        share = -(-len(self) // self.threads)
        starts = range(0, len(self), share)
        list(_pool(self.threads).map(lambda first: loop(*arguments, first, min(first + share, len(self))), starts))

    def _final_counts(self) -> npt.NDArray[np.int64]:
        self.refuse_before_end()
        return self.seat_counts()

    def _refuse_illegal(self, cells: Cells) -> None:
        if loops.any_illegal(cells, self.legal):
            self._explain(cells)

    def _explain(self, cells: Cells) -> None:
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


def action_cells(actions: npt.ArrayLike, games: int) -> Cells:
    """Return the actions of so many games as int64 or int8 [B], legal or not. Raises `ActionError` for what is none."""
    try:
        given = np.asarray(actions)
    except ValueError as error:  # lists of different lengths
        raise ActionError(f"actions must be ints of shape ({games},), and this is no array ({error})") from None
    if given.shape != (games,) or given.dtype.kind not in "iu":
        raise ActionError(f"actions must be ints of shape ({games},), not {given.dtype} of shape {given.shape}")
    return np.ascontiguousarray(given, None if given.dtype == np.int8 else np.int64)


def draw_cells(words: Words, rng: np.random.Generator) -> Actions:
    """Return one of the cells of each word, uint64 [B], each equally likely, int64 [B].

    Raises `RoundOverError` for a word without cells: only a full board has no legal cell.
    """
    if not words.all():
        raise RoundOverError("there is no cell to draw from: the boards are full; start a new batch")
    cells = np.empty(len(words), np.int64)
    loops.choose(words, rng.random(1).view(np.uint64)[0], cells)
    return cells


def _checked_buffer(out: npt.NDArray[np.int8] | None, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    """Return `out`, or a new array where it is None."""
    if out is None:
        return np.empty(shape, np.int8)
    plain = type(out) in (np.ndarray, np.memmap)
    if not plain or out.shape != shape or out.dtype != np.int8 or not out.flags.carray:
        raise OptionError(f"out must be a writable, C-contiguous int8 array of shape {shape}, not {_described(out)}")
    return out


def _described(given: object) -> str:
    return f"{given.dtype} of shape {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="rolit")


if hasattr(os, "register_at_fork"):  # a forked process has no threads, so it needs pools of its own
    os.register_at_fork(after_in_child=_pool.cache_clear)
