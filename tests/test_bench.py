"""The benchmark: each row plays legally, processes take turns, the report holds what was timed. No test looks at how fast."""

import json
import math
import os
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from packaging.utils import canonicalize_name
from pettingzoo.test import api_test

from rolit_env import GameBatch, cli, rolit_v0
from rolit_env.bench import PEERS, ROWS, empty_env, layers, machine, measure, peers, report, run
from rolit_env.bench.measure import Row, Work
from rolit_env.errors import IllegalMoveError, OptionError

ROOT = Path(__file__).parent.parent
INSTALLED = [name for name, row in ROWS.items() if all(find_spec(package) for package in row.needs)]
GAMES = 5
SMALL = {"games": [GAMES, 9], "repeats": 2, "seconds": 0.001}


@pytest.fixture
def stand_in(monkeypatch):
    """Return a function that puts a row in the place of all others."""

    def put(*rows):
        monkeypatch.setattr(run, "ROWS", {row.name: row for row in rows})
        monkeypatch.setattr(run, "NAMES", (*(row.name for row in rows), run.LEARNER))

    return put


def works(name="works", **settings):
    """Return a row whose process is that of `raw`, under a name of its own."""
    return Row(name, "a title", lambda _: None, **settings)


# what is timed


def turns_of_a_round(name):
    """Return how many turns one `play` can take."""
    batches = {"kernel": 60, "step": 60, "random": 60, "threads": 60, "playout": 60, "torch": 60, "vector": 30, "observe": 1}
    if name in batches:
        return {batches[name] * GAMES}
    return {
        "one-seat": {30},
        "aec": {60},
        "raw": {60},
        "mcts": {60 * 64 * 100},
        "mcts-one": {60 * 100},
        "search": range(10_000, 1_000_000),
        "empty": {60},
        "connect-four": set(range(7, 43)),
        "pgx": range(peers.PGX_GAMES * 9, peers.PGX_GAMES * 60 + 1),
    }.get(name, range(peers.ROUNDS * 9, peers.ROUNDS * 60 + 1))


@pytest.mark.parametrize("name", INSTALLED)
def test_a_row_plays_whole_rounds_and_has_a_result(name):
    work = ROWS[name].setup(GAMES)
    for _ in range(3):
        timing = measure.measure(work, 0)
        assert timing["turns"] in turns_of_a_round(name)
        assert timing["seconds"] > 0
        assert math.isfinite(timing["result"])
    assert json.loads(json.dumps(timing)) == timing
    assert json.loads(json.dumps(work.facts)) == work.facts


def test_all_the_layers_can_be_timed_here():
    assert {row.name for row in layers.LAYERS} <= set(INSTALLED)


@pytest.mark.parametrize("name", ["step", "vector", "observe"])
def test_recorded_rounds_are_the_same_every_time(name):
    work = ROWS[name].setup(GAMES)
    results = {measure.measure(work, 0)["result"] for _ in range(4)}
    assert len(results) == 1
    assert results.pop() != 0


@pytest.mark.parametrize("name", ["random", "playout", "raw", "aec", "one-seat"])
def test_other_rounds_go_on_with_the_dice(name):
    work = ROWS[name].setup(GAMES)
    assert len({measure.measure(work, 0)["result"] for _ in range(12)}) > 1


def test_actions_that_are_illegal_can_not_go_unnoticed(monkeypatch):
    work = ROWS["step"].setup(GAMES)
    start = GameBatch.reset

    def other_opening(batch, **_):
        start(batch, seed=0)
        batch.step_random(np.random.default_rng(9))
        batch.ply -= 1

    monkeypatch.setattr(GameBatch, "reset", other_opening)
    with pytest.raises(IllegalMoveError):
        measure.measure(work, 0)


@pytest.mark.parametrize("make", [rolit_v0.env, empty_env.env])
def test_the_aec_loop_plays_what_the_mask_allows(make):
    env, played = make(), []

    class Watched:
        def __getattr__(self, name):
            return getattr(env, name)

        def step(self, action):
            if action is not None:
                assert env.observe(env.agent_selection)["action_mask"][action] == 1
                played.append(action)
            env.step(action)

    work = layers.aec_loop(Watched())
    assert (work.play(), len(played)) == (60, 60)
    assert len(set(played)) > 5


def test_bytes_a_game_are_measured():
    """At least the five words of each game, and not much of what does not grow with them."""
    few, many = (ROWS["random"].setup(games).facts["bytes_per_game"] for games in (1_000, 20_000))
    assert 40 <= many <= few < 2 * many


# the empty environment


