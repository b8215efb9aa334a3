"""Truth exams: an agent and positions with exact values come in, how often it keeps the value and what it loses come out.

On 4x4 the positions are all that can be reached, so that an agent without chance has exact figures. On 6x6 and 8x8 they are
a stored sample of endgames, so the figures have intervals.

Legend: N positions, A = n·n actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env import rules
from rolit_env.agents import Agent, make_agent
from rolit_env.batch import GameBatch
from rolit_env.bits import Words
from rolit_env.errors import OptionError, VariantError
from rolit_env.rules import word_geometry
from rolit_env.search.expansion import play_all
from rolit_env.search.small_board import pack, small_board
from rolit_env.search.truth import DATA, ILLEGAL, SolvedPositions, empty_cells
from rolit_env.solve import move_values
from rolit_env.variant import starter_color, variant

Actions = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]

AT_ONCE = 512
"""Positions that an agent is asked in one batch: enough to keep batched agents busy, few enough for progress."""

EMPTIES = range(14, 9, -1)
"""Empty cells of the endgames."""

PLAYERS = ("random", "greedy", "positional")
"""Who plays the rounds that the endgames come from: each of these against each, in both seats."""


@dataclass(frozen=True)
class Score:
    """How an agent did in some positions. Intervals are half widths at 95 %, None where the positions are no sample.

    Attributes:
        positions: Number of positions.
        kept: Share of them in which the move keeps the value: no move is better by a single ball.
        kept_interval: Half width of `kept`.
        outcome_kept: Share in which the move keeps the win, the draw or the loss that the position is.
        outcome_interval: Half width of `outcome_kept`.
        lost: Mean balls lost, in ball difference at the end, against the best move.
        lost_interval: Half width of `lost`.
        par: What `kept` would be on average with uniformly random moves.
    """

    positions: int
    kept: float
    kept_interval: float | None
    outcome_kept: float
    outcome_interval: float | None
    lost: float
    lost_interval: float | None
    par: float


@dataclass(frozen=True)
class ExamResult:
    """What `take_exam` found.

    Attributes:
        agent: The agent's name.
        size: Side of the board.
        starter: The colour that moved first; it matters on 4x4 only.
        seed: Seed of the agent's chance.
        complete: Whether the positions are all that can be reached.
        overall: The score in all positions of the exam.
        by_empties: The score by number of empty cells, most first.
        own_play: The score in the positions with the agent to move that come up when it has one seat and the other player
            may play anything, both seats together; None unless the exam is complete.
    """

    agent: str
    size: int
    starter: str
    seed: int
    complete: bool
    overall: Score
    by_empties: dict[int, Score]
    own_play: Score | None

    def to_dict(self) -> dict[str, Any]:
        """Return the result in plain dicts and numbers, ready for JSON, whose keys are text."""
        plain = asdict(self)
        return plain | {"by_empties": {str(empties): score for empties, score in plain["by_empties"].items()}}


def take_exam(
    agent: Agent | str,
    *,
    size: int = 8,
    players: int = 2,
    starter: str = "red",
    seed: int = 0,
    progress: Progress | None = None,
) -> ExamResult:
    """Ask an agent for its move in positions whose exact values are known.

    Args:
        agent: An agent, or a description for `make_agent`.
        size: 4 for all positions that can be reached, 6 or 8 for the stored endgames with 10 to 14 empty cells.
        players: 2: there is no truth for more.
        starter: The colour that moved first. On 4x4 the exam is taken in the positions that follow.
        seed: The same seed gives the same moves of agents with chance.
        progress: Called with positions asked and positions in all, now and then.

    Raises:
        VariantError: for a variant without truth, or one that the agent can't play.
        AgentError: for a description that names no agent.
        OptionError: for a starter that does not play, or a seed below 0.
    """
    solved = exam_positions(size, players, starter)
    taker = make_agent(agent) if isinstance(agent, str) else agent
    taker.check_variant(variant(size, players))
    if seed < 0:
        raise OptionError(f"seed={seed} is no seed; allowed are ints from 0 up")
    complete = size == 4
    actions = choose(taker, solved, starter, np.random.default_rng(seed), progress)
    empties = solved.empties()
    return ExamResult(
        agent=taker.name,
        size=size,
        starter=starter,
        seed=seed,
        complete=complete,
        overall=score(solved.values, actions, complete),
        by_empties={
            int(count): score(solved.values[empties == count], actions[empties == count], complete)
            for count in np.unique(empties)[::-1]
        },
        own_play=_own_play(solved, actions) if complete else None,
    )


def exam_positions(size: int = 8, players: int = 2, starter: str = "red") -> SolvedPositions:
    """Return the positions of the exam on a board. Raises as `take_exam` does."""
    chosen = variant(size, players)
    if players != 2:
        raise VariantError(f"there is no exam for {chosen.name}; exact values are known for two players, on size 4, 6 and 8")
    starter_color(starter, chosen)
    return small_board(starter) if size == 4 else SolvedPositions.load(DATA / f"{chosen.name}-endgames.npz")


def choose(
    agent: Agent, solved: SolvedPositions, starter: str, rng: np.random.Generator, progress: Progress | None = None
) -> Actions:
    """Return the agent's move in each position, int64 [N]. Raises `IllegalMoveError` when one is not legal."""
    actions = np.empty(len(solved), np.int64)
    for some in _by_turn(solved.words, solved.size):
        games = batch_of(solved.words[some], solved.size, starter)
        actions[some] = agent.act(games, rng)
        games.step(actions[some])  # complains of what is not legal
        if progress:
            progress(int(some[-1]) + 1, len(solved))
    return actions


