"""What was played: a round or a match goes in as plain values, which are checked, and replayed by the rules when asked.

Turns, and in files agents and rounds too, are numbered from 1. `docs/records.md` describes the files.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rolit_env.board import Board
from rolit_env.errors import IllegalMoveError, RecordError, VariantError
from rolit_env.notation import cell_name
from rolit_env.variant import COLORS, Variant, variant
from rolit_env.version import __version__

MOST_SECONDS = 10**9
MOST_DIGITS = 100
"""Of a seed, far beyond what draws need."""


def program_name() -> str:
    """Return what records made here name as the program that wrote them."""
    return f"rolit-env {__version__}"


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """A round, or the beginning of one that was left before its end.

    Making one checks all that needs no board; `verify` replays the moves.

    Attributes:
        size: Side of the board.
        players: Number of players, P.
        agents: Who played each playing colour: any printable text on one line.
        starter: The colour that moved first.
        moves: Names of the cells, a turn each.
        counts: Balls of each of the four colours after the last move.
        opening_turns: Turns at the start that were drawn at random for all agents, not chosen by one.
        timeouts: Numbers of the turns that ran out of time and were drawn at random, ascending, from 1.
        seconds: What each turn took, to the millisecond; None where nobody looked at the clock.
        limit: Seconds allowed a turn; None for no limit.
        seed: Seed of the run that the round is from.
        program: What wrote the record, with its version.

    Raises:
        RecordError: for values that no round has; `turn` is the number of the turn where there is one.
    """

    size: int
    players: int
    agents: Mapping[str, str]
    starter: str
    moves: tuple[str, ...]
    counts: Mapping[str, int]
    opening_turns: int = 0
    timeouts: tuple[int, ...] = ()
    seconds: tuple[float, ...] | None = None
    limit: float | None = None
    seed: int | None = None
    program: str | None = field(default_factory=program_name)

    def __post_init__(self) -> None:
        try:
            chosen = variant(self.size, self.players)
        except VariantError as error:
            raise RecordError(str(error)) from None
        colors, turns = chosen.colors, len(self.moves)
        if set(self.agents) != set(colors):
            raise RecordError(f"agents are given for {_listed(self.agents)}; {chosen.name} is played by {_listed(colors)}")
        check_names((*self.agents.values(), self.program))
        if self.starter not in colors:
            raise RecordError(f"{shown(self.starter)} can't start {chosen.name}; allowed are {_listed(colors)}")
        if turns > chosen.plies:
            raise RecordError(f"turn {chosen.plies + 1}: a round of {chosen.name} has {chosen.plies} turns", chosen.plies + 1)
        if not _cell_names(self.size).issuperset(self.moves):
            self._refuse_cells()
        if set(self.counts) != set(COLORS):
            raise RecordError(f"counts are given for {_listed(self.counts)}; they are of {_listed(COLORS)}")
        if not 0 <= self.opening_turns <= turns:
            raise RecordError(f"{self.opening_turns} opening turns don't fit; {turns} turns were played")
        if self.timeouts:
            self._refuse_timeouts()
        check_seed(self.seed)
        if self.limit is not None and not (_is_time(self.limit) and self.limit > 0):
            raise RecordError(f"limit {shown(self.limit)} is no time for a turn; allowed are {_TIMES}, more than 0")
        if self.seconds is not None:
            self._refuse_seconds(self.seconds)

    @classmethod
    def from_board(cls, board: Board, agents: Mapping[str, str], **rest: Any) -> RoundRecord:
        """Return a record of a board whose turns were all pushed; `rest` are the attributes that a board does not know.

        Raises `RecordError` as the class does, and when a board knows only its position, not the turns that led there.
        """
        if len(board.moves) < board.ply:
            raise RecordError(
                f"of {board.ply} turns the board knows {len(board.moves)}; allowed is a board played from the start"
            )
        return cls(
            size=board.size,
            players=board.players,
            agents=agents,
            starter=board.starter,
            moves=tuple(cell_name(action, board.size) for action in board.moves),
            counts=board.counts(),
            **rest,
        )

    @property
    def variant(self) -> Variant:
        """The variant played."""
        return variant(self.size, self.players)

    @property
    def is_finished(self) -> bool:
        """Whether the round was played to its end."""
        return len(self.moves) == self.variant.plies

    @property
    def order(self) -> tuple[str, ...]:
        """The playing colours in turn order, [P]: the starter first."""
        first = self.variant.colors.index(self.starter)
        return self.variant.colors[first:] + self.variant.colors[:first]

    @property
    def leaders(self) -> tuple[str, ...]:
        """The playing colours with the most balls after the last move, clockwise: at the end, the winners."""
        most = max(self.counts[color] for color in self.variant.colors)
        return tuple(color for color in self.variant.colors if self.counts[color] == most)

    def board(self, turns: int | None = None) -> Board:
        """Return the position after so many turns, all by default; its moves can be taken back.

        Raises `RecordError` at the first move that the rules forbid.
        """
        board = Board(self.size, self.players, self.starter)
        for turn, cell in enumerate(self.moves[:turns], start=1):
            try:
                board.push(cell)
            except IllegalMoveError as error:
                raise RecordError(f"turn {turn} ({board.color_to_move}): {error}", turn) from None
        return board

    def verify(self) -> None:
        """Replay the round. Raises `RecordError` when a move is illegal or the counts are not those that the moves lead to."""
        counts = self.board().counts()
        if counts != self.counts:
            said, found = (", ".join(f"{color} {balls[color]}" for color in COLORS) for balls in (self.counts, counts))
            raise RecordError(
                f"turn {len(self.moves)}: the record ends with {said}, but the moves lead to {found}", len(self.moves)
            )

    def _refuse_cells(self) -> None:
        names = _cell_names(self.size)
        last = cell_name(self.size * self.size - 1, self.size)
        for turn, cell in enumerate(self.moves, start=1):
            if cell not in names:
                raise RecordError(
                    f"turn {turn}: {shown(cell)} is no cell of this board; cells run from a1 (top left) to {last}", turn
                )

    def _refuse_timeouts(self) -> None:
        allowed = range(self.opening_turns + 1, len(self.moves) + 1)
        if list(self.timeouts) != sorted(set(self.timeouts)) or not set(self.timeouts) <= set(allowed):
            given = reprlib.repr(" ".join(map(str, self.timeouts)))[1:-1]
            raise RecordError(
                f"turns {given} can't have run out of time; allowed are, ascending, turns {allowed.start} to {len(self.moves)}"
            )

    def _refuse_seconds(self, seconds: tuple[float, ...]) -> None:
        if len(seconds) != len(self.moves):
            raise RecordError(f"{len(seconds)} times are given for {len(self.moves)} turns; allowed is one for each, or none")
        for turn, time in enumerate(seconds, start=1):
            if not _is_time(time):
                raise RecordError(f"turn {turn}: {shown(time)} is no time; allowed are {_TIMES}", turn)


@dataclass(frozen=True, kw_only=True)
class MatchRecord:
    """A match, or the rounds of one that was left before its end.

    Attributes:
        agents: Who played, P names; the same one may stand there twice.
        rounds: The rounds, all finished, at least one.
        seats: For each round the agents' places in `agents`, from 0, in turn order: [rounds, P].
        planned: Rounds that the match was to have.
        seed: Seed of the match.
        program: What wrote the record, with its version.

    Raises:
        RecordError: for values that no match has.
    """

    agents: tuple[str, ...]
    rounds: tuple[RoundRecord, ...]
    seats: tuple[tuple[int, ...], ...]
    planned: int
    seed: int | None = None
    program: str | None = field(default_factory=program_name)

    def __post_init__(self) -> None:
        check_names((*self.agents, self.program))
        check_seed(self.seed)
        if not 1 <= len(self.rounds) <= self.planned:
            raise RecordError(f"{len(self.rounds)} of {self.planned} rounds don't make a match; allowed are 1 to all of them")
        if len(self.seats) != len(self.rounds):
            raise RecordError(f"seats are given for {len(self.seats)} rounds, but there are {len(self.rounds)}")
        first = self.rounds[0].variant
        for number, (played, seats) in enumerate(zip(self.rounds, self.seats, strict=True), start=1):
            if played.variant != first or not played.is_finished:
                raise RecordError(f"round {number} is no finished round of {first.name}; a match has no others")
            if sorted(seats) != list(range(len(self.agents))) or len(seats) != first.players:
                raise RecordError(
                    f"round {number}: the seats must name each of the agents 1 to {len(self.agents)} once, in turn order"
                )
            for seat, color in zip(seats, played.order, strict=True):
                if played.agents[color] != self.agents[seat]:
                    raise RecordError(
                        f"round {number}: by the seats {color} is agent {seat + 1}, {shown(self.agents[seat])}, "
                        f"but it is played by {shown(played.agents[color])}"
                    )

    @property
    def is_finished(self) -> bool:
        """Whether all rounds that were planned are there."""
        return len(self.rounds) == self.planned

    @property
    def balls(self) -> tuple[tuple[int, ...], ...]:
        """The balls of each agent in each round, [rounds, P]."""
        return tuple(
            tuple(played.counts[played.order[seats.index(agent)]] for agent in range(len(self.agents)))
            for played, seats in zip(self.rounds, self.seats, strict=True)
        )

    @property
    def won(self) -> tuple[int, ...]:
        """Rounds won by each agent, [P]: each of several leaders of a round is credited with it."""
        return tuple(sum(balls[agent] == max(balls) for balls in self.balls) for agent in range(len(self.agents)))

    @property
    def points(self) -> tuple[int, ...]:
        """Balls of each agent over all rounds, [P]."""
        return tuple(map(sum, zip(*self.balls, strict=True)))

    @property
    def winners(self) -> tuple[int, ...]:
        """The agents, from 0, that lead: most rounds won, then most points; the match is drawn between several."""
        scores = list(zip(self.won, self.points, strict=True))
        return tuple(agent for agent, score in enumerate(scores) if score == max(scores))

    def verify(self) -> None:
        """Replay all rounds. Raises `RecordError` as a round does, with the number of the round."""
        for number, played in enumerate(self.rounds, start=1):
            try:
                played.verify()
            except RecordError as error:
                raise RecordError(f"round {number}, {error}", error.turn) from None


Record = RoundRecord | MatchRecord


def check_names(names: Iterable[str | None]) -> None:
    """Raise `RecordError` for a name that does not fit on a line as it is."""
    for name in names:
        if name is not None and not (name and name.isprintable() and name == name.strip()):
            raise RecordError(f"{shown(name)} is no name; allowed is printable text on one line, without spaces around it")


def check_seed(seed: int | None) -> None:
    """Raise `RecordError` for what is no seed."""
    if seed is not None and not 0 <= seed < 10**MOST_DIGITS:
        raise RecordError(f"this is no seed; allowed are ints from 0 up, of at most {MOST_DIGITS} digits")


def time_text(seconds: float) -> str:
    """Write a time to the millisecond, as short as can be: 0.25."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


_TIMES = f"seconds to the millisecond, below {MOST_SECONDS}"


def _is_time(seconds: float) -> bool:
    text = time_text(seconds)  # the text must lead back to the same number, which neither −0 nor infinity does
    return 0 <= seconds < MOST_SECONDS and text[0] != "-" and float(text) == seconds


@cache
def _cell_names(size: int) -> frozenset[str]:
    return frozenset(cell_name(cell, size) for cell in range(size * size))


def _listed(names: Mapping[str, object] | Sequence[str]) -> str:
    return reprlib.repr(", ".join(names))[1:-1] or "none"


def shown(value: object) -> str:
    """Write what was given on one line, cut where it is long."""
    return " ".join(reprlib.repr(value).split())
