"""Ratings and standings: figures that can be worked out by hand, intervals that hold the truth, and a planted order."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from rolit_env import ratings
from rolit_env.errors import ResultsError
from rolit_env.intervals import student
from rolit_env.ratings import fit, openskill, rate
from rolit_env.standings import Standings, make_standings
from rolit_env.tournament import Settings, load_settings, play_tournament, read_chunks
from tests.recovery import recover

PAIR = np.array([[0, 1]])


def strengths(points: np.ndarray) -> np.ndarray:
    return 10 ** (np.asarray(points) / 400)


# Luce's model.


@pytest.mark.parametrize("share", [0.5, 0.6, 0.9, 0.01])
def test_of_two_the_odds_are_the_rating(share: float) -> None:
    rounds = 1e6
    won = np.array([[[share * rounds, (1 - share) * rounds]]])
    rating = fit(PAIR, won, np.array([rounds]), 2, {1: 100})[0]
    assert rating[1] == 100
    assert rating[0] - 100 == pytest.approx(400 * np.log10(share / (1 - share)), abs=0.01)


@pytest.mark.parametrize(("agents", "players"), [(5, 2), (5, 3), (5, 4), (4, 4)])
def test_ratings_are_those_that_rounds_were_made_of(agents: int, players: int) -> None:
    truth = np.array([0.0, 150, -80, 420, 700])[:agents]
    members = np.array(list(combinations(range(agents), players)))
    chance = strengths(truth)[members]
    chance /= chance.sum(axis=1, keepdims=True)
    found = fit(members, 1e7 * chance[None], np.array([1e7]), agents, {0: 0})[0]
    assert found == pytest.approx(truth, abs=0.01)
    shifted = fit(members, 1e7 * chance[None], np.array([1e7]), agents, {3: 1000})[0]
    assert shifted == pytest.approx(truth - truth[3] + 1000, abs=0.01)


def test_at_the_top_everybody_won_as_often_as_expected() -> None:
    # Results that fit no strengths: a circle with different numbers.
    members = np.array([[0, 1], [1, 2], [0, 2]])
    won = np.array([[[800.0, 200], [700, 300], [350, 650]]])
    rating = fit(members, won, np.array([1000.0]), 3, {0: 0})[0]
    chance = strengths(rating)[members]
    chance /= chance.sum(axis=1, keepdims=True)
    for agent in range(3):
        assert (1000 * chance)[members == agent].sum() == pytest.approx(won[0][members == agent].sum(), abs=0.2)


def test_several_anchors_keep_their_ratings() -> None:
    members = np.array([[0, 2], [1, 2]])
    won = np.array([[[250.0, 750], [640, 360]]])
    rating = fit(members, won, np.array([1000.0]), 4, {0: 0, 1: 300})[0]
    assert rating[:2].tolist() == [0, 300]
    expected = sum(1000 / (1 + strengths(anchor - rating[2])) for anchor in (0, 300))
    assert expected == pytest.approx(750 + 360, abs=0.2)
    assert np.isnan(rating[3])  # it played nobody


@pytest.mark.parametrize("players", [2, 3])
def test_who_never_lost_has_a_rating_and_no_upper_end(players: int) -> None:
    members = np.array([range(players)])
    won = np.zeros((60, 1, players))
    won[:, 0, 0] = players
    found = rate(members, won, np.full(60, float(players)), players, dict.fromkeys(range(1, players), 0))
    assert np.isposinf(found.high[0])
    assert found.low[0] == pytest.approx(400 * np.log10((1 - 3 / 60) / (3 / 60) * (players - 1)), abs=2)
    assert found.low[0] < found.rating[0] < 10_000
    won = np.roll(won, 1, axis=2)
    lost = rate(members, won, np.full(60, float(players)), players, dict.fromkeys(range(1, players), 0))
    assert np.isneginf(lost.low[0])
    assert lost.rating[0] < lost.high[0] < 0


def test_some_that_never_lost_to_the_rest_have_no_upper_end_together() -> None:
    # Two that beat the anchor always, and each other by turns, once in a circle of three as well: how far above is not known.
    members = np.array([[0, 1], [0, 2], [1, 2]])
    won = np.tile([[[0.0, 2], [0, 2], [1, 1]]], (60, 1, 1))
    found = rate(members, won, np.full(60, 2.0), 3, {0: 0})
    assert np.isposinf(found.high[1:]).all()
    # They would have lost 3 of 60 openings to it.
    assert found.low[1:] == pytest.approx(400 * np.log10(57 / 3), abs=2)
    turned = rate(members, np.tile([[[2.0, 0], [2, 0], [1, 1]]], (60, 1, 1)), np.full(60, 2.0), 3, {0: 0})
    assert np.isneginf(turned.low[1:]).all()
    assert turned.high[1:] == pytest.approx(-400 * np.log10(57 / 3), abs=2)
    # Half a round won of either ties both down.
    won[0, 0] = 0.5, 1.5
    found = rate(members, won, np.full(60, 2.0), 3, {0: 0})
    assert np.isfinite(found.high).all()
    assert np.isfinite(found.low).all()


def test_one_opening_tells_nothing_about_the_spread() -> None:
    found = rate(PAIR, np.array([[[1.0, 1]]]), np.array([2.0]), 2, {0: 0})
    assert (found.low[0], found.high[0]) == (0, 0)
    assert (found.low[1], found.high[1]) == (-np.inf, np.inf)


def test_openings_that_all_ended_alike_are_no_certainty() -> None:
    found = rate(PAIR, np.tile([[[0.5, 1.5]]], (60, 1, 1)), np.full(60, 2.0), 2, {0: 0})
    assert found.rating[1] == pytest.approx(400 * np.log10(3), abs=1)
    # 3 of 60 openings could have ended otherwise: as much of what it won, or of what it lost.
    assert found.low[1] == pytest.approx(400 * np.log10(1.425 / 0.575), abs=1)
    assert found.high[1] == pytest.approx(400 * np.log10(1.525 / 0.475), abs=1)
    assert (found.low[0], found.high[0]) == (0, 0)


@pytest.mark.parametrize("openings", [8, 30, 200])
def test_intervals_hold_the_truth_also_where_rounds_of_an_opening_hang_together(openings: int) -> None:
    truth, runs, inside = 120.0, 400, 0
    rng = np.random.default_rng(openings)
    share = strengths(truth) / (1 + strengths(truth))
    for seed in range(runs):
        # Both rounds of half of the openings end alike.
        drawn = rng.random((openings, 2)) < share
        alike = rng.random(openings) < 0.5
        drawn[alike, 1] = drawn[alike, 0]
        wins = drawn.sum(axis=1).astype(float)
        won = np.stack([2 - wins, wins], axis=1)[:, None]
        found = rate(PAIR, won, np.full(openings, 2.0), 2, {0: 0}, seed)
        inside += found.low[1] <= truth <= found.high[1]
    assert 0.91 <= inside / runs <= 0.99


def test_students_t_is_that_of_the_tables() -> None:
    for freedom, point in {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980}.items():
        assert student(freedom) == pytest.approx(point, abs=0.004)


# OpenSkill.


def test_openskill_ranks_and_is_anchored() -> None:
    rng = np.random.default_rng(0)
    strong, rounds = np.array([0.0, 4, 8, 12]), []
    for _ in range(600):
        members = rng.permutation(4)[:3]
        rounds.append((members, np.round(20 + strong[members] + rng.normal(0, 8, 3)).astype(int)))
    skills = openskill(rounds, 4, 1, 50.0)
    assert skills.rounds == 600
    assert (np.diff(skills.mu) > 0).all()
    assert (np.diff(skills.rating) > 0).all()
    assert skills.rating[1] == 50
    assert (skills.sigma < 3).all()
    assert openskill(rounds, 4, 1, 50.0).mu.tolist() == skills.mu.tolist()
    ties = openskill([(np.array([0, 1]), np.array([32, 32]))] * 20, 2, 0, 0.0)
    assert ties.rating.tolist() == pytest.approx([0, 0], abs=1e-9)


# Standings.


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("three")
    agents = {"chance": "random", "many": "greedy", "place": "positional", "twin": "random"}
    play_tournament(Settings(agents, 26, size=6, players=3, openings_at_once=5), folder)
    return folder


def test_standings_are_those_of_a_naive_count(three: Path) -> None:
    settings, standings = load_settings(three), make_standings(three)
    wins = {(agent, seat): [] for agent in range(4) for seat in range(3)}
    openings: dict[tuple[int, int], float] = {}
    ahead: dict[tuple[int, int], list[float]] = {(a, b): [] for a in range(4) for b in range(4)}
    margins, balls = [[] for _ in range(4)], [[] for _ in range(4)]
    tied = rounds = 0
    for chunk in read_chunks(three, settings):
        members = settings.groups[chunk.group]
        for seats, table in zip(settings.assignments, chunk.balls.tolist(), strict=True):
            for at, counts in enumerate(table):
                leaders = [seat for seat in range(3) if counts[seat] == max(counts)]
                tied, rounds = tied + (len(leaders) > 1), rounds + 1
                for seat, own in enumerate(counts):
                    agent = members[seats[seat]]
                    part = (seat in leaders) / len(leaders)
                    wins[agent, seat].append(part)
                    opening = chunk.number * 5 + at
                    openings[agent, opening] = openings.get((agent, opening), 0) + part
                    balls[agent].append(own)
                    margins[agent].append(own - max(counts[other] for other in range(3) if other != seat))
                    for other in range(3):
                        if other != seat:
                            more = (own > counts[other]) + (own == counts[other]) / 2
                            ahead[agent, members[seats[other]]].append(more)
    assert standings.rounds == rounds == settings.rounds == 26 * 6 * 4
    assert standings.openings == 26
    assert standings.tied == pytest.approx(tied / rounds)
    for agent in range(4):
        every = [part for seat in range(3) for part in wins[agent, seat]]
        assert standings.win_share[agent] == pytest.approx(np.mean(every))
        assert standings.by_seat[agent] == pytest.approx([np.mean(wins[agent, seat]) for seat in range(3)])
        by_opening = [openings[agent, opening] / 18 for opening in range(26)]
        assert standings.interval[agent] == pytest.approx(2.0595 * np.std(by_opening, ddof=1) / np.sqrt(26), rel=1e-3)
        assert standings.balls[agent] == pytest.approx(np.mean(balls[agent]))
        assert standings.margins[agent].tolist() == np.bincount(np.array(margins[agent]) + 36, minlength=73).tolist()
        assert np.isnan(standings.ahead[agent, agent])
        for other in set(range(4)) - {agent}:
            assert standings.ahead[agent, other] == pytest.approx(np.mean(ahead[agent, other]))
    assert standings.anchors == {0: 0.0}
    assert standings.order[0] == 2


def test_an_unfinished_tournament_counts_what_all_have_played(three: Path, tmp_path: Path) -> None:
    lines = (three / "results.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "settings.json").write_bytes((three / "settings.json").read_bytes())
    (tmp_path / "results.jsonl").write_bytes(b"".join([*lines[8:12], lines[0], *lines[4:8], *lines[13:]]))
    standings = make_standings(tmp_path)
    assert standings.openings == 5 + 5 + 5 + 1
    assert standings.skills
    assert standings.skills.rounds == standings.rounds == 16 * 24
    assert np.isnan(standings.milliseconds).all()
    (tmp_path / "results.jsonl").write_bytes(b"".join(lines[:3]))
    with pytest.raises(ResultsError, match="no openings yet that all 4 groups have played"):
        make_standings(tmp_path)


def test_blocks_change_no_mean(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make_standings(three)
    monkeypatch.setattr("rolit_env.standings.BLOCKS", 7)
    monkeypatch.setattr("rolit_env.standings.FEWEST", 7)
    few = make_standings(three)
    assert few.win_share == pytest.approx(one.win_share)
    assert few.by_seat == pytest.approx(one.by_seat)
    assert few.ratings.rating == pytest.approx(one.ratings.rating, abs=1e-6)
    assert (few.interval != one.interval).any()
    assert few.interval == pytest.approx(one.interval, rel=1)


def standings_of(wins: dict[tuple[int, int], int], folder: Path) -> Standings:
    """Return standings of three agents whose pairs won so many of 200 rounds each, all with 10 balls to 6."""
    settings = Settings(dict.fromkeys("abc", "random"), 100, size=4, openings_at_once=100)
    play_tournament(settings, folder)
    lines = []
    for chunk in read_chunks(folder, settings):
        first = wins[settings.groups[chunk.group]]
        won = first > np.arange(200).reshape(100, 2).T  # [assignments, openings]: of the first member
        for at, seats in enumerate(settings.assignments):
            mine = np.where(won[at], 10, 6)
            chunk_balls = np.stack([mine, 16 - mine], axis=1)[:, list(seats)]
            lines.append(chunk_balls)
        balls = np.array(lines[-2:], np.uint8)
        (folder / f"{chunk.group}").write_text(type(chunk)(0, chunk.group, balls).line(settings) + "\n")
    (folder / "results.jsonl").write_text("".join((folder / f"{group}").read_text() for group in range(3)))
    return make_standings(folder)


def test_all_rounds_alike_are_no_certainty(tmp_path: Path) -> None:
    standings = standings_of({(0, 1): 200, (1, 2): 150, (0, 2): 180}, tmp_path)
    assert (standings.ahead[0, 1], standings.ahead[1, 0]) == (1, 0)
    assert standings.ahead_interval[0, 1] == standings.ahead_interval[1, 0] == 3 / 100


def test_circles_and_upsets_are_found(tmp_path: Path) -> None:
    circle = standings_of({(0, 1): 140, (1, 2): 150, (0, 2): 50}, tmp_path / "circle")
    assert circle.ahead[0].tolist()[1:] == [0.7, 0.25]
    assert circle.cycles == [(0, 1, 2)]
    assert len(circle.upsets) == 1
    line = standings_of({(0, 1): 140, (1, 2): 150, (0, 2): 180}, tmp_path / "line")
    assert line.cycles == line.upsets == []
    assert line.order == [0, 1, 2]
    close = standings_of({(0, 1): 101, (1, 2): 101, (0, 2): 99}, tmp_path / "close")
    assert close.cycles == close.upsets == []


# A planted order; `python -m tests.recovery` asks more.


def test_a_planted_order_is_recovered_with_intervals_that_hold_the_truth() -> None:
    inside, ordered, truth = recover(40, 100, 20_000, 1, size=4, players=2)
    assert (np.diff(truth) > 20).all()
    assert ordered.mean() >= 0.95
    assert inside.shape == (40, 3)
    assert inside.mean() >= 0.9
    assert inside.mean() < 1  # intervals that hold everything would say nothing


def test_resamples_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    wins = rng.binomial(2, 0.6, 100).astype(float)
    won = np.stack([wins, 2 - wins], axis=1)[:, None]
    widths = [
        np.diff([found.low[0], found.high[0]])[0]
        for found in (rate(PAIR, won, np.full(100, 2.0), 2, {1: 0}, seed) for seed in range(10))
    ]
    monkeypatch.setattr(ratings, "RESAMPLES", 20_000)
    found = rate(PAIR, won, np.full(100, 2.0), 2, {1: 0})
    assert widths == pytest.approx([found.high[0] - found.low[0]] * 10, rel=0.25)
