"""Records as text that people read and other programs write: records become lines, lines become verified records.

`docs/records.md` explains the form, with a grammar.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from rolit_env.errors import RecordError
from rolit_env.record.model import MOST_DIGITS, MatchRecord, Record, RoundRecord, time_text
from rolit_env.variant import COLORS, all_variants

FORMAT = 1
"""Version of the text form and of the JSON form."""

TURNS_A_LINE = 12
"""Of moves, when written; 2, 3 and 4 divide it, so every line begins with the starter."""

_SPACES = " \t"
"""What may stand around lines and values, and in any number between moves; elsewhere one space is one space."""

_INT = rf"(?:0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})"
_INTS = rf"{_INT}(?: {_INT})*"
_PART = rf"({_INT})(?: of ({_INT}))?"
_NUMBER = "[1-9][0-9]{0,8}"
_TIME = r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,3})?"
_ROUND_KEYS = ("variant", *COLORS, "starter", "opening", "limit", "timeouts", "seed", "program", "turns")


class _Line(NamedTuple):
    number: int  # from 1
    text: str

    def refuse(self, complaint: str) -> NoReturn:
        raise RecordError(f"line {self.number}: {complaint}")


def format_text(record: Record) -> str:
    """Return a record as text that ends with a line break."""
    return "\n".join(_match_lines(record) if isinstance(record, MatchRecord) else _round_lines(record)) + "\n"


def parse_text(text: str) -> list[Record]:
    """Return the records that stand in a text one after another, at least one, all verified move by move.

    Raises `RecordError` for anything else; the sentence names the line, and the turn where there is one.
    """
    reader = _Reader(text)
    records = [reader.record()]
    while not reader.at_end:
        records.append(reader.record())
    return records


def _round_lines(record: RoundRecord) -> list[str]:
    lines = [f"rolit round, format {FORMAT}", f"variant: {record.variant.name}"]
    lines += [f"{color}: {record.agents[color]}" for color in record.variant.colors]
    lines.append(f"starter: {record.starter}")
    if record.opening_turns:
        lines.append(f"opening: {record.opening_turns}")
    if record.limit is not None:
        lines.append(f"limit: {time_text(record.limit)}")
    if record.timeouts:
        lines.append(f"timeouts: {' '.join(map(str, record.timeouts))}")
    lines += [*_source_lines(record), f"turns: {_part(len(record.moves), record.variant.plies)}", ""]
    moves: Sequence[str] = record.moves
    if record.seconds is not None:
        moves = [f"{cell}/{time_text(seconds)}" for cell, seconds in zip(moves, record.seconds, strict=True)]
    for first in range(0, len(moves), TURNS_A_LINE):
        lines.append(f"{first + 1}. {' '.join(moves[first : first + TURNS_A_LINE])}")
    return [*lines, f"counts: {', '.join(f'{color} {record.counts[color]}' for color in COLORS)}"]


def _match_lines(record: MatchRecord) -> list[str]:
    lines = [f"rolit match, format {FORMAT}"]
    lines += [f"agent {number}: {name}" for number, name in enumerate(record.agents, start=1)]
    lines += [*_source_lines(record), f"rounds: {_part(len(record.rounds), record.planned)}"]
    for number, seats in enumerate(record.seats, start=1):
        lines.append(f"seats {number}: {' '.join(str(seat + 1) for seat in seats)}")
    lines += [f"won: {' '.join(map(str, record.won))}", f"points: {' '.join(map(str, record.points))}"]
    for played in record.rounds:
        lines += ["", *_round_lines(played)]
    return lines


def _source_lines(record: Record) -> list[str]:
    seed = [] if record.seed is None else [f"seed: {record.seed}"]
    return seed if record.program is None else [*seed, f"program: {record.program}"]


def _part(done: int, planned: int) -> str:
    return str(done) if done == planned else f"{done} of {planned}"


class _Headers:
    """The lines `key: value` of a record."""

    def __init__(self, title: _Line) -> None:
        self.title = title
        self._lines: dict[str, _Line] = {}

    def add(self, line: _Line, known: Sequence[str]) -> None:
        key, colon, value = line.text.partition(":")
        if not colon or not re.fullmatch("|".join(known), key):
            listed = ", ".join(one.replace(_NUMBER, "N") for one in known)
            line.refuse(f"{reprlib.repr(line.text)} is no header; allowed are lines KEY: VALUE, with the keys {listed}")
        if key in self._lines:
            line.refuse(f"{key} is given a second time; allowed is once")
        self._lines[key] = _Line(line.number, value.strip(_SPACES))

    def line(self, key: str) -> _Line:
        """Return the value of a header that must be there, with its line."""
        if key not in self._lines:
            self.title.refuse(f"the header '{key}: …' of this record is missing")
        return self._lines[key]

    def find(self, key: str) -> str | None:
        return self._lines[key].text if key in self._lines else None

    def match(self, key: str, pattern: str, example: str) -> re.Match[str]:
        line = self.line(key)
        found = re.fullmatch(pattern, line.text)
        if not found:
            line.refuse(f"{key} {reprlib.repr(line.text)} must read like {example}")
        return found

    def number(self, key: str) -> int | None:
        return int(self.match(key, _INT, "7")[0]) if key in self._lines else None

    def numbers(self, key: str) -> tuple[int, ...]:
        return tuple(map(int, self.match(key, _INTS, "1 2")[0].split()))

    def part(self, key: str) -> tuple[int, int | None]:
        done, planned = self.match(key, _PART, "12, or 9 of 12").groups()
        return int(done), None if planned is None else int(planned)

    def count(self, word: str) -> int:
        """Return how many headers are numbered ones such as `agent 1`."""
        return sum(key.startswith(f"{word} ") for key in self._lines)

    def colors(self) -> dict[str, str]:
        return {color: self._lines[color].text for color in COLORS if color in self._lines}


def _at(error: RecordError, line: _Line) -> RecordError:
    """Return a complaint about a record with the line that it is about."""
    return RecordError(f"line {line.number}{':' if error.turn is None else ','} {error}", error.turn)


class _Reader:
    """Takes records from the front of a text; what does not follow the grammar is refused at its line."""

    def __init__(self, text: str) -> None:
        lines = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
        self._lines = [_Line(number, content) for number, line in lines if (content := line.strip(_SPACES))]
        self._taken = 0

    @property
    def at_end(self) -> bool:
        return self._taken == len(self._lines)

    def record(self) -> Record:
        title = self._see("a record")
        if re.match(r"rolit match\b", title.text):
            return self._match(title)
        return self._round(title)

    def _see(self, wanted: str) -> _Line:
        """Return the next line, which stays there."""
        if self.at_end:
            where = f" after line {self._lines[-1].number}" if self._lines else " or empty"
            raise RecordError(f"the text is cut{where}: {wanted} is missing")
        return self._lines[self._taken]

    def _headers(self, kind: str, known: Sequence[str], end: str) -> _Headers:
        """Take the title of a record and its headers, up to a line that begins with `end`."""
        title = self._see(f"a {kind}")
        found = re.fullmatch(r"rolit (round|match), format ([0-9]+)", title.text)
        if not found or found[1] != kind:
            title.refuse(f"{reprlib.repr(title.text)} begins no {kind}; allowed is 'rolit {kind}, format {FORMAT}'")
        if found[2] != str(FORMAT):
            title.refuse(
                f"this is format {found[2][:9]} of a {kind}; allowed is format {FORMAT}, or a newer version of rolit-env"
            )
        headers = _Headers(title)
        self._taken += 1
        while not re.match(end, (line := self._see(f"the rest of a {kind}")).text):
            headers.add(line, known)
            self._taken += 1
        return headers

    def _round(self, title: _Line) -> RoundRecord:
        headers = self._headers("round", _ROUND_KEYS, r"[0-9]+\.|counts:")
        name = headers.line("variant")
        chosen = next((one for one in all_variants() if one.name == name.text), None)
        if not chosen:
            allowed = ", ".join(one.name for one in all_variants())
            name.refuse(f"{reprlib.repr(name.text)} is no variant; allowed are {allowed}")
        played, plies = headers.part("turns")
        if played > chosen.plies or (plies or chosen.plies) != chosen.plies or (plies is None and played < chosen.plies):
            headers.line("turns").refuse(
                f"a round of {chosen.name} has {chosen.plies} turns, and one left before its end such as 3 of {chosen.plies}"
            )
        starter, opening, seed = headers.line("starter").text, headers.number("opening"), headers.number("seed")
        timeouts = headers.numbers("timeouts") if headers.find("timeouts") is not None else ()
        limit = float(headers.match("limit", _TIME, "0.25")[0]) if headers.find("limit") is not None else None
        moves, lines = self._moves(played)
        cells, times = zip(*moves, strict=True) if moves else ((), ())
        counts = self._counts()
        try:
            record = RoundRecord(
                size=chosen.size,
                players=chosen.players,
                agents=headers.colors(),
                starter=starter,
                moves=cells,
                counts=counts,
                opening_turns=opening or 0,
                timeouts=timeouts,
                seconds=times if times and times[0] is not None else None,
                limit=limit,
                seed=seed,
                program=headers.find("program"),
            )
            record.verify()
        except RecordError as error:
            raise _at(error, title if error.turn is None else lines[error.turn - 1]) from None
        return record

    def _moves(self, turns: int) -> tuple[list[tuple[str, float | None]], list[_Line]]:
        """Take so many moves and return them with their times, and the line that each stands in."""
        moves: list[tuple[str, float | None]] = []
        lines: list[_Line] = []
        while len(moves) < turns:
            line = self._see(f"turn {len(moves) + 1}")
            number, *words = re.split(f"[{_SPACES}]+", line.text)
            if number != f"{len(moves) + 1}." or not words:
                line.refuse(f"turn {len(moves) + 1} is missing; allowed is a line such as '{len(moves) + 1}. f4 f3'")
            for word in words:
                move = re.fullmatch(rf"([a-z0-9]+)(?:/({_TIME}))?", word)
                turn = len(moves) + 1
                if not move or (moves and (move[2] is None) != (moves[0][1] is None)):
                    raise RecordError(
                        f"line {line.number}, turn {turn}: {reprlib.repr(word)} is no move; "
                        "allowed are cells such as f4, or at all turns cells and the seconds they took, such as f4/0.25",
                        turn,
                    )
                moves.append((move[1], None if move[2] is None else float(move[2])))
                lines.append(line)
            self._taken += 1
        if len(moves) > turns:
            raise RecordError(f"line {line.number}, turn {turns + 1}: the header says that there are {turns} turns", turns + 1)
        return moves, lines

    def _counts(self) -> dict[str, int]:
        line = self._see("'counts: …'")
        found = re.fullmatch("counts: " + ", ".join(f"{color} (0|[1-9][0-9]?)" for color in COLORS), line.text)
        if not found:
            line.refuse(
                f"{reprlib.repr(line.text)} ends no round; allowed is such as 'counts: red 30, yellow 0, green 34, blue 0'"
            )
        self._taken += 1
        return dict(zip(COLORS, map(int, found.groups()), strict=True))

    def _match(self, title: _Line) -> MatchRecord:
        known = (f"agent {_NUMBER}", f"seats {_NUMBER}", "rounds", "won", "points", "seed", "program")
        headers = self._headers("match", known, r"rolit")
        rounds, planned = headers.part("rounds")
        agents = tuple(headers.line(f"agent {number}").text for number in range(1, headers.count("agent") + 1))
        seats = [headers.numbers(f"seats {number}") for number in range(1, headers.count("seats") + 1)]
        won, points, seed = headers.numbers("won"), headers.numbers("points"), headers.number("seed")
        played = tuple(self._round(self._see(f"round {number}")) for number in range(1, rounds + 1))
        try:
            record = MatchRecord(
                agents=agents,
                rounds=played,
                seats=tuple(tuple(seat - 1 for seat in order) for order in seats),
                planned=rounds if planned is None else planned,
                seed=seed,
                program=headers.find("program"),
            )
        except RecordError as error:
            raise _at(error, title) from None
        for key, said, found in (("won", won, record.won), ("points", points, record.points)):
            if said != found:
                headers.line(key).refuse(f"{key} must be {' '.join(map(str, found))} by the rounds that follow")
        return record
