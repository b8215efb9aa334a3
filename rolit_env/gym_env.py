"""Rolit for one learner: its actions come in, what it sees at its next turn and the rewards since the last one go out.

The learner has one seat of a round, agents have the others; `vector_env` does the same with thousands of rounds.

Legend: n side, P players, A = n·n actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
import numpy.typing as npt

from rolit_env import rolit_v0
from rolit_env.agents import Agent, RandomAgent, make_agent
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import IllegalMoveError, OptionError, RoundOverError
from rolit_env.payoffs import Payoff
from rolit_env.variant import Variant, starter_color, variant

Seat = int | Literal["rotate"]
IllegalMove = Literal["terminate", "retry", "raise"]
Opponents = Agent | str | Sequence[Agent | str]
Observation = dict[str, npt.NDArray[np.int8]]
Infos = dict[str, Any]
Flags = npt.NDArray[np.bool_]

ILLEGAL_MOVES = (*rolit_v0.ILLEGAL_MOVES, "raise")

NO_ROUND = "no round is on, because none was started or the last one has ended; start one with reset()"


class RolitEnv(gymnasium.Env[Any, Any]):
    """One seat of a round of Rolit; agents play the others.

    Make it with `gymnasium.make("rolit_env/Rolit-v0")`, once `rolit_env` is imported.

    ### Observation space

    `Dict(observation=Box(0, 1, (4, n, n), int8), action_mask=Box(0, 1, (n·n,), int8))`, as in `rolit_v0`: plane 0 holds the
    learner's balls, then come those of the other players in turn order, then the colours without a player, clockwise. The
    mask has a 1 for each legal action, and only zeros once the round is over. Both are fresh arrays each time.
    `env.action_space.sample(observation["action_mask"])` draws a legal action.

    ### Action space

    `Discrete(n·n)`: the cell of the new ball, row · n + column, from the top left.

    ### Rewards

    0 until the board is full, then the learner's payoff, a loser's as well: `step` returns when the learner is to move
    again or the round is over, with all that came since its last turn. Nothing is ever truncated. The info of the last
    step holds the `seat` the learner had and its `win_share`: 1 for a sole winner, a part for a shared lead, else 0.

    ### Arguments

    Args:
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        seat: The learner's place in the turn order, 0 to P − 1, or `rotate`: a seat drawn at the first round after seeding,
            then the next one each round. The last seat wins far more often than the first, so results from one seat
            say little.
        opponents: 1 to P − 1 agents or descriptions for `make_agent`, in turn order after the learner; with fewer the last
            one fills the other seats.
        starter: The colour that moves first, or `random`.
        reward: `win`, `balls` or `rank` (see `payoffs.payoffs`).
        illegal_move: What an illegal action does. `terminate`: the round ends with −1. `retry`: nothing changes, the
            learner moves again, counted in the info's `illegal_moves`. `raise`: `step` raises and nothing changes.
        render_mode: `ansi`, `rgb_array`, `human` or None.

    Raises:
        VariantError: for another size or player count, or an agent that can't play it.
        AgentError: for a description that names no agent.
        OptionError: for another value of the other arguments.

    ### Version history

    v0: first release, 0.1.0.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # gymnasium does not say that it belongs to the class
        "render_modes": list(rolit_v0.RENDER_MODES),
        "render_fps": rolit_v0.raw_env.metadata["render_fps"],
    }

    def __init__(
        self,
        size: int = 8,
        players: int = 2,
        seat: Seat = "rotate",
        opponents: Opponents = ("random",),
        starter: str = "random",
        reward: Payoff = "win",
        illegal_move: IllegalMove = "terminate",
        render_mode: rolit_v0.RenderMode | None = None,
    ) -> None:
        self._variant = variant(size, players)
        if illegal_move not in ILLEGAL_MOVES:
            raise OptionError(f"illegal_move={illegal_move!r} does not exist; allowed are {', '.join(ILLEGAL_MOVES)}")
        refusal: rolit_v0.IllegalMove = "retry" if illegal_move == "retry" else "terminate"
        # Without PettingZoo's wrappers, which would end the round for a learner that wants to see the error.
        self._game = rolit_v0.raw_env(size, players, starter, reward, refusal, render_mode)
        self._colors = self._variant.colors
        self._seat = checked_seat(seat, self._variant)
        self._opponents = checked_opponents(opponents, self._variant)
        self._starter = starter
        self._illegal_move = illegal_move
        self.render_mode = render_mode
        self.observation_space = self._game.observation_space(self._colors[0])
        self.action_space = self._game.action_space(self._colors[0])
        self._next_seat: int | None = None
        self._learner: str | None = None
        self._over = True

    @property
    def board(self) -> Board:
        """A copy of the position. Raises `RoundOverError` before the first round."""
        self._refuse_before_reset()
        return self._game.board

    @property
    def color(self) -> str:
        """The learner's colour in this round. Raises `RoundOverError` before the first round."""
        return self._refuse_before_reset()

    @property
    def seat(self) -> int:
        """The learner's place in the turn order of this round, 0 to P − 1. Raises as `color` does."""
        color, starter = self._refuse_before_reset(), self._game.board.starter
        return (self._colors.index(color) - self._colors.index(starter)) % len(self._colors)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Infos]:
        """Start a new round and play it up to the learner's first turn.

        Args:
            seed: Seeds everything: seats, starters and opponents, in this and the following rounds; None goes on.
            options: `starter` and `seat` set those of this round (and leave the turn of the next seat as it was). Other
                keys are left to wrappers.

        Returns:
            The observation and the info.

        Raises:
            OptionError: for a starter or a seat that does not play.
        """
        options = options or {}
        starter = checked_starter(options.get("starter", self._starter), self._variant)
        seat = checked_seat(options.get("seat", self._seat), self._variant)
        super().reset(seed=seed)
        players = len(self._colors)
        if seed is not None or self._next_seat is None:
            self._next_seat = int(self.np_random.integers(players))
        if seat == "rotate":
            seat = self._next_seat
            self._next_seat = (seat + 1) % players
        first = int(self.np_random.integers(players)) if starter == "random" else self._colors.index(starter)
        self._game.reset(options={"starter": self._colors[first]})
        self._learner = self._colors[(first + seat) % players]
        self._over = True  # should an opponent fail
        self._play_opponents()
        self._over = False
        return self._observe(), self._info()

    def step(self, action: int) -> tuple[Observation, float, bool, bool, Infos]:
        """Play the learner's action, and the opponents up to its next turn or the end.

        Returns:
            The observation, the reward, whether the round is over, False, and the info.

        Raises:
            RoundOverError: when the round is over or none was started.
            ActionError: for anything that is no action.
            IllegalMoveError: for an illegal action, when `illegal_move` is `raise`.
            Nothing changes when one of these is raised. What an opponent raises ends the round: its turn can't be played.
        """
        if self._over:
            raise RoundOverError(NO_ROUND)
        learner = self.color
        try:
            self._game.step(action)
        except IllegalMoveError:
            if self._illegal_move == "raise":
                raise
            self._over = True
            return self._observe(), -1.0, True, False, self._info()
        self._over = True  # should an opponent fail
        self._play_opponents()
        self._over = self._game.terminations[learner]
        info = self._info()
        if self._over:
            outcome = self._game.board.outcome()
            winners = outcome.winners if outcome else ()
            info |= {"seat": self.seat, "win_share": 1 / len(winners) if learner in winners else 0.0}
        return self._observe(), self._game.rewards[learner], self._over, False, info

    def action_masks(self) -> Flags:
        """Return the legal actions as a fresh bool [A], all False when the round is over: what masked learners ask for.

        Raises `RoundOverError` before the first round.
        """
        return self._observe()["action_mask"].astype(np.bool_)

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Return the board as text or as a fresh uint8 [H, W, 3] array, or show it in a window, after `render_mode`.

        Raises `OptionError` when a picture is wanted and pygame-ce is not installed, `RoundOverError` before the first round.
        """
        self._refuse_before_reset()
        return self._game.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self._game.close()

    def _refuse_before_reset(self) -> str:
        """Return the learner's colour."""
        if self._learner is None:
            raise RoundOverError(NO_ROUND)
        return self._learner

    def _play_opponents(self) -> None:
        learner = self.color
        while self._game.agent_selection != learner and not self._game.terminations[learner]:
            turn = self._colors.index(self._game.agent_selection) - self._colors.index(learner) - 1
            self._game.step(_choose(self._opponents[turn % len(self._colors)], self._game.board, self.np_random))

    def _observe(self) -> Observation:
        observation: Observation = self._game.observe(self.color)
        if self._over:  # after an illegal move the board is not full
            observation["action_mask"].fill(0)
        return observation

    def _info(self) -> Infos:
        return dict(self._game.infos[self.color])


