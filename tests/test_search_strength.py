"""The page on opponents: what it says of searches with policies is what was measured, and the script measures."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "docs" / "search_strength.py"


def test_the_page_has_the_tables_of_what_was_measured(tmp_path):
    for name in ("search_strength.py", "search_strength.json", "opponents.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path)
    page = (tmp_path / "opponents.md").read_text(encoding="utf-8")
    start, end = page.index("<!-- search -->\n"), page.index("<!-- end -->", page.index("<!-- search -->"))
    (tmp_path / "opponents.md").write_text(page[: start + len("<!-- search -->\n")] + page[end:], encoding="utf-8")
    subprocess.run([sys.executable, str(tmp_path / SCRIPT.name)], check=True, timeout=60)
    assert (tmp_path / "opponents.md").read_text(encoding="utf-8") == page


def test_other_agents_are_measured_and_printed_only():
    kept = SCRIPT.with_suffix(".json").read_bytes()
    command = [sys.executable, str(SCRIPT), "4x4-2p", "--agents", "positional", "random", "--against", "random"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, cwd=ROOT)
    rows = [line.split("|") for line in found.stdout.splitlines() if line.startswith("| `")]
    assert [row[1].strip() for row in rows] == ["`positional`", "`random`"]
    shares = [float(row[2].split()[0]) for row in rows]
    assert shares[0] > 0.55 > shares[1]
    assert "128 rounds each, from 64 openings" in found.stdout
    assert SCRIPT.with_suffix(".json").read_bytes() == kept


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["nothing"], "there is no agent"),
        (["greedy"], "is no policy"),
        (["4x4-2p", "--openings", "0"], "openings=0"),
        (["4x4-2p", "--agents", "maxn"], "can't play"),
    ],
)
def test_what_cant_be_measured_is_refused_in_one_line(options, complaint):
    found = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert found.returncode == 1
    assert complaint in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
