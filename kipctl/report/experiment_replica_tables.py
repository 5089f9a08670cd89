"""Tables of `experiment closest-replica`, from the document that `--output json` prints."""

from collections.abc import Iterator, Mapping
from typing import Any

from kipctl.report.tables import Cell, Column, Paragraph, Table, paragraphs
from kipctl.report.verdicts import VERDICT_COLUMNS, verdict_cells, verdict_notes

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


def _reads(document: Document) -> Iterator[tuple[Document, str, Document]]:
    for client in document["clients"]:
        for name, reads in client["reads"].items():
            yield client, name, reads


def traffic_table(document: Document) -> Table:
    """Bytes by rack, for each client without and with its rack."""
    racks = sorted({rack for _, _, reads in _reads(document) for rack in reads["bytes_by_rack"]})
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            client["client"],
            _FROM[name],
            client["software"],
            client["measured_by"],
            reads["bytes"],
            *(reads["bytes_by_rack"].get(rack, 0) for rack in racks),
            reads["own_rack_percent"],
            client["cross_rack_saved_percent"] if name == "closest" else None,
        )
        for client, name, reads in _reads(document)
    )
    version = document["kafka_version"]
    idle = [
        client["client"]
        for client in document["clients"]
        if client["cross_rack_saved_percent"] is not None and client["cross_rack_saved_percent"] < 1
    ]
    return Table(
        f"Bytes read by a consumer in {document['rack']}"
        + (f", Kafka {version}" if version else ""),
        (
            "client",
            "reads from",
            "software",
            "seen by",
            "bytes",
            *(f"of {rack}" for rack in racks),
            Column("own rack %", 1),
            Column("cross-rack saved %", 1),
        ),
        rows,
        (
            f"{document['partitions']} partitions, {document['throughput']:,.0f} records/s of "
            f"{document['record_size']:,} bytes, {document['seconds']:g} s a run, "
            f"{document['runs']} run{'s'[: document['runs'] != 1]} each. The leader: no client.rack"
            f"; the closest replica: client.rack={document['rack']}.",
            *(
                f"{name} read no less across racks with its rack than without: is "
                "replica.selector.class set? See kipctl inspect replica-selection."
                for name in idle
            ),
        ),
        name="traffic",
    )


def cost_table(document: Document) -> Table:
    """End-to-end latency both ways: a follower learns the high watermark with its next fetch."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            client["client"],
            f"p{100 * found['quantile']:g}",
            found["without_ms"],
            found["with_ms"],
            _added(found),
            *verdict_cells(found),
        )
        for client in document["clients"]
        for found in client["differences"]
    )
    return Table(
        "End-to-end latency that following adds",
        (
            "client",
            "of",
            Column("leader ms", 2),
            Column("closest ms", 2),
            Column("added ms", 2),
            *VERDICT_COLUMNS,
        ),
        rows,
        (
            "From the intended send time to the consumer (acks=all, one producer of kipctl's own "
            "for all).",
            *verdict_notes(
                found for client in document["clients"] for found in client["differences"]
            ),
        ),
        name="cost",
    )


def _added(found: Document) -> float | None:
    known = found["with_ms"] is not None and found["without_ms"] is not None
    return found["with_ms"] - found["without_ms"] if known else None


def outage_table(document: Document) -> Table:
    """What it cost each client that the brokers of its rack were stopped and started again."""

    def of(spread: Mapping[str, float] | None) -> tuple[Cell, Cell]:
        return (None, None) if spread is None else (spread["p50"], spread["max"])

    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            client["client"],
            _FROM[name],
            number,
            outage["partitions"],
            *of(outage["pause_ms"]),
            *of(outage["elsewhere_after_ms"]),
            outage["partitions_back"],
            *of(outage["back_after_ms"]),
            run["missing"],
            ", ".join(f"{count:,} x {error}" for error, count in outage["errors"].items()) or None,
        )
        for client, name, reads in _reads(document)
        for number, run in enumerate(reads["runs"], 1)
        for outage in [run["gone"]]
    )
    how = "stopped" if document["controlled"] else "killed"
    return Table(
        f"When the brokers of {document['rack']} are {how}, and run again",
        (
            "client",
            "reads from",
            "run",
            "partitions",
            *(Column(f"pause {key} ms", 0) for key in ("p50", "max")),
            *(Column(f"elsewhere after {key} ms", 0) for key in ("p50", "max")),
            "partitions back",
            *(Column(f"back after {key} ms", 0) for key in ("p50", "max")),
            "missing",
            "errors",
        ),
        rows,
        (
            "Partitions: read from that rack before. Pause: the longest time without records. "
            "Back after: from when the brokers ran again until the rack brought records.",
        ),
        name="gone",
    )
