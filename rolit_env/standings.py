"""Standings: the folder of a tournament comes in, what its rounds say about each agent goes out, with 95 % intervals.

All intervals come from the spread between openings: rounds from one opening, whoever plays them, are not independent. Very
many openings are taken together in at most `BLOCKS` blocks, so memory does not grow with the rounds. While a tournament still
goes on, only openings count that all groups have played.

Legend: N agents, P players, G groups, K blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, permutations
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from rolit_env.errors import ResultsError
from rolit_env.intervals import half_width
from rolit_env.payoffs import win_shares
from rolit_env.ratings import Floats, Ints, Ratings, Skills, openskill, rate
from rolit_env.tournament import Chunk, Settings, chunks_at, find_lines, load_settings, open_results, read_timings

BLOCKS, FEWEST = 1000, 50
"""Most blocks that openings are put in, and how many there are at least, for many groups take much memory."""

SKILL_ROUNDS = 50_000
"""Rounds that OpenSkill is given, the first ones: it takes them one by one."""


@dataclass(frozen=True)
class Standings:
    """What is known after a tournament, or so far. Half widths are at 95 %.

    Attributes:
        settings: What was played.
        openings: Openings that all groups have played.
        rounds: Rounds from these openings.
        tied: Part of the rounds whose first place was shared.
        win_share: Part of its rounds that each agent won, leaders sharing, float64 [N].
        interval: Half width of it.
        by_seat: The same in each seat, float64 [N, P].
        by_seat_interval: Half width of it.
        balls: Mean balls at the end, float64 [N].
        margins: Rounds by an agent's balls less those of the best other, from −n·n to n·n, int64 [N, 2·n·n + 1].
        ahead: How often the row's agent had more balls than the column's in rounds of both, ties counting half, float64
            [N, N]; NaN where they did not meet. With two players that is the win share.
        ahead_interval: Half width of it.
        ratings: By first places, as `ratings.rate` explains.
        anchors: Agents whose ratings were given, by number.
        skills: OpenSkill's ratings by whole rankings; None where ratings of several agents are given.
        milliseconds: Time of a move, the median of chunks, float64 [N]; NaN where no times were kept.
        rounds_per_second: Rounds that a process played in a second; NaN likewise.
    """

    settings: Settings
    openings: int
    rounds: int
    tied: float
    win_share: Floats
    interval: Floats
    by_seat: Floats
    by_seat_interval: Floats
    balls: Floats
    margins: Ints
    ahead: Floats
    ahead_interval: Floats
    ratings: Ratings
    anchors: dict[int, float]
    skills: Skills | None
    milliseconds: Floats
    rounds_per_second: float

    @property
    def order(self) -> list[int]:
        """The agents from the strongest down."""
        return [int(agent) for agent in np.argsort(-np.nan_to_num(self.ratings.rating, nan=-np.inf), kind="stable")]

    @property
    def upsets(self) -> list[tuple[int, int]]:
        """Pairs, a winner and a loser, in which the one with the lower rating is ahead by more than chance explains."""
        rating = self.ratings.rating
        return [(a, b) for a, b in self._clear_pairs() if rating[a] < rating[b]]

    @property
    def cycles(self) -> list[tuple[int, int, int]]:
        """Three agents of whom each is ahead of the next, and the last of the first, by more than chance explains."""
        clear = set(self._clear_pairs())
        every = permutations(range(len(self.settings.names)), 3)
        return [(a, b, c) for a, b, c in every if a < min(b, c) and {(a, b), (b, c), (c, a)} <= clear]

    def _clear_pairs(self) -> list[tuple[int, int]]:
        return [(int(a), int(b)) for a, b in np.argwhere(self.ahead - self.ahead_interval > 0.5)]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain lists and numbers, ready for JSON; what is not finite becomes None."""
        settings, names = self.settings, self.settings.names
        agents = [
            {
                "name": names[at],
                "description": settings.agents[names[at]],
                "rating": _plain(self.ratings.rating[at]),
                "low": _plain(self.ratings.low[at]),
                "high": _plain(self.ratings.high[at]),
                "anchor": at in self.anchors,
                "win_share": _plain(self.win_share[at]),
                "interval": _plain(self.interval[at]),
                "by_seat": _plain(self.by_seat[at]),
                "by_seat_interval": _plain(self.by_seat_interval[at]),
                "balls": _plain(self.balls[at]),
                "openskill": self.skills
                and {
                    "mu": _plain(self.skills.mu[at]),
                    "sigma": _plain(self.skills.sigma[at]),
                    "rating": _plain(self.skills.rating[at]),
                },
                "milliseconds": _plain(self.milliseconds[at]),
                "margins": {
                    int(margin - settings.variant.cells): int(self.margins[at, margin])
                    for margin in np.flatnonzero(self.margins[at])
                },
            }
            for at in self.order
        ]
        order = np.array(self.order)
        return {
            "size": settings.size,
            "players": settings.players,
            "openings": self.openings,
            "openings_wanted": settings.openings,
            "opening_turns": settings.opening_turns,
            "starter": settings.starter,
            "seed": settings.seed,
            "rounds": self.rounds,
            "rounds_per_second": _plain(self.rounds_per_second),
            "tied": self.tied,
            "agents": agents,
            "ahead": _plain(self.ahead[order][:, order]),
            "ahead_interval": _plain(self.ahead_interval[order][:, order]),
            "upsets": [[names[at] for at in pair] for pair in self.upsets],
            "cycles": [[names[at] for at in cycle] for cycle in self.cycles],
        }


