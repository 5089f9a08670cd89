"""Tables on narrow terminals: what gives way, in which order, and that it is said."""

from kipctl.report.layout import laid_out
from kipctl.report.tables import Column, Table

ACTIONS = Table(
    "Actions",
    ("action", Column("known to all after ms"), "partitions", Column("called at s"), "error"),
    (
        *(("rotate", 12.5 * n, 50, 5.0 * n, "-") for n in range(1, 8)),
        ("elect", 1000.0, 50, 40.0, "-"),
    ),
)


def drawn(table: Table, width: int) -> list[str]:
    lines = laid_out(table, width)
    return [*lines.headings, lines.rule, *lines.rows, *lines.notes]


def test_what_fits_stays_as_it_is() -> None:
    lines = laid_out(ACTIONS, 80)
    assert lines.headings == ("action  known to all after ms  partitions  called at s  error",)
    assert lines.notes == ()


def test_headings_take_more_lines_first() -> None:
    assert drawn(ACTIONS, 50)[:3] == [
        "action  known to all  partitions  called  error",
        "            after ms                at s",
        "──────  ────────────  ──────────  ──────  ─────",
    ]


def test_then_what_every_row_says_becomes_a_note() -> None:
    lines = laid_out(ACTIONS, 30)
    assert lines.headings[0].split() == ["action", "known", "to", "all", "called"]
    assert lines.notes == ("In every row: partitions 50, error -.",)


def test_few_rows_stand_side_by_side() -> None:
    titles = ("arm", "p50 ms", "p99 ms", "max ms", "requests", "moved", "failed")
    arms = (("kip951", 0.5, 9.5, 9.9, 7, 50, 0), ("baseline", 101.5, 108.5, 109.0, 60, 50, 1))
    few = Table("", titles, arms)
    assert drawn(few, 34) == [
        "arm       kip951  baseline",
        "────────  ──────  ────────",
        "p50 ms       0.5     101.5",
        "p99 ms       9.5     108.5",
        "max ms       9.9     109.0",
        "requests       7        60",
        "failed         0         1",
        "In every row: moved 50.",
    ]


def test_one_row_stands_beside_its_titles() -> None:
    titles = ("records", "failed", "moved leaders", "requests", "bytes")
    lines = laid_out(Table("", titles, ((6000, 0, 50, 12, 600000),)), 30)
    assert (lines.headings, lines.rule) == ((), "")
    assert lines.notes == ("0, or none: failed.",)
    assert lines.rows == (
        "records          6000",
        "moved leaders      50",
        "requests           12",
        "bytes          600000",
    )


def test_what_is_of_detail_is_left_out_first_and_named() -> None:
    columns = ("topic", Column("replicas before", detail=True), "leader", "outcome")
    many = Table("", columns, tuple((f"orders{n}", f"{n}, 2, 3", n, f"o{n}") for n in range(9)))
    lines = laid_out(many, 24)
    assert lines.headings == ("topic    leader  outcome",)
    assert lines.notes == ("No room for: replicas before (-o wide).",)
    lines = laid_out(many, 16)
    assert lines.headings == ("topic    leader",)
    assert lines.notes == ("No room for: replicas before, outcome (-o wide).",)


def test_sentences_take_several_lines_before_other_columns_go() -> None:
    why = "no replica of this partition is in the rack that the reader names"
    table = Table("", ("rack", "why"), tuple((f"rack-{n}", f"{why} {n}") for n in range(9)))
    lines = laid_out(table, 60)
    assert all(len(line) <= 60 for line in lines.rows)
    assert " ".join(" ".join(lines.rows).split()).startswith(f"rack-0 {why} 0 rack-1")


def test_a_first_column_heads_its_rows_where_there_is_no_room_beside_them() -> None:
    columns = (Column("cluster", heads=True), "software", Column("requests", detail=True))
    fleet = Table("", columns, tuple((f"c{n // 2}", f"java {n}", n) for n in range(4)))
    assert drawn(fleet, 40)[2:4] == ["c0       java 0           0", "c0       java 1           1"]
    assert drawn(fleet, 20) == [
        "software  requests",
        "────────  ────────",
        "cluster c0",
        "java 0           0",
        "java 1           1",
        "cluster c1",
        "java 2           2",
        "java 3           3",
    ]
    assert drawn(fleet, 10)[2:4] == ["cluster c0", "java 0"]
