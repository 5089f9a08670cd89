"""What a person reads of replica selection: where it differs is said under the table."""

from typing import Any

from test_formats import text

from kipctl.report.formats import OutputFormat
from kipctl.report.layout import for_people
from kipctl.report.replica_selection_tables import (
    flip_line,
    flips_table,
    selection_answer,
    selection_tables,
    walk_answers,
    walk_tables,
)
from kipctl.report.tables import Report, Table


def row(**more: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "rack": "b",
        "leader": 1,
        "leader_rack": "a",
        "reads_from": 2,
        "reads_from_rack": "b",
        "local": True,
        "closest": True,
        "reason": "a follower in the rack",
        "detail": "",
        "expected": (2,),
        "as_expected": True,
        **more,
    }


def rack(**more: Any) -> dict[str, Any]:
    return {
        "rack": "b",
        "known": True,
        "partitions": 4,
        "local": 3,
        "local_percent": 75.0,
        "closest": 4,
        "held_bytes": 1000,
        "cross_held_bytes": 250,
        "bytes_per_s": None,
        "cross_bytes_per_s": None,
        "cross_percent": 25.0,
        "unreported_partitions": 0,
        "price_of_30_days": None,
        **more,
    }


def document(*partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    empty = {"unreported": [], "rate_over_s": None, "price_per_gb": None, "client": None}
    return {"partitions": [*partitions], "racks": [rack()], **empty, **more}


AWAY = row(partition=1, local=False, reason="no replica in the rack")


def test_a_reason_and_its_detail_are_one_sentence() -> None:
    lagging = row(reason="the replica in the rack is not in sync", detail="broker 2 is 9 behind")
    *_, table = selection_tables(document(row(), lagging))
    why = [found[-1] for found in table.rows]
    assert why == [
        "a follower in the rack",
        "the replica in the rack is not in sync: broker 2 is 9 behind",
    ]
    assert table.notes == ()


def test_the_answer_counts_what_stays_in_its_rack_and_says_why_the_rest_does_not() -> None:
    assert selection_answer(document(row(), AWAY, AWAY)).first == (
        "1 of 3 reads (each partition from each rack) stay in their rack."
        " The others: no replica in the rack (2)."
    )
    assert selection_answer(document(row())).first.endswith(" stay in their rack.")
    assert selection_answer(document()).first == "No partition is shown, or no rack."


def test_reads_alike_are_one_row_those_that_leave_their_rack_first() -> None:
    _, why, each = selection_tables(document(row(), row(partition=2), AWAY))
    assert why.rows == (
        ("b", False, True, "no replica in the rack", 1, "orders-1"),
        ("b", True, True, "a follower in the rack", 2, "orders-0"),
    )
    assert [found[1] for found in each.rows] == [1, 0, 2]


def test_people_are_shown_a_few_partitions_and_programs_all() -> None:
    many = document(*(row(partition=number) for number in range(30)))
    report = Report("", {}, selection_tables(many))
    few = for_people(report.tables[-1], 20)
    assert len(few.rows) == 20
    assert few.notes == ("And 10 more: -o wide shows them all.",)
    assert len(report.tables[-1].rows) == 30


def test_an_answer_that_the_rules_do_not_explain_is_told() -> None:
    odd = row(reads_from=1, expected=(2, 3), as_expected=False)
    *_, table = selection_tables(document(odd, row(as_expected=None)))
    assert table.notes == ("orders-0 for b: the broker named 1, the rules say 2 or 3.",)


def test_rates_and_prices_have_columns_only_where_they_were_asked_for() -> None:
    held, *_ = selection_tables(document())
    assert held.titles[-1] == "Across racks %"
    assert held.rows == (("b", 4, 3, 75.0, 4, 1000, 25.0),)
    assert "of the bytes that the leaders hold" in held.notes[0]
    rates = {"bytes_per_s": 4e6, "cross_bytes_per_s": 1e6, "price_of_30_days": 51.84}
    asked = {"rate_over_s": 30.0, "price_per_gb": 0.02}
    priced, *_ = selection_tables(document(racks=[rack(**rates)], **asked))
    assert priced.titles[-3:] == ("Bytes/s", "Across racks bytes/s", "Price of 30 days")
    assert priced.rows[0][-3:] == (4e6, 1e6, 51.84)
    assert "over 30 s" in priced.notes[0]


def test_bytes_that_nobody_told_are_no_zero() -> None:
    unknown = rack(held_bytes=None, cross_percent=None, unreported_partitions=1)
    idle = rack(held_bytes=0, cross_percent=None)
    unreported = {"topic": "orders", "partition": 3, "why": "broker 1 is gone."}
    table, *_ = selection_tables(document(racks=[unknown, idle], unreported=[unreported]))
    assert [row[-2:] for row in table.rows] == [("not known", "not known"), (0, None)]
    assert table.notes[1] == (
        "Partitions whose bytes, or who serves them, are not known: 1; orders-3: broker 1 is gone."
    )
    partly = rack(bytes_per_s=None, cross_bytes_per_s=0.0, unreported_partitions=1)
    table, *_ = selection_tables(document(racks=[partly], rate_over_s=5.0))
    assert table.rows[0][-2:] == ("not known", 0.0)


def client_table(**more: Any) -> Table:
    """Of a client that has read a partition."""
    read = {"topic": "orders", "partition": 0, "rack": "b", "broker": 2, "broker_rack": "b"}
    read |= {"records": 10, "bytes": 1000, "agrees": True} | more
    client = {"name": "librdkafka", "version": "2.16.0", "reads": [read]}
    return selection_tables(document(row(), client=client))[2]


def test_what_a_client_did_stands_beside_it() -> None:
    table = client_table()
    assert table.title == "Where librdkafka 2.16.0 reads"
    assert table.rows == (("orders", 0, "b", 2, "b", 10, 1000, True),)
    assert table.notes == ()
    (note,) = client_table(broker=None, records=0).notes
    assert note == "A partition without records is read from nowhere."
    (note,) = client_table(records=1, bytes=0).notes
    assert note.startswith("Records of 0 bytes are transaction markers")


def test_a_walk_begins_with_what_the_broker_really_said() -> None:
    steps = [
        {"rule": "in b", "facts": "1 a, 2 b", "left": (2,)},
        {"rule": "the rest", "facts": "not known", "left": ()},
    ]
    walks = [
        row(steps=steps),
        row(steps=steps, reads_from=1, as_expected=False, reason="chose otherwise"),
        row(steps=[], reads_from=None, as_expected=None, reason="no leader"),
    ]
    walked = {"topic": "orders", "partition": 0, "walks": walks}
    tables = walk_tables(walked)
    assert tables[0].title == "orders-0, for a reader in b"
    assert tables[0].rows == (
        ("in b", "1 a, 2 b", "2"),
        ("the rest", "not known", "cannot be told"),
    )
    answers = [
        "The leader of orders-0 sends a reader in b to broker 2: a follower in the rack.",
        "The leader of orders-0 sends a reader in b to broker 1, which is not what the rules say:"
        " chose otherwise.",
        "The leader of orders-0 named nobody to a reader in b: no leader.",
    ]
    opening = walk_answers(walked)
    assert [paragraph.first for paragraph in opening] == answers
    report = Report("", walked, tables, opening=opening)
    assert text(OutputFormat.AUTO, report).startswith(answers[0])


def test_a_flip_is_one_line() -> None:
    flip = {"time": "12:00:00", "topic": "orders", "partition": 0, "rack": "b"}
    flip |= {"from": None, "to": 2, "why": "leader 1 -> 2; the leader is in the rack"}
    assert flip_line(flip) == (
        "12:00:00  orders-0  b: nowhere -> 2  leader 1 -> 2; the leader is in the rack"
    )
    assert flips_table({"flips": [flip]}).rows == (tuple(flip.values()),)
