"""Agents: what descriptions build, what each baseline plays, and which policy files are refused."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rolit_env.agents import AGENTS, Agent, GreedyAgent, PolicyAgent, PositionalAgent, RandomAgent, make_agent
from rolit_env.agents.policy import OBSERVATION_VERSION
from rolit_env.agents.scripted import cell_grades
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import AgentError, IllegalMoveError, ModelFileError, RoundOverError, VariantError
from rolit_env.notation import parse_cell
from rolit_env.variant import Variant, all_variants, variant
from tests.oracle import VARIANTS, Oracle, cell_name

ALL_VARIANTS = pytest.mark.parametrize(("size", "players"), VARIANTS)
BASELINES = pytest.mark.parametrize("name", ["random", "greedy", "positional"])


def random_batch(games: int, size: int, players: int, turns: int, seed: int = 0) -> GameBatch:
    batch = GameBatch(games, size=size, players=players, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(turns):
        batch.step(batch.random_actions(rng))
    return batch


def everything(games: GameBatch) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in vars(games).items()}


def oracle_of(board: Board) -> Oracle:
    size = board.size
    oracle = Oracle(size, board.players, board.starter)
    oracle.turns = board.ply
    oracle.grid = [[board.color_at(row * size + column) for column in range(size)] for row in range(size)]
    return oracle


# Descriptions.


def test_names_build_agents() -> None:
    kinds = {"random": RandomAgent, "greedy": GreedyAgent, "positional": PositionalAgent}
    for name, kind in kinds.items():
        assert AGENTS[name] is kind
        for description in (name, f"{name}:"):
            agent = make_agent(description)
            assert type(agent) is kind
            assert agent.name == name


@pytest.mark.parametrize(
    "description", ["", "Greedy", "greedy ", "gredy", "alphazero", ":", "random,greedy", "model.onnx2", "onnx"]
)
def test_unknown_names_are_refused_and_the_known_listed(description: str) -> None:
    with pytest.raises(AgentError, match=r"no agent .*known are random, greedy, positional.* paths that end in .onnx"):
        make_agent(description)


@pytest.mark.parametrize("options", ["depth=4", "depth", "=", "=4", ",", "depth=4,width=2"])
def test_options_of_agents_without_any_are_refused(options: str) -> None:
    with pytest.raises(AgentError, match=r"greedy has no option .*known are: none"):
        make_agent(f"greedy:{options}")


class Thinker(RandomAgent):
    def __init__(self, depth: int = 4, width: float = 0.5, label: str = "x") -> None:
        self.given = (depth, width, label)


@pytest.fixture
def thinker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AGENTS, "thinker", Thinker)


@pytest.mark.usefixtures("thinker")
def test_options_get_the_types_of_their_parameters() -> None:
    for description, given in {
        "thinker": (4, 0.5, "x"),
        "thinker:depth=6": (6, 0.5, "x"),
        "thinker:width=2,depth=1": (1, 2.0, "x"),
        "thinker:label=a=b": (4, 0.5, "a=b"),
    }.items():
        agent = make_agent(description)
        assert isinstance(agent, Thinker)
        assert agent.given == given
        assert [type(value) for value in agent.given] == [int, float, str]


@pytest.mark.usefixtures("thinker")
def test_bad_options_are_refused_and_the_known_listed() -> None:
    for options in ("deep=4", "depth", "depth=4,", "depth=4,,width=1"):
        with pytest.raises(AgentError, match=r"thinker has no option .*known are: depth, width, label "):
            make_agent(f"thinker:{options}")
    for key, value, wanted in (
        ("depth", "four", "int"),
        ("depth", "4.5", "int"),
        ("depth", "", "int"),
        ("width", "wide", "float"),
    ):
        with pytest.raises(AgentError, match=f"thinker can't take {key}='{value}'; it must be of type {wanted}"):
            make_agent(f"thinker:{key}={value}")


# What every baseline does.


@BASELINES
@ALL_VARIANTS
def test_baselines_play_whole_rounds_and_leave_the_games_as_they_are(name: str, size: int, players: int) -> None:
    agent = make_agent(name)
    games = GameBatch(10, size=size, players=players, seed=1)
    rng = np.random.default_rng(1)
    agent.check_variant(games.variant)
    while not games.done:
        before = everything(games)
        actions = agent.act(games, rng)
        assert actions.shape == (10,)
        assert actions.dtype == np.int64
        assert everything(games) == before
        games.step(actions)
    single = GameBatch(1, size=size, players=players)
    assert agent.act(single, rng).shape == (1,)


@BASELINES
def test_all_chance_comes_from_the_generator(name: str) -> None:
    def round_of(seed: int) -> list[list[int]]:
        games, rng = GameBatch(50, players=3, starter="red"), np.random.default_rng(seed)
        played = []
        while not games.done:
            played.append(make_agent(name).act(games, rng).tolist())
            games.step(played[-1])
        return played

    assert round_of(1) == round_of(1)
    assert round_of(1) != round_of(2)


def assert_uniform(actions: np.ndarray, cells: list[int], limit: float) -> None:
    """Assert that the actions spread evenly over `cells` and nothing else: chi-square below `limit`."""
    counts = np.bincount(actions, minlength=64)
    assert counts[cells].sum() == len(actions)
    expected = len(actions) / len(cells)
    assert ((counts[cells] - expected) ** 2 / expected).sum() < limit


CHI_SQUARE_001 = {2: 10.83, 3: 13.82, 14: 34.53}
"""The limit that chance exceeds once in a thousand, by number of cells."""


def test_random_is_uniform() -> None:
    games = GameBatch(28_000, players=4, starter="red")
    games.step(np.full(28_000, parse_cell("f4", 8)))
    names = "c3 c4 c5 c6 d3 d6 e3 e6 f3 f5 f6 g3 g4 g5"
    cells = [parse_cell(name, 8) for name in names.split()]
    assert_uniform(make_agent("random").act(games, np.random.default_rng(2)), cells, CHI_SQUARE_001[14])


@ALL_VARIANTS
def test_greedy_rolls_most_balls(size: int, players: int) -> None:
    games = GameBatch(6, size=size, players=players, seed=3)
    rng = np.random.default_rng(3)
    agent = make_agent("greedy")
    while not games.done:
        actions = agent.act(games, rng)
        for at, action in enumerate(actions.tolist()):
            oracle = oracle_of(games.board(at))
            assert divmod(action, size) in oracle.legal()
            most = max(len(oracle.rolled(*cell)) for cell in oracle.legal())
            assert len(oracle.rolled(*divmod(action, size))) == most
        games.step(games.random_actions(rng))


def test_greedy_draws_among_its_favourites() -> None:
    games = GameBatch(15_000, players=4, starter="red")
    cells = [parse_cell(name, 8) for name in ("d6", "f4", "f6")]
    assert_uniform(make_agent("greedy").act(games, np.random.default_rng(4)), cells, CHI_SQUARE_001[3])


GRADES = {
    8: """\
