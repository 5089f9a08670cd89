"""Tables of `perf metadata` and `inspect metadata`, from what `--output json` prints."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

from kipctl.counts import counted
from kipctl.documents.experiments import ClaimsDocument
from kipctl.documents.runs import Growth, MetadataClient, MetadataDocument, MetadataPhase
from kipctl.report.columns import measured
from kipctl.report.tables import Column, Table, table_of


class _Phase(MetadataPhase):
    client: str


class _Growth(Growth):
    client: str


_OF_PHASE: Mapping[Column | str, str] = {"Client": "client", "Phase": "phase"}
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


def perf_metadata_answer(document: MetadataDocument) -> str:
    """How many requests each client sent, and for how long a record waited for one."""
    sent: Counter[str] = Counter()
    waits = []
    for phase in _phases(document):
        sent[phase["client"]] += phase["requests"]
        waits += [phase["waited_ms"]["max"]] if phase["waited_ms"] else []
    counts = ", ".join(f"{client} {requests:,}" for client, requests in sent.items())
    waited = f"; a record waited for one {max(waits):,.1f} ms at most" if waits else ""
    return f"Metadata requests for {counted(document['topic_count'], 'topic')}: {counts}{waited}."


def perf_metadata_tables(document: MetadataDocument) -> tuple[Table, ...]:
    """Requests by cause, who waited, and how requests grow as topics come to be known."""
    tables = [requests_table(document), waits_table(document)]
    if any(client["growth"] for client in document["clients"]):
        tables.append(growth_table(document))
    return tuple(tables)


def requests_table(document: MetadataDocument | ClaimsDocument) -> Table:
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
        f"Metadata requests: {counted(document['topic_count'], 'topic')} of"
        f" {counted(document['partition_count'], 'partition')}"
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


def _of_cause(cause: str, phase: MetadataPhase) -> int:
    return phase["by_cause"].get(cause, 0)


_QUANTILES = ("p50", "p99", "max")


def waits_table(document: MetadataDocument) -> Table:
    """How long records waited for Metadata, and what became of their latency."""
    return table_of(
        "Records that waited for Metadata",
        _phases(document),
        {
            **_OF_PHASE,
            "Records": "records",
            "Failed": "failed",
            "Waited": "waited_records",
            **measured(*(f"waited_ms.{name}" for name in (*_QUANTILES, "sum")), title="Wait"),
            **measured(*(f"latency_ms.{name}" for name in _QUANTILES), title="Latency"),
            Column("Seconds", 1): "seconds",
        },
        (
            "The probe sends as one thread does in Java: who waits holds up the records behind it.",
            "Latency counts from when a record should have been sent.",
        ),
        name="waits",
    )


def growth_table(document: MetadataDocument) -> Table:
    """Requests for new topics at startup, from the first to the last."""
    return table_of(
        "Startup: requests for new topics",
        (
            _Growth(**step, client=_name(client))
            for client in document["clients"]
            for step in client["growth"]
        ),
        {
            "Client": "client",
            "Request": "number",
            "Topics asked": "topic_count",
            "Request bytes": "request_bytes",
            "Response bytes": "response_bytes",
            Column("ms", 2): "duration_ms",
        },
        name="growth",
    )


def _name(client: MetadataClient) -> str:
    return " ".join(filter(None, (client["client"], client["policy"])))


def _phases(document: MetadataDocument | ClaimsDocument) -> Iterator[_Phase]:
    """Of each client its phases, with its name."""
    for client in document["clients"]:
        for phase in client["phases"]:
            yield _Phase(**phase, client=_name(client))
