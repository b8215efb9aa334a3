"""The seven variants: a size and a number of players come in, colours, start position and round length come out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from rolit_env.errors import OptionError, VariantError
from rolit_env.rules import Geometry, geometry

COLORS = ("red", "yellow", "green", "blue")
"""What a ball can show, clockwise from the top of the board: red 0, yellow 1, green 2, blue 3."""

PLAYING_COLORS = {2: (0, 2), 3: (0, 1, 2), 4: (0, 1, 2, 3)}
"""The colours that have a player, in turn order, for each number of players."""

PLAYERS_BY_SIZE = {8: (2, 3, 4), 6: (2, 3, 4), 4: (2,)}


@dataclass(frozen=True)
class Variant:
    """One way to play Rolit; make it with `variant(size, players)`, which checks.

    Attributes:
        size: Side of the board, n.
        players: Number of players, P.
    """

    size: int
    players: int

    @cached_property
    def name(self) -> str:
        """The short name used for files, such as `8x8-2p`."""
        return f"{self.size}x{self.size}-{self.players}p"

    @cached_property
    def cells(self) -> int:
        """Cells of the board and number of actions, A = n·n."""
        return self.size * self.size

    @cached_property
    def plies(self) -> int:
        """Turns in a round: always n·n − 4."""
        return self.cells - 4

    @cached_property
    def colors(self) -> tuple[str, ...]:
        """The names of the playing colours, clockwise."""
        return tuple(COLORS[color] for color in PLAYING_COLORS[self.players])

    @cached_property
    def geometry(self) -> Geometry:
        """Shifts and masks of the board, in Python ints."""
        return geometry(self.size)

    @cached_property
    def start(self) -> tuple[int, int, int, int]:
        """The start position: a word for each of the four colours."""
        middle = (self.size // 2 - 1) * (self.size + 1)
        return 1 << middle, 1 << middle + 1, 1 << middle + self.size + 1, 1 << middle + self.size

    def slot_colors(self, starter: int) -> tuple[int, ...]:
        """Return the colour held in each of four slots: the seats from the starter on, then the neutral colours, clockwise."""
        playing = PLAYING_COLORS[self.players]
        first = playing.index(starter)
        neutral = tuple(color for color in range(4) if color not in playing)
        return playing[first:] + playing[:first] + neutral


@cache
def _variants() -> dict[tuple[int, int], Variant]:
    return {(size, players): Variant(size, players) for size, counts in PLAYERS_BY_SIZE.items() for players in counts}


def all_variants() -> tuple[Variant, ...]:
    """Return the seven variants, largest board first."""
    return tuple(_variants().values())


def variant(size: int, players: int) -> Variant:
    """Return the variant, or raise `VariantError` naming the seven that exist."""
    try:
        return _variants()[size, players]
    except (KeyError, TypeError):
        raise VariantError(
            f"size={size!r} with players={players!r} is no variant of Rolit; "
            "allowed are size 8 or 6 with 2, 3 or 4 players, and size 4 with 2 players"
        ) from None


def starter_color(starter: str, chosen: Variant) -> int:
    """Return the number of a starting colour, or raise `OptionError` naming those that play."""
    if starter not in chosen.colors:
        raise OptionError(f"starter={starter!r} is no playing colour of {chosen.name}; allowed are {', '.join(chosen.colors)}")
    return COLORS.index(starter)
