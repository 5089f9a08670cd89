"""Tables of `experiment closest-replica`, from the document that `--output json` prints."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kipctl.counts import counted
from kipctl.next_step import Command
from kipctl.report.tables import Column, Paragraph, Table, paragraphs, table_of
from kipctl.report.verdicts import VERDICTS, verdict_notes

Document = Mapping[str, Any]
_FROM = {"leader": "the leader", "closest": "the closest replica"}


def replica_answer(document: Document) -> tuple[Paragraph, ...]:
    """How much each client reads in its own rack, without and with saying where it is."""
    return paragraphs(*(_share_of_rack(one, document["rack"]) for one in document["clients"]))


def _share_of_rack(client: Document, rack: str) -> str:
    shares = {name: reads["own_rack_percent"] for name, reads in client["reads"].items()}
    shown = {name: "-" if share is None else f"{share:.1f} %" for name, share in shares.items()}
    said = f"{client['client']} read {shown.get('closest', '-')} of its bytes in {rack}"
    return f"{said} with client.rack, {shown.get('leader', '-')} without."


def replica_tables(document: Document) -> tuple[Table, ...]:
    """Where bytes came from, what following costs, and what happens when the rack goes."""
    tables = [traffic_table(document), cost_table(document)]
    if document["rack_goes"]:
        tables.append(outage_table(document))
    return tuple(tables)


def _reads(document: Document) -> Iterator[Document]:
    """The reads of each client, from the leader and from the closest replica."""
    for client in document["clients"]:
        for name, reads in client["reads"].items():
            yield {**client, **reads, "from": _FROM[name], "is_closest": name == "closest"}


def traffic_table(document: Document) -> Table:
    """Bytes by rack, for each client without and with its rack."""
    racks = sorted({rack for reads in _reads(document) for rack in reads["bytes_by_rack"]})
    version = document["kafka_version"]
    idle = [
        client["client"]
        for client in document["clients"]
        if client["cross_rack_saved_percent"] is not None and client["cross_rack_saved_percent"] < 1
    ]
    return table_of(
        f"Bytes read by a consumer in {document['rack']}"
        + (f", Kafka {version}" if version else ""),
        _reads(document),
        {
            "client": "client",
            "reads from": "from",
            "software": "software",
            "seen by": "measured_by",
            "bytes": "bytes",
            **{f"of {rack}": partial(_bytes_of, rack) for rack in racks},
            Column("own rack %", 1): "own_rack_percent",
            Column("cross-rack saved %", 1): lambda reads: (
                reads["cross_rack_saved_percent"] if reads["is_closest"] else None
            ),
        },
        (
            f"{counted(document['partitions'], 'partition')}, {document['throughput']:,.0f}"
            " records/s of "
            f"{document['record_size']:,} bytes, {document['seconds']:g} s a run, "
            f"{counted(document['runs'], 'run')} each. The leader: no client.rack"
            f"; the closest replica: client.rack={document['rack']}.",
            *(
                f"{name} read no less across racks with its rack than without: is "
                "replica.selector.class set? See " + Command("inspect replica-selection") + "."
                for name in idle
            ),
        ),
        name="traffic",
    )


def _bytes_of(rack: str, reads: Document) -> int:
    return int(reads["bytes_by_rack"].get(rack, 0))


def cost_table(document: Document) -> Table:
    """End-to-end latency both ways: a follower learns the high watermark with its next fetch."""
    found = [
        {**one, "client": client["client"]}
        for client in document["clients"]
        for one in client["differences"]
    ]
    return table_of(
        "End-to-end latency that following adds",
        found,
        {
            "client": "client",
            "of": lambda one: one["measure"].removeprefix("end_to_end_"),
            Column("leader ms", 2): "without_ms",
            Column("closest ms", 2): "with_ms",
            Column("added ms", 2): _added,
            **VERDICTS,
        },
        (
            "From the intended send time to the consumer (acks=all, one producer of kipctl's own "
            "for all).",
            *verdict_notes(found),
        ),
        name="cost",
    )


def _added(found: Document) -> float | None:
    known = found["with_ms"] is not None and found["without_ms"] is not None
    return found["with_ms"] - found["without_ms"] if known else None


def outage_table(document: Document) -> Table:
    """What it cost each client that the brokers of its rack were stopped and started again."""
    times = {"pause": "pause_ms", "elsewhere after": "elsewhere_after_ms"}
    how = "stopped" if document["controlled"] else "killed"
    return table_of(
        f"When the brokers of {document['rack']} are {how}, and run again",
        (
            {**reads, **run["gone"], "run": number, "missing": run["missing"]}
            for reads in _reads(document)
            for number, run in enumerate(reads["runs"], 1)
        ),
        {
            "client": "client",
            "reads from": "from",
            "run": "run",
            "partitions": "partitions",
            **{
                Column(f"{what} {key} ms", 0): f"{time}.{key}"
                for what, time in times.items()
                for key in ("p50", "max")
            },
            "partitions back": "partitions_back",
            **{Column(f"back after {key} ms", 0): f"back_after_ms.{key}" for key in ("p50", "max")},
            "missing": "missing",
            "errors": lambda gone: (
                ", ".join(f"{count:,} x {error}" for error, count in gone["errors"].items()) or None
            ),
        },
        (
            "Partitions: read from that rack before. Pause: the longest time without records. "
            "Back after: from when the brokers ran again until the rack brought records.",
        ),
        name="gone",
    )