def wrappers(env):
    names = []
    while hasattr(env, "env"):
        names.append(type(env).__name__)
        env = env.env
    return names


@pytest.mark.filterwarnings("ignore:Observation:UserWarning", "ignore:We recommend agents:UserWarning")
def test_the_empty_environment_is_one():
    env = empty_env.env()
    api_test(env, num_cycles=200)
    env.reset()
    turns = 0
    for agent in env.agent_iter():
        observation, reward, termination, truncation, _ = env.last()
        assert env.observation_space(agent).contains(observation)
        assert observation["action_mask"].nonzero()[0].tolist() == list(empty_env.LEGAL)
        assert (reward, truncation) == (0, False)
        env.step(None if termination else empty_env.LEGAL[turns % 8])
        turns += not termination
    assert turns == 60


def test_the_empty_environment_has_rolits_spaces_and_pettingzoos_wrappers():
    empty, rolit = empty_env.env(), rolit_v0.env()
    assert empty.possible_agents == rolit.possible_agents
    for agent in empty.possible_agents:
        assert empty.observation_space(agent) == rolit.observation_space(agent)
        assert empty.action_space(agent) == rolit.action_space(agent)
    assert wrappers(empty) == ["OrderEnforcingWrapper", "AssertOutOfBoundsWrapper", "TerminateIllegalWrapper"]


def test_pettingzoos_own_environments_have_these_wrappers():
    from pettingzoo.classic import connect_four_v3

    assert wrappers(connect_four_v3.env()) == wrappers(empty_env.env())


# one timing


def test_measure_counts_only_the_playing(monkeypatch):
    now = 0.0

    def wait(seconds):
        nonlocal now
        now += seconds

    def play():
        wait(0.25)
        return 10

    prepared = []
    work = Work(play, lambda: 7.0, prepare=lambda: (prepared.append(now), wait(100)))
    monkeypatch.setattr(measure, "perf_counter", lambda: now)
    assert measure.measure(work, 0.6) == {"turns": 30, "seconds": 0.75, "result": 7.0}
    assert len(prepared) == 3
    assert measure.measure(work, 0) == {"turns": 10, "seconds": 0.25, "result": 7.0}


# side by side


def test_a_report_has_every_row_and_ratio():
    said = []
    found = run.run_bench(["raw", "empty", "aec", "step", "threads"], **SMALL, progress=lambda *step: said.append(step))
    json.dumps(found)
    assert [(row["name"], row["games"]) for row in found["rows"]] == [
        ("step", GAMES),
        ("step", 9),
        ("threads", 9),
        ("aec", None),
        ("raw", None),
        ("empty", None),
    ]
    for row in found["rows"]:
        assert row["kind"] == ("peer" if row["name"] == "empty" else "layer")
        assert row["cores"] == (len(machine.cores()) if row["name"] == "threads" else 1)
        assert len(row["turns_per_second"]) == 2
        assert all(math.isfinite(rate) and rate > 0 for rate in row["turns_per_second"])
        assert math.isfinite(row["result"])
        assert not {"error", "missing"} & set(row)
    assert found["settings"] == {**SMALL, "threads": len(machine.cores())}
    flat = "step: best / worst number of games"
    assert [ratio["name"] for ratio in found["ratios"]] == ["aec / empty", flat]
    by_name = {row["name"]: row["turns_per_second"] for row in found["rows"]}
    quotients = sorted(aec / empty for aec, empty in zip(by_name["aec"], by_name["empty"], strict=True))
    ratio = found["ratios"][0]
    assert (ratio["lowest"], ratio["highest"], ratio["at_least"]) == (*quotients, 0.85)
    assert ratio["median"] == pytest.approx(sum(quotients) / 2)
    assert found["ratios"][1]["median"] >= 1

    # One after the other, twice around, after all have started.
    order = ["step", "step", "threads", "aec", "raw", "empty"]
    assert [name for _, name, _, _ in said] == order * 3
    assert [what for what, *_ in said] == [w for w in ("starting", "round 1", "round 2") for _ in order]
    assert [(done, total) for *_, done, total in said][6:] == [(done, 12) for done in range(12)]


def test_what_is_not_installed_is_said_and_not_started(stand_in, monkeypatch):
    stand_in(works(needs=("no_such_package_anywhere",), install="no-such-package"))
    monkeypatch.setattr(run, "start_pinned", None)
    (row,) = run.run_bench(["works"], **SMALL)["rows"]
    assert row["missing"] == "pip install no-such-package"
    assert "turns_per_second" not in row


