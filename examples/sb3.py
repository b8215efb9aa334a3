"""MaskablePPO of Stable-Baselines3's contrib package learns Rolit, from hundreds of rounds in lockstep or one by one.

    python -m examples.sb3 --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/sb3.onnx

It meets a random player and, more and more often, its own past. Afterwards it plays in the arena, becomes a file, and the file
plays in the arena too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.adapters.sb3 import MaskableActor, PoolCallback, RolitVecEnv
from rolit_env.agents import Agent
from rolit_env.errors import RolitError
from rolit_env.gym_env import Opponents, RolitEnv
from rolit_env.variant import variant

GAMES = 512  # rounds that the model learns from at a time, side by side in lockstep
ONE_SEAT_GAMES = 16  # side by side when environments are stepped one by one


class Deadline(BaseCallback):
    """Ends the training after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.monotonic() + seconds

    def _on_step(self) -> bool:
        return time.monotonic() < self.end


def make_env(size: int, players: int, opponents: Opponents, one_seat: bool = False) -> VecEnv:
    """Return rounds in lockstep, or environments one by one, which take wrappers of your own and many times as long."""
    if one_seat:
        setting = {"size": size, "players": players, "opponents": opponents, "illegal_move": "raise"}
        return make_vec_env(RolitEnv, ONE_SEAT_GAMES, env_kwargs=setting)
    return RolitVecEnv(GAMES, size=size, players=players, opponents=opponents)


def make_model(env: VecEnv, size: int, players: int, seed: int) -> MaskablePPO:
    """Return a model that learns from so many rounds at a time, each from its start to its end."""
    turns = -(-variant(size, players).plies // players)  # of the learner in one round
    return MaskablePPO(
        "MultiInputPolicy",
        env,
        n_steps=turns * max(1, GAMES // env.num_envs),
        batch_size=turns * GAMES // 8,
        n_epochs=1,
        learning_rate=2e-3,
        gamma=1.0,  # the payoff comes at the end of a short round
        gae_lambda=0.95,
        ent_coef=0.01,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": nn.ReLU},
        seed=seed,
        device="cpu",
    )


def train(size: int, players: int, seconds: float, seed: int, one_seat: bool = False) -> MaskablePPO:
    """Return a model after so many seconds of training."""
    pool = OpponentPool("random", seed=seed)
    model = make_model(make_env(size, players, pool, one_seat), size, players, seed)
    model.verbose = 1  # a table now and then
    return model.learn(10**9, callback=[PoolCallback(pool, every=10), Deadline(seconds)], log_interval=25)


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.sb3", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/sb3.onnx"), help="file to write, with its card")
    parser.add_argument("--one-seat", action="store_true", help=f"learn from {ONE_SEAT_GAMES} environments one by one")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    try:
        check_out(options.out, ".onnx", rounds=1)  # now, not after the training
        model = train(size, players, options.seconds, options.seed, options.one_seat)
        network = MaskableActor(model.policy)
        evaluate(TorchAgent(network, "MaskablePPO"), size, players)
        export_policy(
            network,
            options.out,
            size=size,
            players=players,
            library="sb3-contrib MaskablePPO",
            versions=["sb3-contrib", "stable-baselines3"],
            about={"turns": model.num_timesteps, "seconds": options.seconds, "seed": options.seed},
        )
        evaluate(make_agent(str(options.out)), size, players)
    except RolitError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
