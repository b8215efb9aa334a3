"""Observations in other forms say the same, in all three kinds of environment, and masks stay masks."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test

from rolit_env import rolit_v0
from rolit_env.adapters.observe import observe
from rolit_env.errors import IllegalMoveError, OptionError
from rolit_env.gym_env import RolitEnv
from rolit_env.vector_env import RolitVectorEnv

VIEWS = [
    {},
    {"flat": True, "dtype": np.float32},
    {"frames": 3},
    {"indicator": True},
    {"frames": 2, "indicator": True, "flat": True, "dtype": np.float32, "names": {"observation": "observations"}},
]


def expected(history, seat, players, frames=1, indicator=False, flat=False, dtype=np.int8, names=None):
    """Return one observation by the plainest way: the last positions of a list, and the observer's seat."""
    side = history[-1].shape[-1]
    stack = [*[np.zeros((4, side, side), np.int8)] * frames, *history][-frames:]
    if indicator:
        stack += [np.full((1, side, side), place == seat, np.int8) for place in range(players)]
    planes = np.concatenate(stack).astype(dtype)
    return {(names or {}).get("observation", "observation"): planes.ravel() if flat else planes}


def check(seen, space, mask, wanted):
    assert space.contains(seen)
    assert seen["action_mask"].dtype == np.int8
    np.testing.assert_array_equal(seen["action_mask"], mask)
    ((key, planes),) = wanted.items()
    assert seen[key].dtype == planes.dtype
    np.testing.assert_array_equal(seen[key], planes)
    assert len(seen) == 2


@pytest.mark.parametrize("players", [2, 3])
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_one_seat(view, players):
    options = {"size": 6, "players": players, "illegal_move": "retry"}
    plain, env = RolitEnv(**options), observe(RolitEnv(**options), **view)
    rng = np.random.default_rng(0)
    for number in range(players + 1):
        seed = 7 if number == 0 else None
        (raw, _), (seen, _) = plain.reset(seed=seed), env.reset(seed=seed)
        history, over = [raw["observation"]], False
        while not over:
            check(seen, env.observation_space, raw["action_mask"], expected(history, plain.seat, players, **view))
            illegal = rng.random() < 0.2
            action = int(rng.choice(np.flatnonzero(raw["action_mask"] != illegal)))
            raw, reward, over, _, _ = plain.step(action)
            seen, same_reward, same_over, _, _ = env.step(action)
            assert (reward, over) == (same_reward, same_over)
            if not illegal:
                history.append(raw["observation"])
        check(seen, env.observation_space, raw["action_mask"], expected(history, plain.seat, players, **view))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("players", [2, 3])
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_thousands(view, players, mode):
    options = {"size": 6, "players": players, "autoreset_mode": mode}
    plain, env = RolitVectorEnv(7, **options), observe(RolitVectorEnv(7, copy=False, **options), **view)
    rng = np.random.default_rng(0)
    space = env.single_observation_space

    def check_rows(seen, raw, seats, rows):
        for row in rows:
            one = {key: part[row] for key, part in seen.items()}
            check(one, space, raw["action_mask"][row], expected(histories[row], seats[row], players, **view))

    (raw, _), (seen, _) = plain.reset(seed=3), env.reset(seed=3)
    assert env.observation_space.contains(seen)
    histories = [[planes] for planes in raw["observation"]]
    ended = np.zeros(7, bool)
    for _ in range(40):
        check_rows(seen, raw, plain.seats, range(7))
        fresh = ended if mode == "NextStep" else np.zeros(7, bool)
        actions = plain.random_actions(rng)
        raw, _, ended, _, infos = plain.step(actions)
        seen, _, same_ended, _, same_infos = env.step(actions)
        np.testing.assert_array_equal(ended, same_ended)
        if mode == "SameStep" and ended.any():
            for row in np.flatnonzero(ended):
                histories[row].append(infos["final_obs"]["observation"][row])
            final = same_infos["final_obs"]
            check_rows(final, infos["final_obs"], infos["final_info"]["seat"], np.flatnonzero(ended))
            assert not any(part[~ended].any() for part in final.values())
            fresh = ended
        for row, planes in enumerate(raw["observation"]):
            histories[row] = [planes] if fresh[row] else [*histories[row], planes]
        if mode == "Disabled" and ended.any():
            check_rows(seen, raw, plain.seats, range(7))
            mask = {"reset_mask": ended}
            (raw, _), (seen, _) = plain.reset(options=mask), env.reset(options=mask)
            for row in np.flatnonzero(ended):
                histories[row] = [raw["observation"][row]]