def test_a_process_that_fails_spoils_nothing_else(stand_in):
    stand_in(works("nonsense"), ROWS["raw"])
    failed, raw = run.run_bench(["nonsense", "raw"], **SMALL)["rows"]
    assert failed["error"] == "KeyError: 'nonsense'"
    assert "turns_per_second" not in failed
    assert len(raw["turns_per_second"]) == 2


def test_a_process_that_dies_between_timings_is_noticed(monkeypatch):
    started = []
    start = run.start_pinned

    def spy(*arguments, **settings):
        started.append(start(*arguments, **settings))
        return started[-1]

    def kill_in_the_second_round(what, *_):
        if what == "round 2":
            started[0].kill()
            started[0].wait()

    monkeypatch.setattr(run, "start_pinned", spy)
    found = run.run_bench(["raw", "empty"], **SMALL, progress=kill_in_the_second_round)
    raw, empty = found["rows"]
    assert raw["error"] == "the process ended without a word"
    assert "turns_per_second" not in raw
    assert len(empty["turns_per_second"]) == 2
    assert found["ratios"] == []


def test_breaking_off_ends_all_processes(monkeypatch):
    started = []
    start = run.start_pinned

    def spy(*arguments, **settings):
        started.append(start(*arguments, **settings))
        return started[-1]

    def break_off(what, *_):
        if what == "round 1":
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "start_pinned", spy)
    with pytest.raises(KeyboardInterrupt):
        run.run_bench(["raw", "empty"], **SMALL, progress=break_off)
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_processes_get_the_cores_of_their_row():
    before = machine.cores()
    program = "from rolit_env.bench.machine import cores; import numba, os; print(cores(), numba.config.NUMBA_NUM_THREADS)"
    for pinned in (before[-1:], before):
        with run.start_pinned([sys.executable, "-c", program], pinned, stdout=subprocess.PIPE) as process:
            out, _ = process.communicate()
        assert out == f"{pinned} {len(pinned)}\n"
    assert machine.cores() == before


