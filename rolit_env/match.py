"""Matches as the booklet plays them: agents come in, rounds with seats and order rotating go out, and who won most of them.

A match is a contest. To measure agents use the arena, which gives all of them the same openings.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from rolit_env.agents import Agent, make_agent
from rolit_env.agents.base import blaming
from rolit_env.batch import GameBatch, draw_cells
from rolit_env.board import Board
from rolit_env.errors import OptionError, RoundNotOverError, RoundOverError
from rolit_env.lockstep import checked_count
from rolit_env.record import MatchRecord, RoundRecord, check_names, check_seed
from rolit_env.variant import COLORS, variant

MOST_SECONDS = 86_400
"""Seconds that a turn may be allowed, a day."""

WARM_UP_SECONDS = 60.0
"""How long an agent's first call, which may compile or load, is waited for before the first round with a time limit."""


def rotation(players: int) -> list[tuple[int, ...]]:
    """Return all P! ways to seat the agents, tuples [P] of their places in turn order, as rounds go through them.

    Over P rounds each agent sits in each seat once, in one and the same order around the table; then another order
    follows. Over all of them (2, 6 or 24) chances are equal.
    """
    circles = [(0, *rest) for rest in permutations(range(1, players))]
    return [circle[first:] + circle[:first] for circle in circles for first in range(players)]


