"""The page of released models and the table in README.md: they say what the cards say, and their commands exist."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rolit_env import cli

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
CARDS = sorted((ROOT / "models").glob("[!.]*.json"))


def fill_in(folder):
    """Run the script that fills in the tables on copies in a folder, and return what became of both files."""
    (folder / "docs").mkdir(exist_ok=True)
    shutil.copy(ROOT / "README.md", folder)
    for name in ("models.md", "models_table.py"):
        shutil.copy(ROOT / "docs" / name, folder / "docs")
    if not (folder / "models").exists():
        (folder / "models").symlink_to(ROOT / "models")
    subprocess.run([sys.executable, str(folder / "docs" / "models_table.py")], check=True, timeout=60)
    return [(folder / name).read_text(encoding="utf-8") for name in ("README.md", "docs/models.md")]


def test_tables_are_those_of_the_cards(tmp_path):
    assert fill_in(tmp_path) == [(ROOT / "README.md").read_text(encoding="utf-8"), PAGE]


def test_new_cards_show_exams_limits_pictures_and_parameters(tmp_path):
    card = json.loads((ROOT / "models" / "4x4-2p-ntuple.json").read_text(encoding="utf-8"))
    score = {"positions": 549, "kept": 0.99996, "par": 0.78, "outcome_kept": 1.0, "lost": 0.004}
    exam = {"starter": "red", "complete": True, "overall": score | {"positions": 41481}, "own_play": score}
    limits = ["Plays 4x4.", "Weaker than random: why.", "No more."]
    card |= {"name": "new", "exam": [exam], "limits": limits, "picture": "new.png", "parameters": 123456}
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "new.json").write_text(json.dumps(card))
    (tmp_path / "models" / "new.safetensors").write_bytes(bytes(250_000))
    _, page = fill_in(tmp_path)
    assert "| 0.2 | 0.12 M |" in page
    assert "[picture](../models/new.png)" in page
    assert "| `new` | all, red first | 41,481 | 99.99 % | 78.00 % | 100 % | 0.00 |" in page
    assert "| `new` | under its own play | 549 |" in page
    assert "- `new`: Plays 4x4. No more." in page
    assert "Weaker" not in page


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_results_come_from_enough_rounds(path):
    card = json.loads(path.read_text(encoding="utf-8"))
    assert card["name"] == path.stem
    assert all(result["rounds"] >= 2000 for result in card["results"]["against"].values())
    for text in (f"`{path.stem}`", f"models/{path.name}"):
        assert text in PAGE


def test_pictures_are_those_of_cards_and_small():
    pictures = {json.loads(path.read_text(encoding="utf-8")).get("picture") for path in CARDS} - {None}
    assert {path.name for path in (ROOT / "models").glob("[!.]*.png")} == pictures
    assert all((ROOT / "models" / name).stat().st_size < 60_000 for name in pictures)
    assert sum(path.stat().st_size for path in (ROOT / "models").iterdir()) < 60e6


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_commands_exist_and_code_runs():
    text = PAGE[: PAGE.index("## The files")]
    (commands,) = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    for line in commands.splitlines():
        cli.build_parser().parse_args(shlex.split(line)[1:])
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "models.md", "exec"), {})
