"""`TorchBatch`: the same rounds as `GameBatch` and `Board`, the same errors, fair choices, and no waiting for the device."""

from __future__ import annotations

import copy
import os
import pickle
import random
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import (
    ActionError,
    IllegalMoveError,
    OptionError,
    PositionError,
    RolitError,
    RoundNotOverError,
    RoundOverError,
    VariantError,
)
from rolit_env.notation import parse_cell
from rolit_env.payoffs import PAYOFFS
from rolit_env.torch_batch import NOISE_BITS, TorchBatch, _choose
from rolit_env.variant import COLORS
from tests.oracle import PLAYING, VARIANTS
from tests.test_batch import bad_actions

# torch's compiler, at its import.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")

ALL_VARIANTS = pytest.mark.parametrize(("size", "players"), VARIANTS)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_batch(games: int, size: int, players: int, turns: int, seed: int = 0, **options: Any) -> TorchBatch:
    rng = generator(seed)
    batch = TorchBatch(games, size=size, players=players, seed=rng, **options)
    for _ in range(turns):
        batch.step_random(rng)
    return batch


def everything(games: TorchBatch) -> dict[str, Any]:
    """Return a copy of all that a batch holds in a form that compares, to show that nothing changed."""

    def frozen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return str(value.dtype), tuple(value.shape), value.is_contiguous(), value.tolist()
        return [frozen(item) for item in value] if isinstance(value, list) else value

    return {key: frozen(value) for key, value in vars(games).items()}


def actions_of(games: TorchBatch) -> torch.Tensor:
    """Return the lowest legal action of each game."""
    return games.legal_mask().argmax(dim=1)


def words(tensor: torch.Tensor) -> np.ndarray:
    assert tensor.dtype == torch.int64
    return tensor.numpy().view(np.uint64)


def compare(games: TorchBatch, twin: GameBatch) -> None:
    """Compare everything that can be asked of two batches at any turn."""
    assert (games.ply, games.plies, games.seat, games.done) == (twin.ply, twin.plies, twin.seat, twin.done)
    assert len(games) == len(twin)
    np.testing.assert_array_equal(games.starters.numpy(), twin.starters)
    np.testing.assert_array_equal(words(games.balls), twin.balls)
    np.testing.assert_array_equal(words(games.legal), twin.legal)
    np.testing.assert_array_equal(words(games.view()), twin.view())
    for mine, other in (
        (games.planes(), twin.planes()),
        (games.legal_mask(), twin.legal_mask()),
        (games.counts(), twin.counts()),
        (games.seat_counts(), twin.seat_counts()),
    ):
        assert str(mine.dtype) == f"torch.{other.dtype}"
        np.testing.assert_array_equal(mine.numpy(), other)


def compare_ends(games: TorchBatch, twin: GameBatch) -> None:
    for kind in PAYOFFS:
        assert games.payoffs(kind).dtype == torch.float32
        np.testing.assert_array_equal(games.payoffs(kind).numpy(), twin.payoffs(kind))
    assert games.win_shares().dtype == torch.float32
    np.testing.assert_array_equal(games.win_shares().numpy(), twin.win_shares().astype(np.float32))


# The same rounds everywhere.


@ALL_VARIANTS
def test_torch_numba_and_python_ints_play_the_same_rounds(size: int, players: int) -> None:
    games = random_batch(300, size, players, turns=0, seed=1)
    twin = GameBatch.from_boards([Board(size, players, COLORS[starter]) for starter in games.starters])
    boards = [twin.board(at) for at in range(10)]
    rng, last_cell = generator(1), 0
    while True:
        compare(games, twin)
        assert [games.board(at) for at in range(10)] == boards
        assert words(games.legal)[:10].tolist() == [board.legal for board in boards]
        last_cell += int((games.balls < 0).sum())
        if games.done:
            break
        actions = games.random_actions(rng)
        assert actions.dtype == torch.int64
        rolled = words(games.rolled(actions))
        np.testing.assert_array_equal(rolled, twin.rolled(actions.numpy()))
        for at, board in enumerate(boards):
            assert rolled[at] == sum(1 << cell for cell in board.rolled_by(int(actions[at])))
            board.push(int(actions[at]))
        games.step(actions)
        twin.step(actions.numpy())
    assert (last_cell > 0) == (size == 8), "the sign bit must be in play on the largest board, and there alone"
    compare_ends(games, twin)


