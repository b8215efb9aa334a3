"""Records: what is written reads back the same, and whatever a file says that was not played is refused by name."""

import itertools
import json
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolit_env import Board, GameBatch
from rolit_env.errors import ActionError, OptionError, RecordError, RoundOverError
from rolit_env.match import rotation
from rolit_env.notation import cell_name
from rolit_env.record import (
    MatchRecord,
    Recorder,
    RoundRecord,
    format_json,
    format_text,
    from_dict,
    parse_json,
    parse_records,
    parse_text,
    read_records,
    to_dict,
    write_records,
)
from rolit_env.variant import all_variants, variant
from tests.golden import read_golden
from tests.oracle import COLORS, PLAYING, Oracle, named_cell

FORMS = {"text": format_text, "json": format_json}


def made(size=8, players=2, starter="red", turns=None, draws=0, **rest):
    """Return a record of random turns, all by default."""
    board, rng = Board(size, players, starter), random.Random(draws)
    for _ in range(board.variant.plies if turns is None else turns):
        board.push(rng.choice(board.legal_moves))
    agents = {color: f"agent of {color}" for color in board.variant.colors}
    return RoundRecord.from_board(board, rest.pop("agents", agents), **rest)


def made_match(size=8, players=2, rounds=2, planned=None, seed=0):
    """Return a match of random rounds in which the agents change seats."""
    rng = random.Random(seed)
    agents = tuple(f"agent {number}" for number in range(players))
    played, seatings = [], []
    for number, seats in zip(range(rounds), itertools.cycle(rotation(players)), strict=False):
        starter = rng.choice(PLAYING[players])
        order = made(size, players, starter, turns=0).order
        seated = {color: agents[seat] for color, seat in zip(order, seats, strict=True)}
        played.append(made(size, players, starter, draws=number, agents=seated))
        seatings.append(seats)
    return MatchRecord(
        agents=agents, rounds=tuple(played), seats=tuple(seatings), planned=planned or rounds, seed=seed, program=None
    )


# Round trips

names = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1).filter(str.isprintable)
times = st.integers(0, 10**7).map(lambda milliseconds: milliseconds / 1000)


