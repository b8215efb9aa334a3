"""Ratings: who won how many rounds of whom comes in, strengths on one scale with intervals go out.

The model is Luce's: of the members of a round, each is first with a chance in proportion to its strength, and leaders share
the round. With two players that is Bradley and Terry's, ties counting half. Ratings are 400 · log10(strength), as Elo's are:
of two players, one who is 400 above is first ten times as often. They are found by maximum likelihood, with some of them
fixed, for only differences mean anything.

Strengths of agents are never exactly on one line, so what a rating says depends on whom an agent met how often: it is the
one that accounts for the rounds won against these opponents. Intervals are about that figure; they come from drawing
openings anew (bootstrap), because rounds from one opening are not independent, and opponents that were fixed count as known.

Legend: N agents, G groups of P members, K blocks of openings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from openskill.models import PlackettLuce

from rolit_env.intervals import student

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ELO = 400 / np.log(10)
"""Points of rating for a factor e of strength."""

RESAMPLES = 400
"""Times that openings are drawn anew for intervals."""

EXTRA = 0.1
"""Rounds that every group is taken to have shared, besides those it played."""


@dataclass(frozen=True)
class Ratings:
    """Strengths of agents, in points.

    Attributes:
        rating: float64 [N]; NaN for an agent without rounds.
        low, high: Ends of the 95 % intervals, float64 [N]; infinite where an agent, or some together, won or lost all that
            they played against the rest, so that nothing says how far away they are: the rating is only a place holder then.
    """

    rating: Floats
    low: Floats
    high: Floats


def rate(
    members: Ints,
    won: Floats,
    rounds: Floats,
    agents: int,
    fixed: Mapping[int, float],
    openings: int | None = None,
    seed: int = 0,
) -> Ratings:
    """Rate agents by the rounds they won.

    Args:
        members: Who met, int64 [G, P].
        won: Rounds won by each member in each block of openings, leaders sharing, float64 [K, G, P].
        rounds: Rounds of each group in each block, float64 [K].
        agents: Number of agents, N.
        fixed: Agents whose ratings are given, one or more of them.
        openings: Openings in all blocks; None for one in each.
        seed: Draws the openings anew.
    """
    rating = fit(members, won.sum(axis=0)[None], rounds.sum()[None], agents, fixed)[0]
    blocks = len(rounds)
    if blocks == 1:
        return Ratings(rating, *_ends(rating, np.full(agents, np.inf), fixed))
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=RESAMPLES).astype(float)
    drawn = (draws @ won.reshape(blocks, -1)).reshape(RESAMPLES, *won.shape[1:])
    samples = fit(members, drawn, draws @ rounds, agents, fixed, rating)
    # A resample of K blocks spreads less than they do, and few blocks less than they seem to.
    wider = np.sqrt(blocks / (blocks - 1)) * student(blocks - 1) / student(10**9)
    quantiles = np.quantile(samples, (0.025, 0.975), axis=0)
    low, high = rating + wider * (quantiles - rating)
    # Who won of whom, and not how often, says who has no upper end and who has no lower one.
    ahead = _won_something_of(members, won.sum(axis=0), agents)
    playing = np.isin(np.arange(agents), members)
    above, below = playing & ~_reach(ahead.T, fixed), playing & ~_reach(ahead, fixed)
    totals = members, won.sum(axis=0), rounds.sum(), 3 / (openings or blocks), rating, fixed
    if above.any():
        high[above], low[above] = np.inf, _bound(above, 1, *totals)[above]
    if below.any():
        low[below], high[below] = -np.inf, np.where(above, np.inf, _bound(below, -1, *totals))[below]
    # Openings that all ended alike show no spread, but are no certainty either.
    alike = playing & ~above & ~below & (np.ptp(samples, axis=0) < 1e-3)
    for agent in set(np.flatnonzero(alike).tolist()) - set(fixed):
        alone = np.arange(agents) == agent
        low[agent], high[agent] = (_bound(alone, lost, *totals)[agent] for lost in (1, -1))
    return Ratings(rating, low, high)


def fit(
    members: Ints, won: Floats, rounds: Floats, agents: int, fixed: Mapping[int, float], start: Floats | None = None
) -> Floats:
    """Return the most likely ratings, float64 [R, N], for R results.

    Each group gets a tenth of a round more, shared by all: without it an agent that never lost would have no finite rating.
    It weighs nothing where there are wins and losses.

    Args:
        members: int64 [G, P].
        won: Rounds won by each member, float64 [R, G, P].
        rounds: Rounds of each group, float64 [R].
        agents: N.
        fixed: Ratings that are given.
        start: Ratings to begin from, float64 [N].
    """
    results, groups, players = won.shape
    hot = np.zeros((groups, players, agents))
    hot[np.arange(groups)[:, None], np.arange(players), members] = 1
    flat = hot.reshape(groups * players, agents)
    pairs = np.einsum("gpn,gqm->gpqnm", hot, hot).reshape(groups * players**2, agents**2)
    free = [agent for agent in range(agents) if agent not in fixed and agent in members]
    strength = np.zeros((results, agents)) if start is None else np.tile(np.nan_to_num(start) / ELO, (results, 1))
    for agent, rating in fixed.items():
        strength[:, agent] = rating / ELO
    total = rounds[:, None, None] + EXTRA
    for _ in range(200 if free else 0):
        logits = strength[:, members]
        chance = np.exp(logits - logits.max(axis=2, keepdims=True))
        chance /= chance.sum(axis=2, keepdims=True)
        slope = ((won + EXTRA / players - total * chance).reshape(results, -1) @ flat)[:, free]
        bend = chance[..., :, None] * (np.eye(players) - chance[..., None, :]) * total[..., None]
        bends = (bend.reshape(results, -1) @ pairs).reshape(results, agents, agents)[:, free][:, :, free]
        step = np.linalg.solve(bends, slope[..., None])[..., 0]
        strength[:, free] += np.clip(step, -1, 1)  # far from the top, Newton's steps are too long
        if np.abs(step).max() < 1e-9:
            break
    ratings: Floats = strength * ELO
    ratings[:, list(fixed)] = list(fixed.values())
    ratings[:, [agent for agent in range(agents) if agent not in members and agent not in fixed]] = np.nan
    return ratings


def _won_something_of(members: Ints, won: Floats, agents: int) -> Bools:
    """Return whether the row's agent won anything of a round with the column's, bool [N, N]."""
    ahead = np.zeros((agents, agents), bool)
    for together, shares in zip(members, won, strict=True):
        ahead[np.ix_(together[shares > 0], together)] = True
    return ahead


def _reach(steps: Bools, goals: Iterable[int]) -> Bools:
    """Return from where, going from row to column, a goal can be reached, bool [N]."""
    reached: Bools = np.isin(np.arange(len(steps)), list(goals))
    for _ in steps:
        reached |= steps @ reached
    return reached


def _bound(
    apart: Bools,
    lost: int,
    members: Ints,
    won: Floats,
    rounds: float,
    part: float,
    rating: Floats,
    fixed: Mapping[int, float],
) -> Floats:
    """Return the ratings if agents that are set apart had lost, or with −1 won, that part of what they played with the rest.

    By the rule of three: what did not happen in K openings has a chance of at most 3 / K, with 95 % confidence.
    """
    inside = apart[members]
    givers, takers = (inside, ~inside) if lost > 0 else (~inside, inside)
    mixed = inside.any(axis=1, keepdims=True) & (~inside).any(axis=1, keepdims=True)
    taken = np.where(mixed & givers, min(0.5, part) * won, 0.0)
    shares = (mixed & takers) / np.maximum(takers.sum(axis=1, keepdims=True), 1)
    moved = won - taken + taken.sum(axis=1, keepdims=True) * shares
    others = {number: float(rating[number]) for number in range(len(rating)) if not apart[number]} | dict(fixed)
    bound: Floats = fit(members, moved[None], np.array([rounds]), len(rating), others)[0]
    return bound


def _ends(rating: Floats, width: Floats, fixed: Mapping[int, float]) -> tuple[Floats, Floats]:
    width[list(fixed)] = 0
    return rating - width, rating + width


@dataclass(frozen=True)
class Skills:
    """OpenSkill's ratings, by Plackett and Luce's model of whole rankings.

    Attributes:
        mu: Estimates on OpenSkill's own scale, where all begin at 25, float64 [N].
        sigma: Its uncertainties, float64 [N]. They are no confidence intervals: rounds from one opening count as independent.
        rating: The estimates in points as of `Ratings`, shifted to the anchor, float64 [N].
        rounds: Rounds that they were made of.
    """

    mu: Floats
    sigma: Floats
    rating: Floats
    rounds: int


def openskill(rounds: Iterable[tuple[Ints, Ints]], agents: int, anchor: int, anchor_rating: float) -> Skills:
    """Rate agents by OpenSkill, round by round.

    Args:
        rounds: In order, for each round who met and the balls of each of them, int64 [P] both.
        agents: N.
        anchor: The agent whose rating is given.
        anchor_rating: That rating.
    """
    model = PlackettLuce(tau=0)  # agents don't change
    skills = [model.rating() for _ in range(agents)]
    count = players = 0
    for members, balls in rounds:
        met = model.rate([[skills[member]] for member in members], ranks=[float(-own) for own in balls])
        for member, (skill,) in zip(members, met, strict=True):
            skills[member] = skill
        count, players = count + 1, len(members)
    mu, sigma = np.array([skill.mu for skill in skills]), np.array([skill.sigma for skill in skills])
    # The model's strength is exp(mu / c), where c² is the sum over the members of sigma² + beta²; sigma vanishes in the end.
    scale = ELO / (model.beta * np.sqrt(players or 1))
    return Skills(mu, sigma, anchor_rating + (mu - mu[anchor]) * scale, count)
