"""Replaying in the terminal: a person steps forward and back, a script pipes commands, and what is no record is refused."""

import io
import re

import pytest
from rich.console import Console

from rolit_env import cli
from rolit_env.cli.replay import step_through
from rolit_env.match import Match
from rolit_env.record import read_records, write_records
from tests.commands import refused
from tests.test_record import made, made_match


@pytest.fixture
def record():
    return made(
        4, agents={"red": "greedy", "green": "ann"}, opening_turns=2, timeouts=(5,), seconds=tuple(n / 4 for n in range(12))
    )


@pytest.fixture
def file(tmp_path, record):
    write_records(tmp_path / "round.txt", [record])
    return str(tmp_path / "round.txt")


def diagram(text):
    """Return the cells of each screen in a text as letters, `+` and brackets dropped."""
    rows = [line[3:15] for line in text.splitlines() if re.match(r" [1-4] ", line)]
    cells = ["".join(row[1::3]).replace("+", ".") for row in rows]
    return ["\n".join(cells[first : first + 4]) for first in range(0, len(cells), 4)]


def expected(record, turn):
    """Return the same of the position after a turn."""
    return "\n".join(line[2:].replace(" ", "") for line in str(record.board(turn)).splitlines()[2:])


def stepped(record, *commands):
    """Return the screen's text after a person has typed these commands, and then no more."""
    screen, left = io.StringIO(), list(commands)
    console = Console(file=screen, width=80, highlight=False, markup=False, emoji=False)

    def read(prompt):
        console.print(prompt, end="")
        if not left:
            raise EOFError
        console.print()
        return left.pop(0)

    step_through(record, console, read)
    return screen.getvalue()


def test_a_person_steps_forward_and_back(record):
    commands = ["", "", "b", "7", "", "B", "e", "0", " 12 "]
    turns = [0, 1, 2, 1, 7, 8, 7, 12, 0, 12]
    text = stepped(record, *commands)
    assert diagram(text) == [expected(record, turn) for turn in turns]
    assert re.findall(r"^Turn (\d+) of 12 \(Enter", text, re.MULTILINE) == [str(turn) for turn in turns]


def test_nothing_lies_beyond_either_end(record):
    text = stepped(record, "b", "e", "", "13", "-1", "x" * 90, "²", "9" * 5000)
    assert text.count("This is the start;") == 1
    assert text.count("This is the end;") == 1
    assert text.count("is no turn from 0 to 12 and no command") == 5
    assert len(diagram(text)) == 2
    assert max(map(len, text.splitlines())) <= 81


def test_help_and_leaving(record):
    text = stepped(record, "?", "q", "e")
    assert "the turn before" in text
    assert len(diagram(text)) == 1


def test_a_turn_is_told_with_what_the_record_knows_of_it(record):
    text = stepped(record, *[""] * 12)
    assert "Turn 2 (of the opening, drawn at random, 0.250 s):" in text
    assert "Turn 5 (out of time, drawn at random, 1.000 s):" in text
    assert "Turn 6 (1.250 s):" in text
    assert text.count("Red (greedy) plays ") == text.count("Green (ann) plays ") == 6
    for turn, cell in enumerate(record.moves, start=1):
        assert re.search(rf"Turn {turn} \(.*\n\w+ \(\w+\) plays {cell} and rolls ", text)
    assert len(re.findall(r"\[[RG]\]", text)) == 12 + 13  # the new ball on each board, and the legend
    winner = record.leaders[0].capitalize()
    assert f"{winner} wins the round with" in text or "share the round" in text


def test_one_turn_or_all_of_them(file, record, capsys):
    assert cli.main(["replay", file, "--at", "5"]) == 0
    assert diagram(capsys.readouterr().out) == [expected(record, 5)]
    assert cli.main(["replay", file, "--all"]) == 0
    assert diagram(capsys.readouterr().out) == [expected(record, turn) for turn in range(13)]


