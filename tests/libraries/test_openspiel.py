"""Rolit as a game of OpenSpiel passes OpenSpiel's own tests, its bots play it, and its PPO learns it."""

import copy
import itertools
import pickle

import numpy as np
import pytest

pytest.importorskip("pyspiel")

import pyspiel
import torch
from open_spiel.integration_tests import api_test
from open_spiel.python.algorithms import mcts
from open_spiel.python.pytorch.ppo import PPO
from open_spiel.python.rl_agent import StepOutput
from open_spiel.python.rl_environment import Environment, IllegalActionError
from open_spiel.python.tests import games_sim_test
from open_spiel.python.vector_env import SyncVectorEnv

from examples import openspiel as example
from rolit_env import Board, GameBatch, make_agent
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Tally, count_rewards, count_shares
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.openspiel import OwnTurnVectorEnv
from rolit_env.agents import Agent
from rolit_env.errors import ActionError, IllegalMoveError, OptionError, PositionError, RoundOverError, VariantError
from rolit_env.variant import all_variants

VARIANTS = [(variant.size, variant.players) for variant in all_variants()]


def load(size, players, starter="red"):
    return pyspiel.load_game(f"python_rolit(size={size},players={players},starter={starter})")


def random_walk(game, seed=0):
    """Yield every state of a random round."""
    rng, state = np.random.default_rng(seed), game.new_initial_state()
    yield state
    while not state.is_terminal():
        state.apply_action(rng.choice(state.legal_actions()))
        yield state


# OpenSpiel's own tests.


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_passes_the_random_simulations(size, players, capfd):
    game = load(size, players)
    pyspiel.random_sim_test(game, 2, True, False)
    games_sim_test.GamesSimTest().sim_game(game)


class TestApiForTwo(api_test.EnforceAPIOnPartialTreeBase):
    game_name, game = "python_rolit", load(8, 2)


class TestApiForThree(api_test.EnforceAPIOnPartialTreeBase):
    game_name, game = "python_rolit", load(6, 3, "yellow")


class TestApiForFour(api_test.EnforceAPIOnPartialTreeBase):
    game_name, game = "python_rolit", load(6, 4, "blue")


# The game is Rolit.


@pytest.mark.parametrize(("size", "players"), VARIANTS)
@pytest.mark.parametrize("last", [False, True])
def test_follows_a_board(size, players, last):
    starter = Board(size, players).variant.colors[-last]
    board = Board(size, players, starter)
    for state in random_walk(load(size, players, starter)):
        if state.history():
            board.push(state.history()[-1])
        assert str(state) == str(board)
        assert state.legal_actions() == board.legal_moves
        assert state.is_terminal() == board.is_over
        assert state.current_player() == (pyspiel.PlayerId.TERMINAL if board.is_over else board.seat)
        for player in range(players):
            if not board.is_over and player == board.seat:
                seen = np.reshape(state.observation_tensor(player), state.get_game().observation_tensor_shape())
                assert (seen == GameBatch.from_boards([board]).planes()[0]).all()
    colors = board.variant.colors
    by_seat = colors[colors.index(starter) :] + colors[: colors.index(starter)]
    assert state.returns() == pytest.approx([board.payoffs()[color] for color in by_seat])
    assert state.win_shares() == pytest.approx(
        [(color in board.outcome().winners) / len(board.outcome().winners) for color in by_seat]
    )


def test_shows_every_seat_its_own_planes():
    for state in random_walk(load(6, 3, "green")):
        words = dict(zip(("red", "yellow", "green", "blue"), state.board.words, strict=True))
        for player, order in enumerate((["green", "red", "yellow"], ["red", "yellow", "green"], ["yellow", "green", "red"])):
            expected = [[words[color] >> cell & 1 for cell in range(36)] for color in [*order, "blue"]]
            assert np.reshape(state.observation_tensor(player), (4, 36)).tolist() == expected


