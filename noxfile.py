"""Sessions for other libraries: tests that train a little, or, with `-- --learn`, whole trainings for the table.

    make test-libraries   # or: .venv/bin/nox -s shared rllib agilerl
    make learn-libraries  # or: .venv/bin/nox -s shared rllib agilerl -- --learn --seconds 300

A session is an environment, because some libraries pin what others have newer. What comes after `--learn` goes to
docs/libraries.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import nox

nox.options.sessions = ["shared", "rllib", "agilerl"]
nox.options.error_on_missing_interpreters = True

TESTS = Path("tests", "libraries")
RLLIB = [TESTS / f"test_{name}.py" for name in ("rllib", "ray_cluster", "ray_tournament", "supersuit")]
AGILERL = [TESTS / "test_agilerl.py"]


@nox.session(venv_backend="none")
def shared(session: nox.Session) -> None:
    """All libraries that live together in .venv, which make has set up."""
    others = [f"--ignore={path}" for path in (*RLLIB, *AGILERL)]
    _run(session, str(Path(".venv", "bin", "python")), [str(TESTS), *others])


@nox.session(venv_backend="venv", reuse_venv=True)
def rllib(session: nox.Session) -> None:
    """RLlib and Ray, which pin gymnasium; and SuperSuit, which only a test wants."""
    _install(session, "constraints-rllib.txt", ["--editable", ".[train,rllib]", "pytest", "supersuit"])
    _run(session, "python", [str(path) for path in RLLIB])


@nox.session(venv_backend="venv", reuse_venv=True)
def agilerl(session: nox.Session) -> None:
    """AgileRL, which pins PettingZoo and tensordict."""
    _install(session, "constraints-agilerl.txt", ["--editable", ".[train,agilerl]", "pytest"])
    _run(session, "python", [str(path) for path in AGILERL])


def _install(session: nox.Session, constraints: str, packages: Sequence[str]) -> None:
    """Install once for each state of what says what to install."""
    said = [Path(path).read_bytes() for path in ("pyproject.toml", constraints, "noxfile.py")]
    wanted = hashlib.sha256(b"\0".join(said)).hexdigest()
    stamp = Path(session.virtualenv.location, ".ready")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    # torch first and alone, as in the Makefile, so that nothing that depends on it chooses another.
    session.install("--quiet", "--constraint", constraints, "torch")
    session.install("--quiet", "--constraint", constraints, *packages)
    stamp.write_text(wanted, encoding="utf-8")


def _run(session: nox.Session, python: str, tests: Sequence[str]) -> None:
    if session.posargs[:1] == ["--learn"]:
        command = [str(Path("docs", "libraries.py")), "learn", session.name, *session.posargs[1:]]
        session.run(python, *command, external=True)
    else:
        environment = {"REQUIRE_LIBRARIES": "1"}
        session.run(python, "-m", "pytest", *tests, *session.posargs, env=environment, external=True)
