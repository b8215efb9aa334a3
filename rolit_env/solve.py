"""Exact values: a board comes in, who wins under best play, by how much and with which cells goes out.

With two players the value is found by tests "is it so many balls or more?", first whether the mover loses, so that there are
proven bounds at any time. A thread of its own does the work with `search.solver`, and ends when its memory is told to stop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env import rules
from rolit_env.batch import GameBatch
from rolit_env.bits import Words
from rolit_env.board import Board
from rolit_env.errors import OptionError, RolitError, RoundOverError, SolveError, VariantError
from rolit_env.notation import cell_name
from rolit_env.search import solver
from rolit_env.variant import COLORS

MOST_EMPTIES_OF_MANY = 9
"""Empty cells up to which three and four players are solved."""

LONG = 24
"""Empty cells of two players that still take minutes; more may take hours or days."""

_BLINK = 0.1
"""Seconds between two reports of progress."""

_AT_ONCE = 64
"""Games between two reports of progress on many."""


@dataclass(frozen=True)
class Progress:
    """How far a solution is: bounds of the value, moves done of the moves to be searched for the next bound, nodes so far."""

    low: int
    high: int
    done: int
    moves: int
    nodes: int


@dataclass(frozen=True)
class Solution:
    """What is known about a position: everything, unless the time ran out.

    A value is the mover's balls at the end minus the most that another player has, when all play their best.

    Attributes:
        color: The mover.
        low: The value is at least this,
        high: and at most this.
        best: The actions that reach the value, ascending, all of them if `complete`.
        moves: The lowest and highest value that each legal action may have; equal for every one if that was asked for.
        counts: Balls at the end by colour, for three and four players, else None.
        complete: Whether everything asked for was found before the time ran out.
        nodes: Positions searched.
        seconds: Time taken.
    """

    color: str
    low: int
    high: int
    best: tuple[int, ...]
    moves: dict[int, tuple[int, int]]
    counts: dict[str, int] | None
    complete: bool
    nodes: int
    seconds: float

    @property
    def value(self) -> int | None:
        """The value, None if only bounds are known."""
        return self.low if self.low == self.high else None


def solve(
    board: Board,
    *,
    every_move: bool = False,
    seconds: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Find the value of a position and all of the mover's best cells.

    For two players any number of cells may be empty, but each takes about three times as long as the one before. Three and
    four players play max^n: each takes the cell with the larger win share, then with more balls of its own, then with the
    lowest number; cells that differ in the number only are all best.

    Args:
        board: The position; it stays as it is.
        every_move: Find the value of every legal move too (for three and four players it always is).
        seconds: Time after which the bounds known by then are returned; None for as long as it takes.
        progress: Called some times a second and at the end, from this thread.

    Raises:
        RoundOverError: when the board is full.
        SolveError: for three or four players with more than 9 empty cells.
        OptionError: for a time that is not above 0.
    """
    if board.is_over:
        raise RoundOverError("the round is over: the board is full, so there is nothing to solve")
    empties = board.variant.plies - board.ply
    if board.players > 2 and empties > MOST_EMPTIES_OF_MANY:
        raise SolveError(
            f"{empties} cells are empty, which is too many; "
            f"with three or four players up to {MOST_EMPTIES_OF_MANY} can be solved, with two any number"
        )
    if seconds is not None and not seconds > 0:
        raise OptionError(f"seconds={seconds!r} is no time to solve in; allowed are numbers above 0")
    task = _PairTask(board, every_move) if board.players == 2 else _ManyTask(board)
    start = time.perf_counter()
    worker = threading.Thread(target=task.run, daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            left = _BLINK if seconds is None else start + seconds - time.perf_counter()
            if left <= 0:
                break
            worker.join(min(left, _BLINK))
            if progress:
                progress(task.progress())
    finally:
        task.memory[solver.STOP] = 1
    worker.join()
    elapsed = time.perf_counter() - start
    if progress:
        progress(task.progress())
    return task.solution(elapsed)


def move_values(games: GameBatch, progress: Callable[[int, int], None] | None = None) -> npt.NDArray[np.int8]:
    """Return the exact value of each legal cell in each of B two-player games, int8 [B, n·n]; `ILLEGAL` for other cells.

    A value is the mover's balls minus the other player's at the end under best play of both.

    Args:
        games: The games; they stay as they are.
        progress: Called after some games each, with how many are done and how many there are.

    Raises:
        RoundOverError: when the boards are full.
        VariantError: for three or four players.
    """
    games.refuse_when_over()
    if games.variant.players != 2:
        raise VariantError(f"{games.variant.name} has no values of moves; only two players have")
    words = games.view()
    values = np.empty((len(games), games.variant.cells), np.int8)
    memory = _memory(games.plies - games.ply)
    for first in range(0, len(games), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        solver.solve_moves(words[some], games.variant.size, values[some], memory)
        if progress:
            progress(min(first + _AT_ONCE, len(games)), len(games))
    return values


def read_position(
    text: str | None, moves: str, size: int | None = None, players: int | None = None, starter: str | None = None
) -> Board:
    """Return the position that a person means.

    Args:
        text: A position as `Board.from_text` reads it; None for the start.
        moves: Cells played from there, with spaces between.
        size: Side of the board at the start, None for 8; with a text it must be None, as what follows.
        players: Number of players, None for 2.
        starter: The colour that moves first, None for red.

    Raises:
        OptionError: for a text and options of the start.
        RolitError: what `Board` raises for a wrong text, option or move.
    """
    if text is None:
        board = Board(size or 8, players or 2, starter or "red")
    elif size or players or starter:
        raise OptionError(
            "a position in a file has its size, its players and who moves in it; these options are for the start"
        )
    else:
        board = Board.from_text(text)
    for number, move in enumerate(moves.split(), 1):
        try:
            board.push(move)
        except RolitError as error:
            raise OptionError(f"move {number}: {error}") from None
    return board


def to_dict(solution: Solution, board: Board) -> dict[str, Any]:
    """Return what is known about a board, ready for JSON: `value` (None if only bounds are known), `best` and more."""
    names = {action: cell_name(action, board.size) for action in solution.moves}
    return {
        "position": str(board),
        "color": solution.color,
        "value": solution.value,
        "low": solution.low,
        "high": solution.high,
        "best": [names[action] for action in solution.best],
        "moves": {names[action]: low for action, (low, high) in solution.moves.items() if low == high},
        "counts": solution.counts,
        "complete": solution.complete,
        "nodes": solution.nodes,
        "seconds": solution.seconds,
    }


def describe(solution: Solution, board: Board) -> str:
    """Return who wins, and by how much, in a sentence."""
    mover = solution.color
    if solution.counts:
        most = max(solution.counts.values())
        leaders = [color for color in board.variant.colors if solution.counts[color] == most]
        balls = ", ".join(f"{color} {solution.counts[color]}" for color in board.variant.colors)
        return f"{' and '.join(leaders)} {'share the win' if len(leaders) > 1 else 'wins'}: {balls}"
    if solution.value is None:
        others = "the other's" if board.players == 2 else "the most of another"
        return f"{mover}'s balls minus {others} are from {solution.low} to {solution.high}"
    if solution.value == 0:
        return "nobody wins: both have the same number of balls"
    first, second = board.variant.colors if board.variant.colors[0] == board.starter else board.variant.colors[::-1]
    winner = mover if solution.value > 0 else first if mover == second else second
    turn = ""
    if board.ply == 0:
        turn = ", who moves first," if winner == first else ", who moves second,"
    return f"{winner}{turn} wins by {abs(solution.value)} ball{'s' if abs(solution.value) > 1 else ''}"


def _memory(empties: int) -> Words:
    """Return a memory with a table that so many empty cells fill, of 128 MiB at most."""
    return solver.make_memory(1 << min(max(empties + 2, 10), 22))


class _Task:
    """A position while a thread solves it, move by move; another thread may look on, and stop it by the memory.

    Args:
        board: The position.
    """

    counts: dict[str, int] | None = None
    complete = False

    def __init__(self, board: Board) -> None:
        self.size, self.players, self.actions = board.size, board.players, board.legal_moves
        self.memory = _memory(board.variant.plies - board.ply)
        slots = board.variant.slot_colors(COLORS.index(board.color_to_move))
        self.colors = [COLORS[slot] for slot in slots[: self.players]]
        own, following, third, fourth = (board.words[slot] for slot in slots)
        self.children = []
        for action in self.actions:
            mine, *others = rules.put_ball(action, own, following, third, fourth, board.variant.geometry)
            others.insert(self.players - 1, mine)
            self.children.append([np.uint64(word) for word in others])
        # Each pair of bounds is replaced as a whole, so that nobody sees half a change.
        self.unknown = (-board.variant.cells, board.variant.cells)
        self.bounds = [self.unknown] * len(self.actions)
        self.done, self.to_do = 0, len(self.actions)

    @property
    def stopped(self) -> bool:
        """Whether the kernels were told to stop, so that what they return means nothing."""
        return bool(self.memory[solver.STOP])

    def value(self) -> tuple[int, int]:
        """Return the bounds of the position's value."""
        return max(low for low, _ in self.bounds), max(high for _, high in self.bounds)

    def best(self) -> tuple[int, ...]:
        """Return the actions that are proven to reach the value."""
        _, high = self.value()
        return tuple(action for action, (low, _) in zip(self.actions, self.bounds, strict=True) if low == high)

    def progress(self) -> Progress:
        """Return how far this is."""
        return Progress(*self.value(), self.done, self.to_do, int(self.memory[solver.NODES]))

    def solution(self, seconds: float) -> Solution:
        """Return what is known now."""
        moves = dict(zip(self.actions, self.bounds, strict=True))
        nodes = int(self.memory[solver.NODES])
        counts = self.counts if self.complete else None
        return Solution(self.colors[0], *self.value(), self.best(), moves, counts, self.complete, nodes, seconds)


class _PairTask(_Task):
    """Two players."""

    def __init__(self, board: Board, every_move: bool) -> None:
        super().__init__(board)
        self.every_move = every_move
        full, none = np.uint64(board.variant.geometry.board), np.uint64(0)
        solver.solve_pair(full, none, none, -1, 1, self.size, self.memory)  # compiles, before any clock runs

    def run(self) -> None:
        """Find the value by tests, each as close to the last bound as can be, then which moves reach it."""
        order, test = list(range(len(self.actions))), 0
        low, high = self.unknown
        while low < high and not self.stopped:
            reached = self._first_that_reaches(test, [move for move in order if self.bounds[move][1] >= test])
            low, high = self.value()
            test = high if reached is None else low + 1
            if reached is not None:
                order.remove(reached)
                order.insert(0, reached)
        doubtful = [move for move in order if self._is_open(move)]
        self.done, self.to_do = 0, len(doubtful)
        for move in doubtful:
            while not self.stopped and self._is_open(move):
                self._reaches(move, self.bounds[move][1])
            self.done += 1
        self.complete = not self.stopped

    def _is_open(self, move: int) -> bool:
        low, high = self.bounds[move]
        return low < high and (self.every_move or high == self.value()[1])

    def _first_that_reaches(self, test: int, moves: list[int]) -> int | None:
        self.done, self.to_do = 0, len(moves)
        for move in moves:
            if self._reaches(move, test):
                return move
            self.done += 1
        return None

    def _reaches(self, move: int, test: int) -> bool:
        """Find out whether a move is worth so many balls or more, and keep the bound that comes of it."""
        own, other, third, fourth = self.children[move]
        value = -solver.solve_on(own, other, third | fourth, -test, 1 - test, self.size, self.memory)
        if self.stopped:
            return False
        low, high = self.bounds[move]
        self.bounds[move] = (max(low, value), high) if value >= test else (low, min(high, value))
        return bool(value >= test)


class _ManyTask(_Task):
    """Three or four players."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self.liked: list[int] = []
        """How much the mover likes the end after each move done."""
        full, none = np.uint64(board.variant.geometry.board), np.uint64(0)
        solver.solve_many(full, none, none, none, self.players, self.size, self.memory)  # compiles, before any clock runs

    def run(self) -> None:
        """Find the end after each move."""
        for move, (own, following, third, fourth) in enumerate(self.children):
            end = solver.solve_many(own, following, third, fourth, self.players, self.size, self.memory)
            if self.stopped:
                return
            end = solver.seen_before(end, self.players)
            balls = [int(solver.seat_balls(end, turns)) for turns in range(self.players)]
            liked = int(solver.preference(end, self.players))
            if liked > max(self.liked, default=-1):
                self.counts = dict(zip(self.colors, balls, strict=True))
            self.liked.append(liked)
            self.bounds[move] = (balls[0] - max(balls[1:]),) * 2
            self.done += 1
        self.complete = True

    def value(self) -> tuple[int, int]:
        """Return the value of the move that the mover likes best, which need not be the highest."""
        return self.bounds[self.liked.index(max(self.liked))] if self.complete else self.unknown

    def best(self) -> tuple[int, ...]:
        """Return the actions that the mover likes best, the lowest first; none while others might be liked better."""
        if not self.complete:
            return ()
        return tuple(action for action, liked in zip(self.actions, self.liked, strict=True) if liked == max(self.liked))
