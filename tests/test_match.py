"""Matches: seats go round, rounds and points decide, and whoever is out of time forfeits the turn to chance."""

import itertools
import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rolit_env import cli, make_agent
from rolit_env.agents import Agent, GreedyAgent, RandomAgent
from rolit_env.board import Board
from rolit_env.errors import AgentError, OptionError, RecordError, RolitError, RoundNotOverError, RoundOverError, VariantError
from rolit_env.match import Match, rotation
from rolit_env.record import MatchRecord, RoundRecord, read_records
from rolit_env.variant import COLORS, all_variants


class Blocked(Agent):
    """Answers nothing until it is let go, and counts how often it is asked."""

    name = "blocked"

    def __init__(self):
        self.free = threading.Event()
        self.draws = 0
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0

    def act(self, games, rng):
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        rng.random(self.draws)
        self.free.wait(timeout=60)
        self.at_once -= 1
        return games.random_actions(rng)


@pytest.fixture
def blocked(monkeypatch):
    monkeypatch.setattr("rolit_env.match.WARM_UP_SECONDS", 0.01)
    agent = Blocked()
    yield agent
    agent.free.set()


class Sneaky(GreedyAgent):
    """Says that it needed long, by a clock that jumps while it thinks."""

    name = "sneaky"

    def __init__(self, clock):
        self.clock = clock

    def act(self, games, rng):
        self.clock[0] += 10
        return super().act(games, rng)


class Failing(RandomAgent):
    name = "failing"

    def act(self, games, rng):
        if games.ply >= 4:
            raise RuntimeError("out of ideas")
        return super().act(games, rng)


def finished(counts, players=2, size=4, starter="red", agents=("a", "b")):
    """Return the record of a round that ends with these balls by colour, played or not."""
    names = dict(zip(Board(size, players).variant.colors, agents, strict=True))
    moves = tuple(itertools.islice((f"{column}{row}" for row in range(1, 9) for column in "abcdefgh"[:size]), size * size - 4))
    balls = dict.fromkeys(COLORS, 0) | counts
    return RoundRecord(size=size, players=players, agents=names, starter=starter, moves=moves, counts=balls)


def match_of(*counts):
    """Return the record of a match for two on 4x4 whose rounds, red always moving first, end with these balls of a and b."""
    rounds = [finished({"red": red, "green": green}) for red, green in counts]
    return MatchRecord(
        agents=("a", "b"), rounds=tuple(rounds), seats=((0, 1),) * len(rounds), planned=len(rounds), program=None
    )


# Who has won


@pytest.mark.parametrize(
    ("counts", "won", "points", "winners"),
    [
        ([(10, 6)], (1, 0), (10, 6), (0,)),
        ([(9, 7), (9, 7), (0, 16)], (2, 1), (18, 30), (0,)),  # rounds count before balls
        ([(10, 6), (7, 9)], (1, 1), (17, 15), (0,)),  # as many rounds: the balls decide
        ([(10, 6), (6, 10)], (1, 1), (16, 16), (0, 1)),  # as many of both: drawn
        ([(8, 8)], (1, 1), (8, 8), (0, 1)),  # both leaders of a round are credited with it
        ([(8, 8), (3, 13)], (1, 2), (11, 21), (1,)),
    ],
)
def test_most_rounds_win_then_most_balls(counts, won, points, winners):
    record = match_of(*counts)
    assert record.won == won
    assert record.points == points
    assert record.winners == winners


def test_neutral_balls_count_for_nobody():
    record = finished({"red": 3, "green": 2, "blue": 11})
    assert record.leaders == ("red",)
    assert match_of((3, 2)).won == (1, 0)


def test_balls_go_to_whoever_sat_there():
    swapped = finished({"red": 12, "green": 4}, agents=("b", "a"))
    record = MatchRecord(
        agents=("a", "b"), rounds=(finished({"red": 10, "green": 6}), swapped), seats=((0, 1), (1, 0)), planned=2
    )
    assert record.balls == ((10, 6), (4, 12))
    assert record.points == (14, 18)
    with pytest.raises(RecordError, match="round 2: by the seats red is agent 1, 'a'"):
        replace(record, seats=((0, 1), (0, 1)))


# Seats and order


