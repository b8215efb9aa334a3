"""What a GPU makes of it: a device comes in, a check that it plays by the rules and a table of its speeds come out.

    python -m training.gpu
    python -m training.gpu --device cpu --batches 1024 16384 --games 256 --compile false

First `TorchBatch` on the device is compared with `GameBatch`, turn by turn on all variants, and nothing is measured if they
differ. Then turns a second of uniformly random play, with and without observations, and of the learner's two phases.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from jsonargparse import ArgumentParser
from jsonargparse.typing import NonNegativeFloat, PositiveInt
from rich.console import Console
from rich.table import Table
from torch import Tensor

from rolit_env import Board, GameBatch
from rolit_env.bench.machine import describe
from rolit_env.errors import ConfigError
from rolit_env.files import replacing
from rolit_env.payoffs import PAYOFFS
from rolit_env.torch_batch import TorchBatch
from rolit_env.variant import COLORS, Variant, all_variants, variant
from training.command import run_command
from training.config import TrainConfig
from training.device import pick_device
from training.learner import Learner
from training.ppo import update
from training.rollout import play

BATCHES = (4096, 65536, 1048576)
GAMES = (1024, 8192, 65536)

ENOUGH = 0.1
"""Seconds that one timing of random play takes, unless a whole round is shorter or a single turn longer."""


@dataclass(frozen=True)
class Settings:
    """What is measured: random play and learning in one variant, at some batch sizes, for at most some minutes."""

    device: torch.device
    variant: Variant
    batches: list[int]
    games: list[int]
    compile: bool
    repeats: int
    minutes: float


@dataclass(frozen=True)
class PlaySpeed:
    """Turns a second of uniformly random play, one turn being one move of one game."""

    batch: int
    compiled: bool
    observed: bool
    turns_per_second: float


@dataclass(frozen=True)
class LearnerSpeed:
    """Turns a second of the learner's phases, each alone and one after the other."""

    games: int
    minibatch: int
    play: float
    learn: float
    both: float


def first_difference(chosen: Variant, device: torch.device, compile: bool, games: int = 1000) -> str | None:  # noqa: A002
    """Play rounds on the device and on the host side by side; return where they first differ, None where they never do."""
    batch = TorchBatch(games, size=chosen.size, players=chosen.players, seed=0, device=device, compile=compile)
    rng = torch.Generator(device).manual_seed(0)
    starters = batch.starters.tolist()
    twin = GameBatch.from_boards([Board(chosen.size, chosen.players, COLORS[starter]) for starter in starters])
    while True:
        for what, found, right in _answers(batch, twin):
            if not np.array_equal(found.cpu().numpy().view(right.dtype), right):
                how = "compiled" if compile else "eager"
                return f"{chosen.name} on {device}, {how}: {what} differ from GameBatch's after {batch.ply} turns"
        if twin.done:
            return None
        actions = batch.random_actions(rng)
        batch.step(actions, check=False)
        twin.step(actions.cpu().numpy())


def _answers(batch: TorchBatch, twin: GameBatch) -> Iterator[tuple[str, Tensor, Any]]:
    yield "balls", batch.balls, twin.balls
    yield "legal cells", batch.legal, twin.legal
    yield "masks", batch.legal_mask(), twin.legal_mask()
    yield "planes", batch.planes(), twin.planes()
    yield "counts", batch.counts(), twin.counts()
    if twin.done:
        for kind in PAYOFFS:
            yield f"payoffs ({kind})", batch.payoffs(kind), twin.payoffs(kind)
        yield "win shares", batch.win_shares(), twin.win_shares().astype(np.float32)


def first_wait(settings: Settings) -> str | None:
    """Play a round with the driver told to refuse whatever the host has to wait for; return its words, None where it may run.

    Only CUDA can tell; elsewhere nothing is found.
    """
    if settings.device.type != "cuda":
        return None
    batch = _batch(settings, 1000, settings.compile)
    rng = torch.Generator(settings.device).manual_seed(0)

    def turns() -> None:
        while not batch.done:
            batch.step(batch.random_actions(rng), check=False)
            batch.step_random(rng)
            batch.planes()
            batch.legal_mask()

    turns()  # compiling may wait
    batch.reset(seed=rng)
    torch.cuda.set_sync_debug_mode("error")
    try:
        turns()
    except RuntimeError as error:
        return f"a round of TorchBatch waits for the device: {error}"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return None