def test_threads_are_counted_where_cores_can_not_be_chosen(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    program = "import numba, os; print(numba.config.NUMBA_NUM_THREADS, os.environ['OMP_NUM_THREADS'])"
    with run.start_pinned([sys.executable, "-c", program], [0] * 3, stdout=subprocess.PIPE) as process:
        out, _ = process.communicate()
    assert out == "3 3\n"


@pytest.mark.parametrize(
    ("names", "settings", "complaint"),
    [
        (["stepp"], {}, "'stepp'"),
        (["step", "Step"], {}, "allowed are kernel, step, random"),
        (["pgx"], {"peers": False}, "allowed are kernel, step, random"),
        (None, {"threads": 0}, "threads=0"),
        (None, {"threads": 10**6}, "allowed are 1 to"),
    ],
)
def test_what_can_not_be_timed_is_refused_before_anything_starts(monkeypatch, names, settings, complaint):
    monkeypatch.setattr(run, "start_pinned", None)
    with pytest.raises(OptionError, match=complaint):
        run.run_bench(names, **SMALL, **settings)


def test_without_peers_only_layers_are_left():
    assert run._chosen(None, False) == [*(row.name for row in layers.LAYERS), "learner"]
    assert run._chosen(None, True) == list(run.NAMES)
    assert run._chosen(["pgx", "step"], False) == ["step"]


# the learner


def speed_program(root, body):
    """Make a checkout whose learner's program is `body`."""
    (root / "training").mkdir()
    (root / "training" / "__init__.py").write_text("")
    (root / "training" / "speed.py").write_text(f"import json, sys\nfrom pathlib import Path\n{body}\n")


def test_the_learners_rows_come_from_its_own_program(monkeypatch, tmp_path):
    rows = [
        {"name": "play", "turns_per_second": [1.0, 3.0]},
        {"name": "learn", "title": "gradients", "turns_per_second": [2.0]},
    ]
    asked = "assert sys.argv[1:4] == ['--only', 'learner', '--json']"
    speed_program(tmp_path, f"{asked}; Path(sys.argv[4]).write_text(json.dumps({{'rows': {rows!r}}}))")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    found = run.run_bench(["learner"], **SMALL)
    cores = len(machine.cores())
    assert found["rows"] == [
        {"kind": "learner", "games": None, "cores": cores, "title": "play", **rows[0]},
        {"kind": "learner", "games": None, "cores": cores, **rows[1]},
    ]
    assert report.speed_cells({**found, "version": "1"})[0] == ("play", "play", str(cores), "2.00", "1.00", "3.00")


@pytest.mark.parametrize(
    ("body", "error"),
    [("sys.exit('no network')", "no network"), ("sys.exit(3)", "the process ended without a word")],
)
def test_a_learner_that_fails_is_a_row_too(monkeypatch, tmp_path, body, error):
    speed_program(tmp_path, body)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    (row,) = run.run_bench(["learner"], **SMALL)["rows"]
    assert row["error"] == error


def test_without_a_checkout_there_is_no_learner(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "ROOT", tmp_path)
    (row,) = run.run_bench(["learner"], **SMALL)["rows"]
    assert "checkout" in row["missing"]


# the machine


def test_the_machine_is_described():
    found = json.loads(json.dumps(machine.describe()))
    assert found["processor"]
    assert set(found["features"]) <= set(machine.FEATURES)
    assert 1 <= found["cores"] <= os.cpu_count()
    assert found["versions"]["numba"] == metadata.version("numba")
    assert found["versions"]["python"] == "{}.{}.{}".format(*sys.version_info)


def test_a_commit_is_named_in_a_checkout_only(monkeypatch, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "start"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert machine.describe()["commit"] == commit
    (tmp_path / "site-packages").mkdir()
    monkeypatch.setattr(machine, "ROOT", tmp_path / "site-packages")
    assert machine.describe()["commit"] is None


# the command


def test_the_command_shows_and_writes_the_same(capsys, tmp_path):
    file = tmp_path / "speed.json"
    options = ["--repeats", "3", "--seconds", "0.001", "--games", "6", "--no-peers", "--only", "raw", "random", "empty"]
    assert cli.main(["bench", *options, "--json", str(file)]) == 0
    out, err = capsys.readouterr()
    found = json.loads(file.read_text())
    assert list(tmp_path.iterdir()) == [file]
    assert found["command"] == ["rolit", "bench", *options, "--json", str(file)]
    assert found["version"] == metadata.version("rolit-env")
    assert [row["name"] for row in found["rows"]] == ["random", "raw"]
    for cells in report.speed_cells(found):
        (line,) = [line for line in out.splitlines() if line.split()[:1] == [cells[0]]]
        assert line.split("  ")[-1].strip() == cells[-1]
    assert " ".join(out.split()).startswith(report.conditions(found))
    assert err.splitlines() == [
        "starting (0 of 6 timings done)",
        "round 1 (0 of 6 timings done)",
        "round 2 (2 of 6 timings done)",
        "round 3 (4 of 6 timings done)",
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--only stepp", "'stepp'"),
        ("--only", "--only"),
        ("--only pgx --no-peers", "allowed are kernel, step"),
        ("--repeats 0", "from 1 up"),
        ("--games 0", "from 1 up"),
        ("--games 1 x", "'x'"),
        ("--threads 0", "from 1 up"),
        ("--threads 1000000", "allowed are 1 to"),
        ("--seconds 0", "above 0"),
        ("--seconds x", "'x'"),
        ("--seconds nan", "above 0"),
        ("--json no/such/folder/speed.json", "folder must exist"),
        ("--size 6", "--size"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(capsys, monkeypatch, line, complaint):
    monkeypatch.setattr(run, "start_pinned", None)
    assert cli.main(["bench", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rolit: ")
    assert err.count("\n") == 1
    assert complaint in err


def test_a_run_that_fails_leaves_the_old_file(capsys, monkeypatch, tmp_path):
    file = tmp_path / "speed.json"
    file.write_text("old")
    assert cli.main(["bench", "--only", "nonsense", "--json", str(file)]) == 2
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "old"


def test_help_explains_it_with_examples_that_parse(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["bench", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 90
    for name in run.NAMES:
        assert name in text
    examples = [line.split("rolit ")[1].split() for line in text.split("example:")[1].splitlines()]
    assert len(examples) == 2
    for example in examples:
        assert cli.build_parser().parse_args(example)


def test_the_command_line_loads_no_peer():
    heavy = {"jax", "pgx", "pyspiel", "rust_reversi", "torch", "pygame"}
    program = f"import rolit_env.cli, sys; print(*({heavy} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout == "\n"


# tables


def example():
    row = {"kind": "layer", "cores": 1}
    return {
        "version": "1.2.3",
        "date": "2030-01-02T03:04+00:00",
        "machine": {
            "processor": "Abacus",
            "features": ["AVX2"],
            "cores": 4,
            "system": "Linux",
            "versions": {"python": "3.11.7"},
            "commit": "0123456789abcdef-dirty",
        },
        "settings": {"games": [8, 16], "repeats": 3, "seconds": 0.5, "threads": 2},
        "rows": [
            {**row, "name": "step", "title": "`step`, 8", "games": 8, "turns_per_second": [4e8, 4.12345e8, 5e8]},
            {**row, "name": "step", "title": "`step`, 16", "games": 16, "turns_per_second": [2e8, 1.9999e9, 2e8]},
            {**row, "name": "random", "title": "b", "games": 8, "turns_per_second": [56e6, 56e6, 1e6], "bytes_per_game": 64.4},
            {**row, "name": "raw", "title": "c", "games": None, "turns_per_second": [99951.0, 25312.0, 25.0]},
            {**row, "name": "pgx", "title": "d", "games": None, "missing": "pip install pgx"},
            {**row, "name": "torch", "title": "e", "games": 8, "error": "it broke"},
        ],
        "ratios": [
            {"name": "step / raw", "median": 1234.5, "lowest": 80.04, "highest": 1.0, "at_least": 0.85},
            {"name": "flat", "median": 1.1, "lowest": 1.0, "highest": 1.25, "at_most": 1.2},
        ],
    }


def test_markdown_shows_medians_and_spread():
    assert report.markdown(example()) == (
        "Abacus with AVX2, 2 of 4 cores, Linux; python 3.11.7; rolit-env 1.2.3, commit 0123456789 with changes, 2030-01-02. "
        "Medians of 3\ntimings of at least 0.5 s, taken in turns.\n"
        "\n"
        "| name | what | cores | turns/s | lowest | highest |\n"
        "| --- | --- | ---: | ---: | ---: | ---: |\n"
        "| step | `step`, 8 | 1 | 412 M | 400 M | 500 M |\n"
        "| random | b | 1 | 56.0 M | 1.00 M | 56.0 M |\n"
        "| raw | c | 1 | 25,300 | 25.0 | 100,000 |\n"
        "| pgx | d | 1 | not installed |  |  |\n"
        "| torch | e | 1 | failed |  |  |\n"
        "\n"
        "pgx is not installed: pip install pgx\n"
        "\n"
        "torch failed: it broke\n"
        "\n"
        "| how many times as fast | median | lowest | highest | goal |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| step / raw | 1,230 | 80.0 | 1.00 | at least 0.85 |\n"
        "| flat | 1.10 | 1.00 | 1.25 | at most 1.2 |\n"
    )
    assert report.size_markdown(example()) == (
        "| games side by side | step, ns a turn | random, ns a turn | bytes a game |\n"
        "| ---: | ---: | ---: | ---: |\n"
        "| 8 | 2.43 | 17.9 | 64 |\n"
        "| 16 | 5.00 |  |  |\n"
    )


def test_the_documents_show_the_committed_results(tmp_path):
    """The script that fills in the tables changes nothing any more."""
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    subprocess.run([sys.executable, str(tmp_path / "docs" / "speed_table.py")], check=True, timeout=60)
    found = json.loads((ROOT / "docs" / "bench.json").read_text(encoding="utf-8"))
    for name, table in (("README.md", report.markdown(found)), ("docs/speed.md", report.size_markdown(found))):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert (tmp_path / name).read_text(encoding="utf-8") == text
        assert text.count(table) == 1


def test_the_committed_results_are_complete():
    found = json.loads((ROOT / "docs" / "bench.json").read_text(encoding="utf-8"))
    assert {row["name"] for row in found["rows"]} >= set(ROWS)
    assert found["machine"]["commit"]
    for row in found["rows"]:
        assert len(row["turns_per_second"]) >= 5, row["name"]
    for _, other, _ in run.RATIOS:
        assert any(ratio["name"].endswith(f"/ {other}") for ratio in found["ratios"])


def test_documents_explain_every_row_and_pin_every_peer():
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")} == set(run.NAMES)
    pins = set()
    for path in (ROOT / "constraints.txt", ROOT / "constraints-bench.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        pins |= {canonicalize_name(line.split("==")[0]) for line in lines if "==" in line and not line.startswith("#")}
    for row in PEERS:
        assert not row.install or canonicalize_name(row.install) in pins


def test_a_failure_is_an_exit_code_and_the_other_figures_are_there(stand_in, capsys, tmp_path):
    stand_in(works("nonsense"), ROWS["raw"])
    command = ["bench", "--only", "nonsense", "--only", "raw", "--repeats", "1", "--seconds", "0.001"]
    assert cli.main([*command, "--json", str(tmp_path / "out.json")]) == 2
    printed = capsys.readouterr()
    assert "what failed: nonsense; the other figures hold" in printed.err
    assert "raw_env" in printed.out
    assert len(json.loads((tmp_path / "out.json").read_text())["rows"]) == 2
