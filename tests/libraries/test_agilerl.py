"""AgileRL: the environment as its rollouts want it, a PPO that trains over it, evolution, and what goes wrong without."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("agilerl")

import torch
from agilerl.algorithms import PPO
from agilerl.hpo.mutation import Mutations
from agilerl.hpo.tournament import TournamentSelection
from agilerl.rollouts import collect_rollouts
from agilerl.training.train_on_policy import train_on_policy

from examples import agilerl as example
from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.adapters.agilerl import PolicyAndValue, RolitAgileEnv
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Ledger, Tally, count_rewards
from rolit_env.adapters.masked import TorchAgent
from rolit_env.errors import IllegalMoveError, OptionError, VariantError
from rolit_env.variant import all_variants, variant
from rolit_env.vector_env import RolitVectorEnv

from .test_examples import test_it_ends_with_a_file_that_plays_as_well, test_it_refuses_before_it_trains  # noqa: F401

VARIANTS = [pytest.param(chosen.size, chosen.players, id=chosen.name) for chosen in all_variants()]
SMALL = {"latent_dim": 16, "encoder_config": {"hidden_size": [48]}, "head_config": {"hidden_size": [48]}}


@pytest.fixture
def case():
    return example, [], "AgileRL PPO"


def make_learner(env, turns, **more):
    more = {"share_encoders": False, "rollout_buffer_config": {"use_gae": False}, "gamma": 1.0, **more}
    spaces = env.single_observation_space, env.single_action_space
    return PPO(*spaces, net_config=copy.deepcopy(SMALL), num_envs=env.num_envs, learn_step=turns * env.num_envs, **more)


def stored(learner, name):
    """Return what the learner's rollouts hold: [turns, B, ...]."""
    return learner.rollout_buffer.buffer[name].squeeze(-1)


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_it_is_the_vector_environment_with_masks_in_its_infos(size, players):
    env = RolitAgileEnv(2 * players, size=size, players=players)
    twin = RolitVectorEnv(2 * players, size=size, players=players, autoreset_mode="SameStep")
    (rows, infos), (wanted, _) = env.reset(seed=3), twin.reset(seed=3)
    rng, ended_rounds = np.random.default_rng(0), 0
    for _ in range(2 * variant(size, players).plies // players + 2):
        assert env.observation_space.contains(rows)
        assert np.array_equal(rows, wanted["observation"].reshape(2 * players, -1))
        assert np.array_equal(infos["action_mask"], wanted["action_mask"])
        actions = twin.random_actions(rng)
        rows, rewards, terminated, truncated, infos = env.step(actions)
        wanted, wanted_rewards, ended, _, facts = twin.step(actions)
        assert np.array_equal(rewards, wanted_rewards)
        assert np.array_equal(terminated, ended)
        assert not truncated.any()
        assert set(infos) == {"action_mask", *facts}
        ended_rounds += ended.sum()
    assert ended_rounds >= 4 * players


def test_refuses_what_the_vector_environment_refuses():
    with pytest.raises(VariantError):
        RolitAgileEnv(2, size=4, players=3)
    with pytest.raises(OptionError):
        RolitAgileEnv(0)
    env = RolitAgileEnv(2)
    env.reset(seed=0)
    with pytest.raises(IllegalMoveError):
        env.step([0, 0])


@pytest.mark.filterwarnings("ignore:TensorDict.to_module:FutureWarning")
@pytest.mark.parametrize("shared", [False, True])
def test_the_network_answers_as_the_learner_does(shared):
    env = RolitAgileEnv(8, size=6)
    learner = make_learner(env, 16, share_encoders=shared)
    _, rows, _, _, infos = collect_rollouts(learner, env)
    learner.learn()
    actions, log_probs, _, values = learner.get_action(rows, action_mask=infos["action_mask"])
    planes, mask = torch.from_numpy(rows).reshape(8, 4, 6, 6).to(torch.int8), torch.from_numpy(infos["action_mask"])
    with torch.no_grad():
        logits, same = PolicyAndValue(learner)(planes, mask)
    found = logits.log_softmax(dim=1).gather(1, torch.from_numpy(actions)[:, None])
    assert np.allclose(found[:, 0], log_probs, atol=1e-5)
    assert np.allclose(same[:, 0], values, atol=1e-5)


def test_learning_sees_the_distribution_that_acting_drew_from(monkeypatch):
    env = RolitAgileEnv(8, size=6)
    learner = make_learner(env, 16, batch_size=8 * 16, update_epochs=1)
    collect_rollouts(learner, env)
    seen = []
    evaluate = learner.evaluate_actions

    def recorded(**inputs):
        answers = evaluate(**inputs)
        unmasked, _, _ = evaluate(**{**inputs, "action_mask": None})
        seen.append((answers[0].detach(), unmasked.detach()))
        return evaluate(**inputs)

    monkeypatch.setattr(learner, "evaluate_actions", recorded)
    learner.learn()
    ((masked, unmasked),) = seen
    acted = stored(learner, "log_probs").flatten().sort().values
    assert (masked.sort().values - acted).abs().max() < 1e-5  # ratios are 1, in whatever order
    assert (unmasked.sort().values - acted).abs().max() > 1


@pytest.mark.parametrize("use_gae", [False, True])
def test_agilerls_estimator_keeps_the_result_from_all_turns_but_the_last(use_gae):
    """With λ and the discount at 1 either estimator should return the result of a round at each of its turns."""
    env = RolitAgileEnv(32, size=6)
    learner = make_learner(env, 32, gae_lambda=1.0, rollout_buffer_config={"use_gae": use_gae})
    collect_rollouts(learner, env)
    rewards, ended, returns = (stored(learner, name) for name in ("rewards", "dones", "returns"))
    assert ended[[15, 31]].all()
    assert ended.sum() == 64
    for last in (15, 31):
        result = rewards[last].expand(15, 32)
        assert (result.abs() > 0.9).any()
        wanted = torch.zeros(15, 32) if use_gae else result
        assert (returns[last - 15 : last] - wanted).abs().max() < 1e-5


def test_the_environment_alone_is_played_illegally():
    """AgileRL takes a mask in the observation for one more part of what is seen."""
    env = RolitVectorEnv(8, size=6, autoreset_mode="SameStep")
    learner = PPO(env.single_observation_space, env.single_action_space, num_envs=8, learn_step=8 * 16, share_encoders=False)
    with pytest.raises(IllegalMoveError):
        collect_rollouts(learner, env)


# The example trains.


@pytest.mark.parametrize(("size", "players"), [(6, 2), (6, 3), (6, 4), (8, 2), (8, 4)])
def test_the_example_learns_from_all_results(size, players, monkeypatch):
    ledgers, seen, first = [], [], {}

    class Watched(RolitAgileEnv):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            ledgers.append(Ledger(self.env))

    def recorded(learner, *args, **kwargs):
        first.update({} if first else copy.deepcopy(PolicyAndValue(learner).state_dict()))
        answers = collect_rollouts(learner, *args, **kwargs)
        seen.append(count_rewards(stored(learner, "rewards"), stored(learner, "dones"), players))
        return answers

    monkeypatch.setattr(example, "RolitAgileEnv", Watched)
    monkeypatch.setattr(example, "collect_rollouts", recorded)
    monkeypatch.setattr(example, "GAMES", 96)
    learner, turns = example.train(size, players, seconds=0.3 if size == 6 else 0, seed=0)
    (ledger,) = ledgers
    assert not ledger.illegal_moves
    assert sum(seen, Tally()) == ledger.tally
    assert ledger.tally.wins
    assert ledger.tally.losses
    assert set(ledger.seats) == set(range(players))
    assert turns == len(seen) * 96 * -(-variant(size, players).plies // players)
    after = PolicyAndValue(learner).state_dict()
    assert all((first[name] != weights).any() for name, weights in after.items())


def test_a_checkpoint_and_the_exported_file_play_as_the_learner_does(tmp_path):
    env = RolitAgileEnv(4, size=6, players=3)
    learner = make_learner(env, 12)
    collect_rollouts(learner, env)
    learner.learn()
    learner.save_checkpoint(str(tmp_path / "learner.pt"))
    again = PPO.load(str(tmp_path / "learner.pt"))
    networks = [PolicyAndValue(learner), PolicyAndValue(again)]
    options = {"size": 6, "players": 3, "library": "AgileRL PPO", "versions": ["agilerl"]}
    export_policy(networks[0], tmp_path / "policy.onnx", rounds=6, **options)
    games, rng = GameBatch(32, size=6, players=3, seed=0), np.random.default_rng(0)
    agents = [*map(TorchAgent, networks), make_agent(str(tmp_path / "policy.onnx"))]
    while not games.done:
        actions, *others = [agent.act(games, rng) for agent in agents]
        for other in others:
            assert np.array_equal(actions, other)
        games.step(games.random_actions(rng))
    collect_rollouts(again, env)
    again.learn()
    assert not again.rollout_buffer.use_gae


@pytest.mark.parametrize("kind", ["architecture", "rl_hp"])
def test_a_population_evolves_with_masks(kind):
    """All of AgileRL's own training loop, with other networks or other settings after each mutation."""
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    env = RolitAgileEnv(16, size=4)
    ledger = Ledger(env.env)
    population = [make_learner(env, 6, index=index) for index in range(3)]

    def kinds(learners):
        if kind == "rl_hp":
            return {(learner.lr, learner.batch_size, learner.learn_step) for learner in learners}
        return {layer.shape for learner in learners for layer in learner.actor.parameters()}

    before = kinds(population)
    chances = dict.fromkeys(["no_mutation", "architecture", "parameters", "activation", "rl_hp"], 0) | {kind: 1}
    evolved, fitness = train_on_policy(
        env,
        "Rolit",
        "PPO",
        population,
        max_steps=16 * 6 * 4,
        evo_steps=16 * 6,
        selection_strategy=TournamentSelection(tournament_size=2, elitism=True, population_size=3),
        mutation=Mutations(**chances, new_layer_prob=0.2, rand_seed=0),
        verbose=False,
    )
    assert not ledger.illegal_moves
    assert set(ledger.seats) == {0, 1}
    assert len(fitness) == len(evolved) == 3
    assert kinds(evolved) - before
    for learner in evolved:
        assert not learner.rollout_buffer.use_gae
        assert play_rounds([TorchAgent(PolicyAndValue(learner)), "random"], 20, size=4, seed=0).rounds == 20
