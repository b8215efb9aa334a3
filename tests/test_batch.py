"""`GameBatch`: many rounds are the same rounds as single ones, and a bad action in one game changes none."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import random
from typing import Any

import numpy as np
import pytest

from rolit_env import loops
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import (
    ActionError,
    IllegalMoveError,
    OptionError,
    PositionError,
    RoundNotOverError,
    RoundOverError,
    VariantError,
)
from rolit_env.notation import parse_cell
from rolit_env.variant import COLORS
from tests.oracle import PLAYING, VARIANTS, Oracle

ALL_VARIANTS = pytest.mark.parametrize(("size", "players"), VARIANTS)


def random_batch(games: int, size: int, players: int, turns: int, seed: int = 0) -> GameBatch:
    batch = GameBatch(games, size=size, players=players, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(turns):
        batch.step(batch.random_actions(rng))
    return batch


def everything(games: GameBatch) -> dict[str, Any]:
    """Return a copy of all that a batch holds in a form that compares, to show that nothing changed."""
    return {
        key: (value.dtype, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
        for key, value in vars(games).items()
    }


def actions_of(games: GameBatch) -> np.ndarray:
    """Return the lowest legal action of each game."""
    return games.legal_mask().argmax(axis=1)


@ALL_VARIANTS
def test_a_batch_plays_the_rounds_of_its_boards(size: int, players: int) -> None:
    games = GameBatch(12, size=size, players=players, seed=1)
    boards = [Board(size, players, COLORS[starter]) for starter in games.starters]
    rng = np.random.default_rng(1)
    assert len(games) == 12
    assert games.plies == size * size - 4
    for ply in range(games.plies + 1):
        assert (games.ply, games.seat, games.done) == (ply, ply % players, ply == games.plies)
        mask = games.legal_mask()
        assert mask.shape == (12, size * size)
        assert mask.dtype == np.int8
        assert [np.flatnonzero(row).tolist() for row in mask] == [board.legal_moves for board in boards]
        assert games.counts().tolist() == [list(board.counts().values()) for board in boards]
        assert [games.board(at) for at in range(12)] == boards
        if games.done:
            break
        actions = games.random_actions(rng)
        rolled = games.rolled(actions)
        for at, board in enumerate(boards):
            assert rolled[at] == sum(1 << cell for cell in board.rolled_by(actions[at]))
            board.push(actions[at])
        games.step(actions)
    for kind in ("win", "balls", "rank"):
        by_seat = games.payoffs(kind)
        assert by_seat.shape == (12, players)
        assert by_seat.dtype == np.float32
        for at, board in enumerate(boards):
            first = PLAYING[players].index(board.starter)
            by_color = list(board.payoffs(kind).values())
            assert by_seat[at].tolist() == by_color[first:] + by_color[:first]


@ALL_VARIANTS
def test_planes_show_the_mover_then_the_others_in_turn_order_then_neutral(size: int, players: int) -> None:
    games = random_batch(20, size, players, turns=7, seed=2)
    planes = games.planes()
    assert planes.shape == (20, 4, size, size)
    assert planes.dtype == np.int8
    for at in range(20):
        board = games.board(at)
        oracle = Oracle(size, players, board.starter)
        oracle.turns = 7
        oracle.grid = [[board.color_at(row * size + column) for column in range(size)] for row in range(size)]
        assert planes[at].tolist() == oracle.planes(oracle.order_seen_by(oracle.to_move()))
    view = games.view()
    assert view.shape == (20, 4)
    assert [[int(word) for word in row] for row in view] == [
        [sum(int(ball) << cell for cell, ball in enumerate(plane.reshape(-1))) for plane in game] for game in planes
    ]


def test_planes_and_masks_are_fresh() -> None:
    games = random_batch(3, 8, 4, turns=5)
    before = everything(games)
    for array in (games.planes(), games.legal_mask(), games.view(), games.counts(), games.seat_counts()):
        array[:] = 1
        assert everything(games) == before


@ALL_VARIANTS
def test_starters_are_drawn_evenly_among_those_that_play(size: int, players: int) -> None:
    draws = 6_000
    games = GameBatch(draws, size=size, players=players, seed=7)
    drawn = np.bincount(games.starters, minlength=4)
    assert [COLORS[color] for color in np.flatnonzero(drawn)] == PLAYING[players]
    assert np.abs(drawn[drawn > 0] - draws / players).max() < 4 * np.sqrt(draws)
    # Whatever starts, the start position shows the same balls.
    assert games.counts().tolist() == [[1, 1, 1, 1]] * draws
    assert {games.board(at).words for at in range(50)} == {Board(size, players).words}


def test_the_seed_decides_the_starters() -> None:
    first, again, other = (GameBatch(100, players=4, seed=seed).starters.tolist() for seed in (3, 3, 4))
    assert first == again != other
    assert GameBatch(100, players=4, seed=np.random.default_rng(3)).starters.tolist() == first


@ALL_VARIANTS
def test_a_fixed_starter_starts_every_game(size: int, players: int) -> None:
    for starter in PLAYING[players]:
        games = GameBatch(5, size=size, players=players, starter=starter)
        assert [COLORS[color] for color in games.starters] == [starter] * 5
        assert games.board(4) == Board(size, players, starter)


@ALL_VARIANTS
def test_counts_by_color_and_by_seat(size: int, players: int) -> None:
    games = random_batch(40, size, players, turns=size * size - 4, seed=3)
    by_color, by_seat = games.counts(), games.seat_counts()
    assert by_color.shape == (40, 4)
    assert by_seat.shape == (40, players)
    assert len(set(games.starters.tolist())) == players
    assert by_color.sum(axis=1).tolist() == [size * size] * 40
    for at in range(40):
        first = PLAYING[players].index(COLORS[games.starters[at]])
        for seat in range(players):
            color = COLORS.index(PLAYING[players][(first + seat) % players])
            assert by_seat[at, seat] == by_color[at, color]
    shares = games.win_shares()
    assert shares.sum(axis=1) == pytest.approx(1)
    np.testing.assert_array_equal(shares > 0, by_seat == by_seat.max(axis=1, keepdims=True))


@ALL_VARIANTS
def test_from_boards_round_trip(size: int, players: int) -> None:
    for turns in (0, 1, 6, size * size - 4):
        boards = []
        for seed in range(8):
            rng = random.Random(seed)
            boards.append(Board(size, players, rng.choice(PLAYING[players])))
            for _ in range(turns):
                boards[-1].push(rng.choice(boards[-1].legal_moves))
        games = GameBatch.from_boards(boards)
        assert games.ply == turns
        assert [games.board(at) for at in range(8)] == boards
        assert games.legal.tolist() == [board.legal for board in boards]
        again = GameBatch.from_boards([games.board(at) for at in range(8)])
        assert everything(again) == everything(games)


def test_from_boards_refuses_a_mixture() -> None:
    moved = Board(8, 2)
    moved.push("f4")
    for boards in ([], [Board(8, 2), Board(8, 3)], [Board(8, 2), Board(6, 2)], [Board(8, 2), moved]):
        with pytest.raises(PositionError, match="all of one variant at one and the same turn"):
            GameBatch.from_boards(boards)


def test_random_actions_are_uniform() -> None:
    games = GameBatch(30_000, size=8, players=4, starter="yellow")
    actions = games.random_actions(np.random.default_rng(5))
    assert actions.dtype == np.int64
    counts = np.bincount(actions, minlength=64)
    legal = [parse_cell(name, 8) for name in ("c4", "c6", "e6")]
    assert counts[legal].sum() == 30_000
    assert ((counts[legal] - 10_000) ** 2 / 10_000).sum() < 13.82  # 2 degrees of freedom, p = .001


# Fused loops, the caller's buffers, and threads: faster ways to the same games.


@ALL_VARIANTS
def test_large_batches_play_as_small_ones_do(size: int, players: int) -> None:
    # More games than a chunk, and no multiple of what a vector instruction holds.
    games = GameBatch(loops.CHUNK * 2 + 13, size=size, players=players, seed=1)
    some = np.array([0, 1, 7, 8, loops.CHUNK - 1, loops.CHUNK, 2 * loops.CHUNK + 11, 2 * loops.CHUNK + 12])
    few = games[some]
    boards = [few.board(at) for at in range(len(some))]
    rng = np.random.default_rng(1)
    while not games.done:
        actions = games.random_actions(rng)
        games.step(actions)
        few.step(actions[some])
        for board, action in zip(boards, actions[some], strict=True):
            board.push(action)
        assert everything(games[some]) == everything(few)
        assert few.legal.tolist() == [board.legal for board in boards]
    assert [few.board(at) for at in range(len(some))] == boards


@ALL_VARIANTS
def test_random_play_is_the_same_in_one_go_turn_by_turn_and_by_actions(size: int, players: int) -> None:
    start = random_batch(loops.CHUNK + 5, size, players, turns=3, seed=2)
    by_actions, by_turns, by_three, at_once = start.copy(), start.copy(), start.copy(), start.copy()
    rng, again = np.random.default_rng(9), np.random.default_rng(9)
    while not by_actions.done:
        by_actions.step(by_actions.random_actions(rng))
        by_turns.step_random(again)
        assert everything(by_turns) == everything(by_actions)
    at_once.play_out(np.random.default_rng(9))
    assert at_once.done
    assert everything(at_once) == everything(by_actions)
    at_once.play_out(np.random.default_rng(9))
    assert everything(at_once) == everything(by_actions)
    with pytest.raises(RoundOverError):
        at_once.step_random(rng)
    assert everything(at_once) == everything(by_actions)

    rng, again = np.random.default_rng(8), np.random.default_rng(8)
    by_turns = start.copy()
    for _ in range(3):
        by_turns.step_random(rng)
    by_three.step_random(again, turns=3)
    assert everything(by_three) == everything(by_turns)
    for turns in (0, -1, by_three.plies - by_three.ply + 1):
        with pytest.raises(OptionError, match=f"turns={turns} can't be played; allowed are 1 to {by_three.plies - 6}"):
            by_three.step_random(again, turns=turns)
    assert everything(by_three) == everything(by_turns)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("count", [2, loops.CHUNK * 3 + 1])
def test_threads_change_nothing(threads: int, count: int) -> None:
    one = GameBatch(count, size=8, players=3, seed=4)
    more = GameBatch(count, size=8, players=3, seed=4, threads=threads)
    for turn in range(20):
        actions = one.random_actions(np.random.default_rng(turn))
        one.step(actions)
        more.step(actions)
    one.play_out(np.random.default_rng(0))
    more.play_out(np.random.default_rng(0))
    assert more.copy().threads == threads
    assert {**everything(more), "threads": 1} == everything(one)
    np.testing.assert_array_equal(more.planes(), one.planes())


def test_threads_work_in_a_forked_process() -> None:
    # Its parent's threads are not there, though the pool that held them is.
    games = GameBatch(100, threads=2, seed=1)
    games.step_random(np.random.default_rng(0))
    context = multiprocessing.get_context("fork")
    child = context.Process(target=games.play_out, args=(np.random.default_rng(0),))
    child.start()
    child.join(60)
    assert child.exitcode == 0


@ALL_VARIANTS
def test_planes_and_masks_go_to_the_callers_buffers(size: int, players: int) -> None:
    games = random_batch(30, size, players, turns=5)
    planes, mask = np.full((30, 4, size, size), 7, np.int8), np.full((30, size * size), 7, np.int8)
    assert games.planes(out=planes) is planes
    assert games.legal_mask(out=mask) is mask
    np.testing.assert_array_equal(planes, games.planes())
    np.testing.assert_array_equal(mask, games.legal_mask())


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((3, 4, 8, 7), np.int8),
        np.zeros((4, 4, 8, 8), np.int8),
        np.zeros((3, 4, 8, 8), np.uint8),
        np.zeros((3, 8, 8, 4), np.int8).transpose(0, 3, 1, 2),
        np.frombuffer(bytes(768), np.int8).reshape(3, 4, 8, 8),
        np.ma.zeros((3, 4, 8, 8), np.int8),
        [0] * 768,
    ],
)
def test_buffers_that_do_not_fit_are_refused(out: Any) -> None:
    with pytest.raises(OptionError, match=r"out must be a writable, C-contiguous int8 array of shape \(3, 4, 8, 8\)"):
        GameBatch(3).planes(out=out)


@pytest.mark.parametrize("players", [2, 4])
def test_reset_starts_new_rounds_in_the_same_arrays(players: int) -> None:
    games = random_batch(25, 8, players, turns=11)
    balls, legal = games.balls, games.legal
    games.reset(seed=5)
    assert games.balls is balls
    assert games.legal is legal
    assert everything(games) == everything(GameBatch(25, players=players, seed=5))
    before = everything(games)
    with pytest.raises(OptionError):
        games.reset(starter="purple")
    assert everything(games) == before


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
    [slice(2, 5), slice(None, None, -2), np.array([3, 3, 0, -1]), np.arange(10) % 3 == 0, np.array([7])],
    ids=["slice", "backwards", "indices", "choice", "one"],
)
def test_some_of_the_games_play_on_as_they_would_have(chosen: Any) -> None:
    games = random_batch(10, 6, 4, turns=9, seed=4)
    part = games[chosen]
    origin = np.arange(10)[chosen]
    before = everything(part)
    assert [part.board(at) for at in range(len(part))] == [games.board(at) for at in origin]
    games.step(actions_of(games))
    assert everything(part) == before
    part.step(actions_of(part))
    assert [part.board(at) for at in range(len(part))] == [games.board(at) for at in origin]
    assert part.legal.tolist() == games.legal[chosen].tolist()


# What it refuses.


NO_CHOICES = [slice(5, 5), [], np.zeros(10, bool), None, np.True_, np.zeros((2, 2), int)]


@pytest.mark.parametrize("chosen", NO_CHOICES, ids=repr)
def test_a_choice_of_no_games_is_refused(chosen: Any) -> None:
    with pytest.raises(OptionError, match="no games are chosen"):
        GameBatch(10)[chosen]
    with pytest.raises(IndexError):
        GameBatch(10)[10]


@pytest.mark.parametrize("games", [0, -1, 2.0, True, None, "4"], ids=repr)
def test_what_is_no_number_of_games_is_refused(games: Any) -> None:
    with pytest.raises(OptionError, match="allowed are ints from 1 up"):
        GameBatch(games)


def test_variants_and_starters_that_do_not_exist_are_refused() -> None:
    for size, players in [(4, 3), (4, 4), (5, 2), (8, 1), (8, 5)]:
        with pytest.raises(VariantError, match="allowed are size 8 or 6 with 2, 3 or 4 players, and size 4 with 2 players"):
            GameBatch(3, size=size, players=players)
    for players, starter in [(2, "yellow"), (3, "blue"), (4, "purple"), (4, ""), (4, None)]:
        with pytest.raises(OptionError, match=f"allowed are {', '.join(PLAYING[players])}"):
            GameBatch(3, players=players, starter=starter)


def bad_actions(legal: list[int]) -> dict[str, Any]:
    one, two, three = legal
    return {
        "too few": [one, two],
        "too many": [one, two, three, one],
        "none": [],
        "a single int": one,
        "two axes": [[one, two, three]],
        "column": [[one], [two], [three]],
        "ragged": [[one], [two, three]],
        "floats": [float(one), two, three],
        "bools": [True, True, False],
        "nothing": None,
        "names": ["f4", "f4", "f4"],
        "objects": np.array(legal, object),
        "complex": np.array(legal, complex),
        "negative": [one, -1, three],
        "beyond the board": [one, two, 64],
        "just beyond int64": [one, two, 2**63],
        "far beyond int64": [one, two, 2**70],
        "wraps to a cell": [one, two, 2**64 + three],
        "wraps in bytes": np.array([one, two, -64], np.int8),
    }


@pytest.mark.parametrize("name", bad_actions([0, 0, 0]))
def test_what_is_no_action_is_refused(name: str) -> None:
    games = random_batch(3, 8, 4, turns=5, seed=1)
    before = everything(games)
    bad = bad_actions(actions_of(games).tolist())[name]
    for method in (games.step, games.rolled):
        with pytest.raises(ActionError):
            method(bad)
        assert everything(games) == before


@pytest.mark.parametrize(("size", "players"), [(6, 4), (4, 2)])
def test_cells_of_larger_boards_are_refused(size: int, players: int) -> None:
    games = random_batch(3, size, players, turns=2)
    before = everything(games)
    for action in (size * size, 63, 64, 64 + int(actions_of(games)[1]), -1):
        actions = actions_of(games)
        actions[1] = action
        with pytest.raises(ActionError, match=f"action {action} of game 1 .*from 0 to {size * size - 1}$"):
            games.step(actions)
        assert everything(games) == before


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, np.int64, list, tuple])
def test_every_kind_of_int_is_taken(kind: Any) -> None:
    games, twin = random_batch(5, 8, 2, turns=5), random_batch(5, 8, 2, turns=5)
    actions = actions_of(games)
    games.step(kind(actions.tolist()) if kind in (list, tuple) else actions.astype(kind))
    twin.step(actions)
    assert everything(games) == everything(twin)


@pytest.mark.parametrize(
    ("cell", "reason", "words"),
    [
        ("d4", "occupied", "a ball lies there"),
        ("a1", "not_adjacent", "next to no ball"),
        ("c3", "capture_missed", "mandatory"),
    ],
)
def test_illegal_moves_name_the_games_and_the_rule(cell: str, reason: str, words: str) -> None:
    games = GameBatch(6, players=4, starter="red")
    before = everything(games)
    actions = actions_of(games)
    actions[[2, 5]] = parse_cell(cell, 8)
    for method in (games.step, games.rolled):
        with pytest.raises(IllegalMoveError, match=rf"games 2, 5; in game 2, {cell} .*{words}.*legal are f4 d6 f6$") as caught:
            method(actions)
        assert (caught.value.reason, caught.value.games) == (reason, (2, 5))
        assert everything(games) == before


def test_the_reason_is_that_of_the_first_illegal_game() -> None:
    games = GameBatch(4, players=4, starter="red")
    actions = [parse_cell(name, 8) for name in ("f4", "c3", "a1", "d4")]
    with pytest.raises(IllegalMoveError) as caught:
        games.step(actions)
    assert (caught.value.reason, caught.value.games) == ("capture_missed", (1, 2, 3))


def test_many_illegal_games_are_all_in_the_error_and_ten_in_its_sentence() -> None:
    games = GameBatch(30, players=4)
    with pytest.raises(IllegalMoveError, match="games 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …; in game 0") as caught:
        games.step(np.zeros(30, int))
    assert caught.value.games == tuple(range(30))


@ALL_VARIANTS
def test_full_boards_refuse_every_move(size: int, players: int) -> None:
    games = random_batch(4, size, players, turns=size * size - 4)
    before = everything(games)
    assert games.legal.tolist() == [0] * 4
    for method in (games.step, games.rolled):
        for actions in ([0, 0, 0, 0], [99] * 4, None):
            with pytest.raises(RoundOverError, match="the boards are full"):
                method(actions)
    with pytest.raises(RoundOverError):
        games.random_actions(np.random.default_rng(0))
    with pytest.raises(RoundOverError):
        games.refuse_when_over()
    assert everything(games) == before


def test_payoffs_before_the_end_and_of_unknown_kinds_are_refused() -> None:
    games = random_batch(4, 4, 2, turns=5)
    before = everything(games)
    with pytest.raises(RoundNotOverError, match="7 turns are left"):
        games.payoffs("win")
    with pytest.raises(RoundNotOverError, match="7 turns are left"):
        games.win_shares()
    for kind in ("score", "", None):
        with pytest.raises(OptionError, match="allowed are win, balls, rank"):
            games.payoffs(kind)
        with pytest.raises(OptionError, match="allowed are win, balls, rank"):
            random_batch(2, 4, 2, turns=12).payoffs(kind)
    assert everything(games) == before
