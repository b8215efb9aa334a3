"""Pictures of a game: a board comes in, text or an RGB array goes out, and a window shows such arrays."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rolit_env.bits import cells_of
from rolit_env.board import Board
from rolit_env.errors import ActionError, OptionError
from rolit_env.notation import cell_name

if TYPE_CHECKING:
    import pygame

Rgb = tuple[int, int, int]

BALL_RGB: dict[str, Rgb] = {"red": (229, 57, 62), "yellow": (250, 204, 48), "green": (42, 178, 98), "blue": (58, 124, 240)}
TABLE_RGB: Rgb = (28, 32, 40)
CELL_RGB: Rgb = (50, 56, 68)
SOCKET_RGB: Rgb = (40, 45, 55)
TEXT_RGB: Rgb = (158, 166, 181)
BRIGHT_RGB: Rgb = (246, 248, 252)

SMALLEST_CELL_PIXELS = 16
SUPERSAMPLING = 4


def board_text(board: Board, last_move: int | None = None) -> str:
    """Return a board as text: `str(board)` with `*` on the legal cells, and a line that names the last move.

    Args:
        board: The position.
        last_move: The action that led to it; None for the last one pushed on this board.

    Raises:
        ActionError: for a last move off the board, or to a cell without a ball.
    """
    lines = [list(line) for line in str(board).split("\n")]
    for cell in cells_of(board.legal):
        row, column = divmod(cell, board.size)
        lines[2 + row][2 + 2 * column] = "*"
    text = "\n".join("".join(line) for line in lines)
    last = _last_move(board, last_move)
    return text if last is None else f"{text}\n{board.color_at(last)} played {cell_name(last, board.size)}"


def draw_board(board: Board, last_move: int | None = None, cell_pixels: int = 60) -> npt.NDArray[np.uint8]:
    """Draw a board: balls in their colours, dots on the legal cells, a ring around the last move, and the score below.

    The score shows the playing colours in turn order; a bright frame marks who moves and, at the end, who won.

    Args:
        board: The position.
        last_move: The action that led to it; None for the last one pushed on this board.
        cell_pixels: Side of a cell in pixels, 16 or more.

    Returns:
        A fresh uint8 [H, W, 3] array.

    Raises:
        OptionError: for smaller cells, or when pygame-ce is not installed.
        ActionError: for a last move off the board, or to a cell without a ball.
    """
    if not isinstance(cell_pixels, int | np.integer) or cell_pixels < SMALLEST_CELL_PIXELS:
        raise OptionError(f"cell_pixels={cell_pixels!r} can't be drawn; allowed are ints from {SMALLEST_CELL_PIXELS} up")
    pixels = int(cell_pixels)
    last = _last_move(board, last_move)
    frame = _empty_board(board.size, pixels).copy()
    legal = board.legal
    for cell in range(board.variant.cells):
        center = _center(cell, board.size, pixels)
        color = board.color_at(cell)
        if color:
            _blit(frame, _ball(color, round(pixels * 0.8)), center)
        elif legal >> cell & 1:
            _blit(frame, _dot(BALL_RGB[board.color_to_move], max(4, round(pixels * 0.24))), center)
        if cell == last:
            _blit(frame, _ring(round(pixels * 0.93)), center)
    _draw_score(frame, board, pixels)
    rgb = _pygame().surfarray.array3d(frame)
    return np.ascontiguousarray(rgb.transpose(1, 0, 2))


class Window:
    """A window on the screen that shows frames; it opens with the first one. Several can be open at once."""

    def __init__(self, title: str, frames_per_second: int) -> None:
        self._title = title
        self._frames_per_second = frames_per_second
        self._window: Any = None
        self._clock: Any = None

    def show(self, frame: npt.NDArray[np.uint8]) -> None:
        """Show a frame, uint8 [H, W, 3], and wait until it is due. Raises `OptionError` when pygame-ce is missing."""
        pg = _pygame()
        size = frame.shape[1], frame.shape[0]
        if self._window is None:
            pg.display.init()
            self._window = pg.Window(self._title, size)
            self._clock = pg.time.Clock()
        pg.event.pump()
        self._window.get_surface().blit(pg.image.frombuffer(frame.tobytes(), size, "RGB"), (0, 0))
        self._window.flip()
        self._clock.tick(self._frames_per_second)

    def close(self) -> None:
        """Close the window; the next frame would open it again."""
        if self._window is not None:
            self._window.destroy()
            self._window = None


def _pygame() -> ModuleType:
    # Nothing else in the package needs pygame, and training without pictures should not pay for it.
    try:
        import pygame
        import pygame.font
    except ImportError:
        raise OptionError("drawing a board needs pygame-ce; install it with: pip install 'rolit-env[play]'") from None
    return pygame


def _last_move(board: Board, last_move: int | None) -> int | None:
    if last_move is None:
        return board.moves[-1] if board.moves else None
    if board.color_at(last_move) is None:
        raise ActionError(f"last_move={last_move} can't be: no ball lies on {cell_name(last_move, board.size)}")
    return last_move


def _margin(pixels: int) -> int:
    return round(pixels * 0.55)


def _center(cell: int, size: int, pixels: int) -> tuple[int, int]:
    row, column = divmod(cell, size)
    return _margin(pixels) + column * pixels + pixels // 2, _margin(pixels) + row * pixels + pixels // 2


def _blit(frame: pygame.Surface, sprite: pygame.Surface, center: tuple[int, int]) -> None:
    frame.blit(sprite, sprite.get_rect(center=center))


def _mix(first: Rgb, second: Rgb, part: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _text(text: str, height: int, rgb: Rgb) -> pygame.Surface:
    pg = _pygame()
    pg.font.init()
    surface: pygame.Surface = pg.font.Font(None, height).render(text, True, rgb)
    return surface


def _canvas(side: int, rgb: Rgb) -> pygame.Surface:
    """Return a large transparent square to draw on; transparent in `rgb`, so that scaling down leaves no dark fringe."""
    pg = _pygame()
    canvas: pygame.Surface = pg.Surface((side * SUPERSAMPLING,) * 2, pg.SRCALPHA, 32)
    canvas.fill((*rgb, 0))
    return canvas


def _shrink(canvas: pygame.Surface) -> pygame.Surface:
    side = canvas.get_width() // SUPERSAMPLING
    sprite: pygame.Surface = _pygame().transform.smoothscale(canvas, (side, side))
    return sprite


@cache
def _ball(color: str, side: int) -> pygame.Surface:
    """Return a ball lit from the top left: circles from a dark rim to a light spot, each a little smaller."""
    pg = _pygame()
    base = BALL_RGB[color]
    rim, light = _mix(base, (0, 0, 0), 0.35), _mix(base, (255, 255, 255), 0.45)
    canvas = _canvas(side, rim)
    radius = side * SUPERSAMPLING / 2
    circles = 48
    for circle in range(circles):
        part = circle / circles
        shade = _mix(rim, base, part / 0.35) if part < 0.35 else _mix(base, light, (part - 0.35) / 0.65)
        shift = radius * (1 - 0.38 * part)
        pg.draw.circle(canvas, shade, (shift, shift), radius * (1 - part) ** 0.75)
    return _shrink(canvas)


@cache
def _dot(rgb: Rgb, side: int) -> pygame.Surface:
    canvas = _canvas(side, rgb)
    _pygame().draw.circle(canvas, rgb, canvas.get_rect().center, side * SUPERSAMPLING / 2)
    return _shrink(canvas)


@cache
def _ring(side: int) -> pygame.Surface:
    canvas = _canvas(side, BRIGHT_RGB)
    width = max(SUPERSAMPLING, round(side * SUPERSAMPLING * 0.045))
    _pygame().draw.circle(canvas, BRIGHT_RGB, canvas.get_rect().center, side * SUPERSAMPLING / 2, width)
    return _shrink(canvas)


@cache
def _empty_board(size: int, pixels: int) -> pygame.Surface:
    pg = _pygame()
    margin = _margin(pixels)
    board: pygame.Surface = pg.Surface((size * pixels + 2 * margin, size * pixels + 2 * margin + round(pixels * 0.6)), 0, 32)
    board.fill(TABLE_RGB)
    gap = max(1, pixels // 30)
    for cell in range(size * size):
        x, y = _center(cell, size, pixels)
        square = pg.Rect(x - pixels // 2 + gap, y - pixels // 2 + gap, pixels - 2 * gap, pixels - 2 * gap)
        pg.draw.rect(board, CELL_RGB, square, border_radius=pixels // 8)
        _blit(board, _dot(SOCKET_RGB, round(pixels * 0.8)), (x, y))
    for line in range(size):
        middle = margin + line * pixels + pixels // 2
        _blit(board, _text("abcdefgh"[line], round(pixels * 0.42), TEXT_RGB), (middle, margin // 2 + 1))
        _blit(board, _text(str(line + 1), round(pixels * 0.42), TEXT_RGB), (margin // 2 + 1, middle))
    return board


def _draw_score(frame: pygame.Surface, board: Board, pixels: int) -> None:
    pg = _pygame()
    outcome = board.outcome()
    marked = outcome.winners if outcome else (board.color_to_move,)
    counts = board.counts()
    width, height = round(pixels * 1.45), round(pixels * 0.72)
    step = width + round(pixels * 0.2)
    left = (frame.get_width() - step * board.players + step - width) // 2
    top = frame.get_height() - height - round(pixels * 0.22)
    start = board.variant.colors.index(board.starter)
    for seat, color in enumerate(board.variant.colors[start:] + board.variant.colors[:start]):
        plate = pg.Rect(left + seat * step, top, width, height)
        pg.draw.rect(frame, CELL_RGB if color in marked else SOCKET_RGB, plate, border_radius=height // 2)
        if color in marked:
            pg.draw.rect(frame, BRIGHT_RGB, plate, max(1, pixels // 30), border_radius=height // 2)
        _blit(frame, _ball(color, round(pixels * 0.48)), (plate.left + round(pixels * 0.38), plate.centery))
        number = _text(str(counts[color]), round(pixels * 0.5), BRIGHT_RGB if color in marked else TEXT_RGB)
        # Digits have no descenders, so they look centred a little below the middle of their line.
        _blit(frame, number, (plate.left + round(pixels * 0.98), plate.centery + round(pixels * 0.03)))