def test_a_clone_goes_its_own_way():
    state = load(6, 4).new_initial_state()
    clone = state.clone()
    first, second = state.legal_actions()[:2]
    state.apply_action(first)
    clone.apply_action(second)
    assert (state.history(), clone.history()) == ([first], [second])
    assert str(state) != str(clone)
    assert state.board.moves == (first,)


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_is_written_and_read_again(size, players):
    game = load(size, players, Board(size, players).variant.colors[-1])
    replayed = game.new_initial_state()
    for state in random_walk(game):
        if state.history():
            player, action = replayed.current_player(), state.history()[-1]
            replayed.apply_action(replayed.string_to_action(player, replayed.action_to_string(player, action)))
        for twin in (
            replayed,
            game.new_initial_state(str(state)),
            game.deserialize_state(state.serialize()),
            pickle.loads(pickle.dumps(state)),
        ):
            assert str(twin) == str(state)
            assert twin.legal_actions() == state.legal_actions()
            assert twin.returns() == state.returns()


def test_refuses_what_is_not_rolit():
    with pytest.raises(VariantError, match="no variant"):
        load(4, 3)
    with pytest.raises(VariantError, match="no variant"):
        OwnTurnVectorEnv(2, size=4, players=3)
    with pytest.raises(OptionError, match="num_envs"):
        OwnTurnVectorEnv(0)
    with pytest.raises(OptionError, match="allowed are red, green"):
        load(6, 2, "blue")
    game = load(6, 2)
    for text, starter in ((str(Board(6, 3)), "red"), (str(Board(6, 2, "green")), "green")):
        with pytest.raises(PositionError, match=f"with starter {starter}; allowed is 6x6-2p with starter red"):
            game.new_initial_state(text)
    state = game.new_initial_state()
    with pytest.raises(IllegalMoveError):
        state.apply_action(0)
    assert state.history() == []
    assert str(state) == str(game.new_initial_state())


# OpenSpiel's bots play it.


def best_return(state):
    """Return the seat to move's payoff under best play of two, by looking at every ending."""
    if state.is_terminal():
        return state.returns()[0]
    values = [best_return(state.child(action)) for action in state.legal_actions()]
    return max(values) if state.current_player() == 0 else min(values)


def mcts_bot(game, simulations, seed=0):
    rng = np.random.RandomState(seed)
    return mcts.MCTSBot(game, 2, simulations, mcts.RandomRolloutEvaluator(1, rng), random_state=rng)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_its_mcts_plays_whole_rounds(players):
    game = load(6, players)
    state, bot = game.new_initial_state(), mcts_bot(game, 3)
    while not state.is_terminal():
        state.apply_action(bot.step(state))
    assert state.board.moves == tuple(state.history())
    assert sum(state.returns()) == pytest.approx(0)


def test_its_mcts_beats_a_random_player():
    game, rng = load(4, 2), np.random.default_rng(0)
    bot, total = mcts_bot(game, 30), 0.0
    for round_number in range(20):
        state = game.new_initial_state()
        while not state.is_terminal():
            mine = state.current_player() == round_number % 2
            state.apply_action(bot.step(state) if mine else rng.choice(state.legal_actions()))
        total += state.returns()[round_number % 2]
    assert total / 20 > 0.3


def test_its_mcts_proves_endings():
    game = load(4, 2)
    bot, values = mcts_bot(game, 2000), set()
    for seed in range(6):
        state = next(itertools.islice(random_walk(game, seed), 8, None))
        root = bot.mcts_search(state)
        assert root.outcome[0] == best_return(state)
        values.add(root.outcome[0])
    assert len(values) > 1


# Its learners for one player.


def outputs(actions):
    return [StepOutput(action=action, probs=None) for action in actions]


def legal(time_steps, rng):
    return outputs([rng.choice(time_step.observations["legal_actions"][0]) for time_step in time_steps])


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_steps_from_own_turn_to_own_turn(size, players):
    env = OwnTurnVectorEnv(2 * players, size=size, players=players, seed=0)
    rng, time_steps, turns = np.random.default_rng(0), env.reset(), np.zeros(2 * players, int)
    assert all(time_step.first() for time_step in time_steps)
    ended = {}
    while len(ended) < len(env):
        balls = [np.reshape(time_step.observations["info_state"][0], (4, -1)).sum() for time_step in time_steps]
        time_steps, rewards, done, before = env.step(legal(time_steps, rng), reset_if_done=True)
        for number, time_step in enumerate(before):
            turns[number] += 1
            more = np.reshape(time_step.observations["info_state"][0], (4, -1)).sum() - balls[number]
            assert more == players or done[number]
            assert rewards[number] == time_step.rewards
            if done[number] and number not in ended:
                ended[number] = time_step.observations["info"]["seat"], turns[number], time_step.rewards[0]
                assert time_steps[number].first()
    plies = size * size - 4
    assert sorted(seat for seat, _, _ in ended.values()) == sorted([*range(players)] * 2)
    assert all(played == len(range(seat, plies, players)) for seat, played, _ in ended.values())


