"""The settings of a training run: a YAML file and command-line options come in, a checked `TrainConfig` comes out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

from jsonargparse import ArgumentError, ArgumentParser

from rolit_env.errors import ConfigError
from rolit_env.payoffs import Payoff
from rolit_env.variant import Variant, variant

OPPONENTS = ("random", "greedy", "positional")
"""The scripted agents, which runs are measured against unless they say otherwise."""

Range = tuple[str, float, float | None]
"""A setting, and the least and the most that it can be; None where there is no most."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings that every kind of run has.

    Attributes:
        size: Side of the board: 8, 6 or 4.
        players: Number of players: 2, 3 or 4.
        seed: Seed of everything random; the same seed and turn budget give the same run on the same machine.
        minutes: Budget of training time, evaluation included; it counts when turns is 0.
        turns: Budget of turns played, random openings included; 0 to go by minutes.
        evaluate_every: Minutes between evaluations; 0 for none.
        evaluate_against: Agents that the run is measured against then.
        evaluate_rounds: Rounds of each of them.
        save_every: Minutes between checkpoints.
    """

    size: int = 8
    players: int = 2
    seed: int = 0
    minutes: float = 8.0
    turns: int = 0
    evaluate_every: float = 1.0
    evaluate_against: tuple[str, ...] = OPPONENTS
    evaluate_rounds: int = 400
    save_every: float = 1.0

    def __post_init__(self) -> None:
        _ = self.variant  # refuses sizes and players that are no variant
        self.check_ranges(
            ("seed", 0, 2**63 - 1),
            ("minutes", 0, None),
            ("turns", 0, None),
            ("evaluate_every", 0, None),
            ("evaluate_rounds", 1, None),
            ("save_every", 0, None),
        )
        if len(set(self.evaluate_against)) < max(1, len(self.evaluate_against)):
            raise ConfigError(f"evaluate_against={list(self.evaluate_against)} won't do; name one agent or more, each once")
        if not self.minutes and not self.turns:
            raise ConfigError("minutes and turns are both 0, so there is nothing to do; give one of them")

    def check_ranges(self, *ranges: Range) -> None:
        """Raise `ConfigError` for a setting that is out of its range."""
        for name, low, high in ranges:
            value = getattr(self, name)
            if not low <= value <= (float("inf") if high is None else high):
                allowed = f"{low} and up" if high is None else f"{low} to {high}"
                raise ConfigError(f"{name}={value} is out of range; allowed is {allowed}")

    @property
    def variant(self) -> Variant:
        """The variant that is trained."""
        return variant(self.size, self.players)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings ready for JSON and YAML."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """Read what `to_dict` gave. Raises `ConfigError` for unknown settings and values of the wrong type."""
        unknown = set(settings) - {field.name for field in fields(cls)}
        if unknown:
            known = ", ".join(field.name for field in fields(cls))
            raise ConfigError(f"there is no setting {', '.join(sorted(unknown))}; known are {known}")
        checker = ArgumentParser(exit_on_error=False)
        checker.add_class_arguments(cls)
        try:
            checked = checker.parse_object(settings).as_dict()
        except ArgumentError as error:
            raise ConfigError(" ".join(str(error).split())) from None
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in checked.items()})


@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    """Settings of self-play PPO, all of them kept in the run's checkpoint.

    Attributes:
        games: Rounds played side by side in each iteration, B.
        opening_share: Each round starts with uniformly random turns, none to this part of all, which are not learnt from:
            diversity.
        payoff: What a round is worth: win, balls or rank.
        network: afterstates, which looks at where each turn leads, or mlp, which looks at the board.
        width: Numbers in a row of the afterstate network's tables, a multiple of 8.
        hidden: Widths of the MLP's hidden layers.
        learning_rate: Adam's step size at the start.
        final_learning_rate: Its step size at the end of the budget, reached in a straight line.
        epochs: Passes over each iteration's turns.
        minibatch: Turns in one gradient step.
        clip: PPO's clip of the probability ratio.
        entropy: Weight of the entropy bonus, which keeps play diverse.
        value_weight: Weight of the value loss.
        gae_lambda: Decay of the advantage estimate for each turn of the round, whoever moves; 1 uses the result alone.
        max_grad_norm: Gradients longer than this are scaled down to it.
        symmetry: Show each turn to the learner in one of the board's eight symmetries, drawn anew for each pass.
        snapshot_share: Part of the rounds in which all seats but one are played by a past snapshot; 0 for pure self-play.
        snapshot_every: Iterations between two snapshots.
        snapshots: Snapshots kept; when full, a random one makes room, so that old ones stay represented.
        opponents: Agents of which each iteration draws one to play against, such as alphabeta:depth=4; none if empty. One that
            is named twice is drawn twice as often.
        opponent_share: Part of the rounds, of those without snapshots, in which all seats but one are played by it.
        teacher: An agent whose moves are imitated before the learner goes on by itself, such as 8x8-2p-ntuple; none if empty.
        taught_share: The part of the budget in which they are.
        searcher: A search that goes by the learner's own network of afterstates and whose moves are imitated in the last part
            of the budget, such as mcts:simulations=64; none if empty.
        searched_share: The part of the budget, at its end, in which they are.
        bfloat16: Run the MLP in bfloat16: auto (where the device computes with it), always or never.
        device: A torch device, or auto: a GPU where there is one.
    """

    games: int = 1024
    opening_share: float = 0.33
    payoff: Payoff = "win"
    network: Literal["afterstates", "mlp"] = "mlp"
    width: int = 8
    hidden: tuple[int, ...] = (512, 512)
    learning_rate: float = 2e-3
    final_learning_rate: float = 2e-4
    epochs: int = 2
    minibatch: int = 4096
    clip: float = 0.2
    entropy: float = 0.03
    value_weight: float = 0.5
    gae_lambda: float = 0.9
    max_grad_norm: float = 1.0
    symmetry: bool = False
    snapshot_share: float = 0.0
    snapshot_every: int = 25
    snapshots: int = 10
    opponents: tuple[str, ...] = ()
    opponent_share: float = 0.25
    teacher: str = ""
    taught_share: float = 0.5
    searcher: str = ""
    searched_share: float = 0.4
    bfloat16: Literal["auto", "always", "never"] = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_ranges(
            ("games", 1, 2**20),
            ("opening_share", 0, 0.9),
            ("learning_rate", 0, None),
            ("final_learning_rate", 0, None),
            ("epochs", 1, None),
            ("minibatch", 2, None),
            ("clip", 0, 1),
            ("entropy", 0, None),
            ("value_weight", 0, None),
            ("gae_lambda", 0, 1),
            ("max_grad_norm", 0, None),
            ("snapshot_share", 0, 1),
            ("snapshot_every", 1, None),
            ("snapshots", 1, None),
            ("opponent_share", 0, 1),
            ("taught_share", 0, 1),
            ("searched_share", 0, 1),
        )
        if self.searcher and self.network != "afterstates":
            raise ConfigError(f"searcher={self.searcher} can't go by network={self.network}; allowed is afterstates")
        if self.width < 8 or self.width % 8:
            raise ConfigError(f"width={self.width} does not exist; allowed are 8, 16, 24 and so on")
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError(f"hidden={list(self.hidden)} is no network; give at least one width, each 1 and up")

    @property
    def opening_turns(self) -> int:
        """The most random turns that a round starts with."""
        return round(self.opening_share * self.variant.plies)
