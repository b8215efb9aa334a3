"""Pictures: text, RGB arrays and windows show the position that the board holds."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pygame
import pytest
from pettingzoo.test import render_test

from rolit_env import Board, render, rolit_v0
from rolit_env.errors import ActionError, OptionError
from rolit_env.notation import parse_cell
from rolit_env.variant import all_variants

VARIANTS = [pytest.param(variant.size, variant.players, id=variant.name) for variant in all_variants()]


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(rolit_v0.raw_env.metadata, "render_fps", 10_000)


def first_legal(env):
    return int(env.observe(env.agent_selection)["action_mask"].argmax())


def random_board(size, players, turns, seed=0):
    rng = np.random.default_rng(seed)
    board = Board(size, players)
    for _ in range(turns):
        board.push(rng.choice(board.legal_moves))
    return board


def pixel(frame, cell, size, pixels=60, offset=(0, 0)):
    """Return the colour in the middle of a cell; the margin is the same on the left and at the top."""
    margin = (frame.shape[1] - size * pixels) // 2
    row, column = divmod(parse_cell(cell, size), size)
    x, y = (margin + line * pixels + pixels // 2 + shift for line, shift in zip((column, row), offset, strict=True))
    return tuple(int(value) for value in frame[y, x])


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_pettingzoo_render_test(size, players):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        render_test(lambda render_mode: rolit_v0.env(size, players, render_mode=render_mode))


# Text


def test_text_of_the_start():
    env = rolit_v0.env(6, 3, starter="red", render_mode="ansi")
    env.reset()
    assert env.render() == (
        "6x6, 3 players, red to move\n"
        "  a b c d e f\n"
        "1 . . . . . .\n"
        "2 . . . . . .\n"
        "3 . . R Y * .\n"
        "4 . . B G . .\n"
        "5 . . * . * .\n"
        "6 . . . . . ."
    )
    env.step(parse_cell("e3", 6))
    assert env.render() == (
        "6x6, 3 players, yellow to move\n"
        "  a b c d e f\n"
        "1 . . . . . .\n"
        "2 . * * * * *\n"
        "3 . * R R R *\n"
        "4 . * B G * *\n"
        "5 . * * * * .\n"
        "6 . . . . . .\n"
        "red played e3"
    )


def test_text_of_a_full_board_and_of_a_given_last_move():
    board = random_board(4, 2, 12)
    text = render.board_text(board)
    assert "round over" in text
    assert "*" not in text
    copied = Board(4)
    copied.set_words(board.words)
    assert "played" not in render.board_text(copied)
    assert render.board_text(copied, board.moves[-1]).split("\n")[-1] == text.split("\n")[-1]


# RGB arrays


@pytest.mark.parametrize(("size", "players"), VARIANTS)
@pytest.mark.parametrize("turns", [0, 1, 12])
def test_every_cell_shows_what_lies_there(size, players, turns):
    board = random_board(size, players, turns)
    frame = render.draw_board(board)
    assert frame.dtype == np.uint8
    assert frame.ndim == 3
    assert frame.shape[2] == 3
    palette = {color: np.array(rgb) for color, rgb in render.BALL_RGB.items()}
    for cell in range(size * size):
        name = f"{'abcdefgh'[cell % size]}{cell // size + 1}"
        seen = pixel(frame, name, size)
        color = board.color_at(cell)
        if color:
            nearest = min(palette, key=lambda known: np.abs(palette[known] - seen).sum())
            assert nearest == color
        elif board.legal >> cell & 1:
            assert seen == render.BALL_RGB[board.color_to_move]
        else:
            assert seen == render.SOCKET_RGB


def test_the_ring_is_around_the_last_move_only():
    board = Board(8, 4)
    at_ring = (0, -27)
    assert pixel(render.draw_board(board), "f4", 8, offset=at_ring) == render.CELL_RGB
    board.push("f4")
    frame = render.draw_board(board)
    bright = [
        name
        for name in (f"{column}{row}" for column in "abcdefgh" for row in range(1, 9))
        if pixel(frame, name, 8, offset=at_ring) == render.BRIGHT_RGB
    ]
    assert bright == ["f4"]
    bare = Board(8, 4)
    bare.set_words(board.words)
    assert np.array_equal(render.draw_board(bare, last_move=parse_cell("f4", 8)), frame)
    assert not np.array_equal(render.draw_board(bare), frame)


def test_the_score_marks_the_mover():
    frames = [render.draw_board(Board(8, 4, starter)) for starter in ("red", "yellow")]
    board_rows = (frames[0].shape[1] + 8 * 60) // 2
    assert not np.array_equal(frames[0][board_rows:], frames[1][board_rows:])
    # The starter is the first of the row and carries the bright frame, in the left half of the picture only.
    for frame in frames:
        bright = np.all(frame[board_rows:] == render.BRIGHT_RGB, axis=2).any(axis=0)
        assert bright[: frame.shape[1] // 2].any()
        assert not bright[frame.shape[1] // 2 :].any()


def test_frames_are_fresh_copies():
    env = rolit_v0.env(6, 4, render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(env.render(), kept)
    again = env.render()
    env.step(first_legal(env))
    assert not np.array_equal(env.render(), kept)
    assert np.array_equal(again, kept)
    assert again.flags.c_contiguous
    assert again.flags.writeable


@pytest.mark.parametrize("pixels", [16, 33, 100])
def test_cell_pixels_scale_the_picture(pixels):
    frame = render.draw_board(Board(6, 4), cell_pixels=pixels)
    assert 6 * pixels < frame.shape[1] < 8 * pixels
    assert pixel(frame, "c3", 6, pixels)[0] > 200


@pytest.mark.parametrize("pixels", [15, 0, -60, 60.0, "60", None])
def test_bad_cell_pixels(pixels):
    with pytest.raises(OptionError, match="16 up"):
        render.draw_board(Board(), cell_pixels=pixels)


@pytest.mark.parametrize(("last_move", "message"), [(-1, "0 to 63"), (64, "0 to 63"), (0, "no ball lies on a1")])
@pytest.mark.parametrize("show", [render.draw_board, render.board_text])
def test_bad_last_moves(show, last_move, message):
    with pytest.raises(ActionError, match=message):
        show(Board(), last_move)


def test_rgb_array_needs_no_screen():
    program = (
        "from rolit_env import rolit_v0; env = rolit_v0.env(render_mode='rgb_array'); env.reset(); env.render();"
        "import pygame; print(pygame.display.get_init(), pygame.mixer.get_init())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False None"


@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_without_pygame_the_error_names_the_way_out(monkeypatch, mode):
    env = rolit_v0.env(render_mode="ansi")
    env.reset()
    monkeypatch.setattr(env.unwrapped, "render_mode", mode)
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(OptionError, match=r"pip install 'rolit-env\[play\]'"):
        env.render()


def test_render_without_a_mode_warns():
    env = rolit_v0.env()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode is None"):
        assert env.render() is None


# Windows


def test_the_window_shows_the_frame_after_each_step():
    env = rolit_v0.env(4, render_mode="human")
    env.reset(seed=0)
    for _ in range(2):
        surface = env.unwrapped._window._window.get_surface()
        shown = pygame.surfarray.array3d(surface).transpose(1, 0, 2)
        assert np.array_equal(shown, render.draw_board(env.board))
        env.step(first_legal(env))
    env.close()
    env.close()
    assert env.unwrapped._window is None


def test_a_window_stays_with_the_original():
    env = rolit_v0.env(4, render_mode="human")
    env.reset(seed=0)
    window = env.unwrapped._window
    for twin in (env.clone(), copy.deepcopy(env), env.unwrapped.clone()):
        assert twin.unwrapped._window is None
        assert twin.render_mode == "human"
        twin.step(first_legal(twin))
        assert twin.unwrapped._window is not window
        twin.close()
    assert env.unwrapped._window is window
    env.step(first_legal(env))
    env.close()


def test_the_readme_picture_can_be_drawn(tmp_path):
    docs = Path(__file__).parents[1] / "docs"
    script = shutil.copy(docs / "picture.py", tmp_path)
    subprocess.run([sys.executable, script], check=True, capture_output=True)
    drawn = pygame.image.load(tmp_path / "game.png")
    assert drawn.get_size() == pygame.image.load(docs / "game.png").get_size()
    assert 480 <= drawn.get_width() <= 640
