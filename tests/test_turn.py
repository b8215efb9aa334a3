"""A turn of one game: the same on Python ints and compiled, and compiled only when a process plays many."""

import random

import pytest

from rolit_env import turn
from rolit_env.board import Board
from rolit_env.turn import TurnPlayer
from rolit_env.variant import COLORS
from tests.oracle import PLAYING, VARIANTS, Oracle


def words_of(oracle: Oracle) -> tuple[int, ...]:
    cells = [color for row in oracle.grid for color in row]
    return tuple(sum(1 << cell for cell, found in enumerate(cells) if found == color) for color in COLORS)


def play_rounds(player: TurnPlayer, size: int, players: int, count: int) -> None:
    """Play random rounds beside the oracle, comparing every turn."""
    for seed in range(count):
        rng = random.Random(seed)
        oracle = Oracle(size, players, rng.choice(PLAYING[players]))
        while not oracle.over():
            mover, words = COLORS.index(oracle.to_move()), words_of(oracle)
            row, column = rng.choice(oracle.legal())
            oracle.play(row, column)
            after, legal = player.play(row * size + column, *words, mover, COLORS.index(oracle.to_move()))
            assert after == words_of(oracle)
            assert legal == sum(1 << row * size + column for row, column in oracle.legal())


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_turns_on_ints_are_those_of_the_oracle(size: int, players: int) -> None:
    play_rounds(TurnPlayer(size), size, players, 3)


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_compiled_turns_are_those_of_the_oracle(size: int, players: int) -> None:
    player = TurnPlayer(size)
    player.compile()
    play_rounds(player, size, players, 3)


def test_many_turns_go_over_to_the_compiled_turn_and_few_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "WARM_UP", 30)
    player = TurnPlayer(4)
    monkeypatch.setattr("rolit_env.board.turn_player", {4: player}.__getitem__)
    compiled = []
    monkeypatch.setattr(player, "compile", lambda: compiled.append(True) or TurnPlayer.compile(player))
    rng = random.Random(0)
    for number in range(1, 4):  # rounds of 12 turns
        board, oracle = Board(4), Oracle(4, 2, "red")
        while not board.is_over:
            cell = rng.choice(board.legal_moves)
            board.push(cell)
            oracle.play(*divmod(cell, 4))
            assert board.words == words_of(oracle)
        assert compiled == [True] * (number == 3)
