"""Tables of brokers' request logs, from the document of `analyze request-log --output json`."""

from collections.abc import Mapping, Sequence
from typing import Any

from kipctl.report.tables import Cell, Column, Table

Document = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]

_HINTS = {
    "uses": "follows them",
    "waits": "gets them, and waits all the same",
    "gets": "gets them",
    "none": "too old for them",
    "-": "-",
}
_APIS_SHOWN = ("PRODUCE", "FETCH", "METADATA")


def request_log_tables(document: Document) -> tuple[Table, ...]:
    """Lines, the fleet, its clients, requests, errors, Metadata, reads; none without rows."""
    tables = [
        _lines(document),
        _fleet(document["fleet"]),
        _clients(document["clients"]),
        _requests(document["apis"]),
        _leader_errors(document),
        _fetch_errors(document),
        _metadata(document["metadata"]),
        _reads(document["reads"]),
    ]
    return tuple(table for table in tables if table.rows)


def _lines(document: Document) -> Table:
    lines, period = document["lines"], document["period"]
    notes = [
        f"{line['file']}, line {line['line']} is broken: {line['text']}"
        for line in document["broken_lines"]
    ]
    if period["from"]:
        notes.insert(0, f"From {period['from']} to {period['to']}.")
    return Table(
        "Lines of the request log",
        ("read", "parsed", "broken", "other"),
        ((lines["read"], lines["parsed"], lines["broken"], lines["other"]),),
        tuple(notes),
        name="lines",
    )


def _fleet(rows: Rows) -> Table:
    def cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
        errors, waited, reads = row["leader_errors"], row["wait_ms"], row["reads"]
        share = reads["cross_rack_share"]
        return (
            f"{row['software']} {row['version']}",
            row["clients"],
            row["requests"],
            *(", ".join(row["apis"].get(api, ())) or "-" for api in _APIS_SHOWN),
            _HINTS[row["hints"]],
            errors["total"],
            errors["hinted"],
            waited["p50"],
            waited["max"],
            row["metadata"]["per_minute"],
            row["metadata"]["response_bytes"] / 1e6,
            None if share is None else 100 * share,
        )

    return Table(
        "The fleet: clients by software",
        (
            "software",
            "clients",
            "requests",
            *(Column(f"{api.capitalize()} versions", right=True) for api in _APIS_SHOWN),
            "leader hints",
            "NOT_LEADER errors",
            "with hint",
            Column("waited after, p50 ms", 1),
            Column("max ms", 1),
            Column("Metadata/min", 1),
            Column("Metadata MB", 3),
            Column("across racks %", 1),
        ),
        tuple(map(cells, rows)),
        name="fleet",
    )


def _clients(rows: Rows) -> Table:
    return Table(
        "Clients by id",
        ("client id", "software", "version", "origin", "hosts", "connections", "requests"),
        tuple(
            (
                row["client_id"],
                row["software"],
                row["version"],
                row["origin"],
                row["hosts"],
                row["connections"],
                row["requests"],
            )
            for row in rows
        ),
        name="clients",
    )


def _requests(rows: Rows) -> Table:
    by = [name for name in (rows[0] if rows else ()) if name not in _OF_API]
    return Table(
        "Requests by API",
        (
            *(name.replace("_", " ") for name in by),
            "API",
            Column("version", right=True),
            "requests",
        ),
        tuple(
            (
                *(None if row[name] is None else str(row[name]) for name in by),
                row["api"],
                str(row["version"]),
                row["requests"],
            )
            for row in rows
        ),
        name="apis",
    )


_OF_API = ("api", "api_key", "version", "requests")


def _leader_errors(document: Document) -> Table:
    refused = document["produce_not_leader"]
    return Table(
        "NOT_LEADER_OR_FOLLOWER in answers to Produce, by partition",
        ("errors", "with a hint", "appended, then failed"),
        ((refused["total"], refused["hinted"], refused["appended_then_failed"]),),
        name="produce_errors",
    )


def _fetch_errors(document: Document) -> Table:
    readers = document["fetch_errors_by_reader"]
    return Table(
        "Errors in answers to Fetch, by partition",
        (Column("code", right=True), "error", "answers", "to consumers", "to replicas"),
        tuple(
            (
                code,
                document["error_names"].get(code),
                count,
                readers["consumers"].get(code, 0),
                readers["replicas"].get(code, 0),
            )
            for code, count in document["fetch_errors"].items()
        ),
        (
            f"{document['preferred_read_replica']['named']:,} answers sent a consumer to a "
            "preferred read replica.",
        ),
        name="fetch_errors",
    )


def _metadata(metadata: Mapping[str, Any]) -> Table:
    rate = metadata["per_minute"]
    return Table(
        "Metadata requests of clients by cause, inferred from their order",
        ("cause", "requests"),
        tuple((cause.replace("_", " "), count) for cause, count in metadata["by_cause"].items()),
        (
            f"{metadata['requests']:,} requests"
            + (f", {rate:,.1f} a minute" if rate else "")
            + f"; {metadata['response_bytes'] / 1e6:,.3f} MB of answers.",
        ),
        name="metadata",
    )


def _reads(rows: Rows) -> Table:
    return Table(
        "Reads of consumers that name their rack",
        ("client rack", "broker rack", "fetches", Column("MB", 3)),
        tuple(
            (row["client_rack"], row["broker_rack"], row["fetches"], row["bytes"] / 1e6)
            for row in rows
        ),
        name="reads",
    )