@pytest.mark.parametrize("players", [2, 3])
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_pettingzoo(view, players):
    plain = rolit_v0.env(size=6, players=players, illegal_move="retry")
    env = observe(rolit_v0.env(size=6, players=players, illegal_move="retry"), **view)
    rng = np.random.default_rng(0)
    for number in range(3):
        for one in (plain, env):
            one.reset(seed=7 if number == 0 else None)
        first = plain.possible_agents.index(plain.agent_selection)
        seats = {agent: (place - first) % players for place, agent in enumerate(plain.possible_agents)}
        before = {agent: [] for agent in plain.possible_agents}
        while plain.agents:
            for agent in plain.possible_agents:  # anybody may be asked, also who is not to move
                raw = plain.observe(agent)
                wanted = expected([*before[agent], raw["observation"]], seats[agent], players, **view)
                check(env.observe(agent), env.observation_space(agent), raw["action_mask"], wanted)
            agent = plain.agent_selection
            raw, reward, over, *_ = plain.last()
            _, same_reward, same_over, *_ = env.last()
            assert (reward, over, agent) == (same_reward, same_over, env.agent_selection)
            illegal = rng.random() < 0.2
            action = None if over else int(rng.choice(np.flatnonzero(raw["action_mask"] != illegal)))
            for one in (plain, env):
                one.step(action)
            if not (over or illegal):
                before[agent].append(raw["observation"])
        assert not env.agents


@pytest.mark.parametrize("view", VIEWS[:4], ids=str)
@pytest.mark.filterwarnings("ignore:.*(not a NumPy array|probably should be|We recommend agents to be named)")
def test_pettingzoos_own_test_passes(view):
    api_test(observe(rolit_v0.env(size=6, players=3), **view), num_cycles=100)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
def test_gymnasiums_own_test_passes(view):
    check_env(observe(RolitEnv(size=6), **view), skip_render_check=True)


def test_made_environments_in_their_wrappers_are_known():
    env = observe(gymnasium.make("rolit_env/Rolit-v0", size=6), flat=True)
    assert env.observation_space["observation"].shape == (144,)
    assert env.get_wrapper_attr("action_masks")
    seen, _ = env.reset(seed=0)
    env.step(env.action_space.sample(seen["action_mask"]))
    envs = gymnasium.make_vec("rolit_env/Rolit-v0", num_envs=3, vectorization_mode="vector_entry_point", size=6)
    assert observe(envs, frames=2).reset(seed=0)[0]["observation"].shape == (3, 8, 6, 6)


def test_rllibs_own_modules_get_what_they_want():
    env = observe(rolit_v0.env(), flat=True, dtype=np.float32, names={"observation": "observations"})
    box, mask = spaces.Box(0, 1, (256,), np.float32), spaces.Box(0, 1, (64,), np.int8)
    assert env.observation_space("red") == spaces.Dict({"observations": box, "action_mask": mask})
    assert env.observation_space("red") is env.observation_space("red")


@pytest.mark.parametrize("mask", [None, [True] * 4])
def test_rounds_that_are_started_by_hand_after_the_end_of_others_have_their_past(mask):
    env = observe(RolitVectorEnv(4, size=4, seat=1), frames=2)  # NextStep
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(6):
        *_, ended, _, _ = env.step(env.unwrapped.random_actions(rng))
    assert ended.all()
    first, _ = env.reset(options=None if mask is None else {"reset_mask": np.array(mask)})
    assert not first["observation"][:, :4].any()
    seen, *_ = env.step(env.unwrapped.random_actions(rng))
    np.testing.assert_array_equal(seen["observation"][:, :4], first["observation"][:, 4:])


def test_illegal_moves_of_vectors_change_nothing():
    env = observe(RolitVectorEnv(3, size=6), frames=3)
    first, _ = env.reset(seed=0)
    actions = env.unwrapped.random_actions(np.random.default_rng(0))
    with pytest.raises(IllegalMoveError):
        env.step(np.full(3, 14))  # a cell of the middle
    seen, *_ = env.step(actions)
    np.testing.assert_array_equal(seen["observation"][:, 4:8], first["observation"][:, 8:])
    assert not seen["observation"][:, :4].any()


def test_copies_go_on_by_themselves():
    env = observe(rolit_v0.env(size=6), frames=2)
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    agent = env.agent_selection
    before = env.observe(agent)["observation"]
    env.step(int(env.observe(agent)["action_mask"].argmax()))
    assert (env.observe(agent)["observation"] != before).any()
    np.testing.assert_array_equal(twin.observe(agent)["observation"], before)


def test_what_cannot_be_is_refused():
    for env in (gymnasium.make("CartPole-v1"), "rolit_v0", None):
        with pytest.raises(OptionError, match=r"is no environment of Rolit; allowed are RolitEnv, RolitVectorEnv and"):
            observe(env)
    with pytest.raises(OptionError, match="frames=0"):
        observe(RolitEnv(), frames=0)
