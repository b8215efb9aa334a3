"""RLlib: the environment as it wants one, masked PPO in all seats that trains over it, and its own wrapper without masks."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("ray.rllib")

import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.columns import Columns
from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
from ray.rllib.utils.pre_checks.env import check_multiagent_environments

from examples import rllib as example
from rolit_env import GameBatch, make_agent, play_rounds, rolit_v0
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Tally, count_rewards
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.rllib import MAIN, RolitMultiAgentEnv, SeatMapping, SnapshotCallback, snapshot_names
from rolit_env.errors import ActionError, OptionError, RoundOverError, VariantError
from rolit_env.variant import all_variants, variant

VARIANTS = [pytest.param(chosen.size, chosen.players, id=chosen.name) for chosen in all_variants()]


def play(env: RolitMultiAgentEnv, rng: np.random.Generator, seed: int | None = None):
    """Yield everything that a random round gives, step by step, with the agent that moved."""
    seen, infos = env.reset(seed=seed)
    assert infos == {}
    over = False
    while not over:
        ((mover, observation),) = seen.items()
        answers = env.step({mover: rng.choice(np.flatnonzero(observation["action_mask"]))})
        yield mover, observation, answers
        seen, over = answers[0], answers[2]["__all__"]


class TestRolitMultiAgentEnv:
    @pytest.mark.parametrize(("size", "players"), VARIANTS)
    def test_passes_rllibs_own_check(self, size, players):
        check_multiagent_environments(RolitMultiAgentEnv({"size": size, "players": players}))

    @pytest.mark.parametrize(("size", "players"), VARIANTS)
    def test_plays_the_rounds_of_the_environment_by_seats(self, size, players):
        env, rng = RolitMultiAgentEnv({"size": size, "players": players}), np.random.default_rng(0)
        twin = rolit_v0.raw_env(size=size, players=players)
        agents = [f"seat_{seat}" for seat in range(players)]
        assert env.agents == env.possible_agents == agents
        for seed in range(3):
            twin.reset(seed=seed)
            order = list(twin.possible_agents)
            while order[0] != twin.agent_selection:
                order.append(order.pop(0))
            answers = [({}, 0)]
            for ply, (mover, observation, answers) in enumerate(play(env, rng, seed)):
                assert mover == agents[ply % players]
                wanted = twin.observe(twin.agent_selection)
                assert env.observation_spaces[mover].contains(observation)
                assert np.array_equal(observation["observations"], wanted["observation"])
                assert np.array_equal(observation["action_mask"], wanted["action_mask"])
                after, rewards, *_ = answers
                if rewards:
                    break
                assert list(after) == [agents[(ply + 1) % players]]
                (seen,) = after.values()
                changed = seen["observations"].sum(axis=0) - observation["observations"].sum(axis=0)
                twin.step(int(changed.argmax()))
            last, rewards, terminated, truncated, infos = answers
            assert ply == size * size - 5
            assert list(last) == list(rewards) == list(infos) == agents
            twin.step(int(np.flatnonzero(twin.observe(twin.agent_selection)["action_mask"])[0]))
            for agent, color in zip(agents, order, strict=True):
                assert rewards[agent] == twin.rewards[color]
                assert np.array_equal(last[agent]["observations"], twin.observe(color)["observation"])
                assert not last[agent]["action_mask"].any()
                assert infos[agent] == {"illegal_moves": 0}
            assert terminated == dict.fromkeys([*agents, "__all__"], True)
            assert truncated == dict.fromkeys([*agents, "__all__"], False)

    def test_a_seed_counts_for_all_that_follows(self):
        def starters(env, seed):
            env.reset(seed=seed)
            return [env._colors["seat_0"] for _ in range(30) if env.reset()]

        runs = [starters(RolitMultiAgentEnv({"players": 4}), seed) for seed in (1, 1, 2)]
        assert runs[0] == runs[1] != runs[2]
        assert len(set(runs[0])) == 4

    def test_an_illegal_move_ends_the_round_as_in_pettingzoo(self):
        env = RolitMultiAgentEnv({"players": 3})
        env.reset(seed=0)
        last, rewards, terminated, _, infos = env.step({"seat_0": 0})
        assert rewards == {"seat_0": -1.0, "seat_1": 0.0, "seat_2": 0.0}
        assert terminated["__all__"]
        assert infos == {"seat_0": {"illegal_moves": 1}, "seat_1": {"illegal_moves": 0}, "seat_2": {"illegal_moves": 0}}
        assert not any(seen["action_mask"].any() for seen in last.values())
        with pytest.raises(RoundOverError, match="start one with reset"):
            env.step({"seat_0": 0})

    def test_anything_else_that_is_wrong_raises_and_changes_nothing(self):
        env = RolitMultiAgentEnv({"size": 6})
        with pytest.raises(RoundOverError, match="start one with reset"):
            env.step({"seat_0": 0})
        seen, _ = env.reset(seed=0)
        (legal, *_) = np.flatnonzero(seen["seat_0"]["action_mask"])
        for actions, error, told in (
            ({"seat_1": legal}, OptionError, "came for seat_1; only seat_0 is to move"),
            ({"seat_0": legal, "seat_1": 0}, OptionError, "came for seat_0, seat_1; only seat_0"),
            ({}, OptionError, "came for nobody"),
            ({"seat_0": 36}, ActionError, "allowed are ints from 0 to 35"),
        ):
            with pytest.raises(error, match=told):
                env.step(actions)
        after, *_ = env.step({"seat_0": legal})
        assert list(after) == ["seat_1"]
        for config, error, told in (
            ({"board": 8}, OptionError, "key 'board', which does not exist; allowed are size, players"),
            ({"size": 7}, VariantError, "allowed"),
            ({"reward": "none"}, OptionError, "allowed"),
        ):
            with pytest.raises(error, match=told):
                RolitMultiAgentEnv(config)

    def test_renders(self):
        env = RolitMultiAgentEnv({"size": 4, "render_mode": "ansi"})
        env.reset(seed=0)
        assert "a b c d" in env.render()


class TestSeatMapping:
    @pytest.mark.parametrize("players", [2, 3, 4])
    def test_gives_the_learner_each_seat_equally_often_and_the_others_half_to_its_past(self, players):
        mapping = pickle.loads(pickle.dumps(SeatMapping(players, snapshots=3)))
        rounds, seats = 4000, [f"seat_{seat}" for seat in range(players)]
        held, others = Counter(), Counter()
        for number in range(rounds):
            episode = SimpleNamespace(id_=f"episode {number}")
            modules = {seat: mapping(seat, episode) for seat in reversed(seats)}
            assert modules == {seat: mapping(agent_id=seat, episode=episode, more=1) for seat in seats}
            assert MAIN in modules.values()
            held.update(seat for seat, module in modules.items() if module == MAIN)
            others.update(modules.values())
        past = rounds * (players - 1) / 2
        for seat in seats:
            assert abs(held[seat] - (rounds - past / players)) < 150
        assert set(others) == {MAIN, "past_0", "past_1", "past_2"}
        for name in snapshot_names(3):
            assert abs(others[name] - past / 3) < 150

    def test_without_snapshots_the_learner_has_all_seats(self):
        episode = SimpleNamespace(id_="any")
        assert {SeatMapping(4)(f"seat_{seat}", episode) for seat in range(4)} == {MAIN}
        assert SeatMapping(2, 1, past=1)("seat_0", episode) != SeatMapping(2, 1, past=1)("seat_1", episode)


# RLlib trains.


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    folder = tempfile.mkdtemp(prefix="ray-")  # pytest's own folders are too deep for the paths of sockets
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        options = {"num_cpus": 1, "object_store_memory": 150 << 20, "include_dashboard": False, "log_to_driver": False}
        ray.init(address="local", _temp_dir=folder, logging_level="error", **options)
        yield
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


class Watched(RolitMultiAgentEnv):
    """Keeps the payoffs of its last round by seat."""

    def step(self, action_dict):
        answers = super().step(action_dict)
        if self._game.board.is_over:
            payoffs = self._game.board.payoffs()
            self.payoffs = {agent: payoffs[color] for agent, color in self._colors.items()}
        return answers


class Watching(SnapshotCallback):
    """Counts what the environments say of the learner's seats, and its turns in rounds of each payoff."""

    tally = Tally()
    turns: ClassVar = Counter()

    def on_episode_end(self, *, episode, env, env_index, **more):
        super().on_episode_end(episode=episode, env=env, env_index=env_index, **more)
        size, players = env.envs[env_index].unwrapped._game.board.size, len(episode.agent_episodes)
        for seat, (agent, payoff) in enumerate(env.envs[env_index].unwrapped.payoffs.items()):
            if episode.module_for(agent) == MAIN:
                Watching.tally += count_rewards([payoff], [True], players)
                Watching.turns[round(payoff, 4)] += len(range(seat, size * size - 4, players))


