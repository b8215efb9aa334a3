"""The learner's measurements: the obvious ways do the same, all time is accounted for, documents show what was found."""

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rolit_env import GameBatch
from rolit_env.errors import ConfigError
from rolit_env.variant import all_variants
from training import ppo, rollout, speed
from training.config import TrainConfig
from training.learner import Learner
from training.network import MLP, position_words

ROOT = Path(__file__).parent.parent
CPU = torch.device("cpu")
SMALL = TrainConfig(size=4, games=16, minibatch=64, hidden=(8,))
QUICK = ["--size", "4", "--games", "16", "--minibatch", "64", "--hidden", "[8]", "--repeats", "2"]


@pytest.mark.parametrize("variant", all_variants(), ids=lambda variant: variant.name)
def test_shifts_unpack_what_the_table_does(variant):
    games, network = (
        GameBatch(50, size=variant.size, players=variant.players, seed=0),
        MLP(variant.size, variant.players, (8,)),
    )
    while not games.done:
        words = position_words(games)
        assert torch.equal(speed.unpack_by_shifts(network, words), network.unpack(words))
        games.step_random(np.random.default_rng(games.ply))


def test_multinomial_draws_as_often():
    torch.manual_seed(0)
    policy = torch.tensor([0.0, 0.1, 0.6, 0.0, 0.3])
    drawn = speed.draw_by_multinomial(policy.expand(20_000, -1), torch.empty(0))
    assert (drawn.bincount(minlength=5) / 20_000 - policy).abs().max() < 0.02


def test_autograd_finds_the_same_gradients():
    learner = Learner.fresh(SMALL)
    played = rollout.play(learner.network, SMALL, learner.rng, CPU)
    turns = ppo.Turns(
        words=played.words.flatten(0, 1),
        actions=played.actions.flatten(),
        log_probs=played.log_probs.flatten() + 0.2,
        advantages=torch.linspace(-2, 2, 192),
        targets=torch.linspace(-1, 1, 384).view(192, 2),
    )
    with torch.no_grad():
        logits, values = learner.network(turns.words)
    for by_hand, by_autograd in zip(
        ppo.ppo_gradients(logits, values, turns, 200, SMALL),
        speed.gradients_by_autograd(logits, values, turns, 200, SMALL),
        strict=True,
    ):
        assert by_hand.abs().max() > 0
        torch.testing.assert_close(by_hand, by_autograd, rtol=1e-4, atol=1e-6)


def test_patches_are_undone(monkeypatch):
    before = {name: getattr(owner, attribute) for name, (owner, attribute, _) in speed.PLAIN.items()}
    plain = speed.Variation("plain", "", plain=tuple(speed.PLAIN))
    calls = []
    for name, (owner, attribute, _) in speed.PLAIN.items():
        monkeypatch.setitem(
            speed.PLAIN, name, (owner, attribute, lambda *given, name=name: [calls.append(name), before[name](*given)][1])
        )
    speed.measure(SMALL, [plain, speed.LEARNER], 1, lambda _: None)
    assert set(calls) == set(speed.PLAIN)
    seen = len(calls)
    speed.measure(SMALL, [speed.LEARNER], 1, lambda _: None)
    assert len(calls) == seen
    assert before == {name: getattr(owner, attribute) for name, (owner, attribute, _) in speed.PLAIN.items()}


