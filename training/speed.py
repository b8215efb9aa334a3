"""How fast the learner is and where its time goes: settings come in, tables of seconds and of turns a second come out.

    python -m training.speed
    python -m training.speed --config configs/8x8-4p.yaml --only profile
    torchrun --nproc-per-node 2 -m -- training.speed --only learner

A turn is one move of one game, random openings included; it is played once and learnt from `epochs` times.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any, Literal

import torch
from jsonargparse import ArgumentParser
from jsonargparse.typing import PositiveInt
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.distributions import Categorical

from rolit_env import GameBatch
from rolit_env.bench.machine import describe
from rolit_env.errors import ConfigError
from rolit_env.files import replacing
from rolit_env.torch_batch import TorchBatch
from training import distributed, ppo, rollout
from training.command import run_command
from training.config import TrainConfig
from training.learner import Learner
from training.network import MLP

Part = Literal["learner", "profile", "tricks"]

Cells = tuple[str, ...]

# Turns a second.


@dataclass(frozen=True)
class Variation:
    """One way to learn.

    Attributes:
        name: A short name.
        title: What is special about it.
        settings: What differs from the settings given.
        plain: Functions done in the obvious way, keys of `PLAIN`.
        compiled: Whether the network goes through `torch.compile`.
    """

    name: str
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    plain: tuple[str, ...] = ()
    compiled: bool = False


LEARNER = Variation("learner", "as configured")

FLOAT32 = {"bfloat16": "never", "minibatch": 1024}

TRICKS = (
    Variation("plain", "float32, minibatches of 1,024, all the obvious way", FLOAT32, ("unpack", "draw", "gradients")),
    Variation("unpack", "+ words unpacked by a table, eight bits at once, not by shifts", FLOAT32, ("draw", "gradients")),
    Variation("draw", "+ actions drawn with one random number each, not by `torch.multinomial`", FLOAT32, ("gradients",)),
    Variation("gradients", "+ the loss's gradients worked out by hand, not by autograd", FLOAT32),
    Variation("bfloat16", "+ bfloat16", {"minibatch": 1024}),
    Variation("minibatch", "+ minibatches of 4,096: this is how the learner comes", {"minibatch": 4096}),
    Variation("compile", "with `torch.compile` too, which needs a C++ compiler", {"minibatch": 4096}, compiled=True),
    Variation("games", "or with 4,096 games side by side, not 1,024", {"minibatch": 4096, "games": 4096}),
)
"""Each row of the table adds to the one above, but for the last two, which add to the learner as it comes."""


def unpack_by_shifts(network: MLP, words: Tensor) -> Tensor:
    """Do what `MLP.unpack` does in the obvious way."""
    return (words[:, :, None] >> torch.arange(network.cells, device=words.device) & 1).float()


def draw_by_multinomial(policy: Tensor, points: Tensor) -> Tensor:
    """Do what `draw` does in the obvious way, with other random numbers."""
    return torch.multinomial(policy, 1).squeeze(1)


def gradients_by_autograd(
    logits: Tensor, values: Tensor, turns: ppo.Turns, size: int, config: TrainConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what `ppo_gradients` does in the obvious way."""
    logits, values = logits.detach().requires_grad_(), values.detach().requires_grad_()
    policy = Categorical(logits=logits)
    log_ratio = policy.log_prob(turns.actions) - turns.log_probs
    ratio, advantage, entropy = log_ratio.exp(), turns.advantages, policy.entropy()
    policy_loss = -torch.min(ratio * advantage, ratio.clamp(1 - config.clip, 1 + config.clip) * advantage)
    value_loss = (values - turns.targets).square().mean(dim=1)
    loss = (policy_loss + config.value_weight * value_loss - config.entropy * entropy).sum() / size
    loss.backward()
    outside = ((ratio - 1).abs() > config.clip).float()
    figures = torch.stack([policy_loss, value_loss, entropy, outside, ratio - 1 - log_ratio]).detach()
    return logits.grad, values.grad, figures


PLAIN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "unpack": (MLP, "unpack", unpack_by_shifts),
    "draw": (rollout, "draw", draw_by_multinomial),
    "gradients": (ppo, "ppo_gradients", gradients_by_autograd),
}
"""Where a function stands, its name, and the obvious way to do the same."""


