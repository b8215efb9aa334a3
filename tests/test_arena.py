"""The arena: every agent in every seat equally often, from the same openings, and intervals that mean what they say."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from rolit_env import arena
from rolit_env.agents import Agent, RandomAgent, make_agent
from rolit_env.arena import ArenaResult, play_rounds, seat_assignments
from rolit_env.batch import GameBatch
from rolit_env.errors import AgentError, OptionError, VariantError
from rolit_env.record import RoundRecord
from rolit_env.variant import COLORS, Variant
from tests.oracle import PLAYING, VARIANTS, Oracle

ALL_VARIANTS = pytest.mark.parametrize(("size", "players"), VARIANTS)


class LineAgent(Agent):
    """Plays the first, the last or the middle legal cell, so that the oracle can play the same rounds."""

    def __init__(self, name: str) -> None:
        self.name = name

    def choose(self, legal: list[int]) -> int:
        return legal[{"first": 0, "middle": len(legal) // 2, "last": -1}[self.name]]

    def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
        return np.array([self.choose(games.board(at).legal_moves) for at in range(len(games))])


class SpyAgent(RandomAgent):
    """Plays at random and keeps what it saw: the words and starters at its first turn of each round, and its seats."""

    def __init__(self, opening_turns: int, openings: list[Any], seats: Counter[tuple[str, int]], name: str) -> None:
        self.opening_turns, self.openings, self.seats, self.name = opening_turns, openings, seats, name

    def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
        if games.ply == self.opening_turns:
            self.openings.append((games.balls.tolist(), games.starters.tolist()))
        if games.ply in range(games.plies - games.variant.players, games.plies):
            self.seats[self.name, games.seat] += len(games)
        return super().act(games, rng)


def values_of(result: ArenaResult) -> dict[str, Any]:
    return result.to_dict()


# Seats.


@pytest.mark.parametrize("players", [2, 3, 4])
def test_every_agent_sits_in_every_seat_equally_often(players: int) -> None:
    for agents in range(1, players + 1):
        assignments = seat_assignments(agents, players)
        assert len(set(assignments)) == len(assignments)
        table = np.zeros((agents, players), int)
        for seats in assignments:
            assert Counter(seats) == {agent: 1 if agent < agents - 1 else players - agents + 1 for agent in range(agents)}
            for seat, agent in enumerate(seats):
                table[agent, seat] += 1
        assert (table == table[:, :1]).all()
    assert seat_assignments(players, players) == sorted(permutations(range(players)))
    assert seat_assignments(1, players) == [(0,) * players]


def test_one_against_three() -> None:
    assert seat_assignments(2, 4) == [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)]
    assert len(seat_assignments(3, 4)) == 12


@pytest.mark.parametrize(("agents", "players"), [(0, 2), (3, 2), (4, 3), (5, 4), (-1, 4)])
def test_numbers_of_agents_that_do_not_fit_are_refused(agents: int, players: int) -> None:
    with pytest.raises(OptionError, match=f"allowed are 1 to {players} agents"):
        seat_assignments(agents, players)


# Rounds.


@pytest.mark.parametrize(
    ("size", "players", "names"),
    [
        (8, 4, ["first", "last", "middle"]),
        (8, 4, ["middle", "first"]),
        (8, 3, ["first", "middle", "last"]),
        (6, 4, ["last"]),
        (6, 3, ["last", "first"]),
        (4, 2, ["first", "last"]),
    ],
)
def test_results_are_those_of_the_rounds_played_by_hand(size: int, players: int, names: list[str]) -> None:
    agents = [LineAgent(name) for name in names]
    starter = PLAYING[players][-1]
    assignments = seat_assignments(len(agents), players)
    shares: dict[tuple[int, int], list[float]] = {}
    balls: dict[int, list[int]] = {}
    tied = 0
    for seats in assignments:
        oracle = Oracle(size, players, starter)
        colors = oracle.order_seen_by(starter)[:players]
        while not oracle.over():
            legal = [row * size + column for row, column in oracle.legal()]
            mover = agents[seats[colors.index(oracle.to_move())]]
            oracle.play(*divmod(mover.choose(legal), size))
        leaders = oracle.leaders()
        tied += len(leaders) > 1
        for seat, agent in enumerate(seats):
            color = colors[seat]
            shares.setdefault((agent, seat), []).append((color in leaders) / len(leaders))
            balls.setdefault(agent, []).append(oracle.counts()[color])

    result = play_rounds(agents, 1, size=size, players=players, opening_turns=0, starter=starter)
    assert result.agents == tuple(names)
    assert (result.size, result.players, result.opening_turns, result.seed) == (size, players, 0, 0)
    assert (result.openings, result.rounds) == (1, len(assignments))
    for agent in range(len(agents)):
        by_seat = [float(np.mean(shares[agent, seat])) for seat in range(players)]
        assert result.by_seat[agent].tolist() == pytest.approx(by_seat)
        won = sum(sum(shares[agent, seat]) for seat in range(players))
        assert result.win_share[agent] == pytest.approx(won / len(assignments))
        assert result.balls[agent] == pytest.approx(np.mean(balls[agent]))
    assert result.tied == pytest.approx(tied / len(assignments))
    # A single opening has no spread; one agent alone wins whatever comes.
    assert result.interval.tolist() == [np.inf if len(agents) > 1 else 0] * len(agents)
    assert np.isinf(result.by_seat_interval).all()


@ALL_VARIANTS
def test_win_shares_sum_to_one(size: int, players: int) -> None:
    for count in range(1, players + 1):
        agents = [make_agent(name) for name in ("greedy", "random", "positional", "random")[:count]]
        result = play_rounds(agents, 50, size=size, players=players)
        held = [1] * (count - 1) + [players - count + 1]
        assert result.win_share.shape == result.interval.shape == result.par.shape == result.balls.shape == (count,)
        assert result.by_seat.shape == result.by_seat_interval.shape == (count, players)
        assert result.win_share.sum() == pytest.approx(1)
        assert result.par.tolist() == pytest.approx([seats / players for seats in held])
        # Seats are held equally often, so a win share is the mean over seats times the seats held.
        assert result.win_share.tolist() == pytest.approx(result.by_seat.mean(axis=1) * held)
        if players == 4:  # no neutral colours
            assert (result.balls * held).sum() == pytest.approx(size * size)


def test_tied_rounds_are_counted_once_and_shared() -> None:
    # Two random players on the smallest board tie often; by_seat of one agent against itself keeps every share.
    result = play_rounds([RandomAgent()], 400, size=4, players=2, seed=3)
    games = GameBatch(5_000, size=4, players=2, seed=4)
    rng = np.random.default_rng(4)
    while not games.done:
        games.step(games.random_actions(rng))
    often = float((games.win_shares().max(axis=1) < 1).mean())
    assert often > 0.03
    assert result.tied == pytest.approx(often, abs=4 * np.sqrt(often / 400))
    assert result.win_share.tolist() == [pytest.approx(1)]


def test_equal_agents_are_at_par_and_seats_are_not() -> None:
    result = play_rounds([RandomAgent(), RandomAgent()], 12_000, players=4, opening_turns=0, seed=1)
    # 3.3 standard errors, which chance exceeds once in a thousand; the 95 % interval would fail with one seed in twenty.
    assert np.abs(result.win_share - [0.25, 0.75]).max() < 3.3 * result.interval.max() / 1.96
    assert result.interval.max() < 0.01
    known = [0.14, 0.21, 0.28, 0.37]
    for by_seat in result.by_seat:
        assert by_seat.tolist() == pytest.approx(known, abs=0.025)
    assert result.tied == pytest.approx(0.057, abs=0.01)


@pytest.mark.parametrize(("players", "known", "tied"), [(2, [0.41, 0.59], 0.050), (3, [0.23, 0.33, 0.44], 0.042)])
def test_the_last_seat_wins_most(players: int, known: list[float], tied: float) -> None:
    result = play_rounds([RandomAgent()], 6_000, players=players, opening_turns=0, starter="red")
    assert result.by_seat[0].tolist() == pytest.approx(known, abs=0.025)
    assert result.tied == pytest.approx(tied, abs=0.01)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_better_agents_win_more(players: int) -> None:
    result = play_rounds([make_agent("positional"), make_agent("random")], 600, players=players, seed=2)
    assert result.win_share[0] - result.interval[0] > result.par[0] * 1.3
    swapped = play_rounds([make_agent("random"), make_agent("positional")], 600, players=players, seed=2)
    assert swapped.win_share[0] + swapped.interval[0] < swapped.par[0]


@pytest.mark.parametrize(("players", "names"), [(4, "abcd"), (4, "ab"), (3, "abc"), (2, "ab")])
@pytest.mark.parametrize("opening_turns", [0, 5])
def test_every_assignment_plays_the_same_openings(players: int, names: str, opening_turns: int) -> None:
    openings: list[Any] = []
    seats: Counter[tuple[str, int]] = Counter()
    agents = [SpyAgent(opening_turns, openings, seats, name) for name in names]
    assignments = len(seat_assignments(len(names), players))
    result = play_rounds(agents, 30 * assignments, size=6, players=players, opening_turns=opening_turns)
    assert result.openings == 30
    assert result.rounds == 30 * assignments
    assert len(openings) == assignments
    assert all(opening == openings[0] for opening in openings)
    words, starters = openings[0]
    assert len({tuple(game) for game in zip(*words, strict=True)}) > (20 if opening_turns else 1)  # and not all one opening
    assert {COLORS[color] for color in starters} == set(PLAYING[players])
    for name in names:
        assert len({seats[name, seat] for seat in range(players)}) == 1
    assert sum(seats.values()) == result.rounds * players


def test_openings_differ_between_chunks_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "OPENINGS_AT_ONCE", 8)
    seen = []
    for seed in (1, 2):
        openings: list[Any] = []
        agent = SpyAgent(6, openings, Counter(), "spy")
        result = play_rounds([agent], 20, opening_turns=6, seed=seed)
        assert result.rounds == result.openings == 20
        assert [len(starters) for _, starters in openings] == [8, 8, 4]
        seen += [tuple(game) for words, _ in openings for game in zip(*words, strict=True)]
    assert len(set(seen)) >= 39


@pytest.mark.parametrize(("rounds", "openings"), [(1, 1), (12, 1), (13, 2), (24, 2), (25, 3)])
def test_rounds_are_made_up_to_whole_openings(rounds: int, openings: int) -> None:
    result = play_rounds([RandomAgent(), RandomAgent(), RandomAgent()], rounds, size=6, players=4)
    assert (result.openings, result.rounds) == (openings, 12 * openings)


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    agents = [make_agent("greedy"), make_agent("random")]
    first, again, other = (values_of(play_rounds(agents, 200, players=3, seed=seed)) for seed in (5, 5, 6))
    assert first == again
    assert first["by_seat"] != other["by_seat"]
    assert first["balls"] != other["balls"]


def test_rounds_of_full_openings_are_random() -> None:
    # All turns belong to the opening, so the agents never move and every assignment sees the same end.
    result = play_rounds([LineAgent("first"), LineAgent("last")], 100, size=4, players=2, opening_turns=12)
    assert result.by_seat[0].tolist() == result.by_seat[1].tolist()
    assert result.win_share.tolist() == [0.5, 0.5]
    assert result.interval == pytest.approx([3 / 50] * 2)  # all openings ended alike, which need not be so for ever


def test_progress_is_told_and_reaches_the_end() -> None:
    told: list[tuple[int, int]] = []
    result = play_rounds(
        [RandomAgent(), RandomAgent()], 5_000, size=4, players=2, progress=lambda played, total: told.append((played, total))
    )
    assert result.rounds == 5_000
    assert len(told) > 3
    assert told == sorted(told)
    assert {total for _, total in told} == {5_000}
    assert told[-1] == (5_000, 5_000)


class Clumsy(RandomAgent):
    """Fails in its third turn, by an error or an illegal action."""

    def __init__(self, name: str) -> None:
        self.name = name

    def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
        if games.ply < 10:
            return super().act(games, rng)
        if self.name == "clumsy":
            raise KeyError("oops")
        return np.full(len(games), 36)


def test_agents_that_fail_are_named() -> None:
    with pytest.raises(AgentError, match=r"^clumsy failed with KeyError: 'oops' \(line \d+ of .*test_arena.py\)$"):
        play_rounds(["random", Clumsy("clumsy")], 10)
    with pytest.raises(AgentError, match=r"^cheat failed: .*illegal in games 0"):
        play_rounds([Clumsy("cheat"), "random"], 10)


def test_few_openings_and_rounds_that_all_end_alike_have_wide_intervals() -> None:
    kept: list[RoundRecord] = []
    two = play_rounds(["greedy", "random"], 4, size=6, seed=1, record=kept.extend)
    shares = [sum(record.leaders == (color,) for color, name in record.agents.items() if name == "greedy") for record in kept]
    first, second = (shares[0] + shares[2]) / 2, (shares[1] + shares[3]) / 2  # seating after seating
    assert first != second
    assert two.interval[0] == pytest.approx(12.706 * abs(first - second) / 2, rel=1e-3)  # Student's t for one degree
    always = play_rounds(["alphabeta:depth=4", "random"], 40, size=8, seed=0)
    assert always.win_share.tolist() == [1, 0]
    assert always.interval == pytest.approx([3 / 20] * 2)
    even = play_rounds(["alphabeta:depth=12", "alphabeta:depth=12"], 4, size=4, opening_turns=1, starter="red")
    assert even.win_share.tolist() == [0.5, 0.5]
    assert even.interval == pytest.approx([1, 1])  # of two openings
    alone = play_rounds(["random"], 40, size=4)
    assert (alone.win_share.tolist(), alone.interval.tolist()) == ([1], [0])


@pytest.mark.parametrize(("players", "names"), [(2, ["greedy", "random"]), (3, ["greedy", "positional", "random"])])
def test_rounds_are_recorded_with_who_sat_where(players: int, names: list[str]) -> None:
    kept: list[RoundRecord] = []
    result = play_rounds(names, 60, size=6, players=players, seed=3, record=kept.extend)
    assert len(kept) == result.rounds == 60
    won = dict.fromkeys(names, 0.0)
    for record in kept:
        record.verify()
        assert record.is_finished
        assert (record.size, record.opening_turns, record.seed) == (6, 4, 3)
        for color in record.leaders:
            won[record.agents[color]] += 1 / len(record.leaders) / len(kept)
    assert [won[name] for name in names] == pytest.approx(result.win_share.tolist())


def test_a_result_is_ready_for_json() -> None:
    result = play_rounds([make_agent("greedy"), make_agent("random")], 40, size=6, players=3)
    content = json.loads(json.dumps(result.to_dict()))
    assert content["agents"] == ["greedy", "random"]
    assert content["win_share"] == result.win_share.tolist()
    assert content["by_seat"] == result.by_seat.tolist()
    assert content["rounds"] == result.rounds


# Intervals.


@pytest.mark.parametrize(("size", "players", "agents"), [(4, 2, 2), (6, 4, 2), (6, 3, 3)])
def test_intervals_cover(size: int, players: int, agents: int) -> None:
    runs, openings = 300, 40
    inside, errors, widths = 0, [], []
    for seed in range(runs):
        assignments = len(seat_assignments(agents, players))
        result = play_rounds(
            [RandomAgent() for _ in range(agents)],
            openings * assignments,
            size=size,
            players=players,
            seed=seed,
            opening_turns=0,
        )
        error = abs(result.win_share[0] - 1 / players)
        inside += error <= result.interval[0]
        errors.append(error)
        widths.append(result.interval[0])
    # 95 % of 300 runs is 285, give or take 4 (one standard deviation).
    assert 0.91 <= inside / runs <= 0.99
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.mean(widths) / 1.96, rel=0.15)


def test_intervals_by_seat_cover() -> None:
    runs = 150
    known = play_rounds([RandomAgent()], 20_000, size=4, players=2, opening_turns=0, seed=99).by_seat[0]
    inside = np.zeros((2, 2))
    for seed in range(runs):
        result = play_rounds([RandomAgent(), RandomAgent()], 100, size=4, players=2, opening_turns=0, seed=seed)
        inside += np.abs(result.by_seat - known) <= result.by_seat_interval
    assert (inside / runs).min() >= 0.88
    assert (inside / runs).mean() <= 0.99


# What it refuses.


class FourPlayersOnly(RandomAgent):
    def check_variant(self, variant: Variant) -> None:
        if variant.players != 4:
            raise VariantError("four players only")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds=0 is no number of rounds; allowed are ints from 1 up"),
        ({"rounds": -5}, "allowed are ints from 1 up"),
        ({"rounds": 1.5}, "allowed are ints from 1 up"),
        ({"seed": -1}, "seed=-1 is no seed; allowed are ints from 0 up"),
        ({"opening_turns": -1}, "has 0 to 60 turns"),
        ({"opening_turns": 61}, "has 0 to 60 turns"),
        ({"size": 4, "opening_turns": 13}, "has 0 to 12 turns"),
        ({"starter": "yellow"}, "allowed are red, green"),
        ({"starter": "purple"}, "allowed are red, green"),
        ({"agents": []}, "allowed are 1 to 2 agents"),
        ({"agents": [RandomAgent()] * 3}, "allowed are 1 to 2 agents"),
        ({"players": 4, "agents": [RandomAgent()] * 5}, "allowed are 1 to 4 agents"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        play_rounds(**{"agents": [RandomAgent(), RandomAgent()], "rounds": 10} | options)


@pytest.mark.parametrize(("size", "players"), [(4, 4), (5, 2), (8, 5)])
def test_variants_that_do_not_exist_are_refused(size: int, players: int) -> None:
    with pytest.raises(VariantError, match="allowed are size 8 or 6"):
        play_rounds([RandomAgent()], 10, size=size, players=players)


def test_agents_that_can_not_play_the_variant_are_refused_before_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomAgent, "act", None)
    for agents in ([RandomAgent(), FourPlayersOnly()], [FourPlayersOnly(), RandomAgent()]):
        with pytest.raises(VariantError, match="four players only"):
            play_rounds(agents, 10, players=3)


def test_descriptions_are_agents_too() -> None:
    built = play_rounds([make_agent("positional"), make_agent("greedy")], 100, size=6)
    described = play_rounds(["positional", "greedy"], 100, size=6)
    assert described.to_dict() == built.to_dict()
    with pytest.raises(AgentError, match="there is no agent 'gredy'"):
        play_rounds(["gredy"], 10)
