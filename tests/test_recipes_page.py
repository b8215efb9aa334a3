"""The comparison of recipes: what it would train, and the table that it makes of what was kept."""

import importlib.util
from pathlib import Path

import pytest

from training.checkpoint import FILE_NAME
from training.config import TrainConfig
from training.train import start_run

PAGE = Path(__file__).parents[1] / "docs" / "recipes.py"


@pytest.fixture(scope="module")
def recipes():
    spec = importlib.util.spec_from_file_location("recipes", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_recipes_are_settings_and_no_two_are_the_same(recipes):
    configs = [TrainConfig.from_dict({"network": "afterstates"} | settings) for settings in recipes.RECIPES.values()]
    assert len({repr(config) for config in configs}) == len(configs) > 10


def test_the_table_has_the_median_of_seeds_between_the_lowest_and_the_highest(recipes):
    def seed(share):
        return {"turns": 2_000_000, "win_share": dict.fromkeys(recipes.LADDER, share)}

    row = {"settings": {"width": 16}, "seeds": {"0": seed(0.5), "1": seed(0.9), "2": seed(0.6)}}
    machine = {"processor": "a processor", "cores": 2}
    kept = {"recipes": {"width 16": row}, "machine": machine, "date": "2026-01-01", "rounds": 2000}
    table = recipes.table(kept)
    assert table.count("0.600 (0.500 to 0.900)") == len(recipes.LADDER)
    assert "| width 16 | `width: 16` | 3 | 2.0 |" in table
    assert table.endswith("a processor, 2 cores, 2026-01-01; 2,000 rounds for each share, seed 0.")


def test_what_is_trained_is_kept_and_what_is_kept_is_not_trained_again(recipes, tmp_path, monkeypatch, capfd):
    for name, value in {"MINUTES": 0.02, "LADDER": ("random",), "ROOT": tmp_path, "KEPT": tmp_path / "kept.json"}.items():
        monkeypatch.setattr(recipes, name, value)
    monkeypatch.setattr(recipes.torch, "set_num_threads", lambda threads: None)  # it would stay so for other tests
    argv = ["train", "mlp", "afterstates", "--seeds", "3", "--rounds", "4"]
    assert recipes.main(argv) == 0
    assert "mlp, seed 3: budget used up" in capfd.readouterr().err
    kept = recipes.read()["recipes"]
    assert list(kept) == ["afterstates", "mlp"]
    assert set(kept["mlp"]["seeds"]["3"]["win_share"]) == {"random"}
    assert recipes.main(argv) == 0
    assert capfd.readouterr() == ("", "")


def test_a_run_of_other_settings_is_refused_and_stays(recipes, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    monkeypatch.setattr(recipes, "KEPT", tmp_path / "kept.json")
    run = recipes.folder("width 16", 0)
    start_run(TrainConfig(network="afterstates", width=24, minutes=recipes.MINUTES, evaluate_every=0), run)
    before = (run / FILE_NAME).read_bytes()
    assert recipes.main(["train", "width 16", "--seeds", "0"]) == 2
    assert f"the run in {run} has other settings than the recipe width 16; remove it" in capsys.readouterr().err
    assert (run / FILE_NAME).read_bytes() == before


def test_unknown_recipes_are_refused_with_those_there_are(recipes, capsys):
    with pytest.raises(SystemExit):
        recipes.main(["train", "no such thing"])
    assert "there is no recipe no such thing; there are afterstates" in capsys.readouterr().err
