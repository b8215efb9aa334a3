"""skrl: the environment and models as it wants them, a PPO that trains with them, and what goes wrong without them."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("skrl")

import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

from examples import skrl as example
from rolit_env import GameBatch, make_agent
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Ledger, Tally, count_rewards
from rolit_env.adapters.masked import ILLEGAL, TorchAgent
from rolit_env.adapters.skrl import MaskedPolicy, PlanesValue, PolicyAndValue, make_env
from rolit_env.errors import IllegalMoveError, OptionError, VariantError
from rolit_env.variant import all_variants, variant
from rolit_env.vector_env import RolitVectorEnv

VARIANTS = [pytest.param(chosen.size, chosen.players, id=chosen.name) for chosen in all_variants()]


class Unmasked(CategoricalMixin, Model):
    """The policy as skrl's documentation has it: over all actions."""

    def __init__(self, observation_space, action_space, device="cpu"):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        CategoricalMixin.__init__(self)
        self.network = torch.nn.Linear(self.num_observations, self.num_actions)

    def compute(self, inputs, role=""):
        return self.network(inputs["observations"]), {}


def spaces(env):
    return {"observation_space": env.observation_space, "action_space": env.action_space}


def make_learner(env, rollouts, policy=None):
    cells = env.action_space.n
    value = PlanesValue(**spaces(env), network=example.perceptron(cells, 1))
    learner = PPO(
        models={"policy": policy or MaskedPolicy(**spaces(env), network=example.perceptron(cells, cells)), "value": value},
        memory=RandomMemory(memory_size=rollouts, num_envs=env.num_envs, device="cpu"),
        **spaces(env),
        device="cpu",
        cfg=PPO_CFG(rollouts=rollouts, experiment={"write_interval": 0, "checkpoint_interval": 0}),
    )
    settings = {"timesteps": rollouts, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    return learner, SequentialTrainer(env=env, agents=learner, cfg=settings)


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_models_read_the_observation_out_of_the_rows(size, players):
    set_seed(3)
    env = make_env(2 * players, size=size, players=players)
    twin = RolitVectorEnv(2 * players, size=size, players=players, autoreset_mode="SameStep")
    wanted, _ = twin.reset(seed=3)
    rows, _ = env.reset()
    policy = MaskedPolicy(**spaces(env), network=example.perceptron(size * size, size * size))
    value = PlanesValue(**spaces(env), network=example.perceptron(size * size, 1))
    both, ended_rounds = PolicyAndValue(policy, value), 0
    for _ in range(2 * variant(size, players).plies // players + 2):
        with torch.no_grad():
            actions, facts = policy.act({"observations": rows})
            values, _ = value.act({"observations": rows})
            logits, same = both(*(torch.from_numpy(wanted[key]) for key in ("observation", "action_mask")))
        assert np.array_equal(facts["net_output"], logits)
        assert np.array_equal(values, same)
        assert np.array_equal(logits == ILLEGAL, wanted["action_mask"] == 0)
        rows, rewards, terminated, truncated, _ = env.step(actions)
        wanted, wanted_rewards, ended, _, _ = twin.step(actions[:, 0].numpy())
        assert np.array_equal(rewards[:, 0], wanted_rewards.astype(np.float32))
        assert np.array_equal(terminated[:, 0], ended)
        assert not truncated.any()
        ended_rounds += ended.sum()
    assert ended_rounds >= 4 * players


def test_refuses_what_the_vector_environment_refuses():
    with pytest.raises(VariantError):
        make_env(2, size=4, players=3)
    with pytest.raises(OptionError):
        make_env(0)


def test_learning_sees_the_distribution_that_acting_drew_from():
    set_seed(0)
    learner, trainer = make_learner(make_env(8, size=6), 16)
    first = copy.deepcopy(learner.policy.state_dict())
    trainer.train()
    stored = {name: learner.memory.get_tensor_by_name(name).flatten(0, 1) for name in ("observations", "actions", "log_prob")}
    learner.policy.load_state_dict(first)
    inputs = {"observations": stored["observations"], "taken_actions": stored["actions"]}
    with torch.no_grad():
        _, facts = learner.policy.act(inputs)
        assert (facts["log_prob"] - stored["log_prob"]).abs().max() < 1e-5
        seen = stored["observations"][:, 36:].reshape(-1, 4, 6, 6)
        unmasked = torch.log_softmax(learner.policy.network(seen), dim=1).gather(1, stored["actions"].long())
    assert (unmasked - stored["log_prob"]).abs().min() > 0.5  # as far off as learning would be without the mask


def test_the_naive_policy_plays_illegally():
    env = make_env(8, size=6)
    _, trainer = make_learner(env, 16, Unmasked(**spaces(env)))
    with pytest.raises(IllegalMoveError):
        trainer.train()


def test_the_naive_environment_has_a_turn_too_many_in_each_round():
    """With gymnasium's default, the step after the end, whose action nobody plays, is a transition of its own."""
    turns = {}
    for mode in ("NextStep", "SameStep"):
        env = wrap_env(RolitVectorEnv(6, size=6, autoreset_mode=mode), wrapper="gymnasium", verbose=False)
        learner, trainer = make_learner(env, 34)
        trainer.train()
        rows, ended = (learner.memory.get_tensor_by_name(name) for name in ("observations", "terminated"))
        nothing_legal = rows[..., :36].sum(dim=-1) == 0
        assert nothing_legal.sum() == (12 if mode == "NextStep" else 0)
        assert (nothing_legal[1:] == ended[:-1, :, 0]).all() == (mode == "NextStep")
        turns[mode] = ended[:, 0, 0].nonzero()[:, 0].tolist()
    assert turns == {"NextStep": [15, 32], "SameStep": [15, 31]}


def test_other_distributions_in_the_process_go_on_checking():
    code = """
from torch.distributions import Distribution
import skrl.models.torch
print(Distribution._validate_args)
import rolit_env.adapters.skrl
print(Distribution._validate_args)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "True"]


# The example trains.


@pytest.mark.parametrize(("size", "players"), [(6, 2), (6, 3), (6, 4), (8, 2), (8, 4)])
def test_the_example_learns_from_all_results(size, players, monkeypatch):
    ledgers, seen, first = [], [], {}

    def watched(*args, **kwargs):
        env = make_env(*args, **kwargs)
        ledgers.append(Ledger(env.unwrapped))
        return env

    class Recording(SequentialTrainer):
        def train(self):
            first.update({} if first else copy.deepcopy(self.agents.policy.state_dict()))
            super().train()
            rewards, ended = (self.agents.memory.get_tensor_by_name(name) for name in ("rewards", "terminated"))
            seen.append(count_rewards(rewards, ended, players))

    monkeypatch.setattr(example, "make_env", watched)
    monkeypatch.setattr(example, "SequentialTrainer", Recording)
    monkeypatch.setattr(example, "GAMES", 96)
    learner, turns = example.train(size, players, seconds=0.3 if size == 6 else 0, seed=0)
    (ledger,) = ledgers
    assert not ledger.illegal_moves
    assert sum(seen, Tally()) == ledger.tally
    assert ledger.tally.wins
    assert ledger.tally.losses
    assert set(ledger.seats) == set(range(players))
    assert turns == len(seen) * 96 * -(-variant(size, players).plies // players)
    assert all((first[name] != weights).any() for name, weights in learner.policy.state_dict().items())


def test_a_checkpoint_and_the_exported_file_play_as_the_learner_does(tmp_path):
    env = make_env(4, size=6, players=3)
    (learner, trainer), (again, _) = make_learner(env, 12), make_learner(env, 12)
    trainer.train()
    learner.save(str(tmp_path / "learner.pt"))
    again.load(str(tmp_path / "learner.pt"))
    networks = [PolicyAndValue(agent.policy, agent.value) for agent in (learner, again)]
    export_policy(networks[0], tmp_path / "policy.onnx", size=6, players=3, library="skrl PPO", versions=["skrl"], rounds=6)
    games, rng = GameBatch(32, size=6, players=3, seed=0), np.random.default_rng(0)
    agents = [*map(TorchAgent, networks), make_agent(str(tmp_path / "policy.onnx"))]
    while not games.done:
        actions, *others = [agent.act(games, rng) for agent in agents]
        for other in others:
            assert np.array_equal(actions, other)
        games.step(games.random_actions(rng))
