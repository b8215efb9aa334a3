"""Stable-Baselines3: the vector environment it wants, MaskablePPO that trains over it, and what goes wrong without masks."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from rolit_env import GameBatch, make_agent, play_rounds, rolit_v0
from rolit_env.errors import IllegalMoveError, OptionError, RoundOverError, VariantError
from rolit_env.gym_env import RolitEnv
from rolit_env.variant import all_variants, variant
from rolit_env.vector_env import RolitVectorEnv

pytest.importorskip("sb3_contrib")

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy as evaluate_unmasked
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from examples import sb3 as example
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Ledger, Tally, count_rewards
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.adapters.sb3 import MaskableActor, PoolCallback, RolitVecEnv

VARIANTS = [pytest.param(variant.size, variant.players, id=variant.name) for variant in all_variants()]


def random_legal(env, rng):
    masks = get_action_masks(env)
    return np.where(masks, rng.random(masks.shape), 0).argmax(axis=1)


class TestRolitVecEnv:
    @pytest.mark.parametrize(("size", "players"), VARIANTS)
    def test_steps_as_the_vector_environment_does(self, size, players):
        games, rng = 5, np.random.default_rng(0)
        env = RolitVecEnv(games, size=size, players=players)
        twin = RolitVectorEnv(games, size=size, players=players, autoreset_mode="SameStep")
        env.seed(7)
        observation, (wanted, _) = env.reset(), twin.reset(seed=7)
        turns, ended_rounds = np.zeros(games, int), 0
        for _ in range(2 * variant(size, players).plies // players + 2):
            seats = twin.seats
            for key in wanted:
                assert observation[key].dtype == wanted[key].dtype
                assert np.array_equal(observation[key], wanted[key])
            actions = random_legal(env, rng)
            observation, rewards, ended, infos = env.step(actions)
            wanted, wanted_rewards, wanted_ended, _, facts = twin.step(actions)
            turns += 1
            assert rewards.dtype == np.float32
            assert np.array_equal(rewards, wanted_rewards.astype(np.float32))
            assert np.array_equal(ended, wanted_ended)
            assert len(infos) == games
            for row, info in enumerate(infos):
                if not ended[row]:
                    assert info == {}
                    continue
                ended_rounds += 1
                for key, array in facts["final_obs"].items():
                    assert np.array_equal(info["terminal_observation"][key], array[row])
                assert info["terminal_observation"]["observation"].sum() == size * size
                assert info["TimeLimit.truncated"] is False
                assert info["seat"] == seats[row]
                assert info["win_share"] == facts["final_info"]["win_share"][row]
                assert info["episode"]["r"] == pytest.approx(rewards[row])
                assert info["episode"]["l"] == turns[row] == len(range(seats[row], size * size - 4, players))
                assert info["episode"]["t"] >= 0
            turns[ended] = 0
        assert ended_rounds >= 2 * games

    def test_gives_masks_to_the_learner(self):
        env = RolitVecEnv(6, players=3)
        observation = env.reset()
        assert is_masking_supported(env)
        assert np.array_equal(get_action_masks(env), observation["action_mask"])
        some = env.env_method("action_masks", indices=[4, 1])
        assert np.array_equal(some, observation["action_mask"][[4, 1]])
        (one,) = env.env_method("action_masks", indices=2)
        assert one.dtype == np.bool_
        one[:] = False
        assert get_action_masks(env)[2].any()  # they are copies

    def test_keeps_no_hold_of_what_it_returned(self):
        env = RolitVecEnv(3, size=6)
        first = env.reset()
        kept = {key: array.copy() for key, array in first.items()}
        infos = env.step(random_legal(env, np.random.default_rng(0)))[3]
        infos[0]["mine"] = 1
        assert infos[1] == {}
        assert env.step(random_legal(env, np.random.default_rng(0)))[3][0] == {}
        for key, array in kept.items():
            assert np.array_equal(first[key], array)

    def test_seeds_and_options_count_for_one_reset(self):
        env = RolitVecEnv(4, players=4)
        env.seed(3)
        first = env.reset()["observation"]
        second = env.reset()["observation"]
        env.seed(3)
        assert np.array_equal(env.reset()["observation"], first)
        assert np.array_equal(env.reset()["observation"], second)
        env.set_options({"starter": "blue"})
        env.reset()
        assert {board.starter for board in env.get_attr("board")} == {"blue"}
        starters = set()
        for _ in range(20):
            env.reset()
            starters |= {board.starter for board in env.get_attr("board")}
        assert starters == {"red", "yellow", "green", "blue"}

    def test_refuses_options_that_differ_and_stays_as_it_was(self):
        env = RolitVecEnv(2)
        before = env.reset()
        env.set_options([{"starter": "red"}, {"starter": "green"}])
        with pytest.raises(OptionError, match="options differ between sub-environments"):
            env.reset()
        assert np.array_equal(get_action_masks(env), before["action_mask"])

    def test_an_illegal_action_raises_and_changes_nothing(self):
        env = RolitVecEnv(2)
        before = env.reset()
        actions = before["action_mask"].argmax(axis=1)
        with pytest.raises(IllegalMoveError) as raised:
            env.step([actions[0], 0])
        assert raised.value.games == (1,)
        assert np.array_equal(get_action_masks(env), before["action_mask"])
        env.step(actions)

    def test_says_what_it_knows_of_its_rounds(self):
        env = RolitVecEnv(4, size=6, render_mode="ansi")
        assert env.render_mode == "ansi"
        with pytest.raises(RoundOverError):
            env.get_attr("seat")
        env.reset()
        assert sorted(env.get_attr("seat")) == [0, 0, 1, 1]
        assert env.get_attr("seat", 3) == env.get_attr("seat")[3:]
        assert [board.size for board in env.get_attr("board", [1, 2])] == [6, 6]
        assert env.get_attr("action_space", 0) == [gymnasium.spaces.Discrete(36)]
        assert env.get_attr("observation_space")[3] == env.observation_space
        assert env.env_is_wrapped(Monitor) == [False] * 4
        assert env.env_method("render", indices=1)[0] == env.env_method("render")[1]
        for name in ("action_masks", "render", "board", "seat", "render_mode"):
            assert env.has_attr(name)
        assert not env.has_attr("opponents")
        with pytest.raises(AttributeError, match="it has board, seat"):
            env.get_attr("opponents")
        with pytest.raises(AttributeError, match="it has action_masks and render"):
            env.env_method("reset")
        with pytest.raises(AttributeError, match="give it when RolitVecEnv is made"):
            env.set_attr("opponents", ["greedy"])
        env.close()

    def test_draws_its_rounds(self):
        pytest.importorskip("pygame")
        env = RolitVecEnv(3, size=4, render_mode="rgb_array")
        env.reset()
        pictures = env.get_images()
        assert len(pictures) == 3
        assert pictures[0].dtype == np.uint8
        assert env.render().shape == (2 * pictures[0].shape[0], 2 * pictures[0].shape[1], 3)  # tiled
        assert RolitVecEnv(2).get_images() == [None, None]

    def test_refuses_what_the_vector_environment_refuses(self):
        with pytest.raises(VariantError):
            RolitVecEnv(2, size=4, players=3)
        with pytest.raises(OptionError):
            RolitVecEnv(0)
        with pytest.raises(TypeError, match="copy"):
            RolitVecEnv(2, copy=False)

    def test_goes_with_a_monitor_and_with_maskable_evaluation(self):
        env = VecMonitor(RolitVecEnv(10, size=4))
        model = MaskablePPO("MultiInputPolicy", env, n_steps=8, batch_size=80, device="cpu", seed=0)
        rewards, turns = evaluate_masked(model, env, 20, return_episode_rewards=True)
        assert turns == [6] * 20
        assert set(rewards) <= {-1.0, 0.0, 1.0}


class Notes(BaseCallback):
    """Counts what the learner holds in its buffer, rollout by rollout."""

    def __init__(self, players):
        super().__init__()
        self.players, self.tally, self.illegal = players, Tally(), 0

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buffer = self.model.rollout_buffer
        ended = np.concatenate([buffer.episode_starts[1:], self.locals["dones"][None]])
        self.tally += count_rewards(buffer.rewards, ended, self.players)
        masks = buffer.action_masks
        assert np.array_equal(masks, buffer.observations["action_mask"])
        self.illegal += int((np.take_along_axis(masks, buffer.actions, axis=2) == 0).sum())


class Trained:
    """A model after a short training against a pool, and what both sides counted."""

    def __init__(self, size, players, games, rollouts, one_seat=False):
        self.size, self.players = size, players
        self.pool = OpponentPool("random")
        setting = {"size": size, "players": players, "opponents": self.pool}
        if one_seat:
            env = make_vec_env(RolitEnv, games, seed=0, env_kwargs={**setting, "illegal_move": "raise"})
            self.ledger = Ledger(*(one.unwrapped for one in env.envs))
        else:
            env = RolitVecEnv(games, **setting)
            self.ledger = Ledger(env.env)
        turns = -(-variant(size, players).plies // players)
        steps = turns * games
        options = {"n_steps": turns, "batch_size": steps // 4, "n_epochs": 2, "gamma": 1.0, "learning_rate": 2e-3}
        self.model = MaskablePPO("MultiInputPolicy", env, ent_coef=0.01, seed=0, device="cpu", **options)
        self.notes = Notes(players)
        self.model.learn(steps * rollouts, callback=[self.notes, PoolCallback(self.pool, every=rollouts // 2 or 1)])


@pytest.fixture(scope="module", params=["6x6-2p", "6x6-2p-one-seat", "6x6-3p", "8x8-2p", "8x8-4p", "8x8-4p-one-seat"])
def trained(request):
    size, players = int(request.param[0]), int(request.param[4])
    if request.param.endswith("one-seat"):
        return Trained(size, players, games=10, rollouts=32 if size == 6 else 2, one_seat=True)
    return Trained(size, players, games=128, rollouts=16 if size == 6 else 1)


def positions(size, players):
    """Return batches of real positions, from the start to the last turn."""
    rng = np.random.default_rng(0)
    games = GameBatch(16, size=size, players=players, seed=rng)
    while not games.done:
        if games.ply % 7 == 0 or games.ply == games.plies - 1:
            yield games.copy()
        games.step_random(rng)


def greedy_actions(model, games):
    observation = {"observation": games.planes(), "action_mask": games.legal_mask()}
    return model.predict(observation, deterministic=True, action_masks=observation["action_mask"])[0]


class TestTraining:
    def test_all_results_reach_the_learner_and_no_illegal_move_the_environment(self, trained):
        assert trained.notes.tally == trained.ledger.tally
        assert trained.ledger.tally.rounds >= 20
        assert trained.ledger.tally.wins
        assert trained.ledger.tally.losses
        assert trained.ledger.illegal_moves == trained.notes.illegal == 0
        assert set(trained.ledger.seats) == set(range(trained.players))

    @pytest.mark.parametrize("trained", ["6x6-2p", "6x6-2p-one-seat", "6x6-3p"], indirect=True)
    def test_learns(self, trained):
        agent = TorchAgent(MaskableActor(trained.model.policy), "MaskablePPO")
        result = play_rounds([agent, "random"], 600, size=trained.size, players=trained.players, seed=0)
        assert result.win_share[0] - result.interval[0] > result.par[0]

    def test_meets_its_past(self, trained):
        past = trained.pool.members[1:]
        assert len(past) in (1, 2)
        before = [agent.module.logits.weight.clone() for agent in past]
        trained.model.learn(trained.model.n_steps * trained.model.n_envs, callback=trained.notes)
        for agent, weight in zip(past, before, strict=True):
            assert agent.module.logits.weight.equal(weight)
            assert not agent.module.logits.weight.equal(trained.model.policy.action_net.weight)

    def test_plays_the_same_after_saving_and_loading(self, trained, tmp_path):
        trained.model.save(tmp_path / "model")
        loaded = MaskablePPO.load(tmp_path / "model", device="cpu")
        for games in positions(trained.size, trained.players):
            assert np.array_equal(greedy_actions(loaded, games), greedy_actions(trained.model, games))

    def test_plays_the_same_as_an_agent(self, trained):
        agent = TorchAgent(MaskableActor(trained.model.policy))
        for games in positions(trained.size, trained.players):
            assert np.array_equal(agent.act(games, np.random.default_rng(0)), greedy_actions(trained.model, games))

    def test_plays_and_wins_the_same_as_an_exported_file(self, trained, tmp_path):
        size, players = trained.size, trained.players
        card = export_policy(
            MaskableActor(trained.model.policy),
            tmp_path / "policy.onnx",
            size=size,
            players=players,
            library="sb3-contrib MaskablePPO",
            versions=["sb3-contrib"],
            rounds=2,
        )
        assert card["versions"]["sb3-contrib"]
        agent = make_agent(str(tmp_path / "policy.onnx"))
        for games in positions(size, players):
            assert np.array_equal(agent.act(games, np.random.default_rng(0)), greedy_actions(trained.model, games))
            observation = {"observation": games.planes(), "action_mask": games.legal_mask()}
            values = trained.model.policy.predict_values(trained.model.policy.obs_to_tensor(observation)[0])
            assert agent.evaluate(games)[1][:, 0] == pytest.approx(values.detach().numpy()[:, 0], abs=1e-3)
        env = RolitVecEnv(600, size=size, players=players)
        env.seed(0)
        reward, _ = evaluate_masked(trained.model, env, 600, warn=False)
        result = play_rounds([agent, "random"], 600, size=size, players=players, opening_turns=0, seed=0)
        inside = (reward * (players - 1) + 1) / players
        assert abs(inside - result.win_share[0]) < 2 * result.interval[0]


def test_a_pool_that_draws_the_hardest_is_rated():
    pool = OpponentPool("random", sample="hardest")
    env = RolitVecEnv(12, size=4, opponents=pool)
    model = MaskablePPO("MultiInputPolicy", env, n_steps=6, batch_size=72, n_epochs=1, device="cpu", seed=0)
    model.learn(3 * 72, callback=PoolCallback(pool, every=2))
    assert [member.name for member in pool.members] == ["random", "step 144"]
    assert not np.array_equal(pool.weights(), [0.5, 0.5])


def test_features_need_not_be_shared():
    env = RolitVecEnv(2, size=4)
    options = {"share_features_extractor": False}
    model = MaskablePPO("MultiInputPolicy", env, n_steps=6, batch_size=12, policy_kwargs=options, device="cpu", seed=0)
    agent = TorchAgent(MaskableActor(model.policy))
    for games in positions(4, 2):
        assert np.array_equal(agent.act(games, np.random.default_rng(0)), greedy_actions(model, games))


def test_only_masked_policies_of_whole_observations_become_networks():
    plain = PPO("MultiInputPolicy", RolitVecEnv(2, size=4), n_steps=6, batch_size=12, device="cpu")
    with pytest.raises(OptionError, match="allowed are the policies of MaskablePPO"):
        MaskableActor(plain.policy)
    planes = DummyVecEnv([lambda: gymnasium.wrappers.FilterObservation(RolitEnv(size=4), ["observation"])])
    model = MaskablePPO("MultiInputPolicy", planes, n_steps=6, batch_size=6, device="cpu")
    with pytest.raises(OptionError, match="must observe a Dict of observation and action_mask"):
        MaskableActor(model.policy)


class TestWithoutTheAdapter:
    """What goes wrong on the ways that look as good."""

    def test_a_learner_without_masks_plays_illegally(self):
        env = RolitVecEnv(8, size=6)
        ledger = Ledger(env.env)
        with pytest.raises(IllegalMoveError):
            PPO("MultiInputPolicy", env, n_steps=16, batch_size=128, device="cpu", seed=0).learn(1000)
        assert ledger.illegal_moves

    def test_predict_and_evaluate_policy_forget_the_mask(self):
        env = RolitVecEnv(64)
        model = MaskablePPO("MultiInputPolicy", env, n_steps=30, batch_size=960, device="cpu", seed=0)
        observation = env.reset()
        actions, _ = model.predict(observation)  # no word of warning
        assert not np.take_along_axis(observation["action_mask"], actions[:, None], axis=1).all()
        with pytest.raises(IllegalMoveError):
            evaluate_unmasked(model, env, 64, warn=False)
        assert len(evaluate_masked(model, env, 64, warn=False, return_episode_rewards=True)[0]) == 64

    def test_moving_for_all_seats_loses_the_results_of_all_but_the_last(self):
        class MoverRewarded(gymnasium.Env):
            """The AEC environment as if it were for one: who moved gets its reward, and the next one is shown."""

            def __init__(self):
                self.game = rolit_v0.env(size=6)
                self.observation_space = self.game.observation_space("red")
                self.action_space = self.game.action_space("red")
                self.paid = []

            def observe(self):
                return self.game.observe(self.game.agent_selection)

            def action_masks(self):
                return self.observe()["action_mask"].astype(bool)

            def reset(self, *, seed=None, options=None):
                self.game.reset(seed=seed)
                self.starter = self.game.agent_selection
                return self.observe(), {}

            def step(self, action):
                mover = self.game.agent_selection
                self.game.step(int(action))
                rewards, over = dict(self.game.rewards), self.game.terminations[mover]
                if over:
                    self.paid.append([rewards.pop(self.starter), *rewards.values()])
                return self.observe(), self.game.rewards[mover], over, False, {}

        env = DummyVecEnv([MoverRewarded])
        model = MaskablePPO("MultiInputPolicy", env, n_steps=32 * 40, batch_size=1280, n_epochs=1, device="cpu", seed=0)
        notes = Notes(players=2)
        model.learn(1280, callback=notes)
        first, last = (count_rewards(paid, np.ones(40)) for paid in np.transpose(env.envs[0].paid))
        assert notes.tally == last
        assert first.wins == last.losses > 0  # and of these the learner has seen nothing
        assert first.losses == last.wins > 0


@pytest.mark.parametrize("one_seat", [False, True])
def test_example(one_seat, tmp_path, capsys):
    out = tmp_path / "new" / "policy.onnx"
    arguments = ["--size", "4", "--seconds", "0", "--out", str(out)]
    assert example.main(arguments + ["--one-seat"] * one_seat) == 0
    inside, outside = [line for line in capsys.readouterr().out.splitlines() if " against random: " in line]
    assert inside.partition(" against ")[2] == outside.partition(" against ")[2]
    assert make_agent(str(out)).card["library"] == "sb3-contrib MaskablePPO"


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
    monkeypatch.setattr(example.MaskablePPO, "learn", None)
    assert example.main(arguments) == 2
    assert complaint in capsys.readouterr().err
