"""Truth exams: agents that are known to be perfect, poor or plain get the marks that counting by hand gives them."""

import json

import numpy as np
import pytest

from rolit_env import Board, GameBatch, cli, exam
from rolit_env.agents import Agent
from rolit_env.errors import AgentError, IllegalMoveError, OptionError, VariantError
from rolit_env.exam import EMPTIES, batch_of, choose, exam_positions, make_endgames, score, take_exam
from rolit_env.search.expansion import play_all
from rolit_env.search.small_board import small_board
from rolit_env.search.solver import INFINITY, make_memory, solve_pair
from rolit_env.search.truth import ILLEGAL, SolvedPositions


class Knowing(Agent):
    """Plays a move of the highest value that is known, or of the lowest."""

    def __init__(self, solved, worst=False):
        self.name = "knowing"
        values = solved.values.astype(int)
        chosen = np.where(values == ILLEGAL, 1000, values).argmin(axis=1) if worst else values.argmax(axis=1)
        self.moves = dict(zip(map(tuple, solved.words.tolist()), chosen.tolist(), strict=True))

    def act(self, games, rng):
        return np.array([self.moves[words] for words in map(tuple, games.view().tolist())])


class Lowest(Agent):
    """Plays the legal cell with the lowest number."""

    name = "lowest"

    def act(self, games, rng):
        return games.legal_mask().argmax(axis=1)


class Stuck(Agent):
    """Plays the same cell always."""

    name = "stuck"

    def act(self, games, rng):
        return np.zeros(len(games), np.int64)


@pytest.mark.parametrize("starter", ["red", "green"])
def test_a_perfect_agent_loses_nothing_on_4x4(starter):
    result = take_exam(Knowing(small_board(starter)), size=4, starter=starter)
    assert result.complete
    assert result.overall.positions == 41_481
    for one in (result.overall, result.own_play, *result.by_empties.values()):
        assert (one.kept, one.outcome_kept, one.lost) == (1, 1, 0)
        assert one.kept_interval is None
        assert one.outcome_interval is None
        assert one.lost_interval is None
    assert 0.5 < result.overall.par < 1
    assert list(result.by_empties) == list(range(12, 0, -1))
    assert result.by_empties[1].par == 1


def test_the_worst_agent_keeps_only_where_all_moves_are_alike():
    solved = small_board()
    result = take_exam(Knowing(solved, worst=True), size=4)
    values = [[value for value in row if value != ILLEGAL] for row in solved.values.tolist()]
    assert result.overall.kept == np.mean([min(row) == max(row) for row in values])
    assert result.overall.lost == pytest.approx(np.mean([max(row) - min(row) for row in values]))
    assert result.overall.outcome_kept == np.mean([np.sign(min(row)) == np.sign(max(row)) for row in values])
    assert result.overall.par == pytest.approx(np.mean([row.count(max(row)) / len(row) for row in values]))


@pytest.mark.parametrize("starter", ["red", "green"])
def test_own_play_is_what_a_walk_over_boards_meets(starter):
    solved = small_board(starter)
    places = {words: number for number, words in enumerate(map(tuple, solved.words.tolist()))}
    met = set()

    def walk(board, color):
        if board.is_over:
            return
        red, yellow, green, blue = board.words
        own, other = (red, green) if board.color_to_move == "red" else (green, red)
        moves = board.legal_moves
        if board.color_to_move == color:
            met.add((own, other, yellow, blue))
            moves = moves[:1]
        for action in moves:
            board.push(action)
            walk(board, color)
            board.pop()

    for color in ("red", "green"):
        walk(Board(4, starter=starter), color)
    numbers = [places[words] for words in met]
    actions = np.array([np.flatnonzero(solved.values[number] != ILLEGAL)[0] for number in numbers])
    assert take_exam(Lowest(), size=4, starter=starter).own_play == score(solved.values[numbers], actions, complete=True)


def test_random_play_scores_par():
    for size in (4, 6, 8):
        overall = take_exam("random", size=size, seed=1).overall
        assert abs(overall.kept - overall.par) < 4 * 0.5 / overall.positions**0.5