@contextmanager
def patched(patches: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Within, other things stand in the places of some functions."""
    with ExitStack() as undo:
        for owner, name, new in patches:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, new)
        yield


def measure(
    config: TrainConfig, variations: Sequence[Variation], repeats: int, say: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Let learners play and learn in turns, one iteration each, again and again.

    Returns a row for each: its name and title, and lists of turns a second, in all and of the phases `play` and `learn`;
    or why it is `missing`.
    """
    rows: list[dict[str, Any]] = []
    learners = []
    for variation in variations:
        learner = Learner.fresh(replace(config, **variation.settings))
        row = {"name": variation.name, "title": variation.title}
        say(f"{variation.name}: {variation.title}")
        try:
            if variation.compiled:
                learner.network.compile()
            for _ in range(1 + variation.compiled):  # the second time, some shapes are compiled anew
                _iterate(learner, variation)
        except RuntimeError as error:
            if not variation.compiled:
                raise
            row["missing"] = str(error).splitlines()[0]
        else:
            learners.append((row, learner, variation))
            row |= {"turns_per_second": [], "play": [], "learn": []}
        rows.append(row)
    for repeat in range(repeats):
        say(f"timing {repeat + 1} of {repeats}")
        for row, learner, variation in learners:
            turns, playing, learning = _iterate(learner, variation)
            row["turns_per_second"].append(turns / (playing + learning))
            row["play"].append(turns / playing)
            row["learn"].append(turns / learning)
    return rows


def _iterate(learner: Learner, variation: Variation) -> tuple[int, float, float]:
    """Play and learn; return turns, and seconds of each."""
    with patched(PLAIN[name] for name in variation.plain):
        started = _now(learner.device)
        played = rollout.play(learner.network, learner.config, learner.rng, learner.device)
        between = _now(learner.device)
        ppo.update(learner.network, learner.optimizer, played, learner.config, learner.rng)
        return played.actions.numel(), between - started, _now(learner.device) - between


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


# Where the time goes.

NETWORK = "network"
"""What the names of the network's own activities begin with."""


class Stopwatch:
    """Seconds by activity, each moment counting for the innermost activity alone.

    Args:
        device: Where tensors are; a GPU is waited for at each change of activity.
    """

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self._device = device
        self._phase = self._activity = ""
        self._since = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase; what belongs to no activity in it is `all else`."""
        self._phase, self._activity, self._since = name, "all else", _now(self._device)
        yield
        self._switch("")

    def timed(self, activity: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as an activity."""

        def call(*arguments: Any, **options: Any) -> Any:
            before = self._switch(activity)
            answer = function(*arguments, **options)
            self._switch(before)
            return answer

        return call

    def _switch(self, activity: str) -> str:
        """Begin an activity and return the one that ends with that."""
        now, before = _now(self._device), self._activity
        name = f"{self._phase}: {before}"
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._activity, self._since = activity, now
        return before


def profile(config: TrainConfig, repeats: int) -> dict[str, list[float]]:
    """Return seconds by phase and activity, one figure for each of some iterations of the learner."""
    learner = Learner.fresh(config)
    watch = Stopwatch(learner.device)
    unpacking = [(f"{NETWORK}, unpacking words", learner.network, "unpack")] if isinstance(learner.network, MLP) else []
    activities = (
        *unpacking,
        (f"{NETWORK}, forward", learner.network, "forward"),
        (f"{NETWORK}, backward", torch.autograd, "backward"),
        ("words of positions", rollout, "position_words"),
        ("drawing actions", rollout, "draw"),
        ("stepping games", GameBatch if learner.device.type == "cpu" else TorchBatch, "step"),
        ("returns", ppo, "lambda_returns"),
        ("minibatches", ppo.Turns, "__getitem__"),
        ("minibatches", ppo.Turns, "ordered"),
        ("loss and its gradients", ppo, "ppo_gradients"),
        ("adding up gradients", ppo, "add_up"),
        ("clipping gradients", torch.nn.utils, "clip_grad_norm_"),
        ("Adam", learner.optimizer, "step"),
        ("Adam", learner.optimizer, "zero_grad"),
    )
    spent = []
    with patched((owner, name, watch.timed(activity, getattr(owner, name))) for activity, owner, name in activities):
        for _ in range(repeats + 1):
            watch.seconds = {}
            with watch.phase("play"):
                played = rollout.play(learner.network, config, learner.rng, learner.device)
            with watch.phase("learn"):
                ppo.update(learner.network, learner.optimizer, played, config, learner.rng)
            spent.append(watch.seconds)
    return {name: [seconds[name] for seconds in spent[1:]] for name in spent[1]}  # the first is a warm-up


def outside(spent: dict[str, list[float]]) -> float:
    """Return the share of the time that goes to anything but the network's forward and backward passes, by medians."""
    seconds = {name: median(figures) for name, figures in spent.items()}
    return sum(part for name, part in seconds.items() if f": {NETWORK}" not in name) / sum(seconds.values())


# What a person sees.

SPEED_HEADINGS = ("what", "play", "learn", "both", "times")
PROFILE_HEADINGS = ("phase", "activity", "ms", "share")


def speed_cells(rows: Sequence[dict[str, Any]]) -> list[Cells]:
    """Return a line for each row: title, turns a second of each phase and of both, and how many times the first row."""
    lines: list[Cells] = []
    for row in rows:
        if "missing" in row:
            lines.append((row["title"], "", "", "not here", ""))
            continue
        rates = (f"{float(f'{median(row[key]):.3g}'):,.0f}" for key in ("play", "learn", "turns_per_second"))
        quotients = (one / first for one, first in zip(row["turns_per_second"], rows[0]["turns_per_second"], strict=True))
        lines.append((row["title"], *rates, f"{median(quotients):.2f}"))
    return lines


def profile_cells(spent: dict[str, list[float]]) -> list[Cells]:
    """Return a line for each activity, longest first: phase, name, milliseconds an iteration and their share, by medians."""
    seconds = {name: median(figures) for name, figures in spent.items()}
    total = sum(seconds.values())
    lines = [
        (*name.split(": "), f"{1e3 * seconds[name]:.1f}", f"{seconds[name] / total:.1%}")
        for name in sorted(seconds, key=lambda name: (name.startswith("learn"), -seconds[name]))
    ]
    return [*lines, ("", "outside the network's passes", f"{1e3 * outside(spent) * total:.1f}", f"{outside(spent):.1%}")]


def conditions(report: dict[str, Any]) -> str:
    """Return what the figures depend on, in lines."""
    machine, config = report["machine"], report["config"]
    commit = machine["commit"]
    where = f", commit {commit[:10]}{' with changes' if commit.endswith('-dirty') else ''}" if commit else ""
    return fill(
        f"{machine['processor']} with {', '.join(machine['features'])}, {report['threads']} threads, torch "
        f"{machine['versions']['torch']}{where}, {report['date'][:10]}; {config['players']} players on "
        f"{config['size']}x{config['size']}. Medians of {report['repeats']} iterations, taken in turns.",
        127,
    )


def markdown_table(headings: Cells, lines: Sequence[Cells], text_columns: int) -> str:
    """Return a table for README.md and docs/learner.md."""
    rule = ["---" if column < text_columns else "---:" for column in range(len(headings))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *lines)) + "\n"


