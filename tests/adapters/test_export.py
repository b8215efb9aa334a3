"""Networks of any origin become policy files that play as they did, say what they are, and are refused when they can't."""

import json
from importlib.metadata import version

import numpy as np
import pytest
import torch
from torch import nn

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import TorchAgent
from rolit_env.errors import ModelFileError, OptionError, OutputError, VariantError


class Net(nn.Module):
    """As a library might make one: in training mode, without masks, with as many values as asked for."""

    def __init__(self, size, values):
        super().__init__()
        torch.manual_seed(0)
        self.values = values
        self.body = nn.Sequential(nn.Linear(4 * size * size, 32), nn.Tanh(), nn.Dropout(0.5))
        self.policy = nn.Linear(32, size * size)
        self.value = nn.Linear(32, max(1, values))

    def forward(self, planes, mask):
        features = self.body(planes.float().flatten(1))
        values = self.value(features)
        return 20 * self.policy(features), values if self.values else values.squeeze(1)


@pytest.mark.parametrize(("size", "players", "values"), [(4, 2, 0), (6, 4, 1), (6, 3, 3)])
def test_the_file_plays_as_the_network_does(size, players, values, tmp_path):
    net, out = Net(size, values), tmp_path / "new" / "net.onnx"
    card = export_policy(net, out, size=size, players=players, library="none", opponents=("random",), rounds=24)
    assert net.training
    frozen = TorchAgent(net.eval())
    agent = make_agent(str(out))
    games = GameBatch(50, size=size, players=players, seed=0)
    rng = np.random.default_rng(0)
    while not games.done:
        np.testing.assert_array_equal(agent.act(games, rng), frozen.act(games, rng))
        logits, found = agent.evaluate(games)
        assert ((logits == -1e9) == (games.legal_mask() == 0)).all()
        with torch.no_grad():
            wanted = net(torch.from_numpy(games.planes()), None)[1].numpy().reshape(50, -1)
        if values < 2:  # what the mover wins, the others lose
            wanted = np.concatenate([wanted, *[-wanted / (players - 1)] * (players - 1)], axis=1)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        games.step(games.random_actions(rng))
    result = play_rounds([frozen, "random"], 24, size=size, players=players)
    assert card["results"]["against"]["random"]["win_share"] == result.win_share.tolist()


def test_the_card_says_what_trained_it_and_how(tmp_path):
    out = tmp_path / "net.onnx"
    about = {"turns": 1000, "settings": {"learning_rate": 0.001}}
    options = {"library": "a library", "versions": ["gymnasium"], "about": about, "rounds": 2, "seed": 3}
    card = export_policy(Net(4, 0), out, size=4, players=2, **options)
    assert json.loads(out.with_suffix(".json").read_text()) == card
    assert card["library"] == "a library"
    assert card["trained"] == about
    assert card["versions"]["gymnasium"] == version("gymnasium")
    assert card["network"] == {"kind": "Net", "parameters": 64 * 32 + 32 + 32 * 16 + 16 + 33}
    assert card["results"]["command"].startswith(f"rolit evaluate {out} --against random greedy positional --size 4")
    assert card["results"]["command"].endswith("--rounds 2 --seed 3")
    assert len(list(tmp_path.iterdir())) == 2


class Restless(Net):
    """Never answers twice the same."""

    def forward(self, planes, mask):
        logits, values = super().forward(planes, mask)
        return logits + torch.rand_like(logits), values


class Counting(Net):
    """Turns the number of positions into a number of Python's, which exporters take for a constant."""

    def forward(self, planes, mask):
        logits, values = super().forward(planes, mask)
        return logits.reshape(len(planes), -1), values


@pytest.mark.parametrize(
    ("net", "options", "error", "message"),
    [
        (Counting(4, 0), {}, ModelFileError, "fixes the number of positions"),
        (Restless(4, 0), {}, ModelFileError, "nothing was exported"),
        (Net(6, 0), {}, RuntimeError, "shapes cannot be multiplied"),
        (Net(4, 3), {}, OptionError, r"must have the shape \(3, 2\), \(3, 1\) or \(3,\); those of none have \(3, 3\)"),
        (Net(4, 0), {"players": 3}, VariantError, "players=3 is no variant"),
        (Net(4, 0), {"rounds": 0}, OptionError, "rounds=0"),
        (Net(4, 0), {"out": "net.pt"}, OutputError, r"must end in \.onnx"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_exported_leaves_the_old_files(net, options, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old = {"net.onnx": "old model", "net.json": "old card"}
    for name, text in old.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message):
        export_policy(net, **{"out": "net.onnx", "size": 4, "players": 2, "library": "none", "rounds": 2} | options)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == old


def test_logits_for_other_cells_are_refused(tmp_path):
    class Passing(nn.Module):
        def forward(self, planes, mask):
            return torch.zeros(len(planes), 17), torch.zeros(len(planes))

    with pytest.raises(OptionError, match=r"must have the shape of the logits, \(3, 17\), not \(3, 16\)"):
        export_policy(Passing(), tmp_path / "net.onnx", size=4, players=2, library="none")
