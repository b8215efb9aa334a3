"""README tells the truth: its Python runs, its commands exist, its map names every module, its figures are measured."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rolit_env import cli, make_agent, play_rounds
from rolit_env.released import released_files
from training import export as export_module
from training import speed
from training import train as train_module
from training.config import OPPONENTS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    for block in blocks("sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code):
    exec(compile(code, "README.md", "exec"), {})


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_commands_are_understood(words):
    """Parse every command with its own parser, which reads the configs, and look for the other files it names."""
    if words[0] == "torchrun":
        assert words[1:5] == ["--nproc-per-node", "2", "-m", "--"]
        words = ["python", "-m", *words[5:]]
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    elif words[0] == "rolit":
        cli.build_parser().parse_args(words[1:])
    elif words[:3] == ["python", "-m", "training.train"]:
        parser = train_module.COMMAND.resume_parser() if "--resume" in words else train_module.COMMAND.parser()
        parser.parse_args([str(ROOT / word) if word.startswith("configs/") else word for word in words[3:]])
    elif words[:3] == ["python", "-m", "training.speed"]:
        speed.parser().parse_args(words[3:])
    else:
        assert words[:3] == ["python", "-m", "training.export"]
        export_module.parser().parse_args(words[3:])


def test_there_is_something_to_check():
    assert len(blocks("python")) >= 1
    assert len(list(commands())) >= 6


def test_map_names_every_module():
    for package in ("rolit_env", "training"):
        for path in (ROOT / package).glob("*.py"):
            if not path.name.startswith("__"):
                assert f"`{path.name}`" in README, path


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_the_package_says_it_is_typed():
    assert (ROOT / "rolit_env" / "py.typed").exists()


def test_importing_the_package_brings_nothing_heavy():
    program = "import rolit_env, sys; assert not {'torch','pygame','onnxruntime','matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


RELEASED = list(released_files().values())


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.name)
def test_released_files_play_as_their_cards_say(path):
    """A short form: the file's own first rounds lie within the card's interval, widened for their smaller number."""
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    agent, (size, players) = make_agent(str(path)), card["variant"].values()
    for name in OPPONENTS:  # not those that search, which take long
        result = card["results"]["against"][name]
        played = play_rounds([agent, make_agent(name)], 400, size=size, players=players, seed=1)
        allowed = 1.7 * (played.interval[0] + result["interval"][0])  # 3.3 standard errors of both
        assert abs(played.win_share[0] - result["win_share"][0]) < allowed + 0.01, name
