"""Rolit as a PettingZoo environment: the colours' actions come in one by one, observations and rewards go out.

| Import             | `from rolit_env import rolit_v0`, or `import rolit_env` and `pettingzoo.make("aec", "rolit/rolit-v0")` |
|--------------------|-------------------------------------------------------------------------------------------------------|
| Actions            | Discrete                                                                                              |
| Parallel API       | No (one agent moves at a time)                                                                        |
| Manual Control     | No                                                                                                    |
| Agents             | 2: `["red", "green"]`, 3: `["red", "yellow", "green"]`, 4: `["red", "yellow", "green", "blue"]`       |
| Agents             | 2, 3 or 4                                                                                             |
| Action Shape       | ()                                                                                                    |
| Action Values      | Discrete(n·n)                                                                                         |
| Observation Shape  | (4, n, n), and a mask (n·n,)                                                                          |
| Observation Values | 0 and 1, int8                                                                                         |
| State Shape        | (4, n, n)                                                                                             |
| State Values       | 0 and 1, int8                                                                                         |
| Turns in a round   | n·n − 4: 60, 32 or 12                                                                                 |

Legend: n side of the board.

Rolit is a game for two to four colours on a board of 8×8 cells (6×6, or for two players 4×4, in quick games). A turn
puts one ball of one's colour on an empty cell next to another ball. Balls of other colours between the new ball and
the next ball of the same colour, along each of the eight directions, roll to that colour. Where a capture is possible
it is mandatory. Nobody ever passes: a round ends when the board is full, and the colour with the most balls wins.

### Observation Space

A dictionary. `"observation"` holds four planes, seen by the observer: plane 0 its own balls, then those of the other
players in turn order after the observer, then the colours without a player, clockwise. `"action_mask"` is the mask
of legal actions. Both are fresh arrays each time. Every agent may be asked at any time, after the end as well.

`state()` is the board as everybody sees it: the planes of red, yellow, green and blue.

#### Legal Actions Mask

1 for each legal action of the agent whose turn it is. The mask is all zeros for the agents whose turn it is not, and
for everybody once the round is over. `env.action_space(agent).sample(mask)` draws a legal action.

### Action Space

The cell of the new ball, row · n + column, counted from the top left with the red button on top: 29 is f4 on 8×8.

An illegal action (the cell is occupied, is next to no ball, or misses a mandatory capture) ends the round with
`illegal_move="terminate"`: −1 for who made it, 0 for the others, PettingZoo's convention, a truncation as well as a
termination. With `illegal_move="retry"`, the booklet's rule, nothing changes and the same agent moves again;
`infos[agent]["illegal_moves"]` counts how often that happened to an agent in this round.

What is no action at all, such as −1, 99, 29.0, True or "f4", is refused by an `ActionError` and changes nothing. Python's
and NumPy's ints are actions, and so are their arrays of shape (). An agent whose round is over takes only None, and once
all agents have left the round a step raises `RoundOverError`.

### Rewards

Zero until the board is full, then for all agents at once, summing to zero:

| `reward`  | What an agent gets                                                                                         |
|-----------|------------------------------------------------------------------------------------------------------------|
| `"win"`   | +1 for the winner, −1/(players − 1) for the others. Colours that share the lead share what they would get  |
| `"balls"` | Its part of the balls, less the mean over the players                                                      |
| `"rank"`  | From +1 for the first place to −1 for the last, evenly spaced; equal places get their mean                 |

The agents all terminate together, and nothing is ever truncated by time. A loser's reward arrives, as always in
PettingZoo, with the `last()` of its own next turn.

### Arguments

```python
rolit_v0.env(size=8, players=2, starter="random", reward="win", illegal_move="terminate", render_mode=None)
```

`size`: side of the board, 8, 6 or 4.

`players`: 2, 3 or 4 (2 on 4×4).

`starter`: the colour that moves first, or `"random"`: drawn anew by each `reset`, from the generator that
`reset(seed)` seeds. `reset(options={"starter": "green"})` sets it for one round.

`reward`: `"win"`, `"balls"` or `"rank"`.

`illegal_move`: `"terminate"` or `"retry"`.

`render_mode`: `"ansi"` (text), `"rgb_array"` (uint8 [H, W, 3]), `"human"` (a window, needs pygame-ce) or None.

### Copies

`env.clone()`, `copy.deepcopy` and `pickle` keep the whole state: position, rewards, counters, generators, wrappers.
A window stays with the original.

### Version History

* v0: First release (0.1.0)
"""

