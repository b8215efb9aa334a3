"""The PettingZoo environment: the shipped suites, parity with `GameBatch`, bad input, copies, payoffs."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pettingzoo
import pytest
from gymnasium.utils import EzPickle
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.state_test import test_state as check_state
from pettingzoo.test.state_test import test_state_space as check_state_space
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, BaseWrapper, OrderEnforcingWrapper, TerminateIllegalWrapper

from rolit_env import Board, GameBatch, rolit_v0
from rolit_env.errors import ActionError, IllegalMoveError, OptionError, RoundOverError, VariantError
from rolit_env.notation import parse_cell
from rolit_env.variant import COLORS, all_variants

VARIANTS = [pytest.param(variant.size, variant.players, id=variant.name) for variant in all_variants()]
ILLEGAL_MOVES = ("terminate", "retry")

# Two warnings are false for Dict observations. The third wants names such as player_0; ours are the colours.
KNOWN_API_WARNINGS = (
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
    "We recommend agents to be named in the format",
)

# One cell for each rule that red's first turn on 8x8 can break.
ILLEGAL_FIRST_MOVES = [("d4", "occupied"), ("a1", "not_adjacent"), ("c3", "capture_missed")]

# What is no action for an agent in the round, whatever the cell. The wrappers and `raw_env` must agree on it.
NO_ACTIONS = [
    *(99, -1, 64, None, 19.0, True, False, "f4", "19", [19], {}),
    *(np.float32(19), np.True_, np.int64(64), np.int8(-1), np.timedelta64(19), np.timedelta64(19, "D")),
    *(np.array([19]), np.array([[19], [20]]), np.zeros((8, 8)), np.array(19.0), np.array(True), np.array(64), np.array("f4")),
]

COPIES = {
    "clone": lambda env: env.clone(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}

# Only None is right for an agent whose round is over, so each of these must be refused for that, good cell or not.
DEAD_ACTIONS = (0, 99, "f4", True)


def layers(env):
    """Return the wrappers from the outside in, and the environment."""
    found = [env]
    while isinstance(found[-1], BaseWrapper):
        found.append(found[-1].env)
    return found


def snapshot(env):
    """Return everything an action could change."""
    raw = env.unwrapped
    flags = [
        {key: value for key, value in vars(layer).items() if isinstance(value, bool)}
        for layer in layers(env)
        if isinstance(layer, BaseWrapper)
    ]
    return copy.deepcopy(
        (
            raw._board.words,
            raw._board.moves,
            raw._board.starter,
            raw.agents,
            raw.agent_selection,
            raw.rewards,
            raw._cumulative_rewards,
            raw.terminations,
            raw.truncations,
            raw.infos,
            raw._rng.bit_generator.state,
            flags,
        )
    )


def first_legal(env):
    return int(env.observe(env.agent_selection)["action_mask"].argmax())


def play_turns(env, turns, rng):
    for _ in range(turns):
        env.step(rng.choice(np.flatnonzero(env.observe(env.agent_selection)["action_mask"])))


def play_out(env):
    """Play to the end with the action spaces' own draws, then reset a few times; return all that could be seen."""
    seen = []
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        ended = terminated or truncated
        action = None if ended else int(env.action_space(agent).sample(observation["action_mask"]))
        planes = observation["observation"].tobytes(), observation["action_mask"].tobytes()
        seen.append((agent, *planes, reward, terminated, truncated, dict(info), action, env.state().tobytes()))
        env.step(action)
    for _ in range(8):
        env.reset()
        seen.append(env.agent_selection)
    return seen


def put_up(env, words):
    """Reset and put up a position in which red started."""
    env.reset(options={"starter": "red"})
    raw = env.unwrapped
    raw._board.set_words(words)
    raw.agent_selection = raw._board.color_to_move


# PettingZoo's own suites


@pytest.mark.parametrize("illegal_move", ILLEGAL_MOVES)
@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_pettingzoo_suites(size, players, illegal_move):
    def make():
        return rolit_v0.env(size, players, illegal_move=illegal_move)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in KNOWN_API_WARNINGS:
            warnings.filterwarnings("ignore", message)
        api_test(make(), num_cycles=100)
        seed_test(make, num_cycles=100)
        check_state_space(make())
        check_state(make(), num_cycles=100)
        parallel_api_test(turn_based_aec_to_parallel(make()), num_cycles=100)
        parallel_seed_test(lambda: turn_based_aec_to_parallel(make()), num_cycles=100)


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_raw_env_passes_the_api_test(size, players):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in KNOWN_API_WARNINGS:
            warnings.filterwarnings("ignore", message)
        api_test(rolit_v0.raw_env(size, players), num_cycles=100)