class Match:
    """A match between as many agents as there are players.

    Each round a ball is rolled for the colour that starts, and the agents change seats (see `rotation`). Most rounds won wins,
    then most balls over all rounds; each of several leaders of a round is credited with it.

    With `seconds`, a turn that is not answered in time is played at random, each legal cell being as likely, and the record
    says so. Each agent then thinks in a thread of its own, whose late answer is dropped. Nobody can stop such a thread: a
    late agent thinks on and takes computing time from the others, and as it is never asked two things at once, its next
    turn begins with waiting for it. An agent that never answers forfeits all its turns, and what it holds is held
    until the process ends. One that keeps Python's lock to itself also keeps the clock from striking: the turn then
    lasts until it lets go, and is forfeited all the same. Before the first round each agent is asked twice off the
    clock, for a minute at most, so that compiling and loading cost nobody a turn.

    Args:
        agents: 2, 3 or 4 agents, or descriptions for `make_agent`; the same one may be given twice.
        size: 8, 6 or 4.
        rounds: Rounds to play; None for as many as there are players. Chances are equal for multiples of that.
        seconds: Seconds allowed a turn; None for no limit. The time is wall-clock time, to the millisecond.
        seed: The same seed gives the same rounds, if no agent looks at the clock or runs out of time.

    Raises:
        VariantError: for a variant that does not exist, or that an agent can't play.
        AgentError: for a description that names no agent.
        OptionError: for a number of agents or rounds, or seconds, that can't be.
        RecordError: for a seed or the name of an agent that no record takes.
    """

    def __init__(
        self,
        agents: Sequence[Agent | str],
        *,
        size: int = 8,
        rounds: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
    ) -> None:
        if not 2 <= len(agents) <= 4:
            raise OptionError(f"{len(agents)} can't play a match; allowed are 2, 3 or 4 agents, one for each player")
        self.variant = variant(size, len(agents))
        self.planned = self.variant.players if rounds is None else checked_count("rounds", rounds)
        if seconds is not None and not 0.001 <= seconds <= MOST_SECONDS:
            raise OptionError(f"seconds={seconds} is no time for a turn; allowed are numbers from 0.001 to {MOST_SECONDS}")
        self.agents = [make_agent(agent) if isinstance(agent, str) else agent for agent in agents]
        for agent in self.agents:
            agent.check_variant(self.variant)
        check_names(agent.name for agent in self.agents)  # now, not after the first round
        check_seed(seed)
        self.seconds = None if seconds is None else round(seconds, 3)
        self.seed = seed
        self._rounds: list[RoundRecord] = []
        self._seatings = rotation(self.variant.players)
        self._workers: dict[int, _Worker] = {}  # by the identity of the agent, which may play for several

    @property
    def is_over(self) -> bool:
        """Whether all rounds were played."""
        return len(self._rounds) == self.planned

    @property
    def rounds(self) -> tuple[RoundRecord, ...]:
        """The rounds played so far."""
        return tuple(self._rounds)

    def seats(self, number: int) -> tuple[int, ...]:
        """Return the agents' places in turn order in a round, from 0, played or not, [P]."""
        return self._seatings[number % len(self._seatings)]

    @property
    def record(self) -> MatchRecord:
        """The rounds so far; it counts who has won them. Raises `RoundNotOverError` before the end of the first."""
        if not self._rounds:
            raise RoundNotOverError("no round of the match is over yet, so there is nothing to record; play one first")
        return MatchRecord(
            agents=tuple(agent.name for agent in self.agents),
            rounds=tuple(self._rounds),
            seats=tuple(map(self.seats, range(len(self._rounds)))),
            planned=self.planned,
            seed=self.seed,
        )

    def play(self, after_round: Callable[[Match], None] | None = None) -> MatchRecord:
        """Play the rounds that are left and return the record of all; `after_round` is called with the match after each."""
        while not self.is_over:
            self.play_round()
            if after_round:
                after_round(self)
        return self.record

    def play_round(self) -> RoundRecord:
        """Play the next round and return its record. Errors of agents end it and leave the match as it was.

        Raises:
            AgentError: when an agent fails.
            RoundOverError: when all rounds were played.
        """
        if self.is_over:
            raise RoundOverError(f"all {self.planned} rounds of the match were played; start a new Match")
        if self.seconds is not None and not self._workers:
            self._start_workers()
        number = len(self._rounds)
        seats = self.seats(number)
        rng = np.random.default_rng([self.seed, number])  # so that a round depends on nothing played before it
        starter = self.variant.colors[rng.integers(self.variant.players)]
        board = Board(self.variant.size, self.variant.players, starter)
        times: list[float] = []
        timeouts: list[int] = []
        while not board.is_over:
            # A generator for each turn: a late agent goes on drawing from its own, whatever the others do meanwhile.
            answer_rng, forfeit_rng = rng.spawn(2)
            games = GameBatch.from_boards([board])
            agent = self.agents[seats[board.seat]]
            with blaming(agent):
                move, seconds = self._ask(agent, games, answer_rng)
                if move is None:
                    timeouts.append(board.ply + 1)
                    move = int(draw_cells(games.legal, forfeit_rng)[0])
                board.push(move)
            times.append(round(seconds, 3))
        order = self.variant.slot_colors(COLORS.index(starter))
        names = {COLORS[color]: self.agents[agent].name for color, agent in zip(order, seats, strict=False)}
        played = RoundRecord.from_board(board, names, timeouts=tuple(timeouts), seconds=tuple(times), limit=self.seconds)
        self._rounds.append(played)
        return played

    def _ask(self, agent: Agent, games: GameBatch, rng: np.random.Generator) -> tuple[int | None, float]:
        """Return an agent's move and the seconds it took; None for a move that did not come in time."""
        if self.seconds is not None:
            return self._workers[id(agent)].ask(games, rng, self.seconds)
        start = time.perf_counter()
        move = int(agent.act(games, rng)[0])
        return move, time.perf_counter() - start

    def _start_workers(self) -> None:
        """Give each agent a thread and let it act once in the middle and once near the end, where searches differ."""
        self._workers = {id(agent): _Worker(agent) for agent in self.agents}
        rng = np.random.default_rng(0)
        games = GameBatch(1, size=self.variant.size, players=self.variant.players, seed=0)
        for turns_left in (self.variant.plies // 2, 4):
            games.step_random(rng, games.plies - games.ply - turns_left)
            for agent in self.agents:
                with blaming(agent):
                    self._workers[id(agent)].ask(games.copy(), rng.spawn(1)[0], WARM_UP_SECONDS / 2)


class _Task(NamedTuple):
    """A position that waits for a move."""

    games: GameBatch
    rng: np.random.Generator
    answers: queue.SimpleQueue[tuple[int | BaseException, float]]  # a move or an error, and the time it came
    dropped: threading.Event  # set when nobody waits any more


class _Worker:
    """A thread in which an agent acts on one position after another; the thread ends after the worker does."""

    def __init__(self, agent: Agent) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        threading.Thread(target=_act, args=(agent, self._tasks), daemon=True).start()
        weakref.finalize(self, self._tasks.put, None)

    def ask(self, games: GameBatch, rng: np.random.Generator, seconds: float) -> tuple[int | None, float]:
        """Return a move, or None if it took too long, and the seconds that passed. Errors of the agent are raised here."""
        task = _Task(games, rng, queue.SimpleQueue(), threading.Event())
        start = time.perf_counter()
        self._tasks.put(task)
        try:
            answer, ended = task.answers.get(timeout=seconds)
        except queue.Empty:
            task.dropped.set()
            return None, time.perf_counter() - start
        if isinstance(answer, BaseException):
            raise answer
        # A thread that kept Python's lock may have answered late, and yet before anybody could look at the clock.
        return (answer if ended - start <= seconds else None), ended - start


def _act(agent: Agent, tasks: queue.SimpleQueue[_Task | None]) -> None:
    while task := tasks.get():
        if task.dropped.is_set():  # while the agent was busy with an earlier one
            continue
        answer: int | BaseException
        try:
            answer = int(agent.act(task.games, task.rng)[0])
        except BaseException as error:
            answer = error
        task.answers.put((answer, time.perf_counter()))
