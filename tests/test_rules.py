"""The one text of the rules, on every kind of word, against the oracle, the booklet's figures and its own properties."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from rolit_env import rules
from rolit_env.batch import draw_cells
from rolit_env.bits import cells_of, highest_bit, popcount, select
from rolit_env.board import Board
from rolit_env.errors import OptionError, VariantError
from rolit_env.rules import geometry, legal_cells, rolled_balls, word_geometry
from rolit_env.symmetry import cell_permutations, transform_words
from rolit_env.variant import COLORS, Variant, all_variants, starter_color, variant
from tests.oracle import PLAYING, VARIANTS, Cell, Oracle, cell_name, named_cell

ALL_VARIANTS = pytest.mark.parametrize(("size", "players"), VARIANTS)
ALL_SIZES = pytest.mark.parametrize("size", [8, 6, 4])


def cell_number(cell: Cell, size: int) -> int:
    row, column = cell
    return row * size + column


def word_of(cells: list[Cell], size: int) -> int:
    return sum(1 << row * size + column for row, column in cells)


def moved(word: int, permutation: np.ndarray) -> int:
    return sum(1 << int(permutation[cell]) for cell in cells_of(word))


def names(cells: list[Cell]) -> set[str]:
    return {cell_name(cell) for cell in cells}


def random_oracle(size: int, players: int, turns: int, seed: int) -> Oracle:
    rng = random.Random(seed)
    oracle = Oracle(size, players, rng.choice(PLAYING[players]))
    for _ in range(turns):
        oracle.play(*rng.choice(oracle.legal()))
    return oracle


def position_words(oracle: Oracle) -> tuple[int, int]:
    """Return the words of the mover's balls and of all others."""
    own, *others = oracle.planes(oracle.order_seen_by(oracle.to_move()))
    flat = [np.array(plane).reshape(-1).tolist() for plane in (own, *others)]
    words = [sum(ball << cell for cell, ball in enumerate(plane)) for plane in flat]
    return words[0], words[1] | words[2] | words[3]


# The oracle against the published facts.


