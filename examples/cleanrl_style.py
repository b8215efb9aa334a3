"""PPO with masks in one file, in the manner of CleanRL: read it from top to bottom, copy it, change it. It needs only torch.

    python -m examples.cleanrl_style --size 8 --players 2 --seconds 60 --seed 0 --out runs/examples/cleanrl_style.onnx

The network plays hundreds of rounds in lockstep against its own past. Afterwards it plays in the arena, becomes a file, and
the file plays in the arena too.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional

from rolit_env import make_agent, play_rounds
from rolit_env.adapters.card import check_out
from rolit_env.adapters.export import export_policy
from rolit_env.adapters.ledger import Tally, count_rewards
from rolit_env.adapters.masked import TorchAgent, masked_logits
from rolit_env.adapters.pool import OpponentPool
from rolit_env.agents import Agent
from rolit_env.errors import RolitError
from rolit_env.variant import variant
from rolit_env.vector_env import RolitVectorEnv

GAMES = 512  # rounds side by side
EPOCHS = 2  # times that each turn is learnt from
MINIBATCHES = 8  # steps of the optimizer in each epoch
LEARNING_RATE = 1e-3
LAMBDA = 0.95  # how far credit reaches back; nothing is discounted, because rounds are short and only the end pays
CLIP = 0.2  # how far the probability of an action may move from what it was when it was played
ENTROPY = 0.01  # what it is worth to keep trying
SNAPSHOT = 20  # updates from one copy of the network among its opponents to the next


class Network(nn.Module):
    """Planes, int8 [B, 4, n, n], and mask, int8 [B, n·n] → masked logits, float32 [B, n·n], and value, float32 [B]."""

    def __init__(self, size: int, width: int = 256) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4 * size * size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.logits = nn.Linear(width, size * size)
        self.value = nn.Linear(width, 1)

    def forward(self, planes: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked logits and values."""
        features = self.body(planes.float().flatten(1))
        return masked_logits(self.logits(features), mask), self.value(features).squeeze(1)


def train(size: int, players: int, seconds: float, seed: int) -> tuple[Network, int, Tally]:
    """Return a network after so many seconds of training, and what it learnt from: its turns, and how its rounds ended."""
    torch.manual_seed(seed)
    network = Network(size)
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE, eps=1e-5)
    pool = OpponentPool("random", seed=seed)
    env = RolitVectorEnv(GAMES, size=size, players=players, opponents=pool, autoreset_mode="SameStep")
    observation, _ = env.reset(seed=seed)

    steps = -(-variant(size, players).plies // players)  # of the learner in one round
    planes = torch.zeros(steps, GAMES, 4, size, size, dtype=torch.int8)
    masks = torch.zeros(steps, GAMES, size * size, dtype=torch.int8)
    actions = torch.zeros(steps, GAMES, dtype=torch.int64)
    log_probs, values, rewards, ends, advantages = torch.zeros(5, steps, GAMES)

    update, turns, tally, late, deadline = 0, 0, Tally(), False, time.monotonic() + seconds
    while not late:
        # Play. A step goes from the learner's turn to its next one, with all that came between, so losses arrive too.
        for step in range(steps):
            planes[step] = torch.from_numpy(observation["observation"])
            masks[step] = torch.from_numpy(observation["action_mask"])
            with torch.no_grad():
                logits, values[step] = network(planes[step], masks[step])
            policy = Categorical(logits=logits)
            actions[step] = policy.sample()
            log_probs[step] = policy.log_prob(actions[step])
            observation, reward, ended, _, _ = env.step(actions[step].numpy())
            rewards[step], ends[step] = torch.from_numpy(reward), torch.from_numpy(ended)
        turns, tally = turns + steps * GAMES, tally + count_rewards(rewards, ends, players)

        # Give credit, from the last turn back (GAE). After an end, the next observation is that of another round.
        with torch.no_grad():
            _, following = network(torch.from_numpy(observation["observation"]), torch.from_numpy(observation["action_mask"]))
        advantage = torch.zeros(GAMES)
        for step in reversed(range(steps)):
            goes_on = 1 - ends[step]
            surprise = rewards[step] + goes_on * following - values[step]
            advantages[step] = advantage = surprise + LAMBDA * goes_on * advantage
            following = values[step]
        data = [tensor.flatten(0, 1) for tensor in (planes, masks, actions, log_probs, advantages, advantages + values)]

        # Learn.
        for _ in range(EPOCHS):
            for rows in torch.randperm(steps * GAMES).chunk(MINIBATCHES):
                seen, legal, played, old_log_prob, gain, target = (tensor[rows] for tensor in data)
                logits, value = network(seen, legal)
                policy = Categorical(logits=logits)
                ratio = (policy.log_prob(played) - old_log_prob).exp()
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                policy_loss = -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
                loss = policy_loss + 0.5 * functional.mse_loss(value, target) - ENTROPY * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 0.5)
                optimizer.step()

        update, late = update + 1, not time.monotonic() < deadline  # nan ends at once too
        if update % SNAPSHOT == 0:
            pool.add(TorchAgent(network, sample=True))
        if late or update % 50 == 0:
            print(f"{turns:>12,} turns, mean reward of a round {rewards[ends == 1].mean():+.3f}")
    return network, turns, tally


def evaluate(agent: Agent, size: int, players: int) -> None:
    """Print how often the agent wins against random ones, sitting in every seat equally often."""
    result = play_rounds([agent, make_agent("random")], 2000, size=size, players=players, seed=0)
    print(f"{agent.name} against random: {result.win_share[0]:.3f} ± {result.interval[0]:.3f} (par {result.par[0]:.2f})")


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, export, and evaluate the file."""
    parser = argparse.ArgumentParser(prog="python -m examples.cleanrl_style", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--seconds", type=float, default=60, help="time for training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/examples/cleanrl_style.onnx"), help="file to write")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    try:
        check_out(options.out, ".onnx", rounds=1)  # now, not after the training
        network, turns, tally = train(size, players, options.seconds, options.seed)
        evaluate(TorchAgent(network, "PPO"), size, players)
        about = {"turns": turns, "rounds": tally.rounds, "seconds": options.seconds, "seed": options.seed}
        export_policy(network, options.out, size=size, players=players, library="torch", about=about)
        evaluate(make_agent(str(options.out)), size, players)
    except RolitError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
