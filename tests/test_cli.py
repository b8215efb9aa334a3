"""The command line: good input gives numbers and files, bad input gives exit code 2 and one line on stderr."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import metadata

import pytest

from rolit_env import Board, cli, make_agent, play_rounds
from rolit_env.agents import AGENTS, RandomAgent
from rolit_env.errors import OptionError, VariantError
from rolit_env.perft import divide, perft
from rolit_env.record import read_records
from tests.commands import refused
from tests.perft_table import read_perft

PERFT = {(size, players): [1, *leaves] for size, players, leaves in read_perft()}
"""Leaf counts for depths 0 to 6, red first."""

EVALUATE = ["evaluate", "greedy", "--against", "random", "--size", "4", "--rounds", "20"]


def rolit(*arguments, **settings):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rolit_env", *arguments], capture_output=True, text=True, timeout=60, check=False, **settings
    )


@pytest.fixture
def no_rounds(monkeypatch):
    """Fail when a round is played."""

    def play(*_, **__):
        raise AssertionError("a round was played")

    monkeypatch.setattr("rolit_env.cli.evaluate.play_rounds", play)


# perft


@pytest.mark.parametrize(
    ("size", "players", "depth"), [(*variant, depth) for variant in PERFT for depth in range(5)] + [(8, 4, 6), (4, 2, 6)]
)
def test_perft_prints_the_leaf_count(capsys, size, players, depth):
    assert cli.main(["perft", "--size", str(size), "--players", str(players), "--depth", str(depth)]) == 0
    assert capsys.readouterr() == (f"{PERFT[size, players][depth]}\n", "")


def test_perft_divides_by_first_move(capsys):
    assert cli.main(["perft", "--players", "4", "--depth", "4", "--divide"]) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    counts = {cell: int(count) for cell, count in map(str.split, lines)}
    assert list(counts) == ["f4", "d6", "f6"]
    assert sum(counts.values()) == int(total) == 1366


def test_perft_takes_a_starter(capsys):
    assert cli.main(["perft", "--players", "4", "--depth", "1", "--divide", "--starter", "yellow"]) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(["c4", "1", "c6", "1", "e6", "1", "3"])


def test_perft_counts_on_from_any_board_and_leaves_it():
    board = Board(4, 2)
    for _ in range(8):
        board.push(board.legal_moves[0])
    before = board.copy()
    by_move = divide(board, 3)
    assert perft(board, 3) == sum(by_move.values()) > 0
    assert perft(board, 4) > 0
    assert perft(board, 5) == 0
    assert board == before
    assert board.moves == before.moves


def test_perft_counts_nothing_beyond_the_end(capsys, monkeypatch):
    def count(*_):
        raise AssertionError("looked for sequences that are longer than the round")

    monkeypatch.setattr("rolit_env.perft._count", count)
    assert perft(Board(6, 3), 33) == perft(Board(), 10**9) == 0
    assert divide(Board(), 61) == {"f4": 0, "d6": 0, "f6": 0}
    assert cli.main(["perft", "--depth", "61"]) == 0
    assert capsys.readouterr() == ("0\n", "")
    assert cli.main(["perft", "--depth", "61", "--divide"]) == 0
    assert capsys.readouterr() == ("f4 0\nd6 0\nf6 0\n0\n", "")


def test_perft_reaches_the_end():
    board = Board(4, 2)
    while not board.is_over:
        board.push(board.legal_moves[0])
    assert perft(board, 0) == 1
    assert perft(board, 1) == 0
    assert divide(board, 1) == {}
    board.pop()
    assert perft(board, 1) == sum(divide(board, 1).values()) == 1
    assert perft(board, 2) == sum(divide(board, 2).values()) == 0


def test_perft_refuses_depths_that_do_not_exist():
    with pytest.raises(OptionError, match="from 0 up"):
        perft(Board(), -1)
    with pytest.raises(OptionError, match="from 1 up"):
        divide(Board(), 0)


# evaluate


def test_evaluate_shows_a_row_for_each_opponent(capsys):
    opponents = ["random", "greedy", "positional"]
    assert cli.main(["evaluate", "greedy", "--against", *opponents, "--rounds", "60", "--seed", "7"]) == 0
    out, err = capsys.readouterr()
    assert "greedy on 8x8-2p" in out
    rows = [line.split() for line in out.splitlines() if " ± " in line and line.split()[0] in opponents]
    assert [row[0] for row in rows] == opponents
    for row in rows:
        result = play_rounds([make_agent("greedy"), make_agent(row[0])], 60, seed=7)
        numbers = [*result.win_share[:1], *result.interval[:1], *result.par[:1], *result.by_seat[0]]
        assert row[1:2] + row[3:7] == [f"{number:.3f}".removeprefix("0") for number in numbers]
        assert row[7:] == [f"{result.balls[0]:.1f}", f"{result.tied:.3f}".removeprefix("0"), "60"]
    assert err.splitlines() == [f"against {name}: 60 rounds played" for name in opponents]


@pytest.mark.parametrize("name", ["rounds.txt", "rounds.jsonl"])
def test_evaluate_records_all_rounds(capsys, tmp_path, name):
    path = tmp_path / name
    assert cli.main([*EVALUATE, "--record", str(path), "--against", "random", "greedy"]) == 0
    capsys.readouterr()
    records = read_records(path)
    assert len(records) == 40
    assert [set(record.agents.values()) for record in records] == [{"greedy", "random"}] * 20 + [{"greedy"}] * 20
    assert "many rounds don't fit" in refused(capsys, *EVALUATE, "--record", str(tmp_path / "rounds.json"))
    assert "many rounds don't fit" in refused(capsys, *EVALUATE, "--record", str(path), "--json", str(path))
    spelt = path.parent / "more" / ".." / path.name
    assert "many rounds don't fit" in refused(capsys, *EVALUATE, "--record", str(path), "--json", str(spelt))
    assert len(read_records(path)) == 40


def test_evaluate_writes_what_play_rounds_returns(capsys, tmp_path):
    file = tmp_path / "results.json"
    arguments = ["evaluate", "greedy", "--against", "random", "greedy+random", "--players", "3", "--size", "6"]
    arguments += ["--rounds", "30", "--seed", "5", "--opening-turns", "2", "--starter", "green", "--json", str(file)]
    assert cli.main(arguments) == 0
    written = json.loads(file.read_text())
    settings = {"size": 6, "players": 3, "seed": 5, "opening_turns": 2, "starter": "green"}
    greedy, random = make_agent("greedy"), make_agent("random")
    expected = [play_rounds(seated, 30, **settings).to_dict() for seated in ([greedy, random], [greedy, greedy, random])]
    assert written["results"] == json.loads(json.dumps(expected))
    assert written["command"] == ["rolit", *arguments]
    assert written["version"] == metadata.version("rolit-env")
    assert "greedy + random" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_json_is_strict_when_an_interval_is_infinite(tmp_path):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    file = tmp_path / "results.json"
    assert cli.main([*EVALUATE, "--rounds", "1", "--json", str(file)]) == 0
    written = json.loads(file.read_text(), parse_constant=refuse)
    assert written["results"][0]["interval"] == [None, None]


def test_json_replaces_a_file_and_follows_a_link(tmp_path):
    file, link = tmp_path / "results.json", tmp_path / "link.json"
    file.write_text("old")
    link.symlink_to(file)
    assert cli.main([*EVALUATE, "--json", str(link)]) == 0
    assert json.loads(file.read_text())["results"][0]["rounds"] == 20
    assert link.is_symlink()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OptionError("no"), MemoryError])
def test_a_run_that_fails_leaves_the_file_as_it_was(monkeypatch, capsys, tmp_path, error):
    def play(*_, **__):
        raise error

    monkeypatch.setattr("rolit_env.cli.evaluate.play_rounds", play)
    file = tmp_path / "results.json"
    file.write_text("old")
    assert cli.main([*EVALUATE, "--json", str(file)]) == (130 if error is KeyboardInterrupt else 2)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("path", ["missing/results.json", ".", "file/results.json", "loop", os.devnull])
@pytest.mark.usefixtures("no_rounds")
def test_an_unwritable_file_is_refused_before_any_round(capsys, monkeypatch, tmp_path, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("old")
    (tmp_path / "loop").symlink_to("loop")
    assert f"{path} can't be written to" in refused(capsys, *EVALUATE, "--json", path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", "loop"}


def test_a_full_disk_is_one_line(capsys, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rolit_env.cli.perft.perft", fail)
    assert "No space left on device" in refused(capsys, "perft", "--depth", "1")


@pytest.mark.parametrize("verb", ["evaluate greedy --against random", "evaluate", "play --against"])
@pytest.mark.usefixtures("no_rounds")
def test_an_agent_for_another_variant_is_refused_before_any_round(capsys, monkeypatch, verb):
    class Specialist(RandomAgent):
        def check_variant(self, variant):
            raise VariantError(f"specialists can't play {variant.name}")

    monkeypatch.setitem(AGENTS, "specialist", Specialist)
    line = f"{verb} specialist" + (" --against random" if verb == "evaluate" else "")
    assert "specialists can't play 8x8-2p" in refused(capsys, *line.split())


# bad input


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "VERB"),
        ("solv", "choose from"),
        ("--sise 8", "VERB"),
        ("perft", "--depth"),
        ("perft --depth -1", "from 0 up"),
        ("perft --depth x", "'x' is no int"),
        ("perft --depth 0 --divide", "from 1 up"),
        ("perft --depth 1 --size 5", "allowed are size 8 or 6"),
        ("perft --depth 1 --size big", "'big'"),
        ("perft --depth 1 --size 4 --players 3", "allowed are size 8 or 6"),
        ("perft --depth 1 --starter yellow", "red, green"),
        ("perft --depth 1 --starter random", "red, green"),
        ("perft --dep 1", "--depth"),
        ("perft --depth 1 extra", "extra"),
        ("evaluate", "AGENT"),
        ("evaluate greedy", "--against"),
        ("evaluate greedy --against", "--against"),
        ("evaluate gredy --against random", "random, greedy, positional"),
        ("evaluate greedy --against random gredy", "random, greedy, positional"),
        ("evaluate greedy --against random+", "random, greedy, positional"),
        ("evaluate greedy:depth=3 --against random", "no option 'depth=3'"),
        ("evaluate missing.onnx --against random", "missing.onnx"),
        ("evaluate greedy --against random --rounds 0", "from 1 to"),
        ("evaluate greedy --against random --rounds 1.5", "'1.5' is no int"),
        ("evaluate greedy --against random --rounds 1000000000000000000000", "from 1 to"),
        ("evaluate greedy --against random --seed -1", "from 0 up"),
        ("evaluate greedy --against random --size 4 --opening-turns 13", "0 to 12"),
        ("evaluate greedy --against random --opening-turns -1", "0 to 60"),
        ("evaluate greedy --against random --starter blue", "red, green"),
        ("evaluate greedy --against random --players 5", "allowed are size 8 or 6"),
        ("evaluate greedy --against random random+greedy", "3 agents can't share 2 seats"),
        ("evaluate greedy --against random --json", "--json"),
        ("play --against gredy", "random, greedy, positional"),
        ("play --against random random", "allowed is 1 agent"),
        ("play --players 4 --against random random", "or 3"),
        ("play --color yellow", "red, green"),
        ("play --starter blue", "red, green"),
        ("play --size 4 --players 3", "allowed are size 8 or 6"),
        ("play --seed -1", "from 0 up"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, line, complaint):
    assert complaint in refused(capsys, *line.split())


def test_a_name_with_a_line_break_is_still_one_line(capsys):
    refused(capsys, "evaluate", "a\nb.onnx", "--against", "random")


# help, version, process


@pytest.mark.parametrize("verb", ["play", "evaluate", "perft"])
def test_help_explains_each_verb_with_an_example_that_parses(capsys, verb):
    with pytest.raises(SystemExit) as end:
        cli.main([verb, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 90
    examples = [line.split("rolit ")[1].split("   ")[0].split() for line in text.split("example:")[1].splitlines()]
    assert examples
    for example in examples:
        assert example[0] == verb
        assert cli.build_parser().parse_args(example)


def test_help_lists_every_verb(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for verb in ("play", "evaluate", "perft"):
        assert f"\n    {verb} " in text


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"rolit {metadata.version('rolit-env')}\n"


def test_the_module_runs_as_a_program():
    good = rolit("perft", "--size", "4", "--depth", "3")
    assert (good.returncode, good.stdout, good.stderr) == (0, "60\n", "")
    bad = rolit("perft", "--size", "4", "--depth", "-3")
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)


def test_output_is_plain_where_only_ascii_can_be_written():
    run = rolit(*EVALUATE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert run.returncode == 0
    assert " +- " in run.stdout
    assert run.stdout.isascii()


def test_a_reader_that_goes_away_is_no_error():
    command = [sys.executable, "-m", "rolit_env", "perft", "--depth", "5", "--divide"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_ctrl_c_leaves_a_round_politely():
    command = [sys.executable, "-m", "rolit_env", "play", "--size", "4", "--starter", "red"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a parent in the background may ignore it
    )
    with process:
        seen = b""
        while b"Your cell: " not in seen:
            byte = process.stdout.read(1)
            assert byte, process.stderr.read()
            seen += byte
        # Python's input() drops a Ctrl-C that comes while it still flushes the prompt; a person then presses once more.
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
                break
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")
    assert b"You leave at turn 1 of 12" in out


def test_start_up_loads_no_learner_and_no_window():
    code = "import rolit_env.cli, sys; print(*({'torch', 'onnxruntime', 'pygame', 'matplotlib'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "\n"
