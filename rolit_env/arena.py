"""Rounds between agents, fairly: agents come in, win shares with intervals come out.

The last seat wins far more often than the first, so every agent plays every seat equally often, and every assignment
of agents to seats plays the same openings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.agents import Agent, make_agent
from rolit_env.agents.base import blaming
from rolit_env.batch import GameBatch
from rolit_env.errors import OptionError
from rolit_env.intervals import half_width
from rolit_env.lockstep import checked_count
from rolit_env.payoffs import win_shares
from rolit_env.record import Recorder, RoundRecord
from rolit_env.variant import Variant, starter_color, variant

Shares = npt.NDArray[np.float64]

OPENINGS_AT_ONCE = 1024
"""Openings played side by side: enough to keep batched agents busy, few enough for caches and for progress."""


@dataclass(frozen=True)
class ArenaResult:
    """What `play_rounds` measured. All intervals are half widths at 95 %, from the spread between openings.

    An opening is played by every assignment of agents to seats; those rounds are not independent, so the openings are
    what is counted; `rolit_env.intervals` says how few of them and shares of 0 or 1 are taken. With a single opening there
    is no spread to see and the intervals are infinite.

    Attributes:
        agents: Names, N of them; with fewer agents than players the last one fills the other seats.
        size: Side of the board.
        players: Number of players, P.
        rounds: Rounds played: `openings` times the number of assignments.
        openings: Different openings.
        opening_turns: Random turns at the start of each round.
        seed: Seed of openings and agents.
        win_share: Part of the rounds won by each agent, over all its seats, float64 [N]; leaders share, so it sums to 1.
        interval: Half width of `win_share`, float64 [N].
        par: `win_share` of agents that are all alike: seats held over P, float64 [N].
        by_seat: Win share of each agent in one seat, when it sat there, float64 [N, P].
        by_seat_interval: Half width of `by_seat`, float64 [N, P].
        balls: Mean balls of each agent in one seat, float64 [N].
        tied: Part of the rounds whose first place was shared.
    """

    agents: tuple[str, ...]
    size: int
    players: int
    rounds: int
    openings: int
    opening_turns: int
    seed: int
    win_share: Shares
    interval: Shares
    par: Shares
    by_seat: Shares
    by_seat_interval: Shares
    balls: Shares
    tied: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result in plain lists and numbers, ready for JSON, which knows no infinity: it becomes None."""
        plain = asdict(self) | {"agents": list(self.agents)}
        for key, value in plain.items():
            if isinstance(value, np.ndarray):
                numbers = value.astype(object)
                numbers[~np.isfinite(value)] = None
                plain[key] = numbers.tolist()
        return plain


def seat_assignments(agents: int, players: int) -> list[tuple[int, ...]]:
    """Return every way to seat the agents, each a tuple [P] of agent numbers; the last agent fills the other seats.

    Each agent sits in each seat equally often over the list. Raises `OptionError` for no agent or more than players.
    """
    if not 1 <= agents <= players:
        raise OptionError(f"{agents} agents can't share {players} seats; allowed are 1 to {players} agents")
    seats = [min(seat, agents - 1) for seat in range(players)]
    return sorted(set(permutations(seats)))


def check_opening(chosen: Variant, opening_turns: int, starter: str, seed: int) -> None:
    """Raise `OptionError` for openings that can't be."""
    if seed < 0:
        raise OptionError(f"seed={seed} is no seed; allowed are ints from 0 up")
    if not 0 <= opening_turns <= chosen.plies:
        raise OptionError(
            f"opening_turns={opening_turns} does not fit; a round of {chosen.name} has 0 to {chosen.plies} turns"
        )
    if starter != "random":
        starter_color(starter, chosen)


def make_openings(count: int, chosen: Variant, opening_turns: int, starter: str, rng: np.random.Generator) -> Recorder:
    """Return so many rounds after so many uniformly random turns, recorded, which costs a byte a turn."""
    recorder = Recorder(GameBatch(count, size=chosen.size, players=chosen.players, starter=starter, seed=rng))
    for _ in range(opening_turns):
        actions = recorder.games.random_actions(rng)
        recorder.games.step(actions)
        recorder.add(actions)
    return recorder


def play_seated(
    agents: Sequence[Agent], seats: Sequence[int], opening: Recorder, rng: np.random.Generator, seconds: Shares | None = None
) -> Recorder:
    """Play rounds to their end and return them, recorded.

    Args:
        agents: The agents, N of them.
        seats: Which of them sits in each seat, P numbers.
        opening: The rounds so far, left as they are.
        rng: All the agents' chance.
        seconds: The time that each agent takes to choose is added here, float64 [N].

    Raises `AgentError` when an agent fails.
    """
    games = opening.games.copy()
    recorder = opening.copy(games)
    while not games.done:
        number = seats[games.seat]
        with blaming(agents[number]):
            began = time.perf_counter()
            actions = agents[number].act(games, rng)
            if seconds is not None:
                seconds[number] += time.perf_counter() - began
            games.step(actions)
        recorder.add(actions)
    return recorder


