"""A table as lines that fit a terminal, and what is said of the rest.

What is too wide gives way in this order: headings take up to three lines; columns of which every
row says the same become a note; a first column that may head its rows does; a few rows stand side
by side, a line a column; columns of detail are left out; sentences take several lines; columns are
left out from the right.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import TextWrapper

from rich.cells import cell_len

from kipctl.report.tables import Column, Table

_COMMAND = re.compile(r"\bkipctl [a-z].*?(?=[.;:,)`?]+(?:\s|$)|$)")
_NO_BREAK = "\x1f"
"""Stands for a blank of a command while lines are broken; printable text has none."""
_GAP = "  "
_HEADING_LINES = 3
_SIDE_BY_SIDE = 6
"""Rows, at most; they become columns."""
_SENTENCE = 30
"""A column with longer cells than this may be made so narrow."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A table as text: headings and the line under them, rows, and notes of what is not in them."""

    headings: tuple[str, ...] = ()
    rule: str = ""
    rows: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Grid:
    """A table's texts: a title, cells, side and whether it is of detail, for each column; and what
    stands above each row, if anything does."""

    titles: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]
    detail: tuple[bool, ...]
    notes: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()

    def only(self, kept: Sequence[int], note: str) -> "_Grid":
        """These columns of it, and why the others are not there."""
        return _Grid(
            tuple(self.titles[i] for i in kept),
            tuple(self.columns[i] for i in kept),
            tuple(self.right[i] for i in kept),
            tuple(self.detail[i] for i in kept),
            (*self.notes, note),
            self.heads,
        )


def laid_out(table: Table, width: int | None = None, thousands: str = "") -> Lines:
    """The table in so many columns of text, or in as many as it takes."""
    if not table.rows:
        return Lines()
    grid = _Grid(
        table.titles,
        tuple(
            tuple(table.text(i, row[i], thousands) for row in table.rows)
            for i in range(len(table.columns))
        ),
        tuple(map(table.is_right, range(len(table.columns)))),
        tuple(isinstance(c, Column) and c.detail for c in table.columns),
    )
    if width is None:
        return _drawn(grid, _least(grid, 1, folds=False))
    first = table.columns[0]
    for narrower, folds in _ways(grid, isinstance(first, Column) and first.heads):
        for lines in range(1, _HEADING_LINES + 1):
            least = _least(narrower, lines, folds)
            if _total(least) <= width:
                return _drawn(narrower, _widened(narrower, least, width) if folds else least)
    return _drawn(narrower, least)


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """The text on lines of that width; words, such as paths, and commands stay whole."""
    if width is None:
        return [indent + text]

    def glued(command: re.Match[str]) -> str:
        # A sentence may begin so too: it is broken where it is too long, a command never.
        is_whole = len(command[0]) <= width - len(indent) or " -" in command[0]
        return command[0].replace(" ", _NO_BREAK) if is_whole else command[0]

    lines = TextWrapper(
        width=width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ).wrap(_COMMAND.sub(glued, text))
    return [line.replace(_NO_BREAK, " ") for line in lines] or [indent]


def _ways(grid: _Grid, first_heads: bool) -> Iterator[tuple[_Grid, bool]]:
    """Ever narrower tables, and whether their sentences may take several lines."""
    yield grid, False
    whole, repeated = grid, _repeated(grid)
    for count in range(1, len(repeated) + 1):
        grid = _as_a_note(whole, repeated[-count:])
        yield grid, False
    if first_heads:
        grid = _under_heads(grid)
        yield grid, False
    elif len(grid.columns[0]) <= _SIDE_BY_SIDE:
        yield _side_by_side(grid), False
    by_need = sorted(range(1, len(grid.columns)), key=lambda i: (not grid.detail[i], -i))
    details = sum(grid.detail[1:])
    for count in range(1, details + 1):
        yield _leaving_out(grid, by_need[:count]), False
    for count in range(details, len(by_need)):
        yield _leaving_out(grid, by_need[:count]), True


def _repeated(grid: _Grid) -> list[int]:
    """The columns, but for the first, of which every row says the same; of one row, those that say
    0 or nothing."""
    if len(grid.columns[0]) == 1:
        return [i for i, (cell,) in enumerate(grid.columns) if i and not cell.strip("0.-")]
    return [i for i, cells in enumerate(grid.columns) if i and len(set(cells)) == 1]


