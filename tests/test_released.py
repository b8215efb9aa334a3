"""Released models by their short names: in a checkout, where the package is installed, in options, and in the wheel."""

import copy
import tomllib
from pathlib import Path

import numpy as np
import pytest

from rolit_env import GameBatch, cli, make_agent, released
from rolit_env.agents import NTupleAgent, PolicyAgent
from rolit_env.errors import AgentError, ModelFileError
from rolit_env.released import ENDINGS, file_of, models_folder, released_files
from rolit_env.variant import all_variants, variant
from tests.commands import refused

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "models").glob("[!.]*") if path.suffix in ENDINGS)


def test_all_files_have_a_name_and_a_card():
    assert list(released_files()) == NAMES
    for name, path in released_files().items():
        assert path == ROOT / "models" / path.name
        assert path.with_suffix(".json").is_file(), name


def test_there_are_tables_for_every_variant():
    assert {name for name, path in released_files().items() if path.suffix == ".safetensors"} == {
        f"{chosen.name}-ntuple" for chosen in all_variants()
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_file_wherever_one_is(name, tmp_path, monkeypatch):
    path = released_files()[name]
    size, players = int(name[0]), int(name[4])
    games = GameBatch(20, size=size, players=players, seed=0)
    games.step_random(np.random.default_rng(0), 3)
    by_path = make_agent(str(path))
    monkeypatch.chdir(tmp_path)
    agent = make_agent(name)
    assert agent.name == name
    assert copy.deepcopy(agent).name == name
    agent.check_variant(variant(size, players))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(agent.act(games, rng), by_path.act(games, rng))


def test_names_stand_in_options_and_take_options_too():
    assert make_agent("8x8-2p:temperature=1").temperature == 1
    assert make_agent("8x8-2p:temperature=1").name == "8x8-2p:temperature=1"
    agent = make_agent("alphabeta:depth=4,eval=8x8-2p-ntuple")
    assert agent.name == "alphabeta:depth=4,eval=8x8-2p-ntuple"
    assert agent.ntuples.variant == variant(8, 2)
    assert make_agent("mcts:simulations=5,policy=8x8-2p").policy.path == released_files()["8x8-2p"]
    assert make_agent("mcts:simulations=5,eval=8x8-2p-ntuple").ntuples.variant == variant(8, 2)
    assert PolicyAgent("8x8-2p").path == released_files()["8x8-2p"]
    assert NTupleAgent(Path("8x8-2p-ntuple")).name == "8x8-2p-ntuple"


@pytest.mark.parametrize(
    ("description", "error", "listed"),
    [
        ("8x8-5p", AgentError, NAMES),
        ("mcts:policy=8x8-5p", ModelFileError, ["8x8-2p", "8x8-4p"]),
        ("mcts:policy=8x8-2p-ntuple", ModelFileError, ["8x8-2p", "8x8-4p"]),
        ("alphabeta:eval=8x8-5p-ntuple", ModelFileError, ["4x4-2p-ntuple", "8x8-4p-ntuple"]),
    ],
)
def test_a_wrong_name_is_told_the_right_ones(description, error, listed):
    with pytest.raises(error, match="released") as caught:
        make_agent(description)
    for name in listed:
        assert f" {name}," in f"{caught.value},"


def test_the_command_line_names_them(capsys):
    for name in NAMES:
        assert f" {name}" in refused(capsys, "evaluate", "8x8-5p", "--against", "random")
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "--help"])
    shown = capsys.readouterr().out.split()
    for name in NAMES:
        assert name in [word.strip(",;") for word in shown]


def test_where_the_package_is_installed_its_own_folder_counts(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "rolit_env"
    (package / "models").mkdir(parents=True)
    monkeypatch.setattr(released, "PACKAGE", package)
    assert models_folder() == package / "models"
    for name in ("a.onnx", "a.json", "a.png", "b.safetensors", ".c.7.onnx"):
        (package / "models" / name).touch()
    assert released_files() == {"a": package / "models" / "a.onnx", "b": package / "models" / "b.safetensors"}
    assert file_of("a", ".onnx") == package / "models" / "a.onnx"
    assert file_of("b", ".onnx") == Path("b")
    assert file_of("models/a.onnx", ".onnx") == Path("models/a.onnx")
    for path in (package / "models").iterdir():
        path.unlink()
    (package / "models").rmdir()
    assert released_files() == {}


def test_the_wheel_has_every_file_where_the_package_looks_for_it():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["only-include"] == ["rolit_env", "models"]
    assert wheel["sources"] == {"models": "rolit_env/models"}
    assert wheel["exclude"] == ["/models/*.png"]  # pictures are for the checkout
    assert {path.suffix for path in (ROOT / "models").iterdir()} <= {*ENDINGS, ".json", ".png"}
