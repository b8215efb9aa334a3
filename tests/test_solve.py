"""The solver: its values are those of plain minimax and max^n, whatever was solved before, and the verb says them clearly."""

import io
import json
import threading
import time

import numpy as np
import pytest
from numba import int64

from rolit_env import Board, GameBatch, cli, rules
from rolit_env import solve as solve_module
from rolit_env.bits import cells_of, popcount
from rolit_env.errors import OptionError, RoundOverError, SolveError, VariantError
from rolit_env.kernel import kernel
from rolit_env.notation import cell_name
from rolit_env.rules import geometry
from rolit_env.search import solver
from rolit_env.search.position import legal_cells, lowest, number, rolled_balls
from rolit_env.solve import describe, move_values, solve
from tests.test_cli import refused


def endgames(size, players, empties, games, seed=0):
    """Return positions from random play, as Python ints, mover first."""
    batch = GameBatch(games, size=size, players=players, seed=seed)
    rng = np.random.default_rng(seed)
    while batch.plies - batch.ply > empties:
        batch.step_random(rng)
    return batch, [tuple(map(int, words)) for words in batch.view()]


@kernel
def minimax(own, other, neutral, size):
    """Return the mover's balls minus the other's at the end, by looking at every line of play."""
    legal = legal_cells(own, other | neutral, size)
    if legal == 0:
        return int64(popcount(own)) - int64(popcount(other))
    best = int64(-100)
    while legal != 0:
        move = lowest(legal)
        legal ^= move
        rolled = rolled_balls(number(move), own, other | neutral, size)
        best = max(best, -int64(minimax(other & ~rolled, own | rolled | move, neutral & ~rolled, size)))
    return best


def maxn(words, players, g):
    """Return everybody's balls at the end, from the mover on, when each prefers win share, then balls, then low cells."""
    own, *others = words
    if own | others[0] | others[1] | others[2] == g.board:
        return [word.bit_count() for word in words[:players]]
    best = None
    for cell in cells_of(rules.legal_cells(own, others[0] | others[1] | others[2], g)):
        mine, *rest = rules.put_ball(cell, *words, g)
        *ends, own_end = maxn((*rest[: players - 1], mine, *rest[players - 1 :]), players, g)
        end = [own_end, *ends]
        if best is None or liking(end) > liking(best):
            best = end
    return best


def liking(end):
    return (1 / end.count(max(end)) if end[0] == max(end) else 0, end[0])


def words_of(position):
    own, other, third, fourth = (np.uint64(word) for word in position)
    return own, other, third | fourth


ENDGAMES = [(8, 7, 320), (6, 7, 60), (4, 7, 60), (6, 9, 10), (8, 4, 100), (8, 3, 100), (8, 2, 100), (8, 1, 20), (4, 0, 5)]


@pytest.mark.parametrize(("size", "empties", "games"), ENDGAMES)
def test_values_are_those_of_minimax_whatever_was_solved_before(size, empties, games):
    memory = solver.make_memory(1 << 8)  # so small that most of what is kept is soon replaced
    _, positions = endgames(size, 2, empties, games)
    for position in positions:
        words = words_of(position)
        want = minimax(*words, size)
        assert solver.solve_pair(*words, want, want + 1, size, memory) <= want
        assert solver.solve_pair(*words, want - 1, want, size, memory) >= want
        assert solver.solve_pair(*words, -solver.INFINITY, solver.INFINITY, size, memory) == want


def test_bounds_outside_of_the_window_are_true():
    memory = solver.make_memory(1 << 10)
    _, positions = endgames(8, 2, 8, 60)
    for position in positions:
        words = words_of(position)
        value = minimax(*words, 8)
        for alpha in range(-64, 65, 16):
            found = solver.solve_pair(*words, alpha, alpha + 5, 8, memory)
            assert found == value if alpha < value < alpha + 5 else value <= found <= alpha or alpha + 5 <= found <= value


@pytest.mark.parametrize("players", [3, 4])
def test_one_memory_serves_two_and_more_players(players):
    shared = solver.make_memory(1 << 6)
    _, positions = endgames(8, players, 8, 20)
    for position in positions:
        words = [np.uint64(word) for word in position]
        pair = (*words[:2], words[2] | words[3])
        for _ in range(2):
            alone = solver.make_memory(1 << 6)
            assert solver.solve_pair(*pair, -100, 100, 8, shared) == solver.solve_pair(*pair, -100, 100, 8, alone)
            assert solver.solve_many(*words, players, 8, shared) == solver.solve_many(*words, players, 8, alone)