@ALL_VARIANTS
def test_a_random_step_is_a_step_by_random_actions(size: int, players: int) -> None:
    games = random_batch(50, size, players, turns=0, seed=3)
    twin, rng, twin_rng = games.copy(), generator(3), generator(3)
    while not games.done:
        games.step_random(rng)
        twin.step(twin.random_actions(twin_rng))
        assert everything(games) == everything(twin)
    start = random_batch(50, size, players, turns=0, seed=3)
    in_parts, rng = start.copy(), generator(3)
    in_parts.step_random(rng, turns=5)
    assert in_parts.ply == 5
    in_parts.play_out(rng)
    assert everything(in_parts) == everything(games)
    start.play_out(generator(3))
    assert everything(start) == everything(games)
    for turns in (0, in_parts.plies + 1):
        with pytest.raises(OptionError, match=f"turns={turns} can't be played"):
            random_batch(50, size, players, turns=0).step_random(rng, turns=turns)
    start.play_out()
    assert everything(start) == everything(games)


def test_unchecked_steps_are_the_same_steps() -> None:
    games, rng = random_batch(50, 8, 3, turns=0), generator(4)
    twin = games.copy()
    while not games.done:
        actions = games.random_actions(rng)
        assert torch.equal(games.rolled(actions, check=False), games.rolled(actions))
        games.step(actions, check=False)
        twin.step(actions)
    assert everything(games) == everything(twin)


@ALL_VARIANTS
def test_games_go_there_and_back(size: int, players: int) -> None:
    twin = GameBatch(20, size=size, players=players, seed=0)
    rng = np.random.default_rng(0)
    while True:
        games = TorchBatch.from_games(twin)
        compare(games, twin)
        compare(games, games.to_games())
        boards = [twin.board(at) for at in range(20)]
        assert everything(TorchBatch.from_boards(boards)) == everything(games)
        if twin.done:
            break
        before = everything(games)
        twin.step_random(rng)
        back = games.to_games()
        back.step_random(rng)
        assert everything(games) == before
    compare_ends(games, twin)


def test_from_boards_refuses_a_mixture() -> None:
    moved = Board(8, 2)
    moved.push("f4")
    for boards in ([], [Board(8, 2), Board(8, 3)], [Board(8, 2), Board(6, 2)], [Board(8, 2), moved]):
        with pytest.raises(PositionError, match="all of one variant at one and the same turn"):
            TorchBatch.from_boards(boards)


# Starts and restarts.


@ALL_VARIANTS
def test_starters_are_drawn_evenly_among_those_that_play(size: int, players: int) -> None:
    draws = 6_000
    games = TorchBatch(draws, size=size, players=players, seed=7)
    drawn = np.bincount(games.starters, minlength=4)
    assert [COLORS[color] for color in np.flatnonzero(drawn)] == PLAYING[players]
    assert np.abs(drawn[drawn > 0] - draws / players).max() < 4 * np.sqrt(draws)
    some = games[:200]
    compare(some, GameBatch.from_boards([Board(size, players, COLORS[starter]) for starter in some.starters]))


def test_the_seed_decides_the_starters() -> None:
    first, again, other = (TorchBatch(100, players=4, seed=seed).starters.tolist() for seed in (3, 3, 4))
    assert first == again != other
    assert TorchBatch(100, players=4, seed=generator(3)).starters.tolist() == first
    assert TorchBatch(100, players=4, seed=np.int64(3)).starters.tolist() == first
    with torch.random.fork_rng():
        torch.manual_seed(3)
        assert TorchBatch(100, players=4).starters.tolist() == first