class Recording(PPOTorchLearner):
    """Keeps what the learner takes for the worth of each turn that it learns from."""

    seen: ClassVar = Counter()

    def compute_loss_for_module(self, *, module_id, config, batch, fwd_out):
        assert module_id == MAIN
        learnt = batch[Columns.LOSS_MASK] if Columns.LOSS_MASK in batch else slice(None)
        Recording.seen.update(round(float(worth), 4) for worth in batch["value_targets"][learnt])
        # The policy that learns is the one that played, masks and all.
        chances = fwd_out[Columns.ACTION_DIST_INPUTS].log_softmax(dim=1).gather(1, batch[Columns.ACTIONS][:, None])[:, 0]
        assert (chances - batch[Columns.ACTION_LOGP])[learnt].abs().max() < 1e-4
        return super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)


def small(size: int, players: int, **more) -> PPOConfig:
    """Return the example's settings, but for few rounds, each turn learnt from once and for nothing but what it led to."""
    config = example.make_config(size, players, runners=0).environment(Watched)
    config.env_runners(num_envs_per_env_runner=12).callbacks(partial(Watching, example.SNAPSHOTS))
    batch = 12 * variant(size, players).plies
    config.training(
        train_batch_size_per_learner=batch, minibatch_size=None, num_epochs=1, lambda_=1.0, learner_class=Recording
    )
    return config.training(**more)


