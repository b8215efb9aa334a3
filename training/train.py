"""Self-play PPO for Rolit: settings come in, a trained network in a run's folder comes out.

    python -m training.train --config configs/8x8-2p.yaml
    python -m training.train --config configs/8x8-4p.yaml --minutes 2 --run runs/quick
    python -m training.train --resume runs/quick --minutes 4
    torchrun --nproc-per-node 2 -m -- training.train --config configs/8x8-2p.yaml

Read this file from top to bottom to see what a run does; `rollout.py` plays, `ppo.py` learns.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from jsonargparse import ArgumentError, ArgumentParser
from torch.utils.tensorboard import SummaryWriter

from rolit_env import make_agent, play_rounds
from rolit_env.errors import ConfigError, OutputError
from training import distributed
from training.agent import NetworkAgent
from training.checkpoint import FILE_NAME, load_checkpoint, save_checkpoint
from training.command import run_command
from training.config import TrainConfig
from training.display import Display
from training.learner import Learner
from training.ppo import UpdateStats, update
from training.rollout import play

OPPONENTS = ("random", "greedy", "positional")


def train(learner: Learner, run: Path, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Train until the budget is used up or `should_stop` says so (asked after each iteration), and save.

    Writes checkpoints and TensorBoard figures into `run`, a folder that exists. Raises `DivergedError` when the loss is no
    longer finite (the last checkpoint stays) and `OutputError` when a checkpoint can't be written.

    Of several processes all play and learn, and the first alone writes, evaluates and tells the time.
    """
    config, first = learner.config, distributed.rank() == 0
    clock = {"play": 0.0, "learn": 0.0, "evaluate": 0.0}
    begun = time.monotonic() - learner.seconds
    evaluated = saved = learner.seconds

    with _reports(learner, run) as (writer, display):
        while _goes_on(learner, should_stop()):
            # 1. Play whole rounds, the learner in every seat, a part of them against a past snapshot of itself.
            started = time.monotonic()
            snapshot = learner.pool.draw(learner.rng) if config.snapshot_share else None
            rollout = play(learner.network, config, learner.rng, learner.device, snapshot)

            # 2. Learn from them, with smaller steps as the budget runs out.
            played = time.monotonic()
            rate = config.learning_rate + learner.progress * (config.final_learning_rate - config.learning_rate)
            for group in learner.optimizer.param_groups:
                group["lr"] = rate
            stats = update(learner.network, learner.optimizer, rollout, config, learner.rng)

            # 3. Count, and keep a snapshot now and then.
            learnt = time.monotonic()
            learner.iteration += 1
            learner.turns += rollout.actions.numel()
            learner.seconds = learnt - begun
            if config.snapshot_share and learner.iteration % config.snapshot_every == 0:
                learner.pool.add(learner.network, learner.rng)
            if not first:
                continue

            # 4. Save and evaluate now and then and at the end; neither touches the learner's random state.
            clock["play"] += played - started
            clock["learn"] += learnt - played
            _log_update(writer, learner, stats, rate)
            if learner.finished or learner.seconds - saved >= 60 * config.save_every:
                save_checkpoint(learner, run)
                saved = learner.seconds
            due = learner.seconds - evaluated >= 60 * config.evaluate_every
            if config.evaluate_every and (due or learner.finished):
                _evaluate(learner, writer)
                clock["evaluate"] += time.monotonic() - learnt
                learner.seconds = evaluated = time.monotonic() - begun
            display.iteration(stats, clock)
    if first:
        save_checkpoint(learner, run)


def _goes_on(learner: Learner, stop: bool) -> bool:
    """Tell whether there is budget left and no process wants to stop, the first process's clock being everybody's."""
    learner.seconds, stop = distributed.agree(learner.seconds, stop)
    return not (learner.finished or stop)


@contextmanager
def _reports(learner: Learner, run: Path) -> Iterator[tuple[SummaryWriter, Display] | tuple[None, None]]:
    """Open what the first process writes and shows."""
    if distributed.rank() > 0:
        yield None, None
        return
    with SummaryWriter(str(run), purge_step=learner.turns) as writer, Display(learner) as display:
        yield writer, display