@ALL_VARIANTS
def test_a_fixed_starter_starts_every_game(size: int, players: int) -> None:
    for starter in PLAYING[players]:
        games = TorchBatch(5, size=size, players=players, starter=starter)
        assert [COLORS[color] for color in games.starters] == [starter] * 5
        assert games.board(4) == Board(size, players, starter)


def test_a_reset_batch_is_a_new_one() -> None:
    games = random_batch(30, 6, 3, turns=32)
    for options in ({"seed": 5}, {"starter": "green"}):
        games.reset(**options)
        assert everything(games) == everything(TorchBatch(30, size=6, players=3, **options))
        games.step_random(generator(0))


def test_what_was_handed_out_stays() -> None:
    games = random_batch(8, 8, 4, turns=20)
    handed = [games.legal, games.balls, games.view(), games.planes(), games.legal_mask(), games.starters]
    before = [tensor.clone() for tensor in handed]
    games.play_out(generator(1))
    games.reset(seed=9)
    for tensor, kept in zip(handed, before, strict=True):
        assert torch.equal(tensor, kept)


def test_planes_and_masks_are_fresh_or_in_the_callers_buffers() -> None:
    games = random_batch(5, 6, 4, turns=9)
    before = everything(games)
    for ask, shape in ((games.planes, (5, 4, 6, 6)), (games.legal_mask, (5, 36))):
        fresh = ask()
        out = torch.full(shape, 7, dtype=torch.int8)
        assert ask(out=out) is out
        assert torch.equal(out, fresh)
        fresh.fill_(1)
        assert everything(games) == before
        for bad in (
            torch.zeros(shape),
            torch.zeros(shape, dtype=torch.int8)[:4],
            torch.zeros(5, 2, *shape[1:], dtype=torch.int8)[:, 0],
            torch.zeros(shape, dtype=torch.int8, device="meta"),
            np.zeros(shape, np.int8),
        ):
            with pytest.raises(OptionError, match=r"out must be a contiguous int8 tensor of shape \(5, .*\) on cpu, not "):
                ask(out=bad)


# Chance.


def chi_square(drawn: torch.Tensor, legal: list[int]) -> float:
    counts = torch.bincount(drawn, minlength=64)
    expected = len(drawn) / len(legal)
    assert int(counts[legal].sum()) == len(drawn)
    return float(((counts[legal] - expected) ** 2 / expected).sum())


def test_random_actions_are_uniform() -> None:
    games = random_batch(200, 8, 4, turns=30)
    corner = games.legal < 0
    several = games.legal_mask().sum(dim=1)
    # Few cells, many cells, and the last cell of the board, whose bit is the sign.
    for at in (several.argmin(), several.argmax(), (several * corner).argmax()):
        one = games[at]
        legal = one.board(0).legal_moves
        assert 1 <= len(legal) <= 40
        many = one[torch.zeros(40_000, dtype=torch.int64)]
        # A right choice fails this once in ten thousand seeds: the mean and 3.8 deviations, generously rounded up.
        bound = len(legal) - 1 + 4.5 * (2 * len(legal)) ** 0.5
        assert chi_square(many.random_actions(generator(5)), legal) < bound
        many.step_random(generator(5))
        played = many.balls.sum(dim=0) - one.balls.sum(dim=0)
        cells = torch.from_numpy(np.log2(words(played).astype(np.float64)).astype(np.int64))
        assert chi_square(cells, legal) < bound
    assert bool(corner.any())
    assert int(several.max()) > 12