class Nth(Agent):
    """Plays the legal cell of a number, counted round and round."""

    def __init__(self, number):
        self.number, self.name = number, f"{number}"

    def act(self, games, rng):
        legal = map(np.flatnonzero, games.legal_mask())
        return np.array([cells[self.number % len(cells)] for cells in legal])


@pytest.mark.parametrize("players", [2, 3, 4])
def test_each_opponent_plays_in_its_own_place(players):
    """A learner that plays as its opponents do makes rounds of agents alone, which can be played again without OpenSpiel."""
    learner, *agents = (Nth(number) for number in range(players))
    starter = "red" if players == 2 else "yellow"
    env = OwnTurnVectorEnv(players + 1, size=6, players=players, opponents=agents, starter=starter)
    time_steps, rng = env.reset(), np.random.default_rng(0)
    ended = {}
    while len(ended) < len(env):
        cells = [time_step.observations["legal_actions"][0][0] for time_step in time_steps]
        time_steps, rewards, done, before = env.step(outputs(cells), reset_if_done=True)
        for number in np.flatnonzero(done):
            ended.setdefault(number, (before[number], rewards[number]))
    for time_step, (reward,) in ended.values():
        seat = time_step.observations["info"]["seat"]
        games = GameBatch(1, size=6, players=players, starter=starter)
        while not games.done:
            after = (games.seat - seat) % players
            games.step((agents[after - 1] if after else learner).act(games, rng))
        assert reward == pytest.approx(games.payoffs()[0, seat])
        assert time_step.observations["info"]["win_share"] == pytest.approx(games.win_shares()[0, seat])


def test_the_learner_goes_round_the_seats_and_starters_are_drawn():
    env, rng = OwnTurnVectorEnv(4, size=6, players=3, seed=0), np.random.default_rng(0)
    time_steps, seats, first_cells = env.reset(), [[] for _ in range(4)], set()
    while min(map(len, seats)) < 9:
        time_steps, _, done, before = env.step(legal(time_steps, rng), reset_if_done=True)
        for number in np.flatnonzero(done):
            seats[number].append(before[number].observations["info"]["seat"])
            planes = np.reshape(time_steps[number].observations["info_state"][0], (4, 36))
            if planes.sum() == 4:  # nobody has moved yet
                first_cells.add(int(planes[0].argmax()))
    for mine in seats:
        assert all(later == (earlier + 1) % 3 for earlier, later in itertools.pairwise(mine))
    assert {mine[0] for mine in seats} == {0, 1, 2}
    assert first_cells == {14, 15, 21}  # the balls of red, yellow and green


def test_goes_on_as_openspiel_does_when_rounds_are_not_reset():
    env, rng = OwnTurnVectorEnv(2, size=4, seed=0), np.random.default_rng(0)
    time_steps = env.reset()
    for _ in range(6):
        time_steps, _, done, _ = env.step(legal(time_steps, rng))
    assert done == [True, True]
    assert [time_step.observations["legal_actions"] for time_step in time_steps] == [[[]], [[]]]
    time_steps, rewards, done, _ = env.step(outputs([0, 0]))
    assert all(time_step.first() for time_step in time_steps)
    assert (rewards, done) == ([[0.0], [0.0]], [False, False])


def test_leaves_all_rounds_as_they_were_when_an_action_is_refused():
    env, rng = OwnTurnVectorEnv(3, size=6, players=3, seed=0), np.random.default_rng(0)
    with pytest.raises(RoundOverError):
        env.step(outputs([0, 0, 0]))
    time_steps = env.reset()
    good = legal(time_steps, rng)
    for error, bad in (
        (IllegalMoveError, [*good[:2], *outputs([14])]),
        (ActionError, [*good[:2], *outputs([36])]),
        (ActionError, good[:2]),
    ):
        with pytest.raises(error):
            env.step(bad)
    again = OwnTurnVectorEnv(3, size=6, players=3, seed=0)
    again.reset()
    for mine, other in zip(env.step(good)[0], again.step(good)[0], strict=True):
        assert mine.observations["info_state"][0].tolist() == other.observations["info_state"][0].tolist()


# The example trains.


