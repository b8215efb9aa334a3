"""Perft, the count that pins down a rules engine: a board and a depth come in, the number of legal sequences comes out."""

from __future__ import annotations

from rolit_env.board import Board
from rolit_env.errors import OptionError
from rolit_env.notation import cell_name


def perft(board: Board, depth: int) -> int:
    """Return how many legal sequences of exactly `depth` turns start at a board, which stays as it is.

    0 turns make one sequence; more turns than the round has left make none. Raises `OptionError` for a depth below 0.
    """
    if depth < 0:
        raise OptionError(f"depth={depth} does not exist; allowed are ints from 0 up")
    if depth > board.variant.plies - board.ply:
        return 0  # known without playing every sequence to its end
    return _count(board.copy(), depth)


def divide(board: Board, depth: int) -> dict[str, int]:
    """Return the part of `perft(board, depth)` behind each legal move, by cell name, to find where two engines differ.

    More turns than the round has left make zeros. Raises `OptionError` for a depth below 1.
    """
    if depth < 1:
        raise OptionError(f"depth={depth} leaves no move to divide by; allowed are ints from 1 up")
    counts = {}
    for move in board.legal_moves:
        after = board.copy()
        after.push(move)
        counts[cell_name(move, board.size)] = perft(after, depth - 1)
    return counts


def _count(board: Board, depth: int) -> int:
    if depth == 0:
        return 1
    if depth == 1:
        return board.legal.bit_count()
    leaves = 0
    for move in board.legal_moves:
        board.push(move)
        leaves += _count(board, depth - 1)
        board.pop()
    return leaves
