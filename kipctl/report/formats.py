"""A report on a stream, as tables for a terminal, plain text, Markdown, a JSON object, or CSV; and
whether a file may be one."""

import csv
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import accumulate, chain
from pathlib import Path
from typing import TextIO

from rich.text import Text

from kipctl.errors import UsageError, refusals_reported
from kipctl.report.layout import for_people, laid_out, wrapped
from kipctl.report.printable import on_one_line
from kipctl.report.tables import Cell, Report, Table
from kipctl.report.terminal import console_on, printable_stream

A_SCREEN = 20
"""Rows of a table that a terminal is shown unasked."""
_SCREEN_LINES = 45
"""Lines of a report that is to fit a screen."""
_LOOKED_AT = 200
"""Characters of a file in which it says what it is."""
_FORMULA = re.compile(r"[=@\t\r]|[+-](?!([\d.]+( to -?[\d.]+)?)?\Z)")
"""What a spreadsheet takes text that begins so for, if it is no number and no range of them."""


class OutputFormat(StrEnum):
    """`--output`; `auto` is `table` on a terminal and `plain` elsewhere.

    `table` leaves out what a terminal has no room for, `wide` has every row and column.
    """

    AUTO = "auto"
    TABLE = "table"
    WIDE = "wide"
    PLAIN = "plain"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"


def write(
    report: Report,
    output: OutputFormat,
    stream: TextIO,
    is_terminal: bool,
    most: int | None = None,
) -> None:
    """Write the report to the stream in the format asked for; plain text has at most so many rows
    of a table, and every row with None. Raises OSError."""
    stream = printable_stream(stream)
    if output is OutputFormat.AUTO:
        output = OutputFormat.TABLE if is_terminal else OutputFormat.PLAIN
    match output:
        case OutputFormat.JSON:
            # All else that is not printable is escaped, as JSON has it.
            stream.write(json.dumps(enveloped(report), indent=2).replace("\x7f", r"\u007f") + "\n")
        case OutputFormat.CSV:
            _write_csv(report.tables + report.further, stream)
        case OutputFormat.MARKDOWN:
            from kipctl.report.markdown import markdown

            stream.write(markdown(report))
        case OutputFormat.PLAIN:
            _write_lines(report, _Paper(thousands="", most=most), stream)
        case OutputFormat.WIDE:
            height = console_on(stream).height if is_terminal else None
            _write_lines(report, _Paper(is_terminal, height=height), stream)
        case _:
            screen = console_on(stream)
            paper = _Paper(True, screen.width, most=A_SCREEN, height=screen.height)
            _write_lines(report, paper if is_terminal else _Paper(), stream)


def enveloped(report: Report) -> dict[str, object]:
    """The document as it is printed; what documents are is declared in `kipctl.documents`."""
    from kipctl import __version__

    about = {} if report.cluster is None else {"_cluster": asdict(report.cluster)}
    return {"_command": report.command, "_version": __version__, **about, **report.document}


def _write_csv(tables: tuple[Table, ...], stream: TextIO) -> None:
    """Each table as CSV with raw values, but for formulas; a blank line between tables.

    The first column, "table", says which table a row is of.
    """
    writer = csv.writer(stream, lineterminator="\n")
    for number, table in enumerate(tables):
        if number:
            stream.write("\n")
        rows = ((table.csv_name, *row) for row in table.rows)
        for row in chain((("table", *table.titles),), rows):
            writer.writerow(map(_csv_cell, row))


def _csv_cell(cell: Cell) -> Cell:
    """Of text that begins as a formula does, the text: a name of a client is never computed."""
    if not isinstance(cell, str):
        return cell
    return ("'" if _FORMULA.match(cell) else "") + on_one_line(cell)


