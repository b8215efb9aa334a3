"""Runs in a folder: however they are stopped, they find what the solver finds, and no answer is lost or asked for twice."""

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rolit_env import Board, cli
from rolit_env.cli.solve import duration
from rolit_env.errors import CheckpointError, OptionError, OutputError, SolveError, VariantError
from rolit_env.notation import cell_name
from rolit_env.search import long_solve
from rolit_env.search.estimate import FEWEST_EMPTIES, POSITIONS, Sample, _extrapolate, estimate
from rolit_env.search.expansion import canonical, one_neutral, play_all, spread
from rolit_env.search.long_solve import LongSolve
from rolit_env.search.small_board import small_board
from rolit_env.search.solver import INFINITY, make_memory, solve_pair
from rolit_env.search.truth import ILLEGAL, SolvedPositions
from rolit_env.solve import solve
from rolit_env.solve_start import START_OF_6X6, look_up, solve_long
from rolit_env.symmetry import cell_permutations, transform_words

ENTRIES = 1 << 12


def later(size, turns, seed):
    """Return a board after random turns."""
    board, rng = Board(size, starter="green" if seed % 2 else "red"), np.random.default_rng(seed)
    for _ in range(turns):
        board.push(int(rng.choice(board.legal_moves)))
    return board


def view(board):
    """Return a board as runs take it: the mover's balls, the other's, neutral ones."""
    red, yellow, green, blue = board.words
    own, other = (red, green) if board.color_to_move == "red" else (green, red)
    return np.array([own, other, yellow | blue], np.uint64)


def exact(words, size):
    return int(solve_pair(*words, -INFINITY, INFINITY, size, make_memory(ENTRIES)))


