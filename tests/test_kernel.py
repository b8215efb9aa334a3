"""The disk cache of compiled kernels notices a change of the rules."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import rolit_env

PROGRAM = """
import numpy as np
from rolit_env.batch import GameBatch
games = GameBatch(1, players=4, starter="red")
games.step(np.array([29]))
print(int(games.legal_mask().sum()))
"""


def test_a_change_of_the_rules_reaches_cached_kernels(tmp_path: Path) -> None:
    package = tmp_path / "rolit_env"
    shutil.copytree(Path(rolit_env.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def legal_after_f4() -> int:
        done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert legal_after_f4() == 14
    assert any(package.rglob("*.nbi")), "the kernels were not cached, so this test shows nothing"
    rules = package / "rules.py"
    text = rules.read_text()
    changed = text.replace("return capturing | (touching", "return (touching")
    assert changed != text
    rules.write_text(changed.replace("* (capturing == 0))", "* (capturing != 0))"))
    assert legal_after_f4() == 0


def test_a_long_compilation_is_announced_once(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def complaints() -> str:
        program = f"from rolit_env import kernel\nkernel.announcement.left = 0.01\n{PROGRAM}"
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stderr

    first, second = complaints(), complaints()
    assert first.splitlines() == ["rolit_env is compiling its loops for this machine; this takes a few seconds, once"]
    assert second == ""


SINGLE_GAMES = """
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    import rolit_env
    board = rolit_env.Board(players=4)
    while not board.is_over:
        board.push(board.legal_moves[0])
    for env in (rolit_env.rolit_v0.env(), rolit_env.rolit_v0.raw_env(6, 3)):
        env.reset(seed=0)
        while not env.last()[2]:
            env.step(int(env.last()[0]["action_mask"].argmax()))
    print(len(compiled.buffer), bool(env.board.outcome()))
    rolit_env.GameBatch(2)
    print(len(compiled.buffer) > 0)
"""


def test_importing_and_single_games_compile_nothing(tmp_path: Path) -> None:
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SINGLE_GAMES]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True", "True"], "the last word is whether compiling would have been noticed"
