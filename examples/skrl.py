"""skrl's PPO learns Rolit, over many rounds in lockstep, with models that mask.

    python -m examples.skrl --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/skrl.onnx

It meets a random player and, more and more often, its own past. Afterwards it plays in the arena, becomes a file, and the file
plays in the arena too.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import skrl
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.adapters.skrl import MaskedPolicy, PlanesValue, PolicyAndValue, make_env
from rolit_env.agents import Agent
from rolit_env.errors import RolitError
from rolit_env.variant import variant

GAMES = 512


def perceptron(cells: int, width: int) -> nn.Module:
    """Return a network from planes, float [N, 4, n, n], to so many outputs."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(4 * cells, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, width)
    )


def train(size: int, players: int, seconds: float, seed: int) -> tuple[PPO, int]:
    """Return skrl's learner after so many seconds of training, and the number of turns it learnt from."""
    skrl.logger.setLevel(logging.WARNING)
    set_seed(seed)  # of the environment as well, when it is wrapped
    pool = OpponentPool(seed=seed)
    env = make_env(GAMES, size=size, players=players, opponents=pool)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    turns = -(-variant(size, players).plies // players)  # of the learner in one round
    learner = PPO(
        models={
            "policy": MaskedPolicy(**spaces, network=perceptron(size * size, size * size), device=env.device),
            "value": PlanesValue(**spaces, network=perceptron(size * size, 1), device=env.device),
        },
        memory=RandomMemory(memory_size=turns, num_envs=GAMES, device=env.device),
        **spaces,
        device=env.device,
        cfg=PPO_CFG(
            rollouts=turns,
            learning_epochs=2,
            mini_batches=4,
            learning_rate=1e-3,
            discount_factor=1.0,  # the payoff comes at the end of a short round
            gae_lambda=0.95,
            entropy_loss_scale=0.01,
            value_loss_scale=0.5,
            experiment={"write_interval": 0, "checkpoint_interval": 0},
        ),
    )
    network = PolicyAndValue(learner.policy, learner.value)
    # Each call of `train` is one update; skrl goes on with the rounds where the last call left them.
    trainer = SequentialTrainer(
        env=env, agents=learner, cfg={"timesteps": turns, "headless": True, "disable_progressbar": True}
    )
    end, updates = time.monotonic() + seconds, 0
    while True:
        trainer.train()
        updates += 1
        if not time.monotonic() < end:  # nan ends at once too
            return learner, updates * turns * GAMES
        if updates % 10 == 0:
            rewards, ended = (learner.memory.get_tensor_by_name(name) for name in ("rewards", "terminated"))
            print(f"{updates * turns * GAMES:>12,} turns, mean payoff {rewards[ended].mean():+.2f}", flush=True)
            pool.add(TorchAgent(network, sample=True))


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.skrl", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/skrl.onnx"), help="file to write, with its card")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    try:
        check_out(options.out, ".onnx", rounds=1)  # now, not after the training
        learner, turns = train(size, players, options.seconds, options.seed)
        network = PolicyAndValue(learner.policy, learner.value)
        evaluate(TorchAgent(network, "skrl's PPO"), size, players)
        export_policy(
            network,
            options.out,
            size=size,
            players=players,
            library="skrl PPO",
            versions=["skrl"],
            about={"turns": turns, "seconds": options.seconds, "seed": options.seed},
        )
        evaluate(make_agent(str(options.out)), size, players)
    except RolitError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
