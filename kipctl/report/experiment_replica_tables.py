"""Tables of `experiment closest-replica`, from the document that `--output json` prints."""

from collections.abc import Iterator
from functools import partial

from kipctl.counts import counted
from kipctl.documents.experiments import (
    ClosestClient,
    ClosestDocument,
    ComparedArms,
    RackOutage,
    ReadWay,
)
from kipctl.next_step import Command
from kipctl.report.columns import measured
from kipctl.report.tables import Column, Paragraph, Table, paragraphs, table_of
from kipctl.report.verdicts import VERDICTS, verdict_notes


class _Reads(ReadWay):
    client: str
    software: str
    measured_by: str
    reads_from: str
    cross_rack_saved_percent: float | None
    """Of the closest replica alone."""


class _Difference(ComparedArms):
    client: str


class _Outage(RackOutage):
    client: str
    reads_from: str
    run: int
    missing: int


def replica_answer(document: ClosestDocument) -> tuple[Paragraph, ...]:
    """How much each client reads in its own rack, without and with saying where it is."""
    return paragraphs(*(_share_of_rack(client, document["rack"]) for client in document["clients"]))


def _share_of_rack(client: ClosestClient, rack: str) -> str:
    def share(reads: ReadWay) -> str:
        percent = reads["own_rack_percent"]
        return "-" if percent is None else f"{percent:.1f} %"

    reads = client["ways"]
    return (
        f"{client['client']} read {share(reads['closest'])} of its bytes in {rack} with"
        f" client.rack, {share(reads['leader'])} without."
    )


def replica_tables(document: ClosestDocument) -> tuple[Table, ...]:
    """Where bytes came from, what following costs, and what happens when the rack goes."""
    tables = [traffic_table(document), cost_table(document)]
    if document["rack_goes"]:
        tables.append(outage_table(document))
    return tuple(tables)


def _reads(document: ClosestDocument) -> Iterator[_Reads]:
    """The reads of each client, from the leader and from the closest replica."""
    for client in document["clients"]:
        leader, closest = client["ways"]["leader"], client["ways"]["closest"]
        saved = client["cross_rack_saved_percent"]
        for reads, reads_from, of_these in (
            (leader, "the leader", None),
            (closest, "the closest replica", saved),
        ):
            yield {
                **reads,
                "client": client["client"],
                "software": client["software"],
                "measured_by": client["measured_by"],
                "reads_from": reads_from,
                "cross_rack_saved_percent": of_these,
            }


def traffic_table(document: ClosestDocument) -> Table:
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
            "reads from": "reads_from",
            Column("software", detail=True): "software",
            Column("seen by", detail=True): "measured_by",
            "bytes": "bytes",
            **{f"of {rack}": partial(_bytes_of, rack) for rack in racks},
            Column("own rack %", 1): "own_rack_percent",
            Column("cross-rack saved %", 1): "cross_rack_saved_percent",
        },
        (
            f"{counted(document['partitions'], 'partition')}, {document['throughput']:,.0f}"
            " records/s of "
            f"{document['record_size']:,} bytes, {document['seconds']:g} s a run, "
            f"{counted(document['run_count'], 'run')} each. The leader: no client.rack"
            f"; the closest replica: client.rack={document['rack']}.",
            *(
                f"{name} read no less across racks with its rack than without: is "
                "replica.selector.class set? See " + Command("inspect replica-selection") + "."
                for name in idle
            ),
        ),
        name="traffic",
    )


def _bytes_of(rack: str, reads: _Reads) -> int:
    return reads["bytes_by_rack"].get(rack, 0)


def cost_table(document: ClosestDocument) -> Table:
    """End-to-end latency both ways: a follower learns the high watermark with its next fetch."""
    differences: list[_Difference] = [
        {**difference, "client": client["client"]}
        for client in document["clients"]
        for difference in client["differences"]
    ]
    return table_of(
        "End-to-end latency that following adds",
        differences,
        {
            "client": "client",
            "of": "title",
            Column("leader ms", 2): "without_ms",
            Column("closest ms", 2): "with_ms",
            Column("added ms", 2): _added,
            **VERDICTS,
        },
        (
            "From the intended send time to the consumer (acks=all, one producer of kipctl's own "
            "for all).",
            *verdict_notes(differences),
        ),
        name="cost",
    )


def _added(difference: ComparedArms) -> float | None:
    closest, leader = difference["with_ms"], difference["without_ms"]
    return None if closest is None or leader is None else closest - leader


def _outages(document: ClosestDocument) -> Iterator[_Outage]:
    for reads in _reads(document):
        for number, run in enumerate(reads["runs"], 1):
            if gone := run["outage"]:
                yield {
                    **gone,
                    "client": reads["client"],
                    "reads_from": reads["reads_from"],
                    "run": number,
                    "missing": run["missing"],
                }


def outage_table(document: ClosestDocument) -> Table:
    """What it cost each client that the brokers of its rack were stopped and started again."""
    how = "stopped" if document["controlled"] else "killed"
    return table_of(
        f"When the brokers of {document['rack']} are {how}, and run again",
        _outages(document),
        {
            "client": "client",
            "reads from": "reads_from",
            "run": "run",
            "partitions": "partitions",
            **measured("pause_ms.p50", "pause_ms.max"),
            **measured("elsewhere_after_ms.p50", "elsewhere_after_ms.max"),
            "partitions back": "partitions_back",
            **measured("back_after_ms.p50", "back_after_ms.max"),
            "missing": "missing",
            "errors": lambda gone: (
                ", ".join(f"{count:,} x {error}" for error, count in gone["errors"].items()) or None
            ),
        },
        (
            "Partitions: read from that rack before. Pause: the longest time without records. "
            "Back after: from when the brokers ran again until the rack brought records.",
        ),
        name="outage",
    )
