"""A page's file: whether it may be written, and writing it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kipctl.errors import refusals_reported
from kipctl.report.formats import require_new_or_own
from kipctl.report.html import MARK
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.documents.analysis import NamedComparison, ReportDocument, WrittenPage
    from kipctl.documents.pages import RunPictures
    from kipctl.report.html.parts import Page


def check_html(file: Path) -> Path:
    """Raise UsageError unless a page can be written there: it is new, or an older page of ours."""
    require_new_or_own(file, "--html", MARK, "page of kipctl's")
    return file


def write_page(
    file: Path,
    document: "RunPictures",
    comparisons: "Sequence[NamedComparison]" = (),
    svg: str | None = None,
    result: Report | None = None,
) -> "ReportDocument":
    """Write the page of runs, and its pictures into the folder `svg`. What was written, and its
    answer."""
    from kipctl import __version__
    from kipctl.report.html.answer import answer, doubts, told_by_taps
    from kipctl.report.html.page import page

    written = write_html(file, page(document, comparisons, __version__, result), svg)
    return {
        **written,
        "runs": [run["run"] for run in document["runs"]],
        "answer": " ".join((answer(document), *told_by_taps(document))),
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
