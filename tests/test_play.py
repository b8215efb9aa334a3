"""A person in the terminal: scripted ones play whole rounds, type nonsense, and leave in every way there is."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from rolit_env import Board, cli, make_agent
from rolit_env.errors import OptionError
from rolit_env.notation import cell_name
from rolit_env.play import play_round, seat_agents, show_board
from rolit_env.variant import all_variants, variant


class Person:
    """Types the first legal cell, with something else before it now and then."""

    def __init__(self, board, console, *detours):
        self.board, self.console, self.detours = board, console, list(detours)

    def __call__(self, prompt):
        self.console.print(prompt, end="")
        typed = self.detours.pop(0) if self.detours else cell_name(self.board.legal_moves[0], self.board.size)
        if isinstance(typed, BaseException):
            raise typed
        self.console.print(f"<{typed}>")
        return typed


def play(size, players, person, *detours, agents=("greedy",), **settings):
    """Play a round with a scripted person; return the board, whether it was finished, and the screen's text."""
    screen = io.StringIO()
    console = Console(file=screen, width=80, highlight=False, markup=False, emoji=False, **settings)
    board = Board(size, players)
    seated = seat_agents([make_agent(name) for name in agents], person, board.variant)
    finished = play_round(
        board, person, seated, rng=np.random.default_rng(1), console=console, read=Person(board, console, *detours)
    )
    return board, finished, screen.getvalue()


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_a_round_is_played_to_the_end(chosen):
    board, finished, text = play(chosen.size, chosen.players, chosen.colors[-1])
    assert finished
    assert board.is_over
    for color, count in board.counts().items():
        assert re.search(rf"{color[0].upper()} {color} +{count}  ", text.split("Round over")[1])
    turns = chosen.plies // chosen.players  # the person moves last
    assert text.count("You play ") == text.count("Your cell: <") == turns
    assert text.count("(greedy) plays ") == chosen.plies - turns


def test_a_whole_round_through_the_command_line(monkeypatch, capsys):
    cells = [f"{column}{row}" for row in (1, 2, 3, 4) for column in "abcd"]
    arguments = ["play", "--size", "4", "--against", "random", "--color", "red", "--starter", "red", "--seed", "0"]

    class Stdin(io.StringIO):
        def readline(self, *_):
            """Type the first cell that the last screen marks as legal."""
            screens.append(capsys.readouterr().out)
            rows = [line[3:15] for line in screens[-1].splitlines() if re.match(r" [1-4] ", line)]
            marks = "".join(row[1::3] for row in rows)
            return cells[marks.index("+")] + "\n"

    screens = []
    monkeypatch.setattr("sys.stdin", Stdin())
    assert cli.main(arguments) == 0
    text = "".join(screens) + capsys.readouterr().out
    assert "you (red) against random (green). Seed 0." in text
    assert text.count("You play ") == text.count("Green (random) plays ") == 6
    assert "not legal" not in text
    red, green = (int(re.findall(rf"{letter} {color} +(\d+)", text)[-1]) for letter, color in (("R", "red"), ("G", "green")))
    verdict = text.splitlines()[-1]
    if red == green:
        assert verdict == f"Red and green share the round with {red} balls each."
    elif red > green:
        assert verdict == f"You win the round with {red} balls; green {green}."
    else:
        assert verdict == f"Green wins the round with {green} balls; red {red}."


def test_nonsense_is_explained_and_asked_again():
    board, finished, text = play(4, 2, "red", "zz", "i9", "b2", "a1", "b1", "\x1b[A", "?", "", " D2 ")
    assert finished
    assert "'zz' is no cell of this board; cells run from a1 (top left) to d4 (bottom right)." in " ".join(text.split())
    assert "'i9' is no cell" in text
    assert "b2 is not legal: a ball lies there already; legal are d2 b4 d4." in text
    assert "'\\x1b[A' is no cell" in text
    assert "marks what is legal" in text
    assert text.count("Turn 1 of 12") == 2
    assert "You play d2 " in text
    assert board.color_at("d2") is not None