def play_speed(settings: Settings, batch_size: int, compile: bool, observe: bool) -> PlaySpeed:  # noqa: A002
    """Measure random play; with observations, planes and masks go to the same buffers after each turn."""
    batch = _batch(settings, batch_size, compile)
    rng = torch.Generator(settings.device).manual_seed(0)
    planes, mask = (batch.planes(), batch.legal_mask()) if observe else (None, None)

    def turns(count: int) -> None:
        for _ in range(count):
            if batch.done:
                batch.reset(seed=rng)
            batch.step_random(rng)
            if observe:
                batch.planes(out=planes)
                batch.legal_mask(out=mask)

    turns(batch.plies if settings.device.type == "cuda" else 1)  # compiles, and wakes a sleeping GPU
    one = _seconds(settings.device, lambda: turns(1))
    count = min(max(round(ENOUGH / one), 1), batch.plies)
    seconds = median(_seconds(settings.device, lambda: turns(count)) for _ in range(settings.repeats))
    return PlaySpeed(batch_size, compile, observe, batch_size * count / seconds)


def learner_speed(settings: Settings, games: int) -> LearnerSpeed:
    """Measure the learner's phases with everything as in training, but for minibatches that grow with the batch."""
    config = TrainConfig(
        size=settings.variant.size,
        players=settings.variant.players,
        games=games,
        minibatch=max(games, TrainConfig.minibatch),
        device=str(settings.device),
    )
    learner = Learner.fresh(config)
    turns = games * config.variant.plies
    timings = []
    for _ in range(settings.repeats + 1):
        kept: list[Any] = []
        played = _seconds(
            learner.device,
            lambda kept=kept: kept.append(play(learner.network, config, learner.rng, learner.device)),
        )
        learnt = _seconds(
            learner.device, lambda kept=kept: update(learner.network, learner.optimizer, kept[0], config, learner.rng)
        )
        timings.append((played, learnt, played + learnt))
    medians = (turns / median(phase) for phase in zip(*timings[1:], strict=True))  # the first is a warm-up
    return LearnerSpeed(games, config.minibatch, *medians)


def _batch(settings: Settings, games: int, compile: bool) -> TorchBatch:  # noqa: A002
    size, players = settings.variant.size, settings.variant.players
    return TorchBatch(games, size=size, players=players, seed=0, device=settings.device, compile=compile)


def _seconds(device: torch.device, work: Callable[[], object]) -> float:
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check(settings: Settings, say: Callable[[str], object]) -> str | None:
    """Compare all variants, eager and compiled, and look for waits; return what is wrong first, None if nothing is."""
    for compiled in (False, True) if settings.compile else (False,):
        for chosen in all_variants():
            wrong = first_difference(chosen, settings.device, compiled)
            if wrong:
                return wrong
            say(f"{chosen.name} {'compiled' if compiled else 'eager'}: the same as GameBatch")
    return first_wait(settings)


def measure(settings: Settings, say: Callable[[str], object]) -> tuple[list[PlaySpeed], list[LearnerSpeed]]:
    """Measure all that there is time for; what has to be left out is said."""
    ends = time.monotonic() + 60 * settings.minutes
    played: list[PlaySpeed] = []
    learnt: list[LearnerSpeed] = []
    # The learner's first, as its size matters most; then small batches, whose turns are short.
    for games in settings.games:
        if time.monotonic() > ends:
            say(f"no time left for the learner with {games:,} games")
            continue
        learnt.append(learner_speed(settings, games))
        say(f"learner, {games:,} games: {learnt[-1].both:,.0f} turns a second")
    for batch_size in settings.batches:
        for compiled in (False, True) if settings.compile else (False,):
            for observe in (False, True):
                what = f"{batch_size:,} games, {'compiled' if compiled else 'eager'}{', observed' if observe else ''}"
                if time.monotonic() > ends:
                    say(f"no time left for {what}")
                    continue
                played.append(play_speed(settings, batch_size, compiled, observe))
                say(f"{what}: {played[-1].turns_per_second:,.0f} turns a second")
    return played, learnt


