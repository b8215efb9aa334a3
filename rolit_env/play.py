"""A round for a person in the terminal: a board, agents and typed cells come in, screens of text come out.

Screens scroll and never clear, so that a round can be read back, piped, and driven by a script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolit_env.agents.base import Agent, blaming
from rolit_env.batch import GameBatch
from rolit_env.board import Board
from rolit_env.errors import OptionError, RolitError
from rolit_env.notation import LETTERS, cell_name, parse_cell
from rolit_env.variant import COLORS, Variant

PALETTE = dict(zip(COLORS, ("#e5484d", "#d9a514", "#2aa84a", "#4a86ff"), strict=True))
"""Screen colours of the balls, of middling brightness: readable on black and on white."""

HELP = """\
Type a cell: the column's letter, then the row's number, such as {example}.
Your ball goes next to one that lies there already. In all eight directions,
balls of other colours between it and the next ball of yours roll to yours.
When some cell rolls a ball, you must take such a cell; {legal} marks what is legal.
The round ends when the board is full, and the most balls win.
  Enter  show the board again      ?  show this help      q  leave"""


def seat_agents(agents: Sequence[Agent], person: str, chosen: Variant) -> dict[str, Agent]:
    """Return who plays each colour but the person's: one agent for all, or one for each, clockwise from the person.

    Raises:
        OptionError: for a colour that does not play, or another number of agents.
        VariantError: when an agent can't play the variant.
    """
    colors = chosen.colors
    if person not in colors:
        raise OptionError(f"color={person!r} is no playing colour of {chosen.name}; allowed are {', '.join(colors)}")
    others = chosen.players - 1
    if len(agents) not in {1, others}:
        allowed = "1 agent" if others == 1 else f"1 agent for all the other seats, or {others}"
        raise OptionError(f"{len(agents)} agents don't fit {chosen.name} and a person; allowed is {allowed}")
    for agent in agents:
        agent.check_variant(chosen)
    after = colors.index(person) + 1
    clockwise = colors[after:] + colors[: after - 1]
    return {color: agents[turn % len(agents)] for turn, color in enumerate(clockwise)}


def play_round(
    board: Board,
    person: str,
    agents: Mapping[str, Agent],
    *,
    rng: np.random.Generator,
    console: Console,
    read: Callable[[str], str] = input,
    after_turn: Callable[[float], None] | None = None,
) -> bool:
    """Play a round to its end on `board`, asking the person for cells, and return True; False when the person left.

    Args:
        board: Where the round begins; it is played on in place.
        person: The person's colour.
        agents: Who plays each of the other colours (see `seat_agents`).
        rng: Where the agents' chance comes from.
        console: Where screens go. Without colour, balls are letters.
        read: Shows a prompt and returns a typed line; raises EOFError when there are no more.
        after_turn: Called after each turn with the seconds that it took.

    Raises:
        KeyboardInterrupt: when the person presses Ctrl-C, after a word of goodbye.
    """
    fresh: list[int] = []  # cells of the balls placed since the person last saw the board
    while not board.is_over:
        color, start = board.color_to_move, time.perf_counter()
        if color == person:
            show_board(board, person, agents, fresh, console)
            fresh = []
            if not board.rolled_by(board.legal_moves[0]):
                console.print("Nothing can be rolled, so any cell next to a ball is legal.")
            move = _ask(board, person, agents, console, read)
            if move is None:
                return False
        else:
            with blaming(agents[color]):
                move = int(agents[color].act(GameBatch.from_boards([board]), rng)[0])
                board.copy().push(move)  # which says what is wrong with a move before it is shown
        console.print(describe_move(board, move, None if color == person else agents[color].name))
        board.push(move)
        fresh.append(move)
        if after_turn:
            after_turn(time.perf_counter() - start)
    show_board(board, person, agents, fresh, console)
    console.print(verdict(board, person), style="bold")
    return True


def show_board(board: Board, person: str, agents: Mapping[str, Agent], fresh: Sequence[int], console: Console) -> None:
    """Print the board as the person sees it, with `fresh` balls in brackets."""
    show_position(board, {person: "you"} | {color: agent.name for color, agent in agents.items()}, fresh, console)


def show_position(board: Board, names: Mapping[str, str], fresh: Sequence[int], console: Console) -> None:
    """Print a board, with `fresh` balls in brackets, beside the ball counts of every colour and who plays it, by `names`."""
    size = board.size
    ball, legal, empty = _marks(console)
    diagram = Text("   " + "".join(f" {column} " for column in "abcdefgh"[:size]), style="dim", no_wrap=True)
    for row in range(size):
        diagram.append(f"\n {row + 1} ")
        for cell in range(row * size, (row + 1) * size):
            color = board.color_at(cell)
            if color is not None:
                left, right = "[]" if cell in fresh else "  "
                diagram.append(left, "not dim").append(ball[color], f"not dim {PALETTE[color]}").append(right, "not dim")
            elif board.legal >> cell & 1:
                diagram.append(f" {legal} ", f"not dim {PALETTE[board.color_to_move]}")
            else:
                diagram.append(f" {empty} ")

    mover = None if board.is_over else board.color_to_move
    side = Text("Round over\n" if mover is None else f"Turn {board.ply + 1} of {board.variant.plies}\n")
    for color, count in board.counts().items():
        who = names.get(color, "nobody (neutral)")
        side.append(f"\n{'>' if color == mover else ' '} ")
        side.append(ball[color], PALETTE[color]).append(f" {color:<6} {count:>2}  {who}")
    side.append(f"\n\n{'' if board.is_over else f'{legal} legal   '}[{ball[next(iter(names))]}] new", "dim")

    screen = Table.grid(padding=(0, 4))
    screen.add_column(min_width=3 + 3 * size)  # on a narrow screen the names shrink, never the board
    screen.add_column()
    screen.add_row(diagram, side)
    console.print()
    console.print(screen)


def _marks(console: Console) -> tuple[dict[str, str], str, str]:
    """Return what to draw for the ball of each colour, a legal cell and an empty cell."""
    if console.no_color or console.color_system is None or console.options.ascii_only:
        return dict(zip(COLORS, LETTERS, strict=True)), "+", "."
    return dict.fromkeys(COLORS, "●"), "○", "·"


def _ask(board: Board, person: str, agents: Mapping[str, Agent], console: Console, read: Callable[[str], str]) -> int | None:
    """Return the legal action the person types; None when the person leaves."""
    goodbye = f"You leave at turn {board.ply + 1} of {board.variant.plies}. Until next time!"
    while True:
        try:
            typed = read("Your cell: ").strip()
        except EOFError:
            console.print(f"\n{goodbye}")
            return None
        except KeyboardInterrupt:
            console.print(f"\n{goodbye}")
            raise
        if typed in {"q", "Q"}:
            console.print(goodbye)
            return None
        if typed == "?":
            example = cell_name(board.legal_moves[0], board.size)
            console.print(HELP.format(example=example, legal=_marks(console)[1]))
        elif not typed:
            show_board(board, person, agents, [], console)
        else:
            try:
                board.rolled_by(typed)
                return parse_cell(typed, board.size)
            except RolitError as error:
                console.print(f"{error}.")


def describe_move(board: Board, move: int, agent: str | None) -> Text:
    """Return what a move is about to do, in words; the person has no agent's name."""
    color, rolled = board.color_to_move, board.rolled_by(move)
    line = Text("You") if agent is None else Text(color.capitalize(), PALETTE[color]).append(f" ({agent})", "not bold default")
    balls = "nothing" if not rolled else "1 ball" if len(rolled) == 1 else f"{len(rolled)} balls"
    where = f": {' '.join(cell_name(cell, board.size) for cell in rolled)}" if rolled else ""
    play, roll = ("play", "roll") if agent is None else ("plays", "rolls")
    return line.append(f" {play} {cell_name(move, board.size)} and {roll} {balls}{where}", "default")


def verdict(board: Board, person: str | None = None) -> str:
    """Return who has won a finished round, in words."""
    outcome = board.outcome()
    assert outcome is not None
    winners, counts = outcome.winners, outcome.counts
    most = counts[winners[0]]
    rest = ", ".join(f"{color} {counts[color]}" for color in board.variant.colors if color not in winners)
    if len(winners) > 1:
        result = f"{' and '.join(winners).capitalize()} share the round with {most} balls each"
    else:
        result = f"{'You win' if winners[0] == person else f'{winners[0].capitalize()} wins'} the round with {most} balls"
    return f"{result}{f'; {rest}' if rest else ''}."
