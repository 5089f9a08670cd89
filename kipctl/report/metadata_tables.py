"""Tables of `perf metadata` and `inspect metadata`, from what `--output json` prints."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kipctl.counts import counted
from kipctl.report.tables import Column, Source, Table, table_of

Document = Mapping[str, Any]

_OF_PHASE: Mapping[Column | str, Source] = {"Client": "client", "Phase": "phase"}
_CAUSES = {
    "start": "Start",
    "new_topic": "New topic",
    "idle_eviction": "Back from idle",
    "leader_change": "Leader change",
    "max_age": "Max age",
    "error_retry": "Error",
    "unexplained": "Unexplained",
    "unknown": "Unknown",
}


def perf_metadata_answer(document: Document) -> str:
    """How many requests each client sent, and for how long a record waited for one."""
    sent: Counter[str] = Counter()
    waits = []
    for phase in _phases(document):
        sent[phase["client"]] += phase["requests"]
        waits += [phase["waited_ms"]["max"]] if phase["waited_ms"] else []
    counts = ", ".join(f"{client} {requests:,}" for client, requests in sent.items())
    waited = f"; a record waited for one {max(waits):,.1f} ms at most" if waits else ""
    return f"Metadata requests for {counted(document['topics'], 'topic')}: {counts}{waited}."


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
        title: key
        for key, title in _CAUSES.items()
        if any(key in phase["by_cause"] for phase in phases)
    }
    is_counted = any(phase["brokers_counted"] is not None for phase in phases)
    version = document["kafka_version"]
    return table_of(
        f"Metadata requests: {counted(document['topics'], 'topic')} of"
        f" {counted(document['partitions'], 'partition')}"
        + (f", Kafka {version}" if version else ""),
        phases,
        {
            **_OF_PHASE,
            "Requests": "requests",
            **({"By brokers": "brokers_counted"} if is_counted else {}),
            **{title: partial(_of_cause, key) for title, key in causes.items()},
            "Topics asked": "topics_asked",
            Column("Most at once", detail=True): "most_topics_asked",
            "Request bytes": "request_bytes",
            "Response bytes": "response_bytes",
        },
        (
            "Steady and idle-return have metadata.max.age.ms=2000, idle-return also"
            " metadata.max.idle.ms=5000.",
            *(
                ("By brokers: as they count them; not while leaders move, which asks too.",)
                if is_counted
                else ()
            ),
        ),
        name="requests",
    )


def _of_cause(cause: str, phase: Document) -> int:
    return int(phase["by_cause"].get(cause, 0))


def waits_table(document: Document) -> Table:
    """How long records waited for Metadata, and what became of their latency."""
    quantiles = ("p50", "p99", "max")
    return table_of(
        "Records that waited for Metadata",
        _phases(document),
        {
            **_OF_PHASE,
            "Records": "records",
            "Failed": "failed",
            "Waited": "waited_records",
            **{Column(f"Wait {name} ms", 2): f"waited_ms.{name}" for name in quantiles},
            Column("Wait sum ms", 0): "waited_ms.sum",
            **{Column(f"Latency {name} ms", 1): f"latency_ms.{name}" for name in quantiles},
            Column("Seconds", 1): "seconds",
        },
        (
            "The probe sends as one thread does in Java: who waits holds up the records behind it.",
            "Latency counts from when a record should have been sent.",
        ),
        name="waits",
    )


def growth_table(document: Document) -> Table:
    """Requests for new topics at startup, from the first to the last."""
    return table_of(
        "Startup: requests for new topics",
        (
            {**step, "client": _name(client)}
            for client in document["clients"]
            for step in client["growth"]
        ),
        {
            "Client": "client",
            "Request": "number",
            "Topics asked": "topics",
            "Request bytes": "request_bytes",
            "Response bytes": "response_bytes",
            Column("ms", 2): "ms",
        },
        name="growth",
    )


def _name(client: Document) -> str:
    return " ".join(filter(None, (client["client"], client["policy"])))


def _phases(document: Document) -> Iterator[Document]:
    """Of each client its phases, with its name."""
    for client in document["clients"]:
        for phase in client["phases"]:
            yield {**phase, "client": _name(client)}
