"""Compiled kernels and their disk cache: fresh, whole, out of the way of others, and no trouble where they can't be had."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import rolit_env
from rolit_env import Board

PROGRAM = """
import numpy as np
from rolit_env.batch import GameBatch
games = GameBatch(1, players=4, starter="red")
games.step(np.array([29]))
print(int(games.legal_mask().sum()))
"""


def run(program: str, cache: Path, **settings: str) -> str:
    """Run a program in a process of its own and return what it prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **settings}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


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


def test_a_change_of_the_rules_after_the_import_does_not_reach_the_cache_by_the_wrong_name(tmp_path: Path) -> None:
    package = tmp_path / "rolit_env"
    shutil.copytree(Path(rolit_env.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    rules = package / "rules.py"
    text = rules.read_text()
    changed = text.replace("return capturing | (touching", "return (touching").replace("(capturing == 0)", "(capturing != 0)")
    assert changed != text
    edit = f"import rolit_env, pathlib; pathlib.Path({str(rules)!r}).write_text({changed!r})\n"
    for program, legal in ((edit + PROGRAM, "14"), (PROGRAM, "0")):  # the first process knows the old rules only
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == legal


def test_a_kernel_outside_the_package_is_compiled_anew_when_its_file_changes(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    for added in ("1", "20"):
        module.write_text(f"from rolit_env.kernel import kernel\n@kernel\ndef add(number):\n    return number + {added}\n")
        program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mine; print(mine.add(3))"
        assert run(program, tmp_path / "cache").strip() == str(3 + int(added))


LEGAL_CELLS = "from rolit_env import GameBatch; print([int(GameBatch(1, size=n, starter='red').legal[0]) for n in (8, 6, 4)])"


def test_a_cache_whose_files_got_mixed_up_or_cut_is_as_good_as_none(tmp_path: Path) -> None:
    right = str([Board(size).legal for size in (8, 6, 4)])
    assert run(LEGAL_CELLS, tmp_path).strip() == right
    codes = sorted(tmp_path.rglob("*find_legal-*.nbc"))
    assert len(codes) == 3
    # What two processes leave that choose the same file at once.
    codes[0].write_bytes(codes[1].read_bytes())
    assert run(LEGAL_CELLS, tmp_path).strip() == right
    codes[2].write_bytes(codes[2].read_bytes()[:100])
    assert run(LEGAL_CELLS, tmp_path).strip() == right
    (index,) = tmp_path.rglob("*find_legal-*.nbi")
    index.write_bytes(b"")
    assert run(LEGAL_CELLS, tmp_path).strip() == right
    assert index.stat().st_size > 0, "a damaged index must be begun anew"


def test_a_full_disk_stops_nothing(tmp_path: Path) -> None:
    full = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    assert run(full + LEGAL_CELLS, tmp_path) == run(LEGAL_CELLS, tmp_path / "other")


MANY_TURNS = """
import random
from rolit_env import Board
from rolit_env.turn import WARM_UP
turns, rng = 0, random.Random(0)
while turns < WARM_UP + 100:
    board = Board(players=3)
    while not board.is_over:
        board.push(rng.choice(board.legal_moves))
        turns += 1
print(board.counts())
"""


def test_where_numba_may_not_compile_a_board_stays_with_ints(tmp_path: Path) -> None:
    assert run(MANY_TURNS, tmp_path, NUMBA_DISABLE_JIT="1") == run(MANY_TURNS, tmp_path)


def test_what_others_compile_is_let_alone(tmp_path: Path) -> None:
    program = """
import rolit_env
from numba import int64
from numba.experimental import jitclass  # its constructors belong to no module
@jitclass([("number", int64)])
class Pair:
    def __init__(self, number):
        self.number = number
print(Pair(3).number, rolit_env.kernel.announcement._depth)
"""
    assert run(program, tmp_path).split() == ["3", "0"]


def test_a_long_compilation_is_announced_once(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def complaints() -> str:
        program = f"from rolit_env import kernel\nkernel.announcement.left = 0.01\n{PROGRAM}"
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stderr

    first, second = complaints(), complaints()
    assert first.splitlines() == ["rolit_env is compiling its loops for this machine, which takes a few seconds"]
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
