"""A report as GitHub-flavoured Markdown, for pull requests: every row, and nothing cut."""

import re
from collections.abc import Iterator

from kipctl.report.printable import printable
from kipctl.report.tables import Paragraph, Report, Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")
_AT_LINE_START = re.compile(r"^(\d+(?=[.)](\s|$))|(?=[#+=-]))")
"""What would begin a list, a heading or an underlining there."""


def markdown(report: Report) -> str:
    """The answer, the tables with their notes, the cluster, and the closing lines."""
    blocks = [
        *map(_paragraph, report.opening),
        *(block for table in report.tables for block in _table(table)),
    ]
    if report.cluster is not None and report.tables:
        blocks.append(_line(f"Cluster: {report.cluster}."))
    blocks += map(_line, report.closing)
    return "".join(f"{block}\n\n" for block in blocks if block).removesuffix("\n")


def _paragraph(paragraph: Paragraph) -> str:
    if not paragraph.others:
        return _line(paragraph.first)
    items = (f"- {_line(text)}" for text in paragraph.others)
    return "\n".join((f"**{_line(paragraph.first)}**", "", *items))


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        yield _line(table.title)
    else:
        if table.title:
            yield f"### {_line(table.title)}"
        sides = ("---:" if table.is_right(i) else "---" for i in range(len(table.columns)))
        rows = (
            (_escaped(table.text(i, cell, ",")) for i, cell in enumerate(row)) for row in table.rows
        )
        lines = (map(_escaped, table.titles), sides, *rows)
        yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    yield from map(_line, table.notes)


def _line(text: str) -> str:
    """A text that stands at the beginning of a line."""
    return _AT_LINE_START.sub(r"\1\\", _escaped(text))


def _escaped(text: str) -> str:
    """A text on one line, in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))
