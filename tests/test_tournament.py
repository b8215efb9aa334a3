"""Tournaments: all groups play the same openings in all seatings, whoever plays them and however often they are killed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolit_env import GameBatch, arena, cli
from rolit_env.agents import AGENTS, Agent, RandomAgent
from rolit_env.errors import ConfigError, OptionError, RecordError, ResultsError, RolitError, VariantError
from rolit_env.record import RoundRecord, read_records
from rolit_env.released import released_files
from rolit_env.standings import make_standings
from rolit_env.tournament import (
    Settings,
    chunks_at,
    find_lines,
    load_settings,
    open_results,
    play_chunk,
    play_tournament,
    read_chunks,
    read_config,
    read_timings,
)
from tests.commands import refused

QUICK = Settings({name: name for name in ("random", "greedy", "positional")}, 23, size=4, openings_at_once=4)


def played(settings: Settings, folder: Path, **options: Any) -> bytes:
    play_tournament(settings, folder, **options)
    return (folder / "results.jsonl").read_bytes()


# Who plays what.


@pytest.mark.parametrize(("players", "agents", "groups"), [(2, 5, 10), (3, 4, 4), (4, 4, 1), (4, 6, 15)])
def test_every_group_meets_in_every_seating_and_nobody_meets_itself(players: int, agents: int, groups: int) -> None:
    settings = Settings({str(number): "random" for number in range(agents)}, 7, size=6, players=players)
    assert len(settings.groups) == len(set(settings.groups)) == groups
    assert all(len(set(group)) == players for group in settings.groups)
    assert len(set(Counter(number for group in settings.groups for number in group).values())) == 1
    for seat in range(players):
        assert len(set(Counter(seats[seat] for seats in settings.assignments).values())) == 1
    assert settings.rounds == 7 * groups * len(settings.assignments)


def test_all_groups_play_the_same_openings(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[tuple[str, int], list[Any]] = {}

    class Spy(RandomAgent):
        def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
            if games.ply == 3:
                seen.setdefault((self.name, games.seat), []).append((games.balls.tolist(), games.starters.tolist()))
            return super().act(games, rng)

    monkeypatch.setitem(AGENTS, "spy", Spy)
    settings = Settings(dict.fromkeys("abcd", "spy"), 20, size=6, players=3, opening_turns=3)
    openings = []
    for group in range(4):
        seen.clear()
        play_chunk(settings, 0, group)
        openings += [start for starts in seen.values() for start in starts]
    assert len(openings) == 4 * 6
    assert all(opening == openings[0] for opening in openings)
    seen.clear()
    play_chunk(replace(settings, seed=1), 0, 0)
    assert next(iter(seen.values()))[0] != openings[0]


def test_groups_of_equals_play_different_rounds() -> None:
    settings = Settings(dict.fromkeys("abc", "random"), 20)
    rounds = [play_chunk(settings, 0, group)[0].balls.tolist() for group in range(3)]
    assert rounds[0] != rounds[1] != rounds[2] != rounds[0]


class Grudge(RandomAgent):
    """Plays the first legal cell once it has played a round, which no agent in a tournament should notice."""

    def __init__(self) -> None:
        self.rounds = 0

    def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
        self.rounds += games.plies - games.ply <= 2
        if self.rounds > 2:
            return np.array([games.board(at).legal_moves[0] for at in range(len(games))])
        return super().act(games, rng)


def test_a_chunk_depends_on_nothing_played_before() -> None:
    own = f"{__name__}:Grudge"
    settings = Settings({"a": own, "b": own}, 30, size=4, openings_at_once=10)
    alone = play_chunk(settings, 2, 0)[0]
    again = [play_chunk(settings, number, 0)[0] for number in (0, 1, 2)][2]
    assert alone.line(settings) == again.line(settings)


def test_anchors_alone_make_no_group() -> None:
    anchors = dict.fromkeys("abce", 100.0)
    settings = Settings(dict.fromkeys("abcde", "random"), 1, players=3, anchors=anchors)
    assert len(settings.groups) == 6
    assert all(3 in group for group in settings.groups)


# What is written.


def test_workers_change_no_byte(tmp_path: Path) -> None:
    one = played(QUICK, tmp_path / "one")
    assert played(QUICK, tmp_path / "two", workers=2) == one
    assert one.count(b"\n") == 18
    # Nothing is left to play, so nothing is written.
    before = (tmp_path / "two" / "timings.jsonl").read_bytes()
    assert played(QUICK, tmp_path / "two") == one
    assert (tmp_path / "two" / "timings.jsonl").read_bytes() == before


def test_lines_say_who_played_and_how_it_ended(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in played(QUICK, tmp_path).splitlines()]
    assert [(line["chunk"], line["group"]) for line in lines] == [(chunk, group) for chunk in range(6) for group in range(3)]
    assert lines[1]["agents"] == ["random", "positional"]
    for line, chunk in zip(lines, read_chunks(tmp_path, load_settings(tmp_path)), strict=True):
        openings = 3 if line["chunk"] == 5 else 4
        texts = [[text[at : at + 2] for at in range(0, len(text), 2)] for text in line["balls"]]
        assert [len(text) for text in texts] == [2 * openings] * 2
        assert [int(two, 16) for text in texts for two in text] == chunk.balls.ravel().tolist()
        assert (chunk.balls.sum(axis=2) <= 16).all()
    for timing in read_timings(tmp_path, QUICK):
        assert timing["moves"] == [8 * (3 if timing["chunk"] == 5 else 4)] * 2
        assert 0 < sum(timing["seconds"]) <= timing["all"]


def test_games_are_kept_where_that_is_wanted_whoever_plays_them(tmp_path: Path) -> None:
    settings = replace(QUICK, records=True)
    assert played(settings, tmp_path / "one") == played(QUICK, tmp_path / "without")
    assert not (tmp_path / "without" / "records").exists()
    played(settings, tmp_path / "two", workers=2)
    files = sorted((tmp_path / "one" / "records").iterdir())
    assert [file.name for file in files] == [f"group-{group}-chunk-{chunk}.txt" for group in range(3) for chunk in range(6)]
    for file in files:
        assert (tmp_path / "two" / "records" / file.name).read_bytes() == file.read_bytes()
    for chunk in read_chunks(tmp_path / "one", settings):
        rounds = read_records(tmp_path / "one" / "records" / f"group-{chunk.group}-chunk-{chunk.number}.txt")
        names = [settings.names[member] for member in settings.groups[chunk.group]]
        seatings = [names] * (len(rounds) // 2) + [names[::-1]] * (len(rounds) // 2)
        for record, seated, balls in zip(rounds, seatings, chunk.balls.reshape(-1, 2).tolist(), strict=True):
            assert isinstance(record, RoundRecord)
            assert [record.agents[color] for color in record.order] == seated
            assert [record.counts[color] for color in record.order] == balls
            assert (record.is_finished, record.opening_turns) == (True, 4)


def test_games_of_a_chunk_that_was_cut_off_are_written_again(tmp_path: Path) -> None:
    settings = replace(QUICK, records=True)
    played(settings, tmp_path)
    file = tmp_path / "records" / "group-2-chunk-5.txt"
    good = file.read_bytes()
    file.write_text("rolit round, format 1\n", encoding="utf-8")
    results = tmp_path / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-9])
    played(settings, tmp_path)
    assert file.read_bytes() == good


CODE = """
import sys
from pathlib import Path
from rolit_env.tournament import Settings, play_tournament
agents = {name: name for name in ("random", "greedy", "positional")}
if __name__ == "__main__":
    settings = Settings(agents, 300, size=4, openings_at_once=2)
    play_tournament(settings, Path(sys.argv[1]), workers=int(sys.argv[2]))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_tournament_that_is_killed_five_times_ends_the_same(tmp_path: Path, workers: int) -> None:
    agents = {name: name for name in ("random", "greedy", "positional")}
    undisturbed = played(Settings(agents, 300, size=4, openings_at_once=2), tmp_path / "undisturbed")
    results = tmp_path / "killed" / "results.jsonl"
    command = [sys.executable, "-c", CODE, str(results.parent), str(workers)]
    wait = random.Random(workers)
    sizes = [0]
    for _ in range(5):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while process.poll() is None and (not results.exists() or results.stat().st_size <= sizes[-1]):
            time.sleep(0.002)
        time.sleep(wait.random() / 20)
        process.kill()
        assert process.wait() != 0  # it had not ended by itself
        sizes.append(results.stat().st_size)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] < len(undisturbed)
    there = results.read_bytes().count(b"\n")
    told: list[tuple[int, int]] = []
    again = Settings(agents, 300, size=4, openings_at_once=2)
    assert played(again, results.parent, workers=workers, progress=lambda *counts: told.append(counts)) == undisturbed
    assert told[0] == (there * 4, 1800)  # what had been played was not played again


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    first, second, *_ = played(QUICK, tmp_path).splitlines(keepends=True)
    for cut in (1, len(second) - 1):
        appearing: Any = [first, second[:cut], second[cut:]]  # a file's lines when its end is written while they are read
        assert find_lines(appearing, QUICK) == {(0, 0): 0}


