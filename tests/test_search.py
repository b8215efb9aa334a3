"""Agents that look ahead: their values against plain full-width search, their budgets, and the evaluation they go by."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import numpy as np
import pytest

from rolit_env import rules
from rolit_env.agents import SearchAgent, SearchResult, make_agent
from rolit_env.agents.ntuple import NTuples
from rolit_env.agents.policy import PolicyAgent
from rolit_env.agents.search import AlphaBetaAgent
from rolit_env.batch import GameBatch
from rolit_env.bits import Words
from rolit_env.errors import AgentError, ModelFileError, RoundOverError, VariantError
from rolit_env.kernel import kernel
from rolit_env.rules import word_geometry
from rolit_env.search import alphabeta
from rolit_env.search.evaluation import (
    SHARE,
    asking,
    column_names,
    hand_made,
    pair_value,
    seat_counts,
    seat_values,
)
from rolit_env.search.network import Network, answer_all
from rolit_env.search.ntuple import make_scratch
from rolit_env.search.patterns import TUPLES
from rolit_env.search.weights import WEIGHTS
from rolit_env.symmetry import cell_permutations, transform_words
from rolit_env.variant import all_variants, variant
from tests.oracle import VARIANTS
from tests.test_agents import save_policy
from tests.test_network import make_afterstates, save_afterstates
from training import tune

MANY = [(8, 3), (8, 4), (6, 3), (6, 4)]
PAIRS = [(8, 2), (6, 2), (4, 2)]
CASES = [("alphabeta", *one) for one in PAIRS] + [(name, *one) for name in ("paranoid", "maxn", "brs") for one in MANY]
ALL_CASES = pytest.mark.parametrize(("name", "size", "players"), CASES)


def search_agent(description: str) -> SearchAgent:
    agent = make_agent(description)
    assert isinstance(agent, SearchAgent)
    return agent


def random_batch(games: int, size: int, players: int, turns: int, seed: int = 0) -> GameBatch:
    batch = GameBatch(games, size=size, players=players, seed=seed)
    if turns:
        batch.step_random(np.random.default_rng(seed), turns)
    return batch


# A plain search, all positions of a level at once: no bounds, no order, no table, no kernel.


@kernel
def pair_leaves(view: Words, size: int, evaluation: Any, values: Any) -> None:
    for at in range(view.shape[0]):
        values[at, 0] = pair_value(view[at, 0], view[at, 1], view[at, 2], view[at, 3], size, evaluation)
        values[at, 1] = -values[at, 0]


@kernel
def seat_leaves(view: Words, players: int, size: int, evaluation: Any, values: Any) -> None:
    for at in range(view.shape[0]):
        mine, second, third, fourth = seat_values(
            view[at, 0], view[at, 1], view[at, 2], view[at, 3], players, size, evaluation
        )
        values[at, 0], values[at, 1], values[at, 2], values[at, 3] = mine, second, third, fourth


def leaves(view: Words, size: int, players: int) -> np.ndarray:
    """Return the values of positions for all seats from the mover's side, int64 [N, 4]."""
    values = np.zeros((len(view), 4), np.int64)
    if np.bitwise_count(view[0]).sum() < size * size:
        if players == 2:
            pair_leaves(view, size, hand_made(size, players), values)
        else:
            seat_leaves(view, players, size, hand_made(size, players), values)
        return values
    balls = np.bitwise_count(view[:, :players]).astype(np.int64)
    if players == 2:
        values[:, :2] = balls - balls[:, ::-1]
        return values
    leads = balls == balls.max(axis=1, keepdims=True)
    values[:, :players] = balls + np.where(leads, SHARE // leads.sum(axis=1, keepdims=True), 0)
    return values


def children(view: Words, size: int, mover: int) -> tuple[np.ndarray, np.ndarray, Words]:
    """Return the position, the cell and the words after each legal turn of one column, whose place stays."""
    own = view[:, mover]
    others = np.bitwise_or.reduce(view, axis=1) ^ own
    g: Any = word_geometry(size)
    position, cell = np.nonzero((rules.legal_cells(own, others, g)[:, None] >> np.arange(size * size, dtype=np.uint64)) & 1)
    rolled = rules.rolled_balls(cell.astype(np.uint64), own[position], others[position], g)
    after = view[position] & ~rolled[:, None]
    after[:, mover] = own[position] | rolled | np.uint64(1) << cell.astype(np.uint64)
    return position, cell, after


def by_parent(values: np.ndarray, position: np.ndarray, best: np.ufunc) -> np.ndarray:
    """Reduce the values of children to those of their parents."""
    return best.reduceat(values, np.flatnonzero(np.diff(position, prepend=-1)))


def turned(view: np.ndarray, players: int, turns: int) -> np.ndarray:
    """Return columns as they are seen so many turns later."""
    return np.concatenate([np.roll(view[:, :players], -turns, axis=1), view[:, players:]], axis=1)


def plain(name: str, view: Words, size: int, players: int, depth: int, turn: int = 0) -> np.ndarray:
    """Return the values of all seats, int64 [N, 4], in the places that they have at the root; `turn` turns were played."""
    mover = turn % players
    replies = name == "brs" and turn % 2 == 1
    if depth == 0:
        # In best-reply search the next seat moves after the root, and the root after a reply.
        moved = turn % 2 if name == "brs" else mover
        return turned(leaves(turned(view, players, moved), size, players), players, -moved)
    groups = [children(view, size, other) for other in (range(1, players) if replies else [0 if name == "brs" else mover])]
    position, _, after = (np.concatenate(parts) for parts in zip(*groups, strict=True))
    values = plain(name, after, size, players, depth - 1, turn + 1)
    order = np.argsort(position, kind="stable")
    position, values = position[order], values[order]
    if name == "maxn":  # the lowest cell among those best for the mover
        own = values[:, mover]
        found = np.where(own == by_parent(own, position, np.maximum)[position], np.arange(len(own)), len(own))
        return values[by_parent(found, position, np.minimum)]
    mine = mover == 0 if name != "brs" else not replies
    first = by_parent(values[:, 0], position, np.maximum if mine else np.minimum)
    return np.stack([first, -first, first, first], axis=1)


def expected(name: str, games: GameBatch, depth: int) -> tuple[np.ndarray, Words]:
    """Return the values of the best cells, int64 [B, 4], and these cells."""
    size, players = games.variant.size, games.variant.players
    position, cell, after = children(games.view(), size, 0)
    values = plain(name, after, size, players, depth - 1, 1)
    best = values[:, 0] == by_parent(values[:, 0], position, np.maximum)[position]
    words = by_parent(np.where(best, np.uint64(1) << cell.astype(np.uint64), np.uint64(0)), position, np.bitwise_or)
    first = by_parent(np.where(best, np.arange(len(best)), len(best)), position, np.minimum)
    return values[first], words


POSITIONS = {1: 640, 2: 640, 3: 512, 4: 256}
"""Positions of an agent at each depth, over all of its variants: 2,048."""


@ALL_CASES
def test_values_are_those_of_plain_search(name: str, size: int, players: int) -> None:
    rng = np.random.default_rng([size, players])
    variants = len([case for case in CASES if case[0] == name])
    for depth, positions in POSITIONS.items():
        agent = search_agent(f"{name}:depth={depth},exact=0")
        groups = 4
        count = -(-positions // variants // groups)
        plies = size * size - 4
        # A few turns before the end too, and at first; deep searches where cells are few, because plain search is slow.
        earliest = 0 if depth < 3 else plies // 2 if depth == 3 and name != "brs" else max(plies - 14, 0)
        for turns in [*rng.integers(earliest, plies, groups - 1).tolist(), plies - int(rng.integers(1, depth + 1))]:
            games = random_batch(count, size, players, turns, seed=turns)
            result = agent.search(games, rng)
            values, best = expected(name, games, depth=min(depth, plies - turns))
            wanted = values[:, :players] if name == "maxn" else values[:, 0]
            np.testing.assert_array_equal(result.values, wanted, err_msg=f"depth {depth} after {turns} turns")
            assert ((best >> result.actions.astype(np.uint64)) & np.uint64(1)).all()
            assert (result.depth == min(depth, plies - turns)).all()
            assert (result.nodes > result.depth).all()


@ALL_CASES
def test_values_by_tables_are_those_of_plain_search(name: str, size: int, players: int, monkeypatch) -> None:
    tables = NTuples.empty(variant(size, players), TUPLES[size], 4)
    tables.weights[:] = np.random.default_rng(size * players).normal(scale=0.2, size=tables.weights.shape)
    monkeypatch.setattr(sys.modules[__name__], "hand_made", lambda *_: tables.evaluation())
    plies = size * size - 4
    for depth, starts in ((1, (0, plies // 2, plies - 2)), (2, (1, plies // 2, plies - 3)), (3, (plies // 2, plies - 4))):
        agent = search_agent(f"{name}:depth={depth},exact=0")
        agent.evaluation = tables.evaluation()
        for turns in starts:
            games = random_batch(4, size, players, turns, seed=turns)
            result = agent.search(games, np.random.default_rng(0))
            values, best = expected(name, games, depth)
            wanted = values[:, :players] if name == "maxn" else values[:, 0]
            np.testing.assert_array_equal(result.values, wanted, err_msg=f"depth {depth} after {turns} turns")
            assert ((best >> result.actions.astype(np.uint64)) & np.uint64(1)).all()


@ALL_CASES
def test_values_by_a_network_are_those_of_plain_search(name: str, size: int, players: int, monkeypatch, tmp_path) -> None:
    path = save_afterstates(tmp_path, make_afterstates(size, players))
    evaluation = asking(PolicyAgent(path).network, size, players)
    monkeypatch.setattr(sys.modules[__name__], "hand_made", lambda *_: evaluation)
    plies = size * size - 4
    for depth, starts in ((1, (0, plies // 2, plies - 2)), (2, (1, plies // 2)), (3, (plies // 2, plies - 4))):
        agent = search_agent(f"{name}:depth={depth},exact=0,eval={path}")
        for turns in starts:
            games = random_batch(4, size, players, turns, seed=turns)
            result = agent.search(games, np.random.default_rng(0))
            values, best = expected(name, games, depth)
            wanted = values[:, :players] if name == "maxn" else values[:, 0]
            np.testing.assert_array_equal(result.values, wanted, err_msg=f"depth {depth} after {turns} turns")
            assert ((best >> result.actions.astype(np.uint64)) & np.uint64(1)).all()


def looks(view: Words, size: int, judge: Any) -> np.ndarray:
    """Return the rank of each turn among those of its position, the best looking one having 0, int64 [turns]."""
    position, cell, after = children(view, size, 0)
    if isinstance(judge, Network):
        logits = np.empty((len(view), size * size), np.float32)
        answer_all(view, 2, size, judge, make_scratch(2), logits, np.empty((len(view), 2), np.float32))
        scores = (-1000.0 * logits[position, cell]).astype(np.int64)
    else:
        scores = leaves(turned(after, 2, 1), size, 2)[:, 0]
    order = np.lexsort((cell, scores, position))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(position, position[order])
    return rank


def narrow(view: Words, size: int, depth: int, width: int, judge: Any) -> np.ndarray:
    """Return the values of plain search that looks at the best turns alone, but at all before a leaf, int64 [N]."""
    if depth == 0:
        return leaves(view, size, 2)[:, 0]
    position, _, after = children(view, size, 0)
    values = -narrow(turned(after, 2, 1), size, depth - 1, width, judge)
    if depth > 1:
        values = np.where(looks(view, size, judge) < width, values, -(1 << 50))
    return by_parent(values, position, np.maximum)


@pytest.mark.parametrize("judge", ["by hand", "tables", "network", "policy beside tables"])
@pytest.mark.parametrize(("size", "players"), PAIRS)
def test_a_narrow_search_looks_at_the_best_turns_alone(judge: str, size: int, players: int, monkeypatch, tmp_path) -> None:
    path = save_afterstates(tmp_path, make_afterstates(size, players))
    tables = NTuples.empty(variant(size, players), TUPLES[size], 4)
    tables.weights[:] = np.random.default_rng(size).normal(scale=0.2, size=tables.weights.shape)
    network = PolicyAgent(path).network
    evaluation = asking(network, size, players) if judge == "network" else tables.evaluation()
    options = {"by hand": "", "tables": "", "network": f",eval={path}", "policy beside tables": f",policy={path}"}[judge]
    if judge != "by hand":
        monkeypatch.setattr(sys.modules[__name__], "hand_made", lambda *_: evaluation)
    plies, other = size * size - 4, 0
    for depth, width in ((1, 1), (2, 2), (3, 3), (4, 2)):
        agent = search_agent(f"alphabeta:depth={depth},width={width},exact=0{options}")
        if "tables" in judge:
            agent.evaluation = evaluation
        assert make_agent(agent.name).name == agent.name
        games = random_batch(10 if size == 8 else 40, size, players, plies // 2, seed=depth)
        result = agent.search(games, np.random.default_rng(0))
        wanted = narrow(games.view(), size, depth, width, network if judge in ("network", "policy beside tables") else None)
        np.testing.assert_array_equal(result.values, wanted, err_msg=f"depth {depth}, width {width}")
        other += (plain("alphabeta", games.view(), size, players, depth)[:, 0] != wanted).sum()
    assert other > 5


@ALL_CASES
def test_the_whole_rest_is_searched_where_little_is_left(name: str, size: int, players: int) -> None:
    plies = size * size - 4
    games = random_batch(30, size, players, plies - 5, seed=1)
    rng = np.random.default_rng(0)
    exact = search_agent(f"{name}:depth=1,exact=5").search(games, rng)
    assert (exact.depth == 5).all()
    values, best = expected("alphabeta" if players == 2 else "maxn", games, depth=5)
    np.testing.assert_array_equal(exact.values, values[:, :players] if name == "maxn" else values[:, 0])
    assert ((best >> exact.actions.astype(np.uint64)) & np.uint64(1)).all()


@ALL_CASES
def test_a_result_depends_on_nothing_but_its_position(name: str, size: int, players: int) -> None:
    agent = search_agent(f"{name}:depth=3")
    games = random_batch(20, size, players, turns=5, seed=2)
    together = agent.search(games, np.random.default_rng(0))
    agent.search(random_batch(5, size, players, turns=6), np.random.default_rng(1))
    for at in (7, 3, 11):
        alone = agent.search(games[at], np.random.default_rng(2))
        for field in ("values", "depth", "nodes"):
            np.testing.assert_array_equal(getattr(alone, field)[0], getattr(together, field)[at])


def test_one_agent_plays_three_and_four_players_in_turns() -> None:
    agent, rng = search_agent("paranoid:depth=2"), np.random.default_rng(0)
    for players in (4, 3, 4):
        games = random_batch(10, 6, players, turns=7)
        np.testing.assert_array_equal(agent.search(games, rng).values, expected("paranoid", games, 2)[0][:, 0])


@ALL_CASES
def test_agents_play_whole_rounds_and_leave_the_games_as_they_are(name: str, size: int, players: int) -> None:
    agent = make_agent(f"{name}:depth=2")

    def play(seed: int) -> list[list[int]]:
        games, rng = random_batch(6, size, players, turns=2, seed=3), np.random.default_rng(seed)
        played = []
        while not games.done:
            before = games.balls.copy(), games.legal.copy(), games.ply
            played.append(agent.act(games, rng).tolist())
            assert (games.balls == before[0]).all()
            assert (games.legal == before[1]).all()
            assert games.ply == before[2]
            games.step(np.array(played[-1]))
        with pytest.raises(RoundOverError):
            agent.act(games, rng)
        return played

    assert play(0) == play(0)


def test_ties_are_drawn() -> None:
    ends = random_batch(400, 4, 2, turns=7, seed=5)
    _, best = expected("alphabeta", ends, 5)
    at = int(np.flatnonzero(np.bitwise_count(best) == 2)[0])
    cells = [cell for cell in range(16) if int(best[at]) >> cell & 1]
    games = ends[np.full(3000, at)]
    for options in ("depth=5,exact=0", "depth=1,exact=5"):
        actions = make_agent(f"alphabeta:{options}").act(games, np.random.default_rng(0))
        counts = np.bincount(actions, minlength=16)[cells]
        assert counts.sum() == 3000
        assert abs(counts / 3000 - 0.5).max() < 0.05  # five standard errors


# Budgets.


@pytest.mark.parametrize(("name", "players"), [("alphabeta", 2), ("paranoid", 3), ("maxn", 4), ("brs", 4)])
@pytest.mark.parametrize("budget", ["nodes=1", "nodes=700", "nodes=5000", "seconds=0.02", "seconds=1e-9", "nodes=50,depth=2"])
def test_a_budget_ends_with_a_finished_depth(name: str, players: int, budget: str) -> None:
    games, rng = random_batch(3, 8, players, turns=12, seed=4), np.random.default_rng(0)
    agent = search_agent(f"{name}:{budget}")
    result = agent.search(games, rng)
    for at, depth in enumerate(result.depth.tolist()):
        assert depth >= 1
        whole = search_agent(f"{name}:depth={depth}").search(games[at], rng)
        np.testing.assert_array_equal(whole.values[0], result.values[at])
    if "seconds" not in budget:
        limit = int(budget.removeprefix("nodes=").split(",")[0])
        assert (result.nodes < limit + 200).all()  # the children of the last position
        again = agent.search(games, rng)
        np.testing.assert_array_equal(again.nodes, result.nodes)
        np.testing.assert_array_equal(again.values, result.values)
    if budget == "nodes=5000":
        assert (result.depth > 2).all()


def test_a_large_budget_of_nodes_searches_to_the_end() -> None:
    games, rng = random_batch(4, 4, 2, turns=4), np.random.default_rng(0)
    result = search_agent("alphabeta:nodes=1000000,exact=0").search(games, rng)
    assert (result.depth == 8).all()
    np.testing.assert_array_equal(result.values, search_agent("alphabeta:depth=1,exact=8").search(games, rng).values)


def test_a_stopped_search_still_answers() -> None:
    games = random_batch(2, 8, 2, turns=10)
    memory = alphabeta.pair_memory()
    memory.control[alphabeta.STOP] = 1
    best, values = np.zeros(2, np.uint64), np.zeros((2, 4), np.int64)
    depths, nodes = np.zeros(2, np.int64), np.zeros(2, np.int64)
    alphabeta.search_pairs(games.view(), 8, 9, 1, hand_made(8, 2), memory, best, values, depths, nodes)
    assert depths.tolist() == [1, 1]
    assert (best & games.legal).all()


# Descriptions.


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("alphabeta", "alphabeta:depth=4"),
        ("alphabeta:depth=6,exact=0", "alphabeta:depth=6,exact=0"),
        ("alphabeta:seconds=0.5", "alphabeta:seconds=0.5"),
        ("alphabeta:seconds=2,nodes=100,depth=3", "alphabeta:depth=3,nodes=100,seconds=2.0"),
        ("paranoid", "paranoid:depth=3"),
        ("maxn", "maxn:depth=3"),
        ("brs:exact=9", "brs:depth=3,exact=9"),
    ],
)
def test_the_name_builds_the_agent_again(description: str, name: str) -> None:
    agent = search_agent(description)
    games, rng = random_batch(2, 6, 2 if "alpha" in name else 3, turns=20), np.random.default_rng(0)
    agent.act(games, rng)
    for twin in (make_agent(name), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert type(twin) is type(agent)
        assert twin.name == agent.name == name
        assert twin.act(games, rng).shape == (2,)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("depth=0", "depth=0 does not exist; allowed are ints from 1 to 60"),
        ("depth=99", "depth=99 does not exist; allowed are ints from 1 to 60"),
        ("nodes=0", "nodes=0 does not exist; allowed are ints from 1 to a trillion"),
        ("seconds=-1", "seconds=-1 does not exist; allowed are numbers above 0, to a million"),
        ("seconds=0", "seconds=0 does not exist"),
        ("seconds=nan", "seconds=nan does not exist"),
        ("seconds=inf", "seconds=inf does not exist"),
        ("exact=-1", "exact=-1 does not exist; allowed are ints from 0 to"),
        ("exact=30", "exact=30 does not exist; allowed are ints from 0 to"),
        ("deep=3", "has no option 'deep=3'; known are: depth, nodes, seconds, exact"),
        ("depth=4.5", "can't take depth='4.5'; it must be of type int"),
    ],
)
def test_budgets_that_cant_be_are_refused(options: str, complaint: str) -> None:
    for name in ("alphabeta", "paranoid", "maxn", "brs"):
        with pytest.raises(AgentError, match=complaint) as caught:
            make_agent(f"{name}:{options}")
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("width=0", "width=0 does not exist; allowed are ints from 1 to 60"),
        ("width=99", "width=99 does not exist"),
        ("policy={path}", "give width, how many, too"),
        ("policy={path},width=3,eval={path}", "policy and eval both have a network"),
        ("width=3,policy=none.onnx", "no policy file none.onnx"),
        ("eval=none.onnx", "no policy file none.onnx"),
        ("eval={ramp}", "holds no network of afterstates for 4x4-2p"),
        ("policy={ramp},width=2", "holds no network of afterstates for 4x4-2p"),
    ],
)
def test_networks_that_cant_be_asked_are_refused(options: str, complaint: str, tmp_path) -> None:
    path, ramp = save_afterstates(tmp_path, make_afterstates(4, 2)), save_policy(tmp_path, 4, 2)
    with pytest.raises((AgentError, ModelFileError), match=complaint) as caught:
        make_agent(f"alphabeta:{options.format(path=path, ramp=ramp)}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_network_is_for_its_variant_alone(tmp_path) -> None:
    path = save_afterstates(tmp_path, make_afterstates(6, 3))
    games, rng = random_batch(3, 6, 3, turns=9), np.random.default_rng(0)
    for description in (f"maxn:depth=2,eval={path}", f"alphabeta:width=3,policy={path}"):
        agent = search_agent(description)
        with pytest.raises(VariantError, match="trained for 6x6-3p"):
            agent.act(random_batch(3, 8, 3 if "maxn" in description else 2, turns=9), rng)
        twin = pickle.loads(pickle.dumps(agent))
        assert twin.name == agent.name
        if "maxn" in description:
            np.testing.assert_array_equal(twin.search(games, rng).values, agent.search(games, rng).values)


def test_wrong_numbers_of_players_are_refused() -> None:
    rng = np.random.default_rng(0)
    for chosen in all_variants():
        for name in ("alphabeta", "paranoid", "maxn", "brs"):
            agent = make_agent(name)
            if (name == "alphabeta") == (chosen.players == 2):
                agent.check_variant(chosen)
                continue
            games = GameBatch(2, size=chosen.size, players=chosen.players)
            complaint = f"{name}.* can't play {chosen.name}"
            with pytest.raises(VariantError, match=complaint):
                agent.check_variant(chosen)
            with pytest.raises(VariantError, match=complaint):
                agent.act(games, rng)


def test_results_are_arrays_of_the_batch() -> None:
    rng = np.random.default_rng(0)
    for name, players, shape in (("alphabeta", 2, (5,)), ("paranoid", 4, (5,)), ("maxn", 3, (5, 3)), ("brs", 3, (5,))):
        result = search_agent(f"{name}:depth=1").search(random_batch(5, 8, players, turns=8), rng)
        assert isinstance(result, SearchResult)
        assert result.values.shape == shape
        for array in (result.actions, result.depth, result.nodes):
            assert array.shape == (5,)
            assert array.dtype == np.int64


# The evaluation.


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_the_board_s_symmetries_change_no_value(size: int, players: int) -> None:
    games = random_batch(8, size, players, turns=7)
    values = leaves(games.view(), size, players)
    for permutation in cell_permutations(size):
        moved = transform_words(games.view(), np.tile(permutation, (len(games), 1)))
        np.testing.assert_array_equal(leaves(moved, size, players), values)


@pytest.mark.parametrize(("size", "players"), MANY)
def test_seats_share_one_win(size: int, players: int) -> None:
    for turns in (3, 15, 27):
        values = leaves(random_batch(50, size, players, turns).view(), size, players)
        assert (values >= 0).all()
        assert (np.abs(values.sum(axis=1) - SHARE) < 4).all()
        assert (values[:, players:] == 0).all()


@kernel
def count_safe(view: Words, players: int, size: int, counts: Any) -> None:
    for at in range(view.shape[0]):
        occupied = view[at, 0] | view[at, 1] | view[at, 2] | view[at, 3]
        for seat in range(players):
            counts[at, seat] = seat_counts(view[at, seat], occupied, size)[2]


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_safe_balls_stay(size: int, players: int) -> None:
    games, rng = GameBatch(100, size=size, players=players, seed=0), np.random.default_rng(0)
    before, met = np.zeros((100, players), np.int64), 0
    while True:
        counts = np.zeros((100, players), np.int64)
        count_safe(turned(games.view(), players, -games.seat), players, size, counts)
        # Safe balls can't become fewer; that they could be found late is no reason to lose them again.
        assert (counts >= before).all()
        assert (counts <= games.seat_counts()).all()
        met += (counts > before).sum() if not games.done else 0
        if games.done:
            break
        before = counts
        games.step_random(rng)
    assert (counts == games.seat_counts()).all()
    assert met > 100


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_weights_have_the_names_of_their_variant(size: int, players: int) -> None:
    names = [line.split()[0] for line in WEIGHTS[size, players].strip().splitlines()]
    assert names == column_names(size, players)


def test_tuning_prints_weights_in_their_form(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--size", "4", "--rounds", "1", "--games", "60", "--depth", "1", "--seed", "3"]
    assert tune.main(command) == 0
    first = capsys.readouterr()
    printed = eval(f"{{{first.out}}}")  # the lines of a dict
    assert [line.split()[0] for line in printed[4, 2].strip().splitlines()] == column_names(4, 2)
    assert {len(line.split()) for line in printed[4, 2].strip().splitlines()} == {1 + tune.KNOTS}
    assert "round 1 of 1 on 4x4-2p" in first.err
    assert tune.main(command) == 0
    assert capsys.readouterr().out == first.out


def test_fitted_weights_foretell_what_made_them() -> None:
    # Results drawn by known weights, from which the fit must find these again.
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 5, (20_000, 3, 4)).astype(np.int8)
    truth = np.array([0.5, -0.3, 0.1, 0.0])
    scores = counts @ truth + rng.gumbel(size=(20_000, 3))
    shares = (scores == scores.max(axis=1, keepdims=True)).astype(np.float32)
    knots, loss = tune.fit(counts, np.full(20_000, 8), shares, 8)
    np.testing.assert_allclose(knots[1], truth, atol=0.03)
    assert 0.5 < loss < 1.1


def test_tuning_refuses_what_cant_be(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["--size", "5"], ["--explore", "2"], ["--seed", "-1"], ["--depth", "61"]):
        assert tune.main(command) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_subclasses_know_their_limits() -> None:
    assert AlphaBetaAgent(exact=14).exact == 14
    assert AlphaBetaAgent().exact == 10
