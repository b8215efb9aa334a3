"""What environments say of their rounds and what a learner holds of them come in, wins, draws and losses of both go out.

The two must be equal. Where they are not, a wrapper on the way has lost results: the widely copied ones lose every defeat.

    ledger = Ledger(env)
    ...  # learn, noting the rewards and ends that the learner stores
    assert count_rewards(rewards, ended, players=2) == ledger.tally
    assert not ledger.illegal_moves
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rolit_env.errors import IllegalMoveError
from rolit_env.gym_env import RolitEnv
from rolit_env.vector_env import RolitVectorEnv


@dataclass(frozen=True)
class Tally:
    """Rounds by how they ended for the learner.

    Attributes:
        wins: Those it won alone.
        draws: Those in which it shared the lead.
        losses: The others.
        stray: Rewards that came before the end of a round, which environments never pay.
    """

    wins: int = 0
    draws: int = 0
    losses: int = 0
    stray: int = 0

    @property
    def rounds(self) -> int:
        """All rounds."""
        return self.wins + self.draws + self.losses

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.wins + other.wins, self.draws + other.draws, self.losses + other.losses, self.stray + other.stray)


def count_shares(win_shares: npt.ArrayLike) -> Tally:
    """Return the tally of rounds that are over, one win share for each."""
    shares = np.asarray(win_shares)
    wins, losses = int((shares == 1).sum()), int((shares == 0).sum())
    return Tally(wins, shares.size - wins - losses, losses)


def count_rewards(rewards: npt.ArrayLike, ended: npt.ArrayLike, players: int = 2) -> Tally:
    """Return the tally of the rounds in a learner's data.

    Args:
        rewards: Of its steps, in any shape, `win` payoffs: +1 for a sole winner, −1/(players − 1) for losers.
        ended: In the same shape, whether the round was over with that step.
        players: Players in a round.
    """
    paid, over = np.asarray(rewards), np.asarray(ended, np.bool_)
    final = paid[over]
    wins = int((final > 0.999).sum())  # libraries store float32
    losses = int((final < 0.001 - 1 / (players - 1)).sum())
    return Tally(wins, final.size - wins - losses, losses, stray=int(np.count_nonzero(paid[~over])))


class Ledger:
    """Watches one-seat and vector environments, and counts what they themselves say of rounds that are over.

    A watched environment can't be copied to another process.

    Args:
        envs: What to watch from now on.

    Attributes:
        tally: How the rounds ended for the learner.
        seats: Rounds by the learner's seat.
        illegal_moves: Illegal actions that reached the environments, whatever those did about them.
    """

    def __init__(self, *envs: RolitEnv | RolitVectorEnv) -> None:
        self.tally = Tally()
        self.seats: Counter[int] = Counter()
        self.illegal_moves = 0
        for env in envs:
            self._watch(env)

    def _watch(self, env: RolitEnv | RolitVectorEnv) -> None:
        step: Any = env.step

        def counted(actions: Any) -> Any:
            masks = env.action_masks()
            try:
                *rest, infos = step(actions)
            except IllegalMoveError as error:
                self.illegal_moves += max(1, len(error.games))
                raise
            if isinstance(env, RolitVectorEnv):
                over = infos.get("final_info", infos)
                if over:
                    self._note(over["win_share"][over["_win_share"]], over["seat"][over["_seat"]])
            else:
                self.illegal_moves += not masks[actions]
                if "win_share" in infos:  # not where an illegal move ended the round
                    self._note([infos["win_share"]], [infos["seat"]])
            return *rest, infos

        env.step = counted  # type: ignore[method-assign]

    def _note(self, win_shares: npt.ArrayLike, seats: npt.ArrayLike) -> None:
        self.tally += count_shares(win_shares)
        self.seats.update(np.asarray(seats).tolist())
