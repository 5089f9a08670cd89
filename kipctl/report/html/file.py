"""A page's file: whether it may be written, and writing it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kipctl.errors import UsageError, refusals_reported
from kipctl.report.html import MARK
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.documents.analysis import ReportDocument, TitledComparison, WrittenPage
    from kipctl.documents.pages import RunPictures
    from kipctl.report.html.parts import Page

_LOOKED_AT = 200
"""Characters of a file in which the mark of a page stands."""


@refusals_reported()
def check_html(file: Path) -> Path:
    """Raise UsageError unless a page can be written there: it is new, or an older page of ours."""
    if file.is_dir():
        raise UsageError(f"--html {file} is a folder.", "Name a file.")
    if file.exists():
        with file.open(encoding="utf-8", errors="replace") as there:
            if MARK not in there.read(_LOOKED_AT):
                raise UsageError(
                    f"--html {file}: it is there already, and is no page of kipctl's.",
                    "Name another file.",
                )
    elif not file.parent.is_dir():
        raise UsageError(f"--html {file}: there is no folder {file.parent}.", "Make it first.")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"--html {file} cannot be written: permission denied.")
    return file


def write_page(
    file: Path,
    document: "RunPictures",
    comparisons: "Sequence[TitledComparison]",
    svg: str | None = None,
    of: Report | None = None,
) -> "ReportDocument":
    """Write the page of runs, and its pictures into the folder `svg`. What was written, and its
    answer."""
    from kipctl import __version__
    from kipctl.report.html.answer import answer, doubts
    from kipctl.report.html.page import page

    written = write_html(file, page(document, comparisons, __version__, of), svg)
    return {
        **written,
        "runs": [run["run"] for run in document["runs"]],
        "answer": answer(document),
        "doubts": doubts(document),
    }


@refusals_reported()
def write_html(file: Path, drawn: "Page", svg: str | None = None) -> "WrittenPage":
    """Write a page, and its pictures into the folder `svg`: where, and how large."""
    content = drawn.html.encode("utf-8", "replace")
    file.write_bytes(content)
    pictures = []
    if svg is not None:
        folder = Path(svg)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in drawn.pictures.items():
            (folder / f"{name}.svg").write_bytes(text.encode("utf-8", "replace"))
            pictures.append(str(folder / f"{name}.svg"))
    return {"html": str(file), "bytes": len(content), "svg": pictures}
