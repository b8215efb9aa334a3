"""Self-play PPO for Rolit: settings come in, a trained network in a run's folder comes out.

    python -m training.train --config configs/8x8-2p.yaml
    python -m training.train --config configs/8x8-4p.yaml --minutes 2 --run runs/quick
    python -m training.train --resume runs/quick --minutes 4
    torchrun --nproc-per-node 2 -m -- training.train --config configs/8x8-2p.yaml

Read this file from top to bottom to see what a run does; `rollout.py` plays, `ppo.py` learns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from training import distributed
from training.agent import NetworkAgent
from training.checkpoint import FILE_NAME, load_checkpoint, save_checkpoint
from training.command import RunCommand, make_folder, run_command, stop_on_interrupt
from training.config import TrainConfig
from training.display import Display
from training.distil import imitate
from training.guests import Guest, Searcher
from training.learner import Learner
from training.ppo import UpdateStats, update
from training.rollout import play
from training.run import check_opponents


def train(learner: Learner, run: Path, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Train until the budget is used up or `should_stop` says so (asked after each iteration), and save.

    Writes checkpoints and TensorBoard figures into `run`, a folder that exists. Raises `DivergedError` when the loss is no
    longer finite (the last checkpoint stays) and `OutputError` when a checkpoint can't be written.

    Of several processes all play and learn, and the first alone writes, evaluates and tells the time.
    """
    config, first = learner.config, distributed.rank() == 0
    clock = {"play": 0.0, "learn": 0.0, "evaluate": 0.0}
    teacher, searcher, opponents = _guests(config)
    begun = time.monotonic() - learner.seconds
    evaluated = saved = learner.seconds

    with _reports(learner, run) as (writer, display):
        while _goes_on(learner, should_stop()):
            # 1. Play whole rounds, the learner in every seat, while a teacher looks on; later a part of them against a past
            #    snapshot of itself, or another agent; at last while a search by its own network looks on.
            started = time.monotonic()
            taught = teacher is not None and learner.progress < config.taught_share
            snapshot = learner.pool.draw(learner.rng) if config.snapshot_share and not taught else None
            opponent = opponents[learner.rng.integers(len(opponents))] if opponents and not taught else None
            advisor = teacher if taught else None
            if searcher and not taught and learner.progress >= 1 - config.searched_share:
                searcher.follow(learner.network)
                advisor = searcher
            rollout = play(learner.network, config, learner.rng, learner.device, snapshot, opponent, advisor)

            # 2. Learn from them, with smaller steps as the budget runs out.
            played = time.monotonic()
            rate = config.learning_rate + learner.progress * (config.final_learning_rate - config.learning_rate)
            for group in learner.optimizer.param_groups:
                group["lr"] = rate
            if advisor:
                stats = imitate(learner, rollout)
            else:
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
            moved = f"KL {stats.approx_kl:.4f} · clipped {stats.clipped:.0%}"
            if advisor:
                moved = f"agrees with the {'teacher' if taught else 'search'} in {1 - stats.clipped:.0%} of turns"
            display.iteration(
                clock,
                f"entropy {stats.entropy:.2f} · value loss {stats.value_loss:.3f}",
                f"{moved} · explained {stats.explained_variance:.2f}",
            )
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


def _guests(config: TrainConfig) -> tuple[Guest | None, Searcher | None, list[Guest]]:
    """Return the teacher and the searcher, where there are such, and the opponents."""
    teacher = Guest(config.teacher, config.variant) if config.teacher else None
    searcher = Searcher(config.searcher, config.variant) if config.searcher else None
    return teacher, searcher, [Guest(agent, config.variant) for agent in config.opponents]


def _evaluate(learner: Learner, writer: SummaryWriter) -> None:
    """Play the opponents and note the win shares."""
    for name, share in learner.evaluate(NetworkAgent(learner)).items():
        writer.add_scalar(f"win_share/{name}", share, learner.turns)


def _log_update(writer: SummaryWriter, learner: Learner, stats: UpdateStats, rate: float) -> None:
    for name, value in vars(stats).items():
        writer.add_scalar(f"learn/{name}", value, learner.turns)
    writer.add_scalar("learn/learning_rate", rate, learner.turns)
    writer.add_scalar("time/minutes", learner.seconds / 60, learner.turns)


def start_run(config: TrainConfig, run: Path) -> Learner:
    """Make the run's folder and a fresh learner. Raises `OutputError` when the folder holds a run already."""
    if distributed.rank() > 0:
        return Learner.fresh(config)
    learner = Learner.fresh(config)
    _guests(config)  # one that can't play shows now, too
    check_opponents(config)
    make_folder(run, FILE_NAME)
    save_checkpoint(learner, run)  # an unwritable folder shows now, not at the end
    return learner


COMMAND = RunCommand(
    program="python -m training.train",
    description="Train a Rolit policy by self-play PPO. Settings come from --config and from the options, which win.",
    example="configs/8x8-2p.yaml",
    config=TrainConfig,
    folder="runs/{name}",
    start=start_run,
    load=load_checkpoint,
)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.train", lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: list[str]) -> int:
    learner, run = COMMAND.prepare(argv)
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