def make_standings(folder: Path) -> Standings:
    """Return the standings of a tournament's folder, where `play_tournament` played.

    Where the settings give no ratings, an agent that is `random` has 0, or else the first one.

    Raises `ResultsError` for a folder without results, or with damaged ones.
    """
    settings = load_settings(folder)
    with open_results(folder) as file:
        return _standings(folder, settings, file)


def _standings(folder: Path, settings: Settings, file: BinaryIO) -> Standings:
    groups, names = settings.groups, settings.names
    places = find_lines(file, settings)
    played = Counter(number for number, _ in places)
    complete = [number for number, count in played.items() if count == len(groups)]
    places = {key: place for key, place in places.items() if played[key[0]] == len(groups)}
    openings = sum(settings.openings_in(number) for number in complete)
    if not openings:
        raise ResultsError(f"{folder} has no openings yet that all {len(groups)} groups have played; let the tournament go on")

    tally = _Tally(settings, openings)
    first = 0
    for number, together in groupby(chunks_at(file, settings, places), lambda chunk: chunk.number):
        for chunk in together:
            tally.add(chunk, first)
        first += settings.openings_in(number)

    fixed = {names.index(name): rating for name, rating in settings.anchors.items()}
    if not fixed:
        fixed = {next((at for at, name in enumerate(names) if settings.agents[name] == "random"), 0): 0.0}
    members = np.array(groups)
    ratings = rate(members, tally.shares.sum(axis=3), tally.openings * len(settings.assignments), len(names), fixed, openings)
    skills = None
    if len(fixed) == 1:
        ((anchor, rating),) = fixed.items()
        skills = openskill(_rounds(settings, chunks_at(file, settings, places)), len(names), anchor, rating)
    milliseconds, rounds_per_second = _speeds(folder, settings)
    return Standings(
        settings=settings,
        openings=openings,
        rounds=openings * len(settings.assignments) * len(groups),
        ratings=ratings,
        anchors=fixed,
        skills=skills,
        milliseconds=milliseconds,
        rounds_per_second=rounds_per_second,
        **tally.figures(),
    )


def _by_member(chunk: Chunk, settings: Settings) -> Ints:
    """Return the balls of each member of the group, int64 [assignments, openings, P]."""
    seat_of = np.argsort(settings.assignments, axis=1)  # of each member, in each assignment
    by_member: Ints = np.take_along_axis(chunk.balls.astype(np.int64), seat_of[:, None, :], axis=2)
    return by_member


def _rounds(settings: Settings, chunks: Iterator[Chunk]) -> Iterator[tuple[Ints, Ints]]:
    """Yield who met and their balls, opening by opening, of the first rounds."""
    groups = np.array(settings.groups)
    left = SKILL_ROUNDS
    for _, together in groupby(chunks, lambda chunk: chunk.number):
        balls = np.stack([_by_member(chunk, settings) for chunk in together])  # [G, assignments, openings, P]
        for opening in range(balls.shape[2]):
            for assignment in range(balls.shape[1]):
                for group, members in enumerate(groups):
                    yield members, balls[group, assignment, opening]
            left -= len(groups) * balls.shape[1]
            if left < 0:
                return


