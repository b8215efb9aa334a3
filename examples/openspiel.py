"""OpenSpiel's PPO learns Rolit, which is a game of OpenSpiel too: `pyspiel.load_game("python_rolit")`, once registered.

    python -m examples.openspiel --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/openspiel.onnx

That PPO learns games of one player, and `OwnTurnVectorEnv` makes Rolit one: a random player and, more and more often, the
learner's own past have the other seats. Afterwards it plays in the arena, becomes a file, and the file plays in the arena too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyspiel
import torch
from open_spiel.python.pytorch.ppo import PPO, CategoricalMasked
from torch import Tensor, nn

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.masked import ILLEGAL, TorchAgent
from rolit_env.adapters.openspiel import OwnTurnVectorEnv
from rolit_env.adapters.pool import OpponentPool
from rolit_env.agents import Agent
from rolit_env.errors import RolitError

GAMES = 256
TURNS = 32  # of the learner in each game between two updates


class Network(nn.Module):
    """Policy and value of planes: the first three methods as OpenSpiel's PPO calls them, `forward` for arena and export."""

    def __init__(self, num_actions: int, observation_shape: Sequence[int], device: str) -> None:
        super().__init__()
        cells = int(np.prod(observation_shape))
        self.policy = nn.Sequential(
            nn.Linear(cells, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, num_actions)
        )
        self.value = nn.Sequential(nn.Linear(cells, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("illegal", torch.tensor(ILLEGAL))

    def get_value(self, x: Tensor) -> Tensor:
        """Return values, [B, 1], of float planes [B, 4, n, n]."""
        return self.value(x.flatten(1))

    def get_action_and_value(self, x: Tensor, legal_actions_mask: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return actions, their log probabilities, entropies, values and all probabilities."""
        chances = CategoricalMasked(logits=self.policy(x.flatten(1)), masks=legal_actions_mask, mask_value=self.illegal)
        action = chances.sample() if action is None else action
        return action, chances.log_prob(action), chances.entropy(), self.get_value(x), chances.probs

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values; whoever asks masks the logits."""
        x = planes.float().flatten(1)
        return self.policy(x), self.value(x)


def train(size: int, players: int, seconds: float, seed: int) -> PPO:
    """Return OpenSpiel's learner after so many seconds of training."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # where this PPO gets its minibatches from
    game = pyspiel.load_game(f"python_rolit(size={size},players={players})")
    pool = OpponentPool(seed=seed)
    env = OwnTurnVectorEnv(GAMES, size=size, players=players, opponents=pool, seed=seed)
    learner = PPO(
        input_shape=tuple(game.observation_tensor_shape()),
        num_actions=game.num_distinct_actions(),
        num_players=env.num_players,
        num_envs=GAMES,
        steps_per_batch=TURNS,
        update_epochs=3,
        learning_rate=1e-3,
        gamma=1.0,  # the payoff comes at the end of a short round
        entropy_coef=0.01,
        agent_fn=Network,
    )
    time_steps = env.reset()
    end = time.monotonic() + seconds
    while True:
        for _ in range(TURNS):
            answers = learner.step(time_steps)
            time_steps, rewards, done, _ = env.step(answers, reset_if_done=True)
            learner.post_step(rewards, done)
        learner.learn(time_steps)
        if not time.monotonic() < end:  # nan ends at once too
            return learner
        if learner.updates_done % 10 == 0:
            payoff = learner.rewards[learner.dones.bool()].mean()
            print(f"{learner.total_steps_done:>12,} turns, mean payoff {payoff:+.2f}", flush=True)
            pool.add(TorchAgent(learner.network, sample=True))


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.openspiel", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/openspiel.onnx"), help="file to write, with its card")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    try:
        check_out(options.out, ".onnx", rounds=1)  # now, not after the training
        learner = train(size, players, options.seconds, options.seed)
        evaluate(TorchAgent(learner.network, "OpenSpiel's PPO"), size, players)
        export_policy(
            learner.network,
            options.out,
            size=size,
            players=players,
            library="OpenSpiel PPO",
            versions=["open-spiel"],
            about={"turns": learner.total_steps_done, "seconds": options.seconds, "seed": options.seed},
        )
        evaluate(make_agent(str(options.out)), size, players)
    except RolitError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