def tables(settings: Settings, played: list[PlaySpeed], learnt: list[LearnerSpeed]) -> list[Table]:
    """Return the two tables."""
    where = f"{settings.variant.name} on {_name(settings.device)}, torch {torch.__version__}"
    random_play = Table(title=f"TorchBatch, uniformly random play, million turns a second\n{where}")
    for column in ("games", "eager", "eager, observed", "compiled", "compiled, observed"):
        random_play.add_column(column, justify="right")
    found = {(speed.batch, speed.compiled, speed.observed): speed.turns_per_second / 1e6 for speed in played}
    for batch_size in settings.batches:
        cells = (found.get((batch_size, compiled, observed)) for compiled in (False, True) for observed in (False, True))
        random_play.add_row(f"{batch_size:,}", *("" if cell is None else f"{cell:,.2f}" for cell in cells))
    learner = Table(title=f"the learner, turns a second\n{where}")
    for column in ("games", "minibatch", "play", "learn", "both"):
        learner.add_column(column, justify="right")
    for speed in learnt:
        learner.add_row(*(f"{value:,.0f}" for value in asdict(speed).values()))
    return [random_play, learner]


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def to_dict(settings: Settings, played: list[PlaySpeed], learnt: list[LearnerSpeed]) -> dict[str, Any]:
    """Return machine, settings and results, ready for JSON."""
    chosen = {key: value for key, value in vars(settings).items() if key not in ("device", "variant")}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": describe(),
        "device": _name(settings.device),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "settings": chosen | {"variant": settings.variant.name},
        "play": [asdict(speed) for speed in played],
        "learner": [asdict(speed) for speed in learnt],
    }


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = ArgumentParser(
        prog="python -m training.gpu",
        description="Check TorchBatch on a GPU against GameBatch on all variants, then measure turns a second of random play "
        "and of the learner.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    options.add_argument("--device", type=str | None, help="torch device (default: cuda; cpu tries the script out)")
    options.add_argument("--size", type=int, default=8, help="side of the board that is measured; all are checked")
    options.add_argument("--players", type=int, default=4, help="players that are measured")
    sizes = "(default: {} on a GPU, the first of them on a CPU)"
    for name, what, default in (("--batches", "games of random play", BATCHES), ("--games", "games of the learner", GAMES)):
        listed = sizes.format(" ".join(map(str, default)))
        options.add_argument(name, type=PositiveInt, nargs="+", help=f"{what} {listed}")
    options.add_argument("--compile", type=bool, default=True, help="check and measure compiled turns too")
    options.add_argument("--repeats", type=PositiveInt, default=5, help="timings that the median is taken of")
    options.add_argument("--minutes", type=NonNegativeFloat, default=2.0, help="no measurement is begun after so long")
    options.add_argument("--json", type=str | None, help="file for everything measured")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, 1 when the device plays wrongly, or 2 after one line about what was wrong with it."""
    return run_command("training.gpu", lambda: _run(argv))


def _run(argv: list[str] | None) -> int:
    options = parser().parse_args(argv)
    if options.device is None and not torch.cuda.is_available():
        raise ConfigError("torch finds no CUDA device here; --device cpu tries the script out on the processor")
    device = pick_device(TrainConfig(device=options.device or "cuda"))
    sizes = 1 if device.type == "cpu" else None
    settings = Settings(
        device=device,
        variant=variant(options.size, options.players),
        batches=sorted(options.batches or BATCHES[:sizes]),
        games=sorted(options.games or GAMES[:sizes]),
        compile=options.compile,
        repeats=options.repeats,
        minutes=options.minutes,
    )
    started = time.monotonic()
    # Progress on stderr, so that the tables can be piped.
    progress = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(line: str) -> None:
        progress.print(f"{time.monotonic() - started:4.0f} s  {line}")

    wrong = check(settings, say)
    if wrong:
        print(f"training.gpu: {wrong}", file=sys.stderr)
        return 1
    with replacing(Path(options.json)) if options.json else nullcontext() as draft:  # an unwritable path shows now
        played, learnt = measure(settings, say)
        for table in tables(settings, played, learnt):
            Console().print(table)
        if draft:
            draft.write_text(json.dumps(to_dict(settings, played, learnt), indent=2) + "\n", encoding="utf-8")
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