def test_a_file_that_was_changed_in_place_while_it_is_read_is_refused(tmp_path: Path) -> None:
    played(QUICK, tmp_path)
    with open_results(tmp_path) as file, pytest.raises(ResultsError, match="was changed while it was read"):
        next(chunks_at(file, QUICK, {(0, 0): 7}))


def test_a_half_written_last_line_is_played_again_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = played(QUICK, tmp_path)
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (last, last + 1, (last + len(whole)) // 2, len(whole) - 1):
        (tmp_path / "results.jsonl").write_bytes(whole[:cut])
        (tmp_path / "timings.jsonl").write_bytes((tmp_path / "timings.jsonl").read_bytes()[:-5])
        assert len(list(read_chunks(tmp_path, QUICK))) == 17
        assert played(QUICK, tmp_path) == whole
    (tmp_path / "results.jsonl").write_bytes(b'{"chu')
    assert played(QUICK, tmp_path) == whole
    (tmp_path / "results.jsonl").unlink()
    assert played(QUICK, tmp_path) == whole


def test_anything_else_that_is_damaged_is_refused_with_its_line(tmp_path: Path) -> None:
    whole = played(QUICK, tmp_path)
    lines = whole.splitlines(keepends=True)
    rng = random.Random(0)
    for _ in range(150):
        at = rng.randrange(len(lines))
        place = rng.randrange(len(lines[at]) - 1)
        other = rng.choice([byte for byte in b'0123456789abcdef{}[]",: x' if byte != lines[at][place]])
        damaged = lines[at][:place] + bytes([other]) + lines[at][place + 1 :]
        content = b"".join([*lines[:at], damaged, *lines[at + 1 :]])
        (tmp_path / "results.jsonl").write_bytes(content)
        for use in (make_standings, lambda folder: play_tournament(QUICK, folder)):
            with pytest.raises(ResultsError, match=rf"^line {at + 1} of .*results.jsonl is damaged"):
                use(tmp_path)
        assert (tmp_path / "results.jsonl").read_bytes() == content
    for content, at in ((lines[0] + lines[0], 2), (lines[0] + b"\n" + lines[1], 2), (b"\xff\n", 1), (b"[]\n", 1), (b"7\n", 1)):
        (tmp_path / "results.jsonl").write_bytes(content)
        with pytest.raises(ResultsError, match=f"^line {at} of"):
            make_standings(tmp_path)


def test_other_settings_are_refused_and_change_nothing(tmp_path: Path) -> None:
    whole = played(QUICK, tmp_path)
    kept = (tmp_path / "settings.json").read_bytes()
    others: list[tuple[Any, str]] = [
        ({"seed": 1}, "was begun with seed=0, not 1"),
        ({"openings": 24}, "was begun with openings=23, not 24"),
        ({"openings_at_once": 5}, "was begun with openings_at_once=4, not 5"),
        ({"agents": {"greedy": "greedy", "random": "random", "positional": "positional"}}, "another setting agents"),
    ]
    for change, message in others:
        with pytest.raises(ResultsError, match=message):
            play_tournament(replace(QUICK, **change), tmp_path)
    assert (tmp_path / "results.jsonl").read_bytes() == whole
    assert (tmp_path / "settings.json").read_bytes() == kept
    (tmp_path / "settings.json").unlink()
    with pytest.raises(ResultsError, match="has results without settings"):
        play_tournament(QUICK, tmp_path)


def test_a_folder_from_before_a_setting_came_goes_on(tmp_path: Path) -> None:
    whole = played(QUICK, tmp_path)
    kept = json.loads((tmp_path / "settings.json").read_text())
    for name in ("records", "anchors"):
        del kept["settings"][name]
    (tmp_path / "settings.json").write_text(json.dumps(kept))
    assert played(QUICK, tmp_path) == whole
    with pytest.raises(ResultsError, match="records=false, not true"):
        played(replace(QUICK, records=True), tmp_path)


def test_a_trained_file_that_was_replaced_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader(RandomAgent):
        def __init__(self, file: str) -> None:
            self.file = file

    monkeypatch.setitem(AGENTS, "reader", Reader)
    monkeypatch.chdir(tmp_path)
    Path("one.onnx").write_bytes(b"1")
    settings = Settings({"a": "random", "b": "reader:file=one.onnx"}, 2, size=4)
    play_tournament(settings, tmp_path / "out")
    play_tournament(settings, tmp_path / "out")
    Path("one.onnx").write_bytes(b"2")
    with pytest.raises(ResultsError, match="begun with another setting one"):
        play_tournament(settings, tmp_path / "out")


def test_released_models_are_kept_track_of_too(tmp_path: Path) -> None:
    name = "4x4-2p-ntuple"
    play_tournament(Settings({"a": "random", "b": name, "c": f"alphabeta:depth=1,eval={name}"}, 1, size=4), tmp_path)
    content = released_files()[name].read_bytes()
    kept = json.loads((tmp_path / "settings.json").read_text())
    assert kept["files"] == {name: hashlib.sha256(content).hexdigest()}


def test_one_process_at_a_time_plays_in_a_folder(tmp_path: Path) -> None:
    messages = []

    def progress(done: int, total: int) -> None:
        if not messages:
            with pytest.raises(ResultsError, match="another process plays in") as error:
                play_tournament(QUICK, tmp_path)
            messages.append(error)

    play_tournament(QUICK, tmp_path, progress=progress)
    assert messages
    play_tournament(QUICK, tmp_path)


def test_progress_counts_what_is_there_already(tmp_path: Path) -> None:
    whole = played(QUICK, tmp_path)
    (tmp_path / "results.jsonl").write_bytes(b"".join(whole.splitlines(keepends=True)[:5]))
    told: list[tuple[int, int]] = []
    play_tournament(QUICK, tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (40, 138)
    assert told[-1] == (138, 138)
    assert told == sorted(told)
    assert len(told) == 14


# Fairness.


def test_four_equals_get_a_quarter_each_and_the_last_seat_wins_most(tmp_path: Path) -> None:
    settings = Settings(dict.fromkeys("abcd", "random"), 300, players=4, opening_turns=0, starter="red")
    play_tournament(settings, tmp_path)
    standings = make_standings(tmp_path)
    assert standings.rounds == 7200
    assert (np.abs(standings.win_share - 0.25) <= standings.interval).all()
    assert standings.interval.max() < 0.02
    for agent in range(4):
        assert standings.by_seat[agent] == pytest.approx([0.14, 0.21, 0.28, 0.37], abs=0.04)
    assert standings.by_seat.mean(axis=0) == pytest.approx([0.14, 0.21, 0.28, 0.37], abs=0.015)
    low, high = standings.ratings.low, standings.ratings.high
    assert ((low <= 0) & (high >= 0)).all()


# What it refuses.


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_a_config_names_agents_in_a_list_or_with_names(tmp_path: Path) -> None:
    listed = read_config(config(tmp_path, "agents: [random, 'alphabeta:depth=2']\nopenings: 3\nsize: 6"))
    assert listed == Settings({"random": "random", "alphabeta:depth=2": "alphabeta:depth=2"}, 3, size=6)
    named = read_config(config(tmp_path, "agents: {one: random, two: random}\nopenings: 3\nopening_turns: 0"))
    assert named == Settings({"one": "random", "two": "random"}, 3, opening_turns=0)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", ConfigError, "must hold settings"),
        ("- 1", ConfigError, "must hold settings"),
        ("a: [", ConfigError, "is no YAML"),
        ("agents: [random, greedy]", ConfigError, "lacks the setting openings"),
        ("openings: 3", ConfigError, "lacks the setting agents"),
        ("agents: [random, greedy]\nopenings: 3\nrounds: 4", ConfigError, "'rounds', which does not exist; known are agents"),
        ("agents: [random]\nopenings: 3", ConfigError, "1 agents are too few"),
        ("agents: [random, random]\nopenings: 3", ConfigError, "'random' is there twice; give each a name"),
        ("agents: [random, 3]\nopenings: 3", ConfigError, "agents must be a list of descriptions"),
        ("agents: [random, '']\nopenings: 3", ConfigError, "agents must be a list of descriptions"),
        ("agents: {a: random, b: 7}\nopenings: 3", ConfigError, "agents must be a list of descriptions"),
        ("agents: random\nopenings: 3", ConfigError, "agents must be a list of descriptions"),
        ("agents: [[random], [random]]\nopenings: 3", ConfigError, "is there twice|agents must be a list"),
        ("agents: [random, greedy]\nopenings: many", ConfigError, "openings='many' has the wrong type"),
        ("agents: [random, greedy]\nopenings: true", ConfigError, "openings=True has the wrong type"),
        ("agents: [random, greedy]\nopenings: 0", ConfigError, "openings=0 does not fit"),
        ("agents: [random, greedy]\nopenings: 3\nopenings_at_once: 0", ConfigError, "openings_at_once=0 does not fit"),
        ("agents: [random, greedy]\nopenings: 3\nplayers: 3", ConfigError, "2 agents are too few"),
        ("agents: [random, greedy]\nopenings: 3\nsize: 5", VariantError, "size=5 with players=2 is no variant"),
        ("agents: [random, greedy]\nopenings: 3\nseed: -1", OptionError, "seed=-1 is no seed"),
        ("agents: [random, greedy]\nopenings: 3\nopening_turns: 61", OptionError, "opening_turns=61 does not fit"),
        ("agents: [random, greedy]\nopenings: 3\nstarter: blue", OptionError, "starter='blue' is no playing colour"),
        ("agents: [random, greedy]\nopenings: 3\nstarter: 7", ConfigError, "starter=7 has the wrong type"),
        ("agents: [random, greedy]\nopenings: 3\nanchors: {mcts: 3}", ConfigError, "anchor 'mcts' is none of the agents"),
        ("agents: [random, greedy]\nopenings: 3\nanchors: [random]", ConfigError, "must be lines `name: rating`"),
        ("agents: [random, greedy]\nopenings: 3\nanchors: {random: much}", ConfigError, "has the rating 'much'"),
        ("agents: [random, greedy]\nopenings: 3\nanchors: {random: 0, greedy: 9}", ConfigError, "nobody to rate"),
        ("agents: {'a ': random, b: greedy}\nopenings: 3", RecordError, "'a ' is no name"),
        ("agents: [random, greedy]\nopenings: 3\nrecords: 1", ConfigError, "records=1 has the wrong type"),
        ("agents: [random, greedy]\nopenings: 3\nopenings: 4", ConfigError, "has 'openings' twice; allowed is once"),
        ("agents: {a: random, a: greedy, b: greedy}\nopenings: 3", ConfigError, "has 'a' twice; allowed is once"),
        ("[" * 100_000, ConfigError, "is no YAML"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, text: str, kind: type[RolitError], message: str) -> None:
    with pytest.raises(kind, match=message):
        read_config(config(tmp_path, text))


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ("random, gredy", "there is no agent 'gredy'"),
        ("random, 'greedy:depth=3'", "greedy has no option"),
        ("random, nowhere.onnx", "there is no policy file"),
        ("random, 'alphabeta:depth=0'", "depth=0"),
    ],
)
def test_bad_agents_are_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], agents: str, message: str
) -> None:
    path = config(tmp_path, f"agents: [{agents}]\nopenings: 3")
    assert message in refused(capsys, "tournament", str(path), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_agents_for_another_number_of_players_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, "agents: [random, greedy, 'alphabeta:depth=1']\nopenings: 3\nplayers: 3")
    assert "alphabeta" in refused(capsys, "tournament", str(path), "--out", str(tmp_path / "out"))


