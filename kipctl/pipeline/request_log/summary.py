"""What the driver has to know of all lines of a request log before they are shared out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from kipctl.pipeline.columns import is_leader_error
from kipctl.pipeline.request_lines.rows import SLOT_US, Kind
from kipctl.pipeline.request_log.groups import groups_of, of_kind
from kipctl.pipeline.request_log.places import Node, Seen
from kipctl.protocol.api import ApiKey

_FOLLOWER = r"^broker-(\d{1,9})-fetcher-\d+$"

_CONTENT = ("requests", "first_us", "last_us", "client", "connection", "api_key", "answers")


@dataclass(frozen=True, slots=True)
class Span:
    """When the first and the last request of a file were answered: microseconds since the epoch."""

    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What the driver has to know of all lines before they are shared out."""

    lines: Counter[str]
    copies: dict[str, str]
    """Files that hold what another one holds, which is kept."""
    envelopes: dict[tuple[str, str, str], int]
    """Lines by file, envelope and kind."""
    untimed: int
    broken_files: list[str]
    seen: list[Seen]
    spans: dict[str, Span]
    refused_slots: frozenset[int]

    @property
    def requests(self) -> int:
        """Lines that hold the marker, whether they could be read or not."""
        return self.lines[Kind.PARSED] + self.lines[Kind.BROKEN]

    @property
    def lasts_us(self) -> int:
        """From the first answer to the last one."""
        first = min((span.first_us for span in self.spans.values()), default=0)
        return max((span.last_us for span in self.spans.values()), default=0) - first

    @classmethod
    def of(cls, read: DataFrame) -> "Summary":
        """Of rows of ROWS."""
        groups = groups_of(read)
        named = of_kind(read, Kind.NODE).select("kind", F.struct("cluster", "node").alias("named"))
        is_parsed = F.col("kind") == Kind.PARSED
        is_replica = F.col("client").rlike(_FOLLOWER)
        is_served = F.col("api_key").isin(int(ApiKey.PRODUCE), int(ApiKey.FETCH)) & ~F.coalesce(
            is_replica | F.col("client").startswith("raft-client-"), F.lit(False)
        )
        follower = F.struct(
            F.regexp_extract("client", _FOLLOWER, 1).cast("int").alias("id"), F.col("host")
        )
        slot = F.floor(F.col("last_us") / SLOT_US)
        rows = (
            groups.unionByName(named, allowMissingColumns=True)
            .groupBy("kind", "file", F.when(is_parsed, F.col("address")).alias("address"))
            .agg(
                F.sum("requests").alias("requests"),
                F.bit_xor(F.xxhash64(*_CONTENT)).alias("content"),
                F.max("envelope").alias("envelope"),
                F.sum(F.when(F.col("first_us").isNull(), F.col("requests"))).alias("untimed"),
                F.min("first_us").alias("first_us"),
                F.max("last_us").alias("last_us"),
                F.sum(F.when(is_served, F.col("requests")).otherwise(0)).alias("served"),
                F.collect_set("metadata.cluster").alias("clusters"),
                F.collect_set("named").alias("named"),
                F.collect_set(F.when(is_replica, follower)).alias("followers"),
                F.collect_set(F.when(has_leader_error(), slot)).alias("slots"),
            )
            .collect()
        )
        envelopes = _envelopes(groups) if any(row.envelope for row in rows) else {}
        nodes = _nodes(pair for row in rows for pair in row.named)
        rows = [row for row in rows if row.kind not in (Kind.OUTSIDE, Kind.NODE)]
        copies = _copies(rows)
        rows = [row for row in rows if row.file not in copies]
        lines: Counter[str] = Counter()
        spans: dict[str, Span] = {}
        for row in rows:
            lines[row.kind] += row.requests
            if row.kind == Kind.PARSED and row.first_us is not None:
                held = spans.get(row.file, Span(row.first_us, row.last_us))
                spans[row.file] = Span(
                    min(held.first_us, row.first_us), max(held.last_us, row.last_us)
                )
        parsed = [row for row in rows if row.kind == Kind.PARSED]
        return cls(
            lines,
            copies,
            envelopes,
            sum(row.untimed or 0 for row in parsed),
            sorted(row.file for row in rows if row.kind == Kind.BROKEN),
            [
                Seen(
                    row.file,
                    row.address,
                    row.served,
                    {cluster: nodes[cluster] for cluster in row.clusters},
                    frozenset((broker.id, broker.host) for broker in row.followers),
                    row.requests,
                    -1 if row.first_us is None else row.first_us,
                    -1 if row.last_us is None else row.last_us,
                )
                for row in sorted(parsed, key=lambda row: (row.file, row.address))
            ],
            spans,
            frozenset(slot for row in parsed for slot in row.slots),
        )


def _copies(rows: Sequence[Row]) -> dict[str, str]:
    """Files of just the same content as another one, with the first of those."""
    content: dict[str, set[tuple[str | int | None, ...]]] = defaultdict(set)
    for row in rows:
        content[row.file].add((row.kind, row.address, row.requests, row.first_us, row.content))
    timed = {row.file for row in rows if row.first_us is not None}
    kept: dict[frozenset[tuple[str | int | None, ...]], str] = {}
    copies = {}
    for file in sorted(content):
        same = kept.setdefault(frozenset(content[file]), file)
        if same != file and file in timed:
            copies[file] = same
    return copies


def _envelopes(groups: DataFrame) -> dict[tuple[str, str, str], int]:
    counted = (
        groups.filter("envelope is not null")
        .groupBy("file", "envelope", "kind")
        .agg(F.sum("requests").alias("lines"))
    )
    return {(row.file, row.envelope, row.kind): row.lines for row in counted.collect()}


def _nodes(named: Iterable[tuple[str, Row]]) -> dict[str, frozenset[Node]]:
    """By cluster the brokers that Metadata answers name: the same ones, whatever was asked."""
    by_cluster: dict[str, frozenset[Node]] = defaultdict(frozenset)
    for cluster, node in named:
        by_cluster[cluster] |= {Node(*node)}
    return by_cluster


def has_leader_error() -> Column:
    """Whether a client was told of a leader error in the request; never null."""
    is_single = F.col("single").isNotNull()
    is_told = F.exists("answers", lambda answer: is_leader_error(answer["error"]))
    return F.coalesce(is_single & is_told, F.lit(False))
