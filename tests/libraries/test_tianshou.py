"""Tianshou: the environment and networks as it wants them, PPO and DQN that train with them, and what goes wrong without."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("tianshou")

import torch
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.multiagent.marl import MultiAgentOffPolicyAlgorithm, MultiAgentOnPolicyAlgorithm
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.torch_utils import policy_within_training_step

from examples import tianshou as example
from rolit_env import GameBatch, make_agent, rolit_v0
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Ledger, Tally, count_rewards
from rolit_env.adapters.masked import ILLEGAL, TorchAgent
from rolit_env.adapters.tianshou import GreedyQ, MaskedActor, PlanesCritic, PlanesQ, PolicyAndValue, RolitTianshouEnv
from rolit_env.errors import IllegalMoveError, OptionError, VariantError
from rolit_env.variant import all_variants, variant
from rolit_env.vector_env import RolitVectorEnv

VARIANTS = [pytest.param(chosen.size, chosen.players, id=chosen.name) for chosen in all_variants()]


class TestRolitTianshouEnv:
    @pytest.mark.parametrize(("size", "players"), VARIANTS)
    def test_steps_as_the_vector_environment_does(self, size, players):
        games = 2 * players
        env = RolitTianshouEnv(games, size=size, players=players, opponents="positional")
        twin = RolitVectorEnv(games, size=size, players=players, opponents="positional", autoreset_mode="SameStep")
        env.seed(3)
        (seen, infos), (wanted, _) = env.reset(), twin.reset(seed=3)
        rng, ended_rounds = np.random.default_rng(0), 0
        for _ in range(2 * variant(size, players).plies // players + 2):
            assert np.array_equal(seen.obs, wanted["observation"])
            assert np.array_equal(seen.mask, wanted["action_mask"] == 1)
            assert infos.tolist() == [{}] * games
            actions = twin.random_actions(rng)
            seen, rewards, terminated, truncated, infos = env.step(actions, np.arange(games))
            wanted, wanted_rewards, ended, _, facts = twin.step(actions)
            assert np.array_equal(rewards, wanted_rewards)
            assert np.array_equal(terminated, ended)
            assert not truncated.any()
            if ended.any():
                assert np.array_equal(seen.obs[ended], facts["final_obs"]["observation"][ended])
                assert not seen.mask[ended].any()
                rows = np.flatnonzero(ended)
                seen[rows], _ = env.reset(rows)
                ended_rounds += len(rows)
        assert ended_rounds >= 4 * players

    def test_a_seed_counts_for_all_that_follows(self):
        env = RolitTianshouEnv(6, size=6, players=3)
        assert env.seed([1, 2, 3]) == [1] * 6
        first, _ = env.reset()
        again, _ = env.reset(seed=1)
        other, _ = env.reset()
        assert np.array_equal(first.obs, again.obs)
        assert not np.array_equal(first.obs, other.obs)

    def test_is_what_collectors_ask_for(self):
        env = RolitTianshouEnv(4, size=6)
        assert len(env) == 4
        assert env.action_space == [env.rounds.single_action_space] * 4
        assert env.get_env_attr("observation_space", [0, 2]) == [env.rounds.single_observation_space] * 2
        with pytest.raises(AttributeError, match="give it when RolitTianshouEnv is made"):
            env.set_env_attr("size", 8)
        assert env.render() == []
        env.close()
        shown = RolitTianshouEnv(2, size=4, render_mode="ansi")
        shown.reset()
        assert shown.render() == list(shown.rounds.render())

    def test_refuses_what_the_vector_environment_refuses(self):
        with pytest.raises(VariantError):
            RolitTianshouEnv(2, size=4, players=3)
        with pytest.raises(OptionError):
            RolitTianshouEnv(0)

    def test_rounds_are_collected_all_at_once(self):
        env = RolitTianshouEnv(4, size=4)
        collector = Collector(example.make_ppo(env), env, VectorReplayBuffer(48, 4))
        collector.reset()
        played = collector.collect(n_episode=8)
        assert (played.n_collected_episodes, played.n_collected_steps) == (8, 48)
        with pytest.raises(OptionError, match="that 4 divides"):
            collector.collect(n_episode=6)

    def test_tianshous_own_trainer_trains_over_it(self):
        env = RolitTianshouEnv(4, size=4)
        ledger, learner = Ledger(env.rounds), example.make_ppo(env)
        first = copy.deepcopy(learner.policy.state_dict())
        setting = OnPolicyTrainerParams(
            training_collector=Collector(learner, env, VectorReplayBuffer(24, 4)),
            max_epochs=1,
            epoch_num_steps=48,
            collection_step_num_env_steps=24,
            batch_size=12,
            show_progress=False,
            verbose=False,
        )
        learner.run_training(setting)
        assert ledger.tally.rounds == 8
        assert all((first[name] != weights).any() for name, weights in learner.policy.state_dict().items())


# The example trains.


@pytest.mark.parametrize("dqn", [False, True], ids=["ppo", "dqn"])
@pytest.mark.parametrize(("size", "players"), [(6, 2), (6, 3), (8, 2), (8, 4)])
def test_the_example_learns_from_all_results(size, players, dqn, monkeypatch):
    ledgers, learners, tallies = [], [], [Tally()]

    class Watched(RolitTianshouEnv):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            ledgers.append(Ledger(self.rounds))

    class Counting(VectorReplayBuffer):
        """Counts what stands in it after each step."""

        def add(self, batch, buffer_ids=None):
            rows, *rest = super().add(batch, buffer_ids)
            tallies[0] += count_rewards(self.rew[rows], self.done[rows], players)
            assert self.obs.mask[rows, self.act[rows]].all()
            return rows, *rest

    class Watching(Collector):
        def __init__(self, learner, *args, **kwargs):
            super().__init__(learner, *args, **kwargs)
            learners.append((learner, copy.deepcopy(learner.policy.state_dict())))

    monkeypatch.setattr(example, "RolitTianshouEnv", Watched)
    monkeypatch.setattr(example, "VectorReplayBuffer", Counting)
    monkeypatch.setattr(example, "Collector", Watching)
    monkeypatch.setattr(example, "GAMES", 96)
    _, turns = example.train(size, players, seconds=0.3 if size == 6 else 0, seed=0, dqn=dqn)
    (ledger,), ((learner, first),) = ledgers, learners
    assert not ledger.illegal_moves
    assert tallies[0] == ledger.tally
    assert ledger.tally.wins
    assert ledger.tally.losses
    assert set(ledger.seats) == set(range(players))
    assert turns % (96 * -(-variant(size, players).plies // players)) == 0
    assert all((first[name] != weights).any() for name, weights in learner.policy.state_dict().items())


def collect(learner, env, turns, rounds=1):
    """Return a buffer of so many turns in each round."""
    buffer = VectorReplayBuffer(turns * rounds * len(env), len(env))
    collector = Collector(learner, env, buffer, exploration_noise=True)
    collector.reset()
    with policy_within_training_step(learner.policy):
        collector.collect(n_step=turns * rounds * len(env))
    return buffer


def process(learner, buffer):
    batch, rows = buffer.sample(0)
    return learner._preprocess_batch(batch, buffer, rows)


def test_dqn_learns_what_every_turn_of_a_round_came_to():
    env = RolitTianshouEnv(8, size=6, players=4, opponents="positional")
    learner = example.make_dqn(env, turns=8)
    batch = process(learner, collect(learner, env, turns=8, rounds=2))
    payoffs = batch.rew[batch.done]
    assert np.array_equal(batch.returns.flatten(), np.repeat(payoffs, 8).astype(np.float32))
    assert (payoffs < 0).any()


def test_the_actor_masks_in_acting_and_learning():
    env = RolitTianshouEnv(8, size=6)
    learner = example.make_ppo(env)
    batch = process(learner, collect(learner, env, turns=16))
    with torch.no_grad():
        answer = learner.policy(batch)
    assert np.array_equal(answer.logits.numpy() == ILLEGAL, ~batch.obs.mask)
    assert np.isfinite(answer.dist.entropy()).all()
    assert np.array_equal(answer.dist.log_prob(batch.act), batch.logp_old)
    assert batch.obs.mask[np.arange(len(batch)), answer.act.numpy()].all()


@pytest.mark.parametrize("dqn", [False, True], ids=["ppo", "dqn"])
def test_a_checkpoint_and_the_exported_file_play_as_the_learner_does(dqn, tmp_path):
    env = RolitTianshouEnv(4, size=6, players=3)
    learner, again = (example.make_dqn(env, 11) if dqn else example.make_ppo(env) for _ in range(2))
    buffer = collect(learner, env, turns=11)
    with policy_within_training_step(learner.policy):
        learner.update(buffer, 44) if dqn else learner.update(buffer, batch_size=22, repeat=2)
    torch.save(learner.state_dict(), tmp_path / "learner.pt")
    again.load_state_dict(torch.load(tmp_path / "learner.pt", weights_only=True))
    networks = [GreedyQ(one.policy.model) if dqn else PolicyAndValue(one.policy.actor, one.critic) for one in (learner, again)]
    about = {"library": "Tianshou", "versions": ["tianshou"], "rounds": 6}
    export_policy(networks[0], tmp_path / "policy.onnx", size=6, players=3, **about)
    games, rng = GameBatch(32, size=6, players=3, seed=0), np.random.default_rng(0)
    agents = [*map(TorchAgent, networks), make_agent(str(tmp_path / "policy.onnx"))]
    while not games.done:
        actions, *others = [agent.act(games, rng) for agent in agents]
        for other in others:
            assert np.array_equal(actions, other)
        if dqn:  # the library's own greedy actions
            seen = Batch(obs=Batch(obs=games.planes(), mask=games.legal_mask() == 1), info=Batch())
            assert np.array_equal(actions, learner.policy(seen).act)
        games.step(games.random_actions(rng))


class TestWithoutTheAdapter:
    """What goes wrong on the ways that look as good."""

    def test_ppo_ignores_the_mask(self):
        class Unmasked(MaskedActor):
            def forward(self, obs, state=None, info=None):
                return self.network(torch.as_tensor(obs.obs).float()), state

        env = RolitTianshouEnv(8, size=6)
        ledger, space = Ledger(env.rounds), env.action_space[0]
        policy = DiscreteActorPolicy(actor=Unmasked(example.perceptron(36, 36)), action_space=space)
        learner = PPO(policy=policy, critic=PlanesCritic(example.perceptron(36, 1)), optim=AdamOptimizerFactory())
        with pytest.raises(IllegalMoveError):
            collect(learner, env, turns=16)
        assert ledger.illegal_moves

    def test_only_double_dqn_keeps_illegal_actions_out_of_its_targets(self):
        env = RolitTianshouEnv(4, size=6)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4 * 36, 36))
        torch.nn.init.zeros_(network[1].weight)
        torch.nn.init.zeros_(network[1].bias)
        network[1].bias.data[0] = 5  # a corner, which nobody reaches in the first turns
        targets = {}
        for double in (True, False):
            policy = DiscreteQLearningPolicy(model=PlanesQ(network), action_space=env.action_space[0])
            learner = DQN(policy=policy, optim=AdamOptimizerFactory(), target_update_freq=1, is_double=double)
            buffer = collect(learner, env, turns=1)
            assert not buffer.obs_next.mask[:4, 0].any()
            targets[double] = learner._target_q(buffer, buffer.sample_indices(0)).tolist()
        assert targets == {True: [0] * 4, False: [5] * 4}

    @staticmethod
    def pettingzoo(make_learner, multi_agent):
        """Return learners for both colours after eight rounds in Tianshou's own wrapper, and what they stored."""
        env = DummyVectorEnv([lambda: PettingZooEnv(rolit_v0.env(size=4)) for _ in range(8)])
        env.seed(0)
        learner = multi_agent(algorithms=[make_learner(), make_learner()], env=PettingZooEnv(rolit_v0.env(size=4)))
        return learner, collect(learner, env, turns=12)

    def test_multi_agent_ppo_drops_the_results_of_all_but_the_last_to_move(self):
        def make_learner():
            return example.make_ppo(RolitTianshouEnv(2, size=4))

        torch.manual_seed(0)
        learner, buffer = self.pettingzoo(make_learner, MultiAgentOnPolicyAlgorithm)
        batch, paid, last = process(learner, buffer), buffer.rew[buffer.done], buffer.obs.agent_id[buffer.done]
        assert len(paid) == 8
        dropped = 0
        for column, color in enumerate(("red", "green")):
            rewards = batch[color].rew
            assert np.array_equal(rewards[rewards != 0], [reward for reward in paid[last == color, column] if reward])
            dropped += np.count_nonzero(paid[last != color, column])
        assert dropped == np.count_nonzero(paid) / 2 > 0

    @pytest.mark.parametrize("horizon", [1, 12])
    def test_multi_agent_dqn_bootstraps_from_the_others_turns_unless_it_looks_a_round_ahead(self, horizon):
        def make_learner():
            network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4 * 16, 16))
            torch.nn.init.zeros_(network[1].weight)
            torch.nn.init.zeros_(network[1].bias)
            space = rolit_v0.env(size=4).action_space("red")
            policy = DiscreteQLearningPolicy(model=PlanesQ(network), action_space=space, eps_training=1, eps_inference=1)
            return DQN(policy=policy, optim=AdamOptimizerFactory(), gamma=1.0, n_step_return_horizon=horizon)

        learner, buffer = self.pettingzoo(make_learner, MultiAgentOffPolicyAlgorithm)
        going_on = ~buffer.done
        assert (buffer.obs_next.agent_id != buffer.obs.agent_id)[going_on].all()
        batch, payoffs = process(learner, buffer), np.repeat(buffer.rew[buffer.done], 12, axis=0)
        for column, color in enumerate(("red", "green")):
            mine = buffer.obs.agent_id == color
            wanted = payoffs[mine, column]
            if horizon == 1:
                wanted = np.where(buffer.done[mine], wanted, 0)  # of the player before, nothing arrives
            assert np.array_equal(batch[color].returns.flatten(), wanted)
        assert np.count_nonzero(payoffs)