@pytest.mark.parametrize(("size", "players"), [(8, 3), (8, 4), (6, 3), (6, 4)])
def test_ends_of_more_players_are_those_of_plain_maxn(size, players):
    memory = solver.make_memory(1 << 8)
    for empties in range(7):
        _, positions = endgames(size, players, empties, 20 if empties < 6 else 5)
        for position in positions:
            counts = solver.solve_many(*map(np.uint64, position), players, size, memory)
            found = [solver.seat_balls(counts, turns) for turns in range(players)]
            assert found == maxn(position, players, geometry(size))


def test_every_move_has_its_value():
    games, positions = endgames(8, 2, 7, 40)
    values = move_values(games)
    g = geometry(8)
    for game, (own, other, third, fourth) in enumerate(positions):
        board = games.board(game)
        want = {}
        for move in board.legal_moves:
            mine, theirs, *rest = rules.put_ball(move, own, other, third, fourth, g)
            want[move] = -minimax(*words_of((theirs, mine, *rest)), 8)
        best = tuple(move for move, value in want.items() if value == max(want.values()))
        assert {move: value for move, value in enumerate(values[game]) if value != solver.ILLEGAL} == want
        thorough, quick = solve(board, every_move=True), solve(board)
        assert thorough.moves == {move: (value, value) for move, value in want.items()}
        assert all(low <= want[move] <= high for move, (low, high) in quick.moves.items())
        for solution in (thorough, quick):
            assert (solution.value, solution.best, solution.complete) == (max(want.values()), best, True)
            assert (solution.color, solution.counts) == (board.color_to_move, None)


@pytest.mark.parametrize("players", [3, 4])
def test_more_players_get_the_end_after_their_best_cell(players):
    games, positions = endgames(6, players, 6, 20)
    for game, position in enumerate(positions):
        board, end = games.board(game), maxn(position, players, geometry(6))
        solution = solve(board)
        assert list(solution.counts.values()) == end
        assert solution.value == end[0] - max(end[1:])
        for move, (low, high) in solution.moves.items():
            after = board.copy()
            after.push(move)
            *others, own = maxn(GameBatch.from_boards([after]).view()[0].tolist(), players, geometry(6))
            assert low == high == own - max(others)
            assert (move in solution.best) == (liking([own, *others]) == liking(end))
        board.push(solution.best[0])
        assert solve(board).counts == solution.counts


def test_solving_leaves_the_board_as_it_is_and_can_be_watched(monkeypatch):
    monkeypatch.setattr("rolit_env.solve._BLINK", 1e-4)
    board = endgames(8, 2, 14, 1)[0].board(0)
    before, seen = board.copy(), []
    solution = solve(board, progress=seen.append)
    assert board == before
    assert seen
    assert all(now.low <= solution.value <= now.high and now.done <= now.moves for now in seen)
    assert [now.nodes for now in seen] == sorted(now.nodes for now in seen)
    assert seen[-1].nodes <= solution.nodes


def test_the_time_limit_gives_bounds():
    solution = solve(Board(6), seconds=0.05)  # 32 empty cells: nobody solves them in that time
    assert not solution.complete
    assert solution.value is None
    assert solution.low < solution.high
    assert solution.best == ()


def test_the_time_limit_leaves_nothing_half_known_of_many(monkeypatch):
    board = endgames(8, 4, 9, 1)[0].board(0)
    finished = solve_module._ManyTask.run

    def run(task):
        task.memory[solver.STOP] = 1
        finished(task)

    monkeypatch.setattr(solve_module._ManyTask, "run", run)
    solution = solve(board)
    assert (solution.value, solution.best, solution.counts, solution.complete) == (None, (), None, False)
    assert describe(solution, board).endswith("from -64 to 64")


def test_an_interruption_stops_the_search():
    before = threading.active_count()

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(Board(), progress=interrupt)
    deadline = time.monotonic() + 30
    while threading.active_count() > before:
        assert time.monotonic() < deadline, "the search goes on"
        time.sleep(0.01)


