"""Where `kipctl report` writes its page: in a new file, or in place of an older page."""

from pathlib import Path

import pytest

from kipctl.errors import UsageError
from kipctl.report.html import MARK
from kipctl.report.html.file import check_html


def test_a_page_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    page, notes = tmp_path / "page.html", tmp_path / "notes.html"
    assert check_html(page) == page
    page.write_text(f"<!doctype html>\n{MARK}\n<html>")
    assert check_html(page) == page
    notes.write_bytes(b"<p>mine</p>\xff")
    for wrong in (notes, tmp_path, tmp_path / "none" / "page.html"):
        with pytest.raises(UsageError, match="--html"):
            check_html(wrong)
