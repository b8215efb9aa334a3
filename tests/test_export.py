"""Exported policies: they answer as the network does, say what they are, and play where torch is not."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from rolit_env import GameBatch, make_agent, play_rounds, rolit_v0
from rolit_env.adapters.export import check_parity, write_graph
from rolit_env.agents.network import read_network
from rolit_env.agents.policy import OBSERVATION_VERSION, PolicyAgent
from rolit_env.errors import ModelFileError, OutputError, VariantError
from rolit_env.variant import all_variants
from tests.test_network import answers as kernel_answers
from training import demo as demo_module
from training import export as export_module
from training.agent import NetworkAgent
from training.checkpoint import save_checkpoint
from training.config import TrainConfig
from training.export import export
from training.learner import Learner
from training.network import position_words


def small_learner(size=4, players=2, **settings):
    learner = Learner.fresh(TrainConfig(size=size, players=players, hidden=(16,), bfloat16="never", **settings))
    heads = {"mlp": ("policy", "value"), "afterstates": ("turn_head.3", "value_head.3")}[learner.config.network]
    with torch.no_grad():  # far from the near-uniform start, so that a slip shows in the chosen moves
        for name, factor in zip(heads, (50, 10), strict=True):
            learner.network.get_submodule(name).weight.mul_(factor)
    return learner


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    learner = small_learner()
    out = tmp_path_factory.mktemp("models") / "small.onnx"
    return learner, out, export(learner, out, rounds=40)


@pytest.mark.parametrize("network", ["mlp", "afterstates"])
@pytest.mark.parametrize("variant", all_variants(), ids=lambda variant: variant.name)
def test_file_and_network_agree_on_real_positions(variant, network, tmp_path):
    learner = small_learner(variant.size, variant.players, network=network)
    out = tmp_path / "policy.onnx"
    write_graph(export_module._Observed(learner.network), out, variant)
    session = onnxruntime.InferenceSession(str(out))
    in_kernels = read_network(out, variant) if network == "afterstates" else None
    games = GameBatch(7, size=variant.size, players=variant.players, seed=0)
    rng = np.random.default_rng(0)
    while not games.done:
        for positions in (games[:1], games):
            logits, values = session.run(None, {"planes": positions.planes(), "mask": positions.legal_mask()})
            with torch.no_grad():
                wanted_logits, wanted_values = learner.network(position_words(positions))
            np.testing.assert_allclose(logits, wanted_logits.numpy(), atol=1e-4)
            np.testing.assert_allclose(values, wanted_values.numpy(), atol=1e-4)
            assert logits.shape == (len(positions), variant.cells)
            assert values.shape == (len(positions), variant.players)
            if in_kernels:
                for found, wanted in zip(kernel_answers(in_kernels, positions), (logits, values), strict=True):
                    np.testing.assert_allclose(found, wanted, atol=1e-4)
        games.step(games.random_actions(rng))


def test_tables_are_exported_in_half_precision_and_compared_as_they_are(tmp_path):
    learner = small_learner(network="afterstates")
    out = tmp_path / "policy.onnx"
    card = export(learner, out, rounds=4)
    weights = sum(parameter.numel() for parameter in learner.network.parameters())
    assert card["network"] == {"kind": "Afterstates", "parameters": weights}
    assert 2 * weights < out.stat().st_size < 3 * weights
    games = GameBatch(64, size=4, seed=0)
    games.step_random(np.random.default_rng(0), 5)
    with torch.no_grad():
        logits, _ = learner.network(position_words(games))
    np.testing.assert_allclose(PolicyAgent(out).evaluate(games)[0], logits.numpy(), atol=0.1)


def test_file_holds_nothing_of_the_machine_it_was_made_on(exported, request):
    _, out, _ = exported
    for path in (out, *(request.config.rootpath / "models").glob("*.onnx")):
        content = path.read_bytes()
        for trace in (b".py", b"stack_trace", str(request.config.rootpath).encode()):
            assert trace not in content, (path, trace)


def test_card_says_what_the_policy_is(exported):
    learner, out, card = exported
    assert card == json.loads(out.with_suffix(".json").read_text())
    assert card["variant"] == {"size": 4, "players": 2}
    assert card["observation_version"] == OBSERVATION_VERSION
    assert card["network"]["parameters"] == sum(p.numel() for p in learner.network.parameters())
    assert TrainConfig.from_dict(card["config"]) == learner.config
    assert card["trained"]["turns"] == 0
    assert set(card["results"]["against"]) == {"random", "greedy", "positional"}
    assert list(out.parent.iterdir()) in ([out, out.with_suffix(".json")], [out.with_suffix(".json"), out])


def test_the_cards_command_repeats_its_results(exported, tmp_path):
    _, _, card = exported
    report = tmp_path / "report.json"
    command = card["results"]["command"].split()
    assert command[0] == "rolit"
    subprocess.run([sys.executable, "-m", "rolit_env", *command[1:], "--json", str(report)], check=True, capture_output=True)
    results = json.loads(report.read_text())["results"]
    assert results == list(card["results"]["against"].values())


def test_exported_policy_plays_as_the_network_does(exported):
    learner, out, _ = exported
    agents = NetworkAgent(learner), make_agent(str(out))
    results = [play_rounds([agent, make_agent("random")], 200, size=4) for agent in agents]
    np.testing.assert_array_equal(results[0].win_share, results[1].win_share)


def test_temperature_draws_and_zero_does_not(exported):
    _, out, _ = exported
    games = GameBatch(1, size=4, starter="red")[np.zeros(500, np.int64)]
    rng = np.random.default_rng(0)
    assert len(set(make_agent(str(out)).act(games, rng).tolist())) == 1
    hot = make_agent(f"{out}:temperature=1000").act(games, rng)
    assert len(set(hot.tolist())) == 3
    games.step(hot)  # all legal


def test_environment_observations_are_the_files_inputs(exported):
    _, out, _ = exported
    session = onnxruntime.InferenceSession(str(out))
    env = rolit_v0.env(size=4)
    env.reset(seed=0)
    for _ in env.agent_iter():
        observation, _, termination, truncation, _ = env.last()
        if termination or truncation:
            env.step(None)
            continue
        inputs = {"planes": observation["observation"][None], "mask": observation["action_mask"][None]}
        env.step(int(session.run(["logits"], inputs)[0].argmax()))
    assert not env.agents


def test_policy_plays_without_torch(exported):
    _, out, _ = exported
    program = f"""
