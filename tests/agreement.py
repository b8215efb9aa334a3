"""Random rounds come in, and the oracle, `Board`, the two batches and the environment must answer alike.

Compared at every turn: the legal mask, the board and every agent's observation; at the end of every round: payoffs.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from rolit_env import rolit_v0
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.payoffs import PAYOFFS
from rolit_env.torch_batch import TorchBatch
from rolit_env.variant import COLORS
from tests.oracle import COLORS as ORACLE_COLORS
from tests.oracle import VARIANTS, Oracle, cell_name

ROUNDS_AT_ONCE = 50
WRAPPED_EVERY = 10
"""One environment in ten is the wrapped one that users get; the others are raw, which is faster."""

Batches = dict[str, GameBatch | TorchBatch]


class DisagreementError(AssertionError):
    """Two implementations of the rules differ."""


@dataclass
class Tally:
    """What was compared in one variant."""

    rounds: int = 0
    positions: int = 0


@dataclass
class Game:
    """One round in all implementations (in the batches it is one of many)."""

    name: str
    rng: random.Random
    moves: list[str]
    reward: str
    oracle: Oracle
    board: Board
    env: Any
    legal: list[tuple[int, int]]
    """The oracle's legal cells now, kept because finding them is the slowest part."""

    def compare(self, what: str, who: str, answer: object, right: object) -> None:
        if answer != right:
            raise DisagreementError(
                f"{self.name}: {who} and the oracle disagree on {what}\n"
                f"starter: {self.oracle.starter}\n"
                f"moves so far: {' '.join(self.moves) or 'none'}\n"
                f"{self.oracle.text()}\n"
                f"oracle: {right}\n{who}: {answer}"
            )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.agreement",
        description="Play random rounds with five implementations of Rolit at once (the naive oracle of tests/oracle.py, "
        "Board, GameBatch, TorchBatch and the PettingZoo environment) and compare every legal mask, board, observation and "
        "payoff. Ends with an error that names variant, seed, round, moves and both answers at the first difference.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=20_000, help="rounds in all, spread evenly over the seven variants")
    parser.add_argument("--seed", type=int, default=0, help="seed of starters and moves")
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds} is too few; allowed are ints from 1 up")
    if given.seed < 0:
        parser.error(f"--seed {given.seed} is no seed; allowed are ints from 0 up")

    # On stderr, so that the table can be piped; without a terminal only the table appears.
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("comparing", total=given.rounds)
        tallies = compare_rounds(given.rounds, given.seed, lambda played: progress.advance(task, played))

    table = Table("variant", "rounds", "positions compared", title=f"No disagreement (seed {given.seed})")
    for column in table.columns[1:]:
        column.justify = "right"
    for (size, players), tally in tallies.items():
        table.add_row(f"{size}x{size}-{players}p", f"{tally.rounds:,}", f"{tally.positions:,}")
    table.add_section()
    table.add_row(
        "all",
        f"{sum(tally.rounds for tally in tallies.values()):,}",
        f"{sum(tally.positions for tally in tallies.values()):,}",
    )
    Console().print(table)


def compare_rounds(rounds: int, seed: int, advance: Callable[[int], object] = lambda _: None) -> dict[tuple[int, int], Tally]:
    """Play `rounds` random rounds, the variants in equal parts, and raise `DisagreementError` at the first difference."""
    tallies = {}
    for number, (size, players) in enumerate(VARIANTS):
        tallies[size, players] = tally = Tally()
        wanted = rounds // len(VARIANTS) + (number < rounds % len(VARIANTS))
        while tally.rounds < wanted:
            count = min(ROUNDS_AT_ONCE, wanted - tally.rounds)
            tally.positions += _compare_lockstep(size, players, seed, tally.rounds, count)
            tally.rounds += count
            advance(count)
    return tallies


def _compare_lockstep(size: int, players: int, seed: int, first: int, count: int) -> int:
    """Compare `count` rounds played side by side and return the number of positions seen."""
    batch = GameBatch(count, size=size, players=players, seed=np.random.default_rng([seed, size, players, first]))
    games = [_start(size, players, seed, first + at, COLORS[color]) for at, color in enumerate(batch.starters)]
    batches: Batches = {"GameBatch": batch, "TorchBatch": TorchBatch.from_games(batch)}
    positions = 0
    while True:
        _compare_positions(games, batches)
        positions += count
        if batch.done:
            break
        actions = []
        for game in games:
            row, column = game.rng.choice(game.legal)
            action = row * size + column
            game.moves.append(cell_name((row, column)))
            game.oracle.play(row, column)
            game.board.push(action)
            game.env.step(action)
            actions.append(action)
        for each in batches.values():
            each.step(actions)
    _compare_ends(games, batches)
    return positions


