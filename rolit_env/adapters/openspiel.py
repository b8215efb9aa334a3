"""Rolit as a game of OpenSpiel, `python_rolit`, and its rounds as OpenSpiel's learners for one player take them.

Importing this module registers the game: `pyspiel.load_game("python_rolit(size=6,players=3)")`.

Legend: n side, P players, A = n·n actions, E environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyspiel
from open_spiel.python.observation import IIGObserverForPublicInfoGame
from open_spiel.python.rl_agent import StepOutput
from open_spiel.python.rl_environment import StepType, TimeStep

from rolit_env.batch import GameBatch, action_cells
from rolit_env.board import Board
from rolit_env.errors import PositionError, RoundNotOverError, RoundOverError
from rolit_env.gym_env import NO_ROUND, Opponents, checked_opponents
from rolit_env.lockstep import checked_count
from rolit_env.notation import cell_name
from rolit_env.payoffs import win_shares
from rolit_env.variant import COLORS, variant

GAME_TYPE = pyspiel.GameType(
    short_name="python_rolit",
    long_name="Rolit",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.DETERMINISTIC,
    information=pyspiel.GameType.Information.PERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=4,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=False,
    provides_observation_string=True,
    provides_observation_tensor=True,
    parameter_specification={"size": 8, "players": 2, "starter": "red"},
)


class RolitGame(pyspiel.Game):  # type: ignore[misc]
    """Rolit, with the parameters `size`, `players` and `starter`, a playing colour.

    OpenSpiel's players are the seats: player 0 plays the starter's colour and moves first. Actions are cells, row · n +
    column, and their strings cell names such as f4. The observation tensor, float [4, n, n], holds the planes that all
    environments of this package show: the observer's balls, the other players' in turn order after it, then neutral
    colours clockwise.

    As with every game in Python, use the bots of `open_spiel.python`: OpenSpiel's search bots in C++ crash (seen with 2.0.2).

    Raises:
        VariantError: for another size or player count.
        OptionError: for a starter that does not play.
    """

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        given = dict(params or {})
        chosen = GAME_TYPE.parameter_specification | given
        self.start = Board(chosen["size"], chosen["players"], chosen["starter"])
        info = pyspiel.GameInfo(
            num_distinct_actions=self.start.variant.cells,
            max_chance_outcomes=0,
            num_players=self.start.players,
            min_utility=-1 / (self.start.players - 1),
            max_utility=1.0,
            utility_sum=0.0,
            max_game_length=self.start.variant.plies,
        )
        super().__init__(GAME_TYPE, info, given)

    def new_initial_state(self, text: str | None = None) -> RolitState:
        """Return the start position, or the one that `text`, the string of a state, describes.

        Raises `PositionError` for a text that is none, or one of another variant or starter.
        """
        board = self.start.copy()
        if text is not None:
            given = Board.from_text(text)
            if given.variant != board.variant or (given.starter != board.starter and not given.is_over):
                raise PositionError(
                    f"the text shows {given.variant.name} with starter {given.starter}; "
                    f"allowed is {board.variant.name} with starter {board.starter}"
                )
            board.set_words(given.words)
        return RolitState(self, board)

    def make_py_observer(self, iig_obs_type: Any = None, params: dict[str, Any] | None = None) -> Any:
        """Return the observer of the board, or for the kinds that recall the past or hide the board OpenSpiel's own."""
        if not iig_obs_type or (iig_obs_type.public_info and not iig_obs_type.perfect_recall):
            return BoardObserver(self.start.size)
        return IIGObserverForPublicInfoGame(iig_obs_type, params)


