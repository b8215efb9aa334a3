"""Examples of one shape: each ends with a file that plays as the network does, and refuses at once what it can't do."""

import importlib
import json

import pytest

CASES = [
    ("openspiel", "pyspiel", [], "OpenSpiel PPO"),
    ("torchrl", "torchrl", [], "TorchRL PPO"),
    ("skrl", "skrl", [], "skrl PPO"),
    ("tianshou", "tianshou", [], "Tianshou PPO"),
    ("tianshou", "tianshou", ["--dqn"], "Tianshou DQN"),
]


@pytest.fixture(params=CASES, ids=lambda case: case[3])
def case(request):
    name, package, more, library = request.param
    pytest.importorskip(package)
    return importlib.import_module(f"examples.{name}"), more, library


@pytest.mark.parametrize("seconds", ["0", "nan"])
def test_it_ends_with_a_file_that_plays_as_well(case, seconds, tmp_path, monkeypatch, capsys):
    example, more, library = case
    monkeypatch.setattr(example, "GAMES", 64)
    arguments = ["--size", "4", "--seconds", seconds, "--seed", "1", "--out", str(tmp_path / "policy.onnx")]
    assert example.main(arguments + more) == 0
    inside, outside = (line.partition(" against random: ") for line in capsys.readouterr().out.splitlines())
    assert outside[0] == str(tmp_path / "policy.onnx")
    assert inside[2] == outside[2]
    card = json.loads((tmp_path / "policy.json").read_text(encoding="utf-8"))
    assert (card["library"], card["trained"]["seed"]) == (library, 1)
    assert card["trained"]["turns"] >= 64 * 6


@pytest.mark.parametrize("wrong", [["--size", "5"], ["--players", "5"], ["--out", "policy.pt"]])
def test_it_refuses_before_it_trains(case, wrong, capsys):
    example, more, _ = case
    assert example.main([*wrong, *more, "--seconds", "600"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
