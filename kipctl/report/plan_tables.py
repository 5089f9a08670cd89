"""A plan in sentences and tables, from the document that `--output json` prints of it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kipctl.changes.plans.plan_summary import too_little_room
from kipctl.counts import counted, format_bytes
from kipctl.documents.plans import BrokerChange, PlanShown
from kipctl.report.tables import Column, Table, table_of

if TYPE_CHECKING:
    from kipctl.changes.plans.phases import Phase


def plan_sentence(document: PlanShown, *, is_rest: bool = False) -> str:
    """The plan in one sentence; `is_rest` where more is done than the plan has."""
    counts = document["counts"]
    left = counts["skipped_count"]
    alone = f"; {counted(left, '', 'are')} left alone" if left else ""
    if not counts["partition_count"]:
        return f"Nothing {'else ' if is_rest else ''}is to be reassigned{alone}."
    data = (
        f"data of {counts['copied_count']} is copied"
        if counts["copied_count"]
        else "no data is copied"
    )
    topics = counted(counts["topic_count"], "topic")
    factors = "".join(
        f"; {counted(row['partitions'], '', 'get')} {counted(row['to_factor'], 'replica')} instead"
        f" of {row['from_factor']}"
        for row in document["replication_factor_changes"]
    )
    spread = document["topic_spread"]
    even = (
        f"; leaders are even in {spread.even_count_after} of {topics},"
        f" before in {spread.even_count}"
        if spread.even_count < spread.even_count_after  # what leaves a broker makes none more even
        else ""
    )
    partitions = counted(counts["partition_count"], "partition")
    change = "changes" if counts["partition_count"] == 1 else "change"
    return f"{partitions} of {topics} {change}: {data}{factors}{even}{alone}."


def copied_lines(document: PlanShown) -> Iterator[str]:
    """What is copied, how long that takes, and which disks it fills; no line of a mere reorder."""
    if "copied" not in document:
        return
    copied = document["copied"]
    throttle, unknown = copied["throttle_bytes_per_second"], copied["unknown_sizes"]
    seconds = copied["seconds"]
    pace = (
        "not throttled"
        if throttle is None or seconds is None
        else f"at most {format_bytes(throttle)}/s in and out of each broker:"
        f" about {duration(seconds)}, longer while clients write"
    )
    yield (
        f"{counted(copied['replica_count'], 'replica')}, {format_bytes(copied['bytes'])}, are"
        f" copied, {pace}" + (f"; of {unknown:,} the size is not known." if unknown else ".")
    )
    silent = list(copied["broker_errors"].items())
    for broker, why in silent[:3]:
        yield f"Broker {broker} does not report sizes: {why}"
    if len(silent) > 3:
        yield f"Nor do {counted(len(silent) - 3, 'more broker')}."
    yield from (
        too_little_room(broker.broker, broker.bytes_in, broker.usable)
        for broker in document["brokers"]
        if broker.fills and broker.usable is not None
    )


_COPIED = Column("Bytes", is_bytes=True)


def brokers_table(document: PlanShown, notes: tuple[str, ...] = ()) -> Table:
    """Leaders and replicas of every broker before and after; bytes too where data is copied."""
    brokers = document["brokers"]
    has_racks, copies = any(broker.rack for broker in brokers), "copied" in document
    columns: list[Column | str] = [Column("Broker", right=True), *(["Rack"] if has_racks else [])]
    columns += ["Leaders", "After", "Replicas", "After"]
    if copies:
        titles = ("Bytes", "After", "In", "Out", "Free")
        columns += [Column(title, is_bytes=True) for title in titles]
    rows = tuple(
        (
            f"{broker.broker}{'' if broker.alive else ' (not alive)'}",
            *((broker.rack,) if has_racks else ()),
            *(
                broker.leader_count,
                broker.leader_count_after,
                broker.replica_count,
                broker.replica_count_after,
            ),
            *(_bytes_of(broker) if copies else ()),
        )
        for broker in brokers
    )
    return Table("Brokers", tuple(columns), rows, notes, name="brokers")


def _bytes_of(change: BrokerChange) -> tuple[int | None, ...]:
    return change.bytes, change.bytes_after, change.bytes_in, change.bytes_out, change.usable


def links_table(document: PlanShown) -> Table:
    """What is copied from which broker to which, the most first."""
    links = sorted(document["copied"]["links"], key=lambda link: (-link.bytes, -link.replica_count))
    return Table(
        "Copied",
        (Column("From leader", right=True), Column("To", right=True), "Replicas", _COPIED),
        tuple(
            (str(link.from_broker), str(link.to_broker), link.replica_count, link.bytes)
            for link in links
        ),
        name="links",
    )


def phases_table(phases: "Sequence[Phase]", documents: Sequence[PlanShown]) -> Table:
    """How large each phase is, and how long it takes at least with its throttle; the disk that it
    would fill."""
    rows = []
    for number, (phase, document) in enumerate(zip(phases, documents, strict=True), 1):
        copied = document.get("copied")
        filled = [str(change.broker) for change in document["brokers"] if change.fills]
        seconds = copied["seconds"] if copied else None
        rows.append(
            (
                number,
                phase.name,
                document["counts"]["partition_count"],
                copied["replica_count"] if copied else 0,
                copied["bytes"] if copied else 0,
                None if seconds is None else duration(seconds),
                ", ".join(filled) or None,
            )
        )
    columns = ("Phase", "Plan", "Partitions", "Copied replicas", _COPIED)
    return Table("Phases", (*columns, "At least", "Too little room"), tuple(rows), name="phases")


def left_alone_table(document: PlanShown) -> Table:
    """Why partitions are left alone, how many, and one of them."""
    return table_of(
        "Left alone",
        document["left_alone"],
        {"Why": "reason", "Partitions": "partitions", "Such as": "example"},
        name="left alone",
    )


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`, `2.1 days`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