def tally_of(learner, players):
    return count_rewards(learner.rewards, learner.dones, players)


@pytest.mark.parametrize(("size", "players"), [(6, 2), (6, 3), (6, 4), (8, 2), (8, 4)])
def test_the_example_learns_from_all_results(size, players, monkeypatch):
    ended, seats, seen, first = Tally(), set(), [], {}

    class Watched(OwnTurnVectorEnv):
        def step(self, *args, **kwargs):
            nonlocal ended
            result = super().step(*args, **kwargs)
            infos = [time_step.observations["info"] for time_step in result[3] if time_step.last()]
            ended += count_shares([info["win_share"] for info in infos])
            seats.update(info["seat"] for info in infos)
            return result

    class Recording(PPO):
        def learn(self, time_step):
            first.update({} if first else copy.deepcopy(self.network.state_dict()))
            seen.append(tally_of(self, players))
            super().learn(time_step)

    monkeypatch.setattr(example, "OwnTurnVectorEnv", Watched)
    monkeypatch.setattr(example, "PPO", Recording)
    monkeypatch.setattr(example, "GAMES", 24)
    learner = example.train(size, players, seconds=0.5 if size == 6 else 0, seed=0)  # illegal actions would raise
    assert sum(seen, Tally()) == ended
    assert ended.wins
    assert ended.losses
    assert seats == set(range(players))
    assert learner.total_steps_done == len(seen) * 24 * example.TURNS
    assert all((first[name] != weights).any() for name, weights in learner.network.named_parameters())


def make_learner(envs, turns):
    return PPO(
        (4, 4, 4),
        16,
        num_players=2,
        num_envs=envs,
        steps_per_batch=turns,
        gamma=1.0,
        update_epochs=1,
        agent_fn=example.Network,
    )


def test_the_naive_vector_environment_makes_a_learner_play_illegally():
    """OpenSpiel's own vector environment asks the learner in everybody's turns, in which it has no legal action."""
    torch.manual_seed(0)
    env = SyncVectorEnv([Environment(load(4, 2), enable_legality_check=True) for _ in range(4)])
    learner = make_learner(4, 2)
    time_steps = env.reset()
    time_steps, *_ = env.step(learner.step(time_steps), reset_if_done=True)
    assert [time_step.observations["legal_actions"][0] for time_step in time_steps] == [[]] * 4
    with pytest.raises(IllegalActionError):
        env.step(learner.step(time_steps), reset_if_done=True)


def test_the_naive_way_round_it_loses_the_results_of_all_but_the_last_mover():
    """Asked as whoever is to move, the learner holds what each seat got in its own turns: the last seat's results only."""
    torch.manual_seed(0)
    env, learner = SyncVectorEnv([Environment(load(4, 2)) for _ in range(20)]), make_learner(20, 24)
    time_steps, first_seat, last_seat = env.reset(), Tally(), Tally()
    for _ in range(24):
        learner.player_id = time_steps[0].current_player()  # all rounds are at the same turn
        time_steps, rewards, done, before = env.step(learner.step(time_steps), reset_if_done=True)
        learner.post_step([both[learner.player_id] for both in rewards], done)
        for time_step in before:
            if time_step.last():
                first_seat += count_rewards(time_step.rewards[:1], [True])
                last_seat += count_rewards(time_step.rewards[1:], [True])
    assert tally_of(learner, 2) == last_seat != first_seat
    assert first_seat.rounds == 40


def test_a_checkpoint_and_the_exported_file_play_as_the_learner_does(tmp_path):
    torch.manual_seed(1)
    learner, again = (PPO((4, 6, 6), 36, num_players=1, agent_fn=example.Network) for _ in range(2))
    torch.save(learner.state_dict(), tmp_path / "learner.pt")
    again.load_state_dict(torch.load(tmp_path / "learner.pt", weights_only=True))
    out = tmp_path / "policy.onnx"
    export_policy(learner.network, out, size=6, players=3, library="OpenSpiel PPO", versions=["open-spiel"], rounds=6)
    games, rng = GameBatch(32, size=6, players=3, seed=0), np.random.default_rng(0)
    agents = [TorchAgent(learner.network), TorchAgent(again.network), make_agent(str(out))]
    while not games.done:
        actions, *others = [agent.act(games, rng) for agent in agents]
        for other in others:
            assert np.array_equal(actions, other)
        games.step(games.random_actions(rng))
