"""Releases: the median of several runs of either kind, what its card says, recipes that go on, sentences for mistakes."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch

from rolit_env import cli, make_agent, play_rounds
from rolit_env.agents import NTupleAgent
from rolit_env.variant import all_variants
from training import ntuple, recipe, train
from training import release as release_module
from training.card import limits
from training.checkpoint import save_checkpoint
from training.config import TrainConfig
from training.learner import Learner
from training.ntuple import NTupleConfig, NTupleLearner
from training.release import KINDS, ladder, release, training_command

TABLES = NTupleConfig(size=4, minutes=0, turns=12 * 1000, rounds=500, workers=2, evaluate_every=0)
POLICY = TrainConfig(size=4, hidden=(16,), bfloat16="never", minutes=0, turns=12)


def evaluated(run):
    shares = {"random": 0.7, "greedy": 0.6, "positional": 0.5}
    run.evaluations = [{"turns": at * 10**6, "seconds": 60.0 * at, "win_share": shares} for at in (1, 2)]
    return run


def learner(seed, weight):
    run = Learner.fresh(replace(POLICY, seed=seed))
    with torch.no_grad():
        run.network.policy.weight.mul_(weight)
    return evaluated(run)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folders of some runs of each kind, of different strength."""
    root, found = tmp_path_factory.mktemp("runs"), {}
    for kind, count in (("tables", 3), ("policy", 2)):
        found[kind] = [root / f"{kind}-{seed}" for seed in range(count)]
        for seed, folder in enumerate(found[kind]):
            folder.mkdir()
            if kind == "policy":
                save_checkpoint(learner(seed, 50), folder)
                continue
            run = NTupleLearner.fresh(replace(TABLES, seed=seed, turns=(1, 12 * 1000, 12 * 8000)[seed]))
            if seed:
                ntuple.train(run, folder)
            ntuple.save(evaluated(run), folder)
    return {kind: [str(folder) for folder in paths] for kind, paths in found.items()}


@pytest.fixture(scope="module")
def released(folders, tmp_path_factory):
    """Return the files that the command makes of them."""
    root = tmp_path_factory.mktemp("models")
    files = {"tables": root / "four.safetensors", "policy": root / "four-policy.onnx"}
    for kind, out in files.items():
        argv = [*folders[kind], "--out", str(out), "--rounds", "60", "--limits", "It was made for a test."]
        assert release_module.main(argv) == 0
    return files


