"""A trained policy from an ONNX file and its card, played in kernels, or by onnxruntime where they don't know its network."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.agents.base import Agent
from rolit_env.agents.card import card_variant, check_sum, read_card
from rolit_env.agents.network import INSTALL, can_read_networks, holds_network, read_network
from rolit_env.batch import GameBatch
from rolit_env.errors import AgentError, ModelFileError, VariantError
from rolit_env.released import file_of, released_names
from rolit_env.search.network import Network, answer_all
from rolit_env.search.ntuple import make_scratch
from rolit_env.variant import Variant

OBSERVATION_VERSION = 1
"""Version of what a policy sees: int8 planes [4, n, n], own balls first, then the others in turn order, then neutral."""


class PolicyAgent(Agent):
    """Plays an exported policy.

    Args:
        path: The `.onnx` file, whose card lies beside it under the same name with the ending `.json`, or a released one's
            name.
        temperature: 0 plays the move with the highest logit; above 0 draws from softmax(logits / temperature).

    Raises:
        ModelFileError: when the file or its card is missing, cut short, foreign, or they don't fit each other.
        AgentError: for a temperature below 0, or when onnxruntime is not installed.
    """

    def __init__(self, path: str | Path, temperature: float = 0.0) -> None:
        if not 0 <= temperature < float("inf"):
            raise AgentError(f"temperature={temperature} does not exist; allowed are numbers from 0 up")
        self.given, self.path = path, file_of(path, ".onnx")
        self.temperature = temperature
        self.name = f"{path}:temperature={temperature:g}" if temperature else str(path)
        if not self.path.is_file():
            raise ModelFileError(f"there is no policy file {path}; released ones are {released_names('.onnx')}")
        self.card = read_card(self.path)
        self.variant = card_variant(self.card, self.path)
        _check_version(self.card, self.path)
        check_sum(self.card, self.path)
        self._session = _open_session(self.path)
        _check_signature(self._session, self.variant, self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy opens the file anew, because sessions can't be copied.
        return type(self), (self.given, self.temperature)

    def check_variant(self, variant: Variant) -> None:
        """Raise `VariantError` when the card names another variant."""
        if variant != self.variant:
            size, players = self.variant.size, self.variant.players
            raise VariantError(
                f"{self.given} was trained for {self.variant.name} and can't play {variant.name}; "
                f"it plays size {size} with {players} players"
            )

    @cached_property
    def network(self) -> Network:
        """The policy's network, for kernels.

        Raises `AgentError` where onnx is missing, and `ModelFileError` for a network of another kind.
        """
        return read_network(self.path, self.variant)

    @cached_property
    def known_network(self) -> Network | None:
        """The same, but None for a network of another kind. Raises `AgentError` where onnx is missing."""
        if holds_network(self.card):
            with suppress(ModelFileError):  # a card may call another network by that name
                return self.network
        return None

    def evaluate(self, games: GameBatch) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return masked logits, float32 [B, A], and values, float32 [B, P], the mover's first, the others in turn order.

        They are onnxruntime's, whatever the kind of network.

        Raises `VariantError` for games of another variant and `RoundOverError` at the end of a round.
        """
        self.check_variant(games.variant)
        games.refuse_when_over()  # the graph would answer an empty mask with action 0
        logits, values = self._session.run(
            ["logits", "values"],
            {"planes": games.planes(), "mask": games.legal_mask()},
        )
        return logits, values

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the policy's actions, int64 [B]."""
        self.check_variant(games.variant)
        games.refuse_when_over()
        network = self.known_network if can_read_networks() else None
        logits = _answer_in_kernels(network, games) if network else self.evaluate(games)[0]
        if self.temperature:
            # The largest of logits plus Gumbel noise is a draw from their softmax.
            logits = logits / np.float32(self.temperature) + rng.gumbel(size=logits.shape).astype(np.float32)
            logits[games.legal_mask() == 0] = -np.inf
        actions: npt.NDArray[np.int64] = logits.argmax(axis=1)
        return actions


def _answer_in_kernels(network: Network, games: GameBatch) -> npt.NDArray[np.float32]:
    """Return masked logits, float32 [B, A], in a fraction of onnxruntime's time."""
    chosen = games.variant
    logits = np.empty((len(games), chosen.cells), np.float32)
    values = np.empty((len(games), chosen.players), np.float32)
    answer_all(games.view(), chosen.players, chosen.size, network.fresh(), make_scratch(chosen.players), logits, values)
    return logits


def _check_version(card: dict[str, Any], path: Path) -> None:
    version = card.get("observation_version")
    if version != OBSERVATION_VERSION:
        raise ModelFileError(f"{path} needs observation version {version}; this release has version {OBSERVATION_VERSION}")


def _open_session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise AgentError(f"playing a policy file needs onnxruntime; {INSTALL}") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its errors come as exceptions; no second copy on stderr
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit():  # so processes that share the cores are told, as those of a tournament are
        options.intra_op_num_threads = int(threads)
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common base class for what a bad file raises
        raise ModelFileError(f"{path} is no ONNX file that can be loaded ({str(error).splitlines()[0]})") from None


def _check_signature(session: Any, chosen: Variant, path: Path) -> None:
    size, cells = chosen.size, chosen.cells
    wanted = {
        "planes": ("tensor(int8)", [4, size, size]),
        "mask": ("tensor(int8)", [cells]),
        "logits": ("tensor(float)", [cells]),
        "values": ("tensor(float)", [chosen.players]),
    }
    found = {node.name: (node.type, node.shape[1:]) for node in (*session.get_inputs(), *session.get_outputs())}
    if found != wanted:
        raise ModelFileError(f"{path} takes and gives {found}, but a policy for {chosen.name} must have {wanted}")
