"""Records as JSON for programs: records become objects, one a line, and objects become verified records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from rolit_env.errors import RecordError
from rolit_env.record.model import MatchRecord, Record, RoundRecord, shown
from rolit_env.record.text_form import FORMAT

_ROUND_KEYS = ("size", "players", "agents", "starter", "moves", "counts")
_ROUND_OPTIONS = ("opening_turns", "timeouts", "seconds", "limit", "seed", "program")
_MATCH_KEYS = ("agents", "rounds", "seats", "planned", "won", "points")
_MATCH_OPTIONS = ("seed", "program")


def to_dict(record: Record) -> dict[str, Any]:
    """Return a record as plain values, ready for JSON; agents in `seats` are numbered from 1, as in all files."""
    if isinstance(record, RoundRecord):
        return {
            "format": "rolit round",
            "version": FORMAT,
            "size": record.size,
            "players": record.players,
            "agents": dict(record.agents),
            "starter": record.starter,
            "opening_turns": record.opening_turns,
            "limit": record.limit,
            "timeouts": list(record.timeouts),
            "seed": record.seed,
            "program": record.program,
            "moves": list(record.moves),
            "seconds": None if record.seconds is None else list(record.seconds),
            "counts": dict(record.counts),
        }
    return {
        "format": "rolit match",
        "version": FORMAT,
        "agents": list(record.agents),
        "seed": record.seed,
        "program": record.program,
        "planned": record.planned,
        "seats": [[seat + 1 for seat in seats] for seats in record.seats],
        "won": list(record.won),
        "points": list(record.points),
        "rounds": [to_dict(played) for played in record.rounds],
    }


def format_json(record: Record) -> str:
    """Return a record as one line of JSON, which ends with a line break."""
    return json.dumps(to_dict(record)) + "\n"


def parse_json(text: str) -> list[Record]:
    """Return the records whose objects stand in a text one after another, at least one, all verified move by move.

    Raises `RecordError` for anything else; the sentence names the record where there are several, and the turn.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
    records: list[Record] = []
    position = _skip_space(text, 0)
    while position < len(text) or not records:
        try:
            value, position = decoder.raw_decode(text, position)
            records.append(from_dict(value))
        except RecordError as error:
            raise _within(error, f"record {len(records) + 1}" if records else "") from None
        except json.JSONDecodeError as error:
            raise RecordError(f"line {error.lineno}, column {error.colno}: no JSON, or cut ({error.msg})") from None
        except (RecursionError, ValueError):  # too many brackets, or an int of thousands of digits
            raise RecordError(f"record {len(records) + 1} is no record: nothing in one is so deep or so large") from None
        position = _skip_space(text, position)
    return records


def from_dict(value: object) -> Record:
    """Return the record that `to_dict` made these values from, verified. Raises `RecordError` for any others."""
    data = _typed(value, "a record", _is_object)
    kind = data.get("format")
    if kind not in ("rolit round", "rolit match"):
        raise RecordError(f"format {shown(kind)} is not that of a record; allowed are 'rolit round' and 'rolit match'")
    if not _is_int(data.get("version")) or data["version"] != FORMAT:
        raise RecordError(f"this is version {shown(data.get('version'))} of the format; allowed is {FORMAT}")
    if kind == "rolit match":
        return _match(data)
    played = _round(data)
    played.verify()
    return played


def _round(data: dict[str, Any]) -> RoundRecord:
    _check_keys(data, _ROUND_KEYS, _ROUND_OPTIONS)
    seconds = None if data.get("seconds") is None else _list(data, "seconds", _is_number)
    return RoundRecord(
        size=_typed(data["size"], "size", _is_int),
        players=_typed(data["players"], "players", _is_int),
        agents=_dict(data, "agents", _is_text),
        starter=_typed(data["starter"], "starter", _is_text),
        moves=_list(data, "moves", _is_text),
        counts=_dict(data, "counts", _is_int),
        opening_turns=_typed(data.get("opening_turns", 0), "opening_turns", _is_int),
        timeouts=_list(data, "timeouts", _is_int) if "timeouts" in data else (),
        seconds=None if seconds is None else tuple(map(_float, seconds)),
        limit=_float(data["limit"]) if _option(data, "limit", _is_number) is not None else None,
        seed=_option(data, "seed", _is_int),
        program=_option(data, "program", _is_text),
    )


def _match(data: dict[str, Any]) -> MatchRecord:
    _check_keys(data, _MATCH_KEYS, _MATCH_OPTIONS)
    rounds = []
    for number, value in enumerate(_list(data, "rounds", _is_object), start=1):
        try:
            played = from_dict(value)
        except RecordError as error:
            raise _within(error, f"round {number}") from None
        if not isinstance(played, RoundRecord):
            raise RecordError(f"round {number} is no round, but a {value['format']}")
        rounds.append(played)
    seats = _list(data, "seats", lambda value: isinstance(value, list) and all(map(_is_int, value)))
    record = MatchRecord(
        agents=_list(data, "agents", _is_text),
        rounds=tuple(rounds),
        seats=tuple(tuple(seat - 1 for seat in order) for order in seats),
        planned=_typed(data["planned"], "planned", _is_int),
        seed=_option(data, "seed", _is_int),
        program=_option(data, "program", _is_text),
    )
    for key, found in (("won", record.won), ("points", record.points)):
        if _list(data, key, _is_int) != found:
            raise RecordError(f"{key} must be {list(found)} by the rounds, not {shown(data[key])}")
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RecordError(f"{shown(twice)} is given a second time; allowed is once")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise RecordError(f"{name} is no number that a record can hold")


def _check_keys(data: dict[str, Any], needed: tuple[str, ...], options: tuple[str, ...]) -> None:
    known = ("format", "version", *needed, *options)
    for key in data:
        if key not in known:
            raise RecordError(f"{shown(key)} is unknown; known are {', '.join(known)}")
    for key in needed:
        if key not in data:
            raise RecordError(f"{key!r} is missing; a record has {', '.join(needed)}")


def _is_int(value: object) -> bool:
    return type(value) is int  # truth values are ints too


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _typed(value: Any, what: str, kind: Callable[[object], bool]) -> Any:
    if not kind(value):
        raise RecordError(f"{what} can't be {shown(value)}; docs/records.md says what it must be")
    return value


def _option(data: dict[str, Any], key: str, kind: Callable[[object], bool]) -> Any:
    return None if data.get(key) is None else _typed(data[key], key, kind)


def _list(data: dict[str, Any], key: str, kind: Callable[[object], bool]) -> tuple[Any, ...]:
    _typed(data[key], key, lambda values: isinstance(values, list))
    for number, value in enumerate(data[key], start=1):
        _typed(value, f"number {number} of {key}", kind)
    return tuple(data[key])


def _dict(data: dict[str, Any], key: str, kind: Callable[[object], bool]) -> dict[str, Any]:
    values: dict[str, Any] = _typed(data[key], key, _is_object)
    for name, value in values.items():
        _typed(value, f"{shown(name)} of {key}", kind)
    return values


def _float(number: float) -> float:
    """Return a number as a float; an int too large for one is infinite, which no record takes."""
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def _within(error: RecordError, place: str) -> RecordError:
    return RecordError(f"{place}, {error}" if place else str(error), error.turn)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
