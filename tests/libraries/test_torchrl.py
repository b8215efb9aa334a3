"""TorchRL: the environment as it wants one, a PPO that trains over it, and what its own wrapper makes of turns."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("torchrl")

import torch
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import check_env_specs
from torchrl.objectives.value import GAE

from examples import torchrl as example
from rolit_env import GameBatch, make_agent, rolit_v0
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Ledger, Tally, count_rewards
from rolit_env.adapters.masked import TorchAgent, masked_logits
from rolit_env.adapters.torchrl import RolitTorchEnv
from rolit_env.errors import IllegalMoveError, OptionError, RoundOverError, VariantError
from rolit_env.variant import all_variants, variant
from rolit_env.vector_env import RolitVectorEnv

VARIANTS = [pytest.param(chosen.size, chosen.players, id=chosen.name) for chosen in all_variants()]


class TestRolitTorchEnv:
    @pytest.mark.parametrize(("size", "players"), VARIANTS)
    def test_passes_torchrls_own_check(self, size, players):
        check_env_specs(RolitTorchEnv(4, size=size, players=players))

    @pytest.mark.parametrize(("size", "players"), VARIANTS)
    def test_steps_as_the_vector_environment_does(self, size, players):
        games = 2 * players
        env = RolitTorchEnv(games, size=size, players=players, opponents=["positional", "random"][: players - 1])
        twin = RolitVectorEnv(
            games, size=size, players=players, opponents=["positional", "random"][: players - 1], autoreset_mode="SameStep"
        )
        env.set_seed(3)
        wanted, _ = twin.reset(seed=3)
        steps = 2 * variant(size, players).plies // players + 2
        played = env.rollout(steps, break_when_any_done=False)
        assert played["next", "done"].any()
        for step in range(steps):
            row = played[:, step]
            assert np.array_equal(row["observation"], wanted["observation"])
            assert np.array_equal(row["action_mask"], wanted["action_mask"])
            wanted, rewards, ended, _, facts = twin.step(row["action"].numpy())
            assert np.array_equal(row["next", "reward"][:, 0], rewards.astype(np.float32))
            for key in ("done", "terminated"):
                assert np.array_equal(row["next", key][:, 0], ended)
            assert not row["next", "truncated"].any()
            final = facts.get("final_obs", wanted)
            for key in ("observation", "action_mask"):  # of rounds that are over, their last
                after = np.where(ended.reshape(-1, *[1] * (wanted[key].ndim - 1)), final[key], wanted[key])
                assert np.array_equal(row["next", key], after)

    def test_a_seed_counts_for_all_that_follows(self):
        env = RolitTorchEnv(6, size=6, players=3)
        runs = []
        for seed in (1, 1, 2):
            env.set_seed(seed)
            runs.append(env.rollout(25, break_when_any_done=False))
        assert (runs[0] == runs[1]).all()
        assert not (runs[0]["observation"] == runs[2]["observation"]).all()

    def test_an_illegal_action_raises_and_changes_nothing(self):
        env = RolitTorchEnv(2)
        before = env.reset()
        with pytest.raises(IllegalMoveError) as raised:
            env.step(before.clone().set("action", torch.tensor([int(before["action_mask"][0].int().argmax()), 0])))
        assert raised.value.games == (1,)
        assert np.array_equal(env.rounds.action_masks(), before["action_mask"])

    def test_a_round_that_is_over_must_be_started_anew(self):
        env = RolitTorchEnv(2, size=4)
        last = env.rollout(100)[:, -1]["next"]
        assert last["done"].all()
        with pytest.raises(RoundOverError):
            env.step(last.clone().set("action", torch.zeros(2, dtype=torch.int64)))

    def test_refuses_what_the_vector_environment_refuses(self):
        with pytest.raises(VariantError):
            RolitTorchEnv(2, size=4, players=3)
        with pytest.raises(OptionError):
            RolitTorchEnv(0)
        with pytest.raises(TypeError, match="copy"):
            RolitTorchEnv(2, copy=False)


def no_value(tensordict: TensorDict) -> TensorDict:
    return tensordict.set("state_value", torch.zeros(*tensordict.shape, 1))


@pytest.mark.parametrize("players", [2, 3, 4])
def test_every_turn_of_a_seat_is_credited_with_the_end_of_its_round(players):
    env = RolitTorchEnv(4 * players, size=6, players=players)
    played = env.rollout(3 * variant(6, players).plies // players, break_when_any_done=False)
    no_value(played)
    no_value(played["next"])
    advantages = GAE(gamma=1.0, lmbda=1.0, value_network=None)(played)["advantage"][..., 0]
    rewards, done = played["next", "reward"][..., 0], played["next", "done"][..., 0]
    credited = 0
    for game in range(len(played)):
        first = 0
        for last in done[game].nonzero()[:, 0].tolist():
            assert (advantages[game, first : last + 1] == rewards[game, last]).all()
            credited += 1
            first = last + 1
    assert credited == done.sum() >= 8 * players


def test_the_naive_wrapper_pays_seats_for_turns_that_they_never_had():
    """TorchRL's own wrapper gives every agent a row for every turn of everybody, and pays all in the last mover's turn."""
    env, rounds = PettingZooWrapper(rolit_v0.env(size=4, illegal_move="retry"), use_mask=True), 30
    env.set_seed(0)
    own, of_others, last_movers = Tally(), Tally(), Tally()
    for _ in range(rounds):
        played = env.rollout(100)
        assert len(played) == 12
        for agent in ("red", "green"):
            rewards, done = played["next", agent, "reward"].flatten(), played["next", agent, "done"].flatten()
            mine = played[agent, "mask"].flatten()
            assert mine.sum() == 6
            own += count_rewards(rewards[mine], done[mine])
            of_others += count_rewards(rewards[~mine], done[~mine])
            if mine[-1]:
                last_movers += count_rewards(rewards, done)
    assert own == last_movers
    assert own.rounds == of_others.rounds == rounds  # so whoever learns from its own turns alone misses half of the results
    assert (of_others.wins, of_others.losses) == (own.losses, own.wins)


# The example trains.


@pytest.mark.parametrize(("size", "players"), [(6, 2), (6, 3), (6, 4), (8, 2), (8, 4)])
def test_the_example_learns_from_all_results(size, players, monkeypatch):
    ledgers, seen, networks, first = [], [], [], []

    class Network(example.Network):
        def __init__(self, cells):
            super().__init__(cells)
            networks.append(self)
            first.append(copy.deepcopy(self.state_dict()))

    class Watched(RolitTorchEnv):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            ledgers.append(Ledger(self.rounds))

    class Recording(Collector):
        def __iter__(self):
            for batch in super().__iter__():
                seen.append(count_rewards(batch["next", "reward"], batch["next", "done"], players))
                # What is learnt from was drawn by the network as it is now, from the legal cells alone.
                with torch.no_grad():
                    logits = masked_logits(networks[0].policy(batch["observation"]), batch["action_mask"])
                drawn = torch.log_softmax(logits, dim=-1).gather(-1, batch["action"][..., None])[..., 0]
                assert (drawn - batch["action_log_prob"]).abs().max() < 1e-4
                yield batch

    monkeypatch.setattr(example, "RolitTorchEnv", Watched)
    monkeypatch.setattr(example, "Collector", Recording)
    monkeypatch.setattr(example, "Network", Network)
    monkeypatch.setattr(example, "GAMES", 96)
    network, turns = example.train(size, players, seconds=0.3 if size == 6 else 0, seed=0)
    (ledger,) = ledgers
    assert not ledger.illegal_moves
    assert sum(seen, Tally()) == ledger.tally
    assert ledger.tally.wins
    assert ledger.tally.losses
    assert set(ledger.seats) == set(range(players))
    assert turns == len(seen) * 96 * -(-variant(size, players).plies // players)
    assert all((first[0][name] != weights).any() for name, weights in network.state_dict().items())


def test_a_checkpoint_and_the_exported_file_play_as_the_network_does(tmp_path):
    torch.manual_seed(1)
    network, again = example.Network(36), example.Network(36)
    torch.save(network.state_dict(), tmp_path / "network.pt")
    again.load_state_dict(torch.load(tmp_path / "network.pt", weights_only=True))
    export_policy(network, tmp_path / "policy.onnx", size=6, players=3, library="TorchRL PPO", versions=["torchrl"], rounds=6)
    games, rng = GameBatch(32, size=6, players=3, seed=0), np.random.default_rng(0)
    agents = [TorchAgent(network), TorchAgent(again), make_agent(str(tmp_path / "policy.onnx"))]
    while not games.done:
        first, *others = [agent.act(games, rng) for agent in agents]
        for other in others:
            assert np.array_equal(first, other)
        games.step(games.random_actions(rng))
