"""Reports of tournaments: standings come in, a table for the terminal, CSV, JSON and one HTML file go out."""

from __future__ import annotations

from rolit_env.report.files import write_reports
from rolit_env.report.page import page
from rolit_env.report.screen import screen

__all__ = ["page", "screen", "write_reports"]
