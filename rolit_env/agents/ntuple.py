"""N-tuple tables from a file and its card, and the agent that plays by them: one turn ahead, with numba alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rolit_env.agents.base import Agent
from rolit_env.agents.card import card_variant, check_sum, read_card
from rolit_env.batch import GameBatch
from rolit_env.errors import ModelFileError, OutputError, VariantError
from rolit_env.released import file_of, released_names
from rolit_env.search.evaluation import Evaluation, learnt
from rolit_env.search.ntuple import TupleSet, choose_best, make_scratch, tuple_set
from rolit_env.variant import Variant, variant

FORMAT = "rolit-ntuple-4"


@dataclass(frozen=True)
class NTuples:
    """The tables of a variant.

    Attributes:
        variant: What they were made for.
        tuples: The tuples, each written as its cells.
        layout: The tuples on the board.
        weights: float32 [H, R, W]: for each phase of the round, each seat that has tables, all weights.
    """

    variant: Variant
    tuples: tuple[str, ...]
    layout: TupleSet
    weights: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, chosen: Variant, tuples: tuple[str, ...], phases: int) -> Self:
        """Return tables in which all weights are 0. Raises as `tuple_set` does."""
        layout = tuple_set(tuples, chosen.size)
        seats = 1 if chosen.players == 2 else chosen.players
        return cls(chosen, tuples, layout, np.zeros((phases, seats, layout.size), np.float32))

    @property
    def phase_of_turn(self) -> npt.NDArray[np.int64]:
        """The phase of each turn of a round, int64 [n·n − 4]: parts of equal length, as nearly as can be."""
        return np.arange(self.variant.plies) * len(self.weights) // self.variant.plies

    def evaluation(self) -> Evaluation:
        """Return these tables as what a search values its leaves by; it follows them when they change."""
        return learnt(self.weights, self.layout, self.phase_of_turn, self.variant.size, self.variant.players)

    def check_variant(self, wanted: Variant, name: str) -> None:
        """Raise `VariantError` when the tables are for another variant; `name` is the agent that has them."""
        if wanted != self.variant:
            raise VariantError(
                f"{name} was made for {self.variant.name} and can't play {wanted.name}; "
                f"it plays size {self.variant.size} with {self.variant.players} players"
            )

    def save(self, path: Path) -> None:
        """Write what was learnt, most weights never being met; float16 is precise enough for play. Raises `OutputError`."""
        description = {
            "size": self.variant.size,
            "players": self.variant.players,
            "tuples": self.tuples,
            "phases": len(self.weights),
        }
        weights = self.weights.astype(np.float16)
        tensors = {"weights": weights[weights != 0], "met": np.packbits(weights != 0)}
        try:
            path.write_bytes(save(tensors, metadata={"format": FORMAT, "tables": json.dumps(description)}))
        except OSError as error:
            raise OutputError(f"{path} can't be written ({error.strerror})") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote. Raises `ModelFileError` for a file that is cut short, foreign or contradicts itself."""
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") != FORMAT:
                    raise ModelFileError(f"{path} holds no n-tuple tables (it lacks the mark {FORMAT})")
                weights, met = file.get_tensor("weights"), file.get_tensor("met")
            description = json.loads(metadata["tables"])
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise ModelFileError(f"{path} is cut short or no file of n-tuple tables ({error})") from None
        try:
            chosen = variant(description["size"], description["players"])
            loaded = cls.empty(chosen, tuple(description["tuples"]), description["phases"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ModelFileError(f"{path} describes no tables that can be played ({error})") from None
        size = loaded.weights.size
        if met.shape != (-(-size // 8),) or met.dtype != np.uint8:
            raise ModelFileError(f"{path} must say of {size} weights which it holds, in {-(-size // 8)} bytes")
        held = np.unpackbits(met, count=size).astype(bool).reshape(loaded.weights.shape)
        if weights.shape != (held.sum(),) or weights.dtype != np.float16 or not np.isfinite(weights).all():
            raise ModelFileError(f"{path} must hold {held.sum()} finite float16 weights")
        loaded.weights[held] = weights
        return loaded


def load_released(given: str | Path) -> tuple[dict[str, Any], NTuples]:
    """Return the card and the tables of a file that has one, or of a released one's name.

    Raises `ModelFileError` when they don't fit each other.
    """
    path = file_of(given, ".safetensors")
    if not path.is_file():
        raise ModelFileError(f"there is no file of n-tuple tables {path}; released ones are {released_names('.safetensors')}")
    card, ntuples = read_card(path), NTuples.load(path)
    if card_variant(card, path) != ntuples.variant:
        raise ModelFileError(f"{path} holds tables for {ntuples.variant.name}, and its card says otherwise")
    check_sum(card, path)
    return card, ntuples


class NTupleAgent(Agent):
    """Plays the turn after which its tables promise most, looking no further.

    Args:
        path: The `.safetensors` file, whose card lies beside it under the same name with the ending `.json`, or a released
            one's name.

    Raises:
        ModelFileError: when the file or its card is missing, cut short, foreign, or they don't fit each other.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = file_of(path, ".safetensors")
        self.name = f"ntuple:{path}" if self.path == Path(path) else str(path)
        self.card, self.ntuples = load_released(path)

    @classmethod
    def of(cls, ntuples: NTuples, name: str = "ntuple") -> Self:
        """Return the agent of tables that are in memory; it follows them when they change."""
        agent = cls.__new__(cls)
        agent.name, agent.ntuples = name, ntuples
        return agent

    def check_variant(self, variant: Variant) -> None:
        """Raise `VariantError` when the tables are for another variant."""
        self.ntuples.check_variant(variant, self.name)

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the actions after which the mover's value is highest, int64 [B]."""
        self.check_variant(games.variant)
        games.refuse_when_over()
        weights = self.ntuples.weights[self.ntuples.phase_of_turn[games.ply], -1]
        cells = np.empty(len(games), np.int64)
        chosen = games.variant
        scratch = make_scratch(chosen.players)
        choose_best(games.view(), chosen.players, chosen.size, self.ntuples.layout, weights, scratch, cells)
        return cells
