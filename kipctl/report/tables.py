"""What a command has to say, before it is decided how: an answer, tables, a JSON document."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from kipctl.counts import format_bytes
from kipctl.next_step import Command, NextStep, Typing
from kipctl.protocol.address import in_brief
from kipctl.report.printable import on_one_line

Cell = str | int | float | bool | None
_Row = TypeVar("_Row", bound=Mapping[str, object])
Source = str | Callable[[_Row], Cell]
"""Where a row's cell is in its document ("wait_ms.p50": within `wait_ms`), or how it is made."""
Columns = Mapping["Column | str", Source[_Row]]
"""From the left, what each is called and where it is."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title, with its unit ("p99 ms"), and the decimals its floats are shown with."""

    title: str
    digits: int = 1
    right: bool = False
    """Align to the right even where a cell is no number."""
    is_bytes: bool = False
    """Of numbers of bytes, which a person reads each in the unit of its size."""
    detail: bool = False
    """Left out before others where a terminal has no room."""
    heads: bool = False
    """Of a first column: where a terminal has no room, a value stands once, above its rows."""
    words: Callable[[str], str] = on_one_line
    """What a person reads instead of a text that is for programs, such as how long ago a time is.
    """


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; `notes` are sentences printed under it.

    CSV begins each row with its table's `name`: "" is that of its title, `Left alone` is
    `left_alone`. A terminal is shown the first `most` rows (0: all of them; None: as many
    as it has room for), and how many more there are, which `-o wide` shows too. Pipes and files get
    every row.
    """

    title: str
    columns: tuple[Column | str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    name: str = ""
    most: int | None = None

    @property
    def titles(self) -> tuple[str, ...]:
        """The columns' titles, left to right."""
        return tuple(c.title if isinstance(c, Column) else c for c in self.columns)

    @property
    def csv_name(self) -> str:
        """What CSV calls it."""
        return self.name or "_".join(re.findall(r"[a-z0-9]+", self.title.lower()))

    def text(self, column: int, cell: Cell, thousands: str = "") -> str:
        """The cell as a person reads it: '-' for None, floats with the column's decimals.

        `thousands` separates groups of digits; identifiers (ports, ids) are given as `str`, so
        that they have none.
        """
        shown = self.columns[column]
        match cell:
            case None:
                return "-"
            case bool():
                return "yes" if cell else "no"
            case int() if isinstance(shown, Column) and shown.is_bytes:
                return format_bytes(cell)
            case float():
                return f"{cell:{thousands}.{shown.digits if isinstance(shown, Column) else 1}f}"
            case int():
                return f"{cell:{thousands}}"
            case str():
                return shown.words(cell) if isinstance(shown, Column) else on_one_line(cell)

    def is_right(self, column: int) -> bool:
        """True when every cell of the column is a number or absent, or the column says so."""
        shown = self.columns[column]
        if isinstance(shown, Column) and shown.right:
            return True
        cells = [row[column] for row in self.rows]
        return any(c is not None for c in cells) and all(
            c is None or (isinstance(c, int | float) and not isinstance(c, bool)) for c in cells
        )


def table_of(
    title: str,
    documents: Iterable[_Row],
    columns: Columns[_Row],
    notes: tuple[str, ...] = (),
    name: str = "",
) -> Table:
    """A row of each document; `columns` say from the left what is shown, and where it is.

    A cell is None where it is within something that is None.
    """
    sources = columns.values()
    rows = tuple(tuple(_cell(document, source) for source in sources) for document in documents)
    return Table(title, tuple(columns), rows, notes, name)


def _cell(document: _Row, source: Source[_Row]) -> Cell:
    if not isinstance(source, str):
        return source(document)
    value: Any = document
    for key in source.split("."):
        value = None if value is None else value[key]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def identifier(source: str) -> Callable[[Mapping[str, object]], Cell]:
    """The cell as text: of a number without thousands separators."""

    def cell(document: Mapping[str, object]) -> Cell:
        value = _cell(document, source)
        return None if value is None else str(value)

    return cell


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Which cluster something is about: the user's name for it ("" for none), its id, and where it
    was asked for first."""

    name: str
    id: str
    bootstrap_servers: str

    def __str__(self) -> str:
        named = f"{self.name}, " if self.name else ""
        return f"{named}id {self.id or 'not known'}, at {in_brief(self.bootstrap_servers)}"


class Tone(StrEnum):
    """What a paragraph is, as a terminal colours it. The words say it too."""

    NONE = ""
    GOOD = "green"
    WARNING = "yellow"
    BAD = "red"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences that belong together: the first begins a line, the others stand under it."""

    first: str
    others: tuple[str, ...] = ()
    tone: Tone = Tone.NONE


def paragraphs(*sentences: str) -> tuple[Paragraph, ...]:
    """Each on lines of its own."""
    return tuple(map(Paragraph, sentences))


@dataclass(frozen=True, slots=True)
class Report:
    """A command's whole result.

    `document` is what `--output json` prints (with `_command`, `_version` and `_cluster` added);
    `opening` is the answer, before the `tables` that a person reads; `closing` lines come last,
    exactly as they are, in table and plain output. Before them stands the cluster that it is about,
    if it is about one. CSV has the tables, then the `further` ones. One that `fits_screen` shows a
    terminal about a screen: the last tables are left out, and a line says that `-o wide` has them.
    """

    command: str
    document: Mapping[str, object]
    tables: tuple[Table, ...] = ()
    closing: tuple[str, ...] = ()
    opening: tuple[Paragraph, ...] = ()
    further: tuple[Table, ...] = ()
    cluster: "ClusterIdentity | None" = None
    fits_screen: bool = False


def with_commands(report: Report, typed: Typing) -> Report:
    """The report with its commands as `typed` has them; in the document one by itself is a list of
    its words."""

    def text(value: str) -> str:
        return value.spelled(typed) if isinstance(value, NextStep) else value

    def table(original: Table) -> Table:
        rows = (tuple(text(c) if isinstance(c, str) else c for c in row) for row in original.rows)
        title, notes = text(original.title), tuple(map(text, original.notes))
        return replace(original, title=title, rows=tuple(rows), notes=notes)

    def document(part: object) -> object:
        match part:
            case Command():
                return list(typed(part))
            case str():
                return text(part)
            case Mapping():
                return {key: document(value) for key, value in part.items()}
            case list() | tuple():
                return [document(value) for value in part]
            case _ if is_dataclass(part) and not isinstance(part, type):
                return document(asdict(part))
        return part

    return replace(
        report,
        document={key: document(value) for key, value in report.document.items()},
        opening=tuple(
            replace(p, first=text(p.first), others=tuple(map(text, p.others)))
            for p in report.opening
        ),
        tables=tuple(map(table, report.tables)),
        further=tuple(map(table, report.further)),
        closing=tuple(map(text, report.closing)),
    )