def test_the_same_seed_gives_the_same_marks():
    assert take_exam("greedy", size=6, seed=3) == take_exam("greedy", size=6, seed=3)
    assert take_exam("random", size=6, seed=3) != take_exam("random", size=6, seed=4)


@pytest.mark.parametrize("size", [6, 8])
def test_a_perfect_agent_loses_nothing_in_endgames(size):
    result = take_exam(Knowing(exam_positions(size)), size=size)
    assert not result.complete
    assert result.own_play is None
    assert (result.overall.kept, result.overall.outcome_kept, result.overall.lost) == (1, 1, 0)
    assert 0 < result.overall.kept_interval < 0.003  # all of a sample is not all there is
    assert list(result.by_empties) == list(EMPTIES)
    assert sum(one.positions for one in result.by_empties.values()) == result.overall.positions >= 2000


def test_intervals_cover_what_a_larger_sample_says():
    solved = exam_positions(6)
    actions = choose(Lowest(), solved, "red", np.random.default_rng(0))
    whole = score(solved.values, actions, complete=False)
    numbers = np.random.default_rng(0).permutation(len(solved)).reshape(25, -1)
    parts = [score(solved.values[some], actions[some], complete=False) for some in numbers]
    for figure, interval in (("kept", "kept_interval"), ("outcome_kept", "outcome_interval"), ("lost", "lost_interval")):
        inside = [abs(getattr(part, figure) - getattr(whole, figure)) < getattr(part, interval) for part in parts]
        assert 19 <= sum(inside) <= 25, figure
        assert getattr(whole, interval) == pytest.approx(np.mean([getattr(part, interval) for part in parts]) / 5, rel=0.1)
    assert score(solved.values[:1], actions[:1], complete=False).lost_interval is None


@pytest.mark.parametrize("size", [6, 8])
def test_the_stored_endgames_are_positions_with_their_values(size):
    solved = exam_positions(size)
    words, empties = solved.words, solved.empties()
    assert solved.size == size
    assert len(np.unique(words, axis=0)) == len(words) >= 2000
    assert set(empties.tolist()) == set(EMPTIES)
    assert min(np.bincount(empties)[min(EMPTIES) :]) > len(words) / 6
    assert (np.bitwise_count(words).sum(axis=1) + empties == size * size).all()  # no two balls on a cell
    for count in EMPTIES:
        games = batch_of(words[empties == count], size, "green")
        np.testing.assert_array_equal(games.view(), words[empties == count])
        np.testing.assert_array_equal(games.legal_mask() == 1, solved.values[empties == count] != ILLEGAL)
    memory = make_memory()
    some = np.random.default_rng(size).permutation(np.flatnonzero(empties == 11))[:30]
    for number, cell, (own, other, third, fourth) in zip(*play_all(words[some], size), strict=True):
        value = -solve_pair(own, other, third | fourth, -INFINITY, INFINITY, size, memory)
        assert solved.values[some[number], cell] == value


def test_the_command_that_made_the_stored_endgames_still_makes_them():
    drawn = exam._draw_endgames(6, len(exam_positions(6)), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, exam_positions(6).words)  # their values are checked above
    made = make_endgames(6, 30, seed=5)
    again = make_endgames(6, 30, seed=5)
    np.testing.assert_array_equal(made.words, again.words)
    np.testing.assert_array_equal(made.values, again.values)
    assert not np.array_equal(made.words, make_endgames(6, 30, seed=6).words)
    assert len(made) == 30
    assert len(np.unique(made.words, axis=0)) == 30


def test_batches_stand_where_boards_stand():
    boards = []
    for seed in range(5):
        board = Board(6, starter="red")
        rng = np.random.default_rng(seed)
        for _ in range(17):
            board.push(int(rng.choice(board.legal_moves)))
        boards.append(board)
    games = GameBatch.from_boards(boards)
    twin = batch_of(games.view(), 6, "red")
    assert (twin.ply, twin.seat) == (17, 1)
    np.testing.assert_array_equal(twin.balls, games.balls)
    np.testing.assert_array_equal(twin.legal, games.legal)
    np.testing.assert_array_equal(twin.starters, games.starters)


