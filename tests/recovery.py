"""Whether ratings find what was planted: mixtures of random and positional play, rated again and again with intervals.

python -m tests.recovery              # 50 tournaments against the truth from a long one, some minutes on two cores
python -m tests.recovery --runs 10

The truth is the rating that a tournament of the same agents comes to when it is long. Strengths of agents lie on no line
exactly, so that figure, not a number planted in a model, is what a rating estimates.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from rolit_env.agents import Agent, PositionalAgent, RandomAgent
from rolit_env.bench.machine import cores
from rolit_env.standings import make_standings
from rolit_env.tournament import Settings, play_tournament

SHARES = (0, 0.3, 0.6, 1)
"""How often each agent plays by position, in the order of strength."""


class Mixture(Agent):
    """Plays by position with the chance given, else at random; anew for each move."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.kinds = RandomAgent(), PositionalAgent()

    def act(self, games, rng):
        drawn, positional = (kind.act(games, rng) for kind in self.kinds)
        return np.where(rng.random(len(games)) < self.share, positional, drawn)


def planted(openings, *, seed=0, size=8, players=2):
    """Return the settings of a tournament of mixtures; the first one plays at random and is the anchor."""
    agents = {f"{share:g}": f"tests.recovery:Mixture:share={share:g}" for share in SHARES}
    return Settings(agents, openings, size=size, players=players, seed=seed, openings_at_once=min(openings, 1000))


def ratings(settings, workers=1):
    """Play a tournament and return its ratings."""
    with tempfile.TemporaryDirectory() as folder:
        play_tournament(settings, Path(folder), workers=workers)
        return make_standings(Path(folder)).ratings


def recover(runs, openings, long, workers, **variant):
    """Return whether intervals hold the truth, bool [runs, agents but the anchor], whether the order is right, the truth."""
    truth = ratings(planted(long, seed=10**6, **variant), workers).rating
    inside, ordered = [], []
    for seed in range(runs):
        found = ratings(planted(openings, seed=seed, **variant), workers)
        inside.append(((found.low <= truth) & (truth <= found.high))[1:])
        ordered.append(bool((np.diff(found.rating) > 0).all()))
    return np.array(inside), np.array(ordered), truth


def main():
    """Print how often order and truth were found; exit with 1 when it was less than nine times in ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--openings", type=int, default=400)
    parser.add_argument("--long", type=int, default=40_000, help="openings of the tournament that the truth comes from")
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--players", type=int, default=2)
    options = parser.parse_args()
    variant = {"size": options.size, "players": options.players}
    inside, ordered, truth = recover(options.runs, options.openings, options.long, len(cores()), **variant)
    print(f"truth: {', '.join(f'{rating:.1f}' for rating in truth)}")
    print(f"right order: {ordered.sum()} of {options.runs} runs")
    print(f"truth inside the interval: {inside.mean():.3f} of all, by agent {inside.mean(axis=0).round(3).tolist()}")
    print(f"truth inside all intervals of a run: {inside.all(axis=1).sum()} of {options.runs} runs")
    return 0 if ordered.mean() >= 0.9 and inside.mean(axis=0).min() >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
