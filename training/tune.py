"""Weights for the evaluation made by hand: self-play of the search comes in, what its results say the weights are goes out.

python -m training.tune --size 8 --players 2

Each round plays games between copies of the search with the best weights so far, some turns at random, and then asks which
weights would have foretold the winners of all these games best: a softmax over the seats of what each has on the board
(logistic regression with two players), fitted by Newton's method at each knot to the positions around it, the nearer the more.
From the full board backwards each fit leans towards the one before, so that what is rarely seen early keeps the weight that it
has later. Weights that win more than their par against the best ones so far take their place. What is printed in the end goes
into `rolit_env/search/weights.py`.

Legend: N positions, P players, C names of weights.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
from jsonargparse import ArgumentParser
from jsonargparse.typing import PositiveInt

from rolit_env.agents.search import AlphaBetaAgent, ParanoidAgent, SearchAgent
from rolit_env.arena import play_rounds
from rolit_env.batch import GameBatch
from rolit_env.bits import Words
from rolit_env.errors import OptionError
from rolit_env.kernel import kernel
from rolit_env.search.evaluation import (
    BY_TURN,
    FEATURES,
    SCALE,
    cell_kinds,
    column_names,
    from_knots,
    hand_made,
    seat_counts,
)
from rolit_env.variant import variant
from training.command import run_command

KNOTS = 9
"""Knots from a full to an empty board."""

CONTEST = 2000
"""Rounds between new weights and the best so far."""

Floats = npt.NDArray[np.float64]
Shares = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int8]


def tune(size: int, players: int, rounds: int, games: int, depth: int, explore: float, seed: int) -> Floats:
    """Return weights, float64 [KNOTS, C], in points."""
    chosen = variant(size, players)
    best = _player(size, players, depth)
    best.evaluation = hand_made(size, players)
    best_knots = np.zeros((KNOTS, len(column_names(size, players))))
    played: list[tuple[Counts, npt.NDArray[np.int64], Shares]] = []
    for number in range(rounds):
        rng = np.random.default_rng([seed, number])
        played.append(self_play(best, GameBatch(games, size=size, players=players, seed=rng), explore, rng))
        counts, empties, shares = map(np.concatenate, zip(*played, strict=True))
        knots, loss = fit(counts, empties, shares, size)
        fitted = _player(size, players, depth)
        fitted.evaluation = from_knots(knots * SCALE, size, players)
        result = play_rounds([fitted, best], CONTEST, size=size, players=players, seed=number)
        won, par = float(result.win_share[0]), float(result.par[0])
        print(
            f"round {number + 1} of {rounds} on {chosen.name}: {len(empties):,} positions, loss {loss:.4f}; "
            f"against the best before: {won:.3f} ± {result.interval[0]:.3f} (par {par:.2f})",
            file=sys.stderr,
            flush=True,
        )
        if won > par:
            best, best_knots = fitted, knots
    return best_knots * SCALE


def _player(size: int, players: int, depth: int) -> SearchAgent:
    exact = 0 if size == 4 else None  # else nearly all of 4x4 would be searched, and nothing be learnt
    return (AlphaBetaAgent if players == 2 else ParanoidAgent)(depth=depth, exact=exact)


def self_play(
    player: SearchAgent, games: GameBatch, explore: float, rng: np.random.Generator
) -> tuple[Counts, npt.NDArray[np.int64], Shares]:
    """Play rounds, and return what the seats had on the board and what they got.

    Each round opens with random turns, none to a third of the round; after them a turn is random with chance `explore`.

    Returns:
        Counts of each seat, the mover's first, int8 [N, P, C]; empty cells, int64 [N]; win shares, float32 [N, P].
    """
    players, cells = games.variant.players, games.variant.cells
    opening = rng.integers(games.plies // 3, size=len(games))
    seen: list[tuple[Words, npt.NDArray[np.bool_], int]] = []
    while not games.done:
        open_still = opening > games.ply
        if games.ply >= games.plies // 8:  # there is little to tell seats apart before
            seen.append((games.view(), ~open_still, games.ply))
        random = open_still | (rng.random(len(games)) < explore)
        actions = games.random_actions(rng)
        if not random.all():
            actions[~random] = player.act(games[~random], rng)
        games.step(actions)
    shares = games.win_shares().astype(np.float32)
    counts = np.concatenate([seat_table(view[kept], games.variant.size, players) for view, kept, _ in seen])
    empties = np.concatenate([np.full(kept.sum(), cells - 4 - ply) for _, kept, ply in seen])
    got = np.concatenate([np.roll(shares, -(ply % players), axis=1)[kept] for _, kept, ply in seen])
    return counts, empties, got


def seat_table(view: Words, size: int, players: int) -> Counts:
    """Return what each seat has, int8 [N, P, C], the mover's first: its score is the product with the weights."""
    kinds = [kind for kind in cell_kinds(size) if kind]
    first = len(kinds) + len(FEATURES)
    table = np.zeros((len(view), players, first + players * len(BY_TURN)), np.int8)
    for column, kind in enumerate(kinds):
        table[:, :, column] = np.bitwise_count(view[:, :players] & kind)
    counts = np.empty((len(view), players, 5), np.int64)
    _count(view, players, size, counts)
    table[:, :, len(kinds) : first] = counts[:, :, :3]
    for turn in range(players):
        at = first + turn * len(BY_TURN)
        table[:, turn, at] = 1
        table[:, turn, at + 1 : at + 3] = counts[:, turn, 3:]
    return table


