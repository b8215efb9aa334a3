"""Solutions far from the end, for two players: 4x4 is looked up, and larger boards are runs in a folder, for days at need."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rolit_env.bits import Words, cells_of
from rolit_env.board import Board
from rolit_env.errors import SolveError
from rolit_env.search.long_solve import LongProgress, LongSolve
from rolit_env.search.small_board import MIRROR, find, small_board
from rolit_env.search.truth import DATA, ILLEGAL
from rolit_env.solve import Solution
from rolit_env.symmetry import cell_permutations
from rolit_env.variant import COLORS

START_OF_6X6 = DATA / "6x6-2p-start"
"""The folder of a run that is at its end."""


def look_up(board: Board) -> Solution | None:
    """Return the solution of a position from what is stored: all that can be reached on 4x4, and the start of 6x6 for two.

    For 4x4 it has every move, and nothing is compiled. For 6x6 it has the cells that are proven best, and what finding out
    took. None for all other positions.
    """
    if board.players == 2 and board == Board(6, starter=board.starter):
        return solve_long(board, START_OF_6X6, seconds=0)
    if board.size != 4 or board.is_over:
        return None
    start, table = time.perf_counter(), small_board()
    places = np.arange(16) if board.starter == "red" else cell_permutations(4)[MIRROR]
    position = [sum(1 << int(places[cell]) for cell in cells_of(int(word))) for word in _view(board)]
    number = find(table, np.array(position, np.uint64))
    if number is None:
        return None
    values = table.values[number][places]
    moves = {int(cell): (int(values[cell]), int(values[cell])) for cell in np.flatnonzero(values != ILLEGAL)}
    value = int(values.max())
    best = tuple(cell for cell, (low, _) in moves.items() if low == value)
    return Solution(board.color_to_move, value, value, best, moves, None, True, 0, time.perf_counter() - start)


def solve_long(
    board: Board,
    folder: Path,
    *,
    depth: int | None = None,
    threads: int = 1,
    seconds: float | None = None,
    progress: Callable[[LongProgress], None] | None = None,
) -> Solution:
    """Go on finding the value of a position in a folder, or begin.

    Args:
        board: The position, of two players and with a turn left; it stays as it is.
        folder: Where the run keeps what it finds. It may be stopped at any moment in any way.
        depth: Moves to the positions that are solved one by one; for a new run only (see `LongSolve`).
        threads: Positions that are solved at a time.
        seconds: Time after which to stop; None for as long as it takes.
        progress: Called now and then, from this thread.

    Returns:
        What is known. `best` has the cells that are proven to reach the value; there may be more. Nodes and seconds are
        those of all sessions.

    Raises:
        SolveError: for more than two players, or a full board.
        OptionError, CheckpointError, OutputError: as `LongSolve` does.
    """
    if board.players != 2 or board.is_over:
        raise SolveError("a run in a folder is for positions of two players with a turn left")
    own, other, third, fourth = _view(board)
    run = LongSolve(folder, np.array([own, other, third | fourth], np.uint64), board.size, depth, threads)
    complete = run.run(seconds, progress)
    low, high = run.bounds()
    moves = run.moves()
    best = tuple(cell for cell, bounds in moves.items() if bounds[0] == high)
    return Solution(board.color_to_move, low, high, best, moves, None, complete, run.nodes, run.seconds)


def _view(board: Board) -> Words:
    """Return the balls as the mover of a two-player round sees them, uint64 [4]."""
    slots = board.variant.slot_colors(COLORS.index(board.color_to_move))
    return np.array([board.words[slot] for slot in slots], np.uint64)
