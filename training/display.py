"""What a person sees of a run: figures come in each iteration, a live panel or plain lines go out."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from training.run import Run

SECONDS_BETWEEN_LINES = 60
"""Where there is no terminal, a line comes at least this often."""


class Display:
    """A progress bar, the speed and where the time goes, the losses, and the win shares so far.

    In a terminal it is drawn in place; elsewhere (a log file) there is a line a minute and for each evaluation.
    """

    def __init__(self, learner: Run, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._learner = learner
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._task = self._bar.add_task(f"training {learner.config.variant.name}", total=1.0, left="")
        self._figures = Table.grid(padding=(0, 2))
        self._live = Live(self._render(), console=self.console, refresh_per_second=4, transient=False)
        self._interactive = self.console.is_terminal
        self._turns_before, self._seconds_before = learner.turns, learner.seconds
        self._evaluations_shown, self._line_at = len(learner.evaluations), learner.seconds

    def __enter__(self) -> Display:
        if self._interactive:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._interactive:
            self._live.stop()

    def iteration(self, clock: dict[str, float], *learning: str) -> None:
        """Show an iteration: the seconds spent on each of its parts so far, and figures of learning (lines have the first)."""
        learner = self._learner
        total = sum(clock.values()) or 1.0
        split = " · ".join(f"{name} {seconds / total:.0%}" for name, seconds in clock.items())
        speed = f"{self._speed():,.0f} a second"
        if self._interactive:
            self._bar.update(self._task, completed=learner.progress, left=self._time_left())
            self._figures = Table.grid(padding=(0, 3))
            self._figures.add_row("turns", f"{learner.turns:,}", speed)
            self._figures.add_row("time", split)
            self._figures.add_row("learning", *learning)
            self._live.update(self._render())
        elif len(learner.evaluations) > self._evaluations_shown or learner.seconds - self._line_at >= SECONDS_BETWEEN_LINES:
            shares = learner.evaluations[-1]["win_share"] if len(learner.evaluations) > self._evaluations_shown else {}
            results = "".join(f" · {name} {share:.3f}" for name, share in shares.items())
            done = f"{learner.progress:4.0%} · {learner.turns:,} turns · {speed} · {self._time_left()}"
            self.console.print(f"{done} · {split} · {learning[0]}{results}", highlight=False, soft_wrap=True)
            self._evaluations_shown, self._line_at = len(learner.evaluations), learner.seconds

    def _render(self) -> Group:
        results = Table(box=None, padding=(0, 2), title="win share, every seat equally often", title_justify="left")
        results.add_column("minutes", justify="right")
        results.add_column("turns", justify="right")
        for name in self._learner.evaluations[-1]["win_share"] if self._learner.evaluations else ():
            results.add_column(name, justify="right")
        for evaluation in self._learner.evaluations[-8:]:
            shares = (f"{share:.3f}" for share in evaluation["win_share"].values())
            results.add_row(f"{evaluation['seconds'] / 60:.1f}", f"{evaluation['turns']:,}", *shares)
        parts = [self._bar, self._figures, results] if self._learner.evaluations else [self._bar, self._figures]
        return Group(*parts)

    def _speed(self) -> float:
        return (self._learner.turns - self._turns_before) / max(self._learner.seconds - self._seconds_before, 1e-9)

    def _time_left(self) -> str:
        learner, config = self._learner, self._learner.config
        if config.turns:
            left = (config.turns - learner.turns) / max(self._speed(), 1e-9)
        else:
            left = 60 * config.minutes - learner.seconds
        minutes, seconds = divmod(max(round(left), 0), 60)
        return f"{minutes}:{seconds:02} left"
