"""Playing a tournament: settings and a folder come in, any number of processes play the chunks that are not there yet."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolit_env.agents import make_agent
from rolit_env.arena import make_openings, play_seated
from rolit_env.errors import AgentError, OptionError, RolitError
from rolit_env.record import RoundRecord, format_text
from rolit_env.tournament.folder import (
    RESULTS,
    TIMINGS,
    Chunk,
    check_settings,
    drop_half_line,
    find_lines,
    locked,
    open_results,
    records_path,
    sort_lines,
    write_text,
)
from rolit_env.tournament.settings import Settings

WATCH = "rolit-parent-watch"


class Played(NamedTuple):
    """What comes of playing a chunk.

    Attributes:
        chunk: The chunk.
        timing: Its line of `timings.jsonl`: the seconds and moves of each member of the group, and the seconds of all of it.
        records: Its games as text; empty where they are not kept.
    """

    chunk: Chunk
    timing: str
    records: str


def play_chunk(settings: Settings, number: int, group: int) -> Played:
    """Play a chunk.

    Raises `AgentError` when an agent fails.
    """
    began = time.perf_counter()
    first = number * settings.openings_at_once
    members = settings.groups[group]
    assignments = settings.assignments
    count = settings.openings_in(number)
    opening_rng = np.random.default_rng([settings.seed, first])
    agent_rngs = np.random.default_rng([settings.seed, first, group + 1]).spawn(len(assignments))
    opening = make_openings(count, settings.variant, settings.opening_turns, settings.starter, opening_rng)
    # Made anew, because some agents remember what they met.
    names = [settings.names[member] for member in members]
    agents = [make_agent(settings.agents[name]) for name in names]
    seconds = np.zeros(len(members))
    played = [play_seated(agents, seats, opening, rng, seconds) for seats, rng in zip(assignments, agent_rngs, strict=True)]
    turns = range(settings.opening_turns, settings.variant.plies)
    movers = [seats[turn % settings.players] for turn in turns for seats in assignments]
    moves = [count * movers.count(member) for member in range(settings.players)]
    timing = {
        "chunk": number,
        "group": group,
        "seconds": [round(took, 6) for took in seconds],
        "moves": moves,
        "all": round(time.perf_counter() - began, 6),
    }
    balls = [recorder.games.seat_counts() for recorder in played]
    records: list[RoundRecord] = []
    if settings.records:
        for seats, recorder in zip(assignments, played, strict=True):
            by_seat = [names[member] for member in seats]
            records += recorder.records(by_seat, opening_turns=settings.opening_turns, seed=settings.seed)
    return Played(
        Chunk(number, group, np.array(balls, np.uint8)),
        json.dumps(timing, separators=(",", ":")),
        "\n".join(map(format_text, records)),
    )


def play_tournament(
    settings: Settings,
    folder: Path,
    *,
    workers: int = 1,
    ray: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Play what is left of a tournament in a folder, which is made if there is none.

    Args:
        settings: What to play.
        folder: Where the results are, or will be.
        workers: Processes that play; they change no result.
        ray: Address of a Ray cluster that plays instead (`auto`: the one that this machine belongs to).
        progress: Called with rounds played and rounds in all, at first and after each chunk.

    Raises:
        AgentError, ModelFileError, VariantError: for agents that can't be made or can't play the variant.
        ResultsError: for a folder of other settings, a damaged one, or one that another process plays in.
        OptionError: for a Ray cluster that is not there.
        OutputError: for a folder that can't be written to.
    """
    for text in settings.agents.values():
        make_agent(text).check_variant(settings.variant)
    with nullcontext() if ray is None else _joined(ray), locked(folder):
        check_settings(settings, folder)
        drop_half_line(folder / RESULTS)
        drop_half_line(folder / TIMINGS)
        with open_results(folder) as file:
            places = find_lines(file, settings)
        each = len(settings.assignments)
        played = sum(settings.openings_in(number) * each for number, _ in places)
        every = ((number, group) for number in range(settings.chunks) for group in range(len(settings.groups)))
        tasks = [task for task in every if task not in places]
        if progress:
            progress(played, settings.rounds)
        with (folder / RESULTS).open("ab") as results, (folder / TIMINGS).open("ab") as timings:
            chunks = _play(settings, tasks, workers) if ray is None else _play_on_cluster(settings, tasks)
            for chunk, timing, records in chunks:
                if records:  # before the line that says that the chunk is played
                    write_text(records_path(folder, chunk.number, chunk.group), records)
                for file, line in ((results, chunk.line(settings)), (timings, timing)):
                    file.write(line.encode() + b"\n")
                    file.flush()
                played += settings.openings_in(chunk.number) * each
                if progress:
                    progress(played, settings.rounds)
        sort_lines(folder, settings)


