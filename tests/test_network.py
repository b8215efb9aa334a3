"""Policy networks in kernels: they answer as torch and onnxruntime do, and files without one are refused in one sentence."""

from __future__ import annotations

import builtins
import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from rolit_env import GameBatch, make_agent
from rolit_env.agents import network as network_module
from rolit_env.agents.network import read_network
from rolit_env.agents.policy import PolicyAgent
from rolit_env.errors import AgentError, ModelFileError, RoundOverError, VariantError
from rolit_env.search.network import answer_all
from rolit_env.search.ntuple import make_scratch
from rolit_env.variant import all_variants, variant
from tests.test_agents import card, ramp_policy, save_policy
from training.afterstate import Afterstates
from training.network import position_words

EACH_VARIANT = pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)


def make_afterstates(size: int, players: int, width: int = 8, seed: int = 0) -> Afterstates:
    """Return a network whose answers differ from cell to cell and from seat to seat."""
    torch.manual_seed(seed)
    network = Afterstates(size, players, width)
    with torch.no_grad():
        for table in (network.turn_table, network.value_table):
            table.weight.mul_(5)
        for head in (network.turn_head, network.value_head):
            head[3].weight.mul_(2)
        if players > 2:
            network.seat_values.copy_(torch.arange(players) / 10)
    return network


