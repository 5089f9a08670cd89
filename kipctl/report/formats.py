"""A report on a stream: as tables for a terminal, plain text, one JSON object, or CSV."""

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import TextIO

from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from kipctl import __version__
from kipctl.report.printable import printable
from kipctl.report.tables import Report, Table


class OutputFormat(StrEnum):
    """`--output`; `auto` is `table` on a terminal and `plain` elsewhere."""

    AUTO = "auto"
    TABLE = "table"
    PLAIN = "plain"
    JSON = "json"
    CSV = "csv"


def write(report: Report, output: OutputFormat, stream: TextIO, is_terminal: bool) -> None:
    """Write the report to the stream in the format asked for."""
    if output is OutputFormat.AUTO:
        output = OutputFormat.TABLE if is_terminal else OutputFormat.PLAIN
    match output:
        case OutputFormat.JSON:
            about = {} if report.cluster is None else {"_cluster": asdict(report.cluster)}
            envelope = {
                "_command": report.command,
                "_version": __version__,
                **about,
                **report.document,
            }
            json.dump(envelope, stream, indent=2)
            stream.write("\n")
        case OutputFormat.CSV:
            _write_csv(report.tables + report.further, stream)
        case OutputFormat.PLAIN:
            _write_plain(report, stream)
        case _:
            _write_table(report, stream, is_terminal)


def _write_csv(tables: tuple[Table, ...], stream: TextIO) -> None:
    """Each table as CSV with raw values; a blank line between tables.

    The first column of a table that has a name is that, under the title "table".
    """
    writer = csv.writer(stream, lineterminator="\n")
    for number, table in enumerate(tables):
        if number:
            stream.write("\n")
        title, name = (("table",), (table.name,)) if table.name else ((), ())
        writer.writerow((*title, *table.titles))
        writer.writerows(
            (*name, *("" if cell is None else cell for cell in row)) for row in table.rows
        )


def _write_plain(report: Report, stream: TextIO) -> None:
    for paragraph in report.opening:
        stream.write(printable(paragraph.first) + "\n")
        stream.writelines(f"  {printable(line)}\n" for line in paragraph.others)
    if report.opening and report.tables:
        stream.write("\n")
    for number, whole in enumerate(report.tables):
        table = whole.for_people
        if number:
            stream.write("\n")
        if table.title:
            stream.write(printable(table.title) + "\n")
        if table.rows:
            _write_columns(table, stream)
        stream.writelines(printable(note) + "\n" for note in table.notes)
    stream.writelines(line + "\n" for line in _last_lines(report))


def _last_lines(report: Report) -> Iterator[str]:
    if report.cluster is not None and report.tables:
        yield f"Cluster: {report.cluster}."
    yield from map(printable, report.closing)


def _write_columns(table: Table, stream: TextIO) -> None:
    lines = [table.titles]
    lines += [tuple(table.text(i, cell) for i, cell in enumerate(row)) for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [table.is_right(i) for i in range(len(widths))]
    for line in lines:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        stream.write("  ".join(cells).rstrip() + "\n")


def _write_table(report: Report, stream: TextIO, is_terminal: bool) -> None:
    # Off a terminal nothing may be cut, so the page is as wide as the widest table.
    console = Console(file=stream, width=None if is_terminal else 10_000, highlight=False)
    with console.capture() as drawing:
        for paragraph in report.opening:
            console.print(Text(printable(paragraph.first), paragraph.tone.value))
            for line in paragraph.others:
                console.print(Padding(Text(printable(line)), (0, 0, 0, 2), expand=False))
        if report.opening and report.tables:
            console.print()
        for part in _drawn(report.tables):
            console.print(part)
        for line in _last_lines(report):
            console.print(Text(line), soft_wrap=True)
    # Not written by rich: it ends the process when the reader of a pipe has gone.
    stream.write(drawing.get())


def _drawn(tables: tuple[Table, ...]) -> Iterator[RenderableType]:
    for number, whole in enumerate(tables):
        table = whole.for_people
        if number:
            yield Text()
        if table.rows:
            drawn = RichTable(
                title=Text(printable(table.title)), box=box.ROUNDED, title_justify="left"
            )
            for i, title in enumerate(table.titles):
                side: JustifyMethod = "right" if table.is_right(i) else "left"
                # On a narrow terminal a cell takes several lines; nothing is left out.
                drawn.add_column(Text(title), justify=side, overflow="fold")
            for row in table.rows:
                drawn.add_row(*(Text(table.text(i, cell, ",")) for i, cell in enumerate(row)))
            yield drawn
        elif table.title:
            yield Text(printable(table.title))
        yield from map(Text, map(printable, table.notes))
