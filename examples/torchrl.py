"""TorchRL's PPO learns Rolit, over many rounds in lockstep.

    python -m examples.torchrl --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/torchrl.onnx

It meets a random player and, more and more often, its own past. Afterwards it plays in the arena, becomes a file, and the file
plays in the arena too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import ILLEGAL, TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.adapters.torchrl import RolitTorchEnv
from rolit_env.agents import Agent
from rolit_env.errors import RolitError
from rolit_env.variant import variant

GAMES = 512


class Planes(nn.Module):
    """Planes, int8 [..., 4, n, n], as inputs of a perceptron."""

    def forward(self, planes: Tensor) -> Tensor:
        """Return floats [..., 4·n·n]."""
        return planes.float().flatten(-3)


class Network(nn.Module):
    """A policy and the value of the seat to move, each a perceptron on the planes."""

    def __init__(self, cells: int) -> None:
        super().__init__()
        self.policy, self.value = (
            nn.Sequential(
                Planes(), nn.Linear(4 * cells, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, width)
            )
            for width in (cells, 1)
        )

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values, as arena and export ask for them; they mask the logits themselves."""
        return self.policy(planes), self.value(planes)


def train(size: int, players: int, seconds: float, seed: int) -> tuple[Network, int]:
    """Return a network after so many seconds of training, and the number of turns it learnt from."""
    torch.manual_seed(seed)
    pool = OpponentPool(seed=seed)
    env = RolitTorchEnv(GAMES, size=size, players=players, opponents=pool)
    env.set_seed(seed)
    network = Network(size * size)
    actor = ProbabilisticActor(
        TensorDictModule(network.policy, in_keys=["observation"], out_keys=["logits"]),
        in_keys={"logits": "logits", "mask": "action_mask"},
        distribution_class=MaskedCategorical,
        distribution_kwargs={"neg_inf": ILLEGAL},  # finite, because −∞ makes NaN where a round is over and nothing legal
        return_log_prob=True,
    )
    critic = ValueOperator(network.value, in_keys=["observation"])
    turns = -(-variant(size, players).plies // players)  # of the learner in one round
    advantages = GAE(gamma=1.0, lmbda=0.95, value_network=critic)  # the payoff comes at the end of a short round
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.5, normalize_advantage=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3, eps=1e-5)
    collector = Collector(env, actor, frames_per_batch=GAMES * turns, auto_register_policy_transforms=False)
    end = time.monotonic() + seconds
    for update, batch in enumerate(collector, start=1):
        for _ in range(2):
            with torch.no_grad():
                advantages(batch)
            rows = batch.reshape(-1)
            for part in rows[torch.randperm(len(rows))].split(len(rows) // 4):
                losses = loss(part)
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_entropy"] + losses["loss_critic"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        if not time.monotonic() < end:  # nan ends at once too
            break
        if update % 10 == 0:
            payoff = batch["next", "reward"][batch["next", "done"]].mean()
            print(f"{update * len(rows):>12,} turns, mean payoff {payoff:+.2f}", flush=True)
            pool.add(TorchAgent(network, sample=True))
    collector.shutdown()
    return network, update * GAMES * turns


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.torchrl", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/torchrl.onnx"), help="file to write, with its card")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    try:
        check_out(options.out, ".onnx", rounds=1)  # now, not after the training
        network, turns = train(size, players, options.seconds, options.seed)
        evaluate(TorchAgent(network, "TorchRL's PPO"), size, players)
        export_policy(
            network,
            options.out,
            size=size,
            players=players,
            library="TorchRL PPO",
            versions=["torchrl", "tensordict"],
            about={"turns": turns, "seconds": options.seconds, "seed": options.seed},
        )
        evaluate(make_agent(str(options.out)), size, players)
    except RolitError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
