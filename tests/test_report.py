"""Reports: all of them say the same, the page stands alone, and anybody can read it."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rolit_env import cli
from rolit_env.report import page, screen, write_reports
from rolit_env.report.words import interval
from rolit_env.standings import make_standings
from rolit_env.tournament import Settings, find_lines, load_settings, play_tournament, read_config
from rolit_env.tournament.folder import sort_lines
from tests.commands import refused

ODD = 'a <b> & "c"'
"""A name that a page must not take for anything else."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("report")
    agents = {"chance": "random", ODD: "greedy", "place": "positional", "[bold]": "random"}
    play_tournament(Settings(agents, 40, size=6, players=3), path)
    return path


def shown(standings: Any, width: int = 200) -> str:
    console = Console(width=width, record=True, file=StringIO(), highlight=False, markup=False, emoji=False)
    console.print(screen(standings))
    return console.export_text()


class Reader(HTMLParser):
    """Keeps what a page holds, and complains about elements that are not closed."""

    VOID = ("meta", "br", "path", "wbr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))
        if {"td", "th"} & set(self.open) and self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_files_agree_with_the_standings(folder: Path) -> None:
    standings = make_standings(folder)
    paths = write_reports(standings, folder)
    assert [path.name for path in paths] == ["report.csv", "report.json", "report.html"]
    content = json.loads(paths[1].read_text())
    names = [agent["name"] for agent in content["agents"]]
    assert names[0] == "place"
    assert sorted(names) == sorted(standings.settings.names)
    assert content["rounds"] == standings.rounds == 40 * 6 * 4
    for agent in content["agents"]:
        at = standings.settings.names.index(agent["name"])
        assert agent["rating"] == standings.ratings.rating[at]
        assert agent["win_share"] == standings.win_share[at]
        assert agent["by_seat"] == standings.by_seat[at].tolist()
        assert sum(agent["margins"].values()) == 40 * 6 * 3
        assert sum(int(margin) * rounds for margin, rounds in agent["margins"].items()) < 40 * 6 * 3 * 36
    assert content["ahead"][0][0] is None
    assert content["ahead"][0][1] + content["ahead"][1][0] == pytest.approx(1)
    rows = list(csv.DictReader(paths[0].open(newline="")))
    assert [row["agent"] for row in rows] == names
    for row, agent in zip(rows, content["agents"], strict=True):
        assert float(row["win_share"]) == pytest.approx(agent["win_share"], rel=1e-5)
        assert float(row["high"]) == pytest.approx(agent["high"], rel=1e-5)
        assert float(row["seat_3"]) == pytest.approx(agent["by_seat"][2], rel=1e-5)
        assert row["description"] == agent["description"]


def test_the_page_has_all_of_it_and_needs_nothing_else(folder: Path) -> None:
    standings = make_standings(folder)
    text = page(standings, folder)
    reader = read(text)
    assert reader.elements[0] == ("html", {"lang": "en"})
    for tag, attributes in reader.elements:
        assert tag not in ("script", "link", "img", "iframe", "object", "a")
        assert not {"src", "href", "srcset"} & set(attributes)
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme:dark" in text
    assert ("meta", {"name": "viewport", "content": "width=device-width,initial-scale=1"}) in reader.elements
    ratings, matrix, seats = reader.tables
    names = [standings.settings.names[agent] for agent in standings.order]
    for table in reader.tables:
        assert len({len(row) for row in table}) == 1
    for table in (ratings, matrix, seats[1:]):
        assert [row[0] for row in table[1:]] == [f"{place}\xa0{name}" for place, name in enumerate(names, 1)]
    for row, agent in zip(ratings[1:], standings.order, strict=True):
        assert row[1] == f"{round(standings.ratings.rating[agent])}"
        assert row[2] == interval(standings, agent)
        assert f"{standings.win_share[agent]:.3f}"[1:] in row[5]
    for row, agent in zip(matrix[1:], standings.order, strict=True):
        expected = ["" if other == agent else f"{standings.ahead[agent, other]:.3f}"[1:] for other in standings.order]
        assert [cell[:4] for cell in row[1:]] == expected
    for row, agent in zip(seats[2:], standings.order, strict=True):
        assert [cell[:4] for cell in row[1:]] == [f"{share:.3f}"[1:] for share in standings.by_seat[agent]]


def test_everything_on_the_page_has_words(folder: Path) -> None:
    standings = make_standings(folder)
    reader = read(page(standings, folder))
    pictures = [attributes for tag, attributes in reader.elements if tag == "svg"]
    assert len(pictures) == 4 + 5 * 3 + 4  # intervals, seats, histograms
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"] or "") > 20
    captions = [text for tag, text in reader.texts if tag == "caption"]
    assert len(captions) == len(reader.tables) == 3
    heads = [attributes for tag, attributes in reader.elements if tag == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in heads)
    for _, attributes in reader.elements:
        if attributes.get("class") == "wide":
            assert (attributes["role"], attributes["tabindex"]) == ("region", "0")
            assert attributes["aria-label"]


def test_recorded_games_are_linked_where_there_are_any(folder: Path, tmp_path: Path) -> None:
    standings = make_standings(folder)
    (tmp_path / "records").mkdir()
    links = [attributes["href"] for tag, attributes in read(page(standings, tmp_path)).elements if tag == "a"]
    assert links == ["records/"]


def test_the_screen_has_a_row_for_each_agent_and_takes_names_as_they_are(folder: Path) -> None:
    standings = make_standings(folder)
    text = shown(standings)
    for place, agent in enumerate(standings.order, 1):
        name = standings.settings.names[agent]
        rows = [line for line in text.splitlines() if f" {place}   {name} " in line]
        assert len(rows) == 1
        assert f"{standings.win_share[agent]:.3f}"[1:] in rows[0]
        assert interval(standings, agent) in rows[0]
    assert "960 rounds: 40 openings" in text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_narrow_screen_has_fewer_figures_but_all_of_each(folder: Path, width: int) -> None:
    standings = make_standings(folder)
    agents = {f"ntuple:models/of-a-long-name-{number}": "random" for number in range(4)}
    for settings in (standings.settings, replace(standings.settings, agents=agents)):
        console = Console(width=width, record=True, file=StringIO())
        console.print(screen(replace(standings, settings=settings), width=width))
        text = console.export_text()
        assert "…" not in text
        for place, agent in enumerate(standings.order, 1):
            (row,) = (line for line in text.splitlines() if re.match(rf" {place}   \S", line))
            share, half = f"{standings.win_share[agent]:.3f}"[1:], f"{standings.interval[agent]:.3f}"[1:]
            assert interval(standings, agent) in row
            assert f"{share} ± {half}" in row
        heading = next(line for line in text.splitlines() if "win share" in line)
        left_out = [name for name in ("openskill", "balls", "ms a move", "by seat") if name not in heading]
        told = re.findall(r"no room for: (.*\S)", text)
        assert told == ([", ".join(left_out)] if left_out else [])
        assert bool(told) == (width < 200)


def test_what_is_odd_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standings = make_standings(folder)
    monkeypatch.setattr(type(standings), "upsets", [(0, 2)])
    monkeypatch.setattr(type(standings), "cycles", [(0, 1, 2)])
    for text in (shown(standings), page(standings, folder)):
        assert "chance is ahead of place" in text
        assert "that of place, and that of chance again" in text


def test_few_rounds_are_reported_too(tmp_path: Path) -> None:
    play_tournament(Settings({"a": "random", "b": "positional"}, 1, size=4, opening_turns=12), tmp_path)
    standings = make_standings(tmp_path)
    write_reports(standings, tmp_path)
    content = json.loads((tmp_path / "report.json").read_text())
    assert content["agents"][0]["interval"] is None
    assert content["agents"][0]["milliseconds"] is None
    assert math.isnan(standings.milliseconds[0])
    assert "unknown" in shown(standings)
    assert "unknown" in (tmp_path / "report.html").read_text()


def test_the_command_makes_it_again_from_the_rounds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(folder)]) == 0
    first = capsys.readouterr().out
    files = {path: path.read_bytes() for path in folder.glob("report.*")}
    for path in files:
        path.unlink()
    assert cli.main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == first
    assert {path: path.read_bytes() for path in folder.glob("report.*")} == files
    assert len(files) == 3


