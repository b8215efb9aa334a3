"""AgileRL's PPO learns Rolit, over many rounds in lockstep, with masks in acting and learning.

    python -m examples.agilerl --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/agilerl.onnx

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
from agilerl.algorithms import PPO
from agilerl.rollouts import collect_rollouts

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.agilerl import PolicyAndValue, RolitAgileEnv
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.agents import Agent
from rolit_env.errors import RolitError
from rolit_env.variant import variant

GAMES = 512


def train(size: int, players: int, seconds: float, seed: int) -> tuple[PPO, int]:
    """Return AgileRL's learner after so many seconds of training, and the number of turns it learnt from."""
    pool = OpponentPool(seed=seed)
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # by it AgileRL shuffles
    env = RolitAgileEnv(GAMES, size=size, players=players, opponents=pool)
    turns = -(-variant(size, players).plies // players)  # of the learner in one round
    learner = PPO(
        env.single_observation_space,
        env.single_action_space,
        net_config={"latent_dim": 128, "encoder_config": {"hidden_size": [256]}, "head_config": {"hidden_size": [256]}},
        share_encoders=False,
        num_envs=GAMES,
        learn_step=turns * GAMES,
        batch_size=turns * GAMES // 4,
        update_epochs=2,
        lr=1e-3,
        gamma=1.0,  # the payoff comes at the end of a short round
        rollout_buffer_config={"use_gae": False},  # see RolitAgileEnv
        ent_coef=0.01,
    )
    network = PolicyAndValue(learner)
    observation, info = env.reset(seed=seed)
    now = [observation, np.zeros(GAMES, np.bool_), np.zeros(GAMES), info]
    end, updates = time.monotonic() + seconds, 0
    while True:
        last = dict(zip(("last_obs", "last_done", "last_scores", "last_info"), now, strict=True))
        _, *now = collect_rollouts(learner, env, turns, **last)
        learner.learn()
        updates += 1
        if not time.monotonic() < end:  # nan ends at once too
            return learner, updates * turns * GAMES
        if updates % 10 == 0:
            print(f"{updates * turns * GAMES:>12,} turns, mean payoff {np.mean(learner.scores):+.2f}", flush=True)
            learner.scores.clear()
            pool.add(TorchAgent(network, sample=True))


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.agilerl", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/agilerl.onnx"), help="file to write, with its card")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    try:
        check_out(options.out, ".onnx", rounds=1)  # now, not after the training
        learner, turns = train(size, players, options.seconds, options.seed)
        network = PolicyAndValue(learner)
        evaluate(TorchAgent(network, "AgileRL's PPO"), size, players)
        export_policy(
            network,
            options.out,
            size=size,
            players=players,
            library="AgileRL PPO",
            versions=["agilerl"],
            about={"turns": turns, "seconds": options.seconds, "seed": options.seed},
        )
        evaluate(make_agent(str(options.out)), size, players)
    except RolitError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
