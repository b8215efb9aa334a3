"""The patterns of the project: the side of a board comes in, its n-tuples and how their contents are told apart go out.

N-tuple tables hold a weight for each content of a pattern (see `ntuple`), networks a row of numbers, an embedding; for them
only short tuples tell empty cells apart (`PATTERN_BASES`), so that tables stay small.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from rolit_env.search.ntuple import TupleSet, mirror_twins, tuple_set

TUPLES = {
    8: (
        "a1 b1 c1 d1 e1 f1 g1 h1",
        "a2 b2 c2 d2 e2 f2 g2 h2",
        "a3 b3 c3 d3 e3 f3 g3 h3",
        "a4 b4 c4 d4 e4 f4 g4 h4",
        "a1 b2 c3 d4 e5 f6 g7 h8",
        "b1 c2 d3 e4 f5 g6 h7",
        "c1 d2 e3 f4 g5 h6",
        "d1 e2 f3 g4 h5",
        "a1 b1 c1 a2 b2 a3",
        "a1 b1 c1 a2 b2 c2",
        "b1 c1 d1 b2 c2 d2",
        "c1 d1 e1 c2 d2 e2",
        "d1 e1 d2 e2 d3 e3",
        "b2 c2 d2 b3 c3 d3",
        "c2 d2 e2 c3 d3 e3",
        "c3 d3 e3 c4 d4 e4",
    ),
    6: (
        "a1 b1 c1 d1 e1 f1 b2 e2",
        "a2 b2 c2 d2 e2 f2",
        "a3 b3 c3 d3 e3 f3",
        "a1 b2 c3 d4 e5 f6",
        "b1 c2 d3 e4 f5",
        "c1 d2 e3 f4",
        "a1 b1 c1 a2 b2 a3",
        "a1 b1 c1 a2 b2 c2",
        "b1 c1 d1 b2 c2 d2",
        "b2 c2 d2 b3 c3 d3",
        "c1 d1 c2 d2 c3 d3",
    ),
    4: (
        "a1 b1 c1 d1 a2 b2 c2 d2",
        "a1 b1 c1 a2 b2 c2 a3 b3 c3",
        "a1 b1 c1 d1 a2 b2 c2 d2 a3 b3",
        "a1 b2 c3 d4 b1 c2 d3",
    ),
}
"""The tuples for each size where none are given: edges with their neighbours, lines, diagonals, corners and blocks."""

PATTERN_BASES = (0, 6, 6, 6, 6, 6, 4, 3, 3, 3, 3)
"""How many contents a cell of a network's pattern may have, by the number of its cells."""


@cache
def patterns(size: int) -> TupleSet:
    """Return the patterns of networks on a board of this size."""
    return tuple_set(TUPLES[size], size, PATTERN_BASES)


@cache
def shared_rows(size: int) -> npt.NDArray[np.int32]:
    """Return which row of a network's table contents of patterns pick, int32 [patterns(size).size], by their number.

    Contents and their mirror image share one, so tables have `table_rows` of them.
    """
    twins = mirror_twins(TUPLES[size], size, PATTERN_BASES)
    _, rows = np.unique(np.minimum(np.arange(len(twins)), twins), return_inverse=True)
    return rows.astype(np.int32)


def table_rows(size: int) -> int:
    """Return how many rows a network's tables have on a board of this size, T."""
    return int(shared_rows(size).max()) + 1
