"""What a report looks like in each format, letter by letter."""

import ast
import io
import json
import re

import pytest
from own_source import FILES, parsed

from kipctl import __version__
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, ClusterIdentity, Column, Paragraph, Report, Table, Tone

LATENCY = Table(
    "Latency",
    ("topic", Column("p99 ms", digits=2), "records", "idempotent"),
    (("orders", 1234.567, 1000000, True), ("a-b", None, 7, False)),
    ("Counted from the intended send time [not the actual].",),
)
REPORT = Report(
    "x",
    {"records": {"sent": 1000007}, "error": None},
    (LATENCY, Table("Redirects", ("partition",), (), ("There were none.",))),
    ("1000007 records sent,  5.0 records/sec",),
)


@pytest.fixture(autouse=True)
def of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal."""
    monkeypatch.setenv("COLUMNS", "80")


def text(output: OutputFormat, report: Report = REPORT, is_terminal: bool = False) -> str:
    stream = io.StringIO()
    write(report, output, stream, is_terminal)
    return stream.getvalue()


def test_plain() -> None:
    assert text(OutputFormat.PLAIN) == (
        "Latency\n"
        "topic    p99 ms  records  idempotent\n"
        "orders  1234.57  1000000  yes\n"
        "a-b           -        7  no\n"
        "Counted from the intended send time [not the actual].\n"
        "\n"
        "Redirects\n"
        "There were none.\n"
        "1000007 records sent,  5.0 records/sec\n"
    )


def test_a_table_without_rows_and_notes_is_for_programs() -> None:
    empty = Report("x", {}, (Table("Redirects", ("partition",), ()),), opening=(Paragraph("No."),))
    assert text(OutputFormat.PLAIN, empty) == "No.\n"
    assert text(OutputFormat.CSV, empty) == "table,partition\n"


def test_csv_has_raw_values_and_a_blank_line_between_tables() -> None:
    assert text(OutputFormat.CSV) == (
        "table,topic,p99 ms,records,idempotent\n"
        "latency,orders,1234.567,1000000,True\n"
        "latency,a-b,,7,False\n"
        "\n"
        "table,partition\n"
    )


def test_every_table_has_a_name_that_does_not_change() -> None:
    """A title that is put together, or is none, names nothing."""
    tables = [
        (file, node)
        for file in FILES
        if "html" not in file.parts
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Table", "table_of")
    ]
    assert len(tables) > 60
    nameless = [
        f"{file.name}:{call.lineno}"
        for file, call in tables
        if len(call.args) < 5 and "name" not in {keyword.arg for keyword in call.keywords}
        for title in call.args[:1]
        if isinstance(title, ast.JoinedStr) or (isinstance(title, ast.Constant) and not title.value)
    ]
    assert nameless == []


def test_json_is_one_object_that_names_its_command_and_version() -> None:
    assert text(OutputFormat.JSON) == (
        "{\n"
        '  "_command": "x",\n'
        f'  "_version": "{__version__}",\n'
        '  "records": {\n'
        '    "sent": 1000007\n'
        "  },\n"
        '  "error": null\n'
        "}\n"
    )


def test_table_has_a_line_under_the_headings_on_a_terminal() -> None:
    lines = text(OutputFormat.TABLE).splitlines()
    assert lines[:5] == [
        "Latency",
        "topic     p99 ms    records  idempotent",
        "orders  1,234.57  1,000,000  yes",
        "a-b            -          7  no",
        "Counted from the intended send time [not the actual].",
    ]
    drawn = text(OutputFormat.TABLE, is_terminal=True).splitlines()
    assert drawn.pop(2) == "──────  ────────  ─────────  ──────────"
    assert drawn == lines


@pytest.mark.parametrize("output", [OutputFormat.TABLE, OutputFormat.WIDE, OutputFormat.CSV])
def test_a_terminal_is_shown_a_screen_of_rows_and_how_to_see_the_others(
    output: OutputFormat,
) -> None:
    long = Report("x", {}, (Table("", ("row",), tuple((f"row {n}",) for n in range(25))),))
    drawn = text(output, long, is_terminal=True)
    assert ("row 24" in drawn) is (output is not OutputFormat.TABLE)
    assert ("And 5 more: -o wide shows them all." in drawn) is (output is OutputFormat.TABLE)


@pytest.mark.parametrize("output", OutputFormat)
def test_a_pipe_gets_every_row_also_of_a_table_that_a_terminal_is_shown_less_of(
    output: OutputFormat,
) -> None:
    rows = tuple((f"row {n}",) for n in range(25))
    long = Report("x", {"rows": rows}, (Table("", ("row",), rows, most=10),))
    piped = text(output, long)
    assert "row 24" in piped
    assert "more" not in piped


@pytest.mark.parametrize("output", OutputFormat)
def test_what_is_to_fit_a_screen_names_the_tables_that_wide_has_besides(
    output: OutputFormat,
) -> None:
    tables = tuple(
        Table(f"Table {n}: of ten rows, no more", ("row",), tuple((f"{n}/{i}",) for i in range(10)))
        for n in range(5)
    )
    drawn = text(output, Report("x", {}, tables, ("The end.",), fits_screen=True), is_terminal=True)
    is_cut = output in (OutputFormat.AUTO, OutputFormat.TABLE)
    assert ("More with -o wide: Table 3, Table 4.\nThe end.\n" in drawn) is is_cut
    assert ("2/9" in drawn) is (output is not OutputFormat.JSON)
    assert ("4/9" in drawn) is not (is_cut or output is OutputFormat.JSON)
    assert "More with" not in text(output, Report("x", {}, tables), is_terminal=True)


def test_the_first_table_is_shown_however_long_it_is() -> None:
    opening = tuple(Paragraph(f"Sentence {n}.") for n in range(45))
    report = Report("x", {}, (LATENCY, LATENCY), (), opening, fits_screen=True)
    drawn = text(OutputFormat.TABLE, report, is_terminal=True)
    assert drawn.count("1,234.57") == 1
    assert drawn.endswith("More with -o wide: Latency.\n\nSentence 0.\n")


@pytest.mark.parametrize("output", [OutputFormat.AUTO, OutputFormat.WIDE])
@pytest.mark.parametrize(("rows", "is_again"), [(3, False), (19, True)])
def test_the_answer_is_said_again_where_rows_have_pushed_it_off_the_screen(
    output: OutputFormat, rows: int, is_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "80")
    table = Table("", ("row",), tuple((f"row {n}",) for n in range(rows)))
    report = Report("x", {}, (table,), ("Undo: it.",), (Paragraph("3 moved.", ("Details.",)),))
    lines = text(output, report, is_terminal=True).splitlines()
    assert lines[:2] == ["3 moved.", "  Details."]
    assert lines[-1] == "Undo: it."
    assert (lines[-2] == "3 moved.") is is_again
    assert text(output, report).count("3 moved.") == 1


WIDE = Report("wide", {}, (Table("", ("name", "value"), (("n" * 150, "v" * 150),)),), ("c" * 200,))


@pytest.mark.parametrize(
    "output", [OutputFormat.TABLE, OutputFormat.WIDE, OutputFormat.PLAIN, OutputFormat.CSV]
)
def test_off_a_terminal_a_row_stays_on_one_line(output: OutputFormat) -> None:
    assert any("n" * 150 in line and "v" * 150 in line for line in text(output, WIDE).splitlines())


def test_on_a_terminal_a_table_fits_and_loses_nothing_and_closing_lines_are_never_broken() -> None:
    *table, closing = text(OutputFormat.TABLE, WIDE, is_terminal=True).splitlines()
    assert all(len(line) <= 80 for line in table)
    drawn = "".join(table)
    # 150 of each, and one more of each letter in the titles ("name", "value").
    assert (drawn.count("n"), drawn.count("v")) == (151, 151)
    assert closing == "c" * 200


def test_auto_is_table_on_a_terminal_and_plain_elsewhere() -> None:
    for is_terminal, same in ((True, OutputFormat.TABLE), (False, OutputFormat.PLAIN)):
        assert text(OutputFormat.AUTO, REPORT, is_terminal) == text(same, REPORT, is_terminal)


EVIL = "\x1b[2Jgone\x07\x9b31m\r\x7f\u202e\ud800"


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("output", OutputFormat)
def test_no_report_sends_what_a_terminal_obeys(output: OutputFormat, is_terminal: bool) -> None:
    report = Report(
        "x",
        {"who": EVIL},
        (Table(EVIL, (EVIL,), ((EVIL,),), (EVIL,), EVIL),),
        (EVIL,),
        (Paragraph(EVIL, (EVIL,), Tone.WARNING),),
    )
    sent = re.sub(r"\x1b\[[\d;]*m", "", text(output, report, is_terminal))  # styles of rich
    assert sent.replace("\n", "").isprintable()
    if output is OutputFormat.JSON:
        assert json.loads(sent)["who"] == EVIL


def test_neither_a_cell_nor_the_name_of_a_cluster_draws_a_line() -> None:
    cluster = ClusterIdentity("", "one\ntwo", "a:1")
    report = Report("x", {}, (Table("", ("client",), (("one\ntwo",),)),), cluster=cluster)
    assert text(OutputFormat.PLAIN, report) == (
        "client\none\\ntwo\nCluster: id one\\ntwo, at a:1.\n"
    )


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ('=HYPERLINK("http://evil")', '"\'=HYPERLINK(""http://evil"")"'),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-1+1", "'-1+1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", r"'\t=1"),
        ("\r=1", r"'\r=1"),
        ("a=b", "a=b"),
        ("-", "-"),
        ("-1", "-1"),
        ("-25.0 to -0.1", "-25.0 to -0.1"),
        ("-1 to A1", "'-1 to A1"),
        (-1, "-1"),
        (-1.5, "-1.5"),
        (None, ""),
    ],
)
def test_a_spreadsheet_takes_no_text_for_a_formula(cell: Cell, written: str) -> None:
    report = Report("x", {}, (Table("Who?", ("who",), ((cell,),)),))
    assert text(OutputFormat.CSV, report) == f"table,who\nwho,{written}\n"


def test_markup_in_values_is_printed_as_it_is() -> None:
    report = Report("x", {}, (Table("[bold]", ("[red]",), (("[/]",),), (":smile:",)),))
    drawn = text(OutputFormat.TABLE, report)
    assert all(part in drawn for part in ("[bold]", "[red]", "[/]", ":smile:"))


def test_a_document_may_hold_what_is_not_ascii() -> None:
    assert json.loads(text(OutputFormat.JSON, Report("x", {"topic": "ключ"})))["topic"] == "ключ"


OPENED = Report(
    "inspect brokers",
    {},
    (Table("Brokers", ("broker",), ((1,),)),),
    opening=(
        Paragraph("1 warning at 3 brokers."),
        Paragraph("warning: no racks [none]", ("Readers cross racks.", "Set rack."), Tone.WARNING),
    ),
    further=(Table("Settings", ("name",), (("racks",),), name="settings"),),
)


def test_the_answer_comes_first_and_what_is_further_is_for_programs() -> None:
    assert text(OutputFormat.PLAIN, OPENED) == (
        "1 warning at 3 brokers.\n"
        "warning: no racks [none]\n"
        "  Readers cross racks.\n"
        "  Set rack.\n"
        "\n"
        "Brokers\n"
        "broker\n"
        "     1\n"
    )
    assert text(OutputFormat.CSV, OPENED) == (
        "table,broker\nbrokers,1\n\ntable,name\nsettings,racks\n"
    )


def test_a_terminal_shows_the_tone_and_wraps_a_paragraph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = text(OutputFormat.TABLE, OPENED, is_terminal=True)
    assert "\x1b[33mwarning: no racks" in drawn
    assert "  Readers cross" in drawn
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in text(OutputFormat.TABLE, OPENED, is_terminal=True)