import sys
sys.modules["torch"] = None
from rolit_env import make_agent, play_rounds
play_rounds([make_agent({str(out)!r}), make_agent("random")], 20, size=4)
assert not [name for name in sys.modules if name.startswith(("torch.", "training"))]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_other_variants_are_refused(exported):
    _, out, _ = exported
    with pytest.raises(VariantError, match="was trained for 4x4-2p and can't play 6x6-2p"):
        play_rounds([make_agent(str(out)), make_agent("random")], 2, size=6)


def test_a_changed_file_no_longer_fits_its_card(exported, tmp_path):
    _, out, _ = exported
    for name in (out.name, out.with_suffix(".json").name):
        (tmp_path / name).write_bytes((out.parent / name).read_bytes())
    export(small_learner(seed=5), tmp_path / "other.onnx", rounds=2)
    (tmp_path / "other.onnx").replace(tmp_path / out.name)
    with pytest.raises(ModelFileError, match="not the file its card describes"):
        PolicyAgent(tmp_path / out.name)


def test_disagreement_is_refused_and_leaves_the_old_files(exported, tmp_path, monkeypatch):
    learner, _, _ = exported
    out = tmp_path / "policy.onnx"
    out.write_bytes(b"old model")
    out.with_suffix(".json").write_bytes(b"old card")
    honest = type(learner.network).from_planes

    def tilted(self, planes, mask):
        logits, values = honest(self, planes, mask)
        return logits, values + 0.01 * planes[:, 0, 0, :1]

    monkeypatch.setattr(type(learner.network), "from_planes", tilted)
    with pytest.raises(ModelFileError, match=r"onnxruntime and torch differ by 0\.01"):
        export(learner, out, rounds=10)
    assert out.read_bytes() == b"old model"
    assert out.with_suffix(".json").read_bytes() == b"old card"
    assert len(list(tmp_path.iterdir())) == 2


def test_not_a_number_is_a_disagreement(exported, monkeypatch):
    learner, out, _ = exported
    agent = PolicyAgent(out)
    assert check_parity(export_module._evaluate(learner.network), agent, games=8) < 1e-4
    monkeypatch.setattr(agent, "evaluate", lambda games: (np.full((len(games), 16), np.nan), np.zeros((len(games), 2))))
    with pytest.raises(ModelFileError, match="differ by inf"):
        check_parity(export_module._evaluate(learner.network), agent, games=8)


def test_paths_that_cannot_be_written_are_refused(exported, tmp_path):
    learner, _, _ = exported
    with pytest.raises(OutputError, match=r"must end in \.onnx"):
        export(learner, tmp_path / "policy.pt", rounds=10)
    for path in (Path("/proc/no/policy.onnx"), tmp_path / "policy.onnx"):
        (tmp_path / "policy.onnx").mkdir(exist_ok=True)
        with pytest.raises(OutputError, match="can't be written"):
            export(learner, path, rounds=10)


def test_a_card_that_cannot_be_written_keeps_the_old_policy(exported, tmp_path):
    learner, _, _ = exported
    out = tmp_path / "policy.onnx"
    out.write_bytes(b"old model")
    out.with_suffix(".json").mkdir()
    with pytest.raises(OutputError, match="can't be written"):
        export(learner, out, rounds=10)
    assert out.read_bytes() == b"old model"
    assert len(list(tmp_path.iterdir())) == 2


def test_command_exports_and_explains(tmp_path, capsys):
    learner = small_learner()
    save_checkpoint(learner, tmp_path)
    out = tmp_path / "m" / "policy.onnx"
    assert export_module.main([str(tmp_path), "--out", str(out), "--rounds", "20"]) == 0
    assert "rolit evaluate" in capsys.readouterr().out
    assert out.exists()
    for argv, message in (
        ([str(tmp_path / "none"), "--out", str(out)], "there is no checkpoint"),
        ([str(tmp_path), "--out", str(out), "--rounds", "0"], "rounds=0"),
        ([str(tmp_path)], "out"),
        ([str(tmp_path), "--out", str(tmp_path / "policy.txt")], "must end in .onnx"),
    ):
        assert export_module.main(argv) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("training.export: ")
        assert captured.err.count("\n") == 1, captured.err
        assert message in captured.err


def test_demo_goes_all_the_way_and_on_from_where_it_stopped(tmp_path, capsys):
    config = tmp_path / "tiny.yaml"
    config.write_text("size: 4\ngames: 32\nhidden: [16]\nminibatch: 64\nevaluate_every: 0\n")
    run = tmp_path / "run"
    argv = ["--config", str(config), "--run", str(run), "--minutes", "0.02", "--rounds", "50"]
    assert demo_module.main(argv) == 0
    out = capsys.readouterr().out
    for name in ("random", "greedy", "positional", "its file, no torch", "rolit play --against"):
        assert name in out
    assert (run / "policy.onnx").exists()
    assert demo_module.main(argv) == 0
    assert "going on with it" in capsys.readouterr().out
    assert demo_module.main(["--config", "nowhere.yaml", "--run", str(tmp_path / "other")]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err
