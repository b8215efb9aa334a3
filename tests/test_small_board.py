"""All of 4x4: what is stored is what comes out when it is solved anew, and what plain play by the rules says."""

import numpy as np
import pytest

from rolit_env import Board
from rolit_env.search import small_board as small_board_module
from rolit_env.search.small_board import pack, small_board, solve_small_board, unpack
from rolit_env.search.truth import ILLEGAL, SolvedPositions

BY_TURN = [1, 3, 17, 60, 135, 346, 797, 2135, 4743, 8979, 13037, 11228]
"""Positions after so many turns."""


@pytest.fixture(scope="module", params=["red", "green"])
def starter(request):
    return request.param


@pytest.fixture(scope="module")
def solved(starter):
    return small_board(starter)


def mover_first(board):
    red, yellow, green, blue = board.words
    return (red, green, yellow, blue) if board.color_to_move == "red" else (green, red, yellow, blue)


def minimax(board):
    """Value a position from the mover's view by trying everything."""
    mover = board.color_to_move
    best = -100
    for action in board.legal_moves:
        board.push(action)
        if board.is_over:
            counts = board.counts()
            value = counts["red"] - counts["green"] if mover == "red" else counts["green"] - counts["red"]
        else:
            value = -minimax(board)
        board.pop()
        best = max(best, value)
    return best


def test_what_is_stored_is_what_is_solved():
    stored, anew = small_board(), solve_small_board()
    np.testing.assert_array_equal(stored.words, anew.words)
    np.testing.assert_array_equal(stored.values, anew.values)
    assert stored.words.dtype == np.uint64
    assert stored.values.dtype == np.int8


def test_the_second_player_wins_by_two(solved):
    assert solved.best()[0] == -2


def test_positions_by_turn(solved):
    assert len(solved) == 41_481 == sum(BY_TURN)
    assert np.bincount(12 - solved.empties()).tolist() == BY_TURN
    assert len(np.unique(pack(solved.words))) == len(solved)


def test_the_first_turns_are_those_of_boards(starter, solved):
    boards = [Board(4, starter=starter)]
    for ply in range(6):
        found = solved.words[solved.empties() == 12 - ply]
        assert {tuple(words) for words in found.tolist()} == {mover_first(board) for board in boards}
        after = []
        for board in boards:
            for action in board.legal_moves:
                after.append(board.copy())
                after[-1].push(action)
        boards = list({mover_first(board): board for board in after}.values())


def test_random_rounds_stay_inside_and_values_are_those_of_minimax(starter, solved):
    places = {key: number for number, key in enumerate(pack(solved.words).tolist())}
    rng = np.random.default_rng(0)
    for _ in range(60):
        board = Board(4, starter=starter)
        while not board.is_over:
            number = places[int(pack(np.array([mover_first(board)], np.uint64))[0])]
            legal = np.flatnonzero(solved.values[number] != ILLEGAL)
            assert legal.tolist() == board.legal_moves
            if board.ply == 7:
                assert solved.best()[number] == minimax(board)
            if board.ply == 10:
                for action in legal.tolist():
                    after = board.copy()
                    after.push(action)
                    assert solved.values[number, action] == -minimax(after)
            board.push(int(rng.choice(legal)))


def test_green_s_table_is_another():
    assert not np.array_equal(small_board("red").words, small_board("green").words)


def test_words_come_back_from_keys():
    words = small_board().words
    np.testing.assert_array_equal(unpack(pack(words)), words)


def test_a_saved_table_is_the_one_that_is_loaded(tmp_path, monkeypatch):
    solved = small_board("green")
    solved.save(tmp_path / "some.npz")
    again = SolvedPositions.load(tmp_path / "some.npz")
    assert again.size == 4
    np.testing.assert_array_equal(again.words, solved.words)
    np.testing.assert_array_equal(again.values, solved.values)
    monkeypatch.setattr(small_board_module, "STORED", tmp_path / "some.npz")
    np.testing.assert_array_equal(small_board().words, solved.words)
