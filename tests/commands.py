"""Command lines in the tests' own process: arguments come in, what was complained about comes out."""

import pytest

from rolit_env import cli


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command line that must be refused and return what it complains about."""
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rolit: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "usage:" not in err
    return err
