"""Ratings against anchors, and agents of users' own code: where they stand, and one clear line for what can't be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rolit_env import cli, make_agent
from rolit_env.agents import Agent, PositionalAgent, RandomAgent
from rolit_env.anchors import ANCHORS, anchor_ratings, rate_anchors, rating_settings
from rolit_env.errors import AgentError
from rolit_env.tournament import play_tournament
from rolit_env.variant import all_variants, variant
from tests.commands import refused


class Careful(PositionalAgent):
    def __init__(self, depth: int = 2, *, label="plain") -> None:
        self.depth, self.label = depth, label


def careful_function() -> Agent:
    return RandomAgent()


def no_agent() -> int:
    return 7


def needs_more(path: str) -> Agent:
    return RandomAgent()


def fails() -> Agent:
    raise ZeroDivisionError("halves of nothing")


HERE = __name__


# Code of users.


def test_own_code_makes_agents_with_typed_options() -> None:
    agent = make_agent(f"{HERE}:Careful:depth=5,label=7")
    assert isinstance(agent, Careful)
    assert (agent.depth, agent.label) == (5, "7")
    assert agent.name == f"{HERE}:Careful:depth=5,label=7"
    assert make_agent(f"{HERE}:careful_function").name == f"{HERE}:careful_function"
    assert type(make_agent(f"{HERE}:careful_function")) is RandomAgent


def test_own_code_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "my_rolit_bots"
    package.mkdir()
    (package / "one.py").write_text("from rolit_env.agents import GreedyAgent\nclass Bot(GreedyAgent):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert type(make_agent("my_rolit_bots.one:Bot")).__name__ == "Bot"


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("no_such_module:Bot", "can't be imported .ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{HERE}:Nobody", "can't be imported .AttributeError"),
        (f"{HERE}:HERE", "is of type str; it must be a class or function"),
        (f"{HERE}:no_agent", "made something of type int; it must be a rolit_env.agents.Agent"),
        (f"{HERE}:needs_more", "can't make an agent .TypeError: .*'path'"),
        (f"{HERE}:fails", "can't make an agent .ZeroDivisionError: halves of nothing"),
        (f"{HERE}:Careful:width=3", "has no option 'width=3'; known are: depth, label"),
        (f"{HERE}:Careful:depth=deep", "can't take depth='deep'; it must be of type int"),
    ],
)
def test_own_code_that_makes_no_agent_is_refused(description: str, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        make_agent(description)


# Anchors.


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_every_variant_has_rated_anchors(chosen: object) -> None:
    ratings = anchor_ratings(chosen)  # type: ignore[arg-type]
    assert tuple(ratings) == ANCHORS[chosen.players]  # type: ignore[attr-defined]
    assert ratings["random"] == 0
    for name in ratings:
        make_agent(name).check_variant(chosen)  # type: ignore[arg-type]
    assert ratings["positional"] > 50
    assert min(list(ratings.values())[3:]) > ratings["positional"]


@pytest.mark.parametrize(("players", "groups"), [(2, 5), (3, 10), (4, 10)])
def test_a_newcomer_meets_all_groups_of_anchors(players: int, groups: int) -> None:
    settings = rating_settings("mcts", variant(6, players))
    assert len(settings.groups) == groups
    assert all(5 in group for group in settings.groups)
    assert settings.rounds >= 4000


def test_anchors_are_rated_by_a_tournament_of_each_variant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quick = ("random", "greedy", "positional")
    monkeypatch.setattr("rolit_env.anchors.ANCHORS", {2: quick[:2], 3: quick})
    variants = (variant(8, 2), variant(6, 3))
    monkeypatch.setattr("rolit_env.anchors.all_variants", lambda: variants)
    played = []

    def play(settings, folder):
        played.append(settings.variant)
        play_tournament(settings, folder)

    found = rate_anchors({2: 2, 3: 1}, 3, play, tmp_path)
    assert tuple(played) == variants
    assert list(found["ratings"]) == ["8x8-2p", "6x6-3p"]
    assert all(next(iter(ratings)) == "random" and ratings["random"] == 0 for ratings in found["ratings"].values())
    assert (found["seed"], found["openings"]) == (3, {2: 2, 3: 1})


# The command.


def rated(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> tuple[str, dict[str, object]]:
    assert cli.main(["rate", *arguments, "--workers", "1", "--json", str(tmp_path / "rate.json")]) == 0
    agents = json.loads((tmp_path / "rate.json").read_text())["result"]["agents"]
    return capsys.readouterr().out, {agent["name"]: agent for agent in agents}


def test_an_anchor_under_another_name_gets_its_own_rating(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # The kept ratings have errors of their own, so that the interval alone is a little narrow.
    for agent, anchor in ((f"{HERE}:careful_function", "random"), (f"{HERE}:Careful", "positional")):
        shown, agents = rated(capsys, tmp_path, agent, "--size", "6", "--openings", "150")
        mine = agents[agent]
        assert isinstance(mine, dict)
        assert abs(mine["rating"] - anchor_ratings(variant(6, 2))[anchor]) < 40
        assert mine["low"] < mine["rating"] < mine["high"] < mine["low"] + 120
        assert not mine["anchor"]
        for name, rating in anchor_ratings(variant(6, 2)).items():
            assert agents[name]["rating"] == rating  # type: ignore[index]
            assert agents[name]["anchor"]  # type: ignore[index]
        assert f"{agent} on 6x6-2p" in shown
        assert "ms a move" in shown
        assert f"{round(mine['low'])} to {round(mine['high'])}" in shown


def test_four_players_are_rated_in_all_seatings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown, agents = rated(capsys, tmp_path, f"{HERE}:careful_function", "--size", "6", "--players", "4", "--openings", "4")
    assert "960 rounds" in shown
    assert agents[f"{HERE}:careful_function"]["rating"] == pytest.approx(0, abs=80)  # type: ignore[index]


def test_a_rating_can_be_kept_and_gone_on_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = (f"{HERE}:Careful", "--size", "4", "--openings", "12", "--out", str(tmp_path / "kept"))
    first, _ = rated(capsys, tmp_path, *arguments)
    results = (tmp_path / "kept" / "results.jsonl").read_bytes()
    again, _ = rated(capsys, tmp_path, *arguments)
    assert again == first
    assert (tmp_path / "kept" / "results.jsonl").read_bytes() == results
    assert (tmp_path / "kept" / "report.html").exists()
    assert "was begun with seed=0, not 1" in refused(capsys, "rate", *arguments, "--seed", "1")


def test_anchors_are_made_into_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolit_env.anchors.all_variants", lambda: (variant(4, 2),))
    make = ["rate", "--make", str(tmp_path / "anchors.json"), "--openings", "5", "--workers", "1"]
    assert cli.main([*make, "--out", str(tmp_path / "anchors")]) == 0
    assert (tmp_path / "anchors" / "4x4-2p" / "results.jsonl").exists()
    capsys.readouterr()
    assert "leave out --json" in refused(capsys, *make, "--json", str(tmp_path / "x.json"))
    assert list(json.loads((tmp_path / "anchors.json").read_text())["ratings"]) == ["4x4-2p"]


def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "either an AGENT to rate or --make FILE" in refused(capsys, "rate")
    assert "either an AGENT to rate or --make FILE" in refused(capsys, "rate", "mcts", "--make", "x.json")
    assert "greedy is an anchor of 8x8-2p, with the rating" in refused(capsys, "rate", "greedy")
    assert "there is no agent 'gredy'" in refused(capsys, "rate", "gredy")
    assert "there is no policy file nowhere.onnx" in refused(capsys, "rate", "nowhere.onnx")
    assert "is no variant of Rolit" in refused(capsys, "rate", "mcts", "--size", "5")
    assert "was trained for 8x8-2p" in refused(capsys, "rate", "models/8x8-2p.onnx", "--size", "6")
    assert "0 does not fit" in refused(capsys, "rate", "mcts", "--openings", "0")
    assert "can't be written to" in refused(capsys, "rate", "mcts", "--json", str(tmp_path / "no" / "where.json"))


def test_a_kept_folder_reports_again_what_was_rated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    rated(capsys, tmp_path, f"{HERE}:careful_function", "--size", "4", "--openings", "4", "--out", str(out))
    before = {name: (out / name).read_bytes() for name in ("report.csv", "report.json", "report.html")}
    assert cli.main(["report", str(out)]) == 0
    assert {name: (out / name).read_bytes() for name in before} == before
    assert "but those of anchors alone" in capsys.readouterr().out
