"""One turn of one game: the words of four colours and a cell come in, the words after it and the next legal cells come out.

Python ints are ready at once. A compiled turn takes a tenth of their time or less, but a second to compile, once on a machine.
So a process begins with the one and goes over to the other when it plays many turns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, TypeAlias

from rolit_env import rules
from rolit_env.kernel import kernel
from rolit_env.rules import Geometry

Words4: TypeAlias = tuple[int, int, int, int]
Turn: TypeAlias = Callable[[int, int, int, int, int, int, int], tuple[Words4, int]]

WARM_UP = 2_000
"""Turns on one size of board that a process plays on Python ints, before it is worth to compile or to load what was."""


class TurnPlayer:
    """Plays turns on boards of one size, faster after a while. Get it from `turn_player`.

    Attributes:
        play: Takes the cell, the words of red, yellow, green and blue, and the numbers of the colour that moves and of the
            one that moves next; the cell must be legal. Returns the four words after it and the next legal cells.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = WARM_UP
        self._compiling = Lock()
        self._on_ints = _make(rules.geometry(size))
        self.play: Turn = self._warm_up

    def compile(self) -> None:
        """Go over to the compiled turn now; stay with ints where numba is told not to compile (NUMBA_DISABLE_JIT)."""
        compiled: Any = kernel(_make(rules.word_geometry(self._size)))
        if not hasattr(compiled, "compile"):
            return
        compiled.compile("Tuple((UniTuple(uint64, 4), uint64))(uint64, uint64, uint64, uint64, uint64, int64, int64)")
        compiled.disable_compile()  # else every mixture of small and large ints would be compiled for itself
        self.play = compiled

    def _warm_up(self, cell: int, red: int, yellow: int, green: int, blue: int, mover: int, following: int) -> Any:
        self._left -= 1
        if self._left <= 0 and self._compiling.acquire(blocking=False):  # one thread compiles, once
            self.compile()
        return self._on_ints(cell, red, yellow, green, blue, mover, following)


@cache
def turn_player(size: int) -> TurnPlayer:
    """Return the one player of turns on boards of a size."""
    return TurnPlayer(size)


def _make(g: Geometry) -> Turn:
    def turn(cell: Any, red: Any, yellow: Any, green: Any, blue: Any, mover: Any, following: Any) -> Any:
        words = (red, yellow, green, blue)
        # Who is next does not matter to a turn, so the colours after the mover's come in their own order, and go back to it.
        after = rules.put_ball(cell, words[mover], words[(mover + 1) % 4], words[(mover + 2) % 4], words[(mover + 3) % 4], g)
        words = (after[-mover % 4], after[(1 - mover) % 4], after[(2 - mover) % 4], after[(3 - mover) % 4])
        own = words[following]
        return words, rules.legal_cells(own, (words[0] | words[1] | words[2] | words[3]) ^ own, g)

    return turn
