"""Checks of cards: an agent with a card comes in, its results come out again, measured anew, and how they agree.

The same rounds are played as for the card, so that on the same machine, with the same versions, every figure is the very same.
Other processors round otherwise: a turn that is as good as another may be chosen in its place, and a round goes another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rolit_env.agents import NTupleAgent, PolicyAgent, make_agent
from rolit_env.arena import play_rounds
from rolit_env.errors import ModelFileError
from rolit_env.exam import take_exam

Progress = Callable[[str, int, int], None]

ERRORS = 4 / 1.96
"""Half widths that a result of other rounds may be off: four standard errors, for there are hundreds of figures."""

COMPLETE = 0.001
"""Difference allowed between exams in all positions, which have no interval."""


@dataclass(frozen=True)
class Finding:
    """What came of one result on a card.

    Attributes:
        what: The opponent or the exam.
        said: The win share, or the share of values kept, on the card.
        found: The same, measured anew.
        allowed: How far apart the two may be.
        verdict: `same` where all figures are, `within` where all shares lie within what is allowed, else `outside`.
        note: What is outside, or empty.
    """

    what: str
    said: float
    found: float
    allowed: float
    verdict: Literal["same", "within", "outside"]
    note: str = ""


class _Share(NamedTuple):
    name: str
    said: float
    found: float
    allowed: float

    @property
    def outside(self) -> bool:
        return not abs(self.said - self.found) <= self.allowed + 1e-9


def results_of(agent: PolicyAgent | NTupleAgent) -> list[str]:
    """Return the names of all results on an agent's card: opponents, then exams. Raises `ModelFileError` for none."""
    card = agent.card
    try:
        return [*card["results"]["against"], *(_exam_name(exam) for exam in card.get("exam", ()))]
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"the card of {agent.name} has no results that can be checked ({error!r})") from None


def check(agent: PolicyAgent | NTupleAgent, rounds: int | None = None, progress: Progress | None = None) -> Iterator[Finding]:
    """Measure all results on an agent's card anew, and yield what came of each.

    Args:
        agent: The agent, from a file with a card.
        rounds: Rounds against each opponent, where the card has more; None for as many as it has. Fewer rounds are others,
            too, and both results have their part in what is allowed then.
        progress: Called with a result's name, rounds or positions done, and those in all.

    Raises:
        ModelFileError: for a card without results.
        AgentError: for an opponent that there is no more.
    """
    results_of(agent)
    card, chosen = agent.card, agent.card["variant"]
    for name, said in card["results"]["against"].items():
        try:
            played = min(rounds or said["rounds"], said["rounds"])
            options = {"seed": said["seed"], "opening_turns": said["opening_turns"], **chosen}
            result = play_rounds([agent, make_agent(name)], played, **options, progress=_named(progress, name))
            yield _compare(name, said, result.to_dict(), _arena_shares(said, result.to_dict()))
        except (KeyError, TypeError, IndexError) as error:
            raise ModelFileError(f"the card of {agent.name} can't be checked for {name} ({error!r})") from None
    for said in card.get("exam", ()):
        name = _exam_name(said)
        try:
            exam = take_exam(agent, **chosen, starter=said["starter"], seed=said["seed"], progress=_named(progress, name))
            yield _compare(name, said, exam.to_dict(), _exam_shares(said, exam.to_dict()))
        except (KeyError, TypeError, IndexError) as error:
            raise ModelFileError(f"the card of {agent.name} can't be checked for its {name} ({error!r})") from None


def _exam_name(exam: dict[str, Any]) -> str:
    return f"exam, {exam['starter']} first" if exam["complete"] else "exam"


def _named(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return (lambda done, total: progress(name, done, total)) if progress else None


def _arena_shares(said: dict[str, Any], found: dict[str, Any]) -> list[_Share]:
    """Return the first agent's win share, over all seats and in each."""
    shares = []
    for (name, share, wide), (_, other, other_wide) in zip(_figures(said), _figures(found), strict=True):
        if said["rounds"] != found["rounds"]:
            # Few rounds show less spread than there is, or none, so the card's has its say too.
            expected = wide * math.sqrt(said["openings"] / found["openings"])
            other_wide = max(other_wide, expected) if other_wide < math.inf else expected
            wide = ERRORS * math.hypot(wide, other_wide)
        shares.append(_Share(name, share, other, wide))
    return shares


def _figures(result: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return names, shares and half widths, which are above 0: what never happened may yet, by the rule of three."""
    seats = zip(result["by_seat"][0], result["by_seat_interval"][0], strict=True)
    figures = [("the win share", result["win_share"][0], result["interval"][0])]
    figures += [(f"seat {seat}", share, wide) for seat, (share, wide) in enumerate(seats, 1)]
    least = min(1.0, 3 / result["openings"])
    return [(name, share, math.inf if wide is None else wide or least) for name, share, wide in figures]


def _exam_shares(said: dict[str, Any], found: dict[str, Any]) -> list[_Share]:
    places = ["overall", *(["own_play"] if found["own_play"] else [])]
    return [
        _Share(place.replace("_", " "), said[place]["kept"], found[place]["kept"], said[place]["kept_interval"] or COMPLETE)
        for place in places
    ]


def _compare(what: str, said: dict[str, Any], found: dict[str, Any], shares: list[_Share]) -> Finding:
    first = shares[0]
    finding = (what, first.said, first.found, first.allowed)
    if _alike(said, found):
        return Finding(*finding, "same")
    outside = [share for share in shares if share.outside]
    if outside:
        note = "; ".join(f"{share.name} {share.found:.4f}, not {share.said:.4f} ± {share.allowed:.4f}" for share in outside)
        return Finding(*finding, "outside", note)
    if said.get("rounds") == found.get("rounds") and all(_alike(share.said, share.found) for share in shares):
        others = [key for key in said if not _alike({key: said[key]}, found)]
        return Finding(*finding, "outside", f"the shares are the very same, but not {', '.join(others)}")
    return Finding(*finding, "within")


def _alike(said: Any, found: Any, digits: float = 1e-9) -> bool:
    """Tell whether all that is said was found, but for the last digits of floats and for what agents are called."""
    if isinstance(said, dict) and isinstance(found, dict):
        # How intervals are worked out may be refined; the games tell.
        return all(
            key in found and _alike(value, found[key], 0.01 if "interval" in key else digits)
            for key, value in said.items()
            if key not in ("agent", "agents")
        )
    if isinstance(said, list) and isinstance(found, list):
        return len(said) == len(found) and all(_alike(one, other, digits) for one, other in zip(said, found, strict=True))
    if isinstance(said, float) and isinstance(found, int | float):
        return math.isclose(said, found, rel_tol=digits, abs_tol=1e-12)
    return bool(said == found)