class Cheat(Agent):
    def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
        return np.zeros(len(games), int)


class Clumsy(Agent):
    def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
        raise KeyError("oops")


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(("kind", "message"), [("Cheat", "illegal in games"), ("Clumsy", "KeyError: 'oops'")])
def test_agents_that_fail_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, message: str, workers: str
) -> None:
    path = config(tmp_path, f"agents: [random, '{__name__}:{kind}']\nopenings: 3\nsize: 4")
    assert cli.main(["tournament", str(path), "--out", str(tmp_path / "out"), "--workers", workers]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"rolit: {__name__}:{kind} failed")
    assert message in last


class Dying(Agent):
    def act(self, games: GameBatch, rng: np.random.Generator) -> np.ndarray:
        os._exit(1)


def test_a_process_that_dies_is_one_line_and_what_was_played_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, f"agents: [random, greedy, '{__name__}:Dying']\nopenings: 3\nsize: 4")
    assert cli.main(["tournament", str(path), "--out", str(tmp_path / "out"), "--workers", "2"]) == 2
    assert "a process that played died" in capsys.readouterr().err.splitlines()[-1]
    settings = load_settings(tmp_path / "out")
    assert settings.groups[0] == (0, 1)
    assert all(chunk.group == 0 for chunk in read_chunks(tmp_path / "out", settings))