def test_every_rule_that_a_cell_breaks_is_named():
    _, _, text = play(8, 2, "red", "d4", "a1", "c3", "q")
    assert "d4 is not legal: a ball lies there already" in text
    assert "a1 is not legal: it is next to no ball" in text
    assert "c3 is not legal: it rolls nothing, and capturing is mandatory" in text


@pytest.mark.parametrize("way_out", ["q", "Q", EOFError()])
def test_leaving_is_polite_and_leaves_the_round_unfinished(way_out):
    board, finished, text = play(4, 2, "red", "d2", way_out)
    assert not finished
    assert board.ply == 2
    assert text.endswith("You leave at turn 3 of 12. Until next time!\n")


def test_ctrl_c_says_goodbye_too():
    def interrupt(_):
        raise KeyboardInterrupt

    screen = io.StringIO()
    board = Board(4)
    agents = seat_agents([make_agent("random")], "red", board.variant)
    with pytest.raises(KeyboardInterrupt):
        play_round(board, "red", agents, rng=np.random.default_rng(0), console=Console(file=screen), read=interrupt)
    assert "You leave at turn 1 of 12" in screen.getvalue()


def test_the_end_of_piped_input_leaves(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("nonsense\n"))
    assert cli.main(["play", "--size", "4", "--starter", "red", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert "'nonsense' is no cell" in out
    assert out.endswith("You leave at turn 1 of 12. Until next time!\n")


def test_closed_input_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["play", "--size", "4"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"rolit: .*standard input.*\n", err)


def test_bytes_that_are_no_text_are_just_a_wrong_cell(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\nq\n"), encoding="utf-8"))
    assert cli.main(["play", "--size", "4", "--starter", "red"]) == 0
    assert "is no cell of this board" in capsys.readouterr().out


def test_the_same_seed_and_cells_give_the_same_round(monkeypatch, capsys):
    cells = [f"{column}{row}\n" for column in "abcd" for row in (1, 2, 3, 4)] * 3

    def played(*seed):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(cells)))
        assert cli.main(["play", "--size", "4", "--against", "random", "--color", "red", *seed]) == 0
        return capsys.readouterr().out

    assert played("--seed", "4") == played("--seed", "4")
    drawn = played()
    assert played("--seed", re.search(r"Seed (\d+)", drawn)[1]) == drawn
    starters = {re.search(r"\n(\w+) begins", played("--seed", str(seed)))[1] for seed in range(8)}
    assert starters == {"Red", "Green"}


def test_the_screen_marks_legal_cells_new_balls_and_the_mover():
    _, _, text = play(4, 2, "red", "d2", "q", agents=("positional",))
    first, second = text.split("Your cell: ")[:2]
    assert " 1  .  .  .  .       " in first
    assert " 2  .  R  Y  +  " in first
    assert " 3  .  B  G  .  " in first
    assert " 4  .  +  .  +  " in first
    assert "> R red     1  you" in first
    assert "  G green   1  positional" in first
    assert "Y yellow  1  nobody (neutral)" in first
    assert "You play d2 and roll 1 ball: c2" in second
    assert re.search(r"Green \(positional\) plays [a-d][1-4] and rolls (nothing|1 ball: |\d+ balls: )", second)


def test_balls_are_new_until_the_person_has_seen_them():
    _, _, text = play(8, 3, "red")
    screens = [
        [line[2:28] for line in screen.splitlines() if re.match(r" [1-8] ", line)] for screen in text.split("Your cell: ")
    ]
    assert all(len(rows) == 8 for rows in screens)
    assert ["".join(rows).count("[") for rows in screens] == [0] + [3] * 20


def test_a_turn_that_rolls_nothing_says_so():
    _, _, text = play(8, 4, "red", "f4", "q")
    assert re.search(r"Yellow \(greedy\) plays \w\d and rolls nothing\n", text)


def test_balls_are_colored_discs_where_there_is_color():
    _, _, text = play(4, 2, "red", "q", color_system="truecolor", force_terminal=True)
    assert "\x1b[38;2;229;72;77m●" in text
    assert "\x1b[38;2;229;72;77m ○ " in text
    assert "R red" not in text


@pytest.mark.parametrize(
    "settings", [{"no_color": True, "force_terminal": True}, {"color_system": None}, {}], ids=["no_color", "none", "pipe"]
)
def test_balls_are_letters_where_there_is_no_color(settings):
    _, _, text = play(4, 2, "red", "q", **settings)
    assert "R red" in text
    assert "●" not in text


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_the_screen_fits_80_by_24(chosen):
    _, _, text = play(chosen.size, chosen.players, chosen.colors[0])
    assert max(map(len, text.splitlines())) <= 80
    for screen in text.split("Your cell: "):
        assert len(screen.splitlines()) <= 23


def test_shared_rounds_name_all_winners():
    verdicts = set()
    for seed in range(60):
        screen = io.StringIO()
        console = Console(file=screen, width=80, highlight=False)
        board = Board(4)
        agents = seat_agents([make_agent("random")], "red", board.variant)
        person = Person(board, console)
        play_round(board, "red", agents, rng=np.random.default_rng(seed), console=console, read=person)
        winners, counts = board.outcome().winners, board.counts()
        verdict = screen.getvalue().splitlines()[-1]
        verdicts.add(winners)
        if winners == ("red", "green"):
            assert verdict == "Red and green share the round with 8 balls each."
        elif winners == ("red",):
            assert verdict == f"You win the round with {counts['red']} balls; green {counts['green']}."
        else:
            assert verdict == f"Green wins the round with {counts['green']} balls; red {counts['red']}."
    assert verdicts == {("red",), ("green",), ("red", "green")}


def test_agents_sit_clockwise_after_the_person():
    agents = [make_agent(name) for name in ("random", "greedy", "positional")]
    seated = seat_agents(agents, "green", variant(8, 4))
    assert {color: agent.name for color, agent in seated.items()} == {
        "blue": "random",
        "red": "greedy",
        "yellow": "positional",
    }
    assert list(seat_agents(agents[:1], "red", variant(8, 3))) == ["yellow", "green"]


def test_a_wrong_number_of_agents_or_color_is_refused():
    one = make_agent("random")
    with pytest.raises(OptionError, match="or 3"):
        seat_agents([one, one], "red", variant(8, 4))
    with pytest.raises(OptionError, match=r"allowed is 1 agent$"):
        seat_agents([one, one], "red", variant(8, 2))
    with pytest.raises(OptionError, match="allowed are red, green"):
        seat_agents([one], "blue", variant(8, 2))


def test_a_narrow_screen_keeps_the_whole_board() -> None:
    board = Board(8, 4)
    screen = io.StringIO()
    console = Console(file=screen, width=44, highlight=False, markup=False, emoji=False)
    agents = dict.fromkeys(("yellow", "green", "blue"), make_agent("positional"))
    show_board(board, "red", agents, [], console)
    text = screen.getvalue()
    assert " h " in text
    assert max(map(len, text.splitlines())) <= 44


def test_it_says_when_nothing_can_be_rolled() -> None:
    board = Board(8, 4)
    board.push("f4")  # after it, yellow has nothing to roll
    screen = io.StringIO()
    console = Console(file=screen, width=80, highlight=False, markup=False, emoji=False)
    agents = dict.fromkeys(("red", "green", "blue"), make_agent("random"))
    rng = np.random.default_rng(0)
    assert not play_round(board, "yellow", agents, rng=rng, console=console, read=lambda _: "q")
    assert "Nothing can be rolled, so any cell next to a ball is legal." in screen.getvalue()
