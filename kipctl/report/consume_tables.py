"""Tables of a consumer's run, from the document that `--output json` prints."""

from collections.abc import Iterator, Sequence

from kipctl.counts import counted
from kipctl.documents.runs import (
    ConsumeDocument,
    EndToEndDocument,
    Flips,
    OutOfRange,
    Reading,
)
from kipctl.report.columns import measured
from kipctl.report.perf_tables import (
    actions_tables,
    doubts_tables,
    health_notes,
    latency_of,
    metadata_table,
    redirects_tables,
)
from kipctl.report.tables import Column, Paragraph, Table, Tone, identifier, table_of

_HANDLINGS = {
    "wait": "waits for the high watermark",
    "ask_leader": "reads from the leader",
    "reset": "goes to where auto.offset.reset says",
    "truncate": "goes back to where the logs part",
    "fail": "gives up: auto.offset.reset is none",
}
_CASES = {
    "uncommitted": "between the high watermark and the log's end",
    "unavailable": "the leader has it, the follower not yet",
    "follower_begins_later": "the leader has it, the follower no more: its log begins later",
    "too_small": "before the start of the leader's log",
    "too_large": "beyond the end of the leader's log",
}


def consume_answer(document: ConsumeDocument) -> tuple[Paragraph, ...]:
    """How much was read, from whom, and what the brokers took for it."""
    errors = document["fetches"]["errors"]
    said = fetched(document, document["records"]["read"], document["seconds"])
    return (Paragraph(said, tone=Tone.WARNING if errors else Tone.GOOD),)


def fetched(document: Reading, records: int, seconds: float) -> str:
    """The same in one sentence; of so many records in that time."""
    fetches, rack, read = document["fetches"], document["client_rack"], document["brokers"]
    errors = ", ".join(f"{count:,} x {name}" for name, count in fetches["errors"].items())
    brokers = len({broker["broker"] for broker in read if broker["records"]})
    local = sum(broker["share"] for broker in read if broker["local"])
    return (
        f"{counted(records, 'record', 'were')} read from"
        f" {counted(brokers, 'broker')} in {seconds:.3f} s"
        + (f", {100 * local:.1f} % of the bytes in rack {rack}" if rack is not None else "")
        + f": {fetches['requests']:,} Fetch requests, {latency_of(fetches['took_ms'])}"
        + (f"; {fetches['lost']:,} lost with their connection" if fetches["lost"] else "")
        + (f"; errors: {errors}" if errors else "")
        + "."
    )


def consume_tables(document: ConsumeDocument) -> tuple[Table, ...]:
    """What a person wants to see: from whom, how that changed, what was refused, Metadata."""
    redirects, rpcs, actions = document["redirects"], document["metadata_rpcs"], document["actions"]
    return (
        *doubts_tables(document.get("doubts", ())),
        *reading_tables(
            document, tuple(health_notes(document, document["fetches"]["took_ms"]["p99"]))
        ),
        *redirects_tables(redirects, rpcs, actions, of_fetches=True),
        metadata_table(rpcs),
        *actions_tables(actions),
    )


def reading_tables(
    document: ConsumeDocument | EndToEndDocument, notes: tuple[str, ...] = ()
) -> Iterator[Table]:
    """From whom it was read, how that changed, and what was refused."""
    yield _brokers(document, notes)
    if document["flips"]:
        yield _flips(document["flips"])
    if document["out_of_range"]:
        yield _out_of_range(document["out_of_range"])


def _brokers(document: ConsumeDocument | EndToEndDocument, notes: tuple[str, ...]) -> Table:
    """As leader and as follower."""
    rack, version = document["client_rack"], document["kafka_version"]
    return table_of(
        f"Read from {document['topic']}, {counted(document['partitions'], 'partition')}, "
        + (f"client.rack {rack}" if rack else "no client.rack")
        + (f", Kafka {version}" if version else ""),
        document["brokers"],
        {
            Column("broker", right=True): identifier("broker"),
            "rack": "rack",
            "read as": "read_as",
            "partitions": "partitions",
            "records": "records",
            Column("MB", 1): lambda broker: broker["bytes"] / 1048576,
            Column("share %", 1): lambda broker: 100 * broker["share"],
            "in client's rack": "local",
        },
        notes,
        name="brokers",
    )


def _flips(flips: Sequence[Flips]) -> Table:
    """When a partition came from another broker than before, and why."""
    return table_of(
        "Other brokers than before",
        flips,
        {
            Column("from", right=True): identifier("from_broker"),
            Column("to", right=True): identifier("to_broker"),
            "why": "why",
            "partitions": "partitions",
            "times": "times",
            Column("first at s", 3): lambda flip: flip["first_ms"] / 1000,
            **measured("gap_ms.p50", "gap_ms.max"),
        },
        ("A gap lies between the last records from one broker and the first from the next.",),
        name="flips",
    )


def _out_of_range(offsets: Sequence[OutOfRange]) -> Table:
    """Offsets that a broker did not have, by KIP-392's cases."""
    return table_of(
        "Offsets out of range (KIP-392)",
        offsets,
        {
            "case": lambda row: row["case"].replace("_", " "),
            "what it is": lambda row: _CASES[row["case"]],
            "what the consumer did": lambda row: _HANDLINGS[row["handling"]],
            "times": "times",
        },
        name="out_of_range",
    )
