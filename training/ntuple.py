"""Self-play learning of n-tuple tables: settings come in, tables that value any position come out, in numba alone.

    python -m training.ntuple --config configs/8x8-2p-ntuple.yaml
    python -m training.ntuple --config configs/8x8-4p-ntuple.yaml --minutes 1 --run runs/quick
    python -m training.ntuple --resume runs/quick --minutes 2

`td.py` plays and learns. `python -m training.release` makes a file of a run's tables, with a card, that agents play with.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from rolit_env.agents.ntuple import NTupleAgent, NTuples
from rolit_env.bits import Words
from rolit_env.errors import CheckpointError, OutputError, RolitError
from rolit_env.files import replacing
from rolit_env.search.ntuple import mirror_twins, tuple_set
from rolit_env.search.patterns import TUPLES
from rolit_env.variant import COLORS
from training.command import RunCommand, make_folder, run_command, stop_on_interrupt
from training.config import RunConfig
from training.display import Display
from training.run import Run, check_opponents, read_checkpoint
from training.td import Course, Rules, Tables, Workers

FILE_NAME = "tables.safetensors"
FORMAT = "rolit-ntuple-run-5"


@dataclass(frozen=True, kw_only=True)
class NTupleConfig(RunConfig):
    """Settings of n-tuple learning, all of them kept in the run's file.

    Attributes:
        tuples: The tuples, each written as its cells, such as "a1 b1 c1 d1"; each lies on the board in all eight symmetries.
            None given: those of `rolit_env.search.patterns.TUPLES`.
        phases: Parts of the round, equally long, that have tables of their own.
        workers: Threads, each learning on a copy of the tables; more of them, or fewer, give another run.
        rounds: Rounds of each worker before what they learnt is put together.
        opening_share: Each round starts with uniformly random turns, none to this part of all: diversity.
        lopsided: Part of the rounds in which one seat then takes the most balls that it can, and the others the fewest, for up
            to half of the round: so play without any balls is learnt too, which good players hardly ever come to.
        explore: Chance of a random turn after those.
        td_lambda: How far later values count beside the next one: 0 not at all, 1 leaves the result alone.
        learning_rate: How far the logit of a position moves for an error of 1 when all its weights are new.
        exact: With two players, positions with so many empty cells or fewer are solved, and learnt from their exact values, as
            is what comes before them; 0 for never.
        siblings: Chance to learn, there, what comes of the turns that were not played, too: search meets those as well.
        fading: What is kept of the sums of errors that a weight's rate goes by, each time that the workers' tables are put
            together and have met it: below 1 old errors are forgotten, and rates stay higher.
        averaging: Part of the weights in what is released that is new each time, at least: it is mostly about the last quarter
            of the run so far that counts.
    """

    tuples: tuple[str, ...] = ()
    phases: int = 10
    workers: int = 2
    rounds: int = 500
    opening_share: float = 0.2
    lopsided: float = 0.05
    explore: float = 0.1
    td_lambda: float = 0.5
    learning_rate: float = 20.0
    exact: int = 10
    siblings: float = 0.3
    fading: float = 0.99
    averaging: float = 0.0005

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_ranges(
            ("phases", 1, self.variant.plies),
            ("workers", 1, 256),
            ("rounds", 1, None),
            ("opening_share", 0, 0.9),
            ("lopsided", 0, 1),
            ("explore", 0, 1),
            ("td_lambda", 0, 1),
            ("learning_rate", 0, None),
            ("exact", 0, 14),
            ("siblings", 0, 1),
            ("fading", 0, 1),
            ("averaging", 1e-6, 1),
        )
        tuple_set(self.cells_of_tuples, self.size)  # refuses tuples that can't be, and so does the next line
        mirror_twins(self.cells_of_tuples, self.size)

    @property
    def cells_of_tuples(self) -> tuple[str, ...]:
        """The tuples given, or those of the board's size."""
        return self.tuples or TUPLES[self.size]

    @property
    def opening_turns(self) -> int:
        """The most random turns that a round starts with."""
        return round(self.opening_share * self.variant.plies)


@dataclass(kw_only=True)
class NTupleLearner(Run):
    """Everything that a run changes, and so everything that its file holds.

    Attributes:
        config: The settings.
        ntuples: The tuples on the board; its weights are an average over time of those of `tables`, changed in place.
        tables: What is learnt.
        states: The state of each worker's generator, uint64 [workers, 1].
    """

    config: NTupleConfig
    ntuples: NTuples
    tables: Tables
    states: Words

    @classmethod
    def fresh(cls, config: NTupleConfig) -> NTupleLearner:
        """Start a run."""
        ntuples = NTuples.empty(config.variant, config.cells_of_tuples, config.phases)
        tables = Tables(np.zeros_like(ntuples.weights), np.zeros((*ntuples.weights.shape, 2), np.float32))
        states = np.random.default_rng(config.seed).integers(2**64, size=(config.workers, 1), dtype=np.uint64)
        return cls(config=config, ntuples=ntuples, tables=tables, states=states)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that the run's file holds as arrays, by name."""
        return {**self.tables._asdict(), "average": self.ntuples.weights, "states": self.states}

    @property
    def course(self) -> Course:
        """What all rounds have in common."""
        config, chosen = self.config, self.config.variant
        starters = map(COLORS.index, chosen.colors)
        starts = np.array([[chosen.start[color] for color in chosen.slot_colors(first)] for first in starters], np.uint64)
        rules = Rules(
            size=config.size,
            players=config.players,
            opening_turns=config.opening_turns,
            lopsided=config.lopsided,
            explore=config.explore,
            td_lambda=config.td_lambda,
            learning_rate=config.learning_rate,
            exact=min(config.exact, config.variant.plies - 1) if config.players == 2 else 0,
            siblings=config.siblings,
            fading=config.fading,
        )
        return Course(
            self.ntuples.layout, mirror_twins(self.ntuples.tuples, config.size), self.ntuples.phase_of_turn, starts, rules
        )


