"""Tables of brokers' request logs, from the document of `analyze request-log --output json`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from kipctl.counts import counted
from kipctl.documents.analysis import FleetRow, LoggedCluster, RequestLogAnalysis
from kipctl.report.findings import known_in_words
from kipctl.report.log_traffic_tables import (
    deprecated,
    is_own,
    latency_by_api,
    latency_by_broker,
    latency_by_client,
    metadata_clients,
    notes_on_rates,
    principals,
    talkers,
)
from kipctl.report.tables import Column, Table, identifier, table_of

_APIS_SHOWN = ("PRODUCE", "FETCH", "METADATA")
_ADDRESSES_SHOWN = 5


def request_log_tables(document: RequestLogAnalysis) -> tuple[Table, ...]:
    """Lines, findings, brokers; what is asked first: latency, bytes, Metadata, principals, old
    versions; the fleet, its clients, requests, errors, reads; none without rows.

    Where there are several clusters, the first column of all but the lines says which one.
    """
    made = (
        _findings,
        _brokers,
        latency_by_api,
        talkers,
        metadata_clients,
        principals,
        deprecated,
        _fleet,
        _refused,
        _clients,
        _requests,
        _leader_errors,
        _fetch_errors,
        _metadata,
        latency_by_broker,
        latency_by_client,
        _reads,
        _clocks,
    )
    clusters = [(cluster["cluster_id"], cluster) for cluster in document["clusters"]]
    tables = (_of_clusters([(name, make(cluster)) for name, cluster in clusters]) for make in made)
    return tuple(table for table in (_lines(document), *tables) if table.rows)


def _findings(cluster: LoggedCluster) -> Table:
    return table_of(
        "Findings, the worst first",
        cluster["findings"],
        {
            "severity": "severity",
            "finding": "id",
            "software": lambda finding: f"{finding['software']} {finding['version']}",
            "clients": "client_count",
            "seen": lambda finding: f"{finding['times']:,} of {finding['of']:,}",
            "known": known_in_words,
        },
        (
            "Clients are those that have it by themselves; where none has, all of the software"
            " together.",
        ),
        name="findings",
    )


def _of_clusters(tables: Sequence[tuple[str | None, Table]]) -> Table:
    """One table of those of each cluster."""
    if not tables:  # of no cluster
        return Table("", (), (), name="clusters")
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


def _lines(document: RequestLogAnalysis) -> Table:
    notes = [
        f"{line['file']}, line {line['line']} is broken: {line['text']}"
        for line in document["broken_lines"]
    ]
    if envelopes := document.get("envelopes"):
        each = ", ".join(f"{name} ({count:,})" for name, count in envelopes.items())
        notes.insert(0, f"Lines that were not plain, by what they came in: {each}.")
    if untimed := document.get("untimed"):
        told = counted(untimed, "request", "tell")
        notes.insert(0, f"{told} no time: what clients did after errors is not known of them.")
    periods = [cluster["period"] for cluster in document["clusters"]]
    moments = [at for period in periods for at in (period["from"], period["to"]) if at is not None]
    if moments:
        notes.insert(0, f"From {min(moments)} to {max(moments)}.")
    return table_of(
        "Lines of the request log",
        (document["lines"],),
        {name: name for name in ("read", "parsed", "broken", "other")},
        tuple(notes),
        name="lines",
    )


def _brokers(document: LoggedCluster) -> Table:
    return table_of(
        "Brokers and their logs",
        document["brokers"],
        {
            "broker": identifier("broker"),
            "rack": "rack",
            "lines": "line_count",
            "from": "from",
            "to": "to",
            "gaps": lambda row: len(row["gaps"]),
            Column("seconds", 1, detail=True): "seconds",
        },
        name="brokers",
    )


def _fleet(document: LoggedCluster) -> Table:
    return table_of(
        "The fleet: clients by software",
        document["fleet"],
        {
            "software": lambda row: f"{row['software']} {row['version']}",
            "clients": "client_count",
            Column("requests", detail=True): "requests",
            **{
                Column(f"{api.capitalize()} versions", right=True, detail=True): partial(
                    _versions, api
                )
                for api in _APIS_SHOWN
            },
            "leader hints": "hint_behaviour",
            **_OF_REFUSED,
            Column("Metadata/min", 1, detail=True): "metadata.per_minute",
            Column("Metadata MB", 3, detail=True): lambda row: (
                row["metadata"]["response_bytes"] / 1e6
            ),
            Column("across racks %", 1, detail=True): _across_racks,
        },
        (*_own_is_apart(document), *_unknown_brokers(document)),
        name="fleet",
    )


_OF_REFUSED: dict[Column | str, str] = {
    Column("NOT_LEADER errors", detail=True): "not_leader.total",
    Column("with hint", detail=True): "not_leader.hinted",
    Column("hints followed", detail=True): "followed_hints.followed",
    Column("at once", detail=True): "followed_hints.at_once",
    Column("waited, p50 ms", 1, detail=True): "wait_ms.p50",
    Column("max ms", 1, detail=True): "wait_ms.max",
}


def _refused(document: LoggedCluster) -> Table:
    return table_of(
        "Clients that met moved leaders",
        document["refused_clients"],
        {
            "client": "client",
            "software": lambda row: f"{row['software']} {row['version']}",
            "leader hints": "verdict.behaviour",
            "NOT_LEADER errors": "leader_errors",
            **dict(list(_OF_REFUSED.items())[2:]),
            Column("at most without success, ms", 1, detail=True): "wait_ms.longest",
        },
        name="refused_clients",
    )


def _versions(api: str, row: FleetRow) -> str:
    return ", ".join(row["requests_by_api"].get(api, ())) or "-"


def _across_racks(row: FleetRow) -> float | None:
    share = row["rack_bytes"]["cross_rack_share"]
    return None if share is None else 100 * share


def _own_is_apart(document: LoggedCluster) -> Iterator[str]:
    if any(is_own(row) for row in document["fleet"]):
        yield "kipctl's own stand last, and are in no count of clients."


def _unknown_brokers(document: LoggedCluster) -> Iterator[str]:
    not_known = document["requests_of_unknown_brokers"]
    if not_known:
        share = 100 * sum(not_known.values()) / document["requests_served"]
        yield (
            f"Of {share:.0f} % of the requests to produce and to fetch the broker is not known "
            f"(--broker-at): {', '.join(sorted(not_known)[:_ADDRESSES_SHOWN])}."
        )


def _clients(document: LoggedCluster) -> Table:
    keys = ("software", "version", "origin", "hosts", "connections", "requests")
    return table_of(
        "Clients by id",
        document["clients"],
        {"client id": "client_id", **{key: key for key in keys}},
        name="clients",
    )


def _requests(document: LoggedCluster) -> Table:
    rows = document["apis"]
    by = [name for name in (rows[0] if rows else ()) if name not in _OF_API]
    return table_of(
        "Requests by API",
        rows,
        {
            **{name.replace("_", " "): identifier(name) for name in by},
            "API": "api",
            Column("version", right=True): identifier("api_version"),
            "requests": "requests",
        },
        name="apis",
    )


_OF_API = ("api", "api_key", "api_version", "requests")


def _leader_errors(document: LoggedCluster) -> Table:
    return table_of(
        "NOT_LEADER_OR_FOLLOWER in answers to Produce, by partition",
        (document["produce_not_leader"],),
        {
            "errors": "total",
            "with a hint": "hinted",
            "appended, then failed": "appended_then_failed",
        },
        name="produce_errors",
    )


def _fetch_errors(document: LoggedCluster) -> Table:
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


def _metadata(document: LoggedCluster) -> Table:
    metadata = document["metadata"]
    rate = metadata["per_minute"]
    return Table(
        "Metadata requests of clients by cause, inferred from their order",
        ("cause", "requests"),
        tuple((cause.replace("_", " "), count) for cause, count in metadata["by_cause"].items()),
        (
            f"{counted(metadata['requests'], 'request')}"
            + (f", {rate:,.1f} a minute" if rate else "")
            + f"; {metadata['response_bytes'] / 1e6:,.3f} MB of answers.",
            *notes_on_rates(document),
        ),
        name="metadata",
    )


def _reads(document: LoggedCluster) -> Table:
    return table_of(
        "Reads of consumers that name their rack",
        document["reads"],
        {
            "client rack": "client_rack",
            "broker rack": "broker_rack",
            "fetches": "fetch_count",
            Column("MB", 3): lambda row: row["bytes"] / 1e6,
        },
        name="reads",
    )


def _clocks(document: LoggedCluster) -> Table:
    """Of brokers whose clocks surely differ."""
    rows = [row for row in document["clocks"] if row["differ_at_least_ms"] > 0]
    return table_of(
        "Clocks of brokers that differ",
        rows,
        {
            "broker": identifier("broker"),
            "other": identifier("other"),
            Column("at least ms", 3): "differ_at_least_ms",
        },
        (
            "Times between requests at different brokers are off by that. Where it is above "
            "10 ms, nothing is said of waits, nor of hints that were followed.",
        )
        if rows
        else (),
        name="clocks",
    )
