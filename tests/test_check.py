"""Checks of cards: the same rounds give the same figures, and whatever was changed in a card or a file is found."""

import json
import shutil
from pathlib import Path

import pytest

from rolit_env import check as check_module
from rolit_env import cli, make_agent
from rolit_env.adapters.card import measure
from rolit_env.check import check
from rolit_env.errors import ModelFileError
from rolit_env.exam import take_exam
from rolit_env.released import released_files
from rolit_env.variant import variant
from tests.commands import refused

NAME = "4x4-2p-ntuple"


@pytest.fixture(scope="module")
def results():
    agent = make_agent(NAME)
    measured = measure(agent, variant(4, 2), ("random", "greedy", "alphabeta:depth=2"), 400, 0)
    exams = [take_exam(agent, size=4, starter=starter).to_dict() for starter in ("red", "green")]
    return json.dumps({"results": measured, "exam": exams})


@pytest.fixture
def model(tmp_path, results):
    """Return a copy of a released file, on whose card all results are from now."""
    path = tmp_path / "four.safetensors"
    shutil.copy(released_files()[NAME], path)
    card = json.loads(released_files()[NAME].with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(card | json.loads(results)))
    return path


def change(model: Path, *keys, value):
    """Change what stands somewhere on the card: a value, or what a function makes of the old one."""
    card = json.loads(model.with_suffix(".json").read_text())
    inner = card
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value(inner[keys[-1]]) if callable(value) else value
    model.with_suffix(".json").write_text(json.dumps(card))


def verdicts(model, **options):
    return {finding.what: finding.verdict for finding in check(make_agent(str(model)), **options)}


def test_the_same_rounds_give_the_very_same_figures(model, capsys):
    assert verdicts(model) == dict.fromkeys(
        ("random", "greedy", "alphabeta:depth=2", "exam, red first", "exam, green first"), "same"
    )
    assert cli.main(["check", str(model), "--exact"]) == 0
    out, err = capsys.readouterr()
    assert "5 of 5 results are the very same, 0 within what is allowed, 0 outside" in out
    assert err.count("\n") == 5  # progress, where there is no terminal


@pytest.mark.parametrize(
    ("keys", "value", "what"),
    [
        (("results", "against", "greedy", "win_share", 0), lambda old: old + 0.1, "greedy"),
        (("results", "against", "greedy", "win_share", 0), float("nan"), "greedy"),
        (("results", "against", "greedy", "by_seat", 0, 1), lambda old: old - 0.15, "greedy"),
        (("results", "against", "greedy", "balls", 0), lambda old: old + 0.001, "greedy"),
        (("results", "against", "greedy", "interval", 0), lambda old: old * 1.1, "greedy"),
        (("results", "against", "random", "tied"), lambda old: old + 0.001, "random"),
        (("exam", 1, "overall", "kept"), lambda old: old + 0.01, "exam, green first"),
        (("exam", 0, "own_play", "kept"), lambda old: old - 0.01, "exam, red first"),
        (("exam", 0, "by_empties", "3", "lost"), lambda old: old + 0.01, "exam, red first"),
    ],
)
def test_a_changed_figure_is_found(model, keys, value, what, capsys):
    change(model, *keys, value=value)
    assert {name for name, verdict in verdicts(model).items() if verdict != "same"} == {what}
    assert verdicts(model)[what] == "outside"
    assert cli.main(["check", str(model)]) == 1
    assert f"failed: {model}" in capsys.readouterr().out


def test_what_lies_within_the_interval_passes_unless_exactly_the_same_is_wanted(model, capsys):
    change(model, "results", "against", "greedy", "win_share", 0, value=lambda old: old + 0.005)
    assert verdicts(model)["greedy"] == "within"
    assert cli.main(["check", str(model)]) == 0
    assert cli.main(["check", str(model), "--exact"]) == 1