def test_each_moment_counts_once_and_for_the_innermost(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(speed, "_now", lambda device: 2.0 ** next(clock))
    watch = speed.Stopwatch(CPU)
    inner = watch.timed("inner", lambda: "answer")
    outer = watch.timed("outer", lambda: [inner(), inner()])
    with watch.phase("play"):
        assert outer() == ["answer", "answer"]
    # The clock shows 1, 2, 4, ...: begin, outer, inner, out, inner, out, out, end.
    assert watch.seconds == {"play: all else": 1 + 64, "play: outer": 2 + 8 + 32, "play: inner": 4 + 16}


@pytest.mark.parametrize("network", ["mlp", "afterstates"])
def test_a_profile_accounts_for_all_time(network):
    started = time.perf_counter()
    spent = speed.profile(replace(SMALL, network=network), 3)
    wall = time.perf_counter() - started
    assert {len(seconds) for seconds in spent.values()} == {3}
    assert all(second > 0 for seconds in spent.values() for second in seconds)
    assert sum(sum(seconds) for seconds in spent.values()) < wall
    assert {name.split(": ")[0] for name in spent} == {"play", "learn"}
    assert {f"{phase}: network, forward" for phase in ("play", "learn")} | {"learn: network, backward"} < spent.keys()
    assert not {"play: network, backward", "play: Adam", "learn: drawing actions"} & spent.keys()


def test_what_is_outside_the_network():
    spent = {
        "play: network, forward": [3.0, 3.0, 9.0],
        "play: all else": [0.5, 0.5, 0.5],
        "learn: network, unpacking words": [1.0, 1.0, 0.0],
        "learn: Adam": [1.0, 1.5, 2.0],
    }
    assert speed.outside(spent) == pytest.approx(2 / 6)
    assert speed.profile_cells(spent) == [
        ("play", "network, forward", "3000.0", "50.0%"),
        ("play", "all else", "500.0", "8.3%"),
        ("learn", "Adam", "1500.0", "25.0%"),
        ("learn", "network, unpacking words", "1000.0", "16.7%"),
        ("", "outside the network's passes", "2000.0", "33.3%"),
    ]


def test_rows_are_compared_repeat_by_repeat():
    rows = [
        {"title": "one", "play": [10.0, 20.0, 30.0], "learn": [1.0, 2.0, 3.0], "turns_per_second": [1.0, 4.0, 2.0]},
        {"title": "two", "play": [123456.0] * 3, "learn": [7.0] * 3, "turns_per_second": [3.0, 8.0, 8.0]},
        {"title": "three", "missing": "no compiler"},
    ]
    assert speed.speed_cells(rows) == [
        ("one", "20", "2", "2", "1.00"),
        ("two", "123,000", "7", "8", "3.00"),
        ("three", "", "", "not here", ""),
    ]


def test_what_cant_be_compiled_is_missing(monkeypatch):
    def fail(network):
        raise RuntimeError("no compiler\nanywhere")

    monkeypatch.setattr(MLP, "compile", fail)
    compiled = [trick for trick in speed.TRICKS if trick.compiled]
    rows = speed.measure(SMALL, [speed.LEARNER, *compiled], 1, lambda _: None)
    assert [row.get("missing") for row in rows] == [None, "no compiler"]
    assert len(rows[0]["turns_per_second"]) == 1


def test_command_measures_and_notes_everything_down(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(speed, "TRICKS", [trick for trick in speed.TRICKS if not trick.compiled])
    path = tmp_path / "speed.json"
    assert speed.main([*QUICK, "--json", str(path)]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["config"]["size"] == 4
    assert [row["name"] for row in report["rows"]] == ["learner-play", "learner-learn", "learner"]
    assert [row["name"] for row in report["tricks"]] == [trick.name for trick in speed.TRICKS]
    assert {len(row["turns_per_second"]) for row in report["rows"] + report["tricks"]} == {2}
    play, learn, both = (row["turns_per_second"] for row in report["rows"])
    assert both == pytest.approx([1 / (1 / playing + 1 / learning) for playing, learning in zip(play, learn, strict=True)])
    out = capsys.readouterr().out
    for line in speed.profile_cells(report["profile"]):
        assert re.search(rf"{re.escape(line[1])} +│ +{re.escape(line[2])} │", out)

    assert speed.main([*QUICK, "--only", "learner"]) == 0
    assert "as configured" in capsys.readouterr().out
    assert speed.main(["--only", "nonsense"]) == 2
    assert speed.main([*QUICK, "--network", "afterstates"]) == 2
    assert "the tricks are the MLP's" in capsys.readouterr().err
    assert speed.main(["--games", "0"]) == 2
    with pytest.raises(ConfigError):
        TrainConfig(games=0)


def test_the_documents_show_the_committed_results(tmp_path):
    """The script that fills in the tables changes nothing any more."""
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    subprocess.run([sys.executable, str(tmp_path / "docs" / "learner_tables.py")], check=True, timeout=60, cwd=ROOT)
    for name in ("README.md", "docs/learner.md"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8")
    report = json.loads((ROOT / "docs" / "learner.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in report["tricks"]] == [trick.name for trick in speed.TRICKS]
    assert {len(row["turns_per_second"]) for row in report["tricks"]} == {report["repeats"]}
    assert report["repeats"] >= 5
    assert TrainConfig.from_dict(report["config"]) == TrainConfig()  # settings that came later are at their defaults
    assert report["machine"]["commit"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(speed.markdown_table(speed.SPEED_HEADINGS, speed.speed_cells(report["tricks"]), 1)) == 1
