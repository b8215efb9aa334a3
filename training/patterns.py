"""Patterns of positions: words go in, the rows of a table that each position picks come out, and sums of such rows.

The patterns are those of `rolit_env.search.patterns`.

On the CPU numba finds rows and spreads gradients over them, in as many threads as torch has; each result is the same whatever
their number. Elsewhere, and in exported graphs, torch does the same on tensors.

Legend: N positions, P players, L lanes, T rows of the table, M positions whose rows are added up, W width of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import int64, uint64
from torch import Tensor, nn

from rolit_env import rules
from rolit_env.kernel import lean_kernel
from rolit_env.search.children import seat_children
from rolit_env.search.ntuple import (
    FEATURE_LANES,
    FEW,
    MOST,
    Scratch,
    TupleSet,
    child_numbers,
    find_position,
    make_scratch,
    prepare,
)
from rolit_env.search.patterns import patterns, shared_rows
from rolit_env.search.safe import safe_balls
from rolit_env.torch_batch import GEOMETRIES, popcount
from training.threads import for_each, for_each_share

Floats = npt.NDArray[np.float32]


def afterstate_rows(words: Tensor, size: int, players: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return every legal turn of each position, and the rows that the positions after them pick, as its mover sees them.

    Args:
        words: Positions, int64 [N, 5], on the CPU; the fifth word must hold just the legal cells.
        size: Side of the board.
        players: Number of players.

    Returns:
        The positions that the turns belong to, int64 [M], ascending; the cells, int64 [M]; and the rows, int32 [M, L].
    """
    view = words.numpy().view(np.uint64)
    counts = np.bitwise_count(view[:, 4]).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(counts)])
    tuples, shared = patterns(size), shared_rows(size)
    cells, rows = np.empty(first[-1], np.int64), np.empty((first[-1], tuples.lanes), np.int32)

    def find(start: int, stop: int) -> None:
        scratch = make_scratch(players)
        _find_afterstates(view, size, players, tuples, shared, scratch, first, start, stop, cells, rows)

    for_each_share(find, len(view))
    return torch.from_numpy(np.repeat(np.arange(len(view)), counts)), torch.from_numpy(cells), torch.from_numpy(rows)


def position_rows(words: Tensor, size: int, players: int) -> Tensor:
    """Return the rows of positions, int64 [N, 5], for each seat from the mover on, int32 [N · P, L].

    With two players only those of the seat that has just moved, int32 [N, L].
    """
    view = words.numpy().view(np.uint64)
    seats = 1 if players == 2 else players
    tuples, shared = patterns(size), shared_rows(size)
    rows = np.empty((len(view) * seats, tuples.lanes), np.int32)

    def find(start: int, stop: int) -> None:
        _find_positions(view, size, seats, tuples, shared, make_scratch(players), start, stop, rows)

    for_each_share(find, len(view))
    return torch.from_numpy(rows)