def test_each_part_of_the_noise_chooses_its_cell() -> None:
    rng = random.Random(0)
    for count in [1, 2, 3, 31, 59, 60, 63, 64] + [rng.randint(4, 40) for _ in range(40)]:
        cells = sorted(rng.sample(range(64), count))
        word = sum(1 << cell for cell in cells)
        signed = torch.tensor([word - (1 << 64) if word >> 63 else word]).expand(count)
        lowest = torch.tensor([-(-(rank << NOISE_BITS) // count) for rank in range(count)])
        highest = torch.tensor([*(lowest[1:] - 1), (1 << NOISE_BITS) - 1])
        assert _choose(signed, lowest).tolist() == cells
        assert _choose(signed, highest).tolist() == cells


def test_a_generator_gives_the_same_rounds_again() -> None:
    first, again, other = (random_batch(50, 8, 4, turns=20, seed=seed) for seed in (1, 1, 2))
    assert everything(first) == everything(again)
    assert not torch.equal(first.balls, other.balls)


# Copies.


def test_copies_and_slices_are_equal_and_independent() -> None:
    games = random_batch(10, 8, 3, turns=9, seed=4)
    before = everything(games)
    for twin in (games.copy(), games[:], copy.copy(games.copy()), copy.deepcopy(games), pickle.loads(pickle.dumps(games))):
        assert everything(twin) == before
        twin.step(actions_of(twin))
        twin.starters[:] = 1
        assert everything(games) == before


@pytest.mark.parametrize(
    "chosen",
    [
        slice(2, 5),
        slice(None, None, -2),
        np.array([3, 3, 0, -1]),
        np.arange(10) % 3 == 0,
        [7, 2],
        torch.tensor([3, 3, 0, -1]),
        torch.arange(10) % 3 == 0,
        4,
        -1,
        torch.tensor(4),
    ],
    ids=["slice", "backwards", "indices", "choice", "list", "tensor", "bool tensor", "one", "last", "one tensor"],
)
def test_some_of_the_games_play_on_as_they_would_have(chosen: Any) -> None:
    games = random_batch(10, 6, 4, turns=9, seed=4)
    part = games[chosen]
    origin = np.atleast_1d(np.arange(10)[chosen])
    before = everything(part)
    assert [part.board(at) for at in range(len(part))] == [games.board(at) for at in origin]
    games.step(actions_of(games))
    assert everything(part) == before
    part.step(actions_of(part))
    assert [part.board(at) for at in range(len(part))] == [games.board(at) for at in origin]
    assert part.legal.tolist() == games.legal[origin.tolist()].tolist()


# What it refuses.


@pytest.mark.parametrize("games", [0, -1, 2.0, True, None, "4"], ids=repr)
def test_what_is_no_number_of_games_is_refused(games: Any) -> None:
    with pytest.raises(OptionError, match="allowed are ints from 1 up"):
        TorchBatch(games)


def test_variants_starters_and_devices_that_do_not_exist_are_refused() -> None:
    for size, players in [(4, 3), (4, 4), (5, 2), (8, 1), (8, 5)]:
        with pytest.raises(VariantError, match="allowed are size 8 or 6 with 2, 3 or 4 players, and size 4 with 2 players"):
            TorchBatch(3, size=size, players=players)
    for players, starter in [(2, "yellow"), (3, "blue"), (4, "purple"), (4, ""), (4, None)]:
        games = TorchBatch(3, players=players)
        before = everything(games)
        for ask in (games.reset, lambda players=players, **options: TorchBatch(3, players=players, **options)):
            with pytest.raises(OptionError, match=f"allowed are {', '.join(PLAYING[players])}"):
                ask(starter=starter)
        assert everything(games) == before
    for device in ("abacus", "cuda:99", None, 1.5):
        with pytest.raises(OptionError, match="allowed are cpu and the GPUs present"):
            TorchBatch(3, device=device)


def refusal(method: Any, *arguments: Any) -> RolitError:
    with pytest.raises(RolitError) as caught:
        method(*arguments)
    return caught.value


@pytest.mark.parametrize("name", bad_actions([0, 0, 0]))
@pytest.mark.parametrize("as_tensor", [False, True], ids=["plain", "tensor"])
def test_what_is_no_action_is_refused(name: str, as_tensor: bool) -> None:
    games = random_batch(3, 8, 4, turns=5, seed=1)
    before = everything(games)
    bad = bad_actions(actions_of(games).tolist())[name]
    if as_tensor:
        try:
            bad = torch.tensor(bad)
        except (TypeError, ValueError, RuntimeError):
            assert type(refusal(games.to_games().step, bad)) is ActionError
            return  # there is no such tensor
    for method in (games.step, games.rolled):
        assert type(refusal(method, bad)) is ActionError
        assert everything(games) == before


@pytest.mark.parametrize(("size", "players"), [(8, 2), (6, 4), (4, 2)])
def test_cells_off_the_board_are_refused(size: int, players: int) -> None:
    games = random_batch(3, size, players, turns=2)
    before = everything(games)
    legal = int(actions_of(games)[1])
    for action in (size * size, 64, 64 + legal, -1, legal - 64, 2**63 - 1, -(2**63)):
        actions = actions_of(games)
        actions[1] = action
        error = refusal(games.step, actions)
        assert type(error) is ActionError
        assert str(error) == str(refusal(games.to_games().step, actions.numpy()))
        assert everything(games) == before


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint8, np.int32, np.uint64, torch.int8, torch.uint8, torch.int32, torch.uint64, list, tuple]
)
def test_every_kind_of_int_is_taken(kind: Any) -> None:
    games, twin = random_batch(5, 8, 2, turns=5), random_batch(5, 8, 2, turns=5)
    actions = actions_of(games)
    if kind in (list, tuple):
        games.step(kind(actions.tolist()))
    elif isinstance(kind, torch.dtype):
        games.step(actions.to(kind))
    else:
        games.step(actions.numpy().astype(kind))
    twin.step(actions)
    assert everything(games) == everything(twin)


@pytest.mark.parametrize("cell", ["d4", "a1", "c3"])
def test_illegal_moves_are_explained_as_in_a_game_batch(cell: str) -> None:
    games = TorchBatch(30, players=4, starter="red")
    before = everything(games)
    for chosen in ([2, 5], [0], list(range(30))):
        actions = actions_of(games)
        actions[chosen] = parse_cell(cell, 8)
        for method, right in ((games.step, games.to_games().step), (games.rolled, games.to_games().rolled)):
            error, wanted = refusal(method, actions), refusal(right, actions.numpy())
            assert type(error) is IllegalMoveError is type(wanted)
            assert (str(error), error.reason, error.games) == (str(wanted), wanted.reason, wanted.games)
            assert error.games == tuple(chosen)
            assert everything(games) == before


@ALL_VARIANTS
def test_full_boards_refuse_every_move(size: int, players: int) -> None:
    games = random_batch(4, size, players, turns=size * size - 4)
    before = everything(games)
    assert games.legal.tolist() == [0] * 4
    for method in (games.step, games.rolled):
        for actions in ([0, 0, 0, 0], [99] * 4, None, torch.zeros(4, dtype=torch.int64)):
            with pytest.raises(RoundOverError, match="the boards are full"):
                method(actions)
    for method in (games.random_actions, games.step_random):
        with pytest.raises(RoundOverError):
            method(generator(0))
    assert everything(games) == before


def test_payoffs_before_the_end_and_of_unknown_kinds_are_refused() -> None:
    games = random_batch(4, 4, 2, turns=5)
    before = everything(games)
    with pytest.raises(RoundNotOverError, match="7 turns are left"):
        games.payoffs("win")
    with pytest.raises(RoundNotOverError, match="7 turns are left"):
        games.win_shares()
    for kind in ("score", "", None):
        for batch in (games, random_batch(2, 4, 2, turns=12)):
            with pytest.raises(OptionError, match="allowed are win, balls, rank"):
                batch.payoffs(kind)
    assert everything(games) == before


# The device.


def test_nothing_within_a_round_waits_for_the_device() -> None:
    # Tensors on this device have no content, so whatever would have to be known to the host is an error.
    games = TorchBatch(7, players=3, device="meta")
    planes, mask = games.planes(), games.legal_mask()
    actions = games.random_actions()
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        games.step(actions)
    for _ in range(3):
        games.step(games.random_actions(), check=False)
        games.planes(out=planes)
        games.legal_mask(out=mask)
        games.step_random()
        games.copy().rolled(actions, check=False)
    games.play_out()
    assert [games.payoffs(kind).shape for kind in PAYOFFS] == [(7, 3)] * 3
    assert games.win_shares().shape == (7, 3)
    games.reset(starter="yellow")
    assert games.view().shape == (7, 4)


# Compiled.


def test_nothing_is_compiled_on_a_cpu_unless_asked_for() -> None:
    assert TorchBatch(3).compile is False
    for games in (TorchBatch(3, compile=True), TorchBatch.from_boards([Board()], compile=True)):
        assert games.compile is games.copy().compile is games[0].compile is True


def compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "g++"))