from __future__ import annotations

import copy
from operator import attrgetter, itemgetter
from struct import Struct
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
import pettingzoo  # type: ignore[import-untyped]
from gymnasium import spaces
from numpy import int8, ndarray, uint8, unpackbits
from pettingzoo.utils.wrappers import (  # type: ignore[import-untyped]
    AssertOutOfBoundsWrapper,
    OrderEnforcingWrapper,
    TerminateIllegalWrapper,
)

from rolit_env import render
from rolit_env.board import Board, checked_action
from rolit_env.errors import IllegalMoveError, OptionError, RoundOverError
from rolit_env.payoffs import Payoff, check_payoff
from rolit_env.variant import COLORS, PLAYING_COLORS, variant

IllegalMove = Literal["terminate", "retry"]
RenderMode = Literal["ansi", "rgb_array", "human"]
Planes = npt.NDArray[np.int8]
Last = tuple[dict[str, Planes] | None, float, bool, bool, dict[str, int]]

ILLEGAL_MOVES = ("terminate", "retry")
RENDER_MODES = ("ansi", "rgb_array", "human")

_NO_ROUND = "no round is on, because none was started or all agents have left it; start one with reset()"

_pack_state, _pack_view = Struct("<4Q").pack, Struct("<5Q").pack


def env(
    size: int = 8,
    players: int = 2,
    starter: str = "random",
    reward: Payoff = "win",
    illegal_move: IllegalMove = "terminate",
    render_mode: RenderMode | None = None,
) -> WrappedEnv:
    """Return the environment in PettingZoo's usual wrappers, which refuse bad actions and calls out of order.

    The arguments are those of `raw_env`; see the module's documentation. Raises as `raw_env` does. Calls before the first
    `reset` raise PettingZoo's own errors.
    """
    wrapped: pettingzoo.AECEnv = raw_env(size, players, starter, reward, illegal_move, render_mode)
    if illegal_move == "terminate":
        wrapped = TerminateIllegalWrapper(wrapped, illegal_reward=-1)
    # Outside of it, so that an action off the board is refused before the mask is asked about it.
    wrapped = OutOfBoundsWrapper(wrapped)
    return WrappedEnv(wrapped)


class OutOfBoundsWrapper(AssertOutOfBoundsWrapper):  # type: ignore[misc]  # PettingZoo has no types
    """PettingZoo's wrapper, with an error that says what is allowed."""

    def step(self, action: int | None) -> None:
        """Pass an action on, as an int. Raises `ActionError` when the agent is in the round and it is no action."""
        agent = self.agent_selection
        if not (self.terminations[agent] or self.truncations[agent]):
            action = checked_action(action, self.action_space(agent).n)
        self.env.step(action)


class WrappedEnv(OrderEnforcingWrapper):  # type: ignore[misc]
    """What `env` returns: PettingZoo's outermost wrapper, and `clone`.

    PettingZoo's wrappers hand every call and every attribute from one to the next, which takes longer than the game does.
    Those inside only object to actions and change nothing that is read. So once a round was started, reads and legal
    actions go straight to the environment, and all else takes the way through the wrappers.
    """

    _round: raw_env | None = None
    """The environment itself, from the first `reset` on."""

    # Before that these raise AttributeErrors, for which Python asks the wrapper's __getattr__, and that explains.
    agents = property(attrgetter("_round.agents"))
    agent_selection = property(attrgetter("_round.agent_selection"))
    rewards = property(attrgetter("_round.rewards"))
    _cumulative_rewards = property(attrgetter("_round._cumulative_rewards"))
    terminations = property(attrgetter("_round.terminations"))
    truncations = property(attrgetter("_round.truncations"))
    infos = property(attrgetter("_round.infos"))

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a new round, as `raw_env` does."""
        super().reset(seed, options)
        self._round = self.unwrapped

    def step(self, action: int | None) -> None:
        """Step as `raw_env` does, with all wrappers. Raises `RoundOverError` where PettingZoo's wrapper only warns."""
        if self._round is not None and (cell := self._round._legal_cell(action)) is not None:
            self._has_updated = True
            self._round.step(cell)
            return
        if self._has_reset:
            if not self.agents:
                raise RoundOverError(_NO_ROUND)
            self.env.observe(self.agent_selection)  # the wrapper inside judges by the mask it saw last
        super().step(action)

    def observe(self, agent: str) -> dict[str, Planes]:
        """Return what an agent sees, as `raw_env` does."""
        seen: dict[str, Planes] = super().observe(agent) if self._round is None else self._round.observe(agent)
        return seen

    def last(self, observe: bool = True) -> Last:
        """Return observation, collected reward, termination, truncation and info of the agent whose turn it is."""
        seen: Last = super().last(observe) if self._round is None else self._round.last(observe)
        return seen

    def clone(self) -> WrappedEnv:
        """Return an independent copy of the whole environment with all its wrappers.

        Wrap it further and a call of `clone` still copies from here inwards; there, use `copy.deepcopy`.
        """
        return copy.deepcopy(self)

    def __str__(self) -> str:
        return str(self.env)


