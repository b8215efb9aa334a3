"""The report as one HTML file."""

from __future__ import annotations

from pathlib import Path

from rolit_env.standings import Standings


def page(standings: Standings, folder: Path) -> str:
    """Return the page."""
    return ""
