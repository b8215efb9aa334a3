"""Rolit as a game of OpenSpiel passes OpenSpiel's own tests, its bots play it, and its PPO learns it."""

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
from open_spiel.python.rl_environment import Environment
from open_spiel.python.tests import games_sim_test
from open_spiel.python.vector_env import SyncVectorEnv

from rolit_env import Board, GameBatch
from rolit_env.adapters.openspiel import OwnTurnVectorEnv
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
