"""What environments say and what a learner got are the same, and a wrapper that loses rewards is found out."""

import numpy as np
import pytest

from rolit_env.adapters.ledger import Ledger, Tally, count_rewards, count_shares
from rolit_env.errors import IllegalMoveError
from rolit_env.gym_env import RolitEnv
from rolit_env.vector_env import RolitVectorEnv


def learn(env, rounds, seed=0):
    """Play random legal actions in a one-seat environment and return the rewards and ends, as a learner's buffer has them."""
    rng = np.random.default_rng(seed)
    rewards, ended = [], []
    for number in range(rounds):
        observation, _ = env.reset(seed=seed if number == 0 else None)
        over = False
        while not over:
            action = rng.choice(np.flatnonzero(observation["action_mask"]))
            observation, reward, over, _, _ = env.step(action)
            rewards.append(reward)
            ended.append(over)
    return np.array(rewards, np.float32), np.array(ended)


@pytest.mark.parametrize(("size", "players"), [(4, 2), (6, 3), (6, 4)])
def test_one_seat_and_learner_agree(size, players):
    env = RolitEnv(size=size, players=players)
    ledger = Ledger(env)
    rewards, ended = learn(env, 120)
    assert count_rewards(rewards, ended, players) == ledger.tally
    assert min(ledger.tally.wins, ledger.tally.draws, ledger.tally.losses) > 0
    assert ledger.tally.rounds == 120
    assert ledger.seats == dict.fromkeys(range(players), 120 // players)
    assert ledger.illegal_moves == 0


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize(("size", "players"), [(4, 2), (6, 3), (6, 4)])
def test_thousands_and_learner_agree(size, players, mode):
    env = RolitVectorEnv(240, size=size, players=players, autoreset_mode=mode)
    ledger = Ledger(env)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    tally = Tally()
    for _ in range(40):
        _, rewards, ended, _, _ = env.step(env.random_actions(rng))
        tally += count_rewards(rewards, ended, players)
        if mode == "Disabled" and ended.any():
            env.reset(options={"reset_mask": ended})
    assert tally == ledger.tally
    assert min(tally.wins, tally.draws, tally.losses) > 0
    assert tally.rounds == sum(ledger.seats.values()) >= 240
    assert tally.stray == 0


def test_two_environments_share_a_ledger():
    envs = RolitEnv(size=4), RolitEnv(size=4, players=2, seat=0)
    ledger = Ledger(*envs)
    tallies = [count_rewards(*learn(env, 10, seed)) for seed, env in enumerate(envs)]
    assert tallies[0] + tallies[1] == ledger.tally
    assert ledger.seats == {0: 15, 1: 5}


def test_lost_defeats_and_misplaced_rewards_are_found_out():
    env = RolitEnv(size=4)
    ledger = Ledger(env)
    rewards, ended = learn(env, 60)
    assert count_rewards(np.maximum(rewards, 0), ended) != ledger.tally
    shifted = count_rewards(np.roll(rewards, -1), ended)
    assert shifted != ledger.tally
    assert shifted.stray == ledger.tally.wins + ledger.tally.losses


def test_shares_of_the_lead_are_draws():
    assert count_shares([1, 0.5, 0, 0, 1 / 3]) == Tally(wins=1, draws=2, losses=2)
    rewards = np.float32([0, 1, -0.5, 0.25, 0, 0.1])
    assert count_rewards(rewards, [0, 1, 1, 1, 1, 0], players=3) == Tally(wins=1, draws=2, losses=1, stray=1)


def test_illegal_moves_are_counted_whatever_the_environment_does_about_them():
    for illegal_move in ("terminate", "retry", "raise"):
        env = RolitEnv(size=4, illegal_move=illegal_move)
        ledger = Ledger(env)
        for number in range(2):
            observation, _ = env.reset(seed=number)
            illegal = int(np.flatnonzero(observation["action_mask"] == 0)[0])
            if illegal_move == "raise":
                with pytest.raises(IllegalMoveError):
                    env.step(illegal)
            else:
                env.step(illegal)
        assert ledger.illegal_moves == 2, illegal_move
        assert ledger.tally == Tally()
        learn(env, 5)
        assert (ledger.illegal_moves, ledger.tally.rounds) == (2, 5)

    env = RolitVectorEnv(10, size=4)
    ledger = Ledger(env)
    env.reset(seed=0)
    actions = env.random_actions(np.random.default_rng(0))
    actions[3:5] = 5  # in the middle, where a ball lies
    with pytest.raises(IllegalMoveError):
        env.step(actions)
    assert ledger.illegal_moves == 2
