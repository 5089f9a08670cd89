"""What a person reads of brokers' request logs: sentences by themselves, kipctl's own apart."""

from typing import Any

from test_formats import text
from test_request_log_page import cluster, fleet_row, log

from kipctl.report.formats import OutputFormat
from kipctl.report.request_log_answer import request_log_answer
from kipctl.report.request_log_look import look_sentences
from kipctl.report.request_log_tables import request_log_tables
from kipctl.report.tables import Report, Table, paragraphs

VERDICT = {"behaviour": "waits", "sentence": "waits.", "advice": None}


def row(software: str, hints: str, clients: int, **more: Any) -> dict[str, Any]:
    return {**fleet_row(software, hints, clients, 0), "verdict": VERDICT, **more}


def answer(*clusters: dict[str, Any]) -> tuple[str, ...]:
    return tuple(request_log_answer(log(*clusters)))


def tables(document: dict[str, Any]) -> dict[str, Table]:
    return {table.name: table for table in request_log_tables(log(document))}


FLEET = (
    row("java", "unknown", 9),
    row("old", "no hints", 1),
    row("admin", "-", 2),
    row("kipctl", "-", 1, requests=179),
)


def finding(software: str) -> dict[str, Any]:
    says = dict.fromkeys(("does", "costs", "change"), "says.")
    who = {"software": software, "version": "1", "client_count": 0, "client_ids": [], "known": None}
    return {"id": "metadata-storm", "severity": "warning", "times": 4, "of": 4, **says, **who}


def talker(client: str, rack: str | None, **more: Any) -> dict[str, Any]:
    return {
        "client_id": client,
        "software": "java",
        "version": "4",
        "rack": rack,
        "produced_bytes": 0,
        "fetched_bytes": 900,
        "cross_rack_bytes": 600,
        "price_of_30_days": 2.5,
        **more,
    }


def broker(number: int, seconds: float) -> dict[str, Any]:
    span = {"from": None, "to": None, "gaps": [], "hours_apart": None, "line_count": 9}
    return {**span, "broker": number, "rack": f"az-{number}", "seconds": seconds}


def test_each_sentence_has_lines_of_its_own() -> None:
    said = answer({**cluster("c", *FLEET), "findings": [finding("java")]})
    report = Report("", {}, opening=paragraphs(*said))
    shown = text(OutputFormat.AUTO, report)
    assert r"\n" not in shown
    assert shown.splitlines()[-1].startswith("12 clients")


def test_clients_are_counted_without_kipctl_and_the_kinds_add_up() -> None:
    *_, first = answer(cluster("c", *FLEET))
    assert first == (
        "12 clients are in 74 lines. What they do with leader hints (KIP-951): unknown: 9; neither"
        " produce nor fetch: 2; no hints: 1. kipctl's own 179 requests are not among them."
    )
    assert answer(cluster("c", FLEET[-1])) == (
        "No client is in the 74 lines that could be read, but kipctl: 179 requests.",
    )


def test_the_rack_that_is_not_there_is_named_with_its_cost_the_worst_first() -> None:
    document = cluster("c", *FLEET)
    document["brokers"] = [broker(1, 60.0), broker(2, 60.0)]
    document["rackless_reads"] = {"client_count": 1, **talker("nowhere", None)}
    document["rackless_reads"]["cross_rack_bytes"] = 700
    document["talkers"] = [
        talker("nowhere", None),
        talker("one", "az2"),
        talker("two", "az2", cross_rack_bytes=300),
        talker("other", "zone", cross_rack_bytes=100, price_of_30_days=None),
        talker("right", "az-2"),
    ]
    first, second, third, _ = answer(document)
    assert first == (
        "The cluster has no rack 'az2', which one, two name: they read 1.8 kB from leaders, 900 B"
        " of it across racks if they are in any of them (5.00 in 30 days). Did you mean 'az-2'?"
    )
    assert second.startswith("1 consumer names no rack and reads")
    assert third.startswith("The cluster has no rack 'zone', which other names: it reads 900 B")


def test_kipctls_own_bytes_stand_apart() -> None:
    own = talker("kipctl-perf", None, software="kipctl", produced_bytes=100)
    talkers = tables({**cluster("c", *FLEET), "talkers": [talker("app", "az-1"), own]})["talkers"]
    assert [cells[0] for cells in talkers.rows] == ["app"]
    assert "kipctl's own are not among them: 1.0 kB." in talkers.notes


def test_rates_say_of_how_long_a_time_they_are() -> None:
    document = cluster("c", *FLEET)
    document["brokers"] = [broker(1, 298.8), broker(2, 201.3)]
    document["talkers"] = [talker("app", "az-1")]
    note = "Rates are by how long each broker's own log lasts: broker 1 298.8 s, broker 2 201.3 s."
    by_name = tables(document)
    assert note in by_name["metadata"].notes
    assert note in by_name["talkers"].notes
    document["brokers"] = [broker(number, 298.8 + number / 10) for number in range(1, 7)]
    note = "Rates are by how long each broker's own log lasts: from 298.9 s (broker 1) to 299.4 s"
    assert any(each.startswith(note) for each in tables(document)["metadata"].notes)


def looked_at(read: int, errors: int, *findings: dict[str, Any]) -> dict[str, Any]:
    """A log as it was at a look."""
    document = {**cluster("one"), "findings": list(findings), "produce_errors": {"6": errors}}
    return {**log(document), "lines": {"read": read, "broken": read // 100}}


def test_a_look_says_what_is_new() -> None:
    """Findings that were not there, the worst first, then lines, errors and how far behind."""
    java, old = finding("java"), {**finding("old"), "severity": "problem"}
    note = {**finding("java"), "severity": "note"}
    first, more = looked_at(80, 3, java, note), looked_at(1280, 3, java, old, finding("new"))
    said = [*look_sentences(None, first, 2.25)]
    assert [line.partition(" says")[0] for line in said] == [
        "metadata-storm (warning): java 1",
        "80 lines more, 80 in all; 3 errors to Produce and Fetch; 2 s behind.",
    ]
    said = [*look_sentences(first, more, None)]
    assert [line.partition(" says")[0] for line in said] == [
        "metadata-storm (problem): old 1",
        "metadata-storm (warning): new 1",
        "1,200 lines more, 1,280 in all, 12 broken; 0 errors to Produce and Fetch.",
    ]
    (said,) = look_sentences(more, more, -7200.0)
    assert said.endswith("; their times are 2.0 h ahead of this machine's clock: see --timezone.")