class RowSums(torch.autograd.Function):
    """Sums, float32 [M, W], of rows, int32 [M, L], of a table, float32 [T, W], on the CPU."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, tuples: TupleSet) -> Tensor:
        """Add the rows up."""
        ctx.rows, ctx.tuples, ctx.shape = rows, tuples, table.shape
        return nn.functional.embedding_bag(rows, table, mode="sum")

    @staticmethod
    def backward(ctx: Any, by_sums: Tensor) -> tuple[Tensor, None, None]:
        """Give each row the gradients of the sums that it is in; torch would sort them all first."""
        by_table = torch.zeros(ctx.shape)
        arrays = ctx.rows.numpy(), by_sums.contiguous().numpy(), by_table.numpy()
        for_each(lambda first, last: _spread(first, last, *arrays), _tables_of_threads(ctx.tuples))
        return by_table, None, None


def rows_in_torch(view: Tensor, positions: Tensor, cells: Tensor, size: int, players: int) -> tuple[Tensor, Tensor]:
    """Return what the two functions above do, in torch alone: int64 [M, L], and [N · P, L] or, with two players, [N, L].

    Multiplies float32 matrices whose products must be exact, so leave torch's matmul precision at "highest" (no TF32).

    Args:
        view: Positions, int64 [N, 4], on any device.
        positions: Those that the turns belong to, int64 [M].
        cells: Where they put a ball, int64 [M].
        size: Side of the board.
        players: Number of players.
    """
    own, following, third, fourth = rules.put_ball(cells, *view[positions].unbind(1), GEOMETRIES[size])
    filled = view[:, 0] | view[:, 1] | view[:, 2] | view[:, 3]
    if players == 2:
        seats, rivals = view[:, 1], view[:, 0]
    else:
        seats = view[:, :players].flatten()
        rivals = torch.cat([view[:, 1:2], view[:, :1].expand(-1, players - 1)], dim=1).flatten()
        filled = filled[:, None].expand(-1, players).flatten()
    pairs = torch.stack([torch.cat([own, seats]), torch.cat([following, rivals])])
    rows = _rows(pairs, torch.cat([own | following | third | fourth, filled]), size)
    return rows[: cells.shape[0]], rows[cells.shape[0] :]


def _rows(pairs: Tensor, occupied: Tensor, size: int) -> Tensor:
    """Return rows, int64 [·, L], from the balls of a seat and its rival, int64 [2, ·], and all balls, int64 [·]."""
    g = GEOMETRIES[size]
    wrapping = g.convert(lambda word: torch.tensor(word, device=pairs.device))  # ints would grow when masks are shifted
    captures = rules.capturing_cells(pairs, occupied ^ pairs, g)
    touching = rules.touching_cells(pairs, g) & ~occupied
    words = torch.cat([pairs, captures, touching, safe_balls(pairs, occupied, wrapping), occupied[None]])
    balls, rivals, capturing, captured, touching, rival_touching, safe, rival_safe, filled = popcount(words).unbind(0)
    empty = size * size - filled
    features = [
        _both(capturing, captured, MOST),
        empty * 64 + _both(balls, rivals, FEW),
        _both(safe, rival_safe, MOST),
        _both(touching, rival_touching, MOST),
        _both(capturing, touching, MOST),
        empty * 64 + balls.clamp(max=63),
    ]
    bits = pairs.new_ones(1) << torch.arange(size * size, device=pairs.device)
    planes = torch.stack([pairs[0], occupied ^ pairs[0], captures[0], captures[1]], dim=1)[:, :, None] & bits != 0
    offsets = patterns(size).offsets[: patterns(size).lanes]
    arrays = *_digits(size), offsets, shared_rows(size)
    first, digits, begins, shared = (torch.from_numpy(array).to(pairs.device) for array in arrays)
    # Whole numbers below 2^16, so float32 is exact (and TF32 is not).
    numbers = planes.flatten(1).float() @ digits + first
    return shared[torch.cat([torch.stack(features, dim=1), numbers.long()], dim=1) + begins].long()


def _both(first: Tensor, second: Tensor, most: int) -> Tensor:
    return first.clamp(max=most) * (most + 1) + second.clamp(max=most)


@cache
def _digits(size: int) -> tuple[Floats, Floats]:
    """Return the tuples' numbers on an empty board, float32 [L − FEATURE_LANES], and what each cell of four planes adds.

    The planes, float32 [4 · n·n, L − FEATURE_LANES]: own balls, others, where the seat captures, and where its rival does.
    """
    tuples = patterns(size)
    used = slice(FEATURE_LANES, tuples.lanes)
    cells = np.arange(size * size)
    own, mine, theirs = (
        part[cells // 4, 1 << cells % 4, used].astype(np.float32) for part in (tuples.digits, *tuples.captures)
    )
    digits = np.concatenate([own, 2 * own, -mine, -theirs])
    return tuples.first[used].astype(np.float32), digits


def _tables_of_threads(tuples: TupleSet) -> Iterator[tuple[int, int]]:
    """Yield the first lane of each thread and the one after its last; no two threads share a table."""
    threads = torch.get_num_threads()
    starts = [lane for lane in range(tuples.lanes) if lane == 0 or tuples.offsets[lane] != tuples.offsets[lane - 1]]
    edges = [min(starts, key=lambda start: abs(start - tuples.lanes * thread / threads)) for thread in range(threads)]
    yield from zip(edges, [*edges[1:], tuples.lanes], strict=True)


@lean_kernel
def _find_afterstates(
    words: Any,
    size: int,
    players: int,
    tuples: TupleSet,
    shared: Any,
    scratch: Scratch,
    first: Any,
    start: int,
    stop: int,
    cells: Any,
    rows: Any,
) -> None:
    mine, numbers = players - 1, scratch.numbers.found
    for position in range(start, stop):
        own, following, third, fourth = words[position, 0], words[position, 1], words[position, 2], words[position, 3]
        count = seat_children(own, following, third, fourth, scratch.rows, size, scratch.cells, scratch.words)
        prepare(scratch.words, count, mine, 0, size, tuples, scratch.numbers)
        for child in range(count):
            at = first[position] + child
            cells[at] = int64(scratch.cells[child])
            child_numbers(scratch.words, child, mine, tuples, scratch.numbers, numbers)
            for lane in range(tuples.lanes):
                rows[at, lane] = shared[uint64(tuples.offsets[lane]) + uint64(numbers[lane])]


@lean_kernel
def _find_positions(
    words: Any, size: int, seats: int, tuples: TupleSet, shared: Any, scratch: Scratch, start: int, stop: int, rows: Any
) -> None:
    numbers = scratch.numbers.found
    for position in range(start, stop):
        for seat in range(seats):
            find_position(words[position], seat, seats, size, tuples, numbers)
            for lane in range(tuples.lanes):
                rows[position * seats + seat, lane] = shared[uint64(tuples.offsets[lane]) + uint64(numbers[lane])]


@lean_kernel
def _spread(first: int, last: int, rows: Any, by_sums: Any, by_table: Any) -> None:
    for at in range(rows.shape[0]):
        given = by_sums[at]
        for lane in range(first, last):
            row = by_table[uint64(rows[at, lane])]
            for place in range(row.shape[0]):
                row[place] += given[place]
