"""The Gymnasium environments: the shipped checks, parity with the AEC environment and gymnasium's own vectors, bad input."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from rolit_env import Board, GameBatch, gym_env, make_agent, rolit_v0, vector_env
from rolit_env.agents import Agent
from rolit_env.errors import ActionError, AgentError, IllegalMoveError, OptionError, RoundOverError, VariantError
from rolit_env.gym_env import RolitEnv
from rolit_env.payoffs import PAYOFFS
from rolit_env.variant import all_variants, variant
from rolit_env.vector_env import RolitVectorEnv

ID = "rolit_env/Rolit-v0"
VARIANTS = [pytest.param(variant.size, variant.players, id=variant.name) for variant in all_variants()]
SEATS = [
    pytest.param(variant.size, variant.players, seat, id=f"{variant.name}-{seat}")
    for variant in all_variants()
    for seat in range(variant.players)
]
MODES = list(AutoresetMode)

# One cell for each rule that the first turn on 8x8 can break, whichever of red and green starts.
ILLEGAL_FIRST_MOVES = [(27, "occupied"), (0, "not_adjacent")]

NO_ACTIONS = [99, -1, 64, None, 19.0, True, "f4", [19], np.float32(19), np.array([19])]


class LowestCell(Agent):
    """Plays the first legal cell, and notes the seats it was asked for."""

    name = "lowest"

    def __init__(self):
        self.seats = set()

    def act(self, games, rng):
        self.seats.add(games.seat)
        return games.legal_mask().argmax(axis=1)


class HighestCell(LowestCell):
    name = "highest"

    def act(self, games, rng):
        self.seats.add(games.seat)
        return games.variant.cells - 1 - games.legal_mask()[:, ::-1].argmax(axis=1)


class Replay(Agent):
    """Plays one recorded round again, whoever asks."""

    name = "replay"

    def __init__(self, moves):
        self.moves = moves

    def act(self, games, rng):
        return np.full(len(games), self.moves[games.ply])


def make_vector(num_envs, **options):
    return gymnasium.make_vec(ID, num_envs=num_envs, vectorization_mode="vector_entry_point", **options).unwrapped


def random_legal(masks, rng):
    """Return a random legal action for each row of a mask, 0 where there is none."""
    return np.where(masks, rng.random(masks.shape), 0).argmax(axis=-1)


def same(left, right):
    """Compare observations or infos, array by array."""
    assert left.keys() == right.keys()
    for key, value in left.items():
        if isinstance(value, dict):
            same(value, right[key])
        else:
            np.testing.assert_array_equal(value, right[key], err_msg=key)


def snapshot(envs):
    """Return everything a step of a vector environment could change."""
    return [
        (games.ply, games.balls.tobytes(), games.legal.tobytes(), block.seat, block.next_seat, block.rng.bit_generator.state)
        for block in envs._blocks
        for games in [block.games]
    ]


def play_round(env, rng, **reset):
    """Play a round of one seat at random; return all that could be seen."""
    observation, info = env.reset(**reset)
    seen = [(observation, info, env.unwrapped.seat, env.unwrapped.color)]
    terminated = False
    while not terminated:
        action = random_legal(observation["action_mask"], rng)
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append((observation, reward, terminated, truncated, info))
    return seen


def frozen(value):
    """Return nested containers and arrays as something that compares by value."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    return [frozen(item) for item in value] if isinstance(value, list | tuple) else value


def state(env):
    """Return everything a step or a reset of one seat could change."""
    game = env._game
    return frozen(
        [
            *(env.board.words, env.board.moves, env.board.starter, env.color, game.agent_selection, game.rewards),
            *(game.terminations, game.infos, env._over, env._next_seat, env.np_random.bit_generator.state),
        ]
    )


# One seat: gymnasium's own checks


