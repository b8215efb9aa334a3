"""Text in and out: cell names such as f4, and positions as a diagram.

A cell is its column's letter from the left, then its row's number from the top (red button on top).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rolit_env.errors import ActionError, PositionError, VariantError
from rolit_env.variant import Variant, variant

LETTERS = "RYGB"
EMPTY = "."


def cell_name(action: int, size: int) -> str:
    """Return the name of an action: `cell_name(29, 8) == "f4"`."""
    row, column = divmod(action, size)
    return f"{'abcdefgh'[column]}{row + 1}"


def parse_cell(name: str, size: int) -> int:
    """Return the action of a cell name, or raise `ActionError`."""
    text = name.strip().lower()
    last = cell_name(size * size - 1, size)
    if re.fullmatch(r"[a-h][1-8]", text) and text[0] <= last[0] and text[1] <= last[1]:
        return (int(text[1]) - 1) * size + ord(text[0]) - ord("a")
    raise ActionError(f"{name!r} is no cell of this board; cells run from a1 (top left) to {last} (bottom right)")


def format_position(chosen: Variant, color_to_move: str | None, words: Sequence[int]) -> str:
    """Return a position as text: a line that says who moves, then the diagram. `words` holds one word a colour."""
    size = chosen.size
    turn = f"{color_to_move} to move" if color_to_move else "round over"
    lines = [f"{size}x{size}, {chosen.players} players, {turn}", "  " + " ".join("abcdefgh"[:size])]
    for row in range(size):
        cells = (_letter(words, row * size + column) for column in range(size))
        lines.append(f"{row + 1} {' '.join(cells)}")
    return "\n".join(lines)


def _letter(words: Sequence[int], cell: int) -> str:
    for letter, word in zip(LETTERS, words, strict=True):
        if word >> cell & 1:
            return letter
    return EMPTY


def parse_position(text: str) -> tuple[Variant, str | None, list[int]]:
    """Read what `format_position` wrote: the variant, the colour to move, and one word a colour.

    Raises:
        PositionError: for anything that is no position; the sentence says which line is wrong.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    head = re.fullmatch(r"(\d{1,2})x(\d{1,2}), (\d{1,2}) players, (?:(\w+) to move|round over)", lines[0] if lines else "")
    if not head or head[1] != head[2]:
        raise PositionError("line 1 must read like '8x8, 4 players, red to move' or '8x8, 4 players, round over'")
    try:
        chosen = variant(int(head[1]), int(head[3]))
    except VariantError as error:
        raise PositionError(f"line 1: {error}") from None
    size, mover = chosen.size, head[4]
    if mover is not None and mover not in chosen.colors:
        raise PositionError(f"line 1: {mover!r} does not play in {chosen.name}; allowed are {', '.join(chosen.colors)}")
    if len(lines) != size + 2 or lines[1].split() != list("abcdefgh"[:size]):
        raise PositionError(f"line 2 must name the columns a to {'abcdefgh'[size - 1]}, and {size} rows must follow")
    words = [0, 0, 0, 0]
    for row, line in enumerate(lines[2:]):
        number, cells = line[:1], line[1:].split()
        if number != str(row + 1) or len(cells) != size or not set(cells) <= set(LETTERS + EMPTY):
            raise PositionError(
                f"line {row + 3} must be '{row + 1}' and {size} cells, each one of {' '.join(LETTERS + EMPTY)}"
            )
        for column, letter in enumerate(cells):
            if letter != EMPTY:
                words[LETTERS.index(letter)] |= 1 << row * size + column
    occupied = words[0] | words[1] | words[2] | words[3]
    if (occupied == chosen.geometry.board) != (mover is None):
        raise PositionError("line 1 must say 'round over' when the board is full, and who is to move when it is not")
    return chosen, mover, words
