"""Tianshou's PPO, or its DQN, learns Rolit, over many rounds in lockstep.

    python -m examples.tianshou --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/tianshou.onnx

It meets a random player and, more and more often, its own past. Afterwards it plays in the arena, becomes a file, and the file
plays in the arena too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step
from torch import nn

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.adapters.tianshou import GreedyQ, MaskedActor, PlanesCritic, PlanesQ, PolicyAndValue, RolitTianshouEnv
from rolit_env.agents import Agent
from rolit_env.errors import RolitError
from rolit_env.variant import variant

GAMES = 256
BATCH = 2048


def perceptron(cells: int, width: int) -> nn.Module:
    """Return a network from planes, float [N, 4, n, n], to so many outputs."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(4 * cells, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, width)
    )


def make_ppo(env: RolitTianshouEnv) -> PPO:
    """Return a PPO whose actor masks itself."""
    (space, *_), optimizer = env.action_space, AdamOptimizerFactory(lr=1e-3, eps=1e-5)
    actor, critic = MaskedActor(perceptron(space.n, space.n)), PlanesCritic(perceptron(space.n, 1))
    policy = DiscreteActorPolicy(actor=actor, action_space=space)
    # The payoff comes at the end of a short round, so nothing is discounted.
    return PPO(policy=policy, critic=critic, optim=optimizer, gamma=1.0, max_grad_norm=0.5, max_batchsize=BATCH)


def make_dqn(env: RolitTianshouEnv, turns: int) -> DQN:
    """Return a DQN that learns from what rounds came to, so many turns later at the most."""
    (space, *_), optimizer = env.action_space, AdamOptimizerFactory(lr=1e-3)
    policy = DiscreteQLearningPolicy(model=PlanesQ(perceptron(space.n, space.n)), action_space=space, eps_training=0.1)
    return DQN(policy=policy, optim=optimizer, gamma=1.0, n_step_return_horizon=turns, target_update_freq=100)


def train(size: int, players: int, seconds: float, seed: int, dqn: bool = False) -> tuple[nn.Module, int]:
    """Return a network after so many seconds of training, and the number of turns it learnt from."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # where Tianshou gets its minibatches and random actions from
    pool = OpponentPool(seed=seed)
    env = RolitTianshouEnv(GAMES, size=size, players=players, opponents=pool)
    env.seed(seed)
    turns = -(-variant(size, players).plies // players)  # of the learner in one round
    rollout = turns * GAMES
    if dqn:
        learner, buffer = make_dqn(env, turns), VectorReplayBuffer(10 * rollout, GAMES)
        network = GreedyQ(learner.policy.model)
    else:
        learner, buffer = make_ppo(env), VectorReplayBuffer(rollout, GAMES)
        network = PolicyAndValue(learner.policy.actor, learner.critic)
    collector = Collector(learner, env, buffer, exploration_noise=dqn)
    collector.reset()
    end, updates = time.monotonic() + seconds, 0
    while True:
        with policy_within_training_step(learner.policy):
            played = collector.collect(n_step=rollout)
            if dqn:
                for _ in range(2 * -(-rollout // BATCH)):
                    learner.update(buffer, BATCH)
            else:
                learner.update(buffer, batch_size=BATCH, repeat=2)
                collector.reset_buffer(keep_statistics=True)
        updates += 1
        if not time.monotonic() < end:  # nan ends at once too
            return network, collector.collect_step
        if updates % 10 == 0:
            print(f"{collector.collect_step:>12,} turns, mean payoff {played.returns.mean():+.2f}", flush=True)
            pool.add(TorchAgent(network, sample=not dqn))


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.tianshou", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/tianshou.onnx"), help="file to write, with its card")
    parser.add_argument("--dqn", action="store_true", help="learn by DQN, not by PPO")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    name = "DQN" if options.dqn else "PPO"
    try:
        check_out(options.out, ".onnx", rounds=1)  # now, not after the training
        network, turns = train(size, players, options.seconds, options.seed, options.dqn)
        evaluate(TorchAgent(network, f"Tianshou's {name}"), size, players)
        export_policy(
            network,
            options.out,
            size=size,
            players=players,
            library=f"Tianshou {name}",
            versions=["tianshou"],
            about={"turns": turns, "seconds": options.seconds, "seed": options.seed},
        )
        evaluate(make_agent(str(options.out)), size, players)
    except RolitError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