class raw_env(pettingzoo.AECEnv):  # type: ignore[misc]  # noqa: N801  # the name PettingZoo gives it
    """The environment without wrappers: faster, and an illegal action raises or, with `retry`, is counted.

    Args:
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        starter: The colour that moves first, or `random`.
        reward: `win`, `balls` or `rank`.
        illegal_move: `terminate` or `retry`.
        render_mode: `ansi`, `rgb_array`, `human` or None.

    Raises:
        VariantError: for another size or player count.
        OptionError: for another value of the other arguments.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "rolit_v0",
        "render_modes": list(RENDER_MODES),
        "render_fps": 4,
        "is_parallelizable": False,
    }

    def __init__(
        self,
        size: int = 8,
        players: int = 2,
        starter: str = "random",
        reward: Payoff = "win",
        illegal_move: IllegalMove = "terminate",
        render_mode: RenderMode | None = None,
    ) -> None:
        super().__init__()
        self._variant = variant(size, players)
        # Its own ints from here on: 8.0 finds the variant too, but makes no space.
        size, players, cells = self._variant.size, self._variant.players, self._variant.cells
        colors = self._variant.colors
        self._starter = self._checked_starter(starter)
        self._reward = check_payoff(reward)
        if illegal_move not in ILLEGAL_MOVES:
            raise OptionError(f"illegal_move={illegal_move!r} does not exist; allowed are {', '.join(ILLEGAL_MOVES)}")
        if render_mode not in (None, *RENDER_MODES):
            raise OptionError(f"render_mode={render_mode!r} does not exist; allowed are {', '.join(RENDER_MODES)} and None")
        self._illegal_move = illegal_move
        self.render_mode = render_mode
        self._window: render.Window | None = None
        self._rng = np.random.default_rng()
        self._board: Board | None = None

        # Each agent's way of sorting the words of red, yellow, green and blue for its own planes.
        self._planes = {COLORS[color]: itemgetter(*self._variant.slot_colors(color)) for color in PLAYING_COLORS[players]}
        self._shape = (4, size, size)
        self._next = dict(zip(colors, colors[1:] + colors[:1], strict=True))
        self.possible_agents: list[str] = list(colors)
        self.agents: list[str] = []
        self._no_rewards = dict.fromkeys(colors, 0.0)
        self.action_spaces = {agent: spaces.Discrete(cells) for agent in colors}
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": spaces.Box(0, 1, self._shape, np.int8),
                    "action_mask": spaces.Box(0, 1, (cells,), np.int8),
                }
            )
            for agent in colors
        }
        self.state_space = spaces.Box(0, 1, self._shape, np.int8)

    @property
    def board(self) -> Board:
        """A copy of the position, for analysis and for agents. Raises `RoundOverError` before the first `reset`."""
        return self._started().copy()

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return the observation space of an agent, always the same object. Raises `OptionError` for no agent's name."""
        self._check_agent(agent)
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the action space of an agent, always the same object; it has its own seed. Raises as above."""
        self._check_agent(agent)
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a new round.

        Args:
            seed: Seeds the draw of the starter in this and the following rounds; None goes on with the generator.
            options: `starter` sets who starts this round. Other keys are left to wrappers.

        Raises:
            OptionError: for a starter that does not play.
        """
        starter = self._checked_starter((options or {}).get("starter", self._starter))
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        if starter == "random":
            starter = self.possible_agents[self._rng.integers(len(self.possible_agents))]
        self._board = Board(self._variant.size, self._variant.players, starter)
        self.agents = self.possible_agents.copy()
        self.agent_selection = starter
        self._skip_agent_selection = None  # PettingZoo's memory of whom a dead step interrupted
        self.rewards = self._no_rewards.copy()
        self._cumulative_rewards = self._no_rewards.copy()
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: self._info(0) for agent in self.agents}
        if self.render_mode == "human":
            self.render()

    def step(self, action: int | None) -> None:
        """Play the action of the agent whose turn it is, or None for an agent whose round is over.

        Raises:
            IllegalMoveError: for an illegal action, unless `illegal_move` is `retry`.
            ActionError: for anything that is no action, names of cells as well.
            RoundOverError: when all agents have left the finished round, or none was started.
            Nothing changes when one of these is raised.
        """
        if not self.agents:
            raise RoundOverError(_NO_ROUND)
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        board = self._started()
        try:
            board.push(action if type(action) is int else checked_action(action, self._variant.cells))
        except IllegalMoveError:
            if self._illegal_move == "terminate":
                raise
            self.infos[agent] = self._info(self.infos[agent]["illegal_moves"] + 1)
            return
        self._cumulative_rewards[agent] = 0.0
        self.agent_selection = self._next[agent]
        if board.is_over:
            self.rewards = board.payoffs(self._reward)
            self.terminations = dict.fromkeys(self.agents, True)
            self._accumulate_rewards()
        else:
            self.rewards = self._no_rewards.copy()
        if self.render_mode == "human":
            self.render()

    def observe(self, agent: str) -> dict[str, Planes]:
        """Return what an agent sees: `observation`, int8 [4, n, n], and `action_mask`, int8 [n·n].

        Raises `OptionError` for a name that is no agent's, and `RoundOverError` before the first `reset`.
        """
        self._check_agent(agent)
        board, cells = self._started(), self._variant.cells
        moves = agent == self.agent_selection and not self.terminations.get(agent, True)
        octets = _pack_view(*self._planes[agent](board.words), board.legal if moves else 0)
        bits = unpackbits(ndarray((5, 8), uint8, octets), 1, cells, "little")
        # Two arrays on the memory that was just filled, without a copy.
        return {"observation": ndarray(self._shape, int8, bits), "action_mask": ndarray((cells,), int8, bits, 4 * cells)}

    def state(self) -> Planes:
        """Return the balls of red, yellow, green and blue, int8 [4, n, n], a fresh array.

        Raises `RoundOverError` before the first `reset`.
        """
        octets = ndarray((4, 8), uint8, _pack_state(*self._started().words))
        return ndarray(self._shape, int8, unpackbits(octets, 1, self._variant.cells, "little"))

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Return the board as text or as a fresh uint8 [H, W, 3] array, or show it in a window, after `render_mode`.

        Raises `OptionError` when a picture is wanted and pygame-ce is not installed, and `RoundOverError` before the first
        `reset`.
        """
        if self.render_mode is None:
            gymnasium.logger.warn("render() was called, but render_mode is None; choose one when you make the environment")
            return None
        if self.render_mode == "ansi":
            return render.board_text(self._started())
        frame = render.draw_board(self._started())
        if self.render_mode == "rgb_array":
            return frame
        if self._window is None:
            self._window = render.Window("Rolit", self.metadata["render_fps"])
        self._window.show(frame)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def clone(self) -> raw_env:
        """Return an independent copy; a window stays here."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_window": None}

    def _started(self) -> Board:
        if self._board is None:
            raise RoundOverError("no round was started yet; start one with reset()")
        return self._board

    def _legal_cell(self, action: object) -> int | None:
        """Return a legal action as an int, and None for anything that a wrapper may object to."""
        cell = action if type(action) is int else int(action) if type(action) is np.int64 else -1
        return cell if cell >= 0 and self._started().legal >> cell & 1 else None

    def _checked_starter(self, starter: str) -> str:
        allowed = ("random", *self._variant.colors)
        if starter not in allowed:
            raise OptionError(f"starter={starter!r} does not play in {self._variant.name}; allowed are {', '.join(allowed)}")
        return starter

    def _check_agent(self, agent: str) -> None:
        if agent not in self._planes:
            raise OptionError(f"{agent!r} is no agent of {self._variant.name}; allowed are {', '.join(self._variant.colors)}")

    def _info(self, illegal_moves: int) -> dict[str, int]:
        return {"illegal_moves": illegal_moves} if self._illegal_move == "retry" else {}


# PettingZoo has a registry from 1.27 on; a reloaded module is registered already.
if hasattr(pettingzoo, "register") and "rolit/rolit-v0" not in pettingzoo.aec_registry:
    pettingzoo.register("aec", "rolit/rolit-v0", entry_point="rolit_env.rolit_v0:env")