@st.composite
def round_records(draw, chosen):
    turns = draw(st.integers(0, chosen.plies) | st.just(chosen.plies))
    opening = draw(st.integers(0, turns))
    timeouts = draw(st.sets(st.integers(opening + 1, turns))) if opening < turns else ()
    return made(
        chosen.size,
        chosen.players,
        draw(st.sampled_from(chosen.colors)),
        turns,
        draw(st.integers(0, 99)),
        agents={color: draw(names) for color in chosen.colors},
        opening_turns=opening,
        timeouts=tuple(sorted(timeouts)),
        # Where no turn was played, no text can say that nobody looked at the clock either.
        seconds=tuple(draw(st.lists(times, min_size=turns, max_size=turns))) if turns and draw(st.booleans()) else None,
        limit=draw(st.none() | times.filter(bool)),
        seed=draw(st.none() | st.integers(0, 10**99)),
        program=draw(st.none() | names),
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_rounds_read_back_as_they_were_written(chosen, form, data):
    record = data.draw(round_records(chosen))
    written = FORMS[form](record)
    assert parse_records(written) == [record]
    assert FORMS[form](parse_records(written)[0]) == written
    assert json.loads(format_json(record)) == to_dict(record)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_matches_read_back_as_they_were_written(chosen, form, data):
    rounds = data.draw(st.integers(1, 4))
    record = made_match(
        chosen.size, chosen.players, rounds, rounds + data.draw(st.integers(0, 3)), data.draw(st.integers(0, 99))
    )
    assert parse_records(FORMS[form](record)) == [record]


def test_text_says_in_words_what_was_played():
    record = made(4, turns=3, opening_turns=1, timeouts=(3,), seconds=(0, 0.25, 1.5), limit=1.5, seed=7, program="tests 1")
    counts = ", ".join(f"{color} {record.counts[color]}" for color in COLORS)
    first, second, third = record.moves
    assert format_text(record) == (
        "rolit round, format 1\n"
        "variant: 4x4-2p\n"
        "red: agent of red\n"
        "green: agent of green\n"
        "starter: red\n"
        "opening: 1\n"
        "limit: 1.5\n"
        "timeouts: 3\n"
        "seed: 7\n"
        "program: tests 1\n"
        "turns: 3 of 12\n"
        "\n"
        f"1. {first}/0 {second}/0.25 {third}/1.5\n"
        f"counts: {counts}\n"
    )


def test_what_the_page_leaves_free_changes_nothing():
    record = made(4, seconds=tuple(n / 4 for n in range(12)), limit=5.0, timeouts=(7, 12), seed=0)
    title, *lines = format_text(record).splitlines()
    headers, counts = lines[: lines.index("")], lines[-1]
    moves = [f"{cell}/{time:.2f}0" for cell, time in zip(record.moves, record.seconds, strict=True)]
    rng = random.Random(1)
    for _ in range(50):
        rng.shuffle(headers)
        told, left, turn = [title, *headers], list(moves), 1
        while left:
            some, left = left[: (count := rng.randrange(1, 13))], left[count:]
            told.append(f"{turn}.{''.join(rng.choice([' ', '   ', chr(9)]) + move for move in some)}")
            turn += len(some)
        text = rng.choice(["\n", "\r\n", "\n\n \t\n", "\t\r\n "]).join([*told, counts]) + rng.choice(["", "\n"])
        text = text.replace("turns: 12", rng.choice(["turns: 12", "turns: 12 of 12", "turns:\t12"]))
        assert parse_text(text) == [record]


def test_golden_games_can_be_written_by_other_programs():
    """A text made from nothing but the description in docs/records.md, with other line breaks, orders and spaces."""
    for game in read_golden():
        players = PLAYING[game.players]
        lines = [
            "\ufeffrolit round, format 1",
            f"turns: {len(game.moves)}",
            f"starter:{game.starter}",
            *(f"{color}:   somebody: else  " for color in reversed(players)),
            f"variant: {game.size}x{game.size}-{game.players}p",
            *(f" \t{turn}. \t{cell}  " for turn, cell in enumerate(game.moves, start=1)),
            "",
            f"counts: {game.counts}",
        ]
        (record,) = parse_records("\r\n".join(lines).removeprefix("\ufeff"))
        assert list(record.moves) == game.moves
        assert record.agents == dict.fromkeys(players, "somebody: else")
        assert record.program is record.seed is record.seconds is record.limit is None
        assert str(record.board()) == game.diagram.strip()


# Files


def test_files_hold_one_record_or_many(tmp_path):
    records = [made(4, draws=1), made_match(4), made(6, 3, turns=5)]
    for name in ("rounds.txt", "rounds.jsonl"):
        write_records(tmp_path / name, records)
        assert read_records(tmp_path / name) == records
    write_records(tmp_path / "one.json", records[:1])
    assert json.loads((tmp_path / "one.json").read_text()) == to_dict(records[0])
    (tmp_path / "one.json").write_text(json.dumps(to_dict(records[0]), indent=2))
    assert read_records(str(tmp_path / "one.json")) == records[:1]
    (tmp_path / "marked.txt").write_text(format_text(records[0]), encoding="utf-8-sig")
    assert read_records(tmp_path / "marked.txt") == records[:1]


def test_nothing_is_written_where_a_form_holds_no_such_records(tmp_path):
    for records in ([made(4), made(4)], []):
        with pytest.raises(OptionError, match="allowed is one"):
            write_records(tmp_path / "two.json", records)
    assert list(tmp_path.iterdir()) == []


def test_a_complaint_about_a_file_names_it(tmp_path):
    (tmp_path / "bytes").write_bytes(b"rolit round, format 1\nred: \xff\n")
    with pytest.raises(RecordError, match="bytes: byte 28 is no UTF-8"):
        read_records(tmp_path / "bytes")
    (tmp_path / "cut").write_text(format_text(made(4))[:-60])
    with pytest.raises(RecordError, match="cut: "):
        read_records(tmp_path / "cut")


# Complaints

ILLEGAL = "rolit round, format 1\nvariant: 8x8-2p\nred: a\ngreen: b\nstarter: red\nturns: 3 of 60\n\n1. f4 c3\n3. {}\n{}"
COUNTS = "counts: red 3, yellow 0, green 2, blue 2"


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("d4", "a ball lies there already"),
        ("a1", "it is next to no ball"),
        ("d3", "it rolls nothing, and capturing is mandatory"),
        ("i4", "'i4' is no cell of this board"),
        ("F6", "'F6' is no move"),
    ],
)
def test_an_illegal_move_is_refused_with_its_number(cell, reason):
    with pytest.raises(RecordError, match=rf"line 9, turn 3.*{reason}") as caught:
        parse_text(ILLEGAL.format(cell, COUNTS))
    assert caught.value.turn == 3


