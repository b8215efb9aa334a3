"""Tournaments on a real Ray cluster of two nodes end with the bytes of those played here, whoever is killed meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import refused

pytest.importorskip("ray", reason="Ray is not installed")

ROOT = Path(__file__).parents[2]

OWN = """
import os
import time
from pathlib import Path
from rolit_env.agents import RandomAgent

class Waiting(RandomAgent):
    def __init__(self) -> None:
        Path(f"played-under-{os.getppid()}").touch()  # the parent of a process that Ray started is that of its node

    def act(self, games, rng):
        while Path("out/results.jsonl").read_bytes().count(10) >= int(Path("wait-after").read_text()):
            time.sleep(0.02)
        return super().act(games, rng)

class Failing(RandomAgent):
    def act(self, games, rng):
        raise RuntimeError("no idea")

class Hungry(RandomAgent):
    def act(self, games, rng):
        raise MemoryError("all is used")
"""

CHUNKS = 36
"""Of which an agent that waits plays in half."""


def wait_after(chunks: int, folder: Path) -> None:
    """Let agents wait as soon as so many chunks were played."""
    (folder / "draft").write_text(f"{chunks}", encoding="utf-8")
    (folder / "draft").replace(folder / "wait-after")


def tournament(folder: Path, *options: str, agents: str = "random, greedy, positional, own:Waiting") -> Any:
    """Start a tournament from a folder that is not the one the cluster was started from, with agents that are known there."""
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    config = f"agents: [{agents}]\nopenings: 22\nsize: 4\nopenings_at_once: 4\nrecords: true\n"
    (folder / "t.yaml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "rolit_env", "tournament", "t.yaml", "--out", "out", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, stdout=-1, stderr=-1)


def ended(process: Any) -> tuple[int, str, str]:
    """Wait for a tournament to end and return its exit code, its output and what it told meanwhile."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def files(folder: Path) -> dict[str, bytes]:
    """Return all that a tournament must keep byte for byte; timings are times."""
    kept = [folder / "out" / "results.jsonl", folder / "out" / "settings.json", *(folder / "out" / "records").iterdir()]
    return {path.name: path.read_bytes() for path in kept}


def chunks(folder: Path) -> int:
    results = folder / "out" / "results.jsonl"
    return results.read_bytes().count(b"\n") if results.exists() else 0


def nodes_that_played(cluster: Any, folder: Path) -> int:
    parents = [one.all_processes["raylet"][0].process.pid for one in cluster.list_all_nodes()]
    return sum((folder / f"played-under-{parent}").exists() for parent in parents)


@pytest.fixture(scope="module")
def played_here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("here")
    wait_after(CHUNKS, folder)
    code, _, err = ended(tournament(folder, "--workers", "1"))
    assert code == 0, err
    assert chunks(folder) == CHUNKS
    return files(folder)


def test_a_node_that_is_killed_changes_no_byte(cluster: Any, node: Any, tmp_path: Path, played_here: dict[str, bytes]) -> None:
    wait_after(0, tmp_path)
    process = tournament(tmp_path, "--ray", cluster.address)
    while process.poll() is None and nodes_that_played(cluster, tmp_path) < 2:
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)  # in the middle of a chunk
    wait_after(CHUNKS, tmp_path)
    code, out, err = ended(process)
    assert code == 0, err
    assert "264 of 264 rounds played" in err
    assert out.startswith("Rolit for two on 4x4: 4 agents")  # what Ray says of a dead machine is no part of the report
    assert files(tmp_path) == played_here


def test_a_tournament_that_is_stopped_goes_on_where_it_was(
    cluster: Any, node: Any, tmp_path: Path, played_here: dict[str, bytes]
) -> None:
    for wanted, stop, left_with in ((6, signal.SIGKILL, -9), (12, signal.SIGINT, 130)):
        wait_after(wanted, tmp_path)
        process = tournament(tmp_path, "--ray", cluster.address)
        while process.poll() is None and chunks(tmp_path) < wanted:
            time.sleep(0.05)
        process.send_signal(stop)
        code, out, err = ended(process)
        assert (code, out) == (left_with, ""), err
        assert "Traceback" not in err
    there = chunks(tmp_path)
    assert 12 <= there < CHUNKS
    wait_after(CHUNKS, tmp_path)
    code, _, err = ended(tournament(tmp_path, "--ray", cluster.address))
    assert code == 0, err
    already = re.search(r"^(\d+) of 264", err, re.MULTILINE)
    assert already
    assert int(already[1]) >= there * 4  # rounds, of which a chunk has 4 or 8
    assert files(tmp_path) == played_here


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("Failing", "rolit: own:Failing failed with RuntimeError: no idea (line "),
        ("Hungry", "rolit: a machine of the cluster failed (MemoryError: all is used); all need this version of rolit-env"),
    ],
)
def test_what_fails_on_the_cluster_is_told_in_one_line(cluster: Any, tmp_path: Path, agent: str, told: str) -> None:
    code, out, err = ended(tournament(tmp_path, "--ray", cluster.address, agents=f"random, own:{agent}"))
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(told)
    assert "Traceback" not in err


@pytest.mark.parametrize("address", ["nonsense", "", "127.0.0.1:1"])
def test_an_address_without_a_cluster_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, address: str
) -> None:
    (tmp_path / "t.yaml").write_text("agents: [random, greedy]\nopenings: 1\n", encoding="utf-8")
    told = refused(capsys, "tournament", str(tmp_path / "t.yaml"), "--out", str(tmp_path / "out"), "--ray", address)
    assert told.startswith(f"rolit: there is no Ray cluster at {address!r} (")
    assert not (tmp_path / "out").exists()