def test_fewer_rounds_are_allowed_more(model, capsys):
    assert set(verdicts(model, rounds=100).values()) == {"within", "same"}  # exams are the same
    finding = next(check(make_agent(str(model)), rounds=100))
    said = json.loads(model.with_suffix(".json").read_text())["results"]["against"]["random"]
    assert finding.allowed >= 4 / 1.96 * said["interval"][0] * 5**0.5 - 1e-12  # 200 openings against 50
    change(model, "results", "against", "random", "win_share", 0, value=lambda old: old - finding.allowed - 0.1)
    assert verdicts(model, rounds=100)["random"] == "outside"
    assert cli.main(["check", str(model), "--rounds", "2"]) == 0  # one opening, which has no interval of its own


def test_all_alike_may_yet_differ_by_what_never_happened(model):
    for keys in (("interval", 0), ("by_seat_interval", 0, 0), ("by_seat_interval", 0, 1)):
        change(model, "results", "against", "alphabeta:depth=2", *keys, value=0.0)
    change(model, "results", "against", "alphabeta:depth=2", "win_share", 0, value=lambda old: old + 0.014)
    assert verdicts(model)["alphabeta:depth=2"] == "within"  # 3 / 200 openings
    change(model, "results", "against", "alphabeta:depth=2", "win_share", 0, value=lambda old: old + 0.002)
    assert verdicts(model)["alphabeta:depth=2"] == "outside"


def test_a_changed_file_fails_and_the_others_are_checked_all_the_same(model, tmp_path, capsys):
    other = tmp_path / "other.safetensors"
    shutil.copy(model, other)
    shutil.copy(model.with_suffix(".json"), other.with_suffix(".json"))
    content = bytearray(other.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    report = tmp_path / "report.json"
    assert cli.main(["check", str(other), str(model), "--json", str(report)]) == 1
    out = capsys.readouterr().out
    assert "not the file its card describes" in out
    assert "5 of 5 results are the very same" in out
    assert f"failed: {other}\n" in out
    written = json.loads(report.read_text())
    assert written["failed"] == [str(other)]
    assert len(written["results"][str(model)]) == 5


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("results",), {}, "no results that can be checked"),
        (("results",), [], "no results that can be checked"),
        (("results", "against", "greedy"), {"rounds": 5}, "can't be checked for greedy"),
        (("results", "against", "greedy", "by_seat"), [], "can't be checked for greedy"),
        (("results", "against"), {"nobody": {"rounds": 2, "seed": 0, "opening_turns": 4}}, "there is no agent 'nobody'"),
        (("exam", 0), {"complete": True, "starter": "red"}, "can't be checked for its exam, red first"),
        (("exam", 0), {}, "no results that can be checked"),
    ],
)
def test_a_damaged_card_fails_with_a_sentence(model, keys, value, message, capsys):
    change(model, *keys, value=value)
    assert cli.main(["check", str(model)]) == 1
    assert message in capsys.readouterr().out


def test_old_cards_have_no_exams():
    agent = make_agent("8x8-2p-ntuple")
    agent.card.pop("exam", None)
    assert check_module.results_of(agent) == list(agent.card["results"]["against"])
    del agent.card["results"]
    with pytest.raises(ModelFileError, match="no results"):
        next(check(agent))


def test_mistakes_are_one_sentence(capsys):
    assert "has no card; allowed are released models" in refused(capsys, "check", "greedy")
    assert "there is no agent '8x8-5p'" in refused(capsys, "check", "8x8-5p")
    assert "--rounds can't go with it" in refused(capsys, "check", NAME, "--exact", "--rounds", "20")
    assert "allowed are ints from 2 up" in refused(capsys, "check", NAME, "--rounds", "1")


def test_all_released_models_are_checked_where_none_is_named(capsys, monkeypatch):
    checked = []
    monkeypatch.setattr("rolit_env.cli.check.check", lambda model, rounds, progress: checked.append(model.name) or iter(()))
    assert cli.main(["check"]) == 0
    assert checked == list(released_files())