@pytest.mark.parametrize("kind", ["tables", "policy"])
def test_the_median_is_released_with_the_results_of_all(released, kind):
    out = released[kind]
    card = json.loads(out.with_suffix(".json").read_text())
    assert card["name"] == out.stem
    assert card["bytes"] == out.stat().st_size
    assert card["variant"] == {"size": 4, "players": 2}
    assert card["machine"]["threads"] == (2 if kind == "tables" else torch.get_num_threads())
    assert card["machine"]["processor"]
    assert (card["parameters"] if kind == "tables" else card["network"]["parameters"]) > 0
    means = [np.mean(list(seed["win_share"].values())) for seed in card["seeds"]]
    assert [seed["seed"] for seed in card["seeds"]] == list(range(3 if kind == "tables" else 2))
    assert sorted(means)[(len(means) - 1) // 2] == means[card["config"]["seed"]]
    against = card["results"]["against"]
    assert card["seeds"][card["config"]["seed"]]["win_share"] == {name: one["win_share"][0] for name, one in against.items()}
    again = play_rounds([make_agent(str(out)), "greedy"], 60, size=4, seed=0)
    assert again.by_seat.tolist() == against["greedy"]["by_seat"]
    assert "It was made for a test." in card["limits"]
    assert [exam["starter"] for exam in card["exam"]] == ["red", "green"]
    assert all(exam["own_play"] for exam in card["exam"])
    assert card["commands"]["results"] == f"rolit check {out}"
    picture = (out.parent / card["picture"]).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 60_000
    assert len(card["trained"]["evaluations"]) == 2
    beside = {path.name for path in out.parent.iterdir() if path.stem == out.stem}
    assert beside == {out.name, f"{out.stem}.json", f"{out.stem}.png"}


def test_policies_meet_the_released_tables_and_tables_do_not(released):
    for kind, met in (("policy", True), ("tables", False)):
        card = json.loads(released[kind].with_suffix(".json").read_text())
        assert ("4x4-2p-ntuple" in card["results"]["against"]) == met


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_every_ladder_has_agents_that_play_the_variant(chosen):
    opponents = ladder(chosen, KINDS[Learner])
    assert f"{chosen.name}-ntuple" in opponents
    assert opponents[:3] == ("random", "greedy", "positional")
    for name in opponents:
        make_agent(name).check_variant(chosen)


@pytest.mark.parametrize("kind", ["tables", "policy"])
def test_the_cards_commands_repeat_its_results_and_its_training(released, kind, capsys):
    out = released[kind]
    card = json.loads(out.with_suffix(".json").read_text())
    assert cli.main([*shlex.split(card["commands"]["results"])[1:], "--exact"]) == 0
    assert "0 outside" in capsys.readouterr().out
    module, *argv = shlex.split(card["commands"]["training"])[2:]
    command = {"training.ntuple": ntuple.COMMAND, "training.train": train.COMMAND}[module]
    assert command.settings(argv)[0].to_dict() == card["config"]


def test_a_run_by_a_recipe_is_trained_again_by_its_name():
    for name, kind in (("8x8-2p", Learner), ("6x6-4p-ntuple", NTupleLearner)):
        config, _ = KINDS[kind].command.settings(["--config", f"configs/{name}.yaml", "--seed", "3"])
        run = kind.fresh(config)
        assert training_command(run, name) == f"make models TARGET={name}"
        run.config = replace(config, minutes=0.5)
        assert "--seed 3 --minutes 0.5" in training_command(run, name)
        assert training_command(run, "4x4-2p" if kind is NTupleLearner else "4x4-2p-ntuple").startswith("python -m training.")


def test_files_in_models_go_by_their_short_names(tmp_path, monkeypatch):
    monkeypatch.setattr(release_module, "models_folder", lambda: tmp_path)
    monkeypatch.setattr(release_module, "ladder", lambda chosen, kind: ("random",))
    card = release([NTupleLearner.fresh(TABLES)], tmp_path / "four.safetensors", rounds=2)
    assert card["results"]["command"].startswith("rolit evaluate four --against random")
    assert card["commands"]["results"] == "make models-check TARGET=four"
    assert card["exam"][0]["agent"] == "four"


def test_limits_say_whom_it_does_not_beat():
    def result(share):
        return {"win_share": [share, 1 - share], "interval": [0.02, 0.02], "par": [0.5, 0.5]}

    exam = {"complete": False, "overall": {"kept": 0.75}, "by_empties": {"14": {"kept": 0.7}, "10": {"kept": 0.8}}}
    against = {"random": result(0.9), "alphabeta:depth=2": result(0.51), "alphabeta:depth=4": result(0.3)}
    said = limits({"variant": {"size": 8, "players": 2}, "results": {"against": against}, "exam": [exam]}, "No more.")
    assert len(said) == 5
    assert said[1] == "No stronger than alphabeta:depth=2: win share 0.510 ± 0.020, par 0.50."
    assert said[2] == "Weaker than alphabeta:depth=4: win share 0.300 ± 0.020, par 0.50."
    assert said[3].startswith(
        "Keeps the exact value in 75.00 % of endgames with 10 to 14 empty cells, in 70.00 % of those with 14;"
    )


def test_runs_without_curves_have_no_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(release_module, "ladder", lambda chosen, kind: ("random",))
    assert release([NTupleLearner.fresh(TABLES)], tmp_path / "four.safetensors", rounds=2)["picture"] is None
    assert not (tmp_path / "four.png").exists()


@pytest.mark.parametrize("kind", ["tables", "policy"])
def test_a_released_file_is_measured_again(released, kind, tmp_path, capsys):
    ending, card = released[kind].suffix, json.loads(released[kind].with_suffix(".json").read_text())
    file, place = tmp_path / f"again{ending}", tmp_path / "again.json"
    file.write_bytes(released[kind].read_bytes())
    before = card | {"results": {"command": "", "against": {}}, "limits": ["Stale.", *card["limits"][-1:]]}
    before["seeds"] = [one | {"win_share": {}} for one in card["seeds"]]
    place.write_text(json.dumps(before))
    assert release_module.main(["--again", str(file), "--rounds", "60"]) == 0
    now = json.loads(place.read_text())
    for name, result in card["results"]["against"].items():
        assert now["results"]["against"][name] == result | {"agents": [str(file), name]}
    assert [bool(one["win_share"]) for one in now["seeds"]] == [one["seed"] == card["config"]["seed"] for one in now["seeds"]]
    assert now["limits"][-1] == "Stale. It was made for a test."
    assert {key for key in now if now[key] != card.get(key)} <= {"results", "seeds", "limits", "exam"}


def test_mistakes_are_one_sentence_and_leave_what_was_there(folders, released, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    save_checkpoint(Learner.fresh(replace(POLICY, entropy=0.5)), other)
    out = tmp_path / "x.onnx"
    out.write_bytes(b"old")
    for argv, word in (
        ([folders["tables"][0], "--out", str(out)], "must end in .safetensors"),
        ([folders["policy"][0], "--out", str(tmp_path / "x.safetensors")], "must end in .onnx"),
        ([folders["policy"][0], folders["tables"][0], "--out", str(out)], "kind"),
        ([folders["policy"][0], str(other), "--out", str(out)], "differ in entropy"),
        ([str(tmp_path / "none"), "--out", str(out)], "there is no checkpoint"),
        ([folders["policy"][0], "--out", str(out), "--rounds", "0"], "rounds=0 is too few"),
        ([folders["policy"][0], "--out", "/proc/no/x.onnx"], "can't be written"),
        (["--out", str(out)], "runs"),
        ([folders["policy"][0]], "--out FILE"),
        ([folders["policy"][0], "--again", str(out)], "alone"),
        (["--again", str(tmp_path / "x.bin")], ".onnx or .safetensors"),
        (["--again", str(released["policy"]), "--rounds", "0"], "rounds=0 is too few"),
        (["--again", str(tmp_path / "none" / "x.onnx")], "x.onnx"),
    ):
        assert release_module.main(argv) == 2
        error = capsys.readouterr().err
        assert error.startswith("training.release: ")
        assert word in error
        assert error.count("\n") == 1
    assert out.read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"other", "x.onnx"}


TINY = {
    "tiny": "size: 4\ngames: 16\nminibatch: 64\nturns: 2000\nhidden: [16]\nevaluate_every: 0\nevaluate_rounds: 4\n",
    "tiny-ntuple": "size: 4\nturns: 12000\nrounds: 100\nworkers: 1\nevaluate_every: 0\nevaluate_rounds: 4\n",
}


@pytest.mark.parametrize("name", TINY)
def test_a_recipe_goes_on_where_it_was_stopped(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(release_module, "ladder", lambda chosen, kind: ("random",))
    file = tmp_path / f"{name}.yaml"
    file.write_text(TINY[name])
    kind = recipe.kind_of(file)
    seeds = ["5", "6"] if name == "tiny-ntuple" else ["6"]

    def make(runs, out):
        return recipe.main(
            [str(file), "--seeds", *seeds, "--runs", str(runs), "--out", str(out), "--rounds", "4", "--at_once", "1"]
        )

    def train_seed(run, place, should_stop):
        if run.config.seed == 6 and run.iteration == 0:
            return kind.train(run, place, lambda: run.iteration > 0)  # as Ctrl-C does
        return kind.train(run, place, should_stop)

    assert make(tmp_path / "whole", tmp_path / "a") == 0
    monkeypatch.setitem(KINDS, Learner if name == "tiny" else NTupleLearner, kind._replace(train=train_seed))
    parts = tmp_path / "parts"
    assert make(parts, tmp_path / "b") == 1
    assert "the same command goes on" in capsys.readouterr().out
    assert not (tmp_path / "b").exists()
    before = {path: path.stat().st_mtime_ns for path in parts.glob(f"{name}-5/*")}
    assert make(parts, tmp_path / "b") == 0
    assert before == {path: path.stat().st_mtime_ns for path in parts.glob(f"{name}-5/*")}
    made = [tmp_path / folder / f"{name}{kind.ending}" for folder in ("a", "b")]
    if name == "tiny":
        assert made[0].read_bytes() == made[1].read_bytes()
    else:  # safetensors writes its metadata in any order
        np.testing.assert_array_equal(*(NTupleAgent(path).ntuples.weights for path in made))


def test_seeds_side_by_side_are_those_that_are_trained_one_after_the_other(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(release_module, "ladder", lambda chosen, kind: ("random",))
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)  # it would stay so for other tests
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY["tiny"])
    for at_once in ("1", "2"):
        out = ["--runs", str(tmp_path / f"runs-{at_once}"), "--out", str(tmp_path / at_once)]
        assert recipe.main([str(file), "--seeds", "5", "6", *out, "--rounds", "4", "--at_once", at_once]) == 0
    assert "seed 6: budget used up after" in capfd.readouterr().err
    assert (tmp_path / "1" / "tiny.onnx").read_bytes() == (tmp_path / "2" / "tiny.onnx").read_bytes()
    assert recipe.main([str(file), "--at_once", "0"]) == 2
    assert "allowed is 1 and up" in capfd.readouterr().err


def test_recipes_that_can_not_be_are_told_in_one_sentence(tmp_path, capsys):
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY["tiny"])
    (tmp_path / "tiny-5").mkdir()
    other, _ = train.COMMAND.settings(["--config", str(file), "--seed", "5", "--entropy", "0.5"])
    save_checkpoint(Learner.fresh(other), tmp_path / "tiny-5")
    runs = ["--seeds", "5", "--runs", str(tmp_path), "--out", str(tmp_path / "out")]
    for argv, words in (
        ([], ["a recipe must be named; there are", "4x4-2p, 4x4-2p-ntuple", "8x8-4p-ntuple"]),
        (["8x8-5p"], ["no recipe 8x8-5p; there are", "8x8-2p"]),
        (["tournament-8x8-2p"], ["there is no recipe"]),
        ([str(tmp_path / "none.yaml")], ["there is no recipe"]),
        ([str(file), *runs], ["entropy 0.5, not 0.03", "--runs"]),
    ):
        assert recipe.main(argv) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        for word in words:
            assert word in error
    assert not (tmp_path / "out").exists()
