"""Settings for all tests."""

import pytest
import torch

# The networks in the tests are tiny: a second thread only waits, and on a busy machine it waits long.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    """Keep the wishes of whoever runs the tests away from the screens in them."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
