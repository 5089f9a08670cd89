"""Tables of `perf metadata` and `inspect metadata`, from what `--output json` prints."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kipctl.report.tables import Cell, Column, Table

Document = Mapping[str, Any]

_CAUSES = {
    "start": "Start",
    "new_topic": "New topic",
    "idle_eviction": "Back from idle",
    "leader_change": "Leader change",
    "max_age": "Max age",
    "error_retry": "Error",
    "unknown": "Unknown",
}


def perf_metadata_answer(document: Document) -> str:
    """How many requests each client sent, and for how long a record waited for one."""
    sent: Counter[str] = Counter()
    waits = []
    for client, phase in _phases(document):
        sent[client] += phase["requests"]
        waits += [phase["waited_ms"]["max"]] if phase["waited_ms"] else []
    counts = ", ".join(f"{client} {requests:,}" for client, requests in sent.items())
    waited = f"; a record waited for one {max(waits):,.1f} ms at most" if waits else ""
    return f"Metadata requests for {document['topics']:,} topics: {counts}{waited}."


def perf_metadata_tables(document: Document) -> tuple[Table, ...]:
    """Requests by cause, who waited, and how requests grow as topics come to be known."""
    tables = [requests_table(document), waits_table(document)]
    if any(client["growth"] for client in document["clients"]):
        tables.append(growth_table(document))
    return tuple(tables)


def requests_table(document: Document) -> Table:
    """Metadata requests of each client and phase: how many, why, for how much."""
    phases = list(_phases(document))
    causes = {
        key: title
        for key, title in _CAUSES.items()
        if any(key in phase["by_cause"] for _, phase in phases)
    }
    counted = any(phase["brokers_counted"] is not None for _, phase in phases)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            client,
            phase["phase"],
            phase["requests"],
            *((phase["brokers_counted"],) if counted else ()),
            *(phase["by_cause"].get(key, 0) for key in causes),
            phase["topics_asked"],
            phase["most_topics_asked"],
            phase["request_bytes"],
            phase["response_bytes"],
        )
        for client, phase in phases
    )
    version = document["kafka_version"]
    return Table(
        f"Metadata requests: {document['topics']:,} topics of {document['partitions']} partitions"
        + (f", Kafka {version}" if version else ""),
        (
            "Client",
            "Phase",
            "Requests",
            *(("By brokers",) if counted else ()),
            *causes.values(),
            "Topics asked",
            Column("Most at once", detail=True),
            "Request bytes",
            "Response bytes",
        ),
        rows,
        (
            "Steady and idle-return have metadata.max.age.ms=2000, idle-return also"
            " metadata.max.idle.ms=5000.",
            *(
                ("By brokers: as they count them; not while leaders move, which asks too.",)
                if counted
                else ()
            ),
        ),
        name="requests",
    )


def waits_table(document: Document) -> Table:
    """How long records waited for Metadata, and what became of their latency."""

    def of(spread: Mapping[str, float] | None, *names: str) -> tuple[float | None, ...]:
        return tuple(None if spread is None else spread[name] for name in names)

    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            client,
            phase["phase"],
            phase["records"],
            phase["failed"],
            phase["waited_records"],
            *of(phase["waited_ms"], "p50", "p99", "max", "sum"),
            *of(phase["latency_ms"], "p50", "p99", "max"),
            phase["seconds"],
        )
        for client, phase in _phases(document)
    )
    return Table(
        "Records that waited for Metadata",
        (
            "Client",
            "Phase",
            "Records",
            "Failed",
            "Waited",
            *(Column(f"Wait {name} ms", 2) for name in ("p50", "p99", "max")),
            Column("Wait sum ms", 0),
            *(Column(f"Latency {name} ms", 1) for name in ("p50", "p99", "max")),
            Column("Seconds", 1),
        ),
        rows,
        (
            "The probe sends as one thread does in Java: who waits holds up the records behind it.",
            "Latency counts from when a record should have been sent.",
        ),
        name="waits",
    )


def growth_table(document: Document) -> Table:
    """Requests for new topics at startup, from the first to the last."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            *(step[key] for key in ("number", "topics", "request_bytes", "response_bytes", "ms")),
        )
        for client in document["clients"]
        for name in [_name(client)]
        for step in client["growth"]
    )
    return Table(
        "Startup: requests for new topics",
        ("Client", "Request", "Topics asked", "Request bytes", "Response bytes", Column("ms", 2)),
        rows,
        name="growth",
    )


def _name(client: Document) -> str:
    return " ".join(filter(None, (client["client"], client["policy"])))


def _phases(document: Document) -> Iterator[tuple[str, Document]]:
    for client in document["clients"]:
        for phase in client["phases"]:
            yield _name(client), phase
