"""Thousands of rounds in lockstep on a torch device: what `GameBatch` does with arrays happens here with tensors.

Import it by name, `from rolit_env.torch_batch import TorchBatch`: nothing else in this package needs torch. The rules are
the same text, on int64 words, which hold the same bits as uint64 ones (bit 63 is the sign). On a GPU the host never waits
for the device within a round, unless `step` is to check actions; nothing is written in place, so what was handed out stays.

Legend: B games, n side, P players, A = n·n actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rolit_env import rules
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import ActionError, OptionError
from rolit_env.lockstep import Lockstep, checked_choice, checked_count
from rolit_env.payoffs import Payoff, check_payoff
from rolit_env.rules import Geometry, geometry
from rolit_env.variant import PLAYERS_BY_SIZE, PLAYING_COLORS, Variant, starter_color, variant

COMPILE_OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {
    "realize_reads_threshold": 1,
    "realize_opcount_threshold": 5,
    "max_fusion_size": 1000,
}
"""A turn is some 400 operations in one kernel. By default torch would write out each value anew wherever it is used, which
takes it minutes, and not join so many operations, which would send intermediate words through memory."""

NOISE_BITS = 56
"""Random bits of a choice: with counts up to 64 the product still fits an int64, and no chance is off by more than 2**-50."""


class TorchBatch(Lockstep):
    """B rounds of one variant, played in lockstep on a torch device.

    Args:
        games: Number of games, B.
        size: 8, 6 or 4.
        players: 2, 3 or 4 (4x4 is for 2 only).
        starter: The colour that moves first in every game, or `random`: drawn for each game among those that play.
        seed: Seeds that draw; an int, a generator of the device, or None for torch's global generator. The same seed gives
            other starters on another kind of device.
        device: Where the games live.
        compile: Compile turns and planes with `torch.compile`, which joins the hundreds of operations of a turn in one kernel.
            That happens when the first turn is played, takes seconds to a minute, is kept on disk, and needs a C++ compiler on
            a CPU and Triton on a GPU. None for: on GPUs only.

    Attributes:
        variant: The variant played.
        legal: Legal cells of the seat to move, int64 [B]. Like all tensors here, replaced at each turn, never written to.
        starters: The colour in seat 0, int64 [B].
        ply: Turns played.
        compile: Whether turns are compiled.

    A game takes 48 bytes: five words and the starter.

    Raises:
        VariantError: for another size or player count.
        OptionError: for a starter that does not play, a number of games below 1, or a device that is not there; and from
            whatever is compiled first, where compiling does not work.
    """

    def __init__(
        self,
        games: int,
        *,
        size: int = 8,
        players: int = 2,
        starter: str = "random",
        seed: int | torch.Generator | None = None,
        device: torch.device | str = "cpu",
        compile: bool | None = None,  # noqa: A002  (as torch calls it)
    ) -> None:
        self.variant: Variant = variant(size, players)
        self.legal = torch.empty(checked_count("games", games), dtype=torch.int64, device=_usable(device))
        self.compile = self.device.type == "cuda" if compile is None else compile
        self.reset(starter=starter, seed=seed)

    @classmethod
    def from_games(
        cls,
        games: GameBatch,
        *,
        device: torch.device | str = "cpu",
        compile: bool | None = None,  # noqa: A002
    ) -> TorchBatch:
        """Return a batch on a device that goes on from the positions of another."""
        size, players = games.variant.size, games.variant.players
        batch = cls(len(games), size=size, players=players, starter=games.variant.colors[0], device=device, compile=compile)
        batch.starters = torch.tensor(games.starters, device=batch.device)
        batch._slots = [torch.tensor(row.view(np.int64), device=batch.device) for row in games.balls]
        batch.legal = torch.tensor(games.legal.view(np.int64), device=batch.device)
        batch.ply = games.ply
        return batch

    @classmethod
    def from_boards(
        cls,
        boards: Sequence[Board],
        *,
        device: torch.device | str = "cpu",
        compile: bool | None = None,  # noqa: A002
    ) -> TorchBatch:
        """Return a batch that goes on from boards of one variant and one turn. Raises `PositionError` for a mixture."""
        return cls.from_games(GameBatch.from_boards(boards), device=device, compile=compile)

    def to_games(self) -> GameBatch:
        """Return the same positions as a `GameBatch`, which is what agents take."""
        games = GameBatch(len(self), size=self.variant.size, players=self.variant.players)
        games.starters[:] = self.starters.cpu().numpy()
        games.balls[:] = self.balls.cpu().numpy().view(np.uint64)
        games.legal[:] = self.legal.cpu().numpy().view(np.uint64)
        games.ply = self.ply
        return games

    def __len__(self) -> int:
        return len(self.legal)

    @property
    def device(self) -> torch.device:
        """Where the games live."""
        return self.legal.device

    @property
    def balls(self) -> Tensor:
        """Cells of each slot's balls, int64 [4, B]: the seats in turn order, then the neutral colours clockwise."""
        return torch.stack(self._slots)

    def reset(self, *, starter: str = "random", seed: int | torch.Generator | None = None) -> None:
        """Start new rounds. Arguments and errors are those of the constructor."""
        if starter == "random":
            if not isinstance(seed, torch.Generator | None):
                seed = torch.Generator(self.device).manual_seed(int(seed))
            drawn = torch.randint(self.variant.players, (len(self),), generator=seed, device=self.device)
        else:
            place = PLAYING_COLORS[self.variant.players].index(starter_color(starter, self.variant))
            drawn = torch.full((len(self),), place, device=self.device)
        self.starters, *self._slots, self.legal = (row[drawn] for row in _beginnings(self.variant, self.device))
        self.ply = 0

    def step(self, actions: Tensor | npt.ArrayLike, *, check: bool = True) -> None:
        """Play one action in each game.

        Args:
            actions: int [B], each a legal cell; anything but a tensor on the device is copied there.
            check: Look whether all are legal, for which the host waits for the device. Without it an illegal action leaves
                behind a position that no play leads to; loops whose actions come from `legal` or `legal_mask` can do without.

        Raises:
            RoundOverError: when the boards are full.
            ActionError: for a tensor of another shape or type, or, when checked, cells off the board.
            IllegalMoveError: when checked, naming the games in which the rules forbid the action.
            Nothing changes in any game when one of these is raised.
        """
        cells = self._checked(actions, check)
        self._advance(*self._run(_turn, self.variant.size, *self._rows(), cells))

    def random_actions(self, rng: torch.Generator | None = None) -> Tensor:
        """Return a uniformly random legal action for each game, int64 [B]. Raises `RoundOverError` at the end.

        Chance comes from a generator of the device, or from torch's global one.
        """
        self.refuse_when_over()
        chosen: Tensor = self._run(_choose, self.legal, self._noise(rng))
        return chosen

    def step_random(self, rng: torch.Generator | None = None, turns: int = 1) -> None:
        """Play a uniformly random legal action in each game, so many turns, as `step(random_actions(rng))` does, but faster.

        Raises `RoundOverError` when the boards are full, and `OptionError` for less than one turn or more than are left.
        """
        self.refuse_turns(turns)
        for _ in range(turns):
            self._advance(*self._run(_random_turn, self.variant.size, *self._rows(), self.legal, self._noise(rng)))

    def play_out(self, rng: torch.Generator | None = None) -> None:
        """Play uniformly random legal actions until the boards are full; at the end already, nothing happens."""
        if not self.done:
            self.step_random(rng, self.plies - self.ply)

    def rolled(self, actions: Tensor | npt.ArrayLike, *, check: bool = True) -> Tensor:
        """Return the balls that one action in each game would roll, as words, int64 [B]. Raises as `step` does."""
        cells = self._checked(actions, check)
        own, following, third, fourth = self._rows()
        rolled: Tensor = rules.rolled_balls(cells, own, following | third | fourth, GEOMETRIES[self.variant.size])
        return rolled

    def view(self) -> Tensor:
        """Return the balls as the seat to move sees them, int64 [B, 4]: its own, the others in turn order, neutral."""
        return torch.stack(self._rows(), dim=1)

    def planes(self, out: Tensor | None = None) -> Tensor:
        """Return `view` as 0/1 planes, int8 [B, 4, n, n]: a fresh tensor, or `out`, which is overwritten.

        Raises `OptionError` for an `out` of another shape or type, on another device, or one that is not contiguous.
        """
        size = self.variant.size
        return self._spread(self._rows(), (len(self), 4, size, size), out)

    def legal_mask(self, out: Tensor | None = None) -> Tensor:
        """Return the legal cells as 0/1 vectors, int8 [B, A]: a fresh tensor, or `out`. Raises as `planes` does."""
        return self._spread([self.legal], (len(self), self.variant.cells), out)

    def counts(self) -> Tensor:
        """Return the balls of each colour, int64 [B, 4]: red, yellow, green, blue."""
        slot_colors = torch.from_numpy(self.colors_by_starter()).to(self.device)[self.starters]
        by_slot = torch.stack([popcount(row) for row in self._slots], dim=1)
        return torch.empty_like(by_slot).scatter_(1, slot_colors, by_slot)

    def seat_counts(self) -> Tensor:
        """Return the balls of each seat, int64 [B, P]."""
        return torch.stack([popcount(row) for row in self._slots[: self.variant.players]], dim=1)

    def payoffs(self, kind: Payoff = "win") -> Tensor:
        """Return each seat's payoff, float32 [B, P] (see `payoffs.payoffs`).

        Raises `OptionError` for another kind and `RoundNotOverError` before the end.
        """
        check_payoff(kind)
        self.refuse_before_end()
        balls, players = self.seat_counts(), self.variant.players
        # One division of whole numbers each: its float32 is the nearest there is, as in `payoffs`, where float64 is rounded.
        if kind == "win":
            leads = _leads(balls)
            leaders = leads.sum(dim=1, keepdim=True)
            return (players * leads - leaders).float() / (leaders * (players - 1))
        if kind == "balls":
            return (players * balls - balls.sum(dim=1, keepdim=True)).float() / (players * self.variant.cells)
        return (balls[:, :, None] - balls[:, None, :]).sign().sum(dim=2).float() / (players - 1)

    def win_shares(self) -> Tensor:
        """Return each seat's part of its round, float32 [B, P]; leaders share 1. Raises `RoundNotOverError`."""
        self.refuse_before_end()
        leads = _leads(self.seat_counts())
        return leads.float() / leads.sum(dim=1, keepdim=True)

    def board(self, game: int) -> Board:
        """Return one game as a `Board` (without the turns that led to it)."""
        return self[game].to_games().board(0)

    def copy(self) -> TorchBatch:
        """Return an independent batch in the same positions."""
        return self._twin(Tensor.clone)

    __copy__ = copy

    def __getitem__(self, games: int | slice | npt.NDArray[Any] | Tensor) -> TorchBatch:
        """Return an independent batch of some of the games, in the order given (one, a slice, indices or a bool choice)."""
        if isinstance(games, Tensor):
            games = games.cpu().numpy()
        chosen = torch.from_numpy(checked_choice(games, len(self))).to(self.device)
        return self._twin(lambda row: row[chosen])

    def _twin(self, take: Callable[[Tensor], Tensor]) -> TorchBatch:
        twin = TorchBatch.__new__(TorchBatch)
        twin.variant, twin.ply, twin.compile = self.variant, self.ply, self.compile
        twin.starters, twin.legal = take(self.starters), take(self.legal)
        twin._slots = [take(row) for row in self._slots]
        return twin

    def _rows(self) -> list[Tensor]:
        """Return the slots from the mover's side: own, the next seat, then the rest in turn order, neutral last."""
        return [self._slots[slot] for slot in self.mover_first()]

    def _advance(self, own: Tensor, following: Tensor, third: Tensor, fourth: Tensor, legal: Tensor) -> None:
        for slot, row in zip(self.mover_first(), (own, following, third, fourth), strict=True):
            self._slots[slot] = row
        self.legal = legal
        self.ply += 1

    def _noise(self, rng: torch.Generator | None) -> Tensor:
        return torch.randint(2**NOISE_BITS, (len(self),), generator=rng, device=self.device)

    def _spread(self, rows: list[Tensor], shape: tuple[int, ...], out: Tensor | None) -> Tensor:
        if out is None:
            out = torch.empty(shape, dtype=torch.int8, device=self.device)
        elif not (
            isinstance(out, Tensor)
            and (out.shape, out.dtype, out.device) == (shape, torch.int8, self.device)
            and out.is_contiguous()
        ):
            raise OptionError(f"out must be a contiguous int8 tensor of shape {shape} on {self.device}, not {_described(out)}")
        self._run(_spread, self.variant.size, out.view(len(self), len(rows), -1).view(torch.int32), *rows)
        return out

    def _checked(self, actions: Tensor | npt.ArrayLike, check: bool) -> Tensor:
        self.refuse_when_over()
        try:
            given = actions if isinstance(actions, Tensor) else torch.from_numpy(_native(np.asarray(actions)))
        except (TypeError, ValueError) as error:  # names, ragged lists, ints beyond 64 bits
            reason = str(error).splitlines()[0]
            raise ActionError(f"actions must be ints of shape ({len(self)},), and this is no tensor ({reason})") from None
        kind = given.dtype
        if given.shape != (len(self),) or kind.is_floating_point or kind.is_complex or kind == torch.bool:
            raise ActionError(f"actions must be ints of shape ({len(self)},), not {_described(given)}")
        cells = given.to(self.device, torch.int64)
        if check:
            on_board = cells & 63
            if bool(((on_board != cells) | (self.legal >> on_board & 1 == 0)).any()):
                self.to_games().step(cells.cpu().numpy())  # which says what is wrong
        return cells

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, compiled where that is wanted."""
        if not self.compile or len(self) == 1:  # torch would compile once more for a single game
            return function(*arguments)
        try:
            # Compiled code is made anew when one of these modes differs from the time before.
            with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
                return _compiled(function)(*arguments)
        except RuntimeError as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise  # no memory, for one
            reason = str(error).splitlines()[0]
            raise OptionError(
                f"compile=True does not work here ({reason}); it needs a C++ compiler on a CPU and Triton on a GPU, "
                "and compile=False needs neither"
            ) from error


def _usable(device: torch.device | str) -> torch.device:
    """Return a device, or raise `OptionError` when it is not there."""
    try:
        usable = torch.device(device)
        torch.empty(1, device=usable)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"device={device!r} can't be used here ({reason}); allowed are cpu and the GPUs present") from None
    return usable


def _native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a copy that torch can take: contiguous, and in this machine's order of bytes."""
    return np.array(array, array.dtype.newbyteorder("="), order="C")


