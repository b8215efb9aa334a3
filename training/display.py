"""What a person sees of a run: figures come in each iteration, a live panel or plain lines go out."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from training.learner import Learner
from training.ppo import UpdateStats


class Display:
    """A progress bar, the speed and where the time goes, the losses, and the win shares so far.

    In a terminal it is drawn in place; elsewhere (a log file) each evaluation writes one line.
    """

    def __init__(self, learner: Learner, console: Console | None = None) -> None:
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

    def __enter__(self) -> Display:
        if self._interactive:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._interactive:
            self._live.stop()

    def iteration(self, stats: UpdateStats, clock: dict[str, float]) -> None:
        """Show an iteration: the update's figures and the seconds spent so far on play, learn and evaluate."""
        if not self._interactive:
            return
        learner = self._learner
        self._bar.update(self._task, completed=learner.progress, left=self._time_left())
        total = sum(clock.values()) or 1.0
        grid = Table.grid(padding=(0, 3))
        grid.add_row("turns", f"{learner.turns:,}", f"{self._speed():,.0f} a second")
        grid.add_row("time", " · ".join(f"{name} {seconds / total:.0%}" for name, seconds in clock.items()))
        grid.add_row(
            "learning",
            f"entropy {stats.entropy:.2f} · value loss {stats.value_loss:.3f}",
            f"KL {stats.approx_kl:.4f} · clipped {stats.clipped:.0%} · explained {stats.explained_variance:.2f}",
        )
        self._figures = grid
        self._live.update(self._render())

    def evaluation(self) -> None:
        """Show the latest evaluation."""
        if self._interactive:
            self._live.update(self._render())
            return
        learner = self._learner
        self.console.print(
            f"{learner.progress:4.0%}  {learner.turns:>11,} turns  {self._speed():>7,.0f} a second  "
            f"{_shares(learner.evaluations[-1]['win_share'])}  {self._time_left()}",
            highlight=False,
            soft_wrap=True,
        )

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
        guesses = []
        if config.turns and self._speed() > 0:
            guesses.append((config.turns - learner.turns) / self._speed())
        if config.minutes:
            guesses.append(60 * config.minutes - learner.seconds)
        minutes, seconds = divmod(max(round(min(guesses, default=0)), 0), 60)
        return f"{minutes}:{seconds:02} left"


def _shares(win_share: dict[str, float]) -> str:
    return "  ".join(f"{name} {share:.3f}" for name, share in win_share.items())
