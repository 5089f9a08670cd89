"""Tables of request logs: where the time went, who talks most, who asks for Metadata, as whom."""

from collections.abc import Iterator, Sequence
from functools import partial

from kipctl.counts import counted, format_bytes
from kipctl.documents.analysis import FleetRow, LoggedCluster, MetadataAsker
from kipctl.documents.log_traffic import Talker, TimedApi
from kipctl.protocol.api_versions import OWN_SOFTWARE
from kipctl.report.tables import Column, Columns, Table, identifier, table_of

_NAMED = 5
_PARTS = ("request queue", "local", "remote", "throttle", "response queue", "send")


def _api(row: TimedApi) -> str:
    return f"{row['api']} of followers" if row["is_follower"] else row["api"]


_TIMES: Columns[TimedApi] = {
    "API": _api,
    "requests": "requests",
    Column("total p50 ms", 2): "total_time_ms.p50",
    Column("p90", 2, detail=True): "total_time_ms.p90",
    Column("p99", 2): "total_time_ms.p99",
    Column("p99.9", 2): "total_time_ms.p999",
    Column("max", 2, detail=True): "total_time_ms.max",
    **{
        Column(f"{part} p99", 2, detail=True): f"{part.replace(' ', '_')}_time_ms.p99"
        for part in _PARTS
    },
}
_FIRST: dict[str, Columns[TimedApi]] = {
    "by_api": {},
    "by_broker": {"broker": identifier("broker")},
    "by_client": {"client id": "client_id"},
}
_BY = {"by_api": "API", "by_broker": "broker", "by_client": "client id"}


def latency_table(by: str, cluster: LoggedCluster) -> Table:
    """How long brokers took, by one of _BY."""
    rows: dict[str, Sequence[TimedApi]] = {
        "by_api": cluster["latency_by_api"],
        "by_broker": cluster["latency_by_broker"],
        "by_client": cluster["latency_by_client"],
    }
    return table_of(
        f"How long requests took, by {_BY[by]}",
        rows[by],
        {**_FIRST[by], **_TIMES},
        ("Of each part of the total its own p99. JSON has p50 to p99.9 of all seven times.",)
        if by == "by_api"
        else (),
        name=f"latency_{by}",
    )


def talkers(cluster: LoggedCluster) -> Table:
    """Bytes of records by client id, consumers without a rack first."""
    rows = [row for row in cluster["talkers"] if not is_own(row)]
    own = [row for row in cluster["talkers"] if is_own(row)]
    prices: Columns[Talker] = {}
    if any(row["price_of_30_days"] is not None for row in rows):
        prices = {Column("price of 30 days", 2): "price_of_30_days"}
    return table_of(
        "Clients by bytes of records",
        rows,
        {
            "client id": "client_id",
            "software": lambda row: f"{row['software']} {row['version']}",
            "rack": lambda row: row["rack"] or ("none" if row["fetched_bytes"] else None),
            Column("produced", is_bytes=True): "produced_bytes",
            Column("fetched", is_bytes=True): "fetched_bytes",
            Column("across racks", is_bytes=True): "cross_rack_bytes",
            **prices,
        },
        (
            "Consumers that name no rack come first; they may be in any, and the mean over all is"
            " taken.",
            *_own_bytes(own),
            *notes_on_rates(cluster),
        ),
        name="talkers",
    )


def is_own(row: Talker | FleetRow) -> bool:
    """Whether it is of kipctl itself, whose requests are no client's."""
    return row["software"] == OWN_SOFTWARE


def _own_bytes(own: Sequence[Talker]) -> Iterator[str]:
    if size := sum(row["produced_bytes"] + row["fetched_bytes"] for row in own):
        yield f"kipctl's own are not among them: {format_bytes(size)}."


def notes_on_rates(cluster: LoggedCluster) -> Iterator[str]:
    """Of how long a time rates are, where that is not the time of the whole log."""
    whole = cluster["period"]["seconds"] or 0.0
    lasts = [(row["seconds"], row["broker"]) for row in cluster["brokers"] if row["seconds"]]
    if all(abs(seconds - whole) < whole / 100 for seconds, _ in lasts):
        return
    each = ", ".join(f"broker {broker} {seconds:,.1f} s" for seconds, broker in lasts)
    if len(lasts) > _NAMED:
        (least, first), (most, last) = min(lasts), max(lasts)
        each = f"from {least:,.1f} s (broker {first}) to {most:,.1f} s (broker {last})"
    yield f"Rates are by how long each broker's own log lasts: {each}."


def metadata_clients(cluster: LoggedCluster) -> Table:
    """Who asks for Metadata, kipctl's own requests told below."""
    rows = [row for row in cluster["metadata_clients"] if not row["is_kipctl"]]
    own = sum(row["requests"] for row in cluster["metadata_clients"] if row["is_kipctl"])
    bugs = dict.fromkeys(row["known_bug"] for row in rows if row["known_bug"])
    notes = [bug for bug in bugs if bug]
    if own:
        notes.append(f"kipctl's own are not among them: {counted(own, 'request')}.")
    notes += notes_on_rates(cluster)
    return table_of(
        "Clients by Metadata requests",
        rows,
        {
            "client": "client",
            "software": lambda row: f"{row['software']} {row['version']}",
            Column("a minute", 1): "per_minute",
            "requests": "requests",
            Column("answers", is_bytes=True): "response_bytes",
            "causes": _causes,
            Column("told the same", detail=True): "answered_the_same",
            Column("asked for", detail=True): lambda row: row["asked"] or "all topics",
        },
        tuple(notes),
        name="metadata_clients",
    )


def _causes(row: MetadataAsker) -> str:
    """The most frequent first."""
    in_order = sorted(row["by_cause"].items(), key=lambda item: -item[1])
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in in_order)


def principals(cluster: LoggedCluster) -> Table:
    """As whom, and over which listener."""
    keys = ("principal", "listener", "security protocol", "origin")
    return table_of(
        "Principals and listeners",
        cluster["principals"],
        {
            **{name: name.replace(" ", "_") for name in keys},
            "clients": "client_count",
            **{name: name for name in ("connections", "requests")},
        },
        name="principals",
    )


def deprecated(cluster: LoggedCluster) -> Table:
    """Versions that Kafka 4.0 refuses."""
    return table_of(
        "Requests in versions that Kafka 4.0 refuses (KIP-896)",
        cluster["deprecated"],
        {
            "client id": "client_id",
            "software": lambda row: f"{row['software']} {row['version']}",
            "API": "api",
            Column("version", right=True): identifier("api_version"),
            "requests": "requests",
        },
        name="deprecated",
    )


latency_by_api = partial(latency_table, "by_api")
latency_by_broker = partial(latency_table, "by_broker")
latency_by_client = partial(latency_table, "by_client")