def test_compiled_turns_are_the_same_turns_and_are_compiled_once() -> None:
    games = random_batch(70, 4, 2, turns=3, compile=True)
    if not compiler():
        with pytest.raises(OptionError, match=r"compile=True does not work here .*compile=False needs neither"):
            games.step_random()
        return
    twin, rng = games.to_games(), generator(8)
    while True:
        compare(games, twin)
        if games.done:
            break
        if games.ply % 2:
            actions = games.random_actions(rng)
            games.step(actions)
        else:
            before = rng.get_state()
            actions = games.random_actions(rng)
            rng.set_state(before)
            games.step_random(rng)
        twin.step(actions.numpy())
    compare_ends(games, twin)

    def play(size: int, count: int) -> None:
        other = random_batch(count, size, 2, turns=0, seed=9, compile=True)
        plain = random_batch(count, size, 2, turns=0, seed=9)
        for batch in (other, plain):
            batch.step(batch.random_actions(generator(1)))
            batch.step_random(generator(2))
        assert torch.equal(other.balls, plain.balls)
        buffer = torch.zeros(3, count, 4, size, size, dtype=torch.int8)
        assert torch.equal(other.planes(out=buffer[1]), plain.planes())
        assert torch.equal(other[::2].legal_mask(), plain[::2].legal_mask())

    with torch.compiler.set_stance("fail_on_recompile"):
        for count in (1, 2, 3, 64, 1000):
            play(4, count)
        with torch.no_grad(), torch.autocast("cpu"):
            play(4, 70)
        # Masks are constants of the compiled code: as its arguments they might be cut to 32 bits.
        with pytest.raises(RuntimeError, match="recompil"):
            play(6, 64)


