"""A real Ray cluster of two nodes on this machine: training goes on when one of them is killed, and takes in another."""

from __future__ import annotations

from functools import partial
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed")


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