class RolitState(pyspiel.State):  # type: ignore[misc]
    """A position of a round; `board` is the `Board` behind it: read it, and leave moves to OpenSpiel's methods.

    An action that the rules forbid raises as `Board.push` does, and the state stays as it was.
    """

    def __init__(self, game: RolitGame, board: Board) -> None:
        super().__init__(game)
        self.board = board  # OpenSpiel copies and keeps its own history of a state and the attributes set here, no more

    @property
    def colors(self) -> tuple[str, ...]:
        """The colour of each seat, P of them."""
        colors = self.board.variant.colors
        first = colors.index(self.board.starter)
        return colors[first:] + colors[:first]

    def current_player(self) -> int:
        """Return the seat to move, or OpenSpiel's number for the end."""
        return int(pyspiel.PlayerId.TERMINAL) if self.board.is_over else self.board.seat

    def _legal_actions(self, player: int) -> list[int]:
        return self.board.legal_moves

    def _apply_action(self, action: int) -> None:
        self.board.push(action)

    def _action_to_string(self, player: int, action: int) -> str:
        return cell_name(action, self.board.size)

    def is_terminal(self) -> bool:
        """Return whether the board is full."""
        return self.board.is_over

    def returns(self) -> list[float]:
        """Return each seat's payoff `win` (see `payoffs.payoffs`), P floats, all 0 before the end."""
        players = self.board.players
        if not self.board.is_over:
            return [0.0] * players
        # In double precision: OpenSpiel wants a sum of 0 to nine decimals, and no value beyond the utilities it was told.
        return [(share * players - 1) / (players - 1) for share in self.win_shares()]

    def win_shares(self) -> list[float]:
        """Return each seat's part of the round, P floats; leaders share 1. Raises `RoundNotOverError` before the end."""
        counts = self.board.counts()
        if not self.board.is_over:
            raise RoundNotOverError("the round is shared out only when it is over")
        shares: list[float] = win_shares([counts[color] for color in self.colors]).tolist()
        return shares

    def __str__(self) -> str:
        return str(self.board)


class BoardObserver:
    """What a seat sees, in the form of OpenSpiel's observers: `tensor`, and the same memory as planes in `dict`."""

    def __init__(self, size: int) -> None:
        self.tensor = np.zeros(4 * size * size, np.float32)
        self.dict = {"observation": self.tensor.reshape(4, size, size)}

    def set_from(self, state: RolitState, player: int) -> None:
        """Write the planes as the seat `player` sees them."""
        board = state.board
        slots = board.variant.slot_colors(COLORS.index(state.colors[player]))
        octets = np.array([board.words[color] for color in slots], "<u8").view(np.uint8).reshape(4, 8)
        self.tensor.reshape(4, -1)[:] = np.unpackbits(octets, axis=1, count=board.variant.cells, bitorder="little")

    def string_from(self, state: RolitState, player: int) -> str:
        """Return the position as text, the same for all seats."""
        return str(state)


