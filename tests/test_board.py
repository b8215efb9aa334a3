"""`Board` against perft tables, golden games and the oracle; its texts, its copies, its payoffs, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolit_env.batch import GameBatch
from rolit_env.board import Board, Outcome
from rolit_env.errors import (
    ActionError,
    IllegalMoveError,
    OptionError,
    PositionError,
    RoundNotOverError,
    RoundOverError,
    VariantError,
)
from rolit_env.notation import cell_name, parse_cell
from rolit_env.payoffs import payoffs, win_shares
from rolit_env.perft import divide, perft
from rolit_env.variant import COLORS, variant
from tests.golden import PATH, GoldenGame, counts_line, golden_text, read_golden
from tests.oracle import PLAYING, VARIANTS, Oracle
from tests.oracle import cell_name as oracle_cell_name
from tests.perft_table import read_perft

ALL_VARIANTS = pytest.mark.parametrize(("size", "players"), VARIANTS)


def random_board(size: int, players: int, turns: int, seed: int) -> Board:
    rng = random.Random(seed)
    board = Board(size, players, rng.choice(PLAYING[players]))
    for _ in range(turns):
        board.push(rng.choice(board.legal_moves))
    return board


def everything(board: Board) -> dict[str, Any]:
    """Return a copy of all that a board holds, to show that nothing changed."""
    return {slot: copy.copy(getattr(board, slot)) for slot in Board.__slots__}


def full_board(size: int, players: int, counts: list[int], starter: str = "red") -> Board:
    """Return a full board with so many balls of each colour, red first."""
    words, first = [], 0
    for balls in counts:
        words.append((1 << balls) - 1 << first)
        first += balls
    assert first == size * size
    board = Board(size, players, starter)
    board.set_words(words)
    return board


@st.composite
def boards(draw: st.DrawFn, last_turn: int = 0) -> Board:
    """Draw a board that legal play reaches, at least `last_turn` turns before the end."""
    size, players = draw(st.sampled_from(VARIANTS))
    turns = draw(st.integers(0, size * size - 4 - last_turn))
    return random_board(size, players, turns, draw(st.integers(0, 2**32)))


# Perft.


def oracle_perft(oracle: Oracle, depth: int) -> int:
    if depth == 0:
        return 1
    if depth == 1:
        return len(oracle.legal())
    return sum(oracle_divide(oracle, depth).values())


def oracle_divide(oracle: Oracle, depth: int) -> dict[str, int]:
    counts = {}
    for cell in oracle.legal():
        after = copy.deepcopy(oracle)
        after.play(*cell)
        counts[oracle_cell_name(cell)] = oracle_perft(after, depth - 1)
    return counts


def divide_table(size: int, players: int, depth: int) -> str:
    """Return the leaves behind each first move by `Board` and by the oracle, to see where they part."""
    found, right = divide(Board(size, players), depth), oracle_divide(Oracle(size, players, "red"), depth)
    lines = [f"depth {depth}: move, Board, oracle"]
    for move in sorted(found.keys() | right.keys()):
        mark = "" if found.get(move) == right.get(move) else "  <--"
        lines.append(f"{move} {found.get(move, 'illegal')} {right.get(move, 'illegal')}{mark}")
    return "\n".join(lines)


def test_the_perft_table_covers_the_seven_variants() -> None:
    assert [(size, players) for size, players, _ in read_perft()] == VARIANTS
    assert all(len(leaves) == 6 for *_, leaves in read_perft())


@pytest.mark.parametrize(("size", "players", "leaves"), read_perft())
def test_perft(size: int, players: int, leaves: list[int]) -> None:
    for depth, right in enumerate(leaves, start=1):
        found = perft(Board(size, players), depth)
        assert found == right, divide_table(size, players, depth)


@pytest.mark.parametrize(("size", "players", "leaves"), read_perft())
def test_oracle_perft(size: int, players: int, leaves: list[int]) -> None:
    found = [oracle_perft(Oracle(size, players, "red"), depth) for depth in range(1, 5)]
    assert found == leaves[:4]


@pytest.mark.parametrize(("size", "players", "leaves"), read_perft())
def test_batch_perft(size: int, players: int, leaves: list[int]) -> None:
    games = GameBatch.from_boards([Board(size, players)])
    found = []
    for _ in leaves:
        parents, actions = np.nonzero(games.legal_mask())
        games = games[parents]
        games.step(actions)
        found.append(len(games))
    assert found == leaves


# Golden games.


@pytest.mark.parametrize("game", read_golden(), ids=lambda game: f"{game.size}x{game.size}-{game.players}p")
def test_golden_games(game: GoldenGame) -> None:
    board = Board(game.size, game.players, game.starter)
    for move in game.moves:
        board.push(move)
    assert str(board) == game.diagram
    assert counts_line(board.counts()) == game.counts
    assert [cell_name(action, game.size) for action in board.moves] == game.moves


def test_the_golden_games_are_what_the_oracle_plays() -> None:
    assert [(game.size, game.players) for game in read_golden()] == VARIANTS
    assert PATH.read_text(encoding="utf-8") == golden_text()


# A round from start to end.


@ALL_VARIANTS
def test_every_starter_of_a_round(size: int, players: int) -> None:
    for starter in PLAYING[players]:
        oracle, board = Oracle(size, players, starter), Board(size, players, starter)
        rng = random.Random(size)
        assert (board.size, board.players, board.starter) == (size, players, starter)
        for ply in range(size * size - 4):
            assert str(board) == oracle.text()
            assert (board.ply, board.seat, board.is_over) == (ply, ply % players, False)
            assert board.color_to_move == oracle.to_move()
            assert board.counts() == oracle.counts()
            assert board.outcome() is None
            row, column = rng.choice(oracle.legal())
            move = row * size + column
            assert board.rolled_by(move) == [row * size + column for row, column in oracle.rolled(row, column)]
            assert board.color_at(move) is None
            # Ints and names are the same moves.
            board.push(np.int64(move) if ply % 2 else oracle_cell_name((row, column)).upper())
            oracle.play(row, column)
            assert board.color_at(move) == oracle.grid[row][column]
            assert board.moves[-1] == move
        assert oracle.over()
        assert board.is_over
        assert str(board) == oracle.text()
        assert board.legal_moves == []
        assert board.outcome() == Outcome(tuple(oracle.leaders()), oracle.counts())
        for kind in ("win", "balls", "rank"):
            assert board.payoffs(kind) == pytest.approx({color: float(value) for color, value in oracle.payoffs(kind).items()})


@settings(max_examples=100, deadline=None)
@given(boards(last_turn=1), st.randoms(use_true_random=False))
def test_a_turn_adds_one_ball_and_colors_stay_disjoint(board: Board, rng: random.Random) -> None:
    mover, before = board.color_to_move, board.counts()
    move = rng.choice(board.legal_moves)
    rolled = board.rolled_by(move)
    board.push(move)
    union = 0
    for word in board.words:
        assert word & union == 0
        union |= word
    assert union & ~board.variant.geometry.board == 0
    assert union.bit_count() == sum(board.counts().values()) == sum(before.values()) + 1
    assert board.counts()[mover] == before[mover] + 1 + len(rolled)
    assert all(board.color_at(cell) == mover for cell in [move, *rolled])
    assert bool(board.legal_moves) == (not board.is_over)


@settings(max_examples=60, deadline=None)
@given(boards(), st.integers(0, 12), st.integers(0, 2**32))
def test_pop_takes_back_everything_push_did(board: Board, turns: int, seed: int) -> None:
    rng = random.Random(seed)
    seen = [everything(board)]
    played = []
    for _ in range(min(turns, board.variant.plies - board.ply)):
        played.append(rng.choice(board.legal_moves))
        board.push(played[-1])
        seen.append(everything(board))
    for move in reversed(played):
        assert everything(board) == seen.pop()
        assert board.pop() == move
    assert everything(board) == seen.pop()


def test_pop_goes_back_to_the_start_and_no_further() -> None:
    board = random_board(6, 3, 32, seed=4)
    for _ in range(32):
        board.pop()
    assert board == Board(6, 3, board.starter)
    with pytest.raises(PositionError, match="no turn to take back"):
        board.pop()
    assert everything(board) == everything(Board(6, 3, board.starter))


# Copies and texts.


@settings(max_examples=60, deadline=None)
@given(boards(last_turn=1))
def test_copies_are_equal_and_independent(board: Board) -> None:
    before = everything(board)
    for twin in (board.copy(), copy.copy(board), copy.deepcopy(board), pickle.loads(pickle.dumps(board))):
        assert twin == board
        assert everything(twin) == before
        twin.push(twin.legal_moves[-1])
        assert twin != board
        assert everything(board) == before
        twin.pop()
        while twin.moves:
            twin.pop()
        assert everything(board) == before


@settings(max_examples=100, deadline=None)
@given(boards())
def test_text_round_trip(board: Board) -> None:
    twin = Board.from_text(str(board))
    assert str(twin) == str(board)
    assert (twin.words, twin.ply, twin.legal) == (board.words, board.ply, board.legal)
    if not board.is_over:  # a full board doesn't say who began
        assert twin == board


def test_equality_looks_at_all_that_the_next_turns_depend_on() -> None:
    assert Board(8, 4) == Board(8, 4)
    assert Board(8, 4) != Board(8, 4, "blue")
    assert Board(8, 4) != Board(8, 3)
    assert Board(8, 2) != Board(6, 2)
    assert Board() != "8x8"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Board())


def test_repr_names_variant_starter_and_ply() -> None:
    board = Board(6, 4, "blue")
    board.push(board.legal_moves[0])
    assert repr(board) == "<Board 6x6-4p, starter blue, ply 1 of 32>"


START_4X4 = """\
4x4, 2 players, red to move
  a b c d
