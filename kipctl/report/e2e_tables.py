"""Tables of an end-to-end run, from the document that `--output json` prints."""

from collections.abc import Iterator, Mapping
from typing import Any

from kipctl.report.consume_tables import brokers_table, fetched, flips_table, out_of_range_table
from kipctl.report.move_tables import sentence_of_moves
from kipctl.report.perf_tables import (
    acknowledged,
    actions_table,
    doubts_tables,
    health_notes,
    latency_of,
    metadata_table,
    redirects_tables,
    sent,
    times,
    tone_of,
)
from kipctl.report.tables import Column, Paragraph, Table

Document = Mapping[str, Any]


def e2e_answer(document: Document) -> tuple[Paragraph, ...]:
    """How many records arrived, how long that took, what became of the others, and how long each
    client waited for the leaders that were moved meanwhile."""
    written = sent(document.get("health", {}).get("producer", {}))
    first = acknowledged(document, written, "acknowledged_ms").partition(":")[0]
    records, latency = document["records"], document["latency_ms"]
    delivered = f"{first}; {records['delivered']:,} were delivered"
    if latency["p50"] is not None:
        delivered += f", {latency_of(latency)} after they were due"
    return (
        Paragraph(f"{delivered}.", tuple(_others(document)), tone=tone_of(document)),
        Paragraph(fetched(_as_read(document))),
        *(
            Paragraph(moves)
            for side in _sides(document)
            if document["actions"] and (moves := sentence_of_moves(*side))
        ),
    )


def _as_read(document: Document) -> Document:
    """The consumer's side of it."""
    read = {**document, "records": {"read": _records_read(document)}}
    if whole := document.get("whole_run"):
        read["seconds"] = whole["seconds"] - whole["kept_from_seconds"]
    return read


def e2e_tables(document: Document) -> tuple[Table, ...]:
    """What a person wants to see: times, from whom, redirects of both sides, Metadata of both."""
    tables = [*doubts_tables(document), times_table(document)]
    if whole := document.get("whole_run"):
        tables.append(whole_run_table(whole))
    tables.append(brokers_table(document))
    if document["flips"]:
        tables.append(flips_table(document))
    if document["out_of_range"]:
        tables.append(out_of_range_table(document))
    for own, client in _sides(document):
        tables += redirects_tables(own, of_fetches=client == "consumer", client=client)
    tables += (
        metadata_table({"metadata_rpcs": rpcs}, side)
        for side, rpcs in document["metadata_rpcs"].items()
    )
    if document["actions"]:
        tables.append(actions_table(document))
    return tuple(tables)


def _sides(document: Document) -> Iterator[tuple[Document, str]]:
    """Of each client its part of the document, and what it is."""
    for side, client in (("produce", "producer"), ("fetch", "consumer")):
        own = {
            "redirects": document["redirects"][side],
            "metadata_rpcs": document["metadata_rpcs"][client],
            "actions": document["actions"],
        }
        yield own, client


def _records_read(document: Document) -> int:
    if "whole_run" in document:  # of what is kept, as all that is told of brokers
        return int(sum(broker["records"] for broker in document["brokers"]))
    return int(sum(document["records"][name] for name in ("delivered", "twice", "extra")))


def _health_notes(document: Document) -> Iterator[str]:
    """Those of both clients; what both saw become of a topic is said once."""
    of_clients = document.get("health", {})
    reported = set[str]()
    for client, beside in (("producer", "acknowledged_ms"), ("consumer", "latency_ms")):
        for note in health_notes(of_clients.get(client, {}), document[beside]["p99"], client):
            what = note.partition(", as Metadata showed")[0]
            if what not in reported:
                yield note
            reported.add(what)


def _others(document: Document) -> Iterator[str]:
    """What became of records that were not delivered once, and in time."""
    records = document["records"]
    if records["missing"] is None:
        yield (
            "How many of the acknowledged are missing is not known: the consumer ended before it "
            "was waited for them."
        )
    elif records["missing"]:
        yield f"{records['missing']:,} were acknowledged and not delivered."
    if records["twice"]:
        yield f"{records['twice']:,} were delivered twice: the consumer went back."
    if records["extra"]:
        yield (
            f"{records['extra']:,} were delivered besides: attempts that were appended and then"
            " failed, or somebody else's."
        )
    if late := document.get("whole_run", {}).get("late"):
        yield f"{late:,} were delivered later than --lost-after: they are not in the times."


def times_table(document: Document) -> Table:
    """How long records took to come, and to be acknowledged, in ms."""
    return times(
        f"End to end through {document['topic']}",
        document,
        {
            "from the intended send time to the consumer": "latency_ms",
            "from the intended send time to the acknowledgement": "acknowledged_ms",
        },
        tuple(_health_notes(document)),
        "times",
    )


def whole_run_table(whole: Document) -> Table:
    """What clients met in all of a run whose trace is not kept from its beginning, waits in ms."""
    from_s, of_s = whole["kept_from_seconds"], whole["seconds"]
    kept = f"its last {of_s - from_s:,.0f} s" if from_s else "all of it"
    return Table(
        f"Moved leaders of the whole run, {of_s:,.0f} s",
        (
            "client",
            "moves met",
            *(Column(f"wait {name} ms", 3) for name in ("p50", "p99", "max")),
            "redirected",
            "Metadata requests",
        ),
        tuple(
            (
                client,
                whole[client]["redirects"]["moves"]["met"],
                *whole[client]["redirects"]["moves"]["wait_ms"].values(),
                whole[client]["redirects"]["batches"],
                whole[client]["metadata_rpcs"]["total"],
            )
            for client in ("producer", "consumer")
        ),
        (
            "Records and times are of the whole run, times to three digits. The trace is kept of "
            f"{kept}: of that are the tables below.",
        ),
        name="whole_run",
    )