def _as_a_note(grid: _Grid, which: Sequence[int]) -> _Grid:
    kept = [i for i in range(len(grid.columns)) if i not in which]
    if len(grid.columns[0]) == 1:
        return grid.only(kept, f"0, or none: {', '.join(grid.titles[i] for i in which)}.")
    said = ", ".join(f"{grid.titles[i]} {grid.columns[i][0] or '-'}" for i in which)
    return grid.only(kept, f"In every row: {said}.")


def _under_heads(grid: _Grid) -> _Grid:
    """The first column's cells above the rows."""
    return _Grid(
        grid.titles[1:],
        grid.columns[1:],
        grid.right[1:],
        grid.detail[1:],
        grid.notes,
        tuple(f"{grid.titles[0]} {cell}" for cell in grid.columns[0]),
    )


def _side_by_side(grid: _Grid) -> _Grid:
    """The rows as columns, under what was the first column; one row stands beside the titles."""
    first, *others = grid.columns
    rows = len(first)
    if rows == 1:
        only = tuple(column[0] for column in grid.columns)
        return _Grid(("", ""), (grid.titles, only), (False, True), (False, False), grid.notes)
    return _Grid(
        (grid.titles[0], *first),
        (grid.titles[1:], *(tuple(cells[row] for cells in others) for row in range(rows))),
        (False, *[True] * rows),
        (False,) * (rows + 1),
        grid.notes,
    )


def _leaving_out(grid: _Grid, which: Sequence[int]) -> _Grid:
    if not which:
        return grid
    titles = ", ".join(grid.titles[i] for i in sorted(which))
    kept = [i for i in range(len(grid.columns)) if i not in which]
    return grid.only(kept, f"No room for: {titles} (-o wide).")


def _least(grid: _Grid, lines: int, folds: bool) -> list[int]:
    """How wide each column is at least, with headings of so many lines."""

    def cells(column: tuple[str, ...]) -> int:
        longest = max(map(cell_len, column), default=0)
        return min(longest, _SENTENCE) if folds else longest

    return [
        max(cells(column), _heading(title, lines))
        for title, column in zip(grid.titles, grid.columns, strict=True)
    ]


def _heading(title: str, lines: int) -> int:
    """How wide a heading of at most so many lines is."""
    if lines == 1 or not title:
        return len(title)
    least = max(map(len, title.split()))
    return next(w for w in range(least, len(title) + 1) if len(wrapped(title, w)) <= lines)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _widened(grid: _Grid, widths: list[int], width: int) -> list[int]:
    """The room that is left shared among what would fold."""
    natural = _least(grid, 1, folds=False)
    while (room := width - _total(widths)) > 0:
        narrow = [i for i, w in enumerate(widths) if w < natural[i]]
        if not narrow:
            break
        share = max(1, room // len(narrow))
        for i in narrow[:room]:
            widths[i] = min(natural[i], widths[i] + share)
    return widths


def _drawn(grid: _Grid, widths: Sequence[int]) -> Lines:
    def lines(cells: Sequence[str]) -> Iterator[str]:
        folded = [_folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(map(len, folded))):
            parts = (
                _padded(cell[number] if number < len(cell) else "", width, right)
                for cell, width, right in zip(folded, widths, grid.right, strict=True)
            )
            yield _GAP.join(parts).rstrip()

    def rows() -> Iterator[str]:
        for number, row in enumerate(zip(*grid.columns, strict=True)):
            if grid.heads and grid.heads[number] not in grid.heads[max(number - 1, 0) : number]:
                yield grid.heads[number]
            yield from lines(row)

    has_headings = any(grid.titles)
    return Lines(
        tuple(lines(grid.titles)) if has_headings else (),
        _GAP.join("─" * width for width in widths) if has_headings else "",
        tuple(rows()),
        grid.notes,
    )


def _folded(cell: str, width: int) -> list[str]:
    if cell_len(cell) <= width:
        return [cell]
    return TextWrapper(width=width, break_on_hyphens=False).wrap(cell)


def _padded(text: str, width: int, right: bool) -> str:
    room = " " * (width - cell_len(text))
    return room + text if right else text + room


def for_people(table: Table, most: int | None) -> Table:
    """The rows that people are shown, and how many more there are: at most `most`, or those that
    the table says; None for every row, as `grep` and files are to have them."""
    if most is None:
        return table
    shown = most if table.most is None else table.most
    left = len(table.rows) - (shown or len(table.rows))
    if left <= 0:
        return table
    note = f"And {left:,} more: -o wide shows them all."
    return replace(table, rows=table.rows[:shown], notes=(note, *table.notes))
