"""Opponents from a pool: one for each round and seat, drawn as asked for, the same again by the same seed."""

import copy
import pickle
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.adapters.ledger import Ledger
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.agents import Agent
from rolit_env.errors import AgentError, OptionError, VariantError
from rolit_env.gym_env import RolitEnv
from rolit_env.vector_env import RolitVectorEnv

MODEL = str(Path(__file__).parents[2] / "models" / "8x8-2p.onnx")


class Ranked(Agent):
    """Takes the legal cell of some rank, counted round and round, so its moves tell who made them."""

    def __init__(self, rank):
        self.rank = rank
        self.name = f"ranked {rank}"

    def act(self, games, rng):
        return np.array([cells[self.rank % len(cells)] for cells in map(np.flatnonzero, games.legal_mask())])


def ranked_pool(members, **options):
    pool = OpponentPool(Ranked(0), **options)
    for rank in range(1, members):
        pool.add(Ranked(rank))
    return pool


def first_draws(pool, games=6000, seed=0):
    """Return who was drawn, by the first turn of a round, which has three legal cells in every game."""
    batch = GameBatch(games, size=6, seed=seed)
    actions = pool.act(batch, np.random.default_rng(seed))
    ranks = [np.flatnonzero(mask).tolist().index(action) for mask, action in zip(batch.legal_mask(), actions, strict=True)]
    return np.bincount(ranks, minlength=3)


def chi_square(counts, weights):
    expected = counts.sum() * np.asarray(weights)
    return ((counts - expected) ** 2 / expected).sum()


def possible(actions, games, members):
    """Return which members would have played so in each game, bool [B, members]."""
    return np.stack([Ranked(rank).act(games, None) == actions for rank in range(members)], axis=1)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_opponents_stay_for_a_round_and_change_with_the_next(players):
    pool, rng = ranked_pool(3), np.random.default_rng(0)
    games = GameBatch(200, size=6, players=players, seed=0)
    rounds = []
    for _ in range(2):
        games.reset(seed=rng)
        who = np.ones((players, 200, 3), bool)
        while not games.done:
            actions = pool.act(games, rng)
            who[games.seat] &= possible(actions, games, 3)
            games.step(actions)
        assert who.any(axis=2).all()  # in every game and seat, one member may have played the whole round
        assert (who.sum(axis=2) == 1).mean() > 0.9  # and mostly only one
        rounds.append(who.argmax(axis=2))
    assert 0.2 < (rounds[0] == rounds[1]).mean() < 0.5  # the next round has others,
    assert 0.2 < (rounds[0][0] == rounds[0][1]).mean() < 0.5  # and so has the next seat
    assert not pool._rounds  # nothing is kept of rounds that are over


def test_one_seat_environments_share_a_pool_and_each_keeps_its_opponent():
    class Noting(Agent):
        def __init__(self, name):
            self.name = name

        def __deepcopy__(self, memo):
            return self

        def act(self, games, rng):
            turns[id(rng)].update([self.name])
            return games.random_actions(rng)

    pool = OpponentPool(Noting("a"))
    for name in "bcd":
        pool.add(Noting(name))
    turns = defaultdict(Counter)
    envs = [RolitEnv(size=6, opponents=pool) for _ in range(5)]
    for place, env in enumerate(envs):
        env.reset(seed=place)
    met = Counter()
    for _ in range(8):
        turns = defaultdict(Counter)
        seen = [env.reset()[0] for env in envs]
        for _ in range(16):  # in turn, as vectors of such environments do
            for place, env in enumerate(envs):
                seen[place], *_ = env.step(int(seen[place]["action_mask"].argmax()))
        for env in envs:
            ((name, count),) = turns[id(env.np_random)].items()  # one alone
            assert count == 16
            met[name] += 1
    assert len(met) == 4


def test_a_round_goes_on_with_whom_it_began():
    pool = ranked_pool(2, capacity=1)
    games, rng = GameBatch(50, size=6, seed=0), np.random.default_rng(0)
    who = np.ones((2, 50, 3), bool)
    while not games.done:
        actions = pool.act(games, rng)
        who[games.seat] &= possible(actions, games, 3)
        games.step(actions)
        if games.ply == 2:  # both seats have drawn
            pool.add(Ranked(2))  # takes the place of the other
    assert who[:, :, :2].any(axis=2).all()


def test_a_round_that_was_broken_off_does_not_bind_the_next():
    pool = ranked_pool(3)
    games, rng = GameBatch(200, size=6, seed=0), np.random.default_rng(0)
    drawn = []
    for _ in range(2):
        games.reset(seed=0)
        actions = pool.act(games, rng)
        drawn.append(possible(actions, games, 3).argmax(axis=1))  # the first turn has three legal cells
        games.step(actions)
        games.step(pool.act(games, rng))
        pool.act(games, rng)
    assert 0.2 < (drawn[0] == drawn[1]).mean() < 0.5


def test_uniform_draws_all_alike():
    assert chi_square(first_draws(ranked_pool(3)), [1 / 3] * 3) < 13.8  # two degrees of freedom, one in a thousand