def _start(size: int, players: int, seed: int, number: int, starter: str) -> Game:
    reward = PAYOFFS[number % len(PAYOFFS)]
    make = rolit_v0.env if number % WRAPPED_EVERY == 0 else rolit_v0.raw_env
    env = make(size=size, players=players, starter=starter, reward=reward)
    env.reset(seed=number)
    return Game(
        name=f"{size}x{size}-{players}p, seed {seed}, round {number}",
        rng=random.Random(f"{seed} {size} {players} {number}"),
        moves=[],
        reward=reward,
        oracle=Oracle(size, players, starter),
        board=Board(size, players, starter),
        env=env,
        legal=[],
    )


def _compare_positions(games: list[Game], batches: Batches) -> None:
    answers = {
        who: (batch.legal_mask().tolist(), batch.planes().tolist(), batch.counts().tolist()) for who, batch in batches.items()
    }
    for at, game in enumerate(games):
        oracle, board, env = game.oracle, game.board, game.env
        size = oracle.size
        over = oracle.over()
        game.legal = oracle.legal()
        legal = [row * size + column for row, column in game.legal]
        mask = [0] * (size * size)
        for action in legal:
            mask[action] = 1
        by_color = dict(zip(ORACLE_COLORS, oracle.planes(ORACLE_COLORS), strict=True))

        game.compare("who moves", "Board", None if board.is_over else board.color_to_move, None if over else oracle.to_move())
        game.compare("the legal cells", "Board", board.legal_moves, legal)
        game.compare("the board", "Board", list(board.words), [_word(plane) for plane in by_color.values()])

        view = [by_color[color] for color in oracle.order_seen_by(oracle.to_move())]
        for who, (masks, planes, counts) in answers.items():
            game.compare("the legal mask", who, masks[at], mask)
            game.compare("the observation", who, planes[at], view)
            game.compare("the counts", who, counts[at], list(oracle.counts().values()))

        game.compare("the board", "the environment", env.state().tolist(), list(by_color.values()))
        if not over:
            game.compare("who moves", "the environment", env.agent_selection, oracle.to_move())
        for agent in oracle.playing:
            seen = env.observe(agent)
            moves_now = not over and agent == oracle.to_move()
            view = [by_color[color] for color in oracle.order_seen_by(agent)]
            game.compare(f"the observation of {agent}", "the environment", seen["observation"].tolist(), view)
            game.compare(
                f"the legal mask of {agent}",
                "the environment",
                seen["action_mask"].tolist(),
                mask if moves_now else [0] * len(mask),
            )
            game.compare(f"the end for {agent}", "the environment", env.terminations[agent], over)
            if not over:
                game.compare(f"the reward of {agent} before the end", "the environment", env.rewards[agent], 0)


def _compare_ends(games: list[Game], batches: Batches) -> None:
    for kind in PAYOFFS:
        by_seat = {who: batch.payoffs(kind).tolist() for who, batch in batches.items()}
        for at, game in enumerate(games):
            right = game.oracle.payoffs(kind)
            seats = game.oracle.order_seen_by(game.oracle.starter)[: game.oracle.players]
            for who, values in by_seat.items():
                _compare_payoffs(game, f"{who} ({kind})", dict(zip(seats, values[at], strict=True)), right)
            _compare_payoffs(game, f"Board ({kind})", game.board.payoffs(kind), right)
            if kind == game.reward:
                _compare_payoffs(game, f"the environment ({kind})", game.env.rewards, right)
    for game in games:
        outcome = game.board.outcome()
        game.compare("the winners", "Board", outcome and list(outcome.winners), game.oracle.leaders())


def _compare_payoffs(game: Game, who: str, answer: dict[str, Any], right: dict[str, Any]) -> None:
    close = answer.keys() == right.keys() and all(abs(answer[color] - right[color]) < 1e-6 for color in right)
    if not close:
        game.compare("the payoffs", who, answer, {color: str(value) for color, value in right.items()})


def _word(plane: list[list[int]]) -> int:
    return sum(ball << cell for cell, ball in enumerate(ball for row in plane for ball in row))


if __name__ == "__main__":
    main()
