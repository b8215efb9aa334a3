"""One game for people and programs: moves come in as cells, everything that can be asked of a position comes out.

The fast word beside it is `GameBatch`; both use the one text of the rules.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rolit_env import rules
from rolit_env.bits import cells_of
from rolit_env.errors import ActionError, IllegalMoveError, IllegalReason, PositionError, RoundNotOverError, RoundOverError
from rolit_env.notation import cell_name, format_position, parse_cell, parse_position
from rolit_env.payoffs import Payoff, check_payoff, payoffs
from rolit_env.rules import Geometry
from rolit_env.turn import turn_player
from rolit_env.variant import COLORS, Variant, starter_color, variant

_EXPLANATIONS: dict[IllegalReason, str] = {
    "occupied": "a ball lies there already",
    "not_adjacent": "it is next to no ball",
    "capture_missed": "it rolls nothing, and capturing is mandatory when it is possible",
}

_INTS, _NO_CELLS = (int, np.integer), (bool, np.timedelta64)


@dataclass(frozen=True)
class Outcome:
    """The end of a round.

    Attributes:
        winners: The playing colours with the most balls, clockwise; more than one share the round.
        counts: Balls of each of the four colours.
    """

    winners: tuple[str, ...]
    counts: dict[str, int]


def illegal_reason(cell: int, own: int, others: int, geometry: Geometry) -> IllegalReason:
    """Return the rule that an illegal cell breaks."""
    if (own | others) >> cell & 1:
        return "occupied"
    if not rules.touching_cells(own | others, geometry) >> cell & 1:
        return "not_adjacent"
    return "capture_missed"


def explain_illegal(cell: int, reason: IllegalReason, legal: int, size: int) -> str:
    """Return why a cell is illegal and which are legal, as the rest of a sentence."""
    allowed = " ".join(cell_name(action, size) for action in cells_of(legal))
    return f"{cell_name(cell, size)} is not legal: {_EXPLANATIONS[reason]}; legal are {allowed}"


def checked_action(action: object, cells: int) -> int:
    """Return an action of a board of so many cells as an int; a NumPy int or array of shape () is one too.

    Raises `ActionError` for anything else.
    """
    given = action[()] if isinstance(action, np.ndarray) and action.shape == () else action
    # Truth values are Python's ints and time spans NumPy's; neither is meant as a cell.
    if isinstance(given, _INTS) and not isinstance(given, _NO_CELLS) and 0 <= (cell := int(given)) < cells:
        return cell
    try:
        shown = " ".join(reprlib.repr(action).split())  # short and on one line, whatever was given
    except ValueError:  # Python writes no int of thousands of digits
        shown = "such a number"
    raise ActionError(f"{shown} is no action; allowed are ints from 0 to {cells - 1}")


class Board:
    """A round of Rolit.

    Args:
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        starter: The colour that moves first.

    Raises:
        VariantError: for another size or player count.
        OptionError: for a starter that does not play.
    """

    __slots__ = ("_history", "_legal", "_moves", "_order", "_ply", "_words", "variant")

    def __init__(self, size: int = 8, players: int = 2, starter: str = "red") -> None:
        self.variant: Variant = variant(size, players)
        self._order = self.variant.slot_colors(starter_color(starter, self.variant))[: self.variant.players]
        self._words = self.variant.start
        self._ply = 0
        self._moves: list[int] = []
        self._history: list[tuple[tuple[int, int, int, int], int]] = []
        self._legal = self._find_legal()

    @property
    def size(self) -> int:
        """Side of the board, n."""
        return self.variant.size

    @property
    def players(self) -> int:
        """Number of players, P."""
        return self.variant.players

    @property
    def starter(self) -> str:
        """The colour that moved first."""
        return COLORS[self._order[0]]

    @property
    def ply(self) -> int:
        """Turns played since the start position."""
        return self._ply

    @property
    def seat(self) -> int:
        """The place in the turn order of whoever moves now, 0 to P − 1."""
        return self._ply % self.variant.players

    @property
    def is_over(self) -> bool:
        """Whether the board is full."""
        return self._ply == self.variant.plies

    @property
    def moves(self) -> tuple[int, ...]:
        """The actions pushed so far, oldest first."""
        return tuple(self._moves)

    @property
    def words(self) -> tuple[int, int, int, int]:
        """The cells of each colour, red first, as words."""
        return self._words

    @property
    def color_to_move(self) -> str:
        """The colour that moves now. Raises `RoundOverError` on a full board."""
        if self.is_over:
            raise RoundOverError("the round is over, so nobody is to move; start a new Board")
        return COLORS[self._mover()]

    @property
    def legal(self) -> int:
        """The legal cells as a word; 0 only on a full board."""
        return self._legal

    @property
    def legal_moves(self) -> list[int]:
        """The legal actions, ascending; empty only on a full board."""
        return list(cells_of(self._legal))

    def color_at(self, cell: int | str) -> str | None:
        """Return the colour of the ball on a cell, None where there is none. Raises `ActionError` off the board."""
        action = self._action(cell)
        for color, word in zip(COLORS, self._words, strict=True):
            if word >> action & 1:
                return color
        return None

    def rolled_by(self, move: int | str) -> list[int]:
        """Return the cells of the balls that a legal move would roll, ascending. Raises as `push` does."""
        action = self._check(move)
        own, others = self._own_and_others()
        return list(cells_of(rules.rolled_balls(action, own, others, self.variant.geometry)))

    def push(self, move: int | str) -> None:
        """Play an action or a cell name.

        Raises:
            RoundOverError: when the board is full.
            ActionError: for anything that is no cell of this board.
            IllegalMoveError: for a cell that the rules forbid now; its `reason` names the rule. The board is unchanged.
        """
        # A legal cell as a plain int, which most moves are, needs no further questions: no other cell is in `_legal`.
        action = move if type(move) is int and move >= 0 and self._legal >> move & 1 else self._check(move)
        order, ply, before = self._order, self._ply, self._words
        mover, following = order[ply % len(order)], order[(ply + 1) % len(order)]
        after, legal = turn_player(self.variant.size).play(action, *before, mover, following)
        self._history.append((before, self._legal))
        self._moves.append(action)
        self._words, self._legal, self._ply = after, legal, ply + 1

    def pop(self) -> int:
        """Take the last turn back and return its action, for analysis (in a game, a legal move stands).

        Raises `PositionError` when no pushed turn is left.
        """
        if not self._moves:
            raise PositionError("no turn to take back: none was pushed on this board")
        self._words, self._legal = self._history.pop()
        self._ply -= 1
        return self._moves.pop()

    def counts(self) -> dict[str, int]:
        """Return the number of balls of each of the four colours."""
        return {color: word.bit_count() for color, word in zip(COLORS, self._words, strict=True)}

    def outcome(self) -> Outcome | None:
        """Return the outcome of a full board, None before."""
        if not self.is_over:
            return None
        counts = self.counts()
        most = max(counts[color] for color in self.variant.colors)
        return Outcome(tuple(color for color in self.variant.colors if counts[color] == most), counts)

    def payoffs(self, kind: Payoff = "win") -> dict[str, float]:
        """Return the payoff of each playing colour (see `payoffs.payoffs`). Raises `RoundNotOverError` before the end."""
        check_payoff(kind)
        if not self.is_over:
            raise RoundNotOverError(
                f"the round has payoffs only when it is over; {self.variant.plies - self._ply} turns are left"
            )
        counts = self.counts()
        values = payoffs(np.array([counts[color] for color in self.variant.colors]), kind, self.variant.cells)
        return dict(zip(self.variant.colors, values.tolist(), strict=True))

    def copy(self) -> Board:
        """Return an independent board with the same position and the same turns to take back."""
        twin = Board.__new__(Board)
        twin.variant = self.variant
        twin._order = self._order
        twin._words = self._words
        twin._ply = self._ply
        twin._moves = self._moves.copy()
        twin._history = self._history.copy()
        twin._legal = self._legal
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, object]) -> Board:
        return self.copy()

    def __eq__(self, other: object) -> bool:
        """Tell whether both show the same position with the same colour to move in the same variant."""
        if not isinstance(other, Board):
            return NotImplemented
        mine = (self.variant, self._order, self._ply, self._words)
        return mine == (other.variant, other._order, other._ply, other._words)

    __hash__ = None  # type: ignore[assignment]  # a board changes

    def __str__(self) -> str:
        return format_position(self.variant, None if self.is_over else self.color_to_move, self._words)

    def __repr__(self) -> str:
        return f"<Board {self.variant.name}, starter {self.starter}, ply {self._ply} of {self.variant.plies}>"

    @classmethod
    def from_text(cls, text: str) -> Board:
        """Read a position that `str(board)` wrote, or that a person typed; the starter follows from who moves.

        A full board names nobody, so its starter reads as red. Raises `PositionError` for anything else.
        """
        chosen, mover, words = parse_position(text)
        ply = sum(word.bit_count() for word in words) - 4
        starter = 0 if mover is None else (chosen.colors.index(mover) - ply) % chosen.players
        board = cls(chosen.size, chosen.players, chosen.colors[starter])
        board.set_words(words)
        return board

    def set_words(self, words: Sequence[int]) -> None:
        """Put up another position: a word of cells for each of the four colours, red first; the starter stays.

        The turn follows from the number of balls. Turns pushed before can't be taken back any more.
        Raises `PositionError` when words overlap, leave the board, or leave one of the four middle cells empty.
        """
        occupied = 0
        for word in words:
            if word & occupied or word & ~self.variant.geometry.board:
                raise PositionError("every ball must lie on the board, one on a cell")
            occupied |= word
        if len(words) != 4 or sum(self.variant.start) & ~occupied:
            raise PositionError("a position needs four words, and balls on the four middle cells as from the start")
        red, yellow, green, blue = words
        self._words = (int(red), int(yellow), int(green), int(blue))
        self._ply = occupied.bit_count() - 4
        self._moves, self._history = [], []
        self._legal = self._find_legal()

    def _mover(self) -> int:
        return self._order[self._ply % len(self._order)]

    def _own_and_others(self) -> tuple[int, int]:
        own = self._words[self._mover()]
        red, yellow, green, blue = self._words
        return own, (red | yellow | green | blue) ^ own

    def _find_legal(self) -> int:
        own, others = self._own_and_others()
        legal: int = rules.legal_cells(own, others, self.variant.geometry)
        return legal

    def _action(self, move: int | str) -> int:
        if isinstance(move, str):
            return parse_cell(move, self.variant.size)
        return checked_action(move, self.variant.cells)

    def _check(self, move: int | str) -> int:
        if self.is_over:
            raise RoundOverError("the round is over: the board is full, so no move is legal; start a new Board")
        action = self._action(move)
        if not self._legal >> action & 1:
            reason = illegal_reason(action, *self._own_and_others(), self.variant.geometry)
            raise IllegalMoveError(explain_illegal(action, reason, self._legal, self.size), reason)
        return action