def play_rounds(
    agents: Sequence[Agent | str],
    rounds: int,
    *,
    size: int = 8,
    players: int = 2,
    seed: int = 0,
    opening_turns: int = 4,
    starter: str = "random",
    progress: Callable[[int, int], None] | None = None,
    record: Callable[[Iterator[RoundRecord]], None] | None = None,
) -> ArenaResult:
    """Play rounds between agents in lockstep batches, every assignment of agents to seats from the same openings.

    Args:
        agents: 1 to P agents, or descriptions for `make_agent`; with fewer than P the last one fills the other seats (two
            agents in a four-player game are 1 against 3, so the first one's par is .25).
        rounds: Rounds wanted; made up to a whole number of openings for all assignments.
        size: 8, 6 or 4.
        players: 2, 3 or 4.
        seed: The same seed gives the same games.
        opening_turns: Uniformly random turns at the start, the same for all assignments.
        starter: A colour, or `random`: drawn for each opening.
        progress: Called with rounds played and rounds in all, now and then.
        record: Called with records of the rounds each time that some have been played; see `rolit_env.record`.

    Raises:
        VariantError: for a variant that does not exist, or that an agent can't play.
        AgentError: for a description that names no agent.
        OptionError: for rounds, opening turns, a starter or a number of agents that can't be.
    """
    chosen = variant(size, players)
    rounds = checked_count("rounds", rounds)
    check_opening(chosen, opening_turns, starter, seed)
    assignments = seat_assignments(len(agents), players)
    seated = [make_agent(agent) if isinstance(agent, str) else agent for agent in agents]
    for agent in seated:
        agent.check_variant(chosen)

    openings = -(-rounds // len(assignments))
    held = np.zeros((len(agents), players))  # assignments in which an agent holds a seat
    for seats in assignments:
        held[list(seats), range(players)] += 1
    win_share, by_seat = _Mean((len(agents),)), _Mean((len(agents), players))
    balls = np.zeros(len(agents))
    tied = 0
    played = 0
    for first in range(0, openings, OPENINGS_AT_ONCE):
        count = min(OPENINGS_AT_ONCE, openings - first)
        # One stream for each chunk and assignment, so that a game depends on nothing played before it.
        opening_rng, *agent_rngs = np.random.default_rng([seed, first]).spawn(1 + len(assignments))
        opening = make_openings(count, chosen, opening_turns, starter, opening_rng)
        shares = np.zeros((count, len(agents), players))  # of each opening, summed over the assignments
        for seats, rng in zip(assignments, agent_rngs, strict=True):
            recorder = play_seated(seated, seats, opening, rng)
            if record:
                names = [seated[number].name for number in seats]
                record(recorder.records(names, opening_turns=opening_turns, seed=seed))
            counts = recorder.games.seat_counts()
            won = win_shares(counts)
            for seat, agent_number in enumerate(seats):
                shares[:, agent_number, seat] += won[:, seat]
                balls[agent_number] += counts[:, seat].sum()
            tied += int((won.max(axis=1) < 1).sum())
            played += count
            if progress:
                progress(played, openings * len(assignments))
        win_share.add(shares.sum(axis=2) / len(assignments))
        by_seat.add(shares / held)

    return ArenaResult(
        agents=tuple(agent.name for agent in seated),
        size=size,
        players=players,
        rounds=played,
        openings=openings,
        opening_turns=opening_turns,
        seed=seed,
        win_share=win_share.mean,
        interval=np.zeros(1) if len(agents) == 1 else win_share.half_width(),  # one alone wins all there is
        par=held.sum(axis=1) / held.sum(),
        by_seat=by_seat.mean,
        by_seat_interval=by_seat.half_width(),
        balls=balls / held.sum(axis=1) / openings,
        tied=tied / played,
    )


class _Mean:
    """The mean over openings and its interval, from running sums: memory does not grow with the rounds."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._count = 0
        self._sum = np.zeros(shape)
        self._sum_of_squares = np.zeros(shape)

    def add(self, samples: Shares) -> None:
        """Take in one value for each opening, float64 [openings, …]."""
        self._count += len(samples)
        self._sum += samples.sum(axis=0)
        self._sum_of_squares += np.square(samples).sum(axis=0)

    @property
    def mean(self) -> Shares:
        mean: Shares = self._sum / self._count
        return mean

    def half_width(self) -> Shares:
        """Return the half width of the mean."""
        # Win shares lie in 0 to 1, so the difference of squares loses no digits that matter; rounding may leave it below 0.
        variance = np.maximum(self._sum_of_squares / self._count - self.mean**2, 0) / max(self._count - 1, 1)
        return half_width(self.mean, np.sqrt(variance), self._count, self._count)
