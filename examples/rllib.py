"""RLlib learns Rolit: masked PPO by self-play in all seats, against its past too, on one machine or on a Ray cluster.

    python -m examples.rllib --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/rllib.onnx
    python -m examples.rllib --address auto --runners 8 --seconds 3600
    tensorboard --logdir runs/examples

Afterwards the network plays in the arena, becomes a file, and the file plays in the arena too. Curves and checkpoints go into
the folder that has the file's name; `--restore` goes on from the last one. docs/ray.md tells how to use many machines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch.utils.tensorboard import SummaryWriter

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.rllib import MAIN, MaskedModule, RolitMultiAgentEnv, SeatMapping, SnapshotCallback, snapshot_names
from rolit_env.agents import Agent
from rolit_env.errors import RolitError
from rolit_env.variant import variant

ROUNDS = 64  # that each process plays side by side
SNAPSHOTS = 4  # past selves that the learner meets
CURVES = ("won", "drawn", "lost", "illegal_moves", "return_against_past")


def make_config(size: int, players: int, seed: int = 0, runners: int = 1) -> PPOConfig:
    """Return the settings of a learner that gets its rounds from so many processes, wherever in the cluster they are."""
    modules = [MAIN, *snapshot_names(SNAPSHOTS)]
    spec = RLModuleSpec(module_class=MaskedModule, model_config={"width": 256})
    batch = ROUNDS * max(1, runners) * variant(size, players).plies
    return (
        PPOConfig()
        .environment(RolitMultiAgentEnv, env_config={"size": size, "players": players})
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=ROUNDS, batch_mode="complete_episodes")
        .learners(num_learners=0)  # in this process; 1 is a process of its own, on a machine with a GPU if there is one
        .multi_agent(
            policies=set(modules),
            policy_mapping_fn=SeatMapping(players, SNAPSHOTS),
            policies_to_train=[MAIN],
            count_steps_by="agent_steps",
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=dict.fromkeys(modules, spec)))
        .callbacks(partial(SnapshotCallback, SNAPSHOTS))
        .training(
            lr=1e-3,
            gamma=1.0,  # rounds are short and only the end pays
            lambda_=0.95,
            train_batch_size_per_learner=batch,
            minibatch_size=min(1024, batch),
            num_epochs=2,
            entropy_coeff=0.01,
            use_kl_loss=False,
        )
        .fault_tolerance(restart_failed_env_runners=True)  # a machine that dies takes only its own rounds with it
        .debugging(seed=seed, log_level="ERROR")
    )


def train(algorithm: Algorithm, seconds: float, folder: Path) -> dict[str, Any]:
    """Train for so many seconds, write curves and a checkpoint into the folder, and return what the card is to say of it."""
    writer, deadline, turns = SummaryWriter(str(folder)), time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        began, result = time.monotonic(), algorithm.train()
        played = result["env_runners"]
        turns = int(played["num_env_steps_sampled_lifetime"])
        curves = {name: played[name] for name in CURVES if name in played}
        curves["turns_per_second"] = played["num_env_steps_sampled"] / (time.monotonic() - began)
        curves |= {name: result["learners"][MAIN][name] for name in ("entropy", "policy_loss", "vf_loss")}
        for name, value in curves.items():
            writer.add_scalar(name, value, turns)
        if algorithm.iteration % 10 == 0:
            past = curves.get("return_against_past", 0)
            print(f"{turns:>12,} turns, {curves['turns_per_second']:,.0f} a second, against its past {past:+.3f}")
    algorithm.save_to_path(str(folder.resolve() / "checkpoint"))
    writer.close()
    return {"turns": turns, "iterations": algorithm.iteration}


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.rllib", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/rllib.onnx"), help="file to write, beside its card")
    parser.add_argument("--runners", type=int, default=1, help="processes that play rounds; 0: play where the learner is")
    parser.add_argument("--address", help="address of a Ray cluster; auto is the one that this machine is part of")
    parser.add_argument("--restore", action="store_true", help="go on from the checkpoint of the last run with the same --out")
    options = parser.parse_args(argv)
    size, players, folder = options.size, options.players, options.out.with_suffix("")
    checkpoint = folder.resolve() / "checkpoint"
    if options.runners < 0:
        parser.error(f"--runners {options.runners} can't be; allowed are ints from 0 up")
    if options.restore and not checkpoint.is_dir():
        parser.error(f"there is no checkpoint {checkpoint} to go on from")
    try:
        check_out(options.out, ".onnx", rounds=2000)  # now, not after an hour of training
        config = make_config(size, players, options.seed, options.runners)
        ray.init(address=options.address, log_to_driver=False, logging_level="error")
        algorithm = config.build_algo()
        if options.restore:
            algorithm.restore_from_path(str(checkpoint))
        about = train(algorithm, options.seconds, folder)
        network = algorithm.get_module(MAIN).network
        algorithm.stop()
        evaluate(TorchAgent(network, "PPO"), size, players)
        about |= {"seconds": options.seconds, "seed": options.seed}
        export_policy(network, options.out, size=size, players=players, library="RLlib PPO", versions=["ray"], about=about)
        evaluate(make_agent(str(options.out)), size, players)
    except (RolitError, ConnectionError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
