"""A plan in sentences and tables, from the document that `--output json` prints of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kipctl.changes.plans.plan_summary import too_little_room
from kipctl.counts import counted
from kipctl.report.tables import Column, Table, identifier, table_of

if TYPE_CHECKING:
    from kipctl.changes.plans.phases import Phase

Document = Mapping[str, Any]


def in_short(document: Document) -> str:
    """The plan in one sentence."""
    counts = document["counts"]
    left = counts["skipped"]
    alone = f"; {counted(left, '', 'are')} left alone" if left else ""
    if not counts["partitions"]:
        return f"Nothing is to be reassigned{alone}."
    data = f"data of {counts['copied']} is copied" if counts["copied"] else "no data is copied"
    topics = counted(counts["topics"], "topic")
    factors = "".join(
        f"; {counted(one['partitions'], '', 'get')} {counted(one['to'], 'replica')} instead of"
        f" {one['from']}"
        for one in document["replication_factor_changes"]
    )
    spread = document["topic_spread"]
    even = (
        f"; leaders are even within {spread['even_after']} of these topics, {spread['even']} before"
        if spread["even"] < spread["even_after"]  # what leaves a broker makes none more even
        else ""
    )
    partitions = counted(counts["partitions"], "partition")
    change = "changes" if counts["partitions"] == 1 else "change"
    return f"{partitions} of {topics} {change}: {data}{factors}{even}{alone}."


def copied_lines(document: Document) -> Iterator[str]:
    """What is copied, how long that takes, and which disks it fills; no line of a mere reorder."""
    if "copied" not in document:
        return
    copied = document["copied"]
    throttle, unknown = copied["throttle_bytes_per_s"], copied["unknown_sizes"]
    pace = (
        "not throttled"
        if throttle is None
        else f"at most {throttle / 1e6:,.1f} MB/s in and out of each broker:"
        f" about {duration(copied['seconds'])}, longer while clients write"
    )
    yield (
        f"{counted(copied['replicas'], 'replica')}, {copied['bytes'] / 1e9:,.2f} GB, are copied,"
        f" {pace}" + (f"; of {unknown:,} the size is not known." if unknown else ".")
    )
    silent = list(copied["silent_brokers"].items())
    for broker, why in silent[:3]:
        yield f"Broker {broker} does not report sizes: {why}"
    if len(silent) > 3:
        yield f"Nor do {counted(len(silent) - 3, 'more broker')}."
    yield from (
        too_little_room(broker["broker"], broker["bytes_in"], broker["usable"])
        for broker in document["brokers"]
        if broker["fills"]
    )


def brokers_table(document: Document, notes: tuple[str, ...] = ()) -> Table:
    """Leaders and replicas of every broker before and after; bytes too where data is copied."""
    brokers = document["brokers"]
    has_racks, copies = any(one["rack"] for one in brokers), "copied" in document
    columns: list[Column | str] = [Column("Broker", right=True), *(["Rack"] if has_racks else [])]
    columns += ["Leaders", "After", "Replicas", "After"]
    if copies:
        columns += [Column(title, 2) for title in ("GB", "After", "In", "Out", "Free")]
    rows = tuple(
        (
            f"{one['broker']}{'' if one['alive'] else ' (not alive)'}",
            *((one["rack"],) if has_racks else ()),
            *(one[key] for key in ("leaders", "leaders_after", "replicas", "replicas_after")),
            *(_gb(one[key]) for key in _BYTES if copies),
        )
        for one in brokers
    )
    return Table("Brokers", tuple(columns), rows, notes, name="brokers")


_BYTES = ("bytes", "bytes_after", "bytes_in", "bytes_out", "usable")


def _gb(count: int | None) -> float | None:
    return None if count is None else count / 1e9


def links_table(document: Document) -> Table:
    """What is copied from which broker to which, the most first."""
    links = sorted(
        document["copied"]["links"], key=lambda link: (-link["bytes"], -link["replicas"])
    )
    return table_of(
        "Copied",
        links,
        {
            "From leader": identifier("source"),
            "To": identifier("target"),
            "Replicas": "replicas",
            Column("GB", 2): lambda link: link["bytes"] / 1e9,
        },
        name="links",
    )


def phases_table(phases: "Sequence[Phase]", documents: Sequence[Document]) -> Table:
    """How large each phase is, and how long it takes at least with its throttle; the disk that it
    would fill."""
    rows = []
    for number, (phase, document) in enumerate(zip(phases, documents, strict=True), 1):
        copied = document.get("copied") or {"replicas": 0, "bytes": 0, "seconds": None}
        filled = [str(one["broker"]) for one in document["brokers"] if one["fills"]]
        seconds = copied["seconds"]
        rows.append(
            (
                number,
                phase.name,
                document["counts"]["partitions"],
                copied["replicas"],
                copied["bytes"] / 1e9,
                None if seconds is None else duration(seconds),
                ", ".join(filled) or None,
            )
        )
    columns = ("Phase", "Plan", "Partitions", "Copied replicas", Column("GB", 2))
    return Table("Phases", (*columns, "At least", "Too little room"), tuple(rows), name="phases")


def left_alone_table(document: Document) -> Table:
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