def _evaluate(learner: Learner, writer: SummaryWriter) -> None:
    """Play the scripted agents and note the win shares."""
    config = learner.config
    agent = NetworkAgent(learner)
    shares = {}
    for name in OPPONENTS:
        result = play_rounds(
            [agent, make_agent(name)], config.evaluate_rounds, size=config.size, players=config.players, seed=config.seed
        )
        shares[name] = float(result.win_share[0])
        writer.add_scalar(f"win_share/{name}", shares[name], learner.turns)
    learner.evaluations.append({"turns": learner.turns, "seconds": learner.seconds, "win_share": shares})


def _log_update(writer: SummaryWriter, learner: Learner, stats: UpdateStats, rate: float) -> None:
    for name, value in vars(stats).items():
        writer.add_scalar(f"learn/{name}", value, learner.turns)
    writer.add_scalar("learn/learning_rate", rate, learner.turns)
    writer.add_scalar("time/minutes", learner.seconds / 60, learner.turns)


def start_run(config: TrainConfig, run: Path) -> Learner:
    """Make the run's folder and a fresh learner. Raises `OutputError` when the folder holds a run already."""
    if distributed.rank() > 0:
        return Learner.fresh(config)
    if (run / FILE_NAME).exists():
        raise OutputError(f"{run} holds a run already; go on with --resume {run}, or choose another folder with --run")
    learner = Learner.fresh(config)
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {run} can't be made ({error.strerror})") from None
    save_checkpoint(learner, run)  # an unwritable folder shows now, not at the end
    return learner


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Within, the first Ctrl-C (or SIGTERM) ends training after the current iteration, and a second one breaks off."""
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def remember(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        restore()

    for number in before:
        signal.signal(number, remember)
    try:
        yield lambda: bool(caught)
    finally:
        restore()


def parser() -> ArgumentParser:
    """Return the parser of a new run's command line."""
    new_run = ArgumentParser(
        prog="python -m training.train",
        description="Train a Rolit policy by self-play PPO. Settings come from --config and from the options, which win.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    new_run.add_argument("--config", action="config", help="YAML file with settings, such as configs/8x8-2p.yaml")
    new_run.add_argument("--run", type=str | None, help="folder for checkpoint and logs (default: runs/ and the variant)")
    new_run.add_argument(
        "--resume", type=str | None, help="folder of a run to go on with; only --minutes and --turns go with it"
    )
    new_run.add_class_arguments(TrainConfig)
    return new_run


def resume_parser() -> ArgumentParser:
    """Return the parser of a command line that goes on with a run."""
    resumed = ArgumentParser(prog="python -m training.train", exit_on_error=False, allow_abbrev=False)
    resumed.add_argument("--resume", type=str, required=True, help="folder of a run to go on with")
    resumed.add_argument("--minutes", type=float | None, help="new budget in minutes, what is done included")
    resumed.add_argument("--turns", type=int | None, help="new budget in turns, what is done included")
    return resumed


def prepare(argv: list[str]) -> tuple[Learner, Path]:
    """Turn the command line into a learner and its folder. Raises the errors that `run_command` explains."""
    if any(argument.split("=")[0] == "--resume" for argument in argv):
        try:
            options = resume_parser().parse_args(argv)
        except ArgumentError as error:
            raise ConfigError(f"{error}; with --resume RUN only --minutes and --turns may be given") from None
        # The budget that is given replaces the other one.
        budget = (
            {"turns": options.turns} if options.turns else {"turns": 0, "minutes": options.minutes} if options.minutes else {}
        )
        return load_checkpoint(Path(options.resume), **budget), Path(options.resume)
    settings = parser().parse_args(argv).as_dict()
    run, resume, _ = (settings.pop(name) for name in ("run", "resume", "config"))
    if resume:
        raise ConfigError("a run is resumed by the option --resume, written in full; only --minutes and --turns go with it")
    config = TrainConfig.from_dict(settings)
    path = Path(run or f"runs/{config.variant.name}")
    return start_run(config, path), path


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.train", lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: list[str]) -> int:
    learner, run = prepare(argv)
    with distributed.connected(), stop_on_interrupt() as should_stop:
        train(learner, run, should_stop)
    if distributed.rank() > 0:
        return 0
    ended = "budget used up" if learner.finished else "stopped"
    longer = f"--turns {2 * learner.turns}" if learner.config.turns else f"--minutes {learner.seconds / 60 + 8:.0f}"
    print(f"{ended} after {learner.turns:,} turns and {learner.seconds / 60:.1f} minutes; the run is in {run}")
    print(f"go on:  python -m training.train --resume {run} {longer}  (what is done counts)")
    print(f"export: python -m training.export {run} --out {run / 'policy.onnx'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
