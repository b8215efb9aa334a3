"""Positions whose worth is known for certain: words and exact values come in, a file that stores them goes out, and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rolit_env.bits import Words
from rolit_env.files import replacing
from rolit_env.search.solver import ILLEGAL

__all__ = ["DATA", "ILLEGAL", "SolvedPositions", "empty_cells"]

DATA = Path(__file__).parent.parent / "data"
"""Where the package keeps the files that it ships."""


@dataclass(frozen=True)
class SolvedPositions:
    """Positions of two players with the exact value of every legal move.

    A value is the ball difference at the end under best play of both, from the view of whoever moves in the position.

    Attributes:
        size: Side of the board, n.
        words: Balls of the mover, of the other player, and of the two neutral colours clockwise, uint64 [N, 4].
        values: The value after a ball on each cell, int8 [N, A]; `ILLEGAL` for cells that are not legal.
    """

    size: int
    words: Words
    values: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.words)

    def best(self) -> npt.NDArray[np.int8]:
        """Return the value of each position, int8 [N]."""
        best: npt.NDArray[np.int8] = self.values.max(axis=1)
        return best

    def empties(self) -> npt.NDArray[np.int64]:
        """Return the number of empty cells of each position, int64 [N]."""
        return empty_cells(self.words, self.size)

    def save(self, path: Path) -> None:
        """Write the positions to a file, whole or not at all. Raises `OutputError` where none can be written."""
        words = self.words.astype(np.uint16 if self.size == 4 else np.uint64)
        with replacing(path) as draft, draft.open("wb") as file:
            np.savez_compressed(file, size=self.size, words=words, values=self.values)

    @classmethod
    def load(cls, path: Path) -> SolvedPositions:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            return cls(int(stored["size"]), stored["words"].astype(np.uint64), stored["values"])


def empty_cells(words: Words, size: int) -> npt.NDArray[np.int64]:
    """Return the number of empty cells of each position, uint64 [N, 4], as int64 [N]."""
    empties: npt.NDArray[np.int64] = size * size - np.bitwise_count(np.bitwise_or.reduce(words, axis=1)).astype(np.int64)
    return empties
