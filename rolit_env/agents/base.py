"""What an agent is: positions of a whole batch come in, a legal action for each game goes out."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from rolit_env.batch import GameBatch
from rolit_env.errors import AgentError, RolitError
from rolit_env.variant import Variant


class Agent(ABC):
    """A player of any number of games at once; one game is a batch of one.

    Attributes:
        name: What tables call it: the description that `make_agent` would build it from again.
    """

    name: str

    @abstractmethod
    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return a legal action for the seat to move of each game, int64 [B], and leave `games` as they are.

        All chance comes from `rng`, so that the same generator gives the same games.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def check_variant(self, variant: Variant) -> None:  # noqa: B027  (most agents play everything)
        """Raise `VariantError` when the agent can't play this variant."""


@contextmanager
def blaming(agent: Agent) -> Iterator[None]:
    """Turn what goes wrong with an agent's answer into an `AgentError` that names the agent, and the place in its code."""
    try:
        yield
    except (AgentError, MemoryError):
        raise
    except RolitError as error:
        raise AgentError(f"{agent.name} failed: {error}") from error
    except Exception as error:  # the code of users raises what it likes
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"line {place.lineno} of {place.filename}"
        raise AgentError(f"{agent.name} failed with {type(error).__name__}: {error} ({where})") from error