def test_illegal_moves_are_named():
    with pytest.raises(IllegalMoveError, match="a1"):
        take_exam(Stuck(), size=4)


def test_what_has_no_truth_is_refused(tmp_path):
    for players in (3, 4):
        with pytest.raises(VariantError, match="two players"):
            take_exam("random", size=8, players=players)
    with pytest.raises(VariantError, match="no variant"):
        take_exam("random", size=5)
    with pytest.raises(AgentError):
        take_exam("nobody", size=4)
    with pytest.raises(OptionError, match="starter"):
        take_exam("random", size=4, starter="blue")
    with pytest.raises(OptionError, match="seed"):
        take_exam("random", size=4, seed=-1)
    with pytest.raises(VariantError, match="all positions are known"):
        make_endgames(4, 10)
    with pytest.raises(OptionError, match="positions"):
        make_endgames(6, 0)


def test_progress_counts_every_position():
    seen = []
    take_exam("random", size=6, progress=lambda done, total: seen.append((done, total)))
    done = [count for count, _ in seen]
    assert done == sorted(set(done))
    assert seen[-1] == (len(exam_positions(6)),) * 2
    seen.clear()
    make_endgames(6, 5, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(count, 5) for count in sorted({done for done, _ in seen})]
    assert seen[-1] == (5, 5)


def test_the_command_prints_and_writes_the_marks(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "marks.json"
    assert cli.main(["exam", "positional", "--size", "4", "--starter", "green", "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("positional on 4x4 with two players, green first, all positions\n")
    assert max(map(len, out.splitlines())) <= 80
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["command"][:3] == ["rolit", "exam", "positional"]
    result = take_exam("positional", size=4, starter="green").to_dict()
    assert report["result"] == json.loads(json.dumps(result))
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith(" ")}
    assert rows["all"][1] == f"{100 * result['overall']['kept']:.2f}"
    assert rows["1"][2:4] == ["100", "%"]
    assert rows["all"][-1] == "41,481"
    assert rows["12"][-1] == "1"
    assert rows["own"][-1] == f"{result['own_play']['positions']:,}"


def test_only_all_is_100_percent(capsys, monkeypatch):
    solved = small_board()
    perfect = Knowing(solved)
    monkeypatch.setattr("rolit_env.cli.exam.make_agent", lambda description: perfect)
    assert cli.main(["exam", "knowing", "--size", "4"]) == 0
    assert capsys.readouterr().out.count(" 100 % ") >= 2 * 14
    number = int(np.flatnonzero(solved.values.min(axis=1, where=solved.values != ILLEGAL, initial=99) < solved.best())[0])
    row = np.where(solved.values[number] == ILLEGAL, 99, solved.values[number])
    perfect.moves[tuple(solved.words[number].tolist())] = int(row.argmin())
    assert cli.main(["exam", "knowing", "--size", "4"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(" all "))
    assert line.split()[1:3] == ["99.99", "%"]


def test_the_command_makes_endgames(capsys, tmp_path):
    path = tmp_path / "some.npz"
    assert cli.main(["exam", "--make", str(path), "--size", "6", "--positions", "20", "--seed", "9"]) == 0
    assert capsys.readouterr().out == ""
    made, stored = make_endgames(6, 20, seed=9), SolvedPositions.load(path)
    np.testing.assert_array_equal(stored.words, made.words)
    np.testing.assert_array_equal(stored.values, made.values)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("", "either an AGENT to examine or --make FILE"),
        ("random --make FILE", "either an AGENT to examine or --make FILE"),
        ("random --size 5", "no variant"),
        ("random --players 3", "no exam for 8x8-3p"),
        ("--make FILE --players 3", "two players"),
        ("--make FILE --size 4", "all positions are known"),
        ("nobody", "no agent 'nobody'"),
        ("random --starter yellow", "starter='yellow'"),
    ],
)
def test_the_command_refuses_in_one_line(capsys, tmp_path, arguments, complaint):
    path = str(tmp_path / "FILE")
    assert cli.main(["exam", *(path if word == "FILE" else word for word in arguments.split())]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert err.startswith("rolit: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