def _described(given: object) -> str:
    if not isinstance(given, Tensor):
        return type(given).__name__
    return f"{given.dtype} of shape {tuple(given.shape)} on {given.device}"


@cache
def _beginnings(variant: Variant, device: torch.device) -> Tensor:
    """Return what a round begins with for each place of the starter: its colour, the four slots, legal cells, int64 [6, P]."""
    columns = []
    for color in PLAYING_COLORS[variant.players]:
        own, *others = (variant.start[slot] for slot in variant.slot_colors(color))
        columns.append([color, own, *others, rules.legal_cells(own, sum(others), variant.geometry)])
    return torch.tensor(columns, device=device).T.contiguous()


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    # Dynamic: compiled once for every number of games, though for each size of the board anew.
    return torch.compile(function, dynamic=True, fullgraph=True, options=COMPILE_OPTIONS)


GEOMETRIES: dict[int, Geometry] = {
    size: geometry(size).convert(lambda field: field - (1 << 64) if field >> 63 else field) for size in PLAYERS_BY_SIZE
}
"""Global, because torch takes ints found here as constants; others become arguments of the kernel, and not all fit as such."""

_GROUPS: dict[int, int] = {size: size * size // 4 for size in PLAYERS_BY_SIZE}


# What follows gets compiled. Legend: rows and cells int64 [B], rows from the mover's side.


def _turn(
    size: int, own: Tensor, following: Tensor, third: Tensor, fourth: Tensor, cells: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the four rows after a turn, and the legal cells of the next seat."""
    g = GEOMETRIES[size]
    own, following, third, fourth = rules.put_ball(cells, own, following, third, fourth, g)
    return own, following, third, fourth, rules.legal_cells(following, own | third | fourth, g)


def _random_turn(
    size: int, own: Tensor, following: Tensor, third: Tensor, fourth: Tensor, legal: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _turn(size, own, following, third, fourth, _choose(legal, noise))


def _spread(size: int, out: Tensor, *rows: Tensor) -> None:
    """Spread rows of words into bytes, four cells at a time: out is int32 [B, rows, n·n / 4]."""
    words = torch.stack(rows, dim=1)
    four = (words[..., None] >> 4 * torch.arange(_GROUPS[size], device=out.device)).int() & 15
    # A product with ones 7 bits apart puts each of the four bits on the lowest of a byte.
    out.copy_(four * 0x00204081 & 0x01010101)


def _choose(words: Tensor, noise: Tensor) -> Tensor:
    """Return the cell of one of the bits of each word, each equally likely, int64 [B].

    torch counts no bits, so they are summed in pairs, then fours, and so on; the way back finds the drawn one by halves.
    """
    *sums, total = _bit_sums(words)
    rank = noise * total >> NOISE_BITS
    cells = torch.zeros_like(words)
    for level in (5, 4, 3, 2, 1, 0):
        width = 1 << level
        low = sums[level] >> cells & (1 << width) - 1
        above = (rank >= low).long()
        rank = rank - low * above
        cells = cells + (above << level)
    return cells


def popcount(words: Tensor) -> Tensor:
    """Return how many bits of each word are set, int64 as they are."""
    return _bit_sums(words)[-1]


def _bit_sums(words: Tensor) -> list[Tensor]:
    """Return words whose groups of 1, 2, 4, 8, 16, 32 and 64 bits each hold how many of their bits are set."""
    sums = [words]
    for width in (1, 2, 4, 8, 16, 32):
        every_other = ((1 << 64) - 1) // ((1 << width) + 1)
        sums.append((sums[-1] & every_other) + (sums[-1] >> width & every_other))
    return sums


def _leads(balls: Tensor) -> Tensor:
    return (balls == balls.amax(dim=1, keepdim=True)).long()
