"""Draw the README's picture: nothing comes in, `game.png` beside this file goes out.

The middle of a round for four, the same one every time. Run it with: python docs/picture.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pygame

from rolit_env import Board
from rolit_env.render import draw_board

TURNS = 33
SEED = 5


def main() -> None:
    """Play a few random turns and save the board as a PNG."""
    rng = np.random.default_rng(SEED)
    board = Board(size=8, players=4, starter="blue")
    for _ in range(TURNS):
        board.push(rng.choice(board.legal_moves))
    frame = draw_board(board)
    height, width, _ = frame.shape
    picture = pygame.image.frombuffer(frame.tobytes(), (width, height), "RGB")
    pygame.image.save(picture, Path(__file__).with_name("game.png"))


if __name__ == "__main__":
    main()