def test_a_tournament_that_ends_meanwhile_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end lines are put in order, in a new file: what was found in the old one is read from the old one."""
    play_tournament(Settings({"a": "random", "b": "greedy", "c": "positional"}, 30, size=4, openings_at_once=4), tmp_path)
    results, expected = tmp_path / "results.jsonl", make_standings(tmp_path).to_dict()
    lines = results.read_bytes().splitlines(keepends=True)

    def find_and_end(*arguments: Any) -> Any:
        places = find_lines(*arguments)
        sort_lines(tmp_path, load_settings(tmp_path))
        return places

    monkeypatch.setattr("rolit_env.standings.find_lines", find_and_end)
    for order in (lines[::-1], [*lines[1:], lines[0]]):
        results.write_bytes(b"".join(order))
        assert make_standings(tmp_path).to_dict() == expected
        assert results.read_bytes() == b"".join(lines)


def test_what_is_no_tournament_is_refused_in_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds no tournament: there is no" in refused(capsys, "report", str(tmp_path))
    assert "holds no tournament: there is no" in refused(capsys, "report", "nowhere")
    (tmp_path / "settings.json").write_text("{")
    assert "can't be read" in refused(capsys, "report", str(tmp_path))
    for text in ("[]", "{}", '{"settings": {}}', '{"settings": []}', '{"settings": {"agents": ["random"], "openings": 3}}'):
        (tmp_path / "settings.json").write_text(text)
        assert "holds no tournament: " in refused(capsys, "report", str(tmp_path))
    (tmp_path / "settings.json").write_bytes((folder / "settings.json").read_bytes())
    assert "no openings yet that all 4 groups have played" in refused(capsys, "report", str(tmp_path))
    (tmp_path / "results.jsonl").write_text("{}\n")
    assert "line 1 of" in refused(capsys, "report", str(tmp_path))
    (tmp_path / "results.jsonl").write_bytes((folder / "results.jsonl").read_bytes())
    good = {"chunk": 0, "group": 0, "seconds": [1, 1, 1], "moves": [1, 1, 1], "all": 3}
    changes = ({"group": 99}, {"chunk": -1}, {"seconds": [1, 1]}, {"moves": [1, "a", 1]}, {"all": "long"}, {"moves": None})
    for text in ("x\n", "[]\n", "{}\n", *(json.dumps(good | change) + "\n" for change in changes)):
        (tmp_path / "timings.jsonl").write_text(text)
        assert "line 1 of" in refused(capsys, "report", str(tmp_path))
    assert "required: DIR" in refused(capsys, "report")


# The standing tables of the documents.


def test_the_documents_show_the_committed_standings(tmp_path: Path) -> None:
    """The script that fills in the tables changes nothing any more, and they are of whole tournaments as configured."""
    root = Path(__file__).parents[1]
    shutil.copytree(root / "docs", tmp_path / "docs")
    subprocess.run([sys.executable, str(tmp_path / "docs" / "standing_tables.py")], check=True, timeout=60, cwd=root)
    page = (root / "docs" / "opponents.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "opponents.md").read_text(encoding="utf-8") == page
    reports = json.loads((root / "docs" / "standings.json").read_text(encoding="utf-8"))
    assert list(reports) == [f"tournament-8x8-{players}p" for players in (2, 3, 4)]
    for name, report in reports.items():
        settings = read_config(root / "configs" / f"{name}.yaml")
        assert {agent["description"] for agent in report["agents"]} == set(settings.agents.values())
        assert (report["rounds"], report["openings"], report["seed"]) == (settings.rounds, settings.openings, settings.seed)
        first = report["agents"][0]
        assert f"| 1 | `{first['description']}` | {first['rating']} | {first['interval']} |" in page