def test_a_missing_compiler_is_named_and_changes_nothing(tmp_path: Any) -> None:
    program = """
from rolit_env.errors import OptionError
from rolit_env.torch_batch import TorchBatch
games = TorchBatch(5, size=4, starter="red", compile=True)
try:
    games.step_random()
except OptionError as error:
    print(error)
games.compile = False
assert games.ply == 0
games.play_out()
"""
    environment = os.environ | {"CXX": "/no/such/compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("compile=True does not work here (")
    assert done.stdout.count("\n") == 1
    assert "C++ compiler" in done.stdout


@pytest.mark.parametrize("chosen", [slice(5, 5), [], np.zeros(10, bool), None, torch.zeros(10, dtype=torch.bool)], ids=repr)
def test_a_choice_of_no_games_is_refused(chosen: Any) -> None:
    with pytest.raises(OptionError, match="no games are chosen"):
        TorchBatch(10)[chosen]


@pytest.mark.parametrize("layout", [lambda actions: actions.astype(">i8"), lambda actions: actions[::-1].copy()[::-1]])
def test_arrays_of_any_layout_are_actions(layout: Any) -> None:
    games = random_batch(10, 8, 2, turns=3)
    twin, actions = games.copy(), games.random_actions(generator(0))
    games.step(actions)
    twin.step(layout(actions.numpy()))
    assert everything(twin) == everything(games)
