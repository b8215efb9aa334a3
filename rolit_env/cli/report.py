"""`rolit report`: the folder of a tournament comes in, its report is printed and written again."""

from __future__ import annotations

import argparse
from pathlib import Path

from rolit_env.cli.parser import Verbs, add_verb
from rolit_env.cli.tournament import show


def add_to(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = add_verb(
        verbs,
        "report",
        run,
        "Make the report of a tournament again, also of one that still goes on.",
        """Prints the tables and writes report.csv, report.json and report.html into the folder.

example: rolit report runs/ladder""",
        board=False,
    )
    verb.add_argument("folder", metavar="DIR", type=Path, help="the folder that rolit tournament played in")


def run(options: argparse.Namespace) -> None:
    """Report on the folder."""
    show(options.folder)