4 0 3 2 2 3 0 4
0 0 1 1 1 1 0 0
3 1 2 2 2 2 1 3
2 1 2 2 2 2 1 2
2 1 2 2 2 2 1 2
3 1 2 2 2 2 1 3
0 0 1 1 1 1 0 0
4 0 3 2 2 3 0 4""",
    6: """\
4 0 3 3 0 4
0 0 1 1 0 0
3 1 2 2 1 3
3 1 2 2 1 3
0 0 1 1 0 0
4 0 3 3 0 4""",
    4: """\
4 0 0 4
0 0 0 0
0 0 0 0
4 0 0 4""",
}


@pytest.mark.parametrize("size", [8, 6, 4])
def test_cell_grades(size: int) -> None:
    assert cell_grades(size) == tuple(int(grade) for grade in GRADES[size].split())


@ALL_VARIANTS
def test_positional_takes_the_best_grade(size: int, players: int) -> None:
    grades = [int(grade) for grade in GRADES[size].split()]
    games = GameBatch(6, size=size, players=players, seed=5)
    rng = np.random.default_rng(5)
    agent = make_agent("positional")
    while not games.done:
        actions = agent.act(games, rng)
        for at, action in enumerate(actions.tolist()):
            legal = [row * size + column for row, column in oracle_of(games.board(at)).legal()]
            assert action in legal
            assert grades[action] == max(grades[cell] for cell in legal)
        games.step(games.random_actions(rng))


def test_positional_draws_among_its_favourites() -> None:
    games = GameBatch(15_000, players=4, starter="red")
    assert {cell_name(divmod(move, 8)) for move in Board(8, 4).legal_moves} == {"d6", "f4", "f6"}
    cells = [parse_cell(name, 8) for name in ("d6", "f4", "f6")]  # all medium
    assert_uniform(make_agent("positional").act(games, np.random.default_rng(6)), cells, CHI_SQUARE_001[3])


@BASELINES
def test_baselines_refuse_full_boards(name: str) -> None:
    games = random_batch(3, 4, 2, turns=12)
    with pytest.raises(RoundOverError):
        make_agent(name).act(games, np.random.default_rng(0))


# Policy files. The smallest policy there is: the later a legal cell, the better; the values are 0.1, 0.2, …


def ramp_policy(size: int, players: int, *, masked: bool = True, rename: dict[str, str] | None = None) -> onnx.ModelProto:
    """Build the policy: logits are action/10 where legal and −1e9 elsewhere (everywhere action/10 when not `masked`)."""
    cells = size * size
    names = {name: name for name in ("planes", "mask", "logits", "values")} | (rename or {})
    constants = {
        "ramp": np.arange(cells, dtype=np.float32) / 10,
        "one": np.ones(1, np.float32),
        "hopeless": np.full(1, 1e9 if masked else 0, np.float32),
        "worth": np.arange(1, players + 1, dtype=np.float32) / 10,
        "no_planes": np.zeros((4 * cells, players), np.float32),
    }
    nodes = [
        helper.make_node("Cast", [names["mask"]], ["legal"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["legal", "one"], ["off"]),
        helper.make_node("Mul", ["off", "hopeless"], ["penalty"]),
        helper.make_node("Add", ["penalty", "ramp"], [names["logits"]]),
        helper.make_node("Cast", [names["planes"]], ["balls"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["balls"], ["flat"]),
        helper.make_node("MatMul", ["flat", "no_planes"], ["zero"]),
        helper.make_node("Add", ["zero", "worth"], [names["values"]]),
    ]
    graph = helper.make_graph(
        nodes,
        "ramp",
        [
            helper.make_tensor_value_info(names["planes"], TensorProto.INT8, ["N", 4, size, size]),
            helper.make_tensor_value_info(names["mask"], TensorProto.INT8, ["N", cells]),
        ],
        [
            helper.make_tensor_value_info(names["logits"], TensorProto.FLOAT, ["N", cells]),
            helper.make_tensor_value_info(names["values"], TensorProto.FLOAT, ["N", players]),
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def card(size: int, players: int) -> dict[str, Any]:
    return {"variant": {"size": size, "players": players}, "observation_version": OBSERVATION_VERSION}


def save_policy(folder: Path, size: int = 8, players: int = 2, name: str = "ramp", **options: Any) -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(ramp_policy(size, players, **options), path)
    path.with_suffix(".json").write_text(json.dumps(card(size, players)), encoding="utf-8")
    return path


@ALL_VARIANTS
def test_a_policy_plays_the_highest_logit(size: int, players: int, tmp_path: Path) -> None:
    path = save_policy(tmp_path, size, players)
    agent = make_agent(str(path))
    assert isinstance(agent, PolicyAgent)
    assert agent.name == str(path)
    assert agent.variant == variant(size, players)
    for count in (1, 7):
        games = random_batch(count, size, players, turns=5, seed=count)
        before = everything(games)
        actions = agent.act(games, np.random.default_rng(0))
        assert actions.dtype == np.int64
        assert actions.tolist() == [games.board(at).legal_moves[-1] for at in range(count)]
        logits, values = agent.evaluate(games)
        assert logits.shape == (count, size * size)
        assert np.isfinite(logits).all()
        assert (logits[games.legal_mask() == 0] < -1e8).all()
        np.testing.assert_allclose(values, np.tile(np.arange(1, players + 1) / 10, (count, 1)), rtol=1e-6)
        assert everything(games) == before
        while not games.done:
            games.step(agent.act(games, np.random.default_rng(0)))
        with pytest.raises(RoundOverError):
            agent.act(games, np.random.default_rng(0))


def test_a_temperature_draws_from_the_softmax(tmp_path: Path) -> None:
    path = save_policy(tmp_path, players=4)
    agent = make_agent(f"{path}:temperature=2")
    assert agent.name == f"{path}:temperature=2"
    games = GameBatch(30_000, players=4, starter="red")
    cells = [parse_cell(name, 8) for name in ("f4", "d6", "f6")]
    chances = np.exp(np.array(cells) / 10 / 2)
    expected = chances / chances.sum() * 30_000
    actions = agent.act(games, np.random.default_rng(8))
    counts = np.bincount(actions, minlength=64)[cells]
    assert counts.sum() == 30_000
    assert ((counts - expected) ** 2 / expected).sum() < CHI_SQUARE_001[3]
    np.testing.assert_array_equal(actions, agent.act(games, np.random.default_rng(8)))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_a_policy_can_be_copied_and_pickled(duplicate: Any, tmp_path: Path) -> None:
    agent = make_agent(f"{save_policy(tmp_path)}:temperature=2")
    twin = duplicate(agent)
    assert twin.name == agent.name
    games = random_batch(20, 8, 2, turns=5)
    acts = (one.act(games, np.random.default_rng(0)).tolist() for one in (agent, twin))
    assert next(acts) == next(acts)


def test_a_very_high_temperature_still_plays_legal_cells(tmp_path: Path) -> None:
    agent = PolicyAgent(save_policy(tmp_path), temperature=1e30)
    games = random_batch(200, 8, 2, turns=9)
    actions = agent.act(games, np.random.default_rng(0))
    assert games.legal_mask()[np.arange(200), actions].all()
    assert len(set(actions.tolist())) > 10


@pytest.mark.parametrize(
    "options", ["temperature=-1", "temperature=nan", "temperature=inf", "temperature=hot", "heat=1", "path=x"]
)
def test_bad_options_of_a_policy_are_refused(options: str, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="temperature"):
        make_agent(f"{save_policy(tmp_path)}:{options}")


@pytest.mark.parametrize(("threads", "used"), [(None, 0), ("1", 1), ("3", 3), ("many", 0)])
def test_processes_that_share_the_cores_can_say_so(tmp_path, monkeypatch, threads, used):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    agent = PolicyAgent(save_policy(tmp_path))
    assert agent._session.get_session_options().intra_op_num_threads == used


def test_a_path_may_hold_colons_and_the_ending_twice(tmp_path: Path) -> None:
    folder = tmp_path / "a:b=c"
    folder.mkdir()
    assert isinstance(make_agent(f"{save_policy(folder)}:temperature=1"), PolicyAgent)
    assert isinstance(make_agent(str(save_policy(tmp_path, name="best.onnx"))), PolicyAgent)


def test_a_policy_refuses_other_variants(tmp_path: Path) -> None:
    agent = make_agent(str(save_policy(tmp_path, 6, 3)))
    for other in all_variants():
        if other == variant(6, 3):
            agent.check_variant(other)
            continue
        with pytest.raises(VariantError, match=f"trained for 6x6-3p and can't play {other.name}"):
            agent.check_variant(other)
        with pytest.raises(VariantError, match=f"trained for 6x6-3p and can't play {other.name}"):
            agent.act(GameBatch(2, size=other.size, players=other.players), np.random.default_rng(0))


def test_a_policy_that_ignores_its_mask_is_caught_by_the_rules(tmp_path: Path) -> None:
    agent = make_agent(str(save_policy(tmp_path, masked=False)))
    games = GameBatch(2)
    with pytest.raises(IllegalMoveError):
        games.step(agent.act(games, np.random.default_rng(0)))
    assert games.ply == 0


def write_card(path: Path, content: Any) -> None:
    path.with_suffix(".json").write_text(json.dumps(content), encoding="utf-8")


def without_model(path: Path) -> None:
    path.unlink()


def without_card(path: Path) -> None:
    path.with_suffix(".json").unlink()


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no model": (without_model, "there is no policy file"),
    "no card": (without_card, "has no card"),
    "model is a folder": (lambda path: (path.unlink(), path.mkdir()), "there is no policy file"),
    "card is a folder": (lambda path: (without_card(path), path.with_suffix(".json").mkdir()), "can't be read"),
    "empty model": (lambda path: path.write_bytes(b""), "no ONNX file"),
    "foreign model": (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" * 100), "no ONNX file"),
    "text as model": (lambda path: path.write_text("{}"), "no ONNX file"),
    "model cut short": (lambda path: path.write_bytes(path.read_bytes()[:-200]), "no ONNX file"),
    "deeply nested card": (lambda path: path.with_suffix(".json").write_text("[" * 100_000), "can't be read as JSON"),
    "other sum": (lambda path: write_card(path, card(8, 2) | {"sha256": "0"}), "not the file its card describes"),
    "empty card": (lambda path: path.with_suffix(".json").write_text(""), "can't be read as JSON"),
    "card cut short": (lambda path: path.with_suffix(".json").write_text('{"variant": {"si'), "can't be read as JSON"),
    "binary card": (lambda path: path.with_suffix(".json").write_bytes(b"\xff\xfe\x00\x80"), "can't be read as JSON"),
    "card is a list": (lambda path: write_card(path, [1, 2]), "must be a JSON object"),
    "foreign card": (lambda path: write_card(path, {"name": "rolit"}), "must name a variant"),
    "variant is a name": (lambda path: write_card(path, card(8, 2) | {"variant": "8x8-2p"}), "must name a variant"),
    "variant is a list": (lambda path: write_card(path, card(8, 2) | {"variant": [8, 2]}), "must name a variant"),
    "no such variant": (lambda path: write_card(path, card(4, 4)), "must name a variant"),
    "size is a list": (lambda path: write_card(path, card([8], 2)), "must name a variant"),  # type: ignore[arg-type]
    "no observation version": (lambda path: write_card(path, {"variant": {"size": 8, "players": 2}}), "observation version"),
    "future observation version": (
        lambda path: write_card(path, card(8, 2) | {"observation_version": OBSERVATION_VERSION + 1}),
        f"needs observation version {OBSERVATION_VERSION + 1}; this release has version {OBSERVATION_VERSION}",
    ),
    "card of more players": (lambda path: write_card(path, card(8, 4)), "a policy for 8x8-4p must have"),
    "card of a smaller board": (lambda path: write_card(path, card(6, 2)), "a policy for 6x6-2p must have"),
    "other names": (lambda path: onnx.save(ramp_policy(8, 2, rename={"mask": "allowed"}), path), "must have"),
    "other outputs": (lambda path: onnx.save(ramp_policy(8, 2, rename={"values": "value"}), path), "must have"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_policies_are_refused(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = save_policy(tmp_path)
    damage, message = DAMAGES[name]
    damage(path)
    with pytest.raises(ModelFileError, match=message) as caught:
        make_agent(str(path))
    assert path.stem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""  # one sentence, and no log lines beside it


def test_loading_a_policy_imports_no_torch(tmp_path: Path) -> None:
    program = f"""
import sys
import numpy as np
from rolit_env import GameBatch, make_agent
assert not {{"torch", "pygame", "onnxruntime", "matplotlib"}} & set(sys.modules)
games = GameBatch(3)
games.step(make_agent({str(save_policy(tmp_path))!r}).act(games, np.random.default_rng(0)))
assert "onnxruntime" in sys.modules
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_agents_say_what_they_are_missing() -> None:
    class Silent(Agent):
        name = "silent"

    with pytest.raises(TypeError, match="act"):
        Silent()


def test_agents_play_every_variant_unless_they_say_otherwise() -> None:
    for chosen in all_variants():
        assert isinstance(chosen, Variant)
        for name in ("random", "greedy", "positional"):
            make_agent(name).check_variant(chosen)