def _choose(agent: Agent, board: Board, rng: np.random.Generator) -> int:
    if type(agent) is RandomAgent:
        # As a batch of one it would cost ten times as much, and the first time a wait for kernels to compile.
        legal = board.legal_moves
        return legal[int(rng.random() * len(legal))]
    return int(agent.act(GameBatch.from_boards([board]), rng)[0])


def checked_opponents(opponents: Opponents, chosen: Variant) -> tuple[Agent, ...]:
    """Return the P − 1 opponents in turn order after the learner. Raises `OptionError` for none or too many of them."""
    if not isinstance(opponents, Agent | str | Sequence):
        raise OptionError(f"opponents={opponents!r} are none; allowed are agents, descriptions, and lists of them")
    given = [opponents] if isinstance(opponents, Agent | str) else list(opponents)
    seats = chosen.players - 1
    if not 1 <= len(given) <= seats:
        raise OptionError(f"{len(given)} opponents can't share {seats} seats; allowed are 1 to {seats} opponents")
    agents = [make_agent(agent) if isinstance(agent, str) else agent for agent in given]
    for agent in agents:
        agent.check_variant(chosen)
    return tuple(agents[min(turn, len(agents) - 1)] for turn in range(seats))


def checked_seat(seat: Seat, chosen: Variant) -> Seat:
    """Return a learner's seat, or raise `OptionError`."""
    if seat == "rotate":
        return "rotate"
    if isinstance(seat, bool) or not isinstance(seat, int | np.integer) or not 0 <= seat < chosen.players:
        raise OptionError(f"seat={seat!r} does not exist in {chosen.name}; allowed are 0 to {chosen.players - 1} and rotate")
    return int(seat)


def checked_starter(starter: str, chosen: Variant) -> str:
    """Return a starter or `random`, or raise `OptionError`."""
    if starter != "random":
        starter_color(starter, chosen)
    return starter
