"""Monte Carlo tree search: what trees hold, that they find what is best, and what the agent takes and refuses."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolit_env.agents import MctsAgent, make_agent
from rolit_env.agents import mcts as agent_module
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import AgentError, ModelFileError, RoundOverError, VariantError
from rolit_env.search import mcts
from rolit_env.search.evaluation import hand_made, pair_value, seat_values
from rolit_env.search.mcts import Formula, Leaves
from rolit_env.search.playouts import Playouts, _favourites
from rolit_env.search.tree import Tree, compact, make_tree, plant, root_moves
from rolit_env.solve import move_values
from rolit_env.variant import COLORS
from tests.oracle import VARIANTS
from tests.test_agents import random_batch, save_policy
from tests.test_network import make_afterstates, save_afterstates, torch_answers

ALL_VARIANTS = pytest.mark.parametrize(("size", "players"), VARIANTS)
UCT = Formula(0.5, puct=False)
RANDOM = Playouts(np.uint64(0), np.uint64(0))


def planted(games: GameBatch, entries: int = 100_000, kept: Tree | None = None, seed: int = 0) -> tuple[Tree, Leaves]:
    tree = make_tree(len(games), entries)
    plant(tree, kept or make_tree(len(games), 0), games.view(), games.variant.players, games.variant.size)
    tree.random[0] = seed
    return tree, mcts.make_leaves(len(games))


def search(games: GameBatch, simulations: int, **options: Any) -> Tree:
    tree, leaves = planted(games, **options)
    mcts.search_by_playouts(games.variant.size)(tree, leaves, games.variant.players, simulations, UCT, RANDOM)
    return tree


def children(tree: Tree, node: int) -> range:
    return range(tree.firsts[node], tree.firsts[node] + tree.counts[node])


def assert_visits_add_up(tree: Tree, node: int, own: int) -> None:
    """Every visit of an expanded node goes on to a child but the first `own`, which ended there."""
    if tree.firsts[node]:
        assert tree.visits[node] == own + sum(tree.visits[child] for child in children(tree, node))
        for child in children(tree, node):
            assert 0 <= tree.totals[child] <= tree.visits[child]
            assert_visits_add_up(tree, child, 1)


def outcomes(board: Board) -> dict[int, tuple[float, float]]:
    """Return the lowest and highest share that each move can bring its mover, if all then play for themselves (max^n).

    Players who like several moves equally well may choose any of them, so the end of a round is a set of results.
    """
    return {move: bounds(ends_after(board, move), board.color_to_move) for move in board.legal_moves}


def bounds(results: set[tuple[float, ...]], color: str) -> tuple[float, float]:
    shares = [result[COLORS.index(color)] for result in results]
    return min(shares), max(shares)


def ends_after(board: Board, move: int) -> set[tuple[float, ...]]:
    following = board.copy()
    following.push(move)
    if (outcome := following.outcome()) is not None:
        return {tuple(1 / len(outcome.winners) if color in outcome.winners else 0.0 for color in COLORS)}
    ends = {reply: ends_after(following, reply) for reply in following.legal_moves}
    reached = {reply: bounds(results, following.color_to_move) for reply, results in ends.items()}
    safe = max(low for low, _ in reached.values())
    return set().union(*(ends[reply] for reply, (_, high) in reached.items() if high >= safe))


def assert_best(games: GameBatch, actions: np.ndarray, least: int) -> None:
    """Check that no move is worse than another for certain, in a number of games at least in which some move would be."""
    telling = 0
    for game, action in enumerate(actions.tolist()):
        reached = outcomes(games.board(game))
        safe = max(low for low, _ in reached.values())
        telling += any(high < safe for _, high in reached.values())
        assert reached[action][1] >= safe
    assert telling >= least


# What trees hold.


@pytest.mark.parametrize("players", [2, 3, 4])
def test_visits_add_up(players: int) -> None:
    games = random_batch(5, 6, players, 20)
    tree = search(games, 300)
    for game in range(5):
        cells, visits, _ = root_moves(tree, game)
        assert sorted(cells) == games.board(game).legal_moves
        assert visits.sum() == 300
        assert_visits_add_up(tree, game, 0)


@pytest.mark.parametrize(("count", "players"), [(1, 4), (5, 2), (5, 3), (5, 4)])
def test_means_are_of_what_was_backed_up(count: int, players: int) -> None:
    games = random_batch(count, 6, players, 24)
    tree, leaves = planted(games)
    run = mcts.search_by_playouts(6)
    visits, totals = Counter[int](), Counter[int]()
    for _ in range(400):
        run(tree, leaves, players, 1, UCT, RANDOM)
        for game in range(count):
            assert leaves.shares[game, :players].sum() == pytest.approx(1)
            for depth, node in enumerate(leaves.paths[game, : leaves.depths[game] + 1].tolist()):
                visits[node] += 1
                totals[node] += leaves.shares[game, (depth - 1) % players]  # whoever moved into it
    used = int(tree.used[0])
    assert tree.visits[:used].tolist() == [visits[node] for node in range(used)]
    np.testing.assert_allclose(tree.totals[:used], [totals[node] for node in range(used)])


@ALL_VARIANTS
def test_leaves_are_where_the_moves_lead(size: int, players: int) -> None:
    turns = size * size - 4 - 7
    games = random_batch(4, size, players, turns, seed=3)
    tree, leaves = planted(games)
    run = mcts.search_by_playouts(size)
    full = 0
    for _ in range(300):
        run(tree, leaves, players, 1, UCT, RANDOM)
        for game in range(4):
            board = games.board(game)
            for node in leaves.paths[game, 1 : leaves.depths[game] + 1].tolist():
                board.push(int(tree.cells[node]))
            assert leaves.left[game] == size * size - 4 - board.ply
            if not board.is_over:
                assert leaves.words[:, game].tolist() == GameBatch.from_boards([board]).view()[0].tolist()
                continue
            full += 1
            outcome = board.outcome()
            assert outcome is not None
            seated = [games.board(game).variant.slot_colors(COLORS.index(board.starter))[seat] for seat in range(players)]
            shares = [1 / len(outcome.winners) if COLORS[color] in outcome.winners else 0.0 for color in seated]
            assert leaves.shares[game, :players].tolist() == pytest.approx(
                [shares[(turns + seat) % players] for seat in range(players)]
            )
    assert full > 20


def random_share(board: Board, color: str) -> float:
    """Return what uniformly random play from here brings a colour."""
    if (outcome := board.outcome()) is not None:
        return 1 / len(outcome.winners) if color in outcome.winners else 0.0
    total = 0.0
    for move in board.legal_moves:
        following = board.copy()
        following.push(move)
        total += random_share(following, color)
    return total / len(board.legal_moves)


@pytest.mark.parametrize(("together", "times"), [(4000, 1), (2, 2000)])
@pytest.mark.parametrize("players", [2, 3])
def test_playouts_are_uniformly_random_alone_and_side_by_side(players: int, together: int, times: int) -> None:
    start = random_batch(40, 6, players, 27)
    wanted = [random_share(start.board(game), COLORS[0]) for game in range(40)]
    game = int(np.argmin(np.abs(np.array(wanted) - 0.5)))  # one whose end is open
    board = start.board(game)
    games = start[[game] * together]
    color = board.color_to_move
    shares: dict[int, list[float]] = {move: [] for move in board.legal_moves}
    for seed in range(times):
        tree, leaves = planted(games, seed=seed * 1000)
        mcts.search_by_playouts(6)(tree, leaves, players, 1, UCT, RANDOM)
        for at in range(together):
            shares[int(tree.cells[leaves.paths[at, 1]])].append(leaves.shares[at, 0])
    for move, found in shares.items():
        # The first simulation tries each of the moves as often; five standard errors.
        assert len(found) == pytest.approx(4000 / len(shares), abs=5 * 4000**0.5 / 2)
        board.push(move)
        assert np.mean(found) == pytest.approx(random_share(board, color), abs=5 * 0.5 / len(found) ** 0.5)
        board.pop()


@pytest.mark.parametrize("players", [2, 3, 4])
def test_without_playouts_the_evaluation_counts(players: int) -> None:
    games = random_batch(5, 6, players, 12)
    tree, leaves = planted(games)
    evaluation = hand_made(6, players)
    seen = set()
    for _ in range(30):
        mcts.search_by_values(tree, leaves, players, 6, 1, UCT, evaluation)
        for game in range(5):
            own, following, third, fourth = leaves.words[:, game]
            depth = leaves.depths[game]
            seats = [(depth + turn) % players for turn in range(players)]
            with np.errstate(over="ignore"):  # words wrap, which NumPy would warn of
                if players == 2:
                    logit = pair_value(own, following, third, fourth, 6, evaluation) / 1000
                    wanted = [1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))]
                else:
                    values = seat_values(own, following, third, fourth, players, 6, evaluation)
                    wanted = [value / 1e6 for value in values]
            assert leaves.shares[game, seats].tolist() == pytest.approx(wanted[:players])
            seen.add(round(leaves.shares[game, 0], 6))
    assert len(seen) > 50


def test_graded_playouts_narrow_the_choice_down() -> None:
    playouts: Any = Playouts(0b0011, 0b1100)  # type: ignore[arg-type]
    for legal, favourites in ((0b110110, 0b000010), (0b111100, 0b110000), (0b001100, 0b001100), (0b000000, 0b000000)):
        assert _favourites(legal, playouts) == favourites


# That they find what is best.


@pytest.mark.parametrize(("size", "players"), [(4, 2), (6, 2), (6, 3), (6, 4)])
def test_endings_are_found_out(size: int, players: int) -> None:
    for left in (2, 4, 5):
        games = random_batch(60, size, players, size * size - 4 - left, seed=left)
        for playouts in ("random", "graded", "none"):
            agent = MctsAgent(simulations=3000, explore=0.5, playouts=playouts, exact=0)
            assert_best(games, agent.act(games, np.random.default_rng(0)), least=3)


def test_ends_of_two_players_are_solved() -> None:
    games = random_batch(100, 6, 2, 27)
    assert_best(games, MctsAgent(simulations=1).act(games, np.random.default_rng(0)), least=20)


def test_more_simulations_play_better() -> None:
    from rolit_env.arena import play_rounds

    result = play_rounds(["mcts:simulations=200", "mcts:simulations=10"], 100, size=6, players=3)
    assert result.win_share[0] - result.interval[0] > 1 / 3


# Trees between moves.


def same_below(tree: Tree, node: int, other: Tree, twin: int) -> int:
    """Check that two nodes and all below them know the same, and return how many."""
    assert tree.visits[node] == other.visits[twin]
    assert tree.totals[node] == other.totals[twin]
    assert tree.counts[node] == other.counts[twin]
    pairs = list(zip(children(tree, node), children(other, twin), strict=True))
    for child, match in pairs:
        assert tree.cells[child] == other.cells[match]
        assert tree.priors[child] == other.priors[match]
    return 1 + sum(same_below(tree, child, other, match) for child, match in pairs)


@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4])
def test_what_is_below_a_position_is_kept(players: int, turns: int) -> None:
    games = random_batch(6, 6, players, 12)
    kept = search(games, 3000)
    nodes = list(range(6))
    for _ in range(turns):  # along the most visited moves
        nodes = [max(children(kept, node), key=lambda child: kept.visits[child]) for node in nodes]
        games.step([int(kept.cells[node]) for node in nodes])
    tree, _ = planted(games, kept=compact(kept))
    if turns > players:
        assert tree.visits[:6].tolist() == [0] * 6
        return
    # Other turns may lead to the same position; then the most visited place is the one.
    assert all(tree.visits[game] >= kept.visits[nodes[game]] for game in range(6))
    alike = [game for game in range(6) if tree.visits[game] == kept.visits[nodes[game]]]
    assert len(alike) > 2
    assert sum(same_below(tree, game, kept, nodes[game]) for game in alike) > 100
    mcts.search_by_playouts(6)(tree, mcts.make_leaves(6), players, 50, UCT, RANDOM)
    for game in range(6):
        assert_visits_add_up(tree, game, 0 if turns == 0 else 1)


def test_other_positions_start_anew() -> None:
    kept = search(random_batch(3, 6, 2, 12, seed=1), 500)
    for games in (random_batch(3, 6, 2, 12, seed=2), random_batch(3, 6, 2, 2, seed=1)):
        tree, _ = planted(games, kept=kept)
        assert tree.used[0] == 3
        assert tree.visits[:3].tolist() == [0, 0, 0]


def test_an_agent_goes_on_from_its_last_move(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, rng = MctsAgent(simulations=300), np.random.default_rng(0)
    planted_visits = []

    def spy(tree: Tree, *rest: Any) -> None:
        plant(tree, *rest)
        planted_visits.append(int(tree.visits[0]))

    monkeypatch.setattr(agent_module, "plant", spy)
    games = random_batch(1, 6, 3, 6)
    for _ in range(4):  # it plays all seats
        games.step(agent.act(games, rng))
    assert planted_visits[0] == 0
    assert min(planted_visits[1:]) > 20  # what the move that it chose had
    agent.act(random_batch(1, 6, 3, 6, seed=9), rng)
    agent.act(random_batch(2, 6, 3, 6), rng)
    agent.act(random_batch(2, 6, 2, 6), rng)
    assert planted_visits[4:] == [0, 0, 0]


def test_a_full_pool_bounds_memory() -> None:
    games = random_batch(4, 6, 3, 10)
    tree = search(games, 500, entries=300)
    assert 250 < tree.used[0] <= 300
    for game in range(4):
        assert root_moves(tree, game)[1].sum() == 500
    less, _ = planted(games, entries=100, kept=tree)
    assert less.used[0] <= 100
    assert less.visits[:4].tolist() == [500] * 4


def test_trees_that_take_too_much_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    games = random_batch(150, 6, 2, 10)

    def kept() -> list[Tree]:
        agent = MctsAgent(simulations=50)
        agent.act(games, np.random.default_rng(0))
        return agent._kept

    trees = kept()
    assert len(trees) == 3
    taken = sum(array.nbytes for tree in trees for array in tree[1:-2])
    for limit, number in ((taken, 3), (taken - 1, 0)):
        monkeypatch.setattr(agent_module, "TREE_BYTES", limit)
        assert len(kept()) == number


# The agent.


@ALL_VARIANTS
@pytest.mark.parametrize(
    "options",
    ["simulations=20", "simulations=20,playouts=graded", "simulations=20,playouts=none", "seconds=0.0001,exact=0,explore=1"],
)
def test_it_plays_whole_rounds(options: str, size: int, players: int) -> None:
    agent, rng = make_agent(f"mcts:{options}"), np.random.default_rng(0)
    games = GameBatch(5, size=size, players=players, seed=0)
    while not games.done:
        before = games.view()
        actions = agent.act(games, rng)
        assert actions.dtype == np.int64
        np.testing.assert_array_equal(games.view(), before)
        games.step(actions)
    with pytest.raises(RoundOverError):
        agent.act(games, rng)


def round_of(agent: Any, seed: int, games: int = 3) -> list[list[int]]:
    batch, rng = GameBatch(games, size=6, players=3, seed=0), np.random.default_rng(seed)
    actions = []
    while not batch.done:
        actions.append(agent.act(batch, rng).tolist())
        batch.step(actions[-1])
    return actions


@pytest.mark.parametrize("games", [1, 3, 70])
def test_all_chance_comes_from_the_generator(games: int) -> None:
    agent = MctsAgent(simulations=30)
    first = round_of(agent, 1, games)
    assert round_of(agent, 1, games) == first
    assert round_of(agent, 2, games) != first


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_copies_play_the_same_and_start_without_trees(duplicate: Any) -> None:
    agent = MctsAgent(simulations=30, explore=0.7, playouts="graded", exact=2)
    expected = round_of(agent, 1)
    twin = duplicate(agent)
    assert twin.name == agent.name
    assert not twin._kept
    assert round_of(twin, 1) == expected


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("mcts", "mcts:simulations=800"),
        ("mcts:seconds=0.5", "mcts:seconds=0.5"),
        ("mcts:exact=0,simulations=7,seconds=2,explore=0", "mcts:simulations=7,seconds=2.0,explore=0.0,exact=0"),
        ("mcts:playouts=graded", "mcts:simulations=800,playouts=graded"),
    ],
)
def test_the_name_builds_the_agent_again(description: str, name: str) -> None:
    agent = make_agent(description)
    assert agent.name == name
    assert make_agent(name).name == name


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ("simulations=0", "ints from 1"),
        ("simulations=-5", "ints from 1"),
        ("seconds=0", "numbers above 0"),
        ("seconds=-1", "numbers above 0"),
        ("seconds=nan", "numbers above 0"),
        ("seconds=inf", "numbers above 0"),
        ("explore=-1", "numbers from 0"),
        ("explore=nan", "numbers from 0"),
        ("explore=inf", "numbers from 0"),
        ("playouts=greedy", "random, graded, none"),
        ("exact=-1", "ints from 0 to 14"),
        ("exact=15", "ints from 0 to 14"),
        ("simulations=many", "type int"),
        ("temperature=0", "numbers above 0"),
        ("temperature=nan", "numbers above 0"),
        ("temperature=2", "only a policy whose network kernels know has one"),
        ("depth=4", "simulations, seconds, explore, playouts, policy, exact"),
    ],
)
def test_options_that_cannot_be_are_refused(options: str, allowed: str) -> None:
    with pytest.raises(AgentError, match=allowed):
        make_agent(f"mcts:{options}")


def test_seconds_count_for_each_game(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def tick() -> float:  # the first look at the clock is the start, each later one comes after a slice of simulations
        nonlocal now
        now += 1
        return now

    monkeypatch.setattr(agent_module.time, "monotonic", tick)
    for games in (1, 4):
        agent = MctsAgent(seconds=2.5, exact=0)
        agent.act(random_batch(games, 4, 2, 2), np.random.default_rng(0))
        slices = {1: 3, 4: 10}[games]
        assert agent._kept[0].visits[:games].tolist() == [slices * agent_module.SLICE // games] * games
    agent = MctsAgent(seconds=2.5, simulations=5, exact=0)
    agent.act(random_batch(1, 4, 2, 2), np.random.default_rng(0))
    assert agent._kept[0].visits[0] == 5


# With a policy.


@ALL_VARIANTS
def test_one_simulation_is_the_policys_move(size: int, players: int, tmp_path: Path) -> None:
    path = save_policy(tmp_path, size, players)
    agent, policy = MctsAgent(simulations=1, policy=str(path), exact=0), make_agent(str(path))
    rng = np.random.default_rng(0)
    games = GameBatch(5, size=size, players=players, seed=0)
    while not games.done:
        actions = agent.act(games, rng)
        assert actions.tolist() == policy.act(games, rng).tolist()
        games.step(actions)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_policy_gives_priors_and_values(players: int, tmp_path: Path) -> None:
    agent = MctsAgent(simulations=2, policy=str(save_policy(tmp_path, 6, players)))
    games = random_batch(3, 6, players, 10)
    agent.act(games, np.random.default_rng(0))
    tree = agent._kept[0]
    for game in range(3):
        cells, visits, totals = root_moves(tree, game)
        weights = np.exp(cells / 10)  # what the policy in the tests thinks
        np.testing.assert_allclose(tree.priors[list(children(tree, game))], weights / weights.sum(), rtol=1e-5)
        # The second simulation took the move of the highest prior; its mover is then the last but one of the values.
        best = int(cells.argmax())
        assert visits.tolist() == [int(at == best) for at in range(len(cells))]
        share = (1 + players / 10 * (players - 1)) / players
        assert totals[best] == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_endings_are_found_out_with_a_policy_that_knows_nothing(players: int, tmp_path: Path) -> None:
    path = save_policy(tmp_path, 6, players)
    for left in (1, 2, 4):
        games = random_batch(40, 6, players, 32 - left, seed=left)
        agent = MctsAgent(simulations=1500, policy=str(path), exact=0)
        assert_best(games, agent.act(games, np.random.default_rng(0)), least=2 if left > 1 else 0)


def test_all_leaves_are_evaluated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = MctsAgent(simulations=12, policy=str(save_policy(tmp_path, 6, 3)))
    assert agent.policy is not None
    asked = []
    evaluate = agent.policy.evaluate
    monkeypatch.setattr(agent.policy, "evaluate", lambda games: asked.append(len(games)) or evaluate(games))
    agent.act(random_batch(100, 6, 3, 10), np.random.default_rng(0))
    assert asked == [100] * 12


def test_policies_for_other_variants_and_missing_ones_are_refused(tmp_path: Path) -> None:
    path = save_policy(tmp_path, 6, 3)
    agent = make_agent(f"mcts:simulations=2,policy={path}")
    assert agent.name == f"mcts:simulations=2,policy={path}"
    with pytest.raises(VariantError, match="trained for"):
        agent.act(GameBatch(1, size=8, players=3), np.random.default_rng(0))
    with pytest.raises(ModelFileError, match="no policy file"):
        make_agent(f"mcts:policy={tmp_path / 'none.onnx'}")
    with pytest.raises(AgentError, match="none beside a policy"):
        make_agent(f"mcts:playouts=graded,policy={path}")
    expected = agent.act(random_batch(2, 6, 3, 5), np.random.default_rng(0)).tolist()
    twin = pickle.loads(pickle.dumps(agent))
    assert twin.act(random_batch(2, 6, 3, 5), np.random.default_rng(0)).tolist() == expected


# With a policy whose network kernels know.


@ALL_VARIANTS
def test_a_network_plays_whole_rounds(size: int, players: int, tmp_path: Path) -> None:
    path = save_afterstates(tmp_path, make_afterstates(size, players))
    agent = make_agent(f"mcts:simulations=12,policy={path},exact=0")
    assert make_agent(agent.name).name == agent.name
    games, rng = random_batch(70, size, players, 0), np.random.default_rng(0)
    while not games.done:
        before, twin = games.view(), pickle.loads(pickle.dumps(agent))
        actions = agent.act(games, rng)
        np.testing.assert_array_equal(games.view(), before)
        if games.ply == 5:
            np.testing.assert_array_equal(
                twin.act(games, np.random.default_rng(1)), make_agent(agent.name).act(games, np.random.default_rng(1))
            )
        games.step(actions)
    with pytest.raises(RoundOverError):
        agent.act(games, rng)


@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize("temperature", [1, 3])
def test_a_network_gives_priors_and_values(players: int, temperature: float, tmp_path: Path) -> None:
    network = make_afterstates(6, players)
    path = save_afterstates(tmp_path, network)
    options = "" if temperature == 3 else f",temperature={temperature}"
    agent = make_agent(f"mcts:simulations=1,policy={path}{options}")
    assert isinstance(agent, MctsAgent)
    games = random_batch(20, 6, players, 10)
    agent.act(games, np.random.default_rng(0))
    tree = agent._kept[0]
    logits, values = torch_answers(network, games)
    for game in range(20):
        cells, visits, totals = root_moves(tree, game)
        weights = np.exp((logits[game, cells] - logits[game].max()) / temperature)
        priors, worths = tree.priors[list(children(tree, game))], tree.worths[list(children(tree, game))]
        np.testing.assert_allclose(priors, weights / weights.sum(), rtol=1e-3)
        after = games[[game] * len(cells)]
        after.step(cells.astype(np.int64))
        shares = (1 + torch_answers(network, after)[1] * (players - 1)) / players  # by seat, the next mover's first
        if players == 2:
            np.testing.assert_allclose(worths, shares[:, 1], atol=1e-4)
        else:
            mover = (1 + values[game, 0] * (players - 1)) / players
            assert (priors * worths).sum() == pytest.approx(mover.clip(0, 1), abs=1e-4)
        # The simulation took the move that promises most, and brought back what its position is worth.
        best = int(visits.argmax())
        assert visits.sum() == 1
        # It had no visits to be curious about yet.
        assert worths[best] == worths.max()
        assert totals[best] == pytest.approx(shares[best, -1].clip(0, 1), abs=1e-4)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_network_s_visits_add_up(players: int, tmp_path: Path) -> None:
    agent = MctsAgent(simulations=300, policy=str(save_afterstates(tmp_path, make_afterstates(6, players))))
    games = random_batch(5, 6, players, 10)
    agent.act(games, np.random.default_rng(0))
    for game in range(5):
        assert root_moves(agent._kept[0], game)[1].sum() == 300
        assert_visits_add_up(agent._kept[0], game, 0)


@pytest.mark.parametrize(("size", "players"), [(4, 2), (6, 2), (6, 3), (6, 4)])
def test_endings_are_found_out_with_a_network_that_knows_nothing(size: int, players: int, tmp_path: Path) -> None:
    path = save_afterstates(tmp_path, make_afterstates(size, players))
    for left in (1, 2, 4, 7) if players == 2 else (1, 2, 4):
        games = random_batch(40, size, players, size * size - 4 - left, seed=left)
        agent = MctsAgent(simulations=1500, policy=str(path), exact=0, explore=0.5)
        assert_best(games, agent.act(games, np.random.default_rng(0)), least=2 if left > 1 else 0)


def test_leaves_near_the_end_are_solved(tmp_path: Path) -> None:
    path = save_afterstates(tmp_path, make_afterstates(6, 2))
    agent = MctsAgent(simulations=40, policy=str(path), exact=0)
    games = random_batch(30, 6, 2, 32 - mcts.SOLVED - 1, seed=1)
    agent.act(games, np.random.default_rng(0))
    seen = set()
    for game in range(30):
        cells, visits, totals = root_moves(agent._kept[0], game)
        for cell, count, total in zip(cells.tolist(), visits.tolist(), totals.tolist(), strict=True):
            after = games[[game]]
            after.step([cell])
            worth = -int(move_values(after).max()) if count else 0
            assert total == count * (0.5 + 0.5 * np.sign(worth))
            seen.add(np.sign(worth))
    assert seen == {-1, 0, 1}