CHANGES = {
    "an unknown colour plays": ("red: agent", "pink: agent", "'pink: agent of red' is no header"),
    "a colour that does not play": ("red: agent", "blue: agent", "agents are given for green, blue"),
    "a colour too many": ("starter: red", "blue: x\nstarter: red", "agents are given for red, green, blue"),
    "nobody plays": ("green: agent of green\n", "", "agents are given for red; 4x4-2p is played by red, green"),
    "an empty name": ("red: agent of red", "red:", "'' is no name"),
    "an unknown colour starts": ("starter: red", "starter: pink", "'pink' can't start 4x4-2p"),
    "a neutral colour starts": ("starter: red", "starter: blue", "'blue' can't start 4x4-2p"),
    "no starter": ("starter: red\n", "", "'starter: …' of this record is missing"),
    "no variant": ("variant: 4x4-2p\n", "", "'variant: …' of this record is missing"),
    "another variant": ("4x4-2p", "4x4-3p", "'4x4-3p' is no variant; allowed are 8x8-2p"),
    "a duplicated header": ("starter: red", "starter: red\nstarter: red", "starter is given a second time"),
    "an unknown header": ("starter: red", "starter: red\nmood: good", "'mood: good' is no header"),
    "a later format": ("format 1", "format 2", "this is format 2 of a round"),
    "no title": ("rolit round, format 1\n", "", "begins no round"),
    "another game's title": ("rolit round", "chess round", "begins no round"),
    "a move too many": ("turns: 12", "turns: 11 of 12", r"turn 12: the header says that there are 11 turns"),
    "a turn too many": ("turns: 12", "turns: 13", "has 12 turns"),
    "unfinished unsaid": ("turns: 12", "turns: 11", "left before its end such as 3 of 12"),
    "turns of another board": ("turns: 12", "turns: 12 of 60", "has 12 turns"),
    "no number": ("turns: 12", "turns: all", "turns 'all' must read like"),
    "a wrong move number": ("\n1. ", "\n2. ", "turn 1 is missing"),
    "rubbish after the end": ("blue", "blue", "begins no round", "and so on\n"),
    "a count of words": ("counts: red", "counts: red many", "ends no round"),
    "no moves": ("\n1. ", "\n1.\n", "turn 1 is missing"),
    "a timeout in the opening": ("turns:", "opening: 2\ntimeouts: 2\nturns:", "turns 2 can't have run out of time"),
    "timeouts out of order": ("turns:", "timeouts: 5 3\nturns:", "turns 5 3 can't have run out of time"),
    "a timeout after the end": ("turns:", "timeouts: 13\nturns:", "turns 13 can't have run out of time"),
    "an opening longer than the round": ("turns:", "opening: 13\nturns:", "13 opening turns don't fit"),
    "no limit": ("turns:", "limit: 0\nturns:", "limit 0.0 is no time"),
    "a negative seed": ("turns:", "seed: -1\nturns:", "seed '-1' must read like"),
    "zeros before a number": ("turns:", "seed: 007\nturns:", "seed '007' must read like"),
    "a zero before turns": ("turns: 12", "turns: 012", "turns '012' must read like"),
    "a zero before a line's number": ("\n1. ", "\n01. ", "turn 1 is missing"),
    "a zero before a count": ("yellow 0", "yellow 00", "ends no round"),
    "a zero before seconds": ("turns:", "limit: 05\nturns:", "limit '05' must read like"),
    "four digits of seconds": ("turns:", "limit: 0.2500\nturns:", "limit '0.2500' must read like"),
    "two spaces in a part": ("turns: 12", "turns: 12  of 12", "turns '12  of 12' must read like"),
    "two spaces between numbers": ("turns:", "timeouts: 1  2\nturns:", "timeouts '1  2' must read like"),
    "two spaces in counts": (", yellow", ",  yellow", "ends no round"),
    "two spaces in a title": ("rolit round", "rolit  round", "begins no round"),
    "a space before a colon": ("starter:", "starter :", "'starter : red' is no header"),
    "a space that is none": ("starter: red", "starter: red\u00a0", "can't start"),
    "a line that is not blank": ("starter: red", "\f\nstarter: red", "is no header"),
    "moves apart by what is no space": ("\n1. ", "\n1.\u2003", "turn 1 is missing"),
    "lines of an old Mac": ("\n", "\r", "begins no round"),
    "a seed of many digits": ("turns:", f"seed: 1{'0' * 5000}\nturns:", "seed '1000.*must read like"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_text_that_does_not_hold_together_is_refused(name):
    old, new, complaint, *rest = CHANGES[name]
    text = format_text(made(4, program=None))
    assert old in text
    with pytest.raises(RecordError, match=complaint) as caught:
        parse_text(text.replace(old, new, 1) + "".join(rest))
    assert "\n" not in str(caught.value)
    assert re.match(r"line \d+", str(caught.value))


def test_a_wrong_count_is_refused_with_what_the_moves_lead_to():
    record = made(4)
    balls = record.counts | {"red": record.counts["red"] - 1, "green": record.counts["green"] + 1}
    for form in FORMS.values():
        with pytest.raises(
            RecordError, match=rf"turn 12: .*red {balls['red']},.*lead to red {record.counts['red']},"
        ) as caught:
            parse_records(form(replace(record, counts=balls)))
        assert caught.value.turn == 12


def test_some_times_but_not_all_are_refused():
    record = made(4, seconds=(0.5,) * 12)
    cell = record.moves[3]
    with pytest.raises(RecordError, match=f"turn 4: '{cell}' is no move; .*at all turns") as caught:
        parse_text(format_text(record).replace(f"{cell}/0.5", cell))
    assert caught.value.turn == 4


@pytest.mark.parametrize("form", FORMS)
def test_every_cut_is_refused(form):
    for record in (made(4), made_match(4, rounds=2)):
        text = FORMS[form](record)
        for length in range(len(text.rstrip())):
            with pytest.raises(RecordError):
                parse_records(text[:length])


JSON_CHANGES = {
    "cut numbers": ({"size": 4.0}, "size can't be 4.0"),
    "truth for a number": ({"players": True}, "players can't be True"),
    "a number for a name": ({"agents": {"red": 1, "green": "b"}}, "'red' of agents can't be 1"),
    "a list for names": ({"agents": ["a", "b"]}, "agents can't be"),
    "an unknown colour": ({"counts": {"pink": 16}}, "counts are given for pink"),
    "a word for moves": ({"moves": "a1"}, "moves can't be 'a1'"),
    "a number for a cell": ({"moves": [5]}, "number 1 of moves can't be 5"),
    "a cell off the board": ({"moves": ["e5"]}, "turn 1: 'e5' is no cell"),
    "a capital": ({"moves": ["B1"]}, "turn 1: 'B1' is no cell"),
    "too many moves": ({"moves": ["a1"] * 13}, "turn 13: a round of 4x4-2p has 12 turns"),
    "a surrogate": ({"program": "\ud800"}, "is no name"),
    "a line break": ({"program": "a\nb"}, "is no name"),
    "spaces": ({"program": " "}, "is no name"),
    "too exact a time": ({"seconds": [0.0001] * 12}, "turn 1: 0.0001 is no time"),
    "a negative time": ({"seconds": [0] * 11 + [-1]}, "turn 12: -1.0 is no time"),
    "less than no time": ({"seconds": [-0.0] * 12}, "turn 1: -0.0 is no time"),
    "endless time": ({"seconds": [10**400] * 12}, "turn 1: inf is no time"),
    "few times": ({"seconds": [0]}, "1 times are given for 12 turns"),
    "no times": ({"seconds": []}, "0 times are given for 12 turns"),
    "nothing for a number": ({"opening_turns": None}, "opening_turns can't be None"),
    "nothing for a list": ({"timeouts": None}, "timeouts can't be None"),
    "a large seed": ({"seed": 10**100}, "this is no seed"),
    "an unknown key": ({"mood": "good"}, "'mood' is unknown"),
    "another format": ({"format": "pgn"}, "format 'pgn' is not that of a record"),
    "another version": ({"version": 2}, "version 2 of the format"),
    "a true version": ({"version": True}, "version True of the format"),
    "another variant": ({"players": 3}, "is no variant of Rolit"),
    "a neutral starter": ({"starter": "blue"}, "'blue' can't start 4x4-2p"),
}


@pytest.mark.parametrize("name", JSON_CHANGES)
def test_json_that_does_not_hold_together_is_refused(name):
    change, complaint = JSON_CHANGES[name]
    values = to_dict(made(4)) | change
    for refused in (lambda: from_dict(values), lambda: parse_json(json.dumps(values))):
        with pytest.raises(RecordError, match=complaint) as caught:
            refused()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["size", "players", "agents", "starter", "moves", "counts"])
def test_json_that_lacks_a_key_is_refused(key):
    values = to_dict(made(4))
    del values[key]
    with pytest.raises(RecordError, match=f"'{key}' is missing"):
        from_dict(values)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "cut or empty"),
        (" \n", "cut or empty"),
        ("[]", "a record can't be"),
        ("{} {}", "format None"),
        ('{"format": NaN}', "NaN is no number"),
        ('{"size": 8, "size": 8}', "'size' is given a second time"),
        ("[" * 100_000, "so deep"),
        ('{"a": ' + "1" * 5000 + "}", "so large"),
        (format_json(made(4)) + "x", "line 2, column 1: no JSON"),
        (format_json(made(4)) + "{}", "record 2, format None"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_json_of_a_record_is_refused(text, complaint):
    with pytest.raises(RecordError, match=complaint):
        parse_records(text)


MATCH_CHANGES = {
    "rounds won": ({"won": [2, 2]}, "won must be"),
    "points": ({"points": [1, 1]}, "points must be"),
    "seats of one agent": ({"seats": [[1, 1], [2, 1]]}, "round 1: the seats must name each"),
    "seats of too many": ({"seats": [[1, 2, 3], [2, 1, 3]]}, "round 1: the seats must name each"),
    "seats changed": ({"seats": [[2, 1], [1, 2]]}, "is played by"),
    "seats of one round": ({"seats": [[1, 2]]}, "seats are given for 1 rounds"),
    "agents": ({"agents": ["agent 0", "agent 2"]}, "is played by"),
    "more rounds than planned": ({"planned": 1}, "2 of 1 rounds"),
    "no rounds": ({"rounds": [], "seats": []}, "0 of 2 rounds"),
    "an unfinished round": ({"rounds": [to_dict(made(4, turns=3))] * 2}, "round 1 is no finished round"),
    "a match in a match": ({"rounds": [to_dict(made_match(4))] * 2}, "round 1 is no round"),
}


@pytest.mark.parametrize("name", MATCH_CHANGES)
def test_a_match_that_does_not_hold_together_is_refused(name):
    change, complaint = MATCH_CHANGES[name]
    with pytest.raises(RecordError, match=complaint):
        from_dict(to_dict(made_match(4)) | change)


def test_an_illegal_move_in_a_match_is_refused_with_round_and_turn():
    match = made_match(4)
    moves = list(match.rounds[1].moves)
    moves[5] = moves[4]
    bad = replace(match, rounds=(match.rounds[0], replace(match.rounds[1], moves=tuple(moves))))
    with pytest.raises(RecordError, match=r"round 2, turn 6 .*a ball lies there already") as caught:
        parse_json(format_json(bad))
    assert caught.value.turn == 6
    with pytest.raises(RecordError, match=r"round 2, turn 6 "):
        bad.verify()
    with pytest.raises(RecordError, match=r"line \d+, turn 6 "):
        parse_text(format_text(bad))


def test_text_of_a_match_with_wrong_totals_or_a_missing_round_is_refused():
    text = format_text(made_match(4))
    with pytest.raises(RecordError, match=r"line \d+: points must be"):
        parse_text(re.sub("points: .*", "points: 1 1", text))
    with pytest.raises(RecordError, match="round 2 is missing"):
        parse_text(text[: text.rindex("rolit round")])
    with pytest.raises(RecordError, match=r"seats are given for 2 rounds"):
        parse_text(text.replace("rounds: 2", "rounds: 1"))


# A thousand mutations


def originals():
    """Return the bytes of some files, of all kinds."""
    records = [
        made(8, 2, "green", draws=1),
        made(8, 4, "blue", draws=2, opening_turns=4, seconds=tuple(n / 8 for n in range(60)), limit=5.0, timeouts=(41, 60)),
        made(6, 3, "yellow", draws=3, turns=20),
        made(4, 2, "red", draws=4),
        made_match(4, 2, 2, 4),
        made_match(6, 3, 1),
    ]
    texts = [form(record) for form in FORMS.values() for record in records]
    texts += [json.dumps(to_dict(record), indent=1) for record in records]  # so that there are lines to swap
    texts += ["\n".join(form(record) for record in records[2:5]) for form in FORMS.values()]
    return [text.encode() for text in texts]


def mutated(data, rng):
    """Return a file with a few bytes changed, deleted or inserted, lines swapped, doubled or dropped, or an end cut off."""
    kind = rng.choice(["change", "change", "flip", "delete", "insert", "swap bytes", "swap", "double", "drop", "cut"])
    at = rng.randrange(len(data))
    lines = data.splitlines(keepends=True)
    line, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    if kind == "change":  # to another byte that such files hold, which gets further than most bytes do
        return data[:at] + bytes([rng.choice(data)]) + data[at + 1 :]
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == "delete":
        return data[:at] + data[at + rng.randrange(1, 4) :]
    if kind == "insert":
        return (
            data[:at] + rng.choice([data[:3], data[-3:], b"0", b"7", b" ", b"\x00", b"\xff", b"{}", b"-", b"\n"]) + data[at:]
        )
    if kind == "swap bytes":
        return data[:at] + data[at : at + 2][::-1] + data[at + 2 :]
    if kind == "swap":
        lines[line], lines[other] = lines[other], lines[line]
    elif kind == "double":
        lines.insert(other, lines[line])
    elif kind == "drop":
        del lines[line]
    else:
        return data[:at]
    return b"".join(lines)


def said_in_text(text):
    """Return what each round of a text says, read with nothing of the package: (size, players, starter, moves, counts)."""
    rounds = []
    for block in re.split(r"^\s*rolit round, format 1\s*$", text, flags=re.MULTILINE)[1:]:
        found = {key: value.strip() for key, value in re.findall(r"^\s*(\w+):(.*)$", block, re.MULTILINE)}
        moves = re.findall(r"\b([a-h][1-8])(?![\w])", " ".join(re.findall(r"^\s*\d+\.(.*)$", block, re.MULTILINE)))
        counts = tuple(int(balls) for balls in re.findall(r" (\d+)", f" {found['counts']}"))
        assert int(found["turns"].split()[0]) == len(moves)
        size, players = found["variant"][0], found["variant"][4]
        rounds.append((int(size), int(players), found["starter"], tuple(moves), counts))
    return rounds


def said_in_json(text):
    """Return the same of JSON."""
    rounds, values, position = [], [], len(text) - len(text.lstrip())
    while position < len(text):
        value, end = json.JSONDecoder().raw_decode(text, position)
        values.append(value)
        position = end + len(text[end:]) - len(text[end:].lstrip())
    for value in values:
        for played in value.get("rounds", [value]):
            counts = tuple(played["counts"][color] for color in COLORS)
            rounds.append((played["size"], played["players"], played["starter"], tuple(played["moves"]), counts))
    return rounds


@cache
def replayed(size, players, starter, moves):
    """Return the balls that moves lead to by the oracle, which also sees to it that they are legal."""
    oracle = Oracle(size, players, starter)
    for name in moves:
        assert named_cell(name) in oracle.legal()
        oracle.play(*named_cell(name))
    return tuple(oracle.counts()[color] for color in COLORS)


def test_a_thousand_mutated_files_are_refused_or_replay_to_what_they_say(tmp_path):
    rng, files, path = random.Random(5), originals(), tmp_path / "record"
    complaints, accepted = [], 0
    while len(complaints) < 1000 or accepted < 100:
        data = mutated(rng.choice(files), rng)
        path.write_bytes(data)
        try:
            records = read_records(path)
        except RecordError as error:
            complaints.append(str(error))
            continue
        accepted += 1
        text = data.decode("utf-8-sig")
        said = said_in_json(text) if text.lstrip().startswith("{") else said_in_text(text)
        rounds = [one for record in records for one in (record.rounds if isinstance(record, MatchRecord) else [record])]
        read = [
            (one.size, one.players, one.starter, one.moves, tuple(one.counts[color] for color in COLORS)) for one in rounds
        ]
        assert read == said
        for size, players, starter, moves, counts in said:
            assert replayed(size, players, starter, moves) == counts
        assert [one for record in records for one in parse_text(format_text(record))] == records
    assert all(re.fullmatch(r"\S.*\S", complaint) for complaint in complaints)  # each on one line


# The recorder


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_the_recorder_keeps_every_game_of_a_batch(chosen):
    games, rng = GameBatch(20, size=chosen.size, players=chosen.players, seed=1), np.random.default_rng(2)
    recorder = Recorder(games)
    while not games.done:
        actions = games.random_actions(rng)
        games.step(actions)
        recorder.add(actions)
        actions[:] = 0  # it keeps a copy
    seats = [f"seat {seat}" for seat in range(chosen.players)]
    records = list(recorder.records(seats, opening_turns=chosen.plies, seed=3))
    assert len({record.starter for record in records}) == chosen.players
    for game, record in enumerate(records):
        record.verify()
        assert record.is_finished
        assert record.board() == games.board(game)
        assert [record.agents[color] for color in record.order] == seats
        assert (record.opening_turns, record.seed) == (chosen.plies, 3)


def test_copies_of_a_recorder_go_on_from_one_opening():
    start, rng = GameBatch(8, players=3, seed=0), np.random.default_rng(0)
    opening = Recorder(start)
    for _ in range(4):
        actions = start.random_actions(rng)
        start.step(actions)
        opening.add(actions)
    ends = []
    for _ in range(2):
        games = start.copy()
        recorder = opening.copy(games)
        while not games.done:
            actions = games.random_actions(rng)
            recorder.add(actions)
            games.step(actions)
        ends.append(list(recorder.records(["a", "b", "c"], opening_turns=4)))
    assert [record.moves[:4] for record in ends[0]] == [record.moves[:4] for record in ends[1]]
    assert [record.moves for record in ends[0]] != [record.moves for record in ends[1]]
    assert [record.moves for record in opening.records("abc")] == [record.moves[:4] for record in ends[0]]
    for record in ends[0] + ends[1]:
        record.verify()


def test_the_recorder_refuses_what_it_would_record_wrongly():
    games, rng = GameBatch(3, size=4), np.random.default_rng(0)
    recorder = Recorder(games)
    with pytest.raises(ActionError, match="of shape"):
        recorder.add([1, 2])
    games.step_random(rng)
    with pytest.raises(ActionError, match="0 turns were added and 1 played"):
        next(recorder.records("ab"))
    with pytest.raises(RoundOverError, match="1 turns were played"):
        Recorder(games)


def test_a_record_knows_its_order_leaders_and_positions():
    record = made(8, 3, "green")
    assert record.order == ("green", "red", "yellow")
    assert record.variant == variant(8, 3)
    board = Board(8, 3, "green")
    for turn, cell in enumerate(record.moves):
        assert record.board(turn) == board
        board.push(cell)
    assert record.board() == board
    assert record.leaders == board.outcome().winners
    assert [cell_name(action, 8) for action in board.moves] == list(record.moves)


def test_a_board_without_its_turns_makes_no_record():
    board = Board.from_text(str(made(4, turns=3).board()))
    with pytest.raises(RecordError, match="of 3 turns the board knows 0"):
        RoundRecord.from_board(board, {"red": "a", "green": "b"})


# The page about it


def blocks(language):
    page = (Path(__file__).parents[1] / "docs" / "records.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_are_records_and_say_the_same():
    text, objects = blocks("text")[0], blocks("json")[0]
    (record,) = parse_records(text)
    assert parse_records(objects) == [record]
    assert format_text(record) == text


def test_the_python_of_the_page_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for code in blocks("python"):
        exec(compile(code, "docs/records.md", "exec"), {})
    assert len(read_records("rounds.jsonl")) == 1000
