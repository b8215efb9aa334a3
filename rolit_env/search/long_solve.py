"""The value of a position far from the end: a position and a folder come in, proven bounds gather there, session by session.

The first moves are spread out into a graph in which each position stands once, however it is reached, turned or mirrored.
Those at its end, the frontier, are solved one by one, each for one question only ("is it so many balls or more?"), and every
answer is a fact that is appended to a file. All else follows from the facts: the bounds of the position that the run is for,
the question that narrows them, and the frontier position to ask next, by proof numbers (Allis, 1994). So a run that is killed
loses only the answers it was about to find, and nothing can get out of step.

Legend: N positions of a layer, M moves from it, n side.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.bits import Words
from rolit_env.errors import CheckpointError, OptionError, OutputError
from rolit_env.files import replacing
from rolit_env.search.expansion import Layer, Numbers, canonical, one_neutral, play_all, spread
from rolit_env.search.solver import NODES, STOP, make_memory, solve_pair

_PENDING = 4.0
"""What a position is thought to cost while a thread is at it, so that the next thread looks elsewhere; others cost 1."""

_BLINK = 0.1
"""Seconds between two reports of progress."""


@dataclass(frozen=True)
class LongProgress:
    """How far a run is.

    Attributes:
        low: The value is at least this,
        high: and at most this, in balls from the mover's view.
        question: What is being asked: is the value this or more?
        to_do: Answers that the question still takes, if every one is what helps most.
        answers: Answers found, in all sessions of the run.
        frontier: Positions of the frontier.
        nodes: Positions searched for them.
        seconds: Seconds that took, summed over threads.
    """

    low: int
    high: int
    question: int
    to_do: int
    answers: int
    frontier: int
    nodes: int
    seconds: float


class LongSolve:
    """A run that finds the value of one two-player position, with its state in a folder.

    Args:
        folder: Where the facts are kept; made if it is not there.
        words: Balls of the mover, of the other player, and neutral ones, uint64 [3].
        size: Side of the board, n.
        depth: Moves to the frontier; None takes that of the folder, and for a new one the deepest with no more than
            200,000 positions. Deeper means shorter searches, so that less is lost when the run is stopped.
        threads: Frontier positions that are solved at a time.
        entries: Positions in the table of each thread, 32 bytes each.

    Raises:
        OptionError: for a depth that the round does not have, or less than one thread.
        CheckpointError: when the folder holds a run of another position or depth, or facts that can't all be true.
        OutputError: when the folder can't be written to.
    """

    def __init__(
        self, folder: Path, words: Words, size: int, depth: int | None = None, threads: int = 1, entries: int = 1 << 22
    ) -> None:
        empties = size * size - int(np.bitwise_count(np.bitwise_or.reduce(words)))
        if depth is not None and not 1 <= depth <= empties:
            raise OptionError(f"depth={depth} does not fit; allowed are 1 to {empties} moves, which are left")
        if threads < 1:
            raise OptionError(f"threads={threads} is too few; allowed are ints from 1 up")
        self.size, self.words = size, words
        self.layers = _open(folder, words, size, depth)
        frontier = self.layers[-1].words
        self.low: Numbers = np.full(len(frontier), -size * size)
        self.high: Numbers = np.full(len(frontier), size * size)
        self.answers, self.nodes, self.seconds = 0, 0, 0.0
        self._numbers = {position: number for number, position in enumerate(map(tuple, frontier.tolist()))}
        self._pending: set[int] = set()
        self._memories = [make_memory(entries) for _ in range(threads)]
        self._facts = folder / "facts.jsonl"
        self._read()

    def bounds(self) -> tuple[int, int]:
        """Return what the value is at least and at most."""
        low, high = self._bounds()[0]
        return int(low[0]), int(high[0])

    def moves(self) -> dict[int, tuple[int, int]]:
        """Return what each legal move is worth at least and at most, by cell."""
        low, high = self._bounds()[1]
        _, cells, after = play_all(one_neutral(self.words[None]), self.size)
        numbers = {position: number for number, position in enumerate(map(tuple, self.layers[1].words.tolist()))}
        reached = [numbers[position] for position in map(tuple, canonical(after[:, :3], self.size).tolist())]
        return {int(cell): (-int(high[at]), -int(low[at])) for cell, at in zip(cells, reached, strict=True)}

    def progress(self) -> LongProgress:
        """Say how far the run is."""
        low, high = self.bounds()
        question = _question(low, high)
        to_do = 0 if low == high else int(min(costs[0][0] for costs in self._costs(question)))
        return LongProgress(low, high, question, to_do, self.answers, len(self.low), self.nodes, self.seconds)

    def run(self, seconds: float | None = None, report: Callable[[LongProgress], None] | None = None) -> bool:
        """Find answers until the value is known or the time is over, and say whether it is known.

        Args:
            seconds: Time after which to stop; None for as long as it takes.
            report: Called now and then, from this thread.

        Raises:
            OutputError: when the facts can't be written.
            CheckpointError: when an answer contradicts the facts.
        """
        end = time.monotonic() + (float("inf") if seconds is None else seconds)
        free, running = list(self._memories), dict[Future[tuple[int, int, float]], tuple[int, int, Words]]()
        for memory in free:
            memory[STOP] = 0
        pool = ThreadPoolExecutor(len(free))
        try:
            while True:
                low, high = self.bounds()
                if report:
                    report(self.progress())
                if low == high or time.monotonic() >= end:
                    return low == high
                while free and (asked := self._choose(_question(low, high))):
                    number, need = asked
                    self._pending.add(number)
                    memory = free.pop()
                    running[pool.submit(_answer, self.layers[-1].words[number], need, self.size, memory)] = (
                        number,
                        need,
                        memory,
                    )
                done, _ = wait(running, min(_BLINK, max(0, end - time.monotonic())), FIRST_COMPLETED)
                for future in done:
                    number, need, memory = running.pop(future)
                    free.append(memory)
                    self._pending.remove(number)
                    self._keep(number, need, *future.result())
        finally:
            for memory in self._memories:
                memory[STOP] = 1  # what comes back now means nothing, and is not kept
            pool.shutdown()
            self._pending.clear()

    def _read(self) -> None:
        """Take in the facts of earlier sessions. The last line may be cut short, where a session was killed."""
        if not self._facts.exists():
            return
        for line in self._facts.read_text(encoding="utf-8").splitlines():
            try:
                fact = json.loads(line)
                number = self._numbers[tuple(fact["position"])]
                low, high, nodes, seconds = int(fact["low"]), int(fact["high"]), int(fact["nodes"]), float(fact["seconds"])
            except (ValueError, KeyError, TypeError):
                continue
            self._take_in(number, low, high, nodes, seconds)

    def _keep(self, number: int, need: int, value: int, nodes: int, seconds: float) -> None:
        """Append an answer to the facts: a value of `need` or more is a lower bound, others are upper bounds."""
        low, high = (value, self.size**2) if value >= need else (-(self.size**2), value)
        position = self.layers[-1].words[number].tolist()
        fact = {"position": position, "low": low, "high": high, "nodes": nodes, "seconds": round(seconds, 3)}
        try:
            with self._facts.open("a+b") as file:
                cut = file.tell() and (file.seek(-1, 2), file.read(1))[1] != b"\n"
                file.write(b"\n" * cut + json.dumps(fact).encode() + b"\n")
        except OSError as error:
            raise OutputError(f"{self._facts} can't be written to ({error.strerror})") from None
        self._take_in(number, low, high, nodes, seconds)

    def _take_in(self, number: int, low: int, high: int, nodes: int, seconds: float) -> None:
        self.low[number] = max(self.low[number], low)
        self.high[number] = min(self.high[number], high)
        if self.low[number] > self.high[number]:
            raise CheckpointError(
                f"{self._facts} holds facts of one position that can't all be true; begin anew in another folder"
            )
        self.answers, self.nodes, self.seconds = self.answers + 1, self.nodes + nodes, self.seconds + seconds

    def _bounds(self) -> list[tuple[Numbers, Numbers]]:
        """Return the bounds of the positions of each layer, from their movers' view."""
        bounds = [(self.low, self.high)]
        for layer in reversed(self.layers[:-1]):
            low, high = bounds[-1]
            bounds.append(
                (np.maximum.reduceat(-high[layer.after], layer.first), np.maximum.reduceat(-low[layer.after], layer.first))
            )
        return bounds[::-1]

    def _costs(self, question: int) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.float64]]]:
        """Return, for each layer, how many answers it takes at least to say yes, and to say no, infinite where it can't be.

        What is asked in every second layer is whether the mover keeps the other from it.
        """
        need = _need(question, len(self.layers) - 1)
        open_cost = np.ones(len(self.low))
        open_cost[list(self._pending)] = _PENDING
        yes = np.where(self.low >= need, 0.0, np.where(self.high < need, np.inf, open_cost))
        no = np.where(self.high < need, 0.0, np.where(self.low >= need, np.inf, open_cost))
        all_yes, all_no = [yes], [no]
        for layer in reversed(self.layers[:-1]):
            yes, no = np.minimum.reduceat(no[layer.after], layer.first), np.add.reduceat(yes[layer.after], layer.first)
            all_yes.append(yes)
            all_no.append(no)
        return all_yes[::-1], all_no[::-1]

    def _choose(self, question: int) -> tuple[int, int] | None:
        """Return the frontier position that helps most and what to ask of it; None while another thread is at it."""
        _, no = self._costs(question)
        at = 0
        for ply, layer in enumerate(self.layers[:-1]):
            after = layer.after[layer.first[at] :][: np.diff(layer.first, append=len(layer.after))[at]]
            at = int(after[no[ply + 1][after].argmin()])
        return None if at in self._pending else (at, _need(question, len(self.layers) - 1))