1 . . . .
2 . R Y .
3 . B G .
4 . . . ."""


def test_the_start_as_text() -> None:
    assert str(Board(4, 2)) == START_4X4
    typed = "\n\n   " + START_4X4.replace("\n", "   \n\t") + "\n"
    assert Board.from_text(typed) == Board(4, 2)


BROKEN_TEXTS = {
    "nothing": "",
    "blank": " \n \n",
    "one word": "rolit",
    "no head": START_4X4.split("\n", 1)[1],
    "head of two sizes": START_4X4.replace("4x4", "4x6"),
    "no variant": START_4X4.replace("2 players", "3 players"),
    "huge size": START_4X4.replace("4x4", "99x99"),
    "size of more digits than int() reads": START_4X4.replace("4x4", f"{'4' * 5000}x{'4' * 5000}"),
    "unknown mover": START_4X4.replace("red to move", "purple to move"),
    "neutral mover": START_4X4.replace("red to move", "yellow to move"),
    "over too early": START_4X4.replace("red to move", "round over"),
    "no columns": START_4X4.replace("  a b c d\n", ""),
    "too few columns": START_4X4.replace("a b c d", "a b c"),
    "columns of another size": START_4X4.replace("a b c d", "a b c d e f"),
    "cut short": START_4X4.rsplit("\n", 1)[0],
    "cut within a row": START_4X4[:-2],
    "one row more": START_4X4 + "\n5 . . . .",
    "rows swapped": START_4X4.replace("2 . R", "3 . R").replace("3 . B", "2 . B"),
    "row without number": START_4X4.replace("2 . R", ". R"),
    "row blank": START_4X4.replace("1 . . . .", ""),
    "row too long": START_4X4.replace("1 . . . .", "1 . . . . ."),
    "unknown letter": START_4X4.replace("R", "X"),
    "small letter": START_4X4.replace("R", "r"),
    "middle cell empty": START_4X4.replace("R", "."),
    "letters joined": START_4X4.replace("R Y", "RY"),
    "mover on a full board": "4x4, 2 players, red to move\n  a b c d\n" + "\n".join(f"{row} R R R R" for row in range(1, 5)),
}


@pytest.mark.parametrize("name", BROKEN_TEXTS)
def test_broken_texts_are_refused(name: str) -> None:
    with pytest.raises(PositionError):
        Board.from_text(BROKEN_TEXTS[name])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_texts_are_refused_or_still_positions(data: st.DataObject) -> None:
    text = str(random_board(*data.draw(st.sampled_from(VARIANTS)), turns=5, seed=1))
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, min(len(text), first + 20)))
    damaged = text[:first] + data.draw(st.text("RYGB. 1234\nabcx,", max_size=4)) + text[last:]
    try:
        board = Board.from_text(damaged)
    except PositionError:
        return
    assert "".join(str(board).split()) == "".join(damaged.split())  # a space more or less is no damage


def test_set_words_refuses_what_is_no_position() -> None:
    board = random_board(6, 4, 9, seed=2)
    before = everything(board)
    red, yellow, green, blue = board.words
    broken = [
        (red, yellow, green, blue | red),  # two balls on a cell
        (red | 1 << 36, yellow, green, blue),  # off the board
        (-1, 0, 0, 0),
        (0, 0, 0, 0),
        (red, yellow, green),
        (red, yellow, green, blue, 0),
        (),
    ]
    for words in broken:
        with pytest.raises(PositionError):
            board.set_words(words)
        assert everything(board) == before


def test_set_words_puts_up_the_position_and_forgets_the_turns() -> None:
    board, other = random_board(8, 3, 10, seed=1), random_board(8, 3, 23, seed=2)
    board.set_words(other.words)
    assert (board.words, board.ply, board.moves) == (other.words, 23, ())
    oracle = Oracle(8, 3, board.starter)
    oracle.turns = 23
    oracle.grid = [[other.color_at(row * 8 + column) for column in range(8)] for row in range(8)]
    assert board.legal_moves == [row * 8 + column for row, column in oracle.legal()]
    with pytest.raises(PositionError):
        board.pop()


@pytest.mark.parametrize("size", [8, 6, 4])
def test_cell_names(size: int) -> None:
    for action in range(size * size):
        name = oracle_cell_name(divmod(action, size))
        assert cell_name(action, size) == name
        assert parse_cell(name, size) == parse_cell(f" {name.upper()} ", size) == action


# What it refuses.

NO_ACTIONS = [True, False, 4.0, np.float64(4), np.bool_(True), None, b"d6", (3, 5), [29], -1, 64, 10**30, np.int64(-1)]
NO_CELLS = ["", "z9", "i1", "a9", "a0", "f44", "f", "4f", "29", "pass", "f 4", "d٤"]


@pytest.mark.parametrize("move", [*NO_ACTIONS, *NO_CELLS], ids=repr)
def test_what_is_no_cell_is_refused(move: Any) -> None:
    board = random_board(8, 4, 6, seed=3)
    before = everything(board)
    for method in (board.push, board.rolled_by, board.color_at):
        with pytest.raises(ActionError):
            method(move)
        assert everything(board) == before


def test_an_int_too_long_to_write_is_refused() -> None:
    with pytest.raises(ActionError, match="such a number is no action"):
        Board().push(10**5000)


@pytest.mark.parametrize(
    ("size", "players", "move"), [(6, 2, "g1"), (6, 4, "a7"), (6, 3, 36), (4, 2, "e1"), (4, 2, "a5"), (4, 2, 16)]
)
def test_cells_of_larger_boards_are_refused(size: int, players: int, move: int | str) -> None:
    board = Board(size, players)
    before = everything(board)
    with pytest.raises(ActionError, match=str(size * size - 1) if isinstance(move, int) else f"{'abcdefgh'[size - 1]}{size}"):
        board.push(move)
    assert everything(board) == before


ILLEGAL = [
    ("d4", "occupied", "a ball lies there already"),
    ("e5", "occupied", "a ball lies there already"),
    ("a1", "not_adjacent", "next to no ball"),
    ("d7", "not_adjacent", "next to no ball"),
    ("c3", "capture_missed", "capturing is mandatory"),
    ("e6", "capture_missed", "capturing is mandatory"),
]


@pytest.mark.parametrize(("move", "reason", "words"), ILLEGAL)
def test_illegal_moves_name_the_rule_and_the_legal_cells(move: str, reason: str, words: str) -> None:
    board = Board(8, 4)
    before = everything(board)
    for method in (board.push, board.rolled_by):
        with pytest.raises(IllegalMoveError, match=f"{move} is not legal: .*{words}.*legal are f4 d6 f6$") as caught:
            method(move)
        assert (caught.value.reason, caught.value.games) == (reason, ())
        assert everything(board) == before
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (str(twin), twin.reason, twin.games) == (str(caught.value), reason, ())


@settings(max_examples=60, deadline=None)
@given(boards(last_turn=1))
def test_every_illegal_cell_is_refused_for_its_reason(board: Board) -> None:
    size = board.size
    oracle = Oracle(size, board.players, board.starter)
    oracle.turns = board.ply
    oracle.grid = [[board.color_at(row * size + column) for column in range(size)] for row in range(size)]
    before = everything(board)
    for move in set(range(size * size)) - set(board.legal_moves):
        row, column = divmod(move, size)
        if oracle.grid[row][column]:
            reason = "occupied"
        else:
            reason = "capture_missed" if oracle.touches_a_ball(row, column) else "not_adjacent"
        with pytest.raises(IllegalMoveError) as caught:
            board.push(move)
        assert caught.value.reason == reason
    assert everything(board) == before


@ALL_VARIANTS
def test_a_full_board_refuses_every_move(size: int, players: int) -> None:
    board = random_board(size, players, size * size - 4, seed=1)
    before = everything(board)
    for method in (board.push, board.rolled_by):
        with pytest.raises(RoundOverError, match="the board is full"):
            method(0)
    with pytest.raises(RoundOverError, match="nobody is to move"):
        _ = board.color_to_move
    assert everything(board) == before


def test_variants_and_starters_that_do_not_exist_are_refused() -> None:
    for size, players in [(4, 3), (5, 2), (8, 1), (8, 5)]:
        with pytest.raises(VariantError, match="allowed are size 8 or 6 with 2, 3 or 4 players, and size 4 with 2 players"):
            Board(size, players)
    for players, starter in [(2, "yellow"), (3, "blue"), (4, "purple"), (4, "random"), (4, None), (4, 0)]:
        with pytest.raises(OptionError, match=f"allowed are {', '.join(PLAYING[players])}"):
            Board(8, players, starter)


# Payoffs.

THIRD, NINTH = Fraction(1, 3), Fraction(1, 9)
BY_HAND = [
    # counts by seat, win, balls (in 96ths or 64ths of the board), rank
    ([33, 31], [1, -1], [Fraction(1, 64), Fraction(-1, 64)], [1, -1]),
    ([31, 33], [-1, 1], [Fraction(-1, 64), Fraction(1, 64)], [-1, 1]),
    ([32, 32], [0, 0], [0, 0], [0, 0]),
    ([30, 26], [1, -1], [Fraction(2, 64), Fraction(-2, 64)], [1, -1]),  # eight neutral balls count for nobody
    ([20, 18, 14], [1, -0.5, -0.5], [Fraction(4, 96), Fraction(1, 96), Fraction(-5, 96)], [1, 0, -1]),
    ([12, 20, 20], [-0.5, 0.25, 0.25], [Fraction(-8, 96), Fraction(4, 96), Fraction(4, 96)], [-1, 0.5, 0.5]),
    ([21, 21, 21], [0, 0, 0], [0, 0, 0], [0, 0, 0]),
    ([30, 10, 10], [1, -0.5, -0.5], [Fraction(20, 96), Fraction(-10, 96), Fraction(-10, 96)], [1, -0.5, -0.5]),
    ([30, 20, 10, 4], [1, -THIRD, -THIRD, -THIRD], [Fraction(n, 64) for n in (14, 4, -6, -12)], [1, THIRD, -THIRD, -1]),
    ([24, 8, 24, 8], [THIRD, -THIRD] * 2, [Fraction(n, 64) for n in (8, -8, 8, -8)], [2 * THIRD, -2 * THIRD] * 2),
    ([20, 20, 4, 20], [NINTH, NINTH, -THIRD, NINTH], [Fraction(n, 64) for n in (4, 4, -12, 4)], [THIRD, THIRD, -1, THIRD]),
    ([16, 16, 16, 16], [0] * 4, [0] * 4, [0] * 4),
    (
        [22, 22, 12, 8],
        [THIRD, THIRD, -THIRD, -THIRD],
        [Fraction(n, 64) for n in (6, 6, -4, -8)],
        [2 * THIRD, 2 * THIRD, -THIRD, -1],
    ),
]


@pytest.mark.parametrize(("counts", "win", "balls", "rank"), BY_HAND, ids=str)
def test_payoffs_by_hand(counts: list[int], win: list[Any], balls: list[Any], rank: list[Any]) -> None:
    for kind, right in (("win", win), ("balls", balls), ("rank", rank)):
        found = payoffs(np.array([counts, counts[::-1]]), kind, 64)
        assert found.shape == (2, len(counts))
        assert found.dtype == np.float32
        assert found[0].tolist() == pytest.approx([float(value) for value in right])
        assert found[1].tolist() == pytest.approx([float(value) for value in right[::-1]])
        assert found.sum(axis=1) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("counts", "win", "balls", "rank"), BY_HAND, ids=str)
def test_payoffs_of_boards_and_batches(counts: list[int], win: list[Any], balls: list[Any], rank: list[Any]) -> None:
    players = len(counts)
    colors = PLAYING[players]
    by_color = dict(zip(colors, counts, strict=True))
    neutral = {color: 0 for color in COLORS if color not in colors}
    if neutral:
        neutral[next(iter(neutral))] = 64 - sum(counts)
    shown = [(by_color | neutral)[color] for color in COLORS]
    for at, starter in enumerate(colors):
        board = full_board(8, players, shown, starter)
        batch = GameBatch.from_boards([board, board])
        for kind, right in (("win", win), ("balls", balls), ("rank", rank)):
            values = [float(value) for value in right]
            assert board.payoffs(kind) == pytest.approx(dict(zip(colors, values, strict=True)))
            assert batch.payoffs(kind).tolist() == [pytest.approx(values[at:] + values[:at])] * 2
        outcome = board.outcome()
        assert outcome is not None
        assert outcome.winners == tuple(color for color in colors if by_color[color] == max(counts))
        assert outcome.counts == dict(zip(COLORS, shown, strict=True))


def test_neutral_balls_win_nothing() -> None:
    board = full_board(6, 2, [5, 20, 4, 7])
    assert board.outcome() == Outcome(("red",), {"red": 5, "yellow": 20, "green": 4, "blue": 7})
    assert board.payoffs("win") == {"red": 1, "green": -1}


@given(st.lists(st.integers(0, 40), min_size=2, max_size=4), st.sampled_from(["win", "balls", "rank"]))
def test_payoffs_sum_to_zero_and_follow_the_counts(counts: list[int], kind: Any) -> None:
    values = payoffs(counts, kind, 64).tolist()
    assert sum(values) == pytest.approx(0, abs=1e-6)
    for mine, my_value in zip(counts, values, strict=True):
        for theirs, their_value in zip(counts, values, strict=True):
            assert my_value >= their_value or mine < theirs
            assert mine != theirs or my_value == their_value
    shares = win_shares(counts)
    assert shares.sum() == pytest.approx(1)
    assert {share for share in shares.tolist() if share} == {1 / counts.count(max(counts))}


def test_payoffs_that_do_not_exist_are_refused() -> None:
    for board in (Board(4, 2), random_board(4, 2, 12, seed=1)):
        before = everything(board)
        for kind in ("score", "", None):
            with pytest.raises(OptionError, match="allowed are win, balls, rank"):
                board.payoffs(kind)
        assert everything(board) == before


def test_a_round_that_goes_on_has_no_payoffs() -> None:
    board = random_board(4, 2, 5, seed=1)
    before = everything(board)
    for kind in ("win", "balls", "rank"):
        with pytest.raises(RoundNotOverError, match="7 turns are left"):
            board.payoffs(kind)
    assert everything(board) == before


def test_variant_travels_with_pickles() -> None:
    assert pickle.loads(pickle.dumps(variant(6, 3))) == variant(6, 3)