def facts(folder):
    return [json.loads(line) for line in (folder / "facts.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def start():
    return view(Board(4))


@pytest.mark.parametrize("size", [4, 6, 8])
def test_twins_have_one_canonical_form(size):
    words = np.array([view(later(size, turns, turns)) for turns in range(12)])
    least = canonical(words, size)
    twins = [transform_words(words, np.tile(places, (len(words), 1))) for places in cell_permutations(size)]
    for twin in twins:
        np.testing.assert_array_equal(canonical(twin, size), least)
    for number, one in enumerate(least.tolist()):
        assert one == min(twin[number].tolist() for twin in twins)


@pytest.mark.parametrize("size", [4, 6])
def test_layers_hold_each_position_once_and_lead_where_moves_lead(size):
    layers = spread(view(Board(size)), size, 4)
    assert len(layers) == 5
    for layer, following in pairwise(layers):
        assert len(np.unique(canonical(layer.words, size), axis=0)) == len(layer.words)
        position, _, after = play_all(one_neutral(layer.words), size)
        np.testing.assert_array_equal(canonical(after[:, :3], size), following.words[layer.after])
        assert layer.first.tolist() == [position.tolist().index(number) for number in range(len(layer.words))]
        assert set(layer.after.tolist()) == set(range(len(following.words)))


def test_the_frontier_is_kept_small_unless_a_depth_is_given(monkeypatch):
    monkeypatch.setattr("rolit_env.search.expansion.FRONTIER", 100)
    start = view(Board(6))
    assert [len(layer.words) for layer in spread(start, 6, None)] == [1, 2, 13, 55]
    assert len(spread(start, 6, 5)) == 6
    assert len(spread(view(later(4, 11, 0)), 4, None)) == 2  # the board is full then


@pytest.mark.parametrize("depth", [1, 2, 5, 8, 12, None])
@pytest.mark.parametrize("threads", [1, 3])
def test_all_of_4x4(tmp_path, start, depth, threads):
    run = LongSolve(tmp_path, start, 4, depth, threads, ENTRIES)
    assert run.bounds() == (-16, 16)
    assert run.run()
    assert run.bounds() == (-2, -2)
    truth = small_board().values[0]
    assert sorted(run.moves()) == np.flatnonzero(truth != ILLEGAL).tolist()
    for cell, (low, high) in run.moves().items():
        assert low <= truth[cell] <= high
    now = run.progress()
    assert (now.low, now.high, now.to_do) == (-2, -2, 0)
    assert now.answers == len(facts(tmp_path))


@pytest.mark.parametrize("seed", range(8))
def test_values_are_those_of_the_solver(tmp_path, seed):
    board = later(6, 19 + seed % 4, seed)
    value = exact(view(board), 6)
    for depth in (1, 2, 3, 5):
        run = LongSolve(tmp_path / str(depth), view(board), 6, depth, 1 + seed % 2, ENTRIES)
        assert run.run()
        assert run.bounds() == (value, value)
        for cell, (low, high) in run.moves().items():
            after = board.copy()
            after.push(cell)
            assert low <= -exact(view(after), 6) <= high


def test_bounds_only_come_nearer_and_always_hold_the_value(tmp_path):
    words = view(later(6, 18, 3))
    value, seen = exact(words, 6), []
    LongSolve(tmp_path, words, 6, 4, entries=ENTRIES).run(report=lambda now: seen.append((now.low, now.high)))
    assert all(low <= value <= high for low, high in seen)
    for before, after in pairwise(seen):
        assert before[0] <= after[0]
        assert after[1] <= before[1]
    assert len(set(seen)) > 2


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    words = view(later(6, 18, 5))
    whole = LongSolve(tmp_path / "whole", words, 6, 4, entries=ENTRIES)
    whole.run()

    sessions = 0
    while True:
        run, before = LongSolve(tmp_path / "parts", words, 6, 4, entries=ENTRIES), None

        def stop_after_three(now):
            nonlocal before
            before = now.answers if before is None else before
            if now.answers >= before + 3:
                raise KeyboardInterrupt

        try:
            sessions += 1
            assert run.run(report=stop_after_three)
            break
        except KeyboardInterrupt:
            kept = facts(tmp_path / "parts")
            assert len(kept) == before + 3
    assert sessions > 3
    assert run.bounds() == whole.bounds() == (exact(words, 6),) * 2
    # What is asked follows from the facts alone, so the sessions together do what one would have done.
    asked = [(fact["position"], fact["low"], fact["high"]) for fact in facts(tmp_path / "parts")]
    assert asked == [(fact["position"], fact["low"], fact["high"]) for fact in facts(tmp_path / "whole")]


def test_a_run_that_is_killed_goes_on(tmp_path):
    board = later(6, 16, 4)
    program = """
import os, sys
from pathlib import Path
from rolit_env import Board
from rolit_env.solve_start import solve_long
begun = None
def kill(now):
    global begun
    begun = now.answers if begun is None else begun
    if now.answers >= begun + 5:
        os.kill(os.getpid(), 9)
solve_long(Board.from_text(sys.argv[1]), Path(sys.argv[2]), depth=4, progress=kill)
"""
    for session in range(1, 3):
        done = subprocess.run([sys.executable, "-c", program, str(board), str(tmp_path)], check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
        assert len(facts(tmp_path)) == 5 * session
    solution = solve_long(board, tmp_path)
    assert solution.value == exact(view(board), 6)
    assert solution.complete
    assert len(facts(tmp_path)) > 10


def test_the_last_line_may_be_cut_anywhere(tmp_path, start):
    run = LongSolve(tmp_path, start, 4, 4, entries=ENTRIES)
    run.run()
    text = (tmp_path / "facts.jsonl").read_bytes()
    answers = run.answers
    assert text.count(b"\n") == answers
    last = text.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(last, len(text) - 1, 7):
        (tmp_path / "facts.jsonl").write_bytes(text[:length])
        again = LongSolve(tmp_path, start, 4, entries=ENTRIES)
        assert again.answers == answers - 1
        assert again.run()
        assert again.bounds() == (-2, -2)
        assert again.answers == LongSolve(tmp_path, start, 4, entries=ENTRIES).answers == answers
    (tmp_path / "facts.jsonl").write_bytes(text[:-1])  # whole but for its end
    assert LongSolve(tmp_path, start, 4, entries=ENTRIES).answers == answers


def test_lines_that_are_no_facts_are_passed_over_and_contradictions_are_not(tmp_path, start):
    run = LongSolve(tmp_path, start, 4, 4, entries=ENTRIES)
    run.run()
    fact = facts(tmp_path)[0]
    with (tmp_path / "facts.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n[]\n{}\nnull\n{"position": [1, 2, 3], "low": 0, "high": 0, "nodes": 1, "seconds": 1}\n\xff\n')
    assert LongSolve(tmp_path, start, 4, entries=ENTRIES).bounds() == (-2, -2)
    low, high = (fact["high"] + 1, 16) if fact["low"] == -16 else (-16, fact["low"] - 1)
    with (tmp_path / "facts.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(fact | {"low": low, "high": high}) + "\n")
    with pytest.raises(CheckpointError, match="can't all be true"):
        LongSolve(tmp_path, start, 4, entries=ENTRIES)


def test_a_folder_belongs_to_one_run(tmp_path, start):
    LongSolve(tmp_path, start, 4, 3, entries=ENTRIES)
    assert len(LongSolve(tmp_path, start, 4, entries=ENTRIES).layers) == 4
    LongSolve(tmp_path, start, 4, 3, entries=ENTRIES)
    for words, size, depth in [(start, 4, 5), (view(later(4, 1, 0)), 4, None), (view(Board(6)), 6, 3)]:
        with pytest.raises(CheckpointError, match="another position"):
            LongSolve(tmp_path, words, size, depth, entries=ENTRIES)
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="says nothing of a run"):
        LongSolve(tmp_path, start, 4, entries=ENTRIES)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="must be a folder"):
        LongSolve(tmp_path / "file", start, 4, entries=ENTRIES)


def test_what_cannot_be_is_refused(tmp_path, start):
    for depth in (0, 13):
        with pytest.raises(OptionError, match="1 to 12 moves"):
            LongSolve(tmp_path / "new", start, 4, depth)
    with pytest.raises(OptionError, match="threads"):
        LongSolve(tmp_path / "new", start, 4, 3, 0)
    for board in (Board(6, 3), later(4, 12, 0)):
        with pytest.raises(SolveError, match="two players"):
            solve_long(board, tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_a_run_without_time_finds_nothing_and_loses_nothing(tmp_path, start):
    run = LongSolve(tmp_path, start, 4, 4, entries=ENTRIES)
    assert not run.run(seconds=0)
    assert run.answers == 0
    assert run.run()
    assert run.bounds() == (-2, -2)
    assert run.run(seconds=0)


def test_threads_look_at_different_positions(tmp_path, start):
    run = LongSolve(tmp_path, start, 4, 6, entries=ENTRIES)
    chosen = set()
    for _ in range(3):
        number, _ = run._choose(1)
        chosen.add(number)
        run._pending.add(number)
    assert len(chosen) == 3


def test_questions_part_what_is_left_and_ask_for_the_winner_first():
    for low in range(-16, 16):
        for high in range(low + 1, 17):
            assert low < long_solve._question(low, high) <= high
    assert long_solve._question(-16, 16) == 1
    assert long_solve._question(-16, 0) == 0
    assert long_solve._question(0, 16) == 1
    for value in range(-36, 37):
        low, high, asked = -36, 36, 0
        while low < high:
            question = long_solve._question(low, high)
            low, high = (question, high) if value >= question else (low, question - 1)
            asked += 1
        assert low == high == value
        assert asked <= 11


@pytest.mark.parametrize("starter", ["red", "green"])
def test_4x4_is_looked_up(starter):
    rng = np.random.default_rng(1)
    for _ in range(5):
        board = Board(4, starter=starter)
        while not board.is_over:
            known = look_up(board)
            found = solve(board, every_move=True)
            assert (known.color, known.value, known.best, known.moves) == (found.color, found.value, found.best, found.moves)
            assert known.complete
            board.push(int(rng.choice(board.legal_moves)))
        assert look_up(board) is None


def test_what_is_not_in_the_table_is_not_looked_up():
    assert look_up(later(6, 1, 0)) is None
    assert look_up(Board(6, 3)) is None
    assert look_up(Board(8)) is None
    assert (
        look_up(Board.from_text("4x4, 2 players, red to move\n  a b c d\n1 R . . .\n2 . R Y .\n3 . B G .\n4 . . . G")) is None
    )


def test_the_start_of_6x6_follows_from_facts_that_the_solver_finds_again():
    before = (START_OF_6X6 / "facts.jsonl").read_bytes()
    run = LongSolve(START_OF_6X6, view(Board(6)), 6, entries=ENTRIES)
    assert run.bounds() == (-4, -4)
    assert run.answers == len(facts(START_OF_6X6))
    cheap = [fact for fact in facts(START_OF_6X6) if fact["nodes"] < 2_000_000]
    memory = make_memory(1 << 18)
    for number in np.random.default_rng(0).permutation(len(cheap))[:8]:
        low, high, words = cheap[number]["low"], cheap[number]["high"], [np.uint64(word) for word in cheap[number]["position"]]
        assert (low == -36) != (high == 36)
        if low > -36:
            assert solve_pair(*words, low - 1, low, 6, memory) >= low
        else:
            assert solve_pair(*words, high, high + 1, 6, memory) <= high
    for starter, best in (("red", "e3 c5"), ("green", "d2 b4")):
        known = look_up(Board(6, starter=starter))
        assert (known.value, known.color, known.complete) == (-4, starter, True)
        assert [cell_name(cell, 6) for cell in known.best] == best.split()
    assert (START_OF_6X6 / "facts.jsonl").read_bytes() == before


def test_the_start_of_4x4_needs_no_compiling(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "rolit_env", "solve", "--size", "4", "--starter"]
    for starter, other in (("red", "green"), ("green", "red")):
        out = subprocess.run(
            [*command, starter], env=environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout
        assert f"{other}, who moves second, wins by 2 balls" in out
        assert "41,481 positions can be reached" in out
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]


def test_an_exact_growth_is_found_exactly():
    samples = [Sample(empties, (3 * 2**empties,) * 4, 0.1) for empties in range(10, 16)]
    found = _extrapolate(samples, 32)
    assert found.growth == pytest.approx(2)
    assert found.growth_interval == pytest.approx(0, abs=1e-6)
    assert found.low == pytest.approx(found.nodes) == pytest.approx(found.high) == pytest.approx(3 * 2**32)
    assert found.rate == pytest.approx(4 * 3 * 2**15 / 0.1)


def test_the_interval_of_an_estimate_covers_what_comes():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(300):
        samples = [
            Sample(empties, tuple(np.exp(1 + 0.8 * empties + rng.normal(size=16)).tolist()), 1.0) for empties in range(10, 18)
        ]
        found = _extrapolate(samples, 24)
        covered += found.low < np.exp(1 + 0.8 * 24 + rng.normal()) < found.high
    assert 0.91 < covered / 300 < 0.98


def test_an_estimate_is_made_of_positions_that_follow():
    board, seen = later(6, 12, 2), []
    found = estimate(board, seconds=1e-9, seed=1, report=seen.append, entries=ENTRIES)
    assert found.empties == 20
    assert [sample.empties for sample in found.samples] == [FEWEST_EMPTIES + more for more in range(3)]
    assert list(found.samples) == seen
    assert {len(sample.nodes) for sample in found.samples} == {POSITIONS}
    assert found.low < found.nodes < found.high
    again = estimate(board, seconds=1e-9, seed=1, entries=ENTRIES)
    assert [sample.nodes for sample in again.samples] == [sample.nodes for sample in found.samples]
    assert again.nodes == found.nodes
    assert estimate(board, seconds=1e-9, seed=2, entries=ENTRIES).nodes != found.nodes


def test_estimates_that_make_no_sense_are_refused():
    with pytest.raises(VariantError, match="two players"):
        estimate(Board(6, 3))
    with pytest.raises(SolveError, match="needs no estimate"):
        estimate(later(6, 20, 0))
    with pytest.raises(OptionError, match="seconds"):
        estimate(Board(6), seconds=0)


def run_cli(capsys, *arguments):
    code = cli.main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_verb_goes_on_with_a_run(capsys, tmp_path):
    position = tmp_path / "position.txt"
    board = later(6, 18, 7)
    position.write_text(str(board), encoding="utf-8")
    folder, value = tmp_path / "run", exact(view(board), 6)
    code, out, err = run_cli(capsys, "solve", position, "--resume", folder, "--depth", 3, "--seconds", 1e-9)
    assert code == 2
    assert "from -36 to 36; the same command goes on" in err.splitlines()[-1]
    code, out, err = run_cli(capsys, "solve", position, "--resume", folder, "--threads", 2, "--json", tmp_path / "out.json")
    assert code == 0
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (report["value"], report["low"], report["high"]) == (value, value, value)
    assert report["complete"]
    assert report["nodes"] == sum(fact["nodes"] for fact in facts(folder))
    assert "is it +1 or more?" in err
    assert f"by {abs(value)} ball" in out
    truth = solve(board)
    assert set(report["best"]) <= {cell_name(cell, 6) for cell in truth.best}
    assert report["best"]


def test_ctrl_c_ends_a_run_with_a_word_about_it(capsys, monkeypatch, tmp_path):
    def interrupt(now):
        raise KeyboardInterrupt

    words = view(later(6, 17, 6))

    def run(*_, **__):
        return LongSolve(tmp_path, words, 6, 3, 2, ENTRIES).run(report=interrupt)

    monkeypatch.setattr("rolit_env.cli.solve.solve_long", run)
    code, out, err = run_cli(capsys, "solve", "--size", 6, "--resume", tmp_path)
    assert (code, out) == (130, "")
    assert err == f"stopped; what was found is in {tmp_path}, and the same command goes on\n"
    assert LongSolve(tmp_path, words, 6, entries=ENTRIES).run()


def test_the_verb_stores_all_of_4x4(capsys, tmp_path):
    assert run_cli(capsys, "solve", "--size", 4, "--store", tmp_path / "all.npz") == (0, "", "")
    made, shipped = SolvedPositions.load(tmp_path / "all.npz"), small_board()
    np.testing.assert_array_equal(made.words, shipped.words)
    np.testing.assert_array_equal(made.values, shipped.values)


def test_the_verb_estimates(capsys, tmp_path):
    position = tmp_path / "position.txt"
    position.write_text(str(later(6, 16, 1)), encoding="utf-8")
    code, out, err = run_cli(capsys, "solve", position, "--estimate", "--seconds", 0.01)
    assert (code, err) == (0, "")
    assert "Each empty cell more takes" in out
    assert "With 16 empty cells that makes about" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--resume DIR --estimate", "one of them"),
        ("--resume DIR --all", "--all goes with neither"),
        ("--depth 3", "--resume says"),
        ("--threads 2", "--resume says"),
        ("--store DIR/x.npz", "rolit solve --size 4 --store FILE"),
        ("--size 4 --store NOWHERE/x.npz", "can't be written"),
        ("--size 6 --players 3 --resume DIR", "two players"),
        ("--size 6 --players 3 --estimate", "two players"),
        ("--size 4 --estimate", "needs no estimate"),
        ("--size 6 --estimate --json", "prints a text"),
        ("--size 8", "--resume where"),
    ],
)
def test_the_verb_refuses_in_one_line(capsys, tmp_path, arguments, complaint):
    words = arguments.replace("DIR", str(tmp_path)).replace("NOWHERE", str(Path(tmp_path, "no", "where"))).split()
    code, out, err = run_cli(capsys, "solve", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_durations_are_written_in_units_of_which_there_are_several():
    for seconds, text in [(3, "3 seconds"), (119, "119 seconds"), (121, "2 minutes"), (7200, "2 hours"), (10**9, "32 years")]:
        assert duration(seconds) == text