def _write_lines(report: Report, paper: "_Paper", stream: TextIO) -> None:
    if not paper.is_terminal:
        stream.writelines(f"{line.plain}\n" for line in _lines(report, paper))
        return
    with console_on(stream, highlight=False) as console:
        for line in _lines(report, paper):
            console.print(line, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Paper:
    """What a report is written on: its columns of text (None: as many as it takes), what separates
    groups of digits, how many rows of a table there are room for (None: all), and after how many
    lines the first is out of sight (None: never)."""

    is_terminal: bool = False
    width: int | None = None
    thousands: str = ","
    most: int | None = None
    height: int | None = None


def _lines(report: Report, paper: "_Paper") -> Iterator[Text]:
    """The answer, the tables, which cluster it is, and what comes last; before that the first line
    again where it has left the screen."""
    opening, end = list(_opening_lines(report, paper)), list(_end_lines(report, paper))
    tables = list(_tables_lines(report, paper, opening))
    yield from (*opening, *tables)
    is_gone = paper.height is not None and len(opening) + len(tables) + len(end) >= paper.height
    if is_gone and report.opening and tables:
        first = report.opening[0]
        yield from (Text(), *_text(first.first, paper, first.tone.value))
    yield from end


def _tables_lines(report: Report, paper: "_Paper", opening: Sequence[Text]) -> Iterator[Text]:
    # A title alone says nothing: the answer does.
    filled = [table for table in report.tables if table.rows or table.notes or not table.columns]
    tables = [list(_table_lines(table, paper)) for table in filled]
    shown = len(tables)
    if report.fits_screen and paper.most is not None:
        # Two more: which tables are left out, and the cluster.
        room = _SCREEN_LINES - len(opening) - len(report.closing) - 2
        ends = accumulate(len(lines) + 1 for lines in tables)
        shown = max(1, sum(end <= room for end in ends))
    for number, lines in enumerate(tables[:shown]):
        if number or opening:
            yield Text()
        yield from lines
    if left_out := filled[shown:]:
        titles = dict.fromkeys(re.split("[:,]", table.title)[0] for table in left_out)
        yield from _text(f"More with -o wide: {', '.join(titles)}.", paper)


def _end_lines(report: Report, paper: "_Paper") -> Iterator[Text]:
    if report.cluster is not None and report.tables:
        yield from _text(f"Cluster: {report.cluster}.", paper)
    for line in report.closing:  # of which programs read some, where there is no terminal
        yield from _text(line, paper)


def _opening_lines(report: Report, paper: "_Paper") -> Iterator[Text]:
    for paragraph in report.opening:
        yield from _text(paragraph.first, paper, paragraph.tone.value)
        for line in paragraph.others:
            yield from _text(line, paper, indent="  ")


def _text(text: str, paper: "_Paper", style: str = "", indent: str = "") -> Iterator[Text]:
    for line in wrapped(on_one_line(text), paper.width, indent):
        yield Text(line, style)


def _table_lines(whole: Table, paper: "_Paper") -> Iterator[Text]:
    table = for_people(whole, paper.most)
    if table.title:
        yield from _text(table.title, paper, "bold" if table.rows else "")
    drawn = laid_out(table, paper.width, paper.thousands)
    for line in drawn.headings:
        yield Text(line, "bold")
    if drawn.rule and paper.is_terminal:
        yield Text(drawn.rule, "dim")
    yield from map(Text, drawn.rows)
    for note in (*drawn.notes, *table.notes):
        yield from _text(note, paper)


@refusals_reported()
def require_new_or_own(file: Path, option: str, mark: str, kind: str) -> None:
    """Raise UsageError unless the file of this option can be written: it is new, or an older one of
    this kind, as the mark at its beginning says."""
    if file.is_dir():
        raise UsageError(f"{option} {file} is a folder.", "Name a file.")
    if file.exists():
        with file.open(encoding="utf-8", errors="replace") as there:
            if mark not in there.read(_LOOKED_AT):
                raise UsageError(
                    f"{option} {file}: it is there already, and is no {kind}.", "Name another file."
                )
    elif not file.parent.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {file.parent}.", "Make it first.")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"{option} {file} cannot be written: permission denied.")