@pytest.mark.parametrize("players", [2, 3, 4])
def test_seats_and_order_rotate_so_that_chances_are_equal(players):
    every = list(itertools.permutations(range(players)))
    rounds = rotation(players)
    assert sorted(rounds) == every
    for first in range(0, len(every), players):  # after each P rounds everybody has had each seat
        for seat in range(players):
            assert {order[seat] for order in rounds[first : first + players]} == set(range(players))


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_a_match_seats_its_agents_in_turn_and_verifies(chosen):
    agents = [RandomAgent() for _ in range(chosen.players)]
    for number, agent in enumerate(agents):
        agent.name = f"player {number}"
    match = Match(agents, size=chosen.size, rounds=chosen.players, seed=3)
    seen = []
    record = match.play(lambda match: seen.append(len(match.rounds)))
    assert seen == list(range(1, chosen.players + 1))
    assert match.is_over
    assert record.is_finished
    record.verify()
    for number, played in enumerate(record.rounds):
        assert [played.agents[color] for color in played.order] == [
            f"player {(number + seat) % chosen.players}" for seat in range(chosen.players)
        ]
        assert len(played.seconds) == chosen.plies
        assert played.limit is None


def test_a_ball_is_rolled_for_the_starter():
    record = Match(["random"] * 3, size=6, rounds=60, seed=0).play()
    starters = [played.starter for played in record.rounds]
    assert all(starters.count(color) > 8 for color in ("red", "yellow", "green"))  # of 60; 20 are expected


def test_the_same_seed_gives_the_same_match_with_a_limit_or_without():
    def moves(**settings):
        return [played.moves for played in Match(["random", "greedy"], size=4, **settings).play().rounds]

    assert moves(seed=5) == moves(seed=5) == moves(seed=5, seconds=600.0)
    assert moves(seed=5) != moves(seed=6)
    assert moves(seed=5, rounds=6)[:2] == moves(seed=5)


def test_rounds_come_one_by_one():
    match = Match(["random", "random"], size=4)
    with pytest.raises(RoundNotOverError, match="play one first"):
        _ = match.record
    first = match.play_round()
    assert match.rounds == (first,)
    assert not match.record.is_finished
    assert match.play().rounds[0] == first
    with pytest.raises(RoundOverError, match="all 2 rounds"):
        match.play_round()
    assert match.play() == match.record


@pytest.mark.parametrize(
    ("agents", "settings", "error", "complaint"),
    [
        (["random"], {}, OptionError, "1 can't play a match"),
        (["random"] * 5, {}, OptionError, "5 can't play a match"),
        (["random"] * 3, {"size": 4}, VariantError, "size=4 with players=3"),
        (["brs", "random"], {}, VariantError, "three and four players"),
        (["random"] * 2, {"rounds": 0}, OptionError, "rounds=0"),
        (["random"] * 2, {"rounds": 1.5}, OptionError, r"rounds=1\.5"),
        (["random"] * 2, {"seconds": 0}, OptionError, "seconds=0"),
        (["random"] * 2, {"seconds": float("nan")}, OptionError, "seconds=nan"),
        (["random"] * 2, {"seconds": 1e9}, OptionError, "seconds=10"),
        (["random"] * 2, {"seed": -1}, RecordError, "no seed"),
        (["random"] * 2, {"seed": 10**100}, RecordError, "no seed"),
    ],
)
def test_what_is_no_match_is_refused(agents, settings, error, complaint):
    with pytest.raises(error, match=complaint):
        Match(agents, **settings)


def test_an_agent_whose_name_fits_no_record_is_refused_before_any_round():
    agent = make_agent("random")
    agent.name = "two\nlines"
    with pytest.raises(RecordError, match="is no name"):
        Match([agent, "greedy"])


# Time


def test_an_agent_that_blocks_forfeits_all_its_turns(blocked):
    match = Match([blocked, "greedy"], size=4, seconds=0.01, rounds=2, seed=1)
    record = match.play()
    record.verify()
    for played, seats in zip(record.rounds, record.seats, strict=True):
        late = [turn for turn in range(1, 13) if seats[(turn - 1) % 2] == 0]
        assert set(late) <= set(played.timeouts)  # greedy may be late too, on a busy machine
        assert all(played.seconds[turn - 1] >= 0.01 for turn in late)
        assert played.limit == 0.01
    assert blocked.asked <= 1  # never a second time before it has answered