@pytest.mark.parametrize("illegal_move", ["terminate", "retry"])
@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_gymnasium_checks(size, players, illegal_move, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = gymnasium.make(ID, size=size, players=players, illegal_move=illegal_move)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_wrapped_rounds_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(ID)
        layers = str(env)
        assert play_round(env, np.random.default_rng(0), seed=0)[-1][2] is True
    assert layers == f"<OrderEnforcing<PassiveEnvChecker<RolitEnv<{ID}>>>>"  # no time limit


def test_importing_the_package_registers_and_imports_nothing_more():
    program = (
        "import rolit_env, gymnasium, importlib, sys, warnings\n"
        f"spec = gymnasium.spec('{ID}')\n"
        "assert spec.max_episode_steps is None\n"
        "assert 'rolit_env.gym_env' not in sys.modules\n"
        "warnings.simplefilter('error')\n"
        "importlib.reload(rolit_env)\n"
        "assert type(gymnasium.make(spec).unwrapped).__name__ == 'RolitEnv'\n"
        "assert not {'torch', 'pygame', 'onnxruntime', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_spaces_are_those_of_the_aec_environment(size, players):
    aec, env = rolit_v0.env(size, players), RolitEnv(size, players)
    assert env.observation_space == aec.observation_space("red")
    assert env.action_space == aec.action_space("red")
    envs = RolitVectorEnv(5, size=size, players=players)
    sync = gymnasium.make_vec(ID, num_envs=5, vectorization_mode="sync", size=size, players=players)
    assert envs.single_observation_space == sync.single_observation_space
    assert envs.single_action_space == sync.single_action_space
    assert envs.observation_space == sync.observation_space
    assert envs.action_space == sync.action_space


# One seat: the game


@pytest.mark.parametrize(("size", "players", "seat"), SEATS)
def test_one_seat_vector_and_aec_environments_show_the_same(size, players, seat):
    """Drive all three with the same actions; the opponents are two different agents where there are seats for them."""
    opponents = [LowestCell(), HighestCell()][: players - 1]
    rng = np.random.default_rng([size, players, seat])
    envs = RolitVectorEnv(5, size=size, players=players, seat=seat, opponents=opponents)
    views, _ = envs.reset(seed=seat)
    starters = [envs.board(index).starter for index in range(5)]
    assert len(set(starters)) > 1
    singles, aecs = [], []
    for starter in starters:
        single = RolitEnv(size, players, seat=seat, opponents=opponents)
        view, _ = single.reset(options={"starter": starter})
        aec = rolit_v0.env(size, players)
        aec.reset(options={"starter": starter})
        singles.append((single, view))
        aecs.append(aec)
    while True:
        for index, ((single, view), aec) in enumerate(zip(singles, aecs, strict=True)):
            play_aec_opponents(aec, single.color, opponents)
            same(view, aec.observe(single.color))
            same(view, {key: array[index] for key, array in views.items()})
            assert single.board == aec.unwrapped.board == envs.board(index)
        actions = random_legal(views["action_mask"], rng)
        views, rewards, terminations, truncations, _ = envs.step(actions)
        for index, (single, _) in enumerate(singles):
            aecs[index].step(actions[index])
            view, reward, terminated, truncated, _ = single.step(actions[index])
            singles[index] = single, view
            assert (reward, terminated, truncated) == (rewards[index], terminations[index], truncations[index])
        if terminations.any():
            break
    for index, ((single, view), aec) in enumerate(zip(singles, aecs, strict=True)):
        play_aec_opponents(aec, single.color, opponents)
        same(view, aec.observe(single.color))
        same(view, {key: array[index] for key, array in views.items()})
        assert aec.terminations[single.color]
        assert aec.rewards[single.color] == rewards[index]
        assert not view["action_mask"].any()


def play_aec_opponents(aec, learner, opponents):
    """Play the others' turns, asking the agents as their order after the learner says."""
    colors = aec.possible_agents
    while aec.agent_selection != learner and not aec.terminations[learner]:
        after = (colors.index(aec.agent_selection) - colors.index(learner)) % len(colors)
        agent = opponents[min(after, len(opponents)) - 1]
        aec.step(agent.act(GameBatch.from_boards([aec.unwrapped.board]), None)[0])


@pytest.mark.parametrize("reward", PAYOFFS)
@pytest.mark.parametrize("players", [2, 3, 4])
def test_every_seat_of_a_round_gets_its_payoff(players, reward):
    """Play 40 random rounds again from each seat, so that the learner has each seat's luck: losses arrive like wins."""
    rng = np.random.default_rng(players)
    total, steps = np.zeros(players), 0
    for _ in range(40):
        board = Board(6, players)
        while not board.is_over:
            board.push(int(rng.choice(board.legal_moves)))
        rewards = []
        for seat in range(players):
            env = RolitEnv(6, players, seat=seat, opponents=Replay(board.moves), starter="red", reward=reward)
            env.reset()
            given, terminated = [], False
            while not terminated:
                _, value, terminated, truncated, info = env.step(board.moves[env.board.ply])
                given.append(value)
                assert truncated is False
            assert not any(given[:-1])
            assert info["seat"] == seat
            rewards.append(given[-1])
            total[seat] += info["win_share"]
            steps += len(given)
        assert rewards == list(board.payoffs(reward).values())
        assert abs(sum(rewards)) < 1e-6
    assert total.sum() == pytest.approx(40)
    assert steps == 40 * 32


def test_as_many_losses_as_wins_arrive_in_200_random_rounds():
    env = gymnasium.make(ID)
    rng = np.random.default_rng(0)
    rewards = [play_round(env, rng, seed=0 if number == 0 else None)[-1][1] for number in range(200)]
    assert set(rewards) <= {1.0, -1.0, 0.0}
    assert abs(sum(rewards)) < 42  # three standard deviations


def test_a_learner_that_always_loses_is_told_so():
    """From the losing seat of one recorded round: −1 and no win share, though the winner may have made the last move."""
    board = Board(4, 2)
    while not board.is_over:
        board.push(board.legal_moves[0])
    winners = board.outcome().winners
    assert len(winners) == 1
    seat = 1 - board.variant.colors.index(winners[0])
    env = RolitEnv(4, 2, seat=seat, opponents=Replay(board.moves), starter="red")
    env.reset()
    for move in board.moves[seat::2]:
        _, reward, terminated, _, info = env.step(move)
    assert (reward, terminated, info) == (-1.0, True, {"seat": seat, "win_share": 0.0})


@pytest.mark.parametrize("players", [2, 3, 4])
def test_opponents_sit_in_turn_order_after_the_learner(players):
    for seat in range(players):
        others = [(seat + turn) % players for turn in range(1, players)]
        for given in range(1, players):
            agents = [LowestCell() for _ in range(given)]
            expected = [{other} for other in others[: given - 1]] + [set(others[given - 1 :])]
            play_round(RolitEnv(6, players, seat=seat, opponents=agents), np.random.default_rng(0), seed=0)
            assert [agent.seats for agent in agents] == expected
            agents = [LowestCell() for _ in range(given)]
            envs = RolitVectorEnv(3, size=6, players=players, seat=seat, opponents=agents)
            envs.reset(seed=0)
            for _ in range(3):
                envs.step(envs.random_actions(np.random.default_rng(0)))
            assert [agent.seats for agent in agents] == expected


def test_one_opponent_needs_no_list():
    agent = LowestCell()
    for opponents in ("greedy", agent, ["greedy"], (agent,)):
        env = RolitEnv(4, opponents=opponents)
        assert play_round(env, np.random.default_rng(0), seed=0)[-1][2]
    assert agent.seats


def test_random_opponents_need_no_batch(monkeypatch):
    """A single round must not wait for batch kernels to compile."""

    def refuse(*_):
        raise AssertionError("a batch was made")

    monkeypatch.setattr(gym_env, "GameBatch", refuse)
    assert play_round(RolitEnv(players=4), np.random.default_rng(0), seed=0)[-1][2]


def test_random_opponents_draw_uniformly():
    """Green's first moves after red's d6 on 8x8."""
    env = RolitEnv(seat=0, starter="red")
    board = Board()
    board.push("d6")
    counts = dict.fromkeys(board.legal_moves, 0)
    for number in range(1000):
        env.reset(seed=number)
        env.step(board.moves[0])
        counts[env.board.moves[1]] += 1
    expected = 1000 / len(counts)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 35  # chance of more: below 1 in 10,000


# One seat: seats, seeds and copies


@pytest.mark.parametrize("players", [2, 3, 4])
def test_seats_rotate(players):
    env = RolitEnv(6, players)
    firsts = set()
    for seed in range(30):
        env.reset(seed=seed)
        seats = [env.seat]
        for _ in range(2 * players):
            env.reset()
            seats.append(env.seat)
        assert seats == [(seats[0] + turn) % players for turn in range(len(seats))]
        firsts.add(seats[0])
    assert firsts == set(range(players))


def test_a_seat_asked_for_leaves_the_turn_of_the_next():
    env = RolitEnv(6, 4)
    env.reset(seed=3)
    first = env.seat
    for seat in range(4):
        env.reset(options={"seat": seat, "starter": "blue"})
        assert (env.seat, env.board.starter) == (seat, "blue")
        assert env.color == ("blue", "red", "yellow", "green")[seat]
        assert env.board.ply == seat
    env.reset()
    assert env.seat == (first + 1) % 4


def test_the_starter_is_drawn_or_set():
    env = RolitEnv(4)
    env.reset(seed=0)
    starters = set()
    for _ in range(20):
        env.reset()
        starters.add(env.board.starter)
    assert starters == {"red", "green"}
    env = RolitEnv(4, starter="green")
    for _ in range(5):
        env.reset()
        assert env.board.starter == "green"


@pytest.mark.parametrize("opponents", ["random", "greedy"])
def test_equal_seeds_give_equal_rounds(opponents):
    def run(seed):
        env, rng = RolitEnv(6, 3, opponents=opponents), np.random.default_rng(0)
        return [play_round(env, rng, seed=seed if number == 0 else None) for number in range(4)]

    assert frozen(run(5)) == frozen(run(5))
    assert frozen(run(5)) != frozen(run(6))


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"])
def test_copies_go_on_alike(twin_of):
    env = gymnasium.make(ID, players=3, opponents=["random", "greedy"], illegal_move="retry")
    observation, _ = env.reset(seed=1)
    for _ in range(5):
        observation, *_ = env.step(int(observation["action_mask"].argmax()))
    env.step(27)
    twin = twin_of(env)
    assert twin.unwrapped.board == env.unwrapped.board

    def rest(env):
        seen, terminated = [], False
        masks = env.get_wrapper_attr("action_masks")
        while not terminated:
            observation, reward, terminated, _, info = env.step(int(masks().argmax()))
            seen.append((observation, reward, info))
        return seen + play_round(env, np.random.default_rng(0))

    before = env.unwrapped.board
    seen = rest(twin)
    assert env.unwrapped.board == before
    assert seen[0][2] == {"illegal_moves": 1}
    assert frozen(rest(env)) == frozen(seen)


def test_observations_are_fresh():
    env = RolitEnv(4, seat=0)
    first, _ = env.reset(seed=0)
    kept = copy.deepcopy(first)
    second, *_ = env.step(int(first["action_mask"].argmax()))
    same(first, kept)
    assert not any(np.shares_memory(first[key], second[key]) for key in first)


# One seat: actions


@pytest.mark.parametrize(("action", "reason"), ILLEGAL_FIRST_MOVES)
def test_an_illegal_action_ends_the_round(action, reason):
    env = RolitEnv(seat=0, reward="balls")
    env.reset(seed=0)
    board = env.board
    observation, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info) == (-1.0, True, False, {})
    assert not observation["action_mask"].any()
    assert not env.action_masks().any()
    assert env.board == board
    with pytest.raises(RoundOverError, match="reset"):
        env.step(int(board.legal_moves[0]))
    env.reset()
    assert env.action_masks().any()


@pytest.mark.parametrize(("action", "reason"), ILLEGAL_FIRST_MOVES)
def test_an_illegal_action_may_be_tried_again(action, reason):
    env = RolitEnv(seat=0, illegal_move="retry")
    observation, info = env.reset(seed=0)
    assert info == {"illegal_moves": 0}
    state = env.np_random.bit_generator.state
    for tries in (1, 2):
        again, reward, terminated, truncated, info = env.step(action)
        same(again, observation)
        assert (reward, terminated, truncated, info) == (0.0, False, False, {"illegal_moves": tries})
    assert env.np_random.bit_generator.state == state
    seen = []
    while not terminated:
        *_, terminated, _, info = env.step(int(env.action_masks().argmax()))
        seen.append(info)
    assert seen[0] == {"illegal_moves": 2}
    assert seen[-1].keys() == {"illegal_moves", "seat", "win_share"}
    assert env.reset()[1] == {"illegal_moves": 0}


@pytest.mark.parametrize(("action", "reason"), ILLEGAL_FIRST_MOVES)
def test_an_illegal_action_may_raise(action, reason):
    env = RolitEnv(seat=0, illegal_move="raise")
    env.reset(seed=0)
    before = state(env)
    with pytest.raises(IllegalMoveError, match="not legal") as raised:
        env.step(action)
    assert raised.value.reason == reason
    assert state(env) == before


@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
@pytest.mark.parametrize("illegal_move", gym_env.ILLEGAL_MOVES)
def test_what_is_no_action_is_refused(action, illegal_move):
    env = RolitEnv(illegal_move=illegal_move)
    env.reset(seed=0)
    before = state(env)
    with pytest.raises(ActionError, match="allowed are"):
        env.step(action)
    assert state(env) == before


@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint16, np.array])
def test_ints_of_all_kinds_are_actions(kind):
    env = RolitEnv(seat=0, illegal_move="raise")
    observation, _ = env.reset(seed=0)
    env.step(kind(int(observation["action_mask"].argmax())))
    assert env.board.ply == 2