def train(learner: NTupleLearner, run: Path, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Learn until the budget is used up or `should_stop` says so (asked after each iteration), and save.

    Raises `OutputError` when the run's file can't be written.
    """
    config = learner.config
    workers = Workers(learner.tables, learner.ntuples.weights, learner.course, learner.states)
    clock = {"learn": 0.0, "evaluate": 0.0}
    begun = time.monotonic() - learner.seconds
    evaluated = saved = learner.seconds
    with Display(learner) as display:
        while not (learner.finished or should_stop()):
            started = time.monotonic()
            error = workers.play(config.rounds, max(config.averaging, 4 / (learner.iteration + 4)))
            learnt = time.monotonic()
            learner.iteration += 1
            learner.turns += config.workers * config.rounds * config.variant.plies
            learner.seconds = learnt - begun
            clock["learn"] += learnt - started
            if learner.finished or learner.seconds - saved >= 60 * config.save_every:
                save(learner, run)
                saved = learner.seconds
            due = learner.seconds - evaluated >= 60 * config.evaluate_every
            if config.evaluate_every and (due or learner.finished):
                learner.evaluate(NTupleAgent.of(learner.ntuples))
                clock["evaluate"] += time.monotonic() - learnt
                learner.seconds = evaluated = time.monotonic() - begun
            display.iteration(clock, f"mean squared error {error:.4f}")
    save(learner, run)


def save(learner: NTupleLearner, run: Path) -> None:
    """Write the run's file into its folder, to a temporary name first. Raises `OutputError`."""
    path = run / FILE_NAME
    with replacing(path) as draft:
        try:
            save_file(
                learner.arrays,
                draft,
                metadata={"format": FORMAT, "state": json.dumps(learner.state())},
            )
        except (OSError, SafetensorError) as error:
            raise OutputError(f"the run's file {path} can't be written ({error})") from None


def load(run: Path, **budget: float) -> NTupleLearner:
    """Bring a run back from its folder, with another budget (`minutes`, `turns`) if wanted.

    Raises `CheckpointError` for a file that is missing, cut short, foreign, or does not hold what its settings ask for.
    """
    path = run / FILE_NAME
    arrays, state = read_checkpoint(path, FORMAT, "numpy")
    try:
        learner = NTupleLearner.fresh(NTupleConfig.from_dict(state["config"] | budget))
        learner.set_counters(state)
        for name, wanted in learner.arrays.items():
            if arrays[name].shape != wanted.shape or arrays[name].dtype != wanted.dtype:
                raise TypeError(f"{name} is {arrays[name].dtype} of shape {arrays[name].shape}")
            wanted[:] = arrays[name]
    except RolitError as error:
        raise CheckpointError(f"{path} can't go on with these settings: {error}") from None
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} does not hold what its settings ask for ({error})") from None
    return learner


def start_run(config: NTupleConfig, run: Path) -> NTupleLearner:
    """Make the run's folder and a fresh run. Raises `OutputError` when the folder holds one already."""
    learner = NTupleLearner.fresh(config)
    check_opponents(config)
    make_folder(run, FILE_NAME)
    save(learner, run)  # an unwritable folder shows now, not at the end
    return learner


COMMAND = RunCommand(
    program="python -m training.ntuple",
    description="Learn n-tuple tables by self-play. Settings come from --config and from the options, which win.",
    example="configs/8x8-2p-ntuple.yaml",
    config=NTupleConfig,
    folder="runs/{name}-ntuple",
    start=start_run,
    load=load,
)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.ntuple", lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: list[str]) -> int:
    learner, run = COMMAND.prepare(argv)
    with stop_on_interrupt() as should_stop:
        train(learner, run, should_stop)
    ended = "budget used up" if learner.finished else "stopped"
    longer = f"--turns {2 * learner.turns}" if learner.config.turns else f"--minutes {learner.seconds / 60 + 5:.0f}"
    print(f"{ended} after {learner.turns:,} turns and {learner.seconds / 60:.1f} minutes; the run is in {run}")
    print(f"go on:   python -m training.ntuple --resume {run} {longer}  (what is done counts)")
    print(f"release: python -m training.release {run} --out {run / 'ntuple.safetensors'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