def _play(settings: Settings, tasks: Sequence[tuple[int, int]], workers: int) -> Iterator[Played]:
    """Play chunks in so many processes and yield each as soon as it is there."""
    if workers == 1:
        for task in tasks:
            yield play_chunk(settings, *task)
        return
    from joblib import Parallel, delayed  # a sixth of a second that nothing else needs

    parallel = Parallel(n_jobs=workers, batch_size=1, return_as="generator_unordered")
    try:
        yield from parallel(delayed(_play_as_worker)(settings, *task, os.getpid()) for task in tasks)
    except BrokenExecutor:
        raise AgentError(
            "a process that played died, perhaps for want of memory; what was played is kept: run the same command again, "
            "with fewer workers or a smaller openings_at_once if it dies again"
        ) from None


@contextmanager
def _joined(address: str) -> Iterator[None]:
    """Be part of a Ray cluster for a while. Raises `OptionError` without Ray, or where there is no cluster."""
    try:
        import ray
    except ImportError:
        raise OptionError("playing on a Ray cluster needs Ray; install it with: pip install ray") from None
    host, _, port = address.rpartition(":")
    joined_before = ray.is_initialized()
    try:
        if port.isdigit() and "/" not in host:
            socket.create_connection((host, int(port)), timeout=10).close()  # Ray itself asks for two minutes
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="critical")
    except Exception as error:  # Ray raises what it likes
        raise OptionError(f"there is no Ray cluster at {address!r} ({error}); start one with: ray start --head") from None
    try:
        yield
    finally:
        if not joined_before:
            ray.shutdown()


def _play_on_cluster(settings: Settings, tasks: Sequence[tuple[int, int]]) -> Iterator[Played]:
    """Play chunks on all cores of the Ray cluster, which plays those of a machine that dies on another one."""
    import ray

    play = ray.remote(num_cpus=1)(_play_in)
    kept = ray.put(settings)
    waiting = (play.remote(kept, *task, Path.cwd()) for task in tasks)
    pending: list[Any] = []
    while True:
        # Enough that no core waits, also of machines that join; more would only fill the cluster's queues.
        wanted = 4 * max(1, int(ray.cluster_resources().get("CPU", 0)))
        pending += islice(waiting, max(0, wanted - len(pending)))
        if not pending:
            return
        ready, pending = ray.wait(pending)
        try:
            yield from ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, RolitError):
                raise error.cause from None  # without Ray's account of the way it came
            what = f"{type(error.cause).__name__}: {error.cause}"
            raise AgentError(f"a machine of the cluster failed ({what}); all need this version of rolit-env") from None
        except ray.exceptions.RayError as error:
            raise AgentError(f"the cluster failed ({error}); what was played is kept: run the same command again") from error


def _play_in(settings: Settings, number: int, group: int, folder: Path) -> Played:
    """Play a chunk in a process that was started in any folder, but finds agents' files as the one that asks for it does."""
    os.chdir(folder)
    return play_chunk(settings, number, group)


def _play_as_worker(settings: Settings, number: int, group: int, parent: int) -> Played:
    """Play a chunk in a process that ends with its parent, which may be killed: else it would play on for nobody."""
    if not any(thread.name == WATCH for thread in threading.enumerate()):
        threading.Thread(target=_end_with, args=(parent,), name=WATCH, daemon=True).start()
    return play_chunk(settings, number, group)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