def test_commands_can_be_piped(file, record, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n\nb\n\xff\ne\n"), encoding="utf-8"))
    assert cli.main(["replay", file]) == 0
    out = capsys.readouterr().out
    assert diagram(out) == [expected(record, turn) for turn in (0, 1, 2, 1, 12)]
    assert "is no turn from 0 to 12" in out


@pytest.mark.parametrize("terminal", [True, False])
def test_all_turns_are_shown_where_nobody_can_be_asked(file, capsys, monkeypatch, terminal):
    stdin = io.StringIO()
    stdin.isatty = lambda: True  # and output goes elsewhere, as in `rolit replay FILE | less`
    monkeypatch.setattr("sys.stdin", stdin if terminal else None)
    assert cli.main(["replay", file]) == 0
    assert len(diagram(capsys.readouterr().out)) == 13


def test_a_match_is_shown_with_its_standing_and_any_of_its_rounds(tmp_path, capsys):
    record = Match(["greedy", "random", "positional"], size=6, seed=2, seconds=60.0).play()
    write_records(tmp_path / "match.json", [record])
    assert cli.main(["replay", str(tmp_path / "match.json"), "--round", "3", "--at", "32"]) == 0
    out = capsys.readouterr().out
    assert "1 match, all moves and counts verified" in out
    assert len(re.findall(r"^Round \d: ", out, re.MULTILINE)) == 3
    assert " wins the match of 3 rounds" in out
    played = record.rounds[2]
    order = ", ".join(f"{played.agents[color]} ({color})" for color in played.order)
    assert f"Round 3 of 3 on 6x6, in turn order: {order}" in " ".join(out.split())
    for color, count in played.counts.items():
        assert re.search(rf"{color} +{count}  ", out.split("Round over")[1])


def test_a_file_of_many_records_says_what_it_holds(tmp_path, capsys):
    write_records(tmp_path / "many.txt", [made(4), made(8, 4, turns=7), made_match(4)])
    assert cli.main(["replay", str(tmp_path / "many.txt"), "--round", "2", "--at", "7"]) == 0
    out = capsys.readouterr().out
    assert "2 rounds and 1 match, all moves" in out
    assert "Round 2 of 4 on 8x8, 7 turns of 60" in out
    assert "The record ends here: the round was left before its end." in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--at", "13"], "there is no turn 13; round 1 has 12 turns"),
        (["--at", "-1"], "allowed are ints from 0"),
        (["--round", "2"], "there is no round 2"),
        (["--round", "0"], "allowed are ints from 1"),
        (["--at", "1", "--all"], "not allowed with"),
    ],
)
def test_what_the_record_does_not_have_is_refused(file, capsys, arguments, complaint):
    assert cli.main(["replay", file, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert err.count("\n") == 1


def test_a_wrong_record_is_one_line_that_names_file_and_turn(file, record, capsys, tmp_path):
    text = (tmp_path / "round.txt").read_text()
    (tmp_path / "round.txt").write_text(text.replace(f"{record.moves[8]}/", f"{record.moves[7]}/"))
    assert cli.main(["replay", file, "--all"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"rolit: {re.escape(file)}: line \d+, turn 9 \(red\): .*a ball lies there already; .*\n", err)
    for path in (tmp_path / "nothing.txt", tmp_path):
        assert re.match(rf"rolit: {re.escape(str(path))} can't be read \(.*; it must be", refused(capsys, "replay", str(path)))


# What play records


PLAY = ["play", "--size", "4", "--against", "random", "--color", "red", "--starter", "red", "--seed", "0"]
CELLS = [f"{column}{row}\n" for column in "abcd" for row in (1, 2, 3, 4)] * 3


@pytest.mark.parametrize("name", ["round.txt", "round.json"])
def test_play_records_the_round(monkeypatch, capsys, tmp_path, name):
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(CELLS)))
    path = tmp_path / name
    assert cli.main([*PLAY, "--record", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"The round can be seen again with 'rolit replay {path}'.\n")
    (record,) = read_records(path)
    assert record.is_finished
    assert record.agents == {"red": "person", "green": "random"}
    assert (record.starter, record.seed, len(record.seconds)) == ("red", 0, 12)
    told = re.findall(r"(?:You play|Green \(random\) plays) (\w\d) and", out)
    assert tuple(told) == record.moves
    assert [file.name for file in tmp_path.iterdir()] == [name]


class Stdin(io.StringIO):
    """Looks at the record whenever a line is read, and is interrupted where no more are left."""

    def __init__(self, lines, path):
        super().__init__("".join(lines))
        self.path, self.seen = path, []

    def readline(self, *arguments):
        self.seen += read_records(self.path)
        line = super().readline(*arguments)
        if not line:
            raise KeyboardInterrupt
        return line


def test_a_round_is_recorded_after_every_turn(monkeypatch, tmp_path):
    stdin = Stdin(CELLS, tmp_path / "round.txt")
    monkeypatch.setattr("sys.stdin", stdin)
    assert cli.main([*PLAY, "--record", str(stdin.path)]) == 0
    (record,) = read_records(stdin.path)
    seen = [seen.moves for seen in stdin.seen]
    assert sorted({len(moves) for moves in seen}) == [0, 2, 4, 6, 8, 10]  # a killed process would leave these
    assert all(record.moves[: len(moves)] == moves for moves in seen)


@pytest.mark.parametrize("lines", [[], ["d2\n"]])
def test_a_round_that_is_interrupted_keeps_its_turns(monkeypatch, capsys, tmp_path, lines):
    stdin = Stdin(lines, tmp_path / "round.txt")
    monkeypatch.setattr("sys.stdin", stdin)
    assert cli.main([*PLAY, "--record", str(stdin.path)]) == 130
    (record,) = read_records(stdin.path)
    assert len(record.moves) == 2 * len(lines)
    assert not record.is_finished
    out = capsys.readouterr().out
    assert f"{len(record.moves)} of 12 turns can be seen again with 'rolit replay" in out
    monkeypatch.setattr("sys.stdin", io.StringIO("".join([*lines, "q\n"])))
    assert cli.main([*PLAY, "--record", str(stdin.path)]) == 0
    assert read_records(stdin.path)[0].moves == record.moves


def test_a_record_that_cannot_be_written_is_refused_before_the_round(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(CELLS)))
    assert cli.main([*PLAY, "--record", str(tmp_path / "no" / "round.txt")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "its folder must exist" in err