class _Tally:
    """Sums over rounds, by block of openings."""

    def __init__(self, settings: Settings, openings: int) -> None:
        self.settings = settings
        groups, players, agents = len(settings.groups), settings.players, len(settings.names)
        most = max(FEWEST, min(BLOCKS, 10**6 // groups))
        self.block = -(-openings // most)
        blocks = -(-openings // self.block)
        self.openings = np.full(blocks, float(self.block))
        self.openings[-1] = openings - (blocks - 1) * self.block
        self.shares = np.zeros((blocks, groups, players, players))
        """Rounds won by block, group, member and seat."""
        self.ahead = np.zeros((blocks, agents, agents))
        self.balls = np.zeros(agents)
        self.margins = np.zeros((agents, 2 * settings.variant.cells + 1), np.int64)
        self.tied = 0
        self.sits = np.eye(players)[np.argsort(settings.assignments, axis=1)]  # [assignments, members, seats]

    def add(self, chunk: Chunk, first: int) -> None:
        """Take in a chunk whose openings are the ones from `first` on."""
        members = list(self.settings.groups[chunk.group])
        cells = self.settings.variant.cells
        balls = _by_member(chunk, self.settings)
        won = win_shares(balls)
        self.tied += int((won.max(axis=2) < 1).sum())
        self.balls[members] += balls.sum(axis=(0, 1))
        by_opening = np.einsum("aom,ams->oms", won, self.sits)
        ahead = ((np.sign(balls[..., :, None] - balls[..., None, :]) + 1) / 2).sum(axis=0)
        block_of = (first + np.arange(balls.shape[1])) // self.block
        np.add.at(self.shares[:, chunk.group], block_of, by_opening)
        for at, member in enumerate(members):
            others = np.delete(balls, at, axis=2).max(axis=2)
            self.margins[member] += np.bincount((balls[..., at] - others + cells).ravel(), minlength=2 * cells + 1)
            for opponent, number in enumerate(members):
                np.add.at(self.ahead[:, member, number], block_of, ahead[:, at, opponent])

    def figures(self) -> dict[str, Any]:
        """Return what `Standings` says about win shares, seats, balls and pairs."""
        groups, players, agents = np.array(self.settings.groups), self.settings.players, len(self.settings.names)
        each = len(self.settings.assignments)
        by_seat = np.zeros((len(self.openings), agents, players))
        met = np.zeros((agents, agents))
        for group, members in enumerate(groups):
            by_seat[:, members] += self.shares[:, group]
            met[np.ix_(members, members)] += each
        plays = np.diag(met).copy()  # rounds of each agent from an opening
        np.fill_diagonal(met, 0)
        win_share, interval = self._mean(by_seat.sum(axis=2), plays)
        seat_share, seat_interval = self._mean(by_seat, plays[:, None] / players)
        ahead, ahead_interval = self._mean(self.ahead, met)
        rounds = plays * self.openings.sum()
        return {
            "tied": self.tied / (self.openings.sum() * each * len(groups)),
            "win_share": win_share,
            "interval": interval,
            "by_seat": seat_share,
            "by_seat_interval": seat_interval,
            "balls": np.divide(self.balls, rounds, out=np.full(agents, np.nan), where=rounds > 0),
            "margins": self.margins,
            "ahead": ahead,
            "ahead_interval": ahead_interval,
        }

    def _mean(self, sums: Floats, rounds: Floats) -> tuple[Floats, Floats]:
        """Return means a round and their half widths, from sums by block, float64 [K, …], and rounds an opening, […]."""
        counts = self.openings.reshape(-1, *[1] * rounds.ndim) * rounds
        total, blocks = counts.sum(axis=0), len(counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(total > 0, sums.sum(axis=0) / total, np.nan)
            variance = blocks / max(blocks - 1, 1) * np.square(sums - mean * counts).sum(axis=0) / total**2
        return mean, np.where(np.isnan(mean), np.nan, half_width(mean, np.sqrt(variance), blocks, int(self.openings.sum())))


def _speeds(folder: Path, settings: Settings) -> tuple[Floats, float]:
    """Return the milliseconds of a move of each agent, and the rounds that a process plays in a second."""
    times: list[list[float]] = [[] for _ in settings.names]
    seconds = rounds = 0.0
    for timing in read_timings(folder, settings):
        members = settings.groups[timing["group"]]
        for member, took, moves in zip(members, timing["seconds"], timing["moves"], strict=True):
            times[member].append(1000 * took / moves if moves else np.nan)
        seconds += timing["all"]
        rounds += settings.openings_in(timing["chunk"]) * len(settings.assignments)
    milliseconds = np.array([float(np.median(of)) if of else np.nan for of in times])
    return milliseconds, rounds / seconds if seconds else float("nan")


def _plain(value: npt.ArrayLike) -> Any:
    numbers = np.asarray(value, float).astype(object)
    numbers[~np.isfinite(np.asarray(value, float))] = None
    return numbers.tolist() if numbers.ndim else numbers.item()