def screen_table(title: str, headings: Cells, lines: Sequence[Cells], text_columns: int) -> Table:
    """Return a table for a terminal."""
    table = Table(title=title, title_justify="left")
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="left" if column < text_columns else "right")
    for cells in lines:
        table.add_row(*(cell.replace("`", "") for cell in cells))
    return table


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = ArgumentParser(
        prog="python -m training.speed",
        description="Measure the learner: turns a second of its phases, where their time goes, and what each trick buys.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    options.add_argument("--config", action="config", help="YAML file with settings, such as configs/8x8-2p.yaml")
    options.add_argument("--only", nargs="+", type=Part, default=["learner", "profile", "tricks"], help="what to measure")
    options.add_argument("--repeats", type=PositiveInt, default=9, help="timings that each median is taken of")
    options.add_argument("--json", type=str | None, help="file for everything measured")
    options.add_class_arguments(TrainConfig)
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.speed", lambda: _run(argv))


def _run(argv: list[str] | None) -> int:
    options = parser().parse_args(argv).as_dict()
    only, repeats, path, _ = (options.pop(name) for name in ("only", "repeats", "json", "config"))
    config = TrainConfig.from_dict(options)
    if config.network != "mlp" and "tricks" in only:
        raise ConfigError(
            f"the tricks are the MLP's, not those of network={config.network}; allowed is --only learner profile"
        )
    first = distributed.rank() == 0
    tables, progress = (Console(quiet=not first), Console(quiet=not first, stderr=True, highlight=False, soft_wrap=True))
    report: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "processes": distributed.processes(),
        "threads": torch.get_num_threads(),
        "config": config.to_dict(),
        "repeats": repeats,
        "rows": [],
    }
    with distributed.connected():
        if "learner" in only:
            (row,) = measure(config, [LEARNER], repeats, progress.print)
            tables.print(screen_table("turns a second", SPEED_HEADINGS, speed_cells([row]), 1))
            report["rows"] = [
                {"name": f"learner-{phase}", "title": f"the learner's phase {phase}", "turns_per_second": row[phase]}
                for phase in ("play", "learn")
            ] + [row | {"title": "the learner, both phases"}]
        if "profile" in only:
            progress.print("profile")
            report["profile"] = profile(config, repeats)
            tables.print(screen_table("an iteration", PROFILE_HEADINGS, profile_cells(report["profile"]), 2))
        if "tricks" in only:
            report["tricks"] = measure(config, TRICKS, repeats, progress.print)
            tables.print(screen_table("turns a second", SPEED_HEADINGS, speed_cells(report["tricks"]), 1))
    if path and first:
        with replacing(Path(path)) as draft:
            draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
