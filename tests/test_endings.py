"""True values of the last turns: what the solver says, and what learning makes of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rolit_env import GameBatch, make_agent
from rolit_env.errors import ConfigError
from training.config import TrainConfig
from training.endings import outcomes
from training.learner import Learner
from training.network import position_words
from training.ppo import lambda_returns, mover_first
from training.rollout import play

CONFIG = TrainConfig(size=6, games=30, network="afterstates", minutes=0, turns=10_000, evaluate_every=0, exact=9)


def test_outcomes_are_those_of_a_search_to_the_end():
    games = GameBatch(300, size=6, players=2, seed=4)
    rng = np.random.default_rng(5)
    games.step_random(rng, turns=games.plies - 8)
    found = outcomes(position_words(games), 6)
    searched = make_agent("alphabeta:depth=8,exact=0").search(games, rng).values
    assert found.tolist() == np.sign(searched).tolist()
    assert len(set(found.tolist())) == 3


def test_the_last_turns_of_a_rollout_have_true_values_for_both_seats():
    plain, solved = (
        play(learner.network, learner.config, learner.rng, learner.device)
        for learner in (Learner.fresh(replace(CONFIG, exact=0)), Learner.fresh(CONFIG))
    )
    assert torch.equal(plain.actions, solved.actions)
    assert torch.equal(plain.values[:-9], solved.values[:-9])
    for ply in range(32 - 9, 32):
        mover = ply % 2
        assert torch.equal(solved.values[ply, :, mover], outcomes(solved.words[ply], 6))
        assert torch.equal(solved.values[ply, :, 1 - mover], -solved.values[ply, :, mover])
    assert torch.equal(solved.values[-1], solved.payoffs)  # the last turn is forced


def test_only_mistakes_have_an_advantage_where_values_are_true():
    learner = Learner.fresh(CONFIG)
    rollout = play(learner.network, CONFIG, learner.rng, learner.device)
    returns = lambda_returns(rollout.values, rollout.payoffs, 0.9, CONFIG.exact)
    advantages = mover_first(returns - rollout.values)[-9:, :, 0]
    assert set(advantages.unique().tolist()) <= {0.0, -1.0, -2.0}  # nobody gains against best play
    assert 0.02 < (advantages < 0).float().mean() < 0.5
    # What comes before them learns from the first true value, not from how the rest was played.
    assert torch.equal(returns[-10], rollout.values[-9])
    torch.testing.assert_close(returns[-11], 0.1 * rollout.values[-10] + 0.9 * rollout.values[-9])


@pytest.mark.parametrize("settings", [{"players": 3}, {"payoff": "balls"}])
def test_what_has_no_true_values_is_refused(settings):
    with pytest.raises(ConfigError, match="exact=9 needs two players and payoff=win"):
        replace(CONFIG, **settings)
