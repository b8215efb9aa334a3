"""Tables of a benchmark: what `run_bench` returned comes in, Markdown or tables for a terminal go out."""

from __future__ import annotations

from statistics import median
from textwrap import fill
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Cells = tuple[str, ...]

LINE = 127
"""Length of a line of text in README.md."""

SPEED_HEADINGS = ("name", "what", "cores", "turns/s", "lowest", "highest")
RATIO_HEADINGS = ("how many times as fast", "median", "lowest", "highest", "goal")
SIZE_HEADINGS = ("games side by side", "step, ns a turn", "random, ns a turn", "bytes a game")


def markdown(report: dict[str, Any]) -> str:
    """Return the conditions in a sentence, and the tables of speeds and ratios, for README.md."""
    parts = [
        fill(conditions(report), LINE),
        _markdown_table(SPEED_HEADINGS, speed_cells(report), text_columns=2),
        *notes(report),
    ]
    if report["ratios"]:
        parts.append(_markdown_table(RATIO_HEADINGS, ratio_cells(report)))
    return "\n\n".join(parts) + "\n"


def size_markdown(report: dict[str, Any]) -> str:
    """Return the table of costs by the number of games side by side, for docs/speed.md."""
    return _markdown_table(SIZE_HEADINGS, size_cells(report), text_columns=0) + "\n"


def screen(report: dict[str, Any]) -> RenderableType:
    """Return all of it for a terminal."""
    parts: list[RenderableType] = [Text(conditions(report)), "", _screen_table(SPEED_HEADINGS, speed_cells(report), 2)]
    parts += [Text(note) for note in ("", *notes(report))]
    if report["ratios"]:
        parts += [_screen_table(RATIO_HEADINGS, ratio_cells(report), 1), ""]
    if len(report["settings"]["games"]) > 1 and (cells := size_cells(report)):
        parts.append(_screen_table(SIZE_HEADINGS, cells, 0))
    return Group(*parts)


def conditions(report: dict[str, Any]) -> str:
    """Return what the figures depend on."""
    machine, settings = report["machine"], report["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    commit = machine["commit"]
    where = f", commit {commit[:10]}{' with changes' if commit.endswith('-dirty') else ''}" if commit else ""
    features = ", ".join(machine["features"])
    return (
        f"{machine['processor']}{f' with {features}' if features else ''}, {settings['threads']} of {machine['cores']} cores, "
        f"{machine['system']}; {versions}; rolit-env {report['version']}{where}, {report['date'][:10]}. "
        f"Medians of {settings['repeats']} timings of at least {settings['seconds']:g} s, taken in turns."
    )


def speed_cells(report: dict[str, Any]) -> list[Cells]:
    """Return a line for each row: name, what, cores, median, lowest and highest; of several numbers of games the first."""
    lines: list[Cells] = []
    for row in report["rows"]:
        if lines and lines[-1][0] == row["name"]:
            continue
        rates = row.get("turns_per_second")
        if rates:
            figures: Cells = (_rate(median(rates)), _rate(min(rates)), _rate(max(rates)))
        else:
            figures = ("not installed" if "missing" in row else "failed", "", "")
        lines.append((row["name"], row["title"], str(row["cores"]), *figures))
    return lines


def notes(report: dict[str, Any]) -> list[str]:
    """Return a sentence for each row without figures, which says why."""
    missing = [f"{row['name']} is not installed: {row['missing']}" for row in report["rows"] if "missing" in row]
    return missing + [f"{row['name']} failed: {row['error']}" for row in report["rows"] if "error" in row]


def ratio_cells(report: dict[str, Any]) -> list[Cells]:
    """Return a line for each ratio: what, median, lowest and highest, and what it is meant to be."""
    return [
        (
            ratio["name"],
            _three_digits(ratio["median"]),
            _three_digits(ratio["lowest"]),
            _three_digits(ratio["highest"]),
            f"at least {ratio['at_least']:g}" if "at_least" in ratio else f"at most {ratio['at_most']:g}",
        )
        for ratio in report["ratios"]
    ]


def size_cells(report: dict[str, Any]) -> list[Cells]:
    """Return a line for each number of games: games, median nanoseconds of `step` and `random`, bytes a game."""
    lines = []
    for games in sorted(report["settings"]["games"]):
        rows = {row["name"]: row for row in report["rows"] if row.get("games") == games and "turns_per_second" in row}
        if "step" in rows or "random" in rows:
            costs = [_cost(rows[name]) if name in rows else "" for name in ("step", "random")]
            size = rows["random"]["bytes_per_game"] if "random" in rows else None
            lines.append((f"{games:,}", *costs, f"{size:,.0f}" if size else ""))
    return lines


def _cost(row: dict[str, Any]) -> str:
    return _three_digits(1e9 / median(row["turns_per_second"]))


def _rate(turns_per_second: float) -> str:
    """Write 412 M, 83.1 M or 25,300."""
    rounded = float(f"{turns_per_second:.3g}")
    return f"{_three_digits(rounded / 1e6)} M" if rounded >= 1e6 else _three_digits(rounded)


def _three_digits(number: float) -> str:
    """Write 0.850, 83.1, 412 or 25,300."""
    rounded = float(f"{number:.3g}")
    return f"{rounded:#.3g}" if rounded < 100 else f"{rounded:,.0f}"


def _markdown_table(headings: Cells, lines: list[Cells], text_columns: int = 1) -> str:
    rule = ["---" if column < text_columns else "---:" for column in range(len(headings))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *lines))


def _screen_table(headings: Cells, lines: list[Cells], text_columns: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column, heading in enumerate(headings):
        text = column < text_columns
        table.add_column(heading, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for cells in lines:
        table.add_row(*(Text(cell.replace("`", "")) for cell in cells))
    return table