def add_weights(model: onnx.ModelProto, tensors: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Add weights to a graph that has no use for them."""
    stored = [onnx.numpy_helper.from_array(tensor, f"network.{name}") for name, tensor in tensors.items()]
    model.graph.initializer.extend(stored)
    return model


def weights(network: Afterstates) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in network.state_dict().items()}


def save_afterstates(folder: Path, network: Afterstates) -> Path:
    """Write a policy file that has the network's weights, and yet answers as a ramp to onnxruntime: exporting takes long."""
    path = folder / f"afterstates-{network.size}-{network.players}.onnx"
    onnx.save(add_weights(ramp_policy(network.size, network.players), weights(network)), path)
    about = card(network.size, network.players) | {"network": {"kind": "Afterstates"}}
    path.with_suffix(".json").write_text(json.dumps(about), encoding="utf-8")
    return path


def answers(network: Any, games: GameBatch) -> tuple[np.ndarray, np.ndarray]:
    size, players = games.variant.size, games.variant.players
    logits, values = np.empty((len(games), size * size), np.float32), np.empty((len(games), players), np.float32)
    answer_all(games.view(), players, size, network, make_scratch(players), logits, values)
    return logits, values


def torch_answers(network: Afterstates, games: GameBatch) -> list[np.ndarray]:
    with torch.no_grad():
        return [answer.numpy() for answer in network(position_words(games))]


NETWORK = make_afterstates(6, 3)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_afterstates(tmp_path_factory.mktemp("models"), NETWORK)


@EACH_VARIANT
@pytest.mark.parametrize("width", [8, 16, 24])
def test_kernels_answer_as_torch_does(chosen: Any, width: int, tmp_path: Path) -> None:
    network = make_afterstates(chosen.size, chosen.players, width)
    known = read_network(save_afterstates(tmp_path, network), chosen)
    rng = np.random.default_rng(width)
    games = GameBatch(20, size=chosen.size, players=chosen.players, seed=rng)
    spread = 0.0
    while not games.done:
        wanted_logits, wanted_values = torch_answers(network, games)
        logits, values = answers(known, games)
        np.testing.assert_allclose(logits, wanted_logits, atol=1e-4)
        np.testing.assert_allclose(values, wanted_values, atol=1e-4)
        spread += np.std(logits[logits > -1e8]) * np.std(values)
        games.step(games.random_actions(rng))
    assert spread / chosen.plies > 0.01


def test_a_policy_plays_by_its_network(policy: Path) -> None:
    agent, rng = PolicyAgent(policy), np.random.default_rng(0)
    games = GameBatch(50, size=6, players=3, seed=0)
    while not games.done:
        actions = agent.act(games, rng)
        assert actions.dtype == np.int64
        logits, _ = torch_answers(NETWORK, games)
        assert (logits[np.arange(50), actions] >= logits.max(axis=1) - 1e-3).all()
        games.step(actions)
    with pytest.raises(RoundOverError):
        agent.act(games, rng)
    with pytest.raises(VariantError, match="trained for"):
        agent.act(GameBatch(1, size=6, players=2), rng)


def test_a_temperature_draws_from_the_softmax(policy: Path) -> None:
    agent = make_agent(f"{policy}:temperature=0.5")
    assert isinstance(agent, PolicyAgent)
    games = GameBatch(1, size=6, players=3, seed=0)[np.zeros(20_000, np.int64)]
    logits = torch_answers(NETWORK, games[:1])[0][0] / 0.5
    chances = np.exp(logits - logits.max())
    found = np.bincount(agent.act(games, np.random.default_rng(0)), minlength=36) / 20_000
    np.testing.assert_allclose(found, chances / chances.sum(), atol=5 * 0.5 / 20_000**0.5)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_copies_play_the_same(duplicate: Any, policy: Path) -> None:
    agent, games = PolicyAgent(policy), GameBatch(9, size=6, players=3, seed=0)
    games.step_random(np.random.default_rng(0), 9)
    actions = agent.act(games, np.random.default_rng(0))
    np.testing.assert_array_equal(duplicate(agent).act(games, np.random.default_rng(0)), actions)


# What has no such network.


def test_other_policies_have_none(tmp_path: Path) -> None:
    agent = PolicyAgent(save_policy(tmp_path, 6, 3))
    with pytest.raises(ModelFileError, match="holds no network of afterstates for 6x6-3p"):
        _ = agent.network
    games = GameBatch(2, size=6, players=3)
    assert agent.act(games, np.random.default_rng(0)).tolist() == agent.evaluate(games)[0].argmax(axis=1).tolist()


def test_a_card_may_call_another_network_by_that_name(tmp_path: Path) -> None:
    path = save_policy(tmp_path, 6, 3)
    about = card(6, 3) | {"network": {"kind": "Afterstates"}}
    path.with_suffix(".json").write_text(json.dumps(about), encoding="utf-8")
    games, rng = GameBatch(2, size=6, players=3), np.random.default_rng(0)
    wanted = PolicyAgent(path).evaluate(games)[0].argmax(axis=1).tolist()
    assert make_agent(str(path)).act(games, rng).tolist() == wanted
    assert make_agent(f"mcts:simulations=1,policy={path}").act(games, rng).tolist() == wanted


def damage(name: str, change: Any) -> Any:
    return lambda tensors: {key: change(tensor) if key == name else tensor for key, tensor in tensors.items()}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda tensors: {}, "two tables of"),
        (damage("turn_table.weight", lambda table: table[:-1]), "two tables of"),
        (damage("value_table.weight", lambda table: table[:, :4]), "two tables of"),
        (damage("turn_head.1.weight", lambda layer: layer[:, :3]), "heads"),
        (damage("turn_head.1.bias", lambda layer: layer[:3]), "heads"),
        (damage("value_head.3.weight", lambda layer: layer[:, :3]), "heads"),
        (damage("seat_values", lambda values: values[:2]), "heads"),
        (damage("value_table.weight", lambda table: table * np.nan), "finite"),
    ],
)
def test_files_that_do_not_fit_are_refused(change: Any, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    onnx.save(add_weights(ramp_policy(6, 3), change(weights(NETWORK))), path)
    with pytest.raises(ModelFileError, match=complaint) as caught:
        read_network(path, variant(6, 3))
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_no_onnx_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.onnx"
    path.write_bytes(b"no such thing")
    with pytest.raises(ModelFileError, match="no ONNX file"):
        read_network(path, variant(6, 3))


def test_without_onnx_policies_play_and_networks_are_refused(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, games = PolicyAgent(policy), GameBatch(5, size=6, players=3, seed=0)
    find, load = builtins.__import__, network_module.find_spec
    monkeypatch.setattr(network_module, "find_spec", lambda name: None if name == "onnx" else load(name))

    def refuse(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "onnx":
            raise ImportError(name)
        return find(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(AgentError, match=r"needs onnx; install it with: pip install 'rolit-env\[play\]'"):
        _ = agent.network
    assert agent.act(games, np.random.default_rng(0)).tolist() == agent.evaluate(games)[0].argmax(axis=1).tolist()
