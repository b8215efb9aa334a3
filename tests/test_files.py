"""Tables between the marks of a file."""

from pathlib import Path

import pytest

from rolit_env.errors import OutputError
from rolit_env.files import fill_in


def test_what_stands_between_two_marks_is_replaced(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end -->\nafter\n")
    for _ in range(2):  # again changes nothing
        fill_in(page, "<!-- a -->\n", "<!-- end -->", "new\n")
        assert page.read_text() == "before\n<!-- a -->\n\nnew\n\n<!-- end -->\nafter\n"


@pytest.mark.parametrize("marks", [("<!-- b -->", "<!-- end -->"), ("<!-- a -->", "<!-- stop -->")])
def test_a_missing_mark_changes_nothing(tmp_path: Path, marks):
    page = tmp_path / "page.md"
    page.write_text("<!-- a --> old <!-- end -->")
    with pytest.raises(OutputError, match="must have the marks"):
        fill_in(page, *marks, "new")
    assert page.read_text() == "<!-- a --> old <!-- end -->"