@ALL_VARIANTS
def test_the_oracle_starts_with_the_booklets_position(size: int, players: int) -> None:
    oracle = Oracle(size, players, "red")
    middle = "abcdefgh"[size // 2 - 1 : size // 2 + 1]
    shown = {
        cell_name((row, column)): ball for row, line in enumerate(oracle.grid) for column, ball in enumerate(line) if ball
    }
    top, bottom = size // 2, size // 2 + 1
    assert shown == {
        f"{middle[0]}{top}": "red",
        f"{middle[1]}{top}": "yellow",
        f"{middle[0]}{bottom}": "blue",
        f"{middle[1]}{bottom}": "green",
    }


FIRST_MOVES = {"red": "d6 f4 f6", "yellow": "c4 c6 e6", "green": "c3 c5 e3", "blue": "d3 f3 f5"}


@pytest.mark.parametrize(("color", "cells"), FIRST_MOVES.items())
def test_first_moves(color: str, cells: str) -> None:
    oracle, board = Oracle(8, 4, color), Board(8, 4, color)
    assert names(oracle.legal()) == set(cells.split())
    assert board.legal_moves == sorted(row * 8 + column for row, column in map(named_cell, cells.split()))
    for name in cells.split():
        assert len(oracle.rolled(*named_cell(name))) == len(board.rolled_by(name)) == 1


def test_a_seat_that_can_capture_nothing_has_every_cell_next_to_a_ball() -> None:
    cells = "c3 c4 c5 c6 d3 d6 e3 e6 f3 f5 f6 g3 g4 g5"
    oracle, board = Oracle(8, 4, "red"), Board(8, 4, "red")
    oracle.play(*named_cell("f4"))
    board.push("f4")
    assert board.color_to_move == "yellow"
    assert names(oracle.legal()) == set(cells.split())
    assert board.legal_moves == sorted(row * 8 + column for row, column in map(named_cell, cells.split()))
    assert not any(board.rolled_by(name) for name in cells.split())


FIGURES = {
    "2 and 3": ({"red": "d4", "yellow": "e4", "blue": "d5", "green": "e5"}, "green", "c3", "d4"),
    "4 and 5": ({"blue": "a1 c3 c5 d5", "yellow": "b2 e4 d6", "red": "d3 e5", "green": "c4 d4"}, "blue", "f6", "d4 e5"),
    "6 and 7": (
        {
            "green": "f1 d4 f4 c5",
            "yellow": "f2 c3 d3 e3 c4 b6 d8 e8 f8",
            "blue": "f3 e4 c6 d6 e6 e7",
            "red": "b4 g4 d5 e5 f5 d7 f7",
        },
        "yellow",
        "f6",
        "c6 d4 d6 e5 e6 e7 f3 f4 f5 f7",
    ),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_the_booklets_figures(figure: str) -> None:
    balls, mover, move, rolled = FIGURES[figure]
    oracle = Oracle(8, 4, mover)
    oracle.grid = [[None] * 8 for _ in range(8)]
    for color, cells in balls.items():
        for row, column in map(named_cell, cells.split()):
            oracle.grid[row][column] = color
    assert names(oracle.rolled(*named_cell(move))) == set(rolled.split())

    words = {color: word_of([named_cell(name) for name in cells.split()], 8) for color, cells in balls.items()}
    own = words.pop(mover)
    answer = rolled_balls(cell_number(named_cell(move), 8), own, sum(words.values()), geometry(8))
    assert answer == word_of([named_cell(name) for name in rolled.split()], 8)


# One text, four kinds of words.


@njit
def kernel(own, others, cells, legal, rolled, g):
    for game in range(own.shape[0]):
        legal[game] = legal_cells(own[game], others[game], g)
        rolled[game] = rolled_balls(cells[game], own[game], others[game], g)


def signed(word: int) -> int:
    """Return the int64 with the bits of a 64-bit word."""
    return word - (1 << 64) if word >> 63 else word


@pytest.fixture(scope="module")
def positions() -> dict[int, list[tuple[int, int, int, int, int]]]:
    """Positions by size: own, others, a legal cell, and the oracle's legal cells and rolled balls, as words."""
    found: dict[int, list[tuple[int, int, int, int, int]]] = {8: [], 6: [], 4: []}
    for size, players in VARIANTS:
        for seed in range(4):
            rng = random.Random(seed)
            oracle = Oracle(size, players, rng.choice(PLAYING[players]))
            while not oracle.over():
                legal = oracle.legal()
                move = rng.choice(legal)
                answers = word_of(legal, size), word_of(oracle.rolled(*move), size)
                found[size].append((*position_words(oracle), cell_number(move, size), *answers))
                oracle.play(*move)
    return found


@ALL_SIZES
def test_rules_on_python_ints(size: int, positions: dict[int, list[tuple[int, ...]]]) -> None:
    for own, others, cell, legal, rolled in positions[size]:
        assert legal_cells(own, others, geometry(size)) == legal
        assert rolled_balls(cell, own, others, geometry(size)) == rolled


@ALL_SIZES
def test_rules_on_numpy_words(size: int, positions: dict[int, list[tuple[int, ...]]]) -> None:
    own, others, cells, legal, rolled = np.array(positions[size], np.uint64).T
    found = legal_cells(own, others, word_geometry(size))
    assert found.dtype == np.uint64
    np.testing.assert_array_equal(found, legal)
    np.testing.assert_array_equal(rolled_balls(cells, own, others, word_geometry(size)), rolled)


@ALL_SIZES
def test_rules_in_a_numba_kernel(size: int, positions: dict[int, list[tuple[int, ...]]]) -> None:
    own, others, cells, legal, rolled = np.array(positions[size], np.uint64).T.copy()
    found_legal, found_rolled = np.empty_like(own), np.empty_like(own)
    kernel(own, others, cells, found_legal, found_rolled, word_geometry(size))
    np.testing.assert_array_equal(found_legal, legal)
    np.testing.assert_array_equal(found_rolled, rolled)


@ALL_SIZES
def test_rules_on_torch_words(size: int, positions: dict[int, list[tuple[int, ...]]]) -> None:
    words = torch.tensor([[signed(word) for word in position] for position in positions[size]])
    own, others, cells, legal, rolled = words.T
    signed_geometry = geometry(size).convert(signed)
    assert torch.equal(legal_cells(own, others, signed_geometry), legal)
    assert torch.equal(rolled_balls(cells, own, others, signed_geometry), rolled)


@ALL_SIZES
def test_a_run_across_the_whole_board_rolls(size: int) -> None:
    # The longest run there is, n − 2 balls, in all eight directions: random play seldom gets there.
    last = size - 1
    rays = [[(last - at, 0) for at in range(size)], [(0, at) for at in range(size)], [(at, at) for at in range(size)]]
    rays.append([(at, last - at) for at in range(size)])
    for ray in rays + [ray[::-1] for ray in rays]:
        closing, *run, move = ray
        found = rolled_balls(cell_number(move, size), word_of([closing], size), word_of(run, size), geometry(size))
        assert found == word_of(run, size)
        assert legal_cells(word_of([closing], size), word_of(run, size), geometry(size)) == word_of([move], size)


# Properties of every reachable position.


@st.composite
def reachable(draw: st.DrawFn, last_turn: int = 0) -> Oracle:
    """Draw a position that legal play reaches, at least `last_turn` turns before the end."""
    size, players = draw(st.sampled_from(VARIANTS))
    turns = draw(st.integers(0, size * size - 4 - last_turn))
    return random_oracle(size, players, turns, draw(st.integers(0, 2**32)))


@settings(max_examples=150, deadline=None)
@given(reachable())
def test_legal_cells_are_empty_and_touching_and_never_none_before_the_end(oracle: Oracle) -> None:
    own, others = position_words(oracle)
    g = geometry(oracle.size)
    legal = legal_cells(own, others, g)
    assert legal & (own | others) == 0
    assert legal & ~rules.touching_cells(own | others, g) == 0
    assert legal & ~g.board == 0
    assert (legal == 0) == oracle.over()


@settings(max_examples=150, deadline=None)
@given(reachable(last_turn=1))
def test_capturing_is_mandatory(oracle: Oracle) -> None:
    own, others = position_words(oracle)
    g = geometry(oracle.size)
    rolls = {cell: rolled_balls(cell, own, others, g) for cell in cells_of(g.board ^ (own | others))}
    capturing = {cell for cell, rolled in rolls.items() if rolled}
    legal = set(cells_of(legal_cells(own, others, g)))
    assert legal == capturing if capturing else legal == set(cells_of(rules.touching_cells(own | others, g)))
    assert all(rolled & ~others == 0 for rolled in rolls.values())


@settings(max_examples=100, deadline=None)
@given(reachable(last_turn=1), st.integers(0, 7), st.randoms(use_true_random=False))
def test_the_eight_symmetries_commute_with_playing(oracle: Oracle, symmetry: int, rng: random.Random) -> None:
    permutation = cell_permutations(oracle.size)[symmetry]
    board = board_of(oracle)
    twin = Board(oracle.size, oracle.players, oracle.starter)
    twin.set_words([moved(word, permutation) for word in board.words])
    assert twin.legal == moved(board.legal, permutation)
    move = rng.choice(board.legal_moves)
    board.push(move)
    twin.push(int(permutation[move]))
    assert list(twin.words) == [moved(word, permutation) for word in board.words]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([8, 6]), st.integers(0, 31), st.integers(0, 2**32), st.integers(1, 3))
def test_color_rotation_commutes_with_playing(size: int, turns: int, seed: int, by: int) -> None:
    board = board_of(random_oracle(size, 4, turns, seed))
    twin = Board(size, 4, COLORS[(COLORS.index(board.starter) + by) % 4])
    twin.set_words([board.words[(color - by) % 4] for color in range(4)])
    assert twin.legal == board.legal
    move = random.Random(seed).choice(board.legal_moves)
    board.push(move)
    twin.push(move)
    assert list(twin.words) == [board.words[(color - by) % 4] for color in range(4)]


def board_of(oracle: Oracle) -> Board:
    board = Board(oracle.size, oracle.players, oracle.starter)
    planes = np.array(oracle.planes(list(COLORS))).reshape(4, -1).tolist()
    board.set_words([sum(ball << cell for cell, ball in enumerate(plane)) for plane in planes])
    return board


@ALL_SIZES
def test_cell_permutations_are_the_symmetries_of_the_square(size: int) -> None:
    permutations = cell_permutations(size)
    assert permutations.shape == (8, size * size)
    assert permutations.dtype == np.int64
    assert len({tuple(row) for row in permutations.tolist()}) == 8
    np.testing.assert_array_equal(permutations[0], np.arange(size * size))
    rows, columns = np.divmod(np.arange(size * size), size)
    for permutation in permutations:
        to_rows, to_columns = np.divmod(permutation, size)
        # Distances between all pairs of cells stay as they are.
        before = (rows[:, None] - rows) ** 2 + (columns[:, None] - columns) ** 2
        after = (to_rows[:, None] - to_rows) ** 2 + (to_columns[:, None] - to_columns) ** 2
        np.testing.assert_array_equal(before, after)


@ALL_SIZES
def test_the_first_four_symmetries_are_turns_and_the_others_the_same_after_a_mirror(size: int) -> None:
    permutations = cell_permutations(size)
    quarter, mirror = permutations[1], permutations[4]
    assert np.flatnonzero(mirror == np.arange(size * size)).size == size  # the cells on its axis
    turned = np.arange(size * size)
    for turns in range(4):
        np.testing.assert_array_equal(permutations[turns], turned)
        np.testing.assert_array_equal(permutations[4 + turns], turned[mirror])
        turned = quarter[turned]


@ALL_SIZES
def test_transform_words_moves_each_row_by_its_own_permutation(size: int) -> None:
    rng = random.Random(size)
    words = [[rng.getrandbits(size * size) for _ in range(5)] for _ in range(8)]
    given = np.array(words, np.uint64)
    found = transform_words(given, cell_permutations(size))
    right = [[moved(word, row) for word in line] for line, row in zip(words, cell_permutations(size), strict=True)]
    assert found.dtype == np.uint64
    assert found.tolist() == right
    assert given.tolist() == words


def test_a_quarter_turn_of_the_start_is_a_rotation_of_its_colors() -> None:
    # Red, yellow, green, blue lie clockwise around the middle.
    board = Board(8, 4)
    turned = [[moved(word, row) for word in board.words] for row in cell_permutations(8)[:4]]
    rotated = [[board.words[(color - by) % 4] for color in range(4)] for by in range(4)]
    assert sorted(turned) == sorted(rotated)


# Bits.


def random_words(count: int, seed: int) -> list[int]:
    """Return words of all densities, the empty and the full one among them."""
    rng = random.Random(seed)
    words = [0, (1 << 64) - 1, 1, 1 << 63]
    for _ in range(count):
        density = rng.random()
        words.append(sum(1 << cell for cell in range(64) if rng.random() < density))
    return words


def test_cells_of() -> None:
    for word in random_words(50, seed=1):
        assert list(cells_of(word)) == [cell for cell in range(64) if word >> cell & 1]


def test_popcount() -> None:
    words = random_words(500, seed=2)
    assert popcount(np.array(words, np.uint64)).tolist() == [bin(word).count("1") for word in words]


@njit
def highest_bits(words, highest):
    for at in range(words.shape[0]):
        highest[at] = highest_bit(words[at])


def test_highest_bit_of_every_kind_of_word() -> None:
    words = [word | 1 for word in random_words(200, seed=5)] + [1 << cell for cell in range(64)]
    right = [1 << word.bit_length() - 1 for word in words]
    assert [highest_bit(word) for word in words] == right
    array = np.array(words, np.uint64)
    assert highest_bit(array).tolist() == right
    found = np.empty_like(array)
    highest_bits(array, found)
    assert found.tolist() == right
    positive = [word for word in words if word < 1 << 63]
    assert highest_bit(torch.tensor(positive)).tolist() == [1 << word.bit_length() - 1 for word in positive]


@njit
def select_each(words, ranks, cells):
    for at in range(words.shape[0]):
        cells[at] = select(words[at], ranks[at])


def test_select_finds_every_rank() -> None:
    cases = [(word, rank, cell) for word in random_words(200, seed=3) for rank, cell in enumerate(cells_of(word))]
    words, ranks, right = (np.array(column, np.uint64) for column in zip(*cases, strict=True))
    found = np.empty_like(words)
    select_each(words, ranks, found)
    np.testing.assert_array_equal(found, right)


def test_draw_cells_is_uniform() -> None:
    word = 1 << 63 | 1 << 62 | 1 << 40 | 1 << 31 | 1 << 17 | 1 << 1 | 1
    draws = 70_000
    cells = draw_cells(np.full(draws, word, np.uint64), np.random.default_rng(11))
    counts = np.bincount(cells, minlength=64)
    drawn = counts[list(cells_of(word))]
    assert counts.sum() == drawn.sum() == draws
    chi_square = ((drawn - draws / 7) ** 2 / (draws / 7)).sum()
    assert chi_square < 22.46  # 6 degrees of freedom, p = .001


# Variants.


def test_the_seven_variants() -> None:
    assert [(chosen.size, chosen.players) for chosen in all_variants()] == VARIANTS
    for chosen in all_variants():
        assert chosen is variant(chosen.size, chosen.players)
        assert list(chosen.colors) == PLAYING[chosen.players]
        assert chosen.plies == {8: 60, 6: 32, 4: 12}[chosen.size]
    assert [chosen.name for chosen in all_variants()] == ["8x8-2p", "8x8-3p", "8x8-4p", "6x6-2p", "6x6-3p", "6x6-4p", "4x4-2p"]


BAD_VARIANTS = [(4, 3), (4, 4), (8, 1), (8, 5), (10, 2), (7, 2), (0, 0), (-8, 2), ("8", 2), (None, 2), (8, None), ([8], 2)]


@pytest.mark.parametrize(("size", "players"), BAD_VARIANTS)
def test_other_variants_are_refused(size: int, players: int) -> None:
    with pytest.raises(VariantError, match="allowed are size 8 or 6 with 2, 3 or 4 players, and size 4 with 2 players"):
        variant(size, players)


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_starters_that_do_not_play_are_refused(chosen: Variant) -> None:
    for color in COLORS:
        if color in chosen.colors:
            assert COLORS[starter_color(color, chosen)] == color
        else:
            with pytest.raises(OptionError, match=f"allowed are {', '.join(chosen.colors)}"):
                starter_color(color, chosen)
    with pytest.raises(OptionError, match="'purple'"):
        starter_color("purple", chosen)
