"""Networks of any origin and observations with masks come in, actions go out that are always legal.

Legend: B games, n side, P players, A = n·n actions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rolit_env.agents import Agent
from rolit_env.batch import GameBatch
from rolit_env.errors import OptionError, RoundOverError
from rolit_env.search.network import ILLEGAL as ILLEGAL


def masked_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the logits, or Q values, with `ILLEGAL` in place of those of illegal cells.

    Put it last in a network that a library knows nothing of masks for: then acting and learning see the same distribution.
    At the end of a round, where no cell is legal, all are equal.

    Args:
        logits: float [..., A].
        mask: Of the same shape, with 1 or True for each legal cell.

    Raises:
        OptionError: when the shapes differ; broadcasting one mask over many positions is hardly ever what was meant.
    """
    if logits.shape != mask.shape:
        raise OptionError(f"the mask must have the shape of the logits, {tuple(logits.shape)}, not {tuple(mask.shape)}")
    return torch.where(mask.bool(), logits, ILLEGAL)


@torch.no_grad()
def predict(
    module: nn.Module, observation: Mapping[str, npt.NDArray[np.int8]], rng: np.random.Generator | None = None
) -> npt.NDArray[np.int64]:
    """Return a legal action for each observation, int64 [B], or [] for a single one.

    Args:
        module: Takes planes, int8 [B, 4, n, n], and mask, int8 [B, A], and returns logits, float [B, A], and anything else.
        observation: As the environments give it: `observation`, int8 [B, 4, n, n], and `action_mask`, int8 [B, A], or both
            without B.
        rng: Draws from the softmax of the logits; without it the highest logit wins.

    Raises:
        RoundOverError: when an observation has no legal action, which a network would answer with action 0.
    """
    planes, mask = observation["observation"], observation["action_mask"]
    if not mask.any(axis=-1).all():
        raise RoundOverError("an observation has no legal action: its round is over, or it is not this agent's turn")
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    seen = torch.from_numpy(planes.reshape(-1, *planes.shape[-3:])).to(device)
    legal = torch.from_numpy(mask.reshape(-1, mask.shape[-1])).to(device)
    logits = masked_logits(module(seen, legal)[0].float(), legal).cpu().numpy()
    if rng is not None:
        # The largest of logits plus Gumbel noise is a draw from their softmax; next to ILLEGAL the noise is nothing.
        logits = logits + rng.gumbel(size=logits.shape)
    actions: npt.NDArray[np.int64] = logits.argmax(axis=-1).reshape(mask.shape[:-1])
    return actions


class TorchAgent(Agent):
    """Plays a network: as an opponent while others learn, or in the arena.

    Args:
        module: As `predict` takes it. It is used as it is, so it plays what it has learnt so far; `OpponentPool` freezes it.
        name: What tables call it.
        sample: Whether actions are drawn from the softmax of the logits, as in training; else the highest logit wins.
    """

    def __init__(self, module: nn.Module, name: str = "network", sample: bool = False) -> None:
        self.module = module
        self.name = name
        self.sample = sample

    def act(self, games: GameBatch, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the network's actions, int64 [B]. Raises `RoundOverError` at the end of a round."""
        observation = {"observation": games.planes(), "action_mask": games.legal_mask()}
        return predict(self.module, observation, rng if self.sample else None)
