"""A real Ray cluster of two nodes on this machine: tournaments and training go on when one of them is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
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

class Slow(RandomAgent):
    def __init__(self, ms: int = 0) -> None:
        self.ms = ms
        Path("known.txt").read_text()
        Path(f"played-under-{os.getppid()}").touch()  # the parent of a process that Ray started is that of its node

    def act(self, games, rng):
        time.sleep(self.ms / 1000)
        return super().act(games, rng)

class Failing(RandomAgent):
    def act(self, games, rng):
        raise RuntimeError("no idea")

class Hungry(RandomAgent):
    def act(self, games, rng):
        raise MemoryError("all is used")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with one core; each test adds the second node that it may kill."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        folder = tempfile.mkdtemp(prefix="ray-")  # pytest's own folders are too deep for the paths of sockets
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        one = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        yield one
        one.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def node(cluster: Any) -> Iterator[Any]:
    second = cluster.add_node(num_cpus=1)
    yield second
    if second in cluster.worker_nodes:
        cluster.remove_node(second, allow_graceful=False)


def tournament(folder: Path, agents: str, openings: int, *options: str, **more: Any) -> subprocess.Popen[str]:
    """Start a tournament from a folder that is not the one the cluster was started from, with agents that are known there."""
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    (folder / "known.txt").write_text("found", encoding="utf-8")
    config = f"agents: [{agents}]\nopenings: {openings}\nsize: 4\nopenings_at_once: 4\nrecords: true\n"
    (folder / "t.yaml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "rolit_env", "tournament", "t.yaml", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, stdout=-1, stderr=-1, **more)


def files(folder: Path) -> dict[str, bytes]:
    """Return all that a tournament must keep byte for byte; timings are times."""
    kept = [folder / "results.jsonl", folder / "settings.json", *sorted((folder / "records").iterdir())]
    return {path.name: path.read_bytes() for path in kept}


def nodes_that_played(cluster: Any, folder: Path) -> int:
    parents = [one.all_processes["raylet"][0].process.pid for one in cluster.list_all_nodes()]
    return sum((folder / f"played-under-{parent}").exists() for parent in parents)


def test_a_tournament_on_a_cluster_is_the_one_played_here(cluster: Any, node: Any, tmp_path: Path) -> None:
    agents = "random, greedy, positional, own:Slow"
    for place in (["--workers", "1"], ["--ray", cluster.address]):
        process = tournament(tmp_path, agents, 22, "--out", place[0].strip("-"), *place)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "264 of 264 rounds played" in err
        assert "Rolit for two on 4x4: 4 agents" in out
    assert len(files(tmp_path / "ray")) == 2 + 36
    assert files(tmp_path / "ray") == files(tmp_path / "workers")


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("Failing", "rolit: own:Failing failed with RuntimeError: no idea (line "),
        ("Hungry", "rolit: a machine of the cluster failed (MemoryError: all is used); all need this version of rolit-env"),
    ],
)
def test_what_fails_on_the_cluster_is_told_in_one_line(cluster: Any, tmp_path: Path, agent: str, told: str) -> None:
    process = tournament(tmp_path, f"random, own:{agent}", 40, "--ray", cluster.address)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
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


def test_a_tournament_goes_on_when_a_node_is_killed(cluster: Any, node: Any, tmp_path: Path) -> None:
    assert tournament(tmp_path, "random, own:Slow", 80, "--out", "here", "--workers", "1").wait(timeout=60) == 0
    process = tournament(tmp_path, "random, 'own:Slow:ms=50'", 80, "--out", "there", "--ray", cluster.address)
    while process.poll() is None and nodes_that_played(cluster, tmp_path) < 2:
        time.sleep(0.05)
    results = tmp_path / "there" / "results.jsonl"
    assert results.read_bytes().count(b"\n") < 18  # of 20, so that the node dies while it plays
    cluster.remove_node(node, allow_graceful=False)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    lines = [(tmp_path / place / "results.jsonl").read_bytes().splitlines() for place in ("here", "there")]
    here_balls, there_balls = ([line.split(b'"balls":')[1] for line in one] for one in lines)
    assert len(here_balls) == 20
    assert there_balls == here_balls


def test_training_goes_on_when_a_node_is_killed_and_takes_in_one_that_joins(cluster: Any, node: Any) -> None:
    import ray

    from examples.rllib import SNAPSHOTS, make_config
    from rolit_env.adapters.rllib import SnapshotCallback

    config = make_config(6, 2, runners=2).callbacks(partial(SnapshotCallback, SNAPSHOTS, every=2))
    config.env_runners(num_envs_per_env_runner=16).training(train_batch_size_per_learner=2 * 16 * 32, minibatch_size=256)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="critical")
    algorithm = config.build_algo()
    runners = algorithm.env_runner_group
    turns = [0]

    def train() -> None:
        played = algorithm.train()["env_runners"]
        turns.append(played["num_env_steps_sampled_lifetime"])
        assert turns[-1] > turns[-2]
        assert played["illegal_moves"] == 0

    def train_until(count: int) -> None:
        for _ in range(100):
            train()
            if runners.num_healthy_remote_workers() == count:
                return
        raise AssertionError(f"there are {runners.num_healthy_remote_workers()} runners, not {count}")

    def nodes() -> set[str]:
        return set(runners.foreach_env_runner(lambda _: ray.get_runtime_context().get_node_id(), local_env_runner=False))

    def opponents() -> list[list[float]]:
        """Return what all runners, that of this process too, take for the past selves."""
        return runners.foreach_env_runner(
            lambda runner: [float(runner.module[f"past_{slot}"].network.value.bias) for slot in range(SNAPSHOTS)]
        )

    try:
        train()
        both = nodes()
        assert len(both) == 2
        killer = Thread(target=cluster.remove_node, args=(node,), kwargs={"allow_graceful": False})
        killer.start()  # while they play
        train_until(1)
        killer.join()
        train()
        assert len(nodes() & both) == len(nodes()) == 1
        assert opponents()[0] == opponents()[1]
        third = cluster.add_node(num_cpus=1)
        train_until(2)
        train()
        assert len(nodes()) == 2
        assert nodes() != both
        assert opponents()[0] == opponents()[1] == opponents()[2]
        algorithm.stop()
    finally:
        ray.shutdown()
    cluster.remove_node(third, allow_graceful=False)