def test_what_can_not_be_solved_is_refused():
    full = endgames(4, 2, 0, 1)[0]
    with pytest.raises(RoundOverError, match="full"):
        solve(full.board(0))
    with pytest.raises(RoundOverError, match="full"):
        move_values(full)
    many = endgames(6, 3, 10, 1)[0]
    with pytest.raises(SolveError, match="10 cells are empty, which is too many"):
        solve(many.board(0))
    with pytest.raises(VariantError, match="two players"):
        move_values(many)
    with pytest.raises(OptionError, match="above 0"):
        solve(Board(4), seconds=0)


@pytest.mark.parametrize("starter", ["red", "green"])
def test_the_small_board_is_won_by_who_moves_second(starter, capsys):
    assert cli.main(["solve", "--size", "4", "--starter", starter]) == 0
    winner = "green" if starter == "red" else "red"
    assert f"{winner}, who moves second, wins by 2 balls; best are" in capsys.readouterr().out


def test_the_verb_takes_positions_from_anywhere(tmp_path, capsys, monkeypatch):
    board = Board(4)
    board.push("d2")
    file, report = tmp_path / "position.txt", tmp_path / "report.json"
    file.write_text(str(board))
    said = []
    for source in (["--size", "4", "--moves", "d2 c1"], [str(file), "--moves", "C1"], ["-", "--moves", "c1"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(str(board)))
        assert cli.main(["solve", *source, "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    board.push("c1")
    solution = solve(board)
    for told in said:
        assert told["position"] == str(board)
        assert told["value"] == solution.value
        assert told["best"] == [cell_name(move, 4) for move in solution.best]
    assert cli.main(["solve", str(file), "--all", "--json", str(report)]) == 0
    values = json.loads(report.read_text())["moves"]
    lines = capsys.readouterr().out.splitlines()
    board.pop()
    assert values.keys() == {cell_name(move, 4) for move in board.legal_moves}
    for cell, value in values.items():
        assert f"  {cell} {value:+d}" in lines
    assert f"{max(values.values()):+d}" in next(line for line in lines if line.startswith("  ") and line[3].isdigit())


def test_the_verb_says_what_it_knows_when_the_time_is_over(capsys, tmp_path):
    report = tmp_path / "report.json"
    assert cli.main(["solve", "--seconds", "0.05", "--json", str(report)]) == 2
    out, err = capsys.readouterr()
    told = json.loads(report.read_text())
    assert told["value"] is None
    assert told["best"] == []
    assert err.splitlines()[-1].startswith("rolit: the time ran out after 0.")
    assert err.splitlines()[-1].endswith(f"red's balls minus the other's are from {told['low']} to {told['high']}")
    assert "wins" not in out


def test_the_verb_names_the_winners_of_many(capsys, tmp_path):
    board = endgames(6, 4, 5, 1)[0].board(0)
    file = tmp_path / "position.txt"
    file.write_text(str(board))
    assert cli.main(["solve", str(file)]) == 0
    solution = solve(board)
    assert describe(solution, board) in capsys.readouterr().out
    assert all(f"{color} {balls}" in describe(solution, board) for color, balls in solution.counts.items())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "60 cells are empty; more than 24 may take hours or days, so --seconds must say how long"),
        (["--size", "5"], "no variant"),
        (["--size", "4", "--players", "3"], "no variant"),
        (["--players", "4"], "60 cells are empty, which is too many"),
        (["--size", "4", "--moves", "d2 b1"], "move 2: b1 is not legal"),
        (["--size", "4", "--moves", "d9"], "move 1: 'd9' is no cell"),
        (["--size", "4", "--starter", "blue"], "starter='blue'"),
        (["--size", "4", "--seconds", "0"], "does not fit"),
        (["FILE", "--size", "4"], "these options are for the start"),
        (["FILE"], "the round is over"),
        (["FILE.txt"], "No such file"),
        (["--size", "4", "--json", "FILE"], "does not end in .json"),
    ],
)
def test_the_verb_refuses_in_one_line(arguments, complaint, capsys, tmp_path):
    file = tmp_path / "full"
    file.write_text(str(endgames(4, 2, 0, 1)[0].board(0)))
    before = file.read_text()
    assert complaint in refused(capsys, "solve", *(argument.replace("FILE", str(file)) for argument in arguments))
    assert file.read_text() == before