@pytest.mark.parametrize("runners", [0, 3])
@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_the_example_has_settings_for_every_variant(size, players, runners):
    config = example.make_config(size, players, runners=runners)
    config.validate()
    assert config.train_batch_size_per_learner == 64 * max(1, runners) * variant(size, players).plies


@pytest.mark.parametrize(("size", "players"), [(6, 2), (6, 3), (6, 4), (8, 2), (8, 4)])
def test_the_example_learns_from_all_results(size, players):
    algorithm = small(size, players).build_algo()
    Watching.tally, Watching.turns, Recording.seen = Tally(), Counter(), Counter()
    before = {name: algorithm.get_module(name).get_state() for name in (MAIN, "past_1")}
    told, illegal = Tally(), 0
    for _ in range(2):
        played = algorithm.train()["env_runners"]
        told += Tally(int(played["won"]), int(played["drawn"]), int(played["lost"]))
        illegal += played["illegal_moves"]
    assert illegal == 0
    assert told == Watching.tally
    assert told.rounds >= 24
    assert Recording.seen == Watching.turns
    after = {name: algorithm.get_module(name).get_state() for name in (MAIN, "past_1")}
    assert all((after["past_1"][key] == before["past_1"][key]).all() for key in before["past_1"])
    assert any((after[MAIN][key] != before[MAIN][key]).any() for key in before[MAIN])
    algorithm.stop()


def test_snapshots_but_the_last_take_turns_in_becoming_what_the_learner_is():
    config = small(4, 2).callbacks(partial(SnapshotCallback, example.SNAPSHOTS, every=2))
    algorithm = config.build_algo()

    def weights(name):
        return algorithm.get_module(name).get_state()["network.logits.weight"].copy()

    mains, past = [], []
    for _ in range(10):
        algorithm.train()
        mains.append(weights(MAIN))
        past.append([weights(name) for name in snapshot_names(example.SNAPSHOTS)])
    taken = [[next((at for at, main in enumerate(mains) if (main == slot).all()), None) for slot in slots] for slots in past]
    assert taken[0] == [None, None, None, None]
    assert taken[1] == taken[2] == [1, None, None, None]
    assert taken[5] == [1, 3, 5, None]
    assert taken[8] == [7, 3, 5, None]
    assert taken[9] == [7, 9, 5, None]
    assert all((slots[3] == past[0][3]).all() for slots in past)  # as it was made
    learner = algorithm.learner_group.get_state(components="learner/rl_module")["learner"]["rl_module"]
    assert (learner["past_1"]["network.logits.weight"] == mains[9]).all()
    assert "return_against_past" in algorithm.train()["env_runners"]
    algorithm.stop()


def test_a_checkpoint_and_an_exported_file_play_as_the_learner_does(tmp_path):
    config = example.make_config(6, 2, runners=0).env_runners(num_envs_per_env_runner=8)
    algorithm = config.training(train_batch_size_per_learner=512, minibatch_size=256).build_algo()
    about = example.train(algorithm, 1.0, tmp_path / "run")
    network = algorithm.get_module(MAIN).network
    algorithm.stop()

    games = GameBatch(64, size=6, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(7):
        games.step(games.random_actions(rng))
    wanted = TorchAgent(network).act(games, rng)

    again = Algorithm.from_checkpoint(str(tmp_path / "run" / "checkpoint"))
    assert again.iteration == about["iterations"]
    assert np.array_equal(TorchAgent(again.get_module(MAIN).network).act(games, rng), wanted)
    played = again.train()["env_runners"]
    assert played["num_env_steps_sampled_lifetime"] == about["turns"] + played["num_env_steps_sampled"] > about["turns"]
    again.stop()

    out = tmp_path / "policy.onnx"
    card = export_policy(network, out, size=6, players=2, library="RLlib PPO", versions=["ray"], about=about, rounds=200)
    assert np.array_equal(make_agent(str(out)).act(games, rng), wanted)
    assert card["trained"] == about
    assert card["versions"]["ray"] == ray.__version__
    inside = play_rounds([TorchAgent(network), "random"], 200, size=6, seed=0)
    assert card["results"]["against"]["random"]["win_share"] == inside.win_share.tolist()
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))


def test_rllibs_own_wrapper_and_network_play_illegally():
    """They take the mask for one more part of what is seen, so nearly every round ends with an illegal move."""
    config = (
        PPOConfig()
        .environment("rolit")
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=8,
            batch_mode="complete_episodes",
            env_to_module_connector=lambda env, spaces, device: FlattenObservations(multi_agent=True),
        )
        .multi_agent(policies={MAIN}, policy_mapping_fn=lambda agent, episode, **_: MAIN)
    )
    ray.tune.register_env("rolit", lambda _: PettingZooEnv(rolit_v0.env(size=6)))
    algorithm = config.build_algo()
    lengths = [episode.env_t for _ in range(5) for episode in algorithm.env_runner.sample()]
    algorithm.stop()
    assert len(lengths) == 40
    assert sum(length < variant(6, 2).plies for length in lengths) >= 39
