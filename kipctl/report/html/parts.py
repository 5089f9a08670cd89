"""Pieces of a page: its frame, escaped text, tables, pictures with their words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

from kipctl.report.html import MARK
from kipctl.report.html.svg import Picture
from kipctl.report.printable import printable
from kipctl.report.tables import Table

MOST_ROWS = 100
"""Rows of a table that are shown in a page."""
_LONG = 40
_NOTES = 4
_MOST_DOUBTS = 20


@dataclass(frozen=True, slots=True)
class Page:
    """The page, and each of its pictures as an SVG file by name (without its ending)."""

    html: str
    pictures: Mapping[str, str]


class Top(NamedTuple):
    """What a page begins with: its title, its answer in a sentence, when and where it was (in
    short), and what is read at a glance (HTML)."""

    title: str
    answer: str
    facts: str = ""
    glance: str = ""


class Section(NamedTuple):
    """A part of a page."""

    anchor: str
    title: str
    inside: str


def framed(
    top: Top,
    doubts: Sequence[str],
    sections: Sequence[Section],
    version: str,
    source: str,
) -> str:
    """The whole page: its top, what spoils it, links to its sections, the sections, kipctl's
    version, and where the numbers are from (HTML)."""
    facts = f'<p class="note">{text(top.facts)}</p>' if top.facts else ""
    links = "".join(
        f'<a href="#{section.anchor}">{text(section.title)}</a> ' for section in sections
    )
    body = "\n".join(
        f'<section aria-labelledby="{section.anchor}">'
        f'<h2 id="{section.anchor}">{text(section.title)}</h2>\n{section.inside}</section>'
        for section in sections
    )
    return (
        f'<!doctype html>\n{MARK}\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(top.title)}</title><style>{stylesheet()}</style></head><body>\n"
        f'<header><h1>{text(top.title)}</h1>{facts}<p class="answer">{text(top.answer)}</p>'
        f'{top.glance}{_care(doubts)}<nav aria-label="Contents">{links}</nav></header>\n'
        f"<main>\n{body}\n</main>\n"
        f'<footer><p class="note">Made by kipctl {text(version)}. {source}</p></footer>\n'
        "</body></html>\n"
    )


def _care(doubts: Sequence[str]) -> str:
    if not doubts:
        return ""
    items = "".join(f"<li>{text(doubt)}</li>" for doubt in doubts[:_MOST_DOUBTS])
    if len(doubts) > _MOST_DOUBTS:
        items += f"<li>and {len(doubts) - _MOST_DOUBTS:,} more</li>"
    return f'<div class="doubts"><h2>Read with care</h2><ul>{items}</ul></div>'


def text(shown: object) -> str:
    """Any text as HTML: names came from clusters, and may hold markup or control characters."""
    return escape(printable(str(shown)))


def stylesheet() -> str:
    """The page's CSS, which also has the colours of pictures."""
    return (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def paragraph(shown: object) -> str:
    """Any text as a paragraph."""
    return f"<p>{text(shown)}</p>"


def html_table(table: Table, most: int = MOST_ROWS, kind: str = "") -> str:
    """A table that scrolls by itself where it is wider than the page, by keyboard too. The cells of
    one of a `kind` say what they are, as it may be drawn without its head."""
    right = [table.is_right(at) for at in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{_right(is_right)}>{text(title)}</th>'
        for title, is_right in zip(table.titles, right, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{_right(right[at], shown)}{_named(kind, table.titles[at])}>{text(shown)}</td>"
            for at, cell in enumerate(row)
            for shown in [table.text(at, cell, ",")]
        )
        + "</tr>"
        for row in table.rows[:most]
    )
    notes = list(table.notes)
    if len(table.rows) > most:
        notes.insert(0, f"{most:,} of {len(table.rows):,} rows are shown.")
    under = "".join(f'<p class="note">{text(note)}</p>' for note in notes[:_NOTES])
    if len(notes) > _NOTES:
        more = (f'<p class="note">{text(note)}</p>' for note in notes[_NOTES:])
        under += details("More of it", *more)
    of_kind = f' class="{kind}"' if kind else ""
    if not table.rows:
        return f"<p>{text(table.title)}</p>{under}"
    return (
        f'<p class="title">{text(table.title)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(table.title)}">'
        f'<table{of_kind} aria-label="{text(table.title)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>{under}"
    )


def _named(kind: str, title: str) -> str:
    return f' data-of="{text(title)}"' if kind else ""


def _right(is_right: bool, shown: str = "") -> str:
    if is_right:
        return ' class="r"'
    return ' class="w"' if len(shown) > _LONG else ""


def details(summary: str, *inside: str) -> str:
    """What is shown when it is opened."""
    return f"<details><summary>{text(summary)}</summary>{''.join(inside)}</details>"


def html_figure(
    picture: Picture, *tables: Table, caption: str | None = None, most: int = MOST_ROWS
) -> str:
    """A picture, what it shows in words, and its numbers as tables that can be opened, of which so
    many rows are shown. `caption` stands in place of the words."""
    narrow = "narrow" if picture.wide else "small"
    drawn = picture.wide.replace("<svg ", '<svg class="wide" ', 1)
    drawn += picture.narrow.replace("<svg ", f'<svg class="{narrow}" ', 1)
    rows = "".join(html_table(table, most) for table in tables)
    shown = details("The same as tables", rows) if tables else ""
    said = text(picture.says if caption is None else caption)
    return f"<figure>{drawn}<figcaption>{said}</figcaption></figure>{shown}"


def svg_file(picture: Picture) -> str:
    """The picture as a file of its own, wide, with colours for light and dark."""
    drawn = picture.wide or picture.narrow
    rules = stylesheet()
    colours = rules[: rules.index("* {")]
    at = drawn.index(">") + 1
    return f"{drawn[:at]}<style>{colours}</style>{drawn[at:]}\n"
