"""The page on other libraries: its tables are those of its script, what was kept is printed, and what falls short is said."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script over copies of what it fills in."""
    for name in ("README.md", "constraints.txt", "constraints-rllib.txt", "constraints-agilerl.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "docs").mkdir()
    for name in ("libraries.md", "libraries.json"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    spec = importlib.util.spec_from_file_location("libraries_script", ROOT / "docs" / "libraries.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    for name, path in {"ROOT": tmp_path, "DOCS": tmp_path / "docs", "ROWS": tmp_path / "docs" / "libraries.json"}.items():
        monkeypatch.setattr(module, name, path)
    return module


def row(name, inside=0.9, file=0.9, seconds=300):
    shares = {key: {"win_share": share, "interval": 0.01} for key, share in (("inside", inside), ("file", file))}
    machine = {"processor": "an abacus", "cores": 2, "commit": None}
    about = {"name": name, "date": "2026-12-01", "machine": machine, "versions": {}, "size": 6, "players": 3}
    return {**about, "turns": 1_234_567, "seconds": seconds, **shares}


def test_the_documents_show_the_committed_results(script):
    """The script that fills in the tables changes nothing any more."""
    script.main(["table"])
    for name in ("README.md", "docs/libraries.md"):
        assert (script.ROOT / name).read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8")


def test_what_is_kept_is_shown(script, capsys):
    for name in reversed(script.EXAMPLES):
        script.keep(row(name, file=0.5))
    script.keep(row("skrl", file=0.889))
    assert [kept["name"] for kept in json.loads(script.ROWS.read_text(encoding="utf-8"))["rows"]] == list(script.EXAMPLES)
    script.main(["table"])
    table = "| skrl, PPO | 6×6, 3 | 300 | 1,234,567 | 4,100 | 0.900 ± 0.010 | 0.889 ± 0.010 |\n"
    assert table in capsys.readouterr().out
    assert table in (script.DOCS / "libraries.md").read_text(encoding="utf-8")
    readme = (script.ROOT / "README.md").read_text(encoding="utf-8")
    (version,) = re.findall(r"^ray==(.*)$", (ROOT / "constraints-rllib.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert f"| RLlib | ray {version} | [constraints-rllib.txt](constraints-rllib.txt) | 2026-12-01 |\n" in readme


def test_what_falls_short_fails(script, capsys):
    for name in script.EXAMPLES:
        script.keep(row(name, 0.71, 0.7))
    assert script.main(["table"]) == 0
    script.keep(row("sb3", 0.69, 0.69))
    script.keep(row("skrl", 0.75, 0.72))
    assert script.main(["table"]) == 1
    low, apart = capsys.readouterr().err.splitlines()[-2:]
    assert low == "sb3 wins 0.690 of its rounds against random, less than 0.70"
    assert apart == "skrl wins 0.750 in its library and 0.720 as a file"


def test_a_missing_row_fails(script, capsys):
    for name in list(script.EXAMPLES)[1:]:
        script.keep(row(name))
    script.ROWS.write_text(json.dumps({"tested": "", "rows": [row(name) for name in list(script.EXAMPLES)[1:]]}))
    assert script.main(["table"]) == 1
    assert capsys.readouterr().err == f"{next(iter(script.EXAMPLES))} is missing\n"


def test_every_example_is_a_row_of_the_page(script):
    modules = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__"}
    assert {example.module for example in script.EXAMPLES.values()} == modules
    page = (ROOT / "docs" / "libraries.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)(?: (--\w+))?` \|", page, flags=re.MULTILINE)
    # An option with a value, such as a number of processes, makes no learner of another kind.
    kinds = {(example.module, example.more[0] if len(example.more) == 1 else "") for example in script.EXAMPLES.values()}
    assert set(rows) == kinds


EXAMPLE = f"""
import shutil, sys
out = sys.argv[sys.argv.index("--out") + 1]
for ending in ("onnx", "json"):
    shutil.copy(f"{ROOT}/models/8x8-2p.{{ending}}", out.replace("onnx", ending))
print("learning")
print("It against random: 0.912 ± 0.012 (par 0.50)")
print(out, "against random: 0.913 ± 0.012 (par 0.50)")
sys.exit("--seed 9" in " ".join(sys.argv))
"""


def test_a_row_has_what_the_example_printed_and_what_its_file_does(script, capfd):
    (script.ROOT / "examples").mkdir()
    (script.ROOT / "runs" / "libraries").mkdir(parents=True)
    (script.ROOT / "examples" / "__init__.py").touch()
    (script.ROOT / "examples" / "skrl.py").write_text(EXAMPLE, encoding="utf-8")
    learnt = script.learn("skrl", size=8, players=2, seconds=1, seed=0)
    card = json.loads((ROOT / "models" / "8x8-2p.json").read_text(encoding="utf-8"))
    assert learnt["inside"] == {"win_share": 0.912, "interval": 0.012}
    assert learnt["file"]["win_share"] == pytest.approx(card["results"]["against"]["random"]["win_share"][0], abs=0.015)
    assert (learnt["turns"], learnt["versions"]) == (card["trained"]["turns"], card["versions"])
    assert learnt["command"] in capfd.readouterr().out
    assert len(script.short(learnt)) == 1  # .912 in the library, but another file
    assert script.learn("skrl", size=8, players=2, seconds=1, seed=9) is None
    assert capfd.readouterr().err == "skrl has failed\n"