# The spec


def test_registered():
    env = pettingzoo.make("aec", "rolit/rolit-v0", size=6, players=4, starter="blue")
    env.reset()
    assert str(env) == "rolit_v0"
    assert env.possible_agents == ["red", "yellow", "green", "blue"]
    assert env.agent_selection == "blue"
    assert env.state().shape == (4, 6, 6)


def test_a_second_import_registers_nothing_twice():
    program = "import importlib, rolit_env.rolit_v0 as r; importlib.reload(r)"
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", program], check=True)


def test_import_stays_light():
    heavy = "{'torch', 'pygame', 'onnxruntime', 'matplotlib'}"
    program = (
        "import sys, rolit_env.rolit_v0 as r; env = r.env(render_mode='ansi'); env.reset(); env.render(); env.state();"
        f"print({heavy} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_wrapper_order():
    names = [type(layer) for layer in layers(rolit_v0.env())]
    assert names == [rolit_v0.WrappedEnv, rolit_v0.OutOfBoundsWrapper, TerminateIllegalWrapper, rolit_v0.raw_env]
    assert issubclass(rolit_v0.WrappedEnv, OrderEnforcingWrapper)
    assert issubclass(rolit_v0.OutOfBoundsWrapper, AssertOutOfBoundsWrapper)
    retry = [type(layer) for layer in layers(rolit_v0.env(illegal_move="retry"))]
    assert retry == [rolit_v0.WrappedEnv, rolit_v0.OutOfBoundsWrapper, rolit_v0.raw_env]
    assert not issubclass(rolit_v0.raw_env, EzPickle)


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_spaces(size, players):
    env = rolit_v0.env(size, players)
    for agent in env.possible_agents:
        space = env.observation_space(agent)
        assert space is env.observation_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
        assert env.action_space(agent).n == size * size
        assert space["observation"].shape == (4, size, size)
        assert space["observation"].dtype == np.int8
        assert space["action_mask"].shape == (size * size,)
        assert space["action_mask"].dtype == np.int8
    assert env.state_space.shape == (4, size, size)
    env.reset()
    assert env.state_space.contains(env.state())


@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
@pytest.mark.parametrize("kind", [float, np.int32, np.float64])
def test_sizes_and_players_that_equal_ints_serve_as_ints(make, kind):
    env, right = make(kind(6), kind(3)), make(6, 3)
    assert env.observation_space("red") == right.observation_space("red")
    assert env.action_space("red") == right.action_space("red")
    assert env.state_space == right.state_space
    env.reset(seed=0)
    play_turns(env, 32, np.random.default_rng(0))
    assert env.board.is_over
    assert env.state().shape == (4, 6, 6)


def test_metadata():
    metadata = rolit_v0.env().metadata
    assert metadata["name"] == "rolit_v0"
    assert metadata["is_parallelizable"] is False
    assert metadata["render_modes"] == ["ansi", "rgb_array", "human"]
    assert metadata["render_fps"] > 0


@pytest.mark.parametrize(
    ("players", "agents"), [(2, ["red", "green"]), (3, ["red", "yellow", "green"]), (4, ["red", "yellow", "green", "blue"])]
)
def test_agents_are_the_playing_colors_and_move_clockwise(players, agents):
    env = rolit_v0.env(players=players)
    for starter in agents:
        env.reset(options={"starter": starter})
        assert env.possible_agents == env.agents == agents
        assert env.agents is not env.possible_agents
        first = agents.index(starter)
        order = []
        for _ in range(2 * players):
            order.append(env.agent_selection)
            env.step(first_legal(env))
        assert order == 2 * (agents[first:] + agents[:first])
        assert env.agents == agents


# Seeds and options


@pytest.mark.parametrize("players", [2, 3, 4])
def test_starter_is_drawn_from_the_seed(players):
    one, other = rolit_v0.env(players=players), rolit_v0.env(players=players)
    starters = []
    for seed in range(40):
        one.reset(seed=seed)
        other.reset(seed=seed)
        assert one.agent_selection == other.agent_selection
        starters.append(one.agent_selection)
    assert set(starters) == set(one.possible_agents)
    one.reset(seed=3)
    other.reset(seed=3)
    went_on = []
    for _ in range(40):
        one.reset()
        other.reset()
        assert one.agent_selection == other.agent_selection
        went_on.append(one.agent_selection)
    assert set(went_on) == set(one.possible_agents)


def test_reset_keeps_the_options():
    env = rolit_v0.env(6, 3, "green", "balls", "retry", "ansi")
    for seed in (None, 0, 1):
        env.reset(seed=seed)
        assert env.agent_selection == "green"
        assert env.state().shape == (4, 6, 6)
        assert env.render_mode == "ansi"
        assert env.infos["red"] == {"illegal_moves": 0}
    env.reset(seed=5, options={"starter": "yellow"})
    assert env.agent_selection == "yellow"
    env.reset(options={"somebody else's": 1})
    assert env.agent_selection == "green"


def test_a_seed_does_not_reach_the_action_space():
    env = rolit_v0.env()
    env.reset(seed=0)
    env.action_space("red").seed(7)
    fresh = [int(env.action_space("red").sample()) for _ in range(10)]
    env.action_space("red").seed(7)
    drawn = []
    for _ in range(10):
        env.reset(seed=0)
        drawn.append(int(env.action_space("red").sample()))
    assert drawn == fresh


# Parity with GameBatch


@pytest.mark.parametrize("reward", ["win", "balls", "rank"])
@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_agrees_with_game_batch(size, players, reward):
    env = rolit_v0.env(size, players, reward=reward)
    rng = np.random.default_rng([size, players])
    for seed in range(3):
        env.reset(seed=seed)
        games = GameBatch(1, size=size, players=players, starter=env.agent_selection)
        seats = [COLORS[color] for color in env.unwrapped._variant.slot_colors(COLORS.index(env.agent_selection))][:players]
        while not games.done:
            assert env.agent_selection == seats[games.seat]
            for agent in env.agents:
                observation = env.observe(agent)
                if agent == env.agent_selection:
                    assert np.array_equal(observation["observation"], games.planes()[0])
                    assert np.array_equal(observation["action_mask"], games.legal_mask()[0])
                else:
                    assert not observation["action_mask"].any()
            board = games.board(0)
            assert env.board == board
            expected = [[board.color_at(cell) == color for cell in range(size * size)] for color in COLORS]
            assert np.array_equal(env.state().reshape(4, -1), expected)
            assert env.rewards == dict.fromkeys(env.agents, 0)
            assert not any(env.terminations.values())
            actions = games.random_actions(rng)
            games.step(actions)
            env.step(actions[0])
        assert env.rewards == dict(zip(seats, games.payoffs(reward)[0].tolist(), strict=True))
        assert all(env.terminations.values())
        assert not any(env.truncations.values())
        assert np.array_equal(env.observe(env.agent_selection)["observation"], games.planes()[0])


@pytest.mark.parametrize(
    ("players", "planes"),
    [
        (2, {"red": "RGYB", "green": "GRYB"}),
        (3, {"red": "RYGB", "yellow": "YGRB", "green": "GRYB"}),
        (4, {"red": "RYGB", "yellow": "YGBR", "green": "GBRY", "blue": "BRYG"}),
    ],
)
def test_observation_is_relative_to_the_observer(players, planes):
    env = rolit_v0.env(players=players)
    env.reset(seed=0)
    play_turns(env, 30, np.random.default_rng(0))
    state = env.state()
    for agent, colors in planes.items():
        expected = [state["RYGB".index(letter)] for letter in colors]
        assert np.array_equal(env.observe(agent)["observation"], expected)


# Observations at any time


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_observe_answers_for_everybody_at_any_time(size, players):
    env = rolit_v0.env(size, players)
    env.reset(seed=1)

    def check(mover):
        for agent in env.possible_agents:
            observation = env.observe(agent)
            assert env.observation_space(agent).contains(observation)
            assert observation["action_mask"].any() == (agent == mover)

    while not env.terminations[env.agent_selection]:
        check(env.agent_selection)
        env.step(first_legal(env))
    check(None)
    while env.agents:
        env.step(None)
        check(None)
    assert env.state().sum() == size * size


def test_arrays_are_fresh():
    env = rolit_v0.env(6, 3)
    env.reset(seed=0)
    agent = env.agent_selection
    before, state = env.observe(agent), env.state()
    spoiled, spoiled_state = env.observe(agent), env.state()
    assert not np.shares_memory(spoiled["observation"], spoiled["action_mask"])
    for array in (*spoiled.values(), spoiled_state):
        assert type(array) is np.ndarray
        assert array.dtype == np.int8
        assert array.flags.c_contiguous
        assert array.flags.writeable
    spoiled["observation"][:] = 1
    assert np.array_equal(spoiled["action_mask"], before["action_mask"])
    spoiled["action_mask"][:] = 0
    spoiled_state[:] = 1
    assert np.array_equal(env.observe(agent)["observation"], before["observation"])
    assert np.array_equal(env.observe(agent)["action_mask"], before["action_mask"])
    assert np.array_equal(env.state(), state)
    env.board.push(first_legal(env))
    assert np.array_equal(env.state(), state)


def test_masks_can_be_sampled_with():
    env = rolit_v0.env(4)
    env.reset(seed=0)
    mask = env.observe(env.agent_selection)["action_mask"]
    assert mask.dtype == np.int8
    drawn = {int(env.action_space(env.agent_selection).sample(mask)) for _ in range(100)}
    assert drawn == set(np.flatnonzero(mask))


def test_rewards_terminations_and_infos():
    env = rolit_v0.env(4)
    env.reset(seed=0)
    while not env.terminations[env.agent_selection]:
        assert all(type(value) is bool for value in (*env.terminations.values(), *env.truncations.values()))
        assert env.infos == {"red": {}, "green": {}}
        # A step clears all rewards, and what its agent has collected, rather than adding to them.
        env.unwrapped.rewards["red"] = 5.0
        env.unwrapped._cumulative_rewards = {"red": 2.0, "green": 2.0}
        mover = env.agent_selection
        env.step(first_legal(env))
        collected = {agent: (0 if agent == mover else 2) + env.rewards[agent] for agent in env.agents}
        assert env.unwrapped._cumulative_rewards == collected
        assert sum(env.rewards.values()) == 0
        if not env.terminations[mover]:
            assert env.rewards == {"red": 0, "green": 0}
    assert all(type(value) is bool for value in (*env.terminations.values(), *env.truncations.values()))
    assert set(env.terminations.values()) == {True}
    assert sum(env.rewards.values()) == 0
    env.step(None)
    assert env.rewards == dict.fromkeys(env.agents, 0)


@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
def test_rewards_of_earlier_turns_and_rounds_are_left_alone(make):
    env = make(players=3)
    env.reset(seed=0)
    raw = env.unwrapped
    kept = [env.rewards, raw._cumulative_rewards]
    assert kept[0] is not kept[1]
    for rewards in kept:
        rewards["red"] = 5.0
    env.step(first_legal(env))
    assert kept[0]["red"] == 5.0
    assert env.rewards == {"red": 0, "yellow": 0, "green": 0}
    kept.append(env.rewards)
    env.rewards["green"] = 7.0
    env.reset()
    assert env.rewards == raw._cumulative_rewards == {"red": 0, "yellow": 0, "green": 0}
    assert kept[2] == {"red": 0, "yellow": 0, "green": 7.0}


# Rewards


def test_a_losers_reward_arrives_at_the_loser():
    losses = {"red": 0, "green": 0}
    env = rolit_v0.env(4)
    rng = np.random.default_rng(0)
    for seed in range(20):
        env.reset(seed=seed)
        received = dict.fromkeys(env.possible_agents, 0.0)
        for agent in env.agent_iter():
            observation, reward, terminated, _, _ = env.last()
            received[agent] += reward
            env.step(None if terminated else rng.choice(np.flatnonzero(observation["action_mask"])))
        counts = env.board.counts()
        if counts["red"] != counts["green"]:
            winner, loser = sorted(received, key=counts.__getitem__, reverse=True)
            assert received == {winner: 1, loser: -1}
            losses[loser] += 1
        else:
            assert received == {"red": 0, "green": 0}
    assert min(losses.values()) >= 3


# Balls of each colour on the full board, then what each player gets.
LAST_TURNS = [
    (4, 2, (8, 0, 8, 0), {"win": (0, 0), "balls": (0, 0), "rank": (0, 0)}),
    (8, 2, (20, 12, 20, 12), {"win": (0, 0), "balls": (0, 0), "rank": (0, 0)}),
    (6, 2, (19, 0, 17, 0), {"win": (1, -1), "balls": (1 / 36, -1 / 36), "rank": (1, -1)}),
    (6, 3, (12, 12, 12, 0), {"win": (0, 0, 0), "balls": (0, 0, 0), "rank": (0, 0, 0)}),
    (6, 3, (8, 13, 13, 2), {"win": (-1 / 2, 1 / 4, 1 / 4), "balls": (-10 / 108, 5 / 108, 5 / 108), "rank": (-1, 0.5, 0.5)}),
    (8, 4, (16, 16, 16, 16), {"win": (0, 0, 0, 0), "balls": (0, 0, 0, 0), "rank": (0, 0, 0, 0)}),
    (
        8,
        4,
        (10, 18, 18, 18),
        {"win": (-1 / 3, 1 / 9, 1 / 9, 1 / 9), "balls": (-6 / 64, 2 / 64, 2 / 64, 2 / 64), "rank": (-1, 1 / 3, 1 / 3, 1 / 3)},
    ),
    (
        8,
        4,
        (20, 12, 12, 20),
        {
            "win": (1 / 3, -1 / 3, -1 / 3, 1 / 3),
            "balls": (4 / 64, -4 / 64, -4 / 64, 4 / 64),
            "rank": (2 / 3, -2 / 3, -2 / 3, 2 / 3),
        },
    ),
    (
        8,
        4,
        (25, 16, 14, 9),
        {"win": (1, -1 / 3, -1 / 3, -1 / 3), "balls": (9 / 64, 0, -2 / 64, -7 / 64), "rank": (1, 1 / 3, -1 / 3, -1)},
    ),
]


@pytest.mark.parametrize("reward", ["win", "balls", "rank"])
@pytest.mark.parametrize(("size", "players", "counts", "expected"), LAST_TURNS)
def test_payoffs_and_shared_leaders(size, players, counts, expected, reward):
    env = rolit_v0.env(size, players, reward=reward)
    mover = env.unwrapped._variant.slot_colors(0)[(size * size - 5) % players]
    # All but a1 is full, and the mover's balls around it close every line at once: the last ball rolls nothing.
    around = [1, size, size + 1]
    left = list(counts)
    left[mover] -= 1 + len(around)
    colors = [color for color in range(4) for _ in range(left[color])]
    words = [0, 0, 0, 0]
    words[mover] = sum(1 << cell for cell in around)
    for cell, color in zip(sorted(set(range(1, size * size)) - set(around)), colors, strict=True):
        words[color] |= 1 << cell
    put_up(env, words)
    assert env.agent_selection == COLORS[mover]
    env.step(0)
    assert tuple(env.board.counts().values()) == counts
    assert list(env.rewards.values()) == pytest.approx(expected[reward], abs=1e-6)
    assert sum(env.rewards.values()) == pytest.approx(0, abs=1e-6)
    received = {}
    for agent in env.agent_iter():
        received[agent] = env.last()[1]
        env.step(None)
    assert [received[agent] for agent in env.possible_agents] == pytest.approx(expected[reward], abs=1e-6)


# Illegal moves


@pytest.mark.parametrize(("cell", "reason"), ILLEGAL_FIRST_MOVES)
def test_illegal_moves_terminate(cell, reason):
    env = rolit_v0.env(players=3, starter="red")
    env.reset()
    board = env.board
    env.step(parse_cell(cell, 8))
    assert env.board == board
    assert env.rewards == {"red": -1, "yellow": 0, "green": 0}
    assert env.terminations == dict.fromkeys(env.agents, True)
    assert not any(env.observe(agent)["action_mask"].any() for agent in env.possible_agents)
    for action in DEAD_ACTIONS:
        with pytest.raises(ValueError, match="the only valid action is None"):
            env.step(action)
    received = {}
    for agent in env.agent_iter():
        received[agent] = env.last()[1]
        env.step(None)
    assert received == {"red": -1, "yellow": 0, "green": 0}
    env.reset()
    assert env.agents == env.possible_agents
    env.step(first_legal(env))
    assert env.agent_selection == "yellow"


@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
def test_illegal_moves_are_tried_again(make):
    env = make(players=3, starter="red", illegal_move="retry")
    env.reset()
    board = env.board
    assert env.infos == {agent: {"illegal_moves": 0} for agent in ("red", "yellow", "green")}
    for tries, (cell, _) in enumerate(ILLEGAL_FIRST_MOVES, 1):
        earlier = env.last()[4]
        env.step(parse_cell(cell, 8))
        assert env.board == board
        assert env.agent_selection == "red"
        assert env.rewards == {"red": 0, "yellow": 0, "green": 0}
        assert not any(env.terminations.values())
        assert env.infos == {"red": {"illegal_moves": tries}, "yellow": {"illegal_moves": 0}, "green": {"illegal_moves": 0}}
        assert earlier == {"illegal_moves": tries - 1}
    env.step(first_legal(env))
    assert env.agent_selection == "yellow"
    env.step(parse_cell("a1", 8))
    assert [info["illegal_moves"] for info in env.infos.values()] == [3, 1, 0]
    env.reset()
    assert [info["illegal_moves"] for info in env.infos.values()] == [0, 0, 0]


def test_retry_goes_through_agent_iter():
    env = rolit_v0.env(4, illegal_move="retry")
    env.reset(seed=0)
    turns = 0
    for agent in env.agent_iter():
        observation, _, terminated, _, info = env.last()
        if terminated:
            env.step(None)
        elif turns % 2 == 0:
            env.step(int(np.flatnonzero(observation["action_mask"] == 0)[0]))
            assert env.agent_selection == agent
            assert env.infos[agent]["illegal_moves"] == info["illegal_moves"] + 1
            turns += 1
        else:
            env.step(first_legal(env))
            turns += 1
    assert turns == 24
    assert env.board.is_over


@pytest.mark.parametrize(("cell", "reason"), ILLEGAL_FIRST_MOVES)
def test_raw_env_raises_for_illegal_moves(cell, reason):
    env = rolit_v0.raw_env(starter="red")
    env.reset()
    before = snapshot(env)
    with pytest.raises(IllegalMoveError, match=f"{cell} is not legal") as caught:
        env.step(parse_cell(cell, 8))
    assert caught.value.reason == reason
    assert snapshot(env) == before


@pytest.mark.parametrize("illegal_move", ILLEGAL_MOVES)
@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
def test_what_is_no_action_is_refused(action, make, illegal_move):
    env = make(illegal_move=illegal_move)
    env.reset(seed=0)
    play_turns(env, 5, np.random.default_rng(0))
    before = snapshot(env)
    with pytest.raises(ActionError, match=r"^.{1,60} is no action; allowed are ints from 0 to 63$"):
        env.step(action)
    assert snapshot(env)[:-1] == before[:-1]  # but for PettingZoo's note that step was called
    env.step(first_legal(env))
    assert env.board.ply == 6


@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
def test_the_error_names_the_action_and_the_bounds_of_its_board(make):
    env = make(4)
    env.reset()
    with pytest.raises(ActionError, match=r"^16 is no action; allowed are ints from 0 to 15$"):
        env.step(16)
    with pytest.raises(ActionError, match=r"^'f4' is no action"):
        env.step("f4")


@pytest.mark.parametrize("illegal_move", ILLEGAL_MOVES)
@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
@pytest.mark.parametrize(
    "kind", [int, np.int8, np.int32, np.uint8, np.uint64, np.array, lambda cell: np.array(cell, np.uint8)]
)
def test_every_kind_of_int_is_an_action(kind, make, illegal_move):
    env = make(illegal_move=illegal_move)
    env.reset(seed=0)
    cell = first_legal(env)
    env.step(kind(cell))
    assert env.board.moves == (cell,)


# The end


@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
def test_dead_steps(make):
    env = make(6, 4)
    env.reset(seed=0)
    play_turns(env, 32, np.random.default_rng(0))
    left = set(env.agents)
    while env.agents:
        before = snapshot(env)
        for action in DEAD_ACTIONS:
            with pytest.raises(ValueError, match="the only valid action is None"):
                env.step(action)
        assert snapshot(env)[:-1] == before[:-1]
        left.remove(env.agent_selection)
        env.step(None)
        assert set(env.agents) == left == set(env.rewards) == set(env.infos) == set(env.terminations)


@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
@pytest.mark.parametrize("action", [0, None, 99])
def test_steps_after_the_last_dead_step(action, make):
    env = make(4)
    env.reset(seed=0)
    play_turns(env, 12, np.random.default_rng(0))
    env.step(None)
    env.step(None)
    before = snapshot(env)
    with pytest.raises(RoundOverError, match=r"all agents have left it; start one with reset\(\)"):
        env.step(action)
    assert snapshot(env) == before
    env.reset()
    env.step(first_legal(env))
    assert env.board.ply == 1


def test_a_reset_in_mid_round_leaves_nothing_behind():
    env = rolit_v0.env(players=4, starter="green")
    env.reset()
    env.step(0)  # ends the round, and PettingZoo remembers whose turn it was
    env.reset()
    fresh = rolit_v0.env(players=4, starter="green")
    fresh.reset()
    assert snapshot(env)[:-2] == snapshot(fresh)[:-2]  # each has its own generator
    assert env.unwrapped._skip_agent_selection is None


# Order


def test_order_is_enforced():
    env = rolit_v0.env()
    for call in (env.observe, env.step):
        with pytest.raises(AssertionError, match="reset"):
            call("red")
    for call in (env.state, env.render, env.agent_iter):
        with pytest.raises(AssertionError, match="reset"):
            call()
    with pytest.raises(AttributeError, match="before reset"):
        _ = env.agents
    env.reset()
    with pytest.raises(AssertionError, match=r"need to call step\(\) or reset\(\)"):
        for _ in env.agent_iter():
            pass


def test_raw_env_can_not_be_stepped_before_reset():
    with pytest.raises(RoundOverError, match=r"none was started .* start one with reset\(\)"):
        rolit_v0.raw_env().step(0)


@pytest.mark.parametrize("duplicate", [lambda env: env, *COPIES.values()], ids=["itself", *COPIES])
@pytest.mark.parametrize(
    "ask",
    [lambda env: env.observe("red"), lambda env: env.state(), lambda env: env.board, lambda env: env.render()],
    ids=["observe", "state", "board", "render"],
)
def test_raw_env_shows_nothing_before_reset(ask, duplicate):
    env = duplicate(rolit_v0.raw_env(render_mode="ansi"))
    with pytest.raises(RoundOverError, match=r"no round was started yet; start one with reset\(\)"):
        ask(env)
    env.reset()
    ask(env)


def test_a_reset_that_fails_starts_no_round():
    env = rolit_v0.env()
    with pytest.raises(OptionError, match="allowed are random, red, green"):
        env.reset(options={"starter": "blue"})
    with pytest.raises(RoundOverError, match=r"none was started .* start one with reset\(\)"):
        env.step(19)
    env.reset()
    env.step(first_legal(env))
    assert env.board.ply == 1


def test_a_reset_behind_the_wrapper_does_not_count():
    env = rolit_v0.env()
    env.unwrapped.reset()
    for name in ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos"):
        with pytest.raises(AttributeError, match=f"{name} cannot be accessed before reset"):
            getattr(env, name)
    with pytest.raises(AttributeError, match="before reset"):
        env.last()
    with pytest.raises(AssertionError, match="reset"):
        env.observe("red")
    with pytest.raises(AssertionError, match="reset"):
        env.step(first_legal(env.unwrapped))
    assert env.unwrapped.board.ply == 0


# The wrappers


def test_what_is_read_is_the_environments_own():
    env = rolit_v0.env(6, 3)
    for _ in range(2):
        env.reset()
        for _ in range(5):
            env.step(first_legal(env))
        for name in ("agents", "agent_selection", "rewards", "_cumulative_rewards", "terminations", "truncations", "infos"):
            assert getattr(env, name) is getattr(env.unwrapped, name)
        observation, *rest = env.last()
        right, *others = env.unwrapped.last()
        assert rest == others
        assert all(np.array_equal(observation[key], right[key]) for key in right)
        assert env.last(observe=False)[0] is None


def test_an_outer_wrapper_sees_the_whole_round():
    env = BaseWrapper(rolit_v0.env(4))
    env.reset(seed=0)
    received = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observation, reward, terminated, _, _ = env.last()
        received[agent] += reward
        env.step(None if terminated else env.action_space(agent).sample(observation["action_mask"]))
    assert received == env.board.payoffs("win")


@pytest.mark.parametrize("inner", [1, 2], ids=["OutOfBoundsWrapper", "TerminateIllegalWrapper"])
def test_wrappers_judge_by_the_mask_of_now(inner):
    env = rolit_v0.env(players=3, starter="red")
    env.reset()
    cell = first_legal(env)
    # Asked by themselves they note a mask, in which `cell` is legal; after the turn it is occupied.
    assert layers(env)[inner].observe("red")["action_mask"][cell]
    env.step(cell)
    env.step(cell)
    assert env.rewards == {"red": 0, "yellow": -1, "green": 0}
    assert env.terminations == dict.fromkeys(env.agents, True)


@pytest.mark.parametrize("illegal_move", ILLEGAL_MOVES)
def test_a_mask_that_a_learner_wrote_on_changes_no_rule(illegal_move):
    env = rolit_v0.env(starter="red", illegal_move=illegal_move)
    env.reset()
    mask = env.last()[0]["action_mask"]
    cell = int(mask.argmax())
    mask[:] = 1 - mask
    env.step(0)
    assert env.board.ply == 0
    env.reset()
    env.last()[0]["action_mask"][:] = 0
    env.step(cell)
    assert env.board.moves == (cell,)


# Copies


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
@pytest.mark.parametrize("illegal_move", ILLEGAL_MOVES)
@pytest.mark.parametrize("turns", [0, 17, 32])
def test_a_copy_plays_on_as_the_original_does(duplicate, make, illegal_move, turns):
    env = make(6, 3, illegal_move=illegal_move)
    env.reset(seed=11)
    for number, agent in enumerate(env.agents):
        env.action_space(agent).seed(number)
    play_turns(env, turns, np.random.default_rng(4))
    if illegal_move == "retry" and turns < 32:
        env.step(parse_cell("c3", 6))
        assert env.infos[env.agent_selection] == {"illegal_moves": 1}
    before = snapshot(env)
    twin = duplicate(env)
    assert [type(layer) for layer in layers(twin)] == [type(layer) for layer in layers(env)]
    assert not {id(layer) for layer in layers(twin)} & {id(layer) for layer in layers(env)}
    assert snapshot(twin) == before
    seen = play_out(twin)
    assert snapshot(env) == before
    assert play_out(env) == seen
    assert len(seen) >= 8 + 3


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_round_ended_by_an_illegal_move(duplicate):
    env = rolit_v0.env(players=4, starter="green")
    env.reset(seed=2)
    env.step(0)
    env.step(None)
    twin = duplicate(env)
    assert snapshot(twin) == snapshot(env)
    assert play_out(twin) == play_out(env)


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_keeps_the_order_flags(duplicate):
    env = rolit_v0.env()
    with pytest.raises(AssertionError, match="reset"):
        duplicate(env).state()
    env.reset(seed=0)
    iterator = iter(env.agent_iter())
    next(iterator)
    twin = duplicate(env)
    with pytest.raises(AssertionError, match="need to call step"):
        next(iter(twin.agent_iter()))


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_draws_the_same_starters(duplicate):
    env = rolit_v0.env(players=4)
    env.reset(seed=3)
    twin = duplicate(env)

    def starters(env):
        drawn = []
        for _ in range(50):
            env.reset()
            drawn.append(env.agent_selection)
        return drawn

    drawn = starters(env)
    assert starters(twin) == drawn
    assert any(one != other for one, other in pairwise(drawn))


# Other ways in


@pytest.mark.parametrize("players", [2, 3, 4])
def test_turn_based_parallel(players):
    env = turn_based_aec_to_parallel(rolit_v0.env(6, players))
    observations, infos = env.reset(seed=0)
    assert set(observations) == set(infos) == set(env.possible_agents)
    turns = 0
    while env.agents:
        movers = [agent for agent in env.agents if observations[agent]["action_mask"].any()]
        assert len(movers) == 1
        mask = observations[movers[0]]["action_mask"]
        actions = dict.fromkeys(env.agents)
        actions[movers[0]] = env.action_space(movers[0]).sample(mask)
        observations, rewards, terminations, truncations, infos = env.step(actions)
        turns += 1
    assert turns == 32
    assert set(rewards) == set(env.possible_agents)
    assert all(terminations.values())
    assert not any(truncations.values())
    assert sum(rewards.values()) == pytest.approx(0, abs=1e-6)
    assert env.step({}) == ({}, {}, {}, {})


def test_the_board_is_handed_out_for_agents():
    env = rolit_v0.env(6, 4)
    env.reset(seed=0)
    play_turns(env, 9, np.random.default_rng(0))
    board = env.board
    assert isinstance(board, Board)
    games = GameBatch.from_boards([board])
    assert np.array_equal(games.planes()[0], env.observe(env.agent_selection)["observation"])


# Bad input


@pytest.mark.parametrize("make", [rolit_v0.env, rolit_v0.raw_env])
@pytest.mark.parametrize(
    ("arguments", "error", "allowed"),
    [
        ({"size": 7}, VariantError, "size 8 or 6"),
        ({"size": "8"}, VariantError, "size 8 or 6"),
        ({"players": 5}, VariantError, "2, 3 or 4 players"),
        ({"size": 4, "players": 3}, VariantError, "size 4 with 2 players"),
        ({"starter": "purple"}, OptionError, "random, red, green"),
        ({"starter": "blue"}, OptionError, "random, red, green"),
        ({"starter": None}, OptionError, "random, red, green"),
        ({"reward": "score"}, OptionError, "win, balls, rank"),
        ({"illegal_move": "ignore"}, OptionError, "terminate, retry"),
        ({"illegal_move": None}, OptionError, "terminate, retry"),
        ({"render_mode": "svg"}, OptionError, "ansi, rgb_array, human"),
    ],
)
def test_bad_arguments(make, arguments, error, allowed):
    with pytest.raises(error, match=allowed):
        make(**arguments)


def test_a_bad_starter_changes_nothing():
    env = rolit_v0.env(players=3)
    env.reset(seed=0)
    play_turns(env, 7, np.random.default_rng(0))
    before = snapshot(env)
    with pytest.raises(OptionError, match="random, red, yellow, green"):
        env.reset(seed=1, options={"starter": "blue"})
    assert snapshot(env) == before


@pytest.mark.parametrize("method", ["observe", "observation_space", "action_space"])
def test_unknown_agents(method):
    env = rolit_v0.env()
    env.reset()
    with pytest.raises(OptionError, match="allowed are red, green"):
        getattr(env, method)("blue")