def test_mistakes_on_the_command_line_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(config(tmp_path, "agents: [random, greedy]\nopenings: 3\nsize: 4"))
    assert "can't be read (No such file" in refused(capsys, "tournament", "nowhere.yaml")
    assert "can't be read (Is a directory" in refused(capsys, "tournament", str(tmp_path))
    assert "0 does not fit" in refused(capsys, "tournament", good, "--workers", "0")
    assert "can't be made" in refused(capsys, "tournament", good, "--out", good)
    assert "the following arguments are required: CONFIG" in refused(capsys, "tournament")


def test_a_cluster_without_ray_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    path = config(tmp_path, "agents: [random, greedy]\nopenings: 3\nsize: 4")
    assert "needs Ray; install it with" in refused(
        capsys, "tournament", str(path), "--out", str(tmp_path / "out"), "--ray", "auto"
    )
    assert not (tmp_path / "out").exists()


def test_the_command_plays_reports_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, "agents: [random, greedy]\nopenings: 30\nsize: 4")
    out = tmp_path / "out"
    assert cli.main(["tournament", str(path), "--out", str(out), "--workers", "1"]) == 0
    shown, told = capsys.readouterr()
    assert "Rolit for two on 4x4: 2 agents" in shown
    assert told.splitlines()[-1] == "60 of 60 rounds played"
    assert {file.name for file in out.iterdir()} == {
        *("results.jsonl", "settings.json", "timings.jsonl", "report.csv", "report.json", "report.html")
    }
    assert cli.main(["tournament", str(path), "--out", str(out)]) == 0
    assert capsys.readouterr().out == shown


def test_without_a_folder_the_name_of_the_config_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config(tmp_path, "agents: [random, greedy]\nopenings: 2\nsize: 4")
    assert cli.main(["tournament", "config.yaml", "--workers", "1"]) == 0
    assert (tmp_path / "runs" / "config" / "report.html").exists()
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == ["config"]


@pytest.mark.parametrize("path", sorted(Path("configs").glob("tournament-*.yaml")), ids=lambda path: path.stem)
def test_the_configs_of_the_repository_are_good(path: Path) -> None:
    settings = read_config(path)
    assert settings.rounds >= 2000
    assert arena.seat_assignments(settings.players, settings.players) == settings.assignments
