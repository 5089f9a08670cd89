"""Markdown of a report: letter by letter, and as a parser of GitHub's tables reads it."""

import pytest
from markdown_it import MarkdownIt
from test_formats import text

from kipctl.report.formats import OutputFormat
from kipctl.report.printable import on_one_line
from kipctl.report.tables import ClusterIdentity, Column, Paragraph, Report, Table

NASTY = (
    "a|b `c` *d* __e__ ~~f~~ [g](h) <i> &lt; \\ $j$",
    "__consumer_offsets",
    "back\\|slash",
    "two\nlines",
    "ünïcode",
)


MARKDOWN = OutputFormat.MARKDOWN


def test_a_report_from_its_answer_to_its_last_line() -> None:
    report = Report(
        "inspect brokers",
        {},
        (
            Table(
                "Brokers",
                ("Broker", Column("p99 ms", digits=2), "Rack"),
                ((1, 1234.567, "rack-1"), (2, None, "rack_2")),
                ("Counted since the start.",),
            ),
            Table("No run is there.", (), ()),
        ),
        ("Undo: kipctl undo",),
        (
            Paragraph("1 warning at 2 brokers."),
            Paragraph("warning: no racks", ("Readers cross racks.", "Set broker.rack.")),
        ),
        cluster=ClusterIdentity("east", "abc", "127.0.0.1:9092"),
    )
    assert text(MARKDOWN, report) == (
        "1 warning at 2 brokers.\n"
        "\n"
        "**warning: no racks**\n"
        "\n"
        "- Readers cross racks.\n"
        "- Set broker.rack.\n"
        "\n"
        "### Brokers\n"
        "\n"
        "| Broker | p99 ms | Rack |\n"
        "| ---: | ---: | --- |\n"
        "| 1 | 1,234.57 | rack-1 |\n"
        "| 2 | - | rack\\_2 |\n"
        "\n"
        "Counted since the start.\n"
        "\n"
        "No run is there.\n"
        "\n"
        "Cluster: east, id abc, at 127.0.0.1:9092.\n"
        "\n"
        "Undo: kipctl undo\n"
    )


@pytest.mark.parametrize("nasty", NASTY)
def test_what_is_in_cells_and_sentences_is_no_markup(nasty: str) -> None:
    report = Report(
        "x",
        {},
        (Table(nasty, (nasty, "n"), ((nasty, 1),), (nasty,)),),
        (nasty,),
        (Paragraph(nasty),),
    )
    parsed = (
        MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text(MARKDOWN, report))
    )
    inlines = [token for token in parsed if token.type == "inline"]
    shown = [
        "".join(child.content for child in token.children or ())
        for token in inlines
        if all(child.type in ("text", "text_special") for child in token.children or ())
    ]
    plain, cell = " ".join(nasty.split()), on_one_line(nasty)
    assert shown == [plain, plain, plain, "n", cell, "1", plain, plain]


@pytest.mark.parametrize("line", ["1. first", "12) twelfth", "- item", "+ item", "# title", "---"])
def test_a_sentence_begins_no_list_and_no_heading(line: str) -> None:
    parsed = MarkdownIt("commonmark").parse(
        text(MARKDOWN, Report("x", {}, closing=("before", line)))
    )
    assert [token.type for token in parsed] == [
        *("paragraph_open", "inline", "paragraph_close"),
        *("paragraph_open", "inline", "paragraph_close"),
    ]


def test_every_row_is_there_however_few_are_shown_to_people() -> None:
    rows = tuple((f"topic-{i}",) for i in range(200))
    markdown = text(MARKDOWN, Report("x", {}, (Table("Topics", ("Topic",), rows, most=10),)))
    assert markdown.count("| topic-") == 200
    assert "more" not in markdown