def _by_turn(words: Words, size: int) -> Iterator[Actions]:
    """Yield the numbers of positions, which stand in the order of their turns, some of one turn at a time."""
    empties = empty_cells(words, size)
    for count in np.unique(empties)[::-1]:
        numbers = np.flatnonzero(empties == count)
        for first in range(0, len(numbers), AT_ONCE):
            yield numbers[first : first + AT_ONCE]


def batch_of(words: Words, size: int, starter: str) -> GameBatch:
    """Return games of two players that stand in positions, uint64 [N, 4] from the mover's side, all at the same turn."""
    games = GameBatch(len(words), size=size, starter=starter)
    own, following, third, fourth = words.T
    games.ply = int(np.bitwise_count(own[0] | following[0] | third[0] | fourth[0])) - 4
    games.balls[list(games.mover_first())] = words.T
    games.legal[:] = rules.legal_cells(own, following | third | fourth, word_geometry(size))
    return games


def score(values: npt.NDArray[np.int8], actions: Actions, complete: bool) -> Score:
    """Return the score of one action in each position, from the values of all, int8 [N, A]; no intervals where complete."""
    best = values.max(axis=1).astype(np.int64)
    taken = values[np.arange(len(values)), actions].astype(np.int64)
    kept, lost, outcome_kept = taken == best, best - taken, np.sign(taken) == np.sign(best)
    par = (values == best[:, None]).sum(axis=1) / (values != ILLEGAL).sum(axis=1)
    return Score(
        positions=len(values),
        kept=float(kept.mean()),
        kept_interval=None if complete else _half_width(kept),
        outcome_kept=float(outcome_kept.mean()),
        outcome_interval=None if complete else _half_width(outcome_kept),
        lost=float(lost.mean()),
        lost_interval=None if complete else _half_width(lost),
        par=float(par.mean()),
    )


def _half_width(samples: npt.NDArray[Any]) -> float | None:
    """Return 1.96 standard errors of the mean; None for a single sample, which has no spread to see."""
    if len(samples) < 2:
        return None
    if samples.dtype == bool:
        # Agresti and Coull (1998): where all or none is kept, the plain interval would claim certainty.
        count = len(samples) + 4
        share = (samples.sum() + 2) / count
        return float(1.96 * np.sqrt(share * (1 - share) / count))
    return float(1.96 * samples.std(ddof=1) / np.sqrt(len(samples)))


def _own_play(solved: SolvedPositions, actions: Actions) -> Score:
    """Return the score in the positions that the agent, moving as in `actions`, meets in either seat of 4x4."""
    keys = pack(solved.words)
    order = np.argsort(keys)
    sorted_keys = keys[order]
    met = np.zeros(len(solved), bool)
    for seat in (0, 1):
        now = np.zeros(1, np.int64)  # the start stands first
        for ply in range(variant(solved.size, 2).plies):
            position, cell, after = play_all(solved.words[now], solved.size)
            if ply % 2 == seat:
                met[now] = True
                after = after[cell == actions[now][position]]
            if ply < variant(solved.size, 2).plies - 1:
                now = order[np.searchsorted(sorted_keys, np.unique(pack(after)))]
    return score(solved.values[met], actions[met], complete=True)


def make_endgames(size: int, positions: int, seed: int = 0, progress: Progress | None = None) -> SolvedPositions:
    """Play rounds between the baselines from random openings, take one endgame of each round, and solve it.

    All pairings and all numbers of empty cells come up about equally often, and no position comes up twice.

    Args:
        size: 8 or 6.
        positions: Endgames wanted.
        seed: The same seed gives the same endgames.
        progress: Called with endgames solved and endgames in all, now and then.

    Raises:
        VariantError: for 4x4, all of which is solved, and for sizes that do not exist.
        OptionError: for less than one position, or a seed below 0.
    """
    variant(size, 2)
    if size == 4:
        raise VariantError("endgames are made for size 8 and 6; of size 4 all positions are known")
    if positions < 1 or seed < 0:
        raise OptionError(
            f"positions={positions} with seed={seed} can't be made; allowed are ints from 1 up, and seeds from 0 up"
        )
    words = _draw_endgames(size, positions, np.random.default_rng(seed))
    values = np.empty((positions, size * size), np.int8)
    for some in _by_turn(words, size):
        values[some] = move_values(
            batch_of(words[some], size, "red"),
            lambda done, _, before=int(some[0]): progress(before + done, positions) if progress else None,  # type: ignore[misc]
        )
    return SolvedPositions(size, words, values)


def _draw_endgames(size: int, positions: int, rng: np.random.Generator) -> Words:
    """Return distinct endgames, uint64 [positions, 4], those with most empty cells first."""
    agents = [make_agent(name) for name in PLAYERS]
    share = -(-positions // (len(EMPTIES) * len(agents) ** 2))
    found: Words = np.empty((0, 4), np.uint64)
    while len(found) < positions:
        drawn = [found]
        for empties, seats in product(EMPTIES, product(agents, repeat=2)):
            games = GameBatch(share, size=size, seed=rng)
            games.step_random(rng, 4)
            while games.plies - games.ply > empties:
                games.step(seats[games.seat].act(games, rng))
            drawn.append(games.view())
        found = np.unique(np.concatenate(drawn), axis=0)
    words = found[rng.permutation(len(found))[:positions]]
    return words[np.argsort(np.bitwise_count(np.bitwise_or.reduce(words, axis=1)), kind="stable")]
