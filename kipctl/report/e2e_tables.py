"""Tables of an end-to-end run, from the document that `--output json` prints."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

from kipctl.documents.runs import (
    EndToEndDocument,
    Health,
    MetadataRpcs,
    RecordsDelivered,
    Redirects,
    WholeRun,
)
from kipctl.report.consume_tables import fetched, reading_tables
from kipctl.report.move_tables import sentence_of_moves
from kipctl.report.perf_tables import (
    acknowledged,
    actions_tables,
    doubts_tables,
    health_notes,
    latency_of,
    longest,
    metadata_table,
    redirects_tables,
    sent,
    times,
    tone_of,
)
from kipctl.report.tables import Column, Paragraph, Table

_NO_HEALTH = cast(Health, {})
"""Of runs of older versions, which do not say."""


def e2e_answer(document: EndToEndDocument) -> tuple[Paragraph, ...]:
    """How many records arrived, how long that took, what became of the others, and how long each
    client waited for the leaders that were moved meanwhile."""
    written = sent(_health(document, "producer"))
    first = acknowledged(document, document["acknowledged_ms"], written).partition(":")[0]
    records, latency = document["records"], document["latency_ms"]
    delivered = f"{first}; {records['delivered']:,} were delivered"
    if latency["p50"] is not None:
        delivered += f", {latency_of(latency)} after they were due"
    return (
        Paragraph(f"{delivered}.", (*longest(document), *_others(document)), tone_of(document)),
        Paragraph(fetched(document, *_read(document))),
        *(
            Paragraph(moves)
            for client in _clients(document)
            if (actions := document["actions"])
            and (moves := sentence_of_moves(client.redirects, actions, client.name))
        ),
    )


def _read(document: EndToEndDocument) -> tuple[int, float]:
    """How many records the consumer read, in how many seconds."""
    if whole := document.get("whole_run"):  # of what is kept, as all that is told of brokers
        kept = sum(broker["records"] for broker in document["brokers"])
        return kept, whole["seconds"] - whole["kept_from_seconds"]
    records = document["records"]
    return records["delivered"] + records["twice"] + records["extra"], document["seconds"]


def e2e_tables(document: EndToEndDocument) -> tuple[Table, ...]:
    """What a person wants to see: times, from whom, redirects of both sides, Metadata of both."""
    whole, actions, clients = document.get("whole_run"), document["actions"], _clients(document)
    return (
        *doubts_tables(document.get("doubts", ())),
        times_table(document),
        *((whole_run_table(whole),) if whole else ()),
        *reading_tables(document),
        *(
            table
            for client in clients
            for table in redirects_tables(
                client.redirects, client.rpcs, actions, client.name == "consumer", client.name
            )
        ),
        *(metadata_table(client.rpcs, client.name) for client in clients),
        *actions_tables(actions),
    )


class _Client(NamedTuple):
    """Its part of the document."""

    name: str
    redirects: Redirects
    rpcs: MetadataRpcs


def _clients(document: EndToEndDocument) -> tuple[_Client, _Client]:
    redirects, rpcs = document["redirects"], document["metadata_rpcs"]
    return (
        _Client("producer", redirects["produce"], rpcs["producer"]),
        _Client("consumer", redirects["fetch"], rpcs["consumer"]),
    )


def _health(document: EndToEndDocument, client: Literal["producer", "consumer"]) -> Health:
    return document["health"][client] if "health" in document else _NO_HEALTH


def _health_notes(document: EndToEndDocument) -> Iterator[str]:
    """Those of both clients; what both saw become of a topic is said once."""
    reported = set[str]()
    written, read = document["acknowledged_ms"]["p99"], document["latency_ms"]["p99"]
    for notes in (
        health_notes(_health(document, "producer"), written, "producer"),
        health_notes(_health(document, "consumer"), read, "consumer"),
    ):
        for note in notes:
            what = note.partition(", as Metadata showed")[0]
            if what not in reported:
                yield note
            reported.add(what)


def _others(document: EndToEndDocument) -> Iterator[str]:
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
    if (whole := document.get("whole_run")) and (late := whole["late"]):
        yield f"{late:,} were delivered later than --lost-after: they are not in the times."


def times_table(document: EndToEndDocument) -> Table:
    """How long records took to come, and to be acknowledged, in ms."""
    return times(
        f"End to end through {document['topic']}",
        document,
        {
            "from the intended send time to the consumer": document["latency_ms"],
            "from the intended send time to the acknowledgement": document["acknowledged_ms"],
        },
        tuple(_health_notes(document)),
        "times",
    )


def whole_run_table(whole: WholeRun) -> Table:
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
                name,
                moves["met"],
                *(moves["wait_ms"]["p50"], moves["wait_ms"]["p99"], moves["wait_ms"]["max"]),
                met["redirects"]["batches"],
                met["metadata_rpcs"]["total"],
            )
            for name, met in (("producer", whole["producer"]), ("consumer", whole["consumer"]))
            for moves in [met["redirects"]["moves"]]
        ),
        (
            "Records and times are of the whole run, times to three digits. The trace is kept of "
            f"{kept}: of that are the tables below.",
        ),
        name="whole_run",
    )


def what_failed(records: RecordsDelivered, acks: int) -> str:
    """What became of the records of a run, `missing` is None where that is not known."""
    missing = records["missing"]
    did_not_come = (
        "and whether any that was acknowledged was not delivered is not known"
        if missing is None
        else f"{missing:,} were acknowledged and not delivered"
    )
    said = f"of {records['sent']:,} records {records['failed']:,} failed, {did_not_come}."
    if missing and acks == 1:
        said += (
            " With acks=1 a leader that gives up a partition loses what its followers do not have:"
            " acks=all keeps it."
        )
    return said
