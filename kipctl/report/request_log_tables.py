"""Tables of brokers' request logs, from the document of `analyze request-log --output json`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kipctl.counts import counted
from kipctl.report.tables import Cell, Column, Table

Document = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]

HINTS = {
    "uses": "follows them",
    "waits": "gets them, but waits",
    "gets": "gets them",
    "none": "too old for them",
    "-": "-",
}
"""What each use of leader hints is called."""
_APIS_SHOWN = ("PRODUCE", "FETCH", "METADATA")
_ADDRESSES_SHOWN = 5


def request_log_answer(document: Document) -> str:
    """How many clients use the leader's hints, of all that the log shows."""
    clients: Counter[str] = Counter()
    for cluster in document["clusters"]:
        for row in cluster["fleet"]:
            clients[HINTS[row["hints"]]] += row["clients"]
    served = document["lines"]["parsed"]
    if not clients:
        return f"No client is in the {counted(served, 'line')} that could be read."
    shown = "; ".join(f"{how}: {n:,}" for how, n in clients.most_common() if how != "-")
    return (
        f"{counted(clients.total(), 'client is', 'clients are')} in {counted(served, 'line')}. What"
        " they do with leader hints"
        f" (KIP-951): {shown or 'is not known'}."
    )


def request_log_tables(document: Document) -> tuple[Table, ...]:
    """Lines, the fleet, its clients, requests, errors, Metadata, reads; none without rows.

    Where there are several clusters, the first column of all but the lines says which one.
    """
    made = (_fleet, _clients, _requests, _leader_errors, _fetch_errors, _metadata, _reads, _clocks)
    clusters = document["clusters"]
    tables = (_of_clusters([(of["cluster_id"], make(of)) for of in clusters]) for make in made)
    return tuple(table for table in (_lines(document), *tables) if table.rows)


def _of_clusters(tables: Sequence[tuple[str | None, Table]]) -> Table:
    """One table of those of each cluster."""
    if len(tables) == 1:
        return tables[0][1]
    named = [(cluster or "unknown", table) for cluster, table in tables]
    first = named[0][1]
    return replace(
        first,
        columns=(Column("cluster", heads=True), *first.columns),
        rows=tuple((cluster, *row) for cluster, table in named for row in table.rows),
        notes=tuple(
            f"{cluster}: {note}" for cluster, table in named if table.rows for note in table.notes
        ),
    )


def _lines(document: Document) -> Table:
    lines = document["lines"]
    notes = [
        f"{line['file']}, line {line['line']} is broken: {line['text']}"
        for line in document["broken_lines"]
    ]
    periods = [of["period"] for of in document["clusters"] if of["period"]["from"]]
    if periods:
        first = min(period["from"] for period in periods)
        last = max(period["to"] for period in periods)
        notes.insert(0, f"From {first} to {last}.")
    return Table(
        "Lines of the request log",
        ("read", "parsed", "broken", "other"),
        ((lines["read"], lines["parsed"], lines["broken"], lines["other"]),),
        tuple(notes),
        name="lines",
    )


def _used(hints: Mapping[str, int | None]) -> int | None:
    """Hints that were followed at once; None where of none it was seen what came after."""
    return None if hints["present"] and hints["present"] == hints["unseen"] else hints["used"]


def _fleet(document: Document) -> Table:
    def cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
        errors, waited, reads = row["leader_errors"], row["wait_ms"], row["reads"]
        share = reads["cross_rack_share"]
        return (
            f"{row['software']} {row['version']}",
            row["clients"],
            row["requests"],
            *(", ".join(row["apis"].get(api, ())) or "-" for api in _APIS_SHOWN),
            HINTS[row["hints"]],
            errors["total"],
            errors["hinted"],
            _used(row["followed_hints"]),
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
            Column("requests", detail=True),
            *(
                Column(f"{api.capitalize()} versions", right=True, detail=True)
                for api in _APIS_SHOWN
            ),
            "leader hints",
            Column("NOT_LEADER errors", detail=True),
            Column("with hint", detail=True),
            Column("hints followed at once", detail=True),
            Column("waited after, p50 ms", 1, detail=True),
            Column("max ms", 1, detail=True),
            Column("Metadata/min", 1, detail=True),
            Column("Metadata MB", 3, detail=True),
            Column("across racks %", 1, detail=True),
        ),
        tuple(map(cells, document["fleet"])),
        tuple(_unknown_brokers(document)),
        name="fleet",
    )


def _unknown_brokers(document: Document) -> Iterator[str]:
    not_known = document["requests_of_unknown_brokers"]
    if not_known:
        share = 100 * sum(not_known.values()) / document["requests_served"]
        yield (
            f"Of {share:.0f} % of the requests to produce and to fetch the broker is not known "
            f"(--broker-at): {', '.join(sorted(not_known)[:_ADDRESSES_SHOWN])}."
        )


def _clients(document: Document) -> Table:
    rows = document["clients"]
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


def _requests(document: Document) -> Table:
    rows: Rows = document["apis"]
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


def _metadata(document: Document) -> Table:
    metadata = document["metadata"]
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


def _reads(document: Document) -> Table:
    return Table(
        "Reads of consumers that name their rack",
        ("client rack", "broker rack", "fetches", Column("MB", 3)),
        tuple(
            (row["client_rack"], row["broker_rack"], row["fetches"], row["bytes"] / 1e6)
            for row in document["reads"]
        ),
        name="reads",
    )


def _clocks(document: Document) -> Table:
    """Of brokers whose clocks surely differ."""
    rows = [row for row in document["clocks"] if row["differ_at_least_ms"] > 0]
    return Table(
        "Clocks of brokers that differ",
        ("broker", "other", Column("at least ms", 3)),
        tuple((str(row["broker"]), str(row["other"]), row["differ_at_least_ms"]) for row in rows),
        (
            "Times between requests at different brokers are off by that. Where it is above "
            "10 ms, nothing is said of waits, nor of hints that were followed.",
        )
        if rows
        else (),
        name="clocks",
    )