def test_a_late_answer_is_dropped_and_stale_questions_are_never_asked(blocked):
    match = Match([blocked, "greedy"], size=4, seconds=0.02, rounds=2, seed=1)
    assert len(match.play_round().timeouts) >= 6
    blocked.free.set()
    match.seconds = 60.0
    assert match.play_round().timeouts == ()  # the next turn waits for the late answer, and is not answered by it
    match.record.verify()
    assert 6 <= blocked.asked <= 7  # the six turns of the second round, and the question that it was late with
    assert blocked.most_at_once == 1


def test_forfeited_turns_are_drawn_from_all_legal_cells(blocked):
    first = set()
    for seed in range(24):
        record = Match([blocked, blocked], size=4, seconds=0.001, rounds=1, seed=seed).play()
        record.verify()
        assert record.rounds[0].timeouts == tuple(range(1, 13))
        first |= {record.rounds[0].moves[0]} if record.rounds[0].starter == "red" else set()
    assert first == {"d2", "b4", "d4"}  # all that red can begin with


def test_what_a_late_agent_draws_changes_no_forfeit(blocked, monkeypatch):
    monkeypatch.setattr("rolit_env.match.WARM_UP_SECONDS", 0.0)  # so that the first question it meets is a turn's
    moves = []
    for blocked.draws in (0, 5):
        moves.append([])
        for seed in range(8):
            match = Match([blocked, blocked], size=4, seconds=0.01, rounds=1, seed=seed)
            moves[-1].append(match.play_round().moves[0])
    assert moves[0] == moves[1]


