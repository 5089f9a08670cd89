"""Tables of a perf run, from the document that `--output json` prints."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import cast

from kipctl.counts import counted
from kipctl.documents.common import Action, Latency
from kipctl.documents.runs import (
    EndToEndDocument,
    Health,
    MetadataRpcs,
    PhaseTimes,
    ProduceDocument,
    Redirects,
    Run,
)
from kipctl.next_step import Command
from kipctl.report.move_tables import OWN_DISCOVERIES, moves_table, sentence_of_moves
from kipctl.report.tables import Cell, Column, Paragraph, Table, Tone

_PHASE_MEANINGS = {
    "queued": "in the client: before the first send, behind other batches",
    "detect": "until the old leader said it leads no more",
    "backoff": "retry.backoff.ms, and the client's own time",
    "metadata": "waiting for a Metadata answer",
    "connect": "opening a connection to the new leader",
    "throttled": "until the new leader's quota let the client send",
    "not_ready": "refused by a leader that did not know yet",
    "acknowledge": "the new leader, until it acknowledged",
}
_FETCH_MEANINGS = _PHASE_MEANINGS | {
    "queued": "checking the position with the new leader, behind its Fetch under way",
    "acknowledge": "the new leader, until it answered",
}
_MOST_FAILURES = 5


def perf_tables(document: ProduceDocument) -> tuple[Table, ...]:
    """What a person wants to see of a run: times, redirects by phase, Metadata, actions."""
    redirects, rpcs, actions = document["redirects"], document["metadata_rpcs"], document["actions"]
    return (
        *doubts_tables(document.get("doubts", ())),
        times_table(document),
        *redirects_tables(redirects, rpcs, actions),
        metadata_table(rpcs),
        *actions_tables(actions),
    )


def doubts_tables(doubts: Sequence[str]) -> Iterator[Table]:
    """What spoils the run (`kipctl.measure.doubts`), before any number."""
    if doubts:
        yield Table("Read with care: something spoils this run.", (), (), tuple(doubts), "doubts")


def perf_answer(document: ProduceDocument) -> tuple[Paragraph, ...]:
    """How many records got through, and how long that took them; before it, where leaders were
    moved meanwhile, how long the client waited for these."""
    records = Paragraph(
        f"{acknowledged(document, document['latency_ms'], sent(document))}.",
        tuple(longest(document)),
        tone_of(document),
    )
    return (*(moves_answer(document) if document["actions"] else ()), records)


def moves_answer(document: ProduceDocument) -> tuple[Paragraph, ...]:
    """How long the client of a run waited for moved leaders, and where the time of the batches
    went that met them. Of runs of older versions, which do not say, nothing."""
    moves = sentence_of_moves(document["redirects"], document["actions"])
    return (Paragraph(moves, tuple(_cost_of_moves(document))),) if moves else ()


def _cost_of_moves(document: ProduceDocument) -> Iterator[str]:
    redirects = document["redirects"]
    spent_ms = {phase: spent["sum"] for phase, spent in phases_of(redirects).items()}
    if not (total_ms := sum(spent_ms.values())):
        return
    at_brokers_ms = spent_ms["detect"] + spent_ms["not_ready"] + spent_ms["acknowledge"]
    own_ms = redirects["client_share_ms"]["sum"]
    yield (
        f"The {counted(redirects['batches'], 'batch')} that met them took"
        f" {total_ms / 1000:,.1f} s in all: {100 * at_brokers_ms / total_ms:.1f} % at the brokers,"
        f" {100 * spent_ms['queued'] / total_ms:.1f} % queued,"
        f" {100 * own_ms / total_ms:.1f} % the client's own wait."
    )
    if document["leader_discovery"] in OWN_DISCOVERIES:
        yield (
            "This was kipctl's own client, leader discovery "
            f"{document['leader_discovery']}. For yours: " + Command("tap") + "."
        )


def phases_of(redirects: Redirects) -> Mapping[str, PhaseTimes]:
    """The time of what was redirected, by phase."""
    return cast(Mapping[str, PhaseTimes], redirects["phases_ms"])


def acknowledged(document: ProduceDocument | EndToEndDocument, latency: Latency, sent: str) -> str:
    """How many of the records `sent` got through, at which rate, in which latency."""
    records = document["records"]
    errors = ", ".join(f"{count:,} x {name}" for name, count in records.get("errors", {}).items())
    failed = f", {records['failed']:,} failed" + (f" ({errors})" if errors else "")
    return (
        f"{counted(records['acknowledged'], 'record', total=records['sent'])} {sent} were"
        f" acknowledged{failed if records['failed'] else ''},"
        f" at {document['records_per_second']:,.0f} a second"
        + ("" if latency["p50"] is None else f": {latency_of(latency)} after they were due")
    )


def longest(document: ProduceDocument | EndToEndDocument) -> Iterator[str]:
    """When the worst moment of a run was. Of runs of older versions, which do not say, nothing."""
    if record := document.get("longest_record"):
        when = datetime.fromisoformat(record["intended"])
        yield (
            f"The longest took {record['longest_ms']:,.1f} ms: due {when:%H:%M:%S} UTC,"
            f" {record['intended_ms'] / 1000:,.1f} s after the start, to partition"
            f" {record['partition']}."
        )


def latency_of(spread: Latency) -> str:
    """The quantiles that are looked at first."""
    return f"p50 {spread['p50']:,.1f} ms, p99 {spread['p99']:,.1f} ms"


def tone_of(document: ProduceDocument | EndToEndDocument) -> Tone:
    """Bad where records failed or are missing."""
    records = document["records"]
    return Tone.BAD if records["failed"] or records.get("missing") else Tone.GOOD


def times_table(document: ProduceDocument) -> Table:
    """Latency and service time of records, in ms."""
    return times(
        f"Records to {document['topic']}",
        document,
        {
            "latency, from the intended send time": document["latency_ms"],
            "service time, from the actual send": document["service_ms"],
        },
        tuple(health_notes(document, document["latency_ms"]["p99"])),
    )


def times(
    what: str,
    document: Run,
    spreads: Mapping[str, Latency],
    notes: tuple[str, ...],
    name: str = "",
) -> Table:
    """The mean and the quantiles of these times, in ms, by what each is called."""
    version = document["kafka_version"]
    quantiles = ("mean", "p50", "p95", "p99", "p99.9", "max")
    times = cast(Mapping[str, Mapping[str, float]], spreads)
    return Table(
        f"{what}, leader discovery {document['leader_discovery']}"
        + (f", Kafka {version}" if version else ""),
        ("time", *(Column(f"{quantile} ms", 3) for quantile in quantiles)),
        tuple((label, *spread.values()) for label, spread in times.items()),
        notes,
        name,
    )


def health_notes(document: Health, measured_p99_ms: float, client: str = "client") -> Iterator[str]:
    """What a reader has to know besides the times (`kipctl.probe.health`), of this client.

    That it went on late is said when its p99 is a tenth of `measured_p99_ms`, and a millisecond.
    """
    if not _is_known(document):
        yield (
            f"What quotas, and topics made anew, did to the {client}, and how late it went on "
            "itself, is not known: it did not come to tell."
        )
        return
    yield from document.get("topic_changes") or ()
    if throttle_ms := document.get("throttle_ms", 0):
        yield f"Brokers throttled the {client} for {throttle_ms / 1000:,.1f} s in all (quotas)."
    for failure, times in [*(document.get("connection_failures") or {}).items()][:_MOST_FAILURES]:
        yield f"The {client} could not connect to {failure} ({times:,} times)."
    if elsewhere := document.get("hinted_elsewhere"):
        yield (
            f"Hints lead past the proxy: {counted(sum(elsewhere.values()), 'hint')} that the"
            f" {client} followed named another address than Metadata, such as"
            f" {next(iter(elsewhere))}. It rewrites Metadata alone."
        )
    again = document.get("reauthentications")
    if again and again["count"]:
        yield (
            f"The {client} authenticated again {again['count']:,} times, for at most"
            f" {again['max_ms']:.1f} ms each (KIP-368)."
        )
    lag = document.get("loop_lag_ms")
    if lag and lag["p99"] >= max(1.0, measured_p99_ms / 10):
        yield (
            f"The {client} itself went on up to {lag['p99']:.1f} ms late (p99; at most "
            f"{lag['max']:.1f} ms): it had too much to do, or the machine had."
        )


def sent(of_producer: Health) -> str:
    """What the number of records `sent` says: one that did not come to tell had settled so many."""
    return "sent" if _is_known(of_producer) else "settled"


def _is_known(document: Health) -> bool:
    """Runs of older versions have none of it."""
    return document.get("throttle_ms", 0) is not None


def redirects_tables(
    redirects: Redirects,
    rpcs: MetadataRpcs,
    actions: Sequence[Action],
    of_fetches: bool = False,
    client: str = "",
) -> Iterator[Table]:
    """The moved leaders, and where the time of what they redirected went; of one client if there
    are several."""
    if moved := moves_table(redirects, rpcs, actions, client):
        yield moved
    if redirects["batches"]:
        yield redirects_table(redirects, of_fetches, client)


def redirects_table(redirects: Redirects, of_fetches: bool = False, client: str = "") -> Table:
    """Where the time of redirected batches, or of partitions that were read, went by phase."""
    phases = phases_of(redirects)
    total = sum(phase["sum"] for phase in phases.values()) or 1
    what, meanings = (
        ("partitions read", _FETCH_MEANINGS) if of_fetches else ("batches", _PHASE_MEANINGS)
    )
    hints, whose = redirects["hints"], f" of the {client}" if client else ""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, phase["p50"], phase["p99"], phase["sum"], 100 * phase["sum"] / total, meaning)
        for name, meaning in meanings.items()
        for phase in [phases[name]]
    )
    return Table(
        f"Redirects{whose}: {redirects['batches']:,} {what} met "
        f"{redirects['errors']:,} leader errors",
        (
            "phase",
            Column("p50 ms", 3),
            Column("p99 ms", 3),
            Column("sum ms", 1),
            Column("share %", 1),
            Column("what it is", detail=True),
        ),
        rows,
        (
            "Hints: "
            + ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in hints.items())
            + f". Retries to the same leader epoch: {redirects['same_epoch_retries']:,}. "
            f"Appended, then failed: {redirects['appended_then_failed']:,}.",
        ),
        f"redirects_of_{client}" if client else "redirects",
    )


def metadata_table(rpcs: MetadataRpcs, client: str = "") -> Table:
    """Metadata requests by cause, of one client if there are several."""
    whose = f" of the {client}" if client else ""
    return Table(
        f"Metadata requests{whose}: {rpcs['total']:,}, {rpcs['bytes']:,} bytes, "
        f"{rpcs['on_critical_path']:,} of them waited for",
        ("cause", "requests"),
        tuple((cause.replace("_", " "), count) for cause, count in rpcs["by_cause"].items()),
        name=f"metadata_rpcs_of_{client}" if client else "metadata_rpcs",
    )


def actions_tables(actions: Sequence[Action]) -> Iterator[Table]:
    """What was done to the cluster, if anything, and how long the news took."""

    def rows() -> Iterator[tuple[Cell, ...]]:
        for number, action in enumerate(actions, 1):
            called, answered = action["called_ms"] or 0, action["answered_ms"]
            converged = action["converged_ms"]
            yield (
                number,
                action["action"],
                called / 1000,
                action["partitions"],
                answered - called if answered else None,
                converged - answered if converged and answered else None,
                action["error"] or "",
            )

    columns = ("no.", "action", Column("at s", 3), "partitions", Column("done after ms", 1))
    known = Column("known to all brokers after ms", 1)
    if actions:
        yield Table("Actions", (*columns, known, "error"), tuple(rows()))


def metrics_table(document: Mapping[str, object]) -> Table:
    """Every number of the document by its path, for `--print-metrics`."""

    def leaves(value: object, path: str) -> Iterator[tuple[Cell, ...]]:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                yield from leaves(inner, f"{path}.{name}" if path else name)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (path, f"{value:g}" if isinstance(value, float) else str(value))

    return Table("Metrics", ("name", "value"), tuple(leaves(document, "")))