@pytest.mark.parametrize(("members", "newest"), [(1, 1), (3, 1), (4, 1), (5, 2), (8, 2)])
def test_recent_draws_half_from_the_newest_quarter(members, newest):
    weights = ranked_pool(members, sample="recent").weights()
    assert weights.sum() == pytest.approx(1)
    assert weights[:-newest] == pytest.approx(0.5 / members)
    assert weights[-newest:] == pytest.approx(0.5 / members + 0.5 / newest)


def test_recent_weights_are_what_is_drawn():
    assert chi_square(first_draws(ranked_pool(3, sample="recent")), [1 / 6, 1 / 6, 4 / 6]) < 13.8


def test_hardest_draws_who_beats_the_learner():
    pool = OpponentPool("random", sample="hardest")
    pool.add("positional")
    pool.add("alphabeta:depth=2")
    shares = pool.rate(make_agent("greedy"), size=6, rounds=100, seed=3)
    played = play_rounds(["greedy", "positional"], 100, size=6, seed=3)
    assert shares[1] == played.win_share[0]
    assert shares[0] > shares[1] > shares[2]
    wanted = (1 - np.array(shares)) ** 2
    np.testing.assert_allclose(pool.weights(), wanted / wanted.sum())
    pool.add("greedy")  # new, so not known to be beaten
    assert pool.weights().argmax() == 3

    ranked = ranked_pool(3, sample="hardest")
    ranked._shares = [1.0, 0.5, 0.0]
    weights = np.array([0.01, 0.25, 1]) / 1.26  # who is beaten always is met now and then
    np.testing.assert_allclose(ranked.weights(), weights)
    assert chi_square(first_draws(ranked), weights) < 13.8
    ranked._shares = [1.0] * 3
    np.testing.assert_allclose(ranked.weights(), [1 / 3] * 3)


def test_rating_seats_the_learner_among_copies_of_a_member():
    pool = OpponentPool("random", sample="hardest")
    (share,) = pool.rate(make_agent("random"), size=6, players=4, rounds=400)
    assert share == pytest.approx(0.25, abs=0.1)


def test_capacity_keeps_the_first_the_newest_and_some_of_the_past():
    pool = ranked_pool(1, capacity=5)
    for rank in range(1, 40):
        pool.add(Ranked(rank))
        ranks = [member.rank for member in pool.members]
        assert ranks == sorted(ranks)
        assert (ranks[0], ranks[-1], len(ranks)) == (0, rank, min(rank + 1, 6))
    assert ranks[1] < 35


def test_members_are_frozen():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Sequential(nn.Linear(144, 36), nn.Dropout(0.5))

        def forward(self, planes, mask):
            return (self.layer(planes.float().flatten(1)),)

    net = Net()
    pool = OpponentPool(TorchAgent(net))
    games, rng = GameBatch(100, size=6, seed=0), np.random.default_rng(0)
    first = pool.act(games, rng)
    with torch.no_grad():
        net.layer[0].weight.mul_(-1)
    np.testing.assert_array_equal(pool.act(games, rng), first)
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())


def play(opponents, seed):
    env = RolitVectorEnv(30, size=6, players=3, opponents=opponents)
    seen = [env.reset(seed=seed)[0]["observation"]]
    seen += [env.step(env.action_masks().argmax(axis=1))[0]["observation"] for _ in range(30)]
    return np.stack(seen)


def test_the_same_seed_gives_the_same_games_also_to_copies():
    pool = ranked_pool(3)
    pool.add("random")
    games = play(pool, 0)
    for twin in (pool, copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        np.testing.assert_array_equal(play(twin, 0), games)
    assert (play(pool, 1) != games).any()


@pytest.mark.parametrize("players", [2, 3, 4])
def test_the_learner_has_every_seat_equally_often(players):
    env = RolitVectorEnv(12, size=6, players=players, opponents=ranked_pool(3))
    ledger = Ledger(env)
    env.reset(seed=0)
    rounds = 0
    while rounds < players * 12:
        _, _, ended, _, _ = env.step(env.action_masks().argmax(axis=1))
        rounds += ended.sum()
    if players != 3:  # there rounds drift apart
        assert ledger.seats == dict.fromkeys(range(players), 12)
    assert set(ledger.seats) == set(range(players))
    assert ledger.illegal_moves == 0


def test_what_cannot_be_is_refused_and_changes_nothing():
    with pytest.raises(OptionError, match="sample='newest' does not exist; allowed are uniform, recent, hardest"):
        OpponentPool(sample="newest")
    with pytest.raises(OptionError, match="capacity=0"):
        OpponentPool(capacity=0)
    with pytest.raises(OptionError, match="seed=-1 is no seed"):
        OpponentPool(seed=-1)
    with pytest.raises(AgentError, match="there is no agent"):
        OpponentPool("nobody")

    pool = OpponentPool(capacity=1)
    pool.add("greedy")
    RolitVectorEnv(2, size=6, opponents=pool)
    with pytest.raises(VariantError, match="can't play 6x6-2p"):
        pool.add(MODEL)
    assert [member.name for member in pool.members] == ["random", "greedy"]
    with pytest.raises(VariantError, match="can't play 6x6-2p"):
        RolitVectorEnv(2, size=6, opponents=OpponentPool(MODEL))