def test_no_step_outside_a_round():
    env = RolitEnv(4)
    for ask in (lambda: env.step(0), env.action_masks, lambda: env.board, lambda: env.seat, lambda: env.color, env.render):
        with pytest.raises(RoundOverError, match="reset"):
            ask()
    play_round(env, np.random.default_rng(0))
    board = env.board
    with pytest.raises(RoundOverError, match="reset"):
        env.step(0)
    assert env.board == board
    assert board.is_over
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make(ID).step(0)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_masks_for_masked_learners(players):
    env = gymnasium.make(ID, size=6, players=players)
    masks = env.get_wrapper_attr("action_masks")
    observation, _ = env.reset(seed=0)
    terminated = False
    while not terminated:
        assert masks().dtype == np.bool_
        np.testing.assert_array_equal(masks(), observation["action_mask"])
        assert np.flatnonzero(masks()).tolist() == env.unwrapped.board.legal_moves
        action = env.action_space.sample(observation["action_mask"])
        observation, _, terminated, _, _ = env.step(action)
    assert not masks().any()


# One seat: the rest


def test_render_modes(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = RolitEnv(4, seat=0, render_mode="ansi")
    env.reset(seed=0)
    assert "*" in env.render()
    env = RolitEnv(4, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.dtype == np.uint8
    assert frame.shape[2] == 3
    monkeypatch.setitem(RolitEnv.metadata, "render_fps", 1000)
    monkeypatch.setitem(rolit_v0.raw_env.metadata, "render_fps", 1000)
    env = RolitEnv(4, render_mode="human")
    play_round(env, np.random.default_rng(0))
    assert env.render() is None
    env.close()
    env.close()


@pytest.mark.parametrize(
    ("options", "error", "allowed"),
    [
        ({"size": 5}, VariantError, "size 8 or 6"),
        ({"size": 4, "players": 3}, VariantError, "size 8 or 6"),
        ({"seat": 2}, OptionError, "0 to 1 and rotate"),
        ({"seat": -1}, OptionError, "0 to 1 and rotate"),
        ({"seat": True}, OptionError, "0 to 1 and rotate"),
        ({"seat": "random"}, OptionError, "0 to 1 and rotate"),
        ({"opponents": []}, OptionError, "1 to 1 opponents"),
        ({"opponents": ["random", "random"]}, OptionError, "1 to 1 opponents"),
        ({"opponents": "nobody"}, AgentError, "random, greedy"),
        ({"size": 6, "opponents": "models/8x8-2p.onnx"}, VariantError, "plays size 8"),
        ({"starter": "blue"}, OptionError, "red, green"),
        ({"reward": "money"}, OptionError, "win, balls, rank"),
    ],
)
@pytest.mark.parametrize("face", [RolitEnv, lambda **options: RolitVectorEnv(4, **options)], ids=["one", "vector"])
def test_options_that_do_not_exist(face, options, error, allowed):
    with pytest.raises(error, match=allowed):
        face(**options)


@pytest.mark.parametrize(
    ("face", "options", "allowed"),
    [
        (RolitEnv, {"illegal_move": "ignore"}, "terminate, retry, raise"),
        (RolitEnv, {"render_mode": "svg"}, "ansi, rgb_array, human"),
        (RolitVectorEnv, {"render_mode": "human"}, "ansi, rgb_array and None"),
        (RolitVectorEnv, {"autoreset_mode": "Never"}, "NextStep, SameStep, Disabled"),
        (RolitVectorEnv, {"num_envs": 0}, "from 1 up"),
        (RolitVectorEnv, {"num_envs": 2.0}, "from 1 up"),
        (RolitVectorEnv, {"num_envs": True}, "from 1 up"),
    ],
)
def test_options_of_one_face_that_do_not_exist(face, options, allowed):
    with pytest.raises(OptionError, match=allowed):
        face(**options)


@pytest.mark.parametrize("options", [{"starter": "blue"}, {"seat": 2}])
def test_reset_refuses_what_does_not_play_and_changes_nothing(options):
    env = RolitEnv()
    env.reset(seed=0)
    before = state(env)
    with pytest.raises(OptionError, match="allowed are"):
        env.reset(seed=1, options=options)
    assert state(env) == before


def test_options_for_wrappers_pass():
    env = RolitEnv(4)
    env.reset(seed=0, options={"of_a_wrapper": 1})


def test_policies_can_be_opponents():
    env = gymnasium.make(ID, opponents="models/8x8-2p.onnx")
    rng = np.random.default_rng(0)
    assert play_round(env, rng, seed=0)[-1][2]
    envs = make_vector(6, opponents=make_agent("models/8x8-2p.onnx"))
    envs.reset(seed=0)
    for _ in range(30):
        *_, terminations, _, infos = envs.step(envs.random_actions(rng))
    assert terminations.all()
    assert infos["win_share"].sum() <= 2


# Thousands: against gymnasium's own vector environment


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_steps_as_gymnasiums_own_vector_does(size, players, mode):
    """The same in every array over two rounds and more, with fixed starters and opponents that leave nothing to chance."""
    fixed = {"size": size, "players": players, "seat": players - 1, "opponents": LowestCell(), "starter": "red"}
    fixed["reward"] = PAYOFFS[MODES.index(mode)]
    ours = make_vector(3, autoreset_mode=mode, **fixed)
    theirs = gymnasium.make_vec(
        ID, num_envs=3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, illegal_move="raise", **fixed
    )
    assert isinstance(theirs, SyncVectorEnv)
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    rng = np.random.default_rng(0)
    observations, infos = ours.reset(seed=0)
    their_observations, their_infos = theirs.reset(seed=0)
    same(observations, their_observations)
    same(infos, their_infos)
    ended = 0
    for _ in range(2 * variant(size, players).plies // players + 5):
        actions = random_legal(observations["action_mask"], rng)
        observations, *ours_rest, infos = ours.step(actions)
        their_observations, *their_rest, their_infos = theirs.step(actions)
        same(observations, their_observations)
        for mine, other in zip(ours_rest, their_rest, strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other)
        finals, their_finals = infos.pop("final_obs", None), their_infos.pop("final_obs", None)
        assert (finals is None) == (their_finals is None)
        if finals is not None:
            for index in range(3):
                same({key: array[index] for key, array in finals.items()}, their_finals[index])
        same(infos, their_infos)
        terminations = ours_rest[1]
        ended += terminations.all()
        if mode is AutoresetMode.DISABLED and terminations.any():
            observations, _ = ours.reset(options={"reset_mask": terminations})
            their_observations, _ = theirs.reset(options={"reset_mask": terminations.copy()})
            same(observations, their_observations)
    assert ended >= 2


def test_make_vec_needs_no_mode_to_find_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gymnasium.make_vec(ID, num_envs=4, players=3)
    assert isinstance(envs, RolitVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert str(envs) == f"RolitVectorEnv({ID}, num_envs=4)"


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_statistics_wrapper(mode):
    envs = RecordEpisodeStatistics(make_vector(6, size=6, players=3, autoreset_mode=mode), buffer_length=10_000)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    total = 0.0
    for _ in range(60):
        _, rewards, terminations, _, infos = envs.step(envs.unwrapped.random_actions(rng))
        total += rewards.sum()
        if terminations.any():
            np.testing.assert_array_equal(infos["episode"]["r"], rewards)
    if mode == "NextStep":  # with the other, gymnasium before 1.4 counts a step too few in later rounds
        assert set(envs.length_queue) == {10, 11}
    assert len(envs.return_queue) >= 6 * 4
    assert sum(envs.return_queue) == pytest.approx(total)


# Thousands: seats, seeds and copies


@pytest.mark.parametrize("block_size", [4096, 3])
@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_seats_are_shared_out_evenly(size, players, block_size, monkeypatch):
    monkeypatch.setattr(vector_env, "BLOCK_SIZE", block_size)
    envs = make_vector(12, size=size, players=players, autoreset_mode="SameStep")
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    held = [[] for _ in range(12)]
    shares = np.zeros(12)
    while min(map(len, held)) < players:
        seats = envs.seats
        assert np.bincount(seats, minlength=players).tolist() == [12 // players] * players or size == 6
        *_, terminations, _, infos = envs.step(envs.random_actions(rng))
        for index in np.flatnonzero(terminations):
            final = infos["final_info"]
            assert final["_seat"][index]
            assert final["_win_share"][index]
            assert final["seat"][index] == seats[index]
            held[index].append(seats[index])
            shares[index] += final["win_share"][index]
    for seats in held:
        assert sorted(seats[:players]) == list(range(players))
    assert shares.max() > 0


@pytest.mark.parametrize("num_envs", [1, 2, 3, 5, 8])
def test_few_sub_environments(num_envs):
    envs = make_vector(num_envs, players=3, size=6)
    observations, _ = envs.reset(seed=1)
    assert observations["observation"].shape == (num_envs, 4, 6, 6)
    assert observations["action_mask"].shape == (num_envs, 36)
    rng = np.random.default_rng(0)
    ended = np.zeros(num_envs, int)
    for _ in range(36):
        for index, seat in enumerate(envs.seats):
            board = envs.board(index)
            assert board.is_over or board.seat == seat
            mask = observations["action_mask"][index]
            assert np.flatnonzero(mask).tolist() == board.legal_moves
        observations, _, terminations, _, _ = envs.step(envs.random_actions(rng))
        ended += terminations
    assert ended.min() >= 3
    assert np.bincount(envs.seats, minlength=3).max() <= -(-num_envs // 3)


def test_a_fixed_seat_is_everybodys():
    envs = make_vector(7, players=4, seat=2, autoreset_mode="SameStep")
    envs.reset(seed=0)
    for _ in range(20):
        assert envs.seats.tolist() == [2] * 7
        envs.step(envs.random_actions(np.random.default_rng(0)))


def test_the_first_seat_is_drawn():
    envs = make_vector(4, players=4)
    firsts = set()
    for seed in range(40):
        envs.reset(seed=seed)
        firsts.add(int(envs.seats[0]))
    assert firsts == {0, 1, 2, 3}


@pytest.mark.parametrize("opponents", ["random", "greedy"])
def test_equal_seeds_give_equal_vectors(opponents):
    def run(seed):
        envs, rng = make_vector(50, size=6, players=3, opponents=opponents), np.random.default_rng(0)
        seen = [envs.reset(seed=seed)]
        seen += [envs.step(envs.random_actions(rng)) for _ in range(30)]
        seen += [envs.reset()]
        return seen

    assert frozen(run(5)) == frozen(run(5))
    assert frozen(run(5)) != frozen(run(6))


def test_starters_are_drawn_or_set():
    envs = make_vector(64, players=4)
    envs.reset(seed=0)
    assert {envs.board(index).starter for index in range(64)} == {"red", "yellow", "green", "blue"}
    envs.reset(options={"starter": "yellow"})
    assert {envs.board(index).starter for index in range(64)} == {"yellow"}
    envs.reset()
    assert {envs.board(index).starter for index in range(64)} == {"red", "yellow", "green", "blue"}


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"])
def test_vector_copies_go_on_alike(twin_of, copies):
    envs = make_vector(20, size=6, players=3, opponents=["greedy", "random"], copy=copies)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(4):
        envs.step(envs.random_actions(rng))
    twin = twin_of(envs)

    def rest(envs):
        rng = np.random.default_rng(1)
        return [frozen(envs.step(envs.random_actions(rng))) for _ in range(20)] + [frozen(envs.reset())]

    before = snapshot(envs)
    seen = rest(twin)
    assert snapshot(envs) == before
    assert rest(envs) == seen


# Thousands: who owns the arrays


def test_copies_belong_to_the_caller():
    envs = make_vector(6, size=4, autoreset_mode="SameStep")
    rng = np.random.default_rng(0)
    kept = [envs.reset(seed=0)[0]]
    before = copy.deepcopy(kept)
    for _ in range(12):
        observations, *arrays, infos = envs.step(envs.random_actions(rng))
        kept += [observations, dict(enumerate(arrays)), infos]
        before += copy.deepcopy(kept[-3:])
    for left, right in zip(kept, before, strict=True):
        same(left, right)
    for array in observations.values():
        array.fill(7)
    assert envs.step(envs.random_actions(rng))[0]["observation"].max() == 1


def test_buffers_are_handed_out_without_copies():
    envs = make_vector(6, size=4, autoreset_mode="SameStep", copy=False)
    twin = make_vector(6, size=4, autoreset_mode="SameStep")
    rng = np.random.default_rng(0)
    first, _ = envs.reset(seed=0)
    twin.reset(seed=0)
    finals = set()
    for _ in range(12):
        actions = envs.random_actions(rng)
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        expected, *_, expected_infos = twin.step(actions)
        assert all(observations[key] is first[key] for key in first)
        same(observations, expected)
        same(infos, expected_infos)
        if terminations.any():
            finals.add(id(infos["final_obs"]["observation"]))
            assert not np.shares_memory(infos["final_obs"]["observation"], observations["observation"])
        assert not any(np.shares_memory(terminations, infos.get(key, truncations)) for key in ("_final_obs", "_final_info"))
        for array in (rewards, terminations, truncations):
            array.fill(1)
    assert len(finals) == 1


def test_final_observations_where_rounds_ended():
    """On 6x6 with three, the last seat has one turn fewer, so some end while others go on."""
    envs = make_vector(9, size=6, players=3, autoreset_mode="SameStep", copy=False)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    partly = 0
    for _ in range(40):
        _, _, terminations, _, infos = envs.step(envs.random_actions(rng))
        if not terminations.any():
            assert infos == {}
            continue
        finals = infos["final_obs"]
        np.testing.assert_array_equal(infos["_final_obs"], terminations)
        np.testing.assert_array_equal(infos["_final_info"], terminations)
        assert not finals["action_mask"].any()
        balls = finals["observation"].sum(axis=(1, 2, 3))
        assert balls.tolist() == [36 if ended else 0 for ended in terminations]
        # The learner's balls are plane 0, so they decide its share of the round.
        counts = finals["observation"][:, :3].sum(axis=(2, 3))
        leads = counts[:, 0] == counts.max(axis=1)
        np.testing.assert_array_equal((infos["final_info"]["win_share"] > 0)[terminations], leads[terminations])
        partly += not terminations.all()
    assert partly > 0


# Thousands: actions


@pytest.mark.parametrize(("action", "reason"), ILLEGAL_FIRST_MOVES)
def test_illegal_actions_name_the_sub_environments(action, reason):
    envs = make_vector(20, seat="rotate")
    envs.reset(seed=0)
    actions = envs.random_actions(np.random.default_rng(0))
    actions[[3, 15]] = action
    before = snapshot(envs)
    with pytest.raises(IllegalMoveError, match="illegal in sub-environments 3, 15; in 3, ") as raised:
        envs.step(actions)
    assert raised.value.games == (3, 15)
    assert raised.value.reason == reason
    assert snapshot(envs) == before


def test_illegal_actions_in_the_second_batch_leave_the_first_alone():
    envs = make_vector(20)
    envs.reset(seed=0)
    actions = envs.random_actions(np.random.default_rng(0))
    actions[10:] = 27
    before = snapshot(envs)
    with pytest.raises(IllegalMoveError, match=r"illegal in sub-environments 10, 11, .*, 19; in 10, ") as raised:
        envs.step(actions)
    assert raised.value.games == tuple(range(10, 20))
    assert snapshot(envs) == before


@pytest.mark.parametrize("action", [-1, 64, 99, -(2**63), 2**63 - 1])
def test_actions_off_the_board(action):
    envs = make_vector(20)
    envs.reset(seed=0)
    actions = envs.random_actions(np.random.default_rng(0))
    actions[4] = 27
    actions[12] = action
    before = snapshot(envs)
    with pytest.raises(ActionError, match=f"action {action} of sub-environment 12 is off the board; actions run from 0 to 63"):
        envs.step(actions)
    assert snapshot(envs) == before


@pytest.mark.parametrize(
    "actions",
    [None, 3, [1, 2], [[1]] * 4, [1.0] * 4, [True] * 4, ["f4"] * 4, [[1], [1, 2], 3, 4], np.zeros((4, 1), int), np.zeros(4)],
    ids=repr,
)
def test_what_is_no_array_of_actions(actions):
    envs = make_vector(4)
    envs.reset(seed=0)
    before = snapshot(envs)
    with pytest.raises(ActionError, match=r"ints of shape \(4,\)"):
        envs.step(actions)
    assert snapshot(envs) == before


@pytest.mark.parametrize("kind", [list, tuple, np.int8, np.uint8, np.int32, np.uint64])
def test_int_arrays_of_all_kinds_are_actions(kind):
    envs = make_vector(4, seat=0)
    envs.reset(seed=0)
    actions = envs.random_actions(np.random.default_rng(0))
    envs.step(kind(actions))
    assert all(envs.board(index).color_at(int(cell)) for index, cell in enumerate(actions))


def test_actions_are_ignored_where_the_next_round_starts():
    envs = make_vector(6, size=6, players=3)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    terminations = np.zeros(6, bool)
    while not terminations.any():
        _, _, terminations, _, _ = envs.step(envs.random_actions(rng))
    assert not terminations.all()
    actions = envs.random_actions(rng)
    assert not actions[terminations].any()
    actions[terminations] = -5
    observations, rewards, second, _, infos = envs.step(actions)
    assert not rewards[terminations].any()
    assert not second[terminations].any()
    assert second[~terminations].all()
    balls = observations["observation"].sum(axis=(1, 2, 3))
    assert (balls[terminations] == 4 + envs.seats[terminations]).all()
    np.testing.assert_array_equal(infos["_win_share"], second)


def test_no_step_of_rounds_that_are_not_on():
    envs = RolitVectorEnv(6, size=6, players=3, autoreset_mode=AutoresetMode.DISABLED)
    rng = np.random.default_rng(0)
    for ask in (
        lambda: envs.step(np.zeros(6, int)),
        envs.action_masks,
        lambda: envs.random_actions(rng),
        lambda: envs.seats,
        lambda: envs.board(0),
    ):
        with pytest.raises(RoundOverError, match="reset"):
            ask()
    envs.reset(seed=0)
    terminations = np.zeros(6, bool)
    while not terminations.any():
        _, _, terminations, _, _ = envs.step(envs.random_actions(rng))
    before = snapshot(envs)
    first = int(np.flatnonzero(terminations)[0])
    with pytest.raises(RoundOverError, match=f"sub-environments {first} to {first + 1} are over"):
        envs.step(envs.random_actions(rng))
    assert snapshot(envs) == before
    going_on = [envs.board(index) for index in np.flatnonzero(~terminations)]
    observations, _ = envs.reset(options={"reset_mask": terminations})
    assert [envs.board(index) for index in np.flatnonzero(~terminations)] == going_on
    assert observations["action_mask"].any(axis=1).all()
    envs.step(envs.random_actions(rng))


def test_reset_masks_that_can_not_be():
    envs = RolitVectorEnv(6, size=6, players=3)
    every = np.ones(6, bool)
    with pytest.raises(OptionError, match="after a reset of all"):
        envs.reset(options={"reset_mask": every})
    envs.reset(seed=0)
    before = snapshot(envs)
    one = every.copy()
    one[3] = False
    for mask in (~every, every[:5], every.astype(int), [True] * 6, one):
        with pytest.raises(OptionError, match="reset_mask must"):
            envs.reset(seed=1, options={"reset_mask": mask})
    with pytest.raises(OptionError, match="allowed are"):
        envs.reset(seed=1, options={"starter": "blue"})
    assert snapshot(envs) == before


def test_a_seed_with_a_mask_seeds_those_alone():
    envs = RolitVectorEnv(4, size=4)
    envs.reset(seed=0)
    before = snapshot(envs)
    envs.reset(seed=1, options={"reset_mask": np.array([False, False, True, True])})
    assert snapshot(envs)[0] == before[0]
    twin = RolitVectorEnv(4, size=4)
    twin.reset(seed=1)
    assert snapshot(envs)[1] == snapshot(twin)[1]


def test_masks_of_all_sub_environments():
    envs = make_vector(6, size=6, players=3)
    observations, _ = envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(13):
        masks = envs.action_masks()
        assert masks.dtype == np.bool_
        np.testing.assert_array_equal(masks, observations["action_mask"])
        observations, *_ = envs.step(envs.random_actions(rng))


def test_random_actions_are_uniform():
    envs = make_vector(4000, starter="red", seat=0)
    envs.reset(seed=0)
    drawn = np.bincount(envs.random_actions(np.random.default_rng(0)), minlength=64)
    assert np.flatnonzero(drawn).tolist() == Board().legal_moves
    assert (abs(drawn[drawn > 0] - 4000 / 3) < 130).all()  # more than four standard deviations


def test_win_shares_by_seat_are_those_of_random_play():
    """Two players, .41 and .59: the learner of each seat meets what the seat gives."""
    envs = make_vector(4000, autoreset_mode="SameStep")
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        *_, infos = envs.step(envs.random_actions(rng))
    final = infos["final_info"]
    shares = [final["win_share"][final["seat"] == seat].mean() for seat in (0, 1)]
    assert shares == pytest.approx([0.41, 0.59], abs=0.045)  # four standard errors


# Thousands: the rest


def test_vector_render_modes():
    for mode, check in (("ansi", lambda frame: "*" in frame), ("rgb_array", lambda frame: frame.dtype == np.uint8)):
        envs = make_vector(3, size=4, render_mode=mode)
        envs.reset(seed=0)
        frames = envs.render()
        assert len(frames) == 3
        assert all(check(frame) for frame in frames)
    envs = make_vector(3, size=4)
    envs.reset()
    with pytest.warns(UserWarning, match="render_mode is None"):
        assert envs.render() is None


@pytest.mark.parametrize("index", [-1, 3])
def test_no_such_sub_environment(index):
    envs = make_vector(3, size=4)
    envs.reset()
    with pytest.raises(OptionError, match="allowed are 0 to 2"):
        envs.board(index)


def test_spaces_are_made_when_asked_for():
    envs = make_vector(3, size=4)
    assert "observation_space" not in vars(envs)
    assert envs.observation_space.contains(envs.reset(seed=0)[0])
    assert envs.observation_space is envs.observation_space
    assert envs.action_space.contains(envs.random_actions(np.random.default_rng(0)))


class Failing(Agent):
    """Plays so many turns, then fails."""

    name = "failing"

    def __init__(self, turns):
        self.left = turns

    def act(self, games, rng):
        if self.left == 0:
            raise RuntimeError("gone")
        self.left -= 1
        return games.legal_mask().argmax(axis=1)


def test_an_opponent_that_fails_ends_the_round():
    env = RolitEnv(seat=0, opponents=Failing(1))
    observation, _ = env.reset(seed=0)
    observation, *_ = env.step(observation["action_mask"].argmax())
    with pytest.raises(RuntimeError, match="gone"):
        env.step(observation["action_mask"].argmax())
    with pytest.raises(RoundOverError):
        env.step(observation["action_mask"].argmax())
    with pytest.raises(RuntimeError, match="gone"):
        env.reset(options={"seat": 1})
    with pytest.raises(RoundOverError):
        env.step(0)


def test_an_opponent_that_fails_ends_the_rounds_of_a_vector():
    envs = RolitVectorEnv(4, seat=0, opponents=Failing(3))  # two blocks: one goes on before the other fails
    envs.reset(seed=0)
    envs.step(envs.random_actions(np.random.default_rng(0)))
    actions = envs.random_actions(np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="gone"):
        envs.step(actions)
    with pytest.raises(RoundOverError):
        envs.step(np.zeros(4, int))
    with pytest.raises(RoundOverError):
        envs.random_actions(np.random.default_rng(0))


def test_what_is_no_opponent_is_refused():
    with pytest.raises(OptionError, match="opponents=5 are none"):
        RolitEnv(opponents=5)


@pytest.mark.parametrize("index", [1.5, "a", -1, 4])
def test_what_is_no_sub_environment_is_refused(index):
    envs = RolitVectorEnv(4)
    envs.reset(seed=0)
    with pytest.raises(OptionError, match="allowed are 0 to 3"):
        envs.board(index)