@kernel
def _count(view: Words, players: int, size: int, counts: npt.NDArray[np.int64]) -> None:
    for at in range(view.shape[0]):
        occupied = view[at, 0] | view[at, 1] | view[at, 2] | view[at, 3]
        for seat in range(players):
            for column, count in enumerate(seat_counts(view[at, seat], occupied, size)):
                counts[at, seat, column] = count


def fit(counts: Counts, empties: npt.NDArray[np.int64], shares: Shares, size: int) -> tuple[Floats, float]:
    """Return the weights at each knot, float64 [KNOTS, C], in units of the logistic function, and the mean loss."""
    knots, losses = [], []
    apart = size * size / (KNOTS - 1)
    weights = np.zeros(counts.shape[2])
    for knot in range(KNOTS):
        near = 1 - np.abs(empties / apart - knot)
        chosen = near > 0
        if chosen.any():
            weights, loss = _fit_one(
                counts[chosen].astype(np.float32), near[chosen].astype(np.float32), shares[chosen], weights
            )
            losses.append(loss)
        knots.append(weights)
    return np.array(knots), float(np.mean(losses))


LEAN = 30.0
"""How much a fit leans towards the one before: as if so many positions spoke for each weight."""


def _fit_one(
    counts: npt.NDArray[np.float32], near: npt.NDArray[np.float32], shares: Shares, before: Floats
) -> tuple[Floats, float]:
    weights, last = before.copy(), np.inf
    step = np.zeros_like(weights)
    for _ in range(20):
        scores = counts @ weights.astype(np.float32)
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        loss = -float((near * (shares * np.log(chances + 1e-9)).sum(axis=1)).sum())
        loss += LEAN / 2 * float(np.square(weights - before).sum())
        if loss > last:  # too far: half the way back
            step /= 2
            weights = weights + step
            continue
        last = loss
        gradient = np.einsum("np,npc->c", (chances - shares) * near[:, None], counts) + LEAN * (weights - before)
        expected = np.einsum("np,npc->nc", chances, counts)
        flat = counts.reshape(-1, counts.shape[2])
        curvature = (flat * (chances * near[:, None]).reshape(-1, 1)).T @ flat - (expected * near[:, None]).T @ expected
        step = np.linalg.solve(curvature + LEAN * np.eye(len(weights)), gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-3:
            break
    return weights, last / float(near.sum())


def show(knots: Floats, size: int, players: int) -> str:
    """Return weights as they stand in `rolit_env/search/weights.py`."""
    lines = (
        f"{name:<11}{''.join(f'{weight:7.0f}' for weight in weights)}\n"
        for name, weights in zip(column_names(size, players), knots.T, strict=True)
    )
    return f'    ({size}, {players}): """\n{"".join(lines)}""",'


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    parser = ArgumentParser(
        prog="python -m training.tune",
        description="Find weights for the evaluation made by hand, from the results of self-play.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("--size", type=int, default=8, help="side of the board: 8, 6 or 4")
    parser.add_argument("--players", type=int, default=2, help="2, 3 or 4")
    parser.add_argument("--rounds", type=PositiveInt, default=4, help="times to play and fit")
    parser.add_argument("--games", type=PositiveInt, default=4096, help="games in each round")
    parser.add_argument("--depth", type=PositiveInt, default=2, help="turns that the players look ahead")
    parser.add_argument("--explore", type=float, default=0.1, help="part of the turns that are random, 0 to 1")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same weights")

    def body() -> int:
        options = parser.parse_args(argv)
        variant(options.size, options.players)
        _player(options.size, options.players, options.depth)
        if not 0 <= options.explore <= 1:
            raise OptionError(f"explore={options.explore:g} is no part of the turns; allowed are numbers from 0 to 1")
        if options.seed < 0:
            raise OptionError(f"seed={options.seed} is no seed; allowed are ints from 0 up")
        knots = tune(
            options.size,
            options.players,
            options.rounds,
            options.games,
            options.depth,
            options.explore,
            options.seed,
        )
        print(show(knots, options.size, options.players))
        return 0

    return run_command("training.tune", body)


if __name__ == "__main__":
    sys.exit(main())