class OwnTurnVectorEnv:
    """Rounds for one learner, with the interface of OpenSpiel's `SyncVectorEnv`: agents play the other seats.

    OpenSpiel's `SyncVectorEnv` steps from turn to turn of *all* players. A learner that acts in its own turns alone would
    miss what a round brings when another seat ends it. Here a step runs from the learner's turn to its next one or to the
    end. To the learner it is a game of one player: each time step holds the observation, legal actions and reward of
    player 0, which is the learner wherever it sits. The learner's seats go round, round by round.

    The last time step of a round has `seat` and `win_share` (1 for a sole winner, a part for a shared lead, else 0) under
    `observations["info"]`.

    Args:
        num_envs: Number of rounds side by side, E.
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        opponents: 1 to P − 1 agents or descriptions, in turn order after the learner; the last one fills the other seats.
        starter: The colour that moves first, or `random`: drawn for each round.
        seed: Seeds starters and opponents.

    Raises:
        VariantError: for another size or player count, or an agent that can't play it.
        AgentError: for a description that names no agent.
        OptionError: for another value of the other arguments.
    """

    num_players = 1

    def __init__(
        self,
        num_envs: int,
        *,
        size: int = 8,
        players: int = 2,
        opponents: Opponents = ("random",),
        starter: str = "random",
        seed: int | None = None,
    ) -> None:
        chosen = variant(size, players)
        starters = chosen.colors if starter == "random" else (starter,)
        self._games = [RolitGame({"size": size, "players": players, "starter": color}) for color in starters]
        self._observer = BoardObserver(size)
        self._opponents = checked_opponents(opponents, chosen)
        self._players = players
        # Environments with numbers alike modulo P are a block: the learner has the same seat in them, so they stay at the same
        # turn, and opponents answer all of them at once.
        num_envs = checked_count("num_envs", num_envs)
        self._blocks = [range(block, num_envs, players) for block in range(min(players, num_envs))]
        self._rngs = np.random.default_rng(seed).spawn(len(self._blocks))
        self._states: list[RolitState] = []
        self._seats = list(range(len(self._blocks)))

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def reset(self) -> list[TimeStep]:
        """Start new rounds everywhere, play them up to the learner's first turns, and return their time steps, E of them."""
        self._states = [self._games[0].new_initial_state()] * len(self)
        for block in range(len(self._blocks)):
            self._start(block)
        return [self._first(env) for env in range(len(self))]

    def step(
        self, step_outputs: Sequence[StepOutput], reset_if_done: bool = False
    ) -> tuple[list[TimeStep], list[list[float]], list[bool], list[TimeStep]]:
        """Play the learner's actions, and the others up to its next turns or the end.

        Args:
            step_outputs: What the learner answered, E of them, of which `action` counts. Where a round is over it does not:
                the next one starts.
            reset_if_done: Start the next round in the very step that ends one.

        Returns:
            The time steps, the rewards [E][1], the ends [E], and the time steps before new rounds were started.

        Raises:
            RoundOverError: before the first `reset`.
            ActionError: for another number of answers, or cells off the board.
            IllegalMoveError: for a cell that the rules forbid.
            No round has gone on when one of these is raised.
        """
        if not self._states:
            raise RoundOverError(NO_ROUND)
        cells = action_cells([output.action for output in step_outputs], len(self)).tolist()
        over = [state.is_terminal() for state in self._states]
        for state, cell, ended in zip(self._states, cells, over, strict=True):
            if not ended and cell not in state.board.legal_moves:
                state.board.rolled_by(cell)  # raises, while no round has gone on
        for block, envs in enumerate(self._blocks):
            if over[block]:
                self._start(block)
            else:
                for env in envs:
                    self._states[env].apply_action(cells[env])
                self._play_opponents(block)
        before = [self._first(env) if over[env] else self._following(env) for env in range(len(self))]
        rewards = [time_step.rewards or [0.0] for time_step in before]
        done = [time_step.last() for time_step in before]
        time_steps = before.copy()
        for block, envs in enumerate(self._blocks):
            if reset_if_done and done[block]:
                self._start(block)
                for env in envs:
                    time_steps[env] = self._first(env)
        return time_steps, rewards, done, before

    def _start(self, block: int) -> None:
        """Start new rounds in a block, with the learner in the next seat, and play them up to its first turn."""
        self._seats[block] = (self._seats[block] + 1) % self._players
        for env in self._blocks[block]:
            self._states[env] = self._games[self._rngs[block].integers(len(self._games))].new_initial_state()
        self._play_opponents(block)

    def _play_opponents(self, block: int) -> None:
        states, seat, rng = [self._states[env] for env in self._blocks[block]], self._seats[block], self._rngs[block]
        while not states[0].is_terminal() and states[0].board.seat != seat:
            opponent = self._opponents[(states[0].board.seat - seat - 1) % self._players]
            games = GameBatch.from_boards([state.board for state in states])
            for state, action in zip(states, opponent.act(games, rng).tolist(), strict=True):
                state.apply_action(action)

    def _first(self, env: int) -> TimeStep:
        return TimeStep(self._observe(env), None, None, StepType.FIRST)

    def _following(self, env: int) -> TimeStep:
        state, seat, seen = self._states[env], self._seats[env % self._players], self._observe(env)
        if not state.is_terminal():
            return TimeStep(seen, [0.0], [1.0], StepType.MID)
        seen["info"] = {"seat": seat, "win_share": state.win_shares()[seat]}
        return TimeStep(seen, [state.returns()[seat]], [0.0], StepType.LAST)

    def _observe(self, env: int) -> dict[str, Any]:
        state = self._states[env]
        self._observer.set_from(state, self._seats[env % self._players])
        return {
            "info_state": [self._observer.tensor.copy()],
            "legal_actions": [state.board.legal_moves],
            "current_player": int(pyspiel.PlayerId.TERMINAL) if state.is_terminal() else 0,
            "serialized_state": [],
        }


# A reloaded module has registered its game already.
if GAME_TYPE.short_name not in pyspiel.registered_names():
    pyspiel.register_game(GAME_TYPE, RolitGame)
