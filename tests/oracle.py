"""Rolit once more, slow and plain: cells go in as (row, column), lists of lists come out.

Written from the rules alone, with nothing of `rolit_env`, so that the two can only agree by both being right.
"""

from __future__ import annotations

from fractions import Fraction

COLORS = ["red", "yellow", "green", "blue"]
PLAYING = {2: ["red", "green"], 3: ["red", "yellow", "green"], 4: ["red", "yellow", "green", "blue"]}
VARIANTS = [(8, 2), (8, 3), (8, 4), (6, 2), (6, 3), (6, 4), (4, 2)]
DIRECTIONS = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]

Cell = tuple[int, int]


def cell_name(cell: Cell) -> str:
    """Name a cell: its column's letter, then its row's number from the top."""
    row, column = cell
    return "abcdefgh"[column] + "12345678"[row]


def named_cell(name: str) -> Cell:
    """Return the cell with this name."""
    return "12345678".index(name[1]), "abcdefgh".index(name[0])


class Oracle:
    """A round of Rolit. `grid[row][column]` holds a colour's name, or None where the cell is empty."""

    def __init__(self, size: int, players: int, starter: str) -> None:
        self.size = size
        self.players = players
        self.starter = starter
        self.playing = PLAYING[players]
        self.turns = 0
        self.grid: list[list[str | None]] = [[None] * size for _ in range(size)]
        middle = size // 2
        self.grid[middle - 1][middle - 1] = "red"
        self.grid[middle - 1][middle] = "yellow"
        self.grid[middle][middle - 1] = "blue"
        self.grid[middle][middle] = "green"

    def to_move(self) -> str:
        """Return the colour whose turn it is: clockwise from the starter."""
        return self.playing[(self.playing.index(self.starter) + self.turns) % self.players]

    def on_board(self, row: int, column: int) -> bool:
        return 0 <= row < self.size and 0 <= column < self.size

    def touches_a_ball(self, row: int, column: int) -> bool:
        for down, right in DIRECTIONS:
            if self.on_board(row + down, column + right) and self.grid[row + down][column + right] is not None:
                return True
        return False

    def rolled(self, row: int, column: int) -> list[Cell]:
        """Return the balls that roll when the colour to move puts a ball on this empty cell, sorted."""
        own = self.to_move()
        balls = []
        for down, right in DIRECTIONS:
            line = []
            at_row, at_column = row + down, column + right
            while self.on_board(at_row, at_column) and self.grid[at_row][at_column] not in (None, own):
                line.append((at_row, at_column))
                at_row, at_column = at_row + down, at_column + right
            if self.on_board(at_row, at_column) and self.grid[at_row][at_column] == own:
                balls.extend(line)
        return sorted(balls)

    def legal(self) -> list[Cell]:
        """Return the legal cells, row by row: those that capture, or all next to a ball when none does."""
        touching = []
        capturing = []
        for row in range(self.size):
            for column in range(self.size):
                if self.grid[row][column] is None and self.touches_a_ball(row, column):
                    touching.append((row, column))
                    if self.rolled(row, column):
                        capturing.append((row, column))
        return capturing or touching

    def play(self, row: int, column: int) -> None:
        """Put a ball of the colour to move on a legal cell and roll what it captures."""
        own = self.to_move()
        for rolled_row, rolled_column in self.rolled(row, column):
            self.grid[rolled_row][rolled_column] = own
        self.grid[row][column] = own
        self.turns += 1

    def over(self) -> bool:
        """Tell whether the board is full."""
        return all(color is not None for row in self.grid for color in row)

    def counts(self) -> dict[str, int]:
        """Return the balls of each colour, players or not."""
        balls = [color for row in self.grid for color in row]
        return {color: balls.count(color) for color in COLORS}

    def leaders(self) -> list[str]:
        """Return the playing colours with the most balls."""
        counts = self.counts()
        most = max(counts[color] for color in self.playing)
        return [color for color in self.playing if counts[color] == most]

    def payoffs(self, kind: str) -> dict[str, Fraction]:
        """Return what the position is worth to each playing colour, exactly, as if the round ended here."""
        counts = self.counts()
        leaders = self.leaders()
        values = {}
        for color in self.playing:
            rivals = [other for other in self.playing if other != color]
            if kind == "win":
                share = Fraction(1, len(leaders)) if color in leaders else Fraction(0)
                # The centre is 1/P; stretched so that winning alone is worth 1.
                values[color] = (share - Fraction(1, self.players)) / (1 - Fraction(1, self.players))
            elif kind == "balls":
                mean = Fraction(sum(counts[other] for other in self.playing), self.players)
                values[color] = (counts[color] - mean) / (self.size * self.size)
            elif kind == "rank":
                beaten = sum(counts[other] < counts[color] for other in rivals)
                beaten_by = sum(counts[other] > counts[color] for other in rivals)
                values[color] = Fraction(beaten - beaten_by, len(rivals))
            else:
                raise AssertionError(kind)
        return values

    def order_seen_by(self, observer: str) -> list[str]:
        """Return all four colours: the observer, the other players in turn order, then the neutral colours."""
        at = self.playing.index(observer)
        return self.playing[at:] + self.playing[:at] + [color for color in COLORS if color not in self.playing]

    def planes(self, order: list[str]) -> list[list[list[int]]]:
        """Return one 0/1 board for each colour in `order`."""
        return [[[int(shown == color) for shown in row] for row in self.grid] for color in order]

    def text(self) -> str:
        """Return the position as people read it."""
        turn = "round over" if self.over() else f"{self.to_move()} to move"
        lines = [f"{self.size}x{self.size}, {self.players} players, {turn}"]
        lines.append("  " + " ".join("abcdefgh"[: self.size]))
        for number, row in enumerate(self.grid, start=1):
            lines.append(f"{number} " + " ".join("." if color is None else color[0].upper() for color in row))
        return "\n".join(lines)
