"""Thousands of rounds for one learner: an action for each comes in, observations with masks, rewards and ends go out.

Legend: B sub-environments, n side, P players, A = n·n actions.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rolit_env import loops, render, rolit_v0
from rolit_env.agents import RandomAgent
from rolit_env.batch import GameBatch, action_cells
from rolit_env.board import Board
from rolit_env.errors import ActionError, IllegalMoveError, OptionError, RoundOverError
from rolit_env.gym_env import (
    NO_ROUND,
    Flags,
    Infos,
    Observation,
    Opponents,
    RolitEnv,
    Seat,
    checked_opponents,
    checked_seat,
    checked_starter,
)
from rolit_env.payoffs import Payoff, check_payoff
from rolit_env.variant import variant

Actions = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

RENDER_MODES = ("ansi", "rgb_array")

BLOCK_SIZE = 4096
"""Most games that a vector environment plays as one batch: enough to make calls cheap, few enough for a core's cache."""


class RolitVectorEnv(VectorEnv[Observation, Actions, npt.NDArray[Any]]):
    """Thousands of rounds of Rolit in lockstep, one seat of each for the learner, with agents in batches in the others.

    Make it with `gymnasium.make_vec("rolit_env/Rolit-v0", num_envs=4096, vectorization_mode="vector_entry_point")`, once
    `rolit_env` is imported. Each sub-environment is as `RolitEnv` describes it, but for these:

    - An illegal action raises `IllegalMoveError` with the sub-environments in `games`, and nothing changes in any of them:
      rounds in lockstep can't end apart.
    - With `seat="rotate"` the sub-environments share the seats as evenly as their number allows, and each goes on to the
      next seat with its next round.
    - All rounds end in the same step, but on 6x6 with three players: 32 turns don't divide by 3, the last seat has a turn
      less than the others, and so rounds drift apart.

    ### Autoreset

    `metadata["autoreset_mode"]` holds the mode, gymnasium's `AutoresetMode` (or its value as text, such as `SameStep`):

    - `NEXT_STEP`: the step after the end ignores the action, starts the next round and returns its first observation
      with reward 0.
    - `SAME_STEP`: the step that ends a round returns the first observation of the next one. The last observation of the
      old one is in `infos["final_obs"]` and its info in `infos["final_info"]`.
    - `DISABLED`: `reset(options={"reset_mask": terminations})` starts new rounds; `step` raises `RoundOverError` before.

    ### Infos

    Empty but when rounds have ended. Then `seat` and `win_share` (inside `final_info` with `SAME_STEP`) are arrays [B],
    filled in where a round has ended and 0 elsewhere, and a bool [B] under the same name with `_` before it says where. So
    are `final_obs`, which is one batch of observations like those returned: where gymnasium's own vectors have an array
    of dicts and `infos["final_obs"][i]["observation"]`, here it is `infos["final_obs"]["observation"][i]`.

    ### Who owns the arrays

    With `copy=True` all arrays returned are the caller's. With `copy=False` observations and final observations are written
    to the same arrays each time, so those returned before change: copy what you keep. Rewards, terminations,
    truncations and infos are always the caller's.

    ### Arguments

    Args:
        num_envs: Number of sub-environments, B.
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        seat: The learner's seat, 0 to P − 1, or `rotate`.
        opponents: As `RolitEnv` takes them; they act on batches.
        starter: The colour that moves first, or `random`: drawn for each round.
        reward: `win`, `balls` or `rank`.
        autoreset_mode: An `AutoresetMode` or its value.
        copy: Whether each observation comes in arrays of its own.
        render_mode: `ansi`, `rgb_array` or None.

    Raises:
        VariantError: for another size or player count, or an agent that can't play it.
        AgentError: for a description that names no agent.
        OptionError: for another value of the other arguments.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        size: int = 8,
        players: int = 2,
        seat: Seat = "rotate",
        opponents: Opponents = ("random",),
        starter: str = "random",
        reward: Payoff = "win",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: Literal["ansi", "rgb_array"] | None = None,
    ) -> None:
        self._variant = variant(size, players)
        if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise OptionError(f"num_envs={num_envs!r} is no number of sub-environments; allowed are ints from 1 up")
        if render_mode not in (None, *RENDER_MODES):
            allowed = ", ".join(RENDER_MODES)
            raise OptionError(f"render_mode={render_mode!r} does not exist here; allowed are {allowed} and None")
        self.num_envs = int(num_envs)
        self.render_mode = render_mode
        self._mode = _checked_mode(autoreset_mode)
        self.metadata = {
            "render_modes": list(RENDER_MODES),
            "render_fps": RolitEnv.metadata["render_fps"],
            "autoreset_mode": self._mode,
        }
        self._seat = checked_seat(seat, self._variant)
        self._opponents = checked_opponents(opponents, self._variant)
        self._all_random = all(type(agent) is RandomAgent for agent in self._opponents)
        self._starter = checked_starter(starter, self._variant)
        self._reward = check_payoff(reward)
        # The spaces of one sub-environment, taken from where they are defined.
        game = rolit_v0.raw_env(size, players)
        self.single_observation_space = game.observation_space(self._variant.colors[0])
        self.single_action_space = game.action_space(self._variant.colors[0])

        # Equally many batches for each seat; when the sub-environments are fewer, one for each of them.
        batches = min(self.num_envs, self._variant.players * -(-self.num_envs // (self._variant.players * BLOCK_SIZE)))
        bounds = [self.num_envs * batch // batches for batch in range(batches + 1)]
        self._blocks = [
            _Block(slice(first, last), GameBatch(last - first, size=size, players=players)) for first, last in pairwise(bounds)
        ]
        self._started = False
        self._observation = None if copy else self._empty_observation()
        self._final_observation = None if copy else self._empty_observation()

    # Gymnasium keeps the bounds of each value in four arrays, so the batched spaces take more memory than the observations.
    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """The batched observation space, made when somebody asks for it."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """The batched action space, made when somebody asks for it."""
        return batch_space(self.single_action_space, self.num_envs)

    @property
    def seats(self) -> npt.NDArray[np.int64]:
        """The learner's seat in each sub-environment's round, int64 [B], a fresh array. Raises `RoundOverError` before."""
        self._refuse_before_reset()
        return np.concatenate([np.full(len(block.games), block.seat) for block in self._blocks])

    def board(self, index: int) -> Board:
        """Return the position of one sub-environment. Raises `OptionError` for no index, and as `seats` does."""
        self._refuse_before_reset()
        if not isinstance(index, int | np.integer) or not 0 <= index < self.num_envs:
            raise OptionError(f"there is no sub-environment {index!r}; allowed are 0 to {self.num_envs - 1}")
        block = next(block for block in self._blocks if index < block.rows.stop)
        return block.games.board(index - block.rows.start)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Infos]:
        """Start new rounds and play them up to the learner's first turns.

        Args:
            seed: Seeds everything: seats, starters and opponents, in these and the following rounds; None goes on.
            options: `starter` sets that of these rounds. `reset_mask`, bool [B], names the sub-environments that start anew
                and take the seed, such as the terminations of the last step; those that play as one batch, and so end
                together, must be named together. Other keys are left to wrappers.

        Returns:
            The observations of all sub-environments, and empty infos.

        Raises:
            OptionError: for a starter that does not play, or a mask that can't be.
        """
        options = options or {}
        starter = checked_starter(options.get("starter", self._starter), self._variant)
        chosen = self._chosen(options.get("reset_mask"))
        super().reset(seed=seed)
        if seed is not None or not self._started:
            players = self._variant.players
            first = int(self.np_random.integers(players))
            for number, (block, rng) in enumerate(zip(self._blocks, self.np_random.spawn(len(self._blocks)), strict=True)):
                if block in chosen:
                    block.rng = rng
                    block.next_seat = (first + number) % players if self._seat == "rotate" else self._seat
        self._started = False  # should an opponent fail
        for block in chosen:
            self._start(block, starter)
        self._started = True
        observation = self._observation or self._empty_observation()
        for block in self._blocks:
            block.observe(observation)
        return observation, {}

    def step(self, actions: npt.ArrayLike) -> tuple[Observation, Values, Flags, Flags, Infos]:
        """Play the learner's actions, and the opponents up to its next turns or the end.

        Args:
            actions: int [B], each a legal cell; ignored where the next round starts in this step.

        Returns:
            The observations, rewards float64 [B], terminations bool [B], truncations bool [B], all False, and infos.

        Raises:
            RoundOverError: when no rounds were started, or with `DISABLED` where one is over.
            ActionError: for an array of another shape or type, or cells off the board.
            IllegalMoveError: naming the sub-environments in which the rules forbid the action.
            Nothing changes in any sub-environment when one of these is raised. What an opponent raises ends all rounds,
            because some have gone on and others have not.
        """
        cells = self._checked(actions)
        self._started = False  # should an opponent fail
        observation = self._observation or self._empty_observation()
        rewards = np.zeros(self.num_envs)
        terminations = np.zeros(self.num_envs, np.bool_)
        ended: list[_Block] = []
        for block in self._blocks:
            if block.games.done:
                self._start(block, self._starter)
            else:
                block.games.step(cells[block.rows])
                self._play_opponents(block)
                if block.games.done:
                    ended.append(block)
                    rewards[block.rows] = block.games.payoffs(self._reward)[:, block.seat]
                    terminations[block.rows] = True
        infos = self._results(ended, terminations) if ended else {}
        if ended and self._mode is AutoresetMode.SAME_STEP:
            final = self._final_observation or self._empty_observation()
            for block in self._blocks:
                if block in ended:
                    block.observe(final)
                    self._start(block, self._starter)
                else:
                    block.clear(final)
            infos = {
                "final_obs": final,
                "_final_obs": terminations.copy(),
                "final_info": infos,
                "_final_info": terminations.copy(),
            }
        self._started = True
        for block in self._blocks:
            block.observe(observation)
        return observation, rewards, terminations, np.zeros(self.num_envs, np.bool_), infos

    def action_masks(self) -> Flags:
        """Return the legal actions of each sub-environment as a fresh bool [B, A], all False where a round is over.

        Raises `RoundOverError` before the first rounds.
        """
        self._refuse_before_reset()
        masks = np.empty((self.num_envs, self._variant.cells), np.int8)
        for block in self._blocks:
            block.games.legal_mask(out=masks[block.rows])
        return masks.view(np.bool_)

    def random_actions(self, rng: np.random.Generator) -> Actions:
        """Return a uniformly random legal action for each sub-environment, int64 [B], 0 where a round is over.

        Raises `RoundOverError` before the first rounds.
        """
        self._refuse_before_reset()
        actions = np.zeros(self.num_envs, np.int64)
        for block in self._blocks:
            if not block.games.done:
                actions[block.rows] = block.games.random_actions(rng)
        return actions

    def render(self) -> tuple[str | npt.NDArray[np.uint8], ...] | None:
        """Return each sub-environment's board as text or as a uint8 [H, W, 3] array, after `render_mode`.

        Raises `OptionError` when pictures are wanted and pygame-ce is not installed, and `RoundOverError` as above.
        """
        if self.render_mode is None:
            gymnasium.logger.warn("render() was called, but render_mode is None; choose one when you make the environment")
            return None
        draw = render.board_text if self.render_mode == "ansi" else render.draw_board
        return tuple(draw(self.board(index)) for index in range(self.num_envs))

    def _refuse_before_reset(self) -> None:
        if not self._started:
            raise RoundOverError(NO_ROUND)

    def _empty_observation(self) -> Observation:
        size, cells = self._variant.size, self._variant.cells
        return {
            "observation": np.empty((self.num_envs, 4, size, size), np.int8),
            "action_mask": np.empty((self.num_envs, cells), np.int8),
        }

    def _start(self, block: _Block, starter: str) -> None:
        block.seat = block.next_seat
        if self._seat == "rotate":
            block.next_seat = (block.seat + 1) % self._variant.players
        block.games.reset(starter=starter, seed=block.rng)
        self._play_opponents(block)

    def _play_opponents(self, block: _Block) -> None:
        games, players = block.games, self._variant.players
        if self._all_random:
            turns = min((block.seat - games.seat) % players, games.plies - games.ply)
            if turns:
                games.step_random(block.rng, turns)
            return
        while games.seat != block.seat and not games.done:
            agent = self._opponents[(games.seat - block.seat - 1) % players]
            games.step(agent.act(games, block.rng))

    def _results(self, ended: list[_Block], terminations: Flags) -> Infos:
        seats, shares = np.zeros(self.num_envs, np.int64), np.zeros(self.num_envs)
        for block in ended:
            seats[block.rows] = block.seat
            shares[block.rows] = block.games.win_shares()[:, block.seat]
        return {"seat": seats, "_seat": terminations.copy(), "win_share": shares, "_win_share": terminations.copy()}

    def _chosen(self, reset_mask: npt.NDArray[np.bool_] | None) -> list[_Block]:
        """Return the blocks that a mask names, all without one."""
        if reset_mask is None:
            return self._blocks
        if not isinstance(reset_mask, np.ndarray) or reset_mask.shape != (self.num_envs,) or reset_mask.dtype != np.bool_:
            raise OptionError(f"reset_mask must be a bool array of shape ({self.num_envs},), not {reprlib.repr(reset_mask)}")
        if not self._started or not reset_mask.any():
            raise OptionError("reset_mask must name a sub-environment or more, after a reset of all of them without it")
        chosen = [block for block in self._blocks if reset_mask[block.rows].any()]
        for block in chosen:
            if not reset_mask[block.rows].all():
                first, last = block.rows.start, block.rows.stop - 1
                raise OptionError(
                    f"reset_mask must hold all or none of the sub-environments {first} to {last}: they play as one"
                )
        return chosen

    def _checked(self, actions: npt.ArrayLike) -> Actions:
        self._refuse_before_reset()
        cells = action_cells(actions, self.num_envs).astype(np.int64, copy=False)
        wrong: list[int] = []
        for block in self._blocks:
            rows, games = block.rows, block.games
            if games.done:
                if self._mode is AutoresetMode.DISABLED:
                    raise RoundOverError(
                        f"the rounds of the sub-environments {rows.start} to {rows.stop - 1} are over; start new ones with "
                        'reset(options={"reset_mask": terminations})'
                    )
            elif loops.any_illegal(cells[rows], games.legal):
                # Negative cells become huge, and a shift that far leaves nothing.
                legal = games.legal >> cells[rows].view(np.uint64) & np.uint64(1)
                wrong.extend((np.flatnonzero(legal == 0) + rows.start).tolist())
        if wrong:
            self._explain(wrong, cells)
        return cells

    def _explain(self, wrong: list[int], cells: Actions) -> None:
        off = next((index for index in wrong if not 0 <= cells[index] < self._variant.cells), None)
        if off is not None:
            raise ActionError(
                f"action {cells[off]} of sub-environment {off} is off the board; "
                f"actions run from 0 to {self._variant.cells - 1}"
            )
        try:
            self.board(wrong[0]).push(int(cells[wrong[0]]))
        except IllegalMoveError as error:
            where = f"sub-environments {', '.join(map(str, wrong[:10]))}{', …' if len(wrong) > 10 else ''}"
            raise IllegalMoveError(f"illegal in {where}; in {wrong[0]}, {error}", error.reason, wrong) from None


@dataclass(eq=False)
class _Block:
    """Sub-environments that play as one batch, because the learner has the same seat in them.

    Attributes:
        rows: Where they are among all sub-environments.
        games: Their rounds, between steps at the learner's turn or over.
        rng: Where their starters and opponents get all chance from.
        seat: The learner's seat in this round.
        next_seat: That in the next.
    """

    rows: slice
    games: GameBatch
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    seat: int = 0
    next_seat: int = 0

    def observe(self, observation: Observation) -> None:
        """Write what the learner sees into this block's rows."""
        planes = observation["observation"][self.rows]
        self.games.planes(out=planes)
        self.games.legal_mask(out=observation["action_mask"][self.rows])
        players = self.games.variant.players
        ahead = (self.seat - self.games.seat) % players
        if ahead:  # only on a full board, which is seen from the seat that would be next
            planes[:, :players] = np.roll(planes[:, :players], -ahead, axis=1)

    def clear(self, observation: Observation) -> None:
        """Write zeros into this block's rows."""
        for array in observation.values():
            array[self.rows] = 0


def _checked_mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = ", ".join(known.value for known in AutoresetMode)
        raise OptionError(f"autoreset_mode={mode!r} does not exist; allowed are {allowed}") from None
