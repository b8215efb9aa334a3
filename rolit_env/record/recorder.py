"""Records of games in lockstep: a batch and the actions of each turn come in, a record of each round goes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rolit_env.batch import GameBatch
from rolit_env.errors import ActionError, RoundOverError
from rolit_env.notation import cell_name
from rolit_env.record.model import RoundRecord
from rolit_env.variant import COLORS


class Recorder:
    """Keeps the actions of a batch, a byte each, and makes records of them when asked.

    Args:
        games: The batch to record, at its start. It is not copied: go on playing with it.

    Attributes:
        games: That batch.

    Raises:
        RoundOverError: when turns have been played already, which the record would lack.
    """

    def __init__(self, games: GameBatch) -> None:
        if games.ply:
            raise RoundOverError(f"{games.ply} turns were played before the recorder came; allowed is a batch at its start")
        self.games = games
        self._turns: list[npt.NDArray[np.int8]] = []

    def add(self, actions: npt.ArrayLike) -> None:
        """Keep the actions of one turn, int [B], which the batch takes or has just taken in `step`, and so checks."""
        cells = np.array(actions, np.int8)
        if cells.shape != (len(self.games),):
            raise ActionError(f"actions must be of shape ({len(self.games)},), not {cells.shape}")
        self._turns.append(cells)

    def copy(self, games: GameBatch) -> Recorder:
        """Return a recorder that goes on with `games`, a copy of the batch, from the turns so far."""
        twin = Recorder.__new__(Recorder)
        twin.games = games
        twin._turns = self._turns.copy()
        return twin

    def records(self, agents: Sequence[str], *, opening_turns: int = 0, seed: int | None = None) -> Iterator[RoundRecord]:
        """Yield a record of each game, in order, up to the turn that the batch is at.

        Args:
            agents: Names by seat, [P].
            opening_turns: Turns at the start that were drawn at random.
            seed: Seed of the run.

        Raises:
            ActionError: when the turns added are not those that the batch took.
            RecordError: for names or opening turns that no record takes.
        """
        games, chosen = self.games, self.games.variant
        if len(self._turns) != games.ply:
            raise ActionError(f"{len(self._turns)} turns were added and {games.ply} played; allowed is each turn once")
        names = [cell_name(cell, chosen.size) for cell in range(chosen.cells)]
        rows = np.stack(self._turns, axis=1).tolist() if self._turns else [[]] * len(games)
        seated = {
            starter: {COLORS[color]: name for color, name in zip(chosen.slot_colors(starter), agents, strict=False)}
            for starter in set(games.starters.tolist())
        }
        for cells, starter, counts in zip(rows, games.starters.tolist(), games.counts().tolist(), strict=True):
            yield RoundRecord(
                size=chosen.size,
                players=chosen.players,
                agents=seated[starter],
                starter=COLORS[starter],
                moves=tuple([names[cell] for cell in cells]),
                counts=dict(zip(COLORS, counts, strict=True)),
                opening_turns=opening_turns,
                seed=seed,
            )