def test_an_answer_that_is_there_and_yet_late_by_the_clock_is_forfeited(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("rolit_env.match.time.perf_counter", lambda: clock[0])
    played = Match([Sneaky(clock), "random"], size=4, seconds=5.0, rounds=1, seed=0).play_round()
    assert played.timeouts == tuple(turn for turn in range(1, 13) if played.agents[played.order[(turn - 1) % 2]] == "sneaky")
    assert {played.seconds[turn - 1] for turn in played.timeouts} == {10.0}
    patient = Match([Sneaky(clock), "random"], size=4, seconds=10.0, rounds=1, seed=0).play_round()
    assert patient.timeouts == ()


def test_an_agent_that_plays_for_two_has_one_thread(blocked):
    blocked.free.set()
    record = Match([blocked, blocked, "random"], size=6, seconds=60.0, rounds=1).play()
    assert record.rounds[0].timeouts == ()
    assert blocked.most_at_once == 1


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_an_error_of_an_agent_ends_the_round_and_leaves_the_match_as_it_was(seconds):
    match = Match([Failing(), "random"], size=4, seconds=seconds)
    with pytest.raises(AgentError, match=r"^failing failed with RuntimeError: out of ideas \(line \d+ of .*test_match.py\)$"):
        match.play()
    assert match.rounds == ()


def test_threads_end_with_their_match():
    before = set(threading.enumerate())
    match = Match(["random", "greedy"], size=4, seconds=60.0, rounds=1)
    match.play()
    threads = set(threading.enumerate()) - before
    assert len(threads) == 2
    del match
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


# The verb


def test_the_verb_prints_rounds_and_a_standing_and_writes_them(capsys, tmp_path):
    line = ["match", "positional", "greedy", "random", "--size", "6", "--rounds", "3", "--seed", "4"]
    for name in ("match.txt", "match.json"):
        assert cli.main([*line, "--record", str(tmp_path / name), "--json", str(tmp_path / "results.json")]) == 0
    out = capsys.readouterr().out
    (record,), (again,) = read_records(tmp_path / "match.txt"), read_records(tmp_path / "match.json")
    assert [played.moves for played in record.rounds] == [played.moves for played in again.rounds]
    assert record.agents == ("positional", "greedy", "random")
    assert (record.seed, len(record.rounds), record.planned) == (4, 3, 3)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["won"] == list(record.won)
    assert results["points"] == list(record.points)
    assert results["winners"] == [agent + 1 for agent in record.winners]
    assert [played["balls"] for played in results["rounds"]] == [list(balls) for balls in record.balls]
    assert results["command"][:2] == ["rolit", "match"]
    for number, seats in enumerate(record.seats, start=1):
        assert f"Round {number}: {record.agents[seats[0]]} ({record.rounds[number - 1].starter}) " in out
    for name, won, points in zip(record.agents, record.won, record.points, strict=True):
        assert f"{name} {won} {points} 0 " in " ".join(out.split())


def test_an_agent_that_is_named_twice_is_told_apart(capsys):
    assert cli.main(["match", "random", "random", "--size", "4", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "random #1 (" in out
    assert "random #2 (" in out


def verdict(monkeypatch, capsys, *counts, planned=None):
    """Return the last line that the verb prints of a match for two with these balls."""
    record = replace(match_of(*counts), planned=planned or len(counts))
    monkeypatch.setattr(Match, "play", lambda *_: None)
    monkeypatch.setattr(Match, "record", record)
    assert cli.main(["match", "random", "random", "--size", "4"]) == 0
    return capsys.readouterr().out.splitlines()[-1]


def test_the_verdict_says_how_the_match_was_won(monkeypatch, capsys):
    assert verdict(monkeypatch, capsys, (10, 6)) == "a wins the match of 1 round."
    assert verdict(monkeypatch, capsys, (10, 6), (7, 9)) == "a wins the match of 2 rounds, by the balls."
    assert verdict(monkeypatch, capsys, (8, 8)) == "The match is drawn between a and b: as many rounds won and as many balls."
    assert verdict(monkeypatch, capsys, (6, 10), planned=3) == "b leads after 1 round of 3."


@pytest.mark.parametrize("rounds", [0, 2])
def test_ctrl_c_keeps_the_rounds_that_are_over(monkeypatch, capsys, tmp_path, rounds):
    play_round = Match.play_round

    def interrupted(match):
        if len(match.rounds) == rounds:
            raise KeyboardInterrupt
        return play_round(match)

    monkeypatch.setattr(Match, "play_round", interrupted)
    path = tmp_path / "match.txt"
    path.write_text("an older record")
    assert cli.main(["match", "random", "greedy", "--size", "4", "--rounds", "4", "--record", str(path)]) == 130
    if rounds:
        (record,) = read_records(path)
        assert (len(record.rounds), record.planned) == (2, 4)
        assert "after 2 rounds of 4." in capsys.readouterr().out
    else:
        assert path.read_text() == "an older record"
    assert [file.name for file in tmp_path.iterdir()] == ["match.txt"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["random"], "1 can't play a match"),
        (["random", "nobody"], "there is no agent 'nobody'"),
        (["random", "greedy", "--rounds", "0"], "allowed are ints from 1 to 10000"),
        (["random", "greedy", "--seconds", "0"], "above 0"),
        (["random", "greedy", "--seconds", "0.0001"], "from 0.001"),
        (["random", "greedy", "--size", "5"], "is no variant"),
        (["random", "greedy", "--record", "no/such/folder/match.txt"], "its folder must exist"),
        (["random", "greedy", "--record", "x.json", "--json", "x.json"], "allowed are two files"),
        (["random", "greedy", "--record", str(Path("x.json").resolve()), "--json", "x.json"], "allowed are two files"),
        ([], "the following arguments are required"),
    ],
)
def test_bad_input_of_the_verb_is_one_line_and_plays_nothing(monkeypatch, capsys, arguments, complaint):
    monkeypatch.setattr(Match, "play_round", lambda _: pytest.fail("a round was played"))
    assert cli.main(["match", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rolit: ")
    assert complaint in err
    assert err.count("\n") == 1


def test_a_slow_agent_is_seen_in_the_standing(blocked, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("rolit_env.match.make_agent", {"blocked": blocked, "random": RandomAgent()}.get)
    path = str(tmp_path / "slow.txt")
    assert cli.main(["match", "blocked", "random", "--size", "4", "--rounds", "1", "--seconds", "0.01", "--record", path]) == 0
    (record,) = read_records(path)
    late = len(set(record.rounds[0].timeouts) & set(range(1, 13)))
    assert late >= 6
    assert "blocked" in capsys.readouterr().out
    assert f"timeouts: {' '.join(map(str, record.rounds[0].timeouts))}\n" in (tmp_path / "slow.txt").read_text()


def test_errors_are_those_of_the_package():
    assert issubclass(RecordError, RolitError)
    error = RecordError("turn 3: no", 3)
    copy = type(error)(*error.__reduce__()[1])
    assert (str(copy), copy.turn) == (str(error), 3)


def test_random_against_random_is_fair_over_all_seatings():
    """Each agent sits everywhere equally often, so equals win about as many rounds each."""
    won = np.array(Match(["random"] * 4, size=6, rounds=240, seed=0).play().won)
    assert won.sum() >= 240  # shared rounds count for each of their leaders
    assert abs(won / 240 - 0.265).max() < 0.12  # four standard errors