def _question(low: int, high: int) -> int:
    """Return what to ask next, more than `low` and at most `high`: first for a win, then for a draw, then for how much."""
    if low < 1 <= high:
        return 1
    if low < 0 <= high:
        return 0
    middle = (low + high + 1) // 2
    return min(2 * low, middle) if low > 0 else max(2 * high + 1, middle)  # most values are small


def _need(question: int, ply: int) -> int:
    """Return what the mover of that ply must reach: the question's value, or for the other player what prevents it."""
    return question if ply % 2 == 0 else 1 - question


def _answer(words: Words, need: int, size: int, memory: Words) -> tuple[int, int, float]:
    """Return a bound that says whether a position is worth `need` or more, the positions searched, and the seconds taken."""
    own, other, neutral = words
    start, before = time.perf_counter(), int(memory[NODES])
    value = int(solve_pair(own, other, neutral, need - 1, need, size, memory))
    return value, int(memory[NODES]) - before, time.perf_counter() - start


def _open(folder: Path, words: Words, size: int, depth: int | None) -> list[Layer]:
    """Return the layers of the run in a folder, which must be the one that is meant; begin it where there is none."""
    path = folder / "run.json"
    wanted = {"size": size, "position": canonical(words[None], size)[0].tolist()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else None
    except OSError as error:
        raise OutputError(f"{folder} can't be used ({error.strerror}); it must be a folder, or a path for a new one") from None
    if text is None:
        layers = spread(words, size, depth)
        with replacing(path) as draft:
            draft.write_text(json.dumps(wanted | {"depth": len(layers) - 1}) + "\n", encoding="utf-8")
        return layers
    try:
        found: Any = json.loads(text)
        found_depth = int(found.pop("depth"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{path} says nothing of a run; use another folder") from None
    if found != wanted or depth not in (None, found_depth):
        raise CheckpointError(
            f"{folder} holds the run of another position, or another depth than its {found_depth}; use another folder"
        )
    return spread(words, size, found_depth)
