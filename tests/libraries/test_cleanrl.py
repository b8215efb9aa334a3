"""The one-file PPO: it trains, all results reach it, its network plays the same in the arena and as a file."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from examples import cleanrl_style as example
from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Ledger
from rolit_env.adapters.masked import TorchAgent
from rolit_env.errors import IllegalMoveError
from rolit_env.variant import variant


class Trained:
    """A network after a number of updates, and what both sides counted."""

    def __init__(self, size, players, updates):
        self.size, self.players, self.updates = size, players, updates
        self.env = self.ledger = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(example, "RolitVectorEnv", self.watched(example.RolitVectorEnv))
            # A clock that ticks with each update, so that no result depends on the machine.
            patch.setattr(example, "time", SimpleNamespace(monotonic=itertools.count().__next__))
            patch.setattr(example, "GAMES", 256)
            patch.setattr(example, "SNAPSHOT", 4)
            self.network, self.turns, self.tally = example.train(size, players, seconds=updates, seed=0)

    def watched(self, make):
        def make_watched(*arguments, **options):
            self.env = make(*arguments, **options)
            self.ledger = Ledger(self.env)
            self.pool = options["opponents"]
            return self.env

        return make_watched


@pytest.fixture(
    scope="module", params=[(6, 2, 10), (6, 3, 10), (8, 2, 1), (8, 4, 1)], ids=["6x6-2p", "6x6-3p", "8x8-2p", "8x8-4p"]
)
def trained(request):
    return Trained(*request.param)


def positions(size, players):
    """Return batches of real positions, from the start to the last turn."""
    rng = np.random.default_rng(0)
    games = GameBatch(16, size=size, players=players, seed=rng)
    while not games.done:
        if games.ply % 7 == 0 or games.ply == games.plies - 1:
            yield games.copy()
        games.step_random(rng)


def test_all_results_reach_the_learner_and_no_illegal_move_the_environment(trained):
    assert trained.tally == trained.ledger.tally
    assert trained.tally.wins
    assert trained.tally.losses
    assert trained.ledger.illegal_moves == 0
    assert set(trained.ledger.seats) == set(range(trained.players))
    assert trained.turns == trained.updates * 256 * -(-variant(trained.size, trained.players).plies // trained.players)


def test_learns_and_meets_its_past(trained):
    assert len(trained.pool.members) == 1 + trained.updates // 4
    if trained.updates > 1:
        result = play_rounds([TorchAgent(trained.network), "random"], 600, size=6, players=trained.players, seed=0)
        assert result.win_share[0] - result.interval[0] > result.par[0]
        past = trained.pool.members[1].module
        assert not past.logits.weight.equal(trained.network.logits.weight)


def test_plays_the_same_after_saving_and_loading(trained, tmp_path):
    torch.save(trained.network.state_dict(), tmp_path / "network.pt")
    loaded = example.Network(trained.size)
    loaded.load_state_dict(torch.load(tmp_path / "network.pt", weights_only=True))
    for games in positions(trained.size, trained.players):
        actions = [TorchAgent(network).act(games, np.random.default_rng(0)) for network in (loaded, trained.network)]
        assert np.array_equal(*actions)


def test_plays_the_same_as_an_exported_file(trained, tmp_path):
    options = {"size": trained.size, "players": trained.players, "library": "torch", "rounds": 2}
    export_policy(trained.network, tmp_path / "policy.onnx", **options)
    agent = make_agent(str(tmp_path / "policy.onnx"))
    for games in positions(trained.size, trained.players):
        wanted = TorchAgent(trained.network).act(games, np.random.default_rng(0))
        assert np.array_equal(agent.act(games, np.random.default_rng(0)), wanted)
        _, values = trained.network(torch.from_numpy(games.planes()), torch.from_numpy(games.legal_mask()))
        assert agent.evaluate(games)[1][:, 0] == pytest.approx(values.detach().numpy(), abs=1e-3)


def test_example(tmp_path, capsys):
    out = tmp_path / "new" / "policy.onnx"
    assert example.main(["--size", "4", "--seconds", "0", "--out", str(out)]) == 0
    progress, inside, outside = capsys.readouterr().out.splitlines()
    assert "3,072 turns" in progress
    assert inside.partition(" against ")[2] == outside.partition(" against ")[2]
    card = make_agent(str(out)).card
    assert card["trained"] == {"turns": 3072, "rounds": 512, "seconds": 0.0, "seed": 0}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--size", "5"], "size=5 with players=2 is no variant of Rolit"),
        (["--size", "4", "--players", "3"], "size=4 with players=3 is no variant of Rolit"),
        (["--out", "policy.pt"], "policy.pt must end in .onnx"),
    ],
)
def test_example_refuses_before_it_trains(arguments, complaint, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(example.Network, "forward", None)
    assert example.main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_without_the_mask_it_plays_illegally(monkeypatch):
    monkeypatch.setattr(example, "masked_logits", lambda logits, mask: logits)
    with pytest.raises(IllegalMoveError):
        example.train(6, 2, seconds=0, seed=0)
