"""Brokers told by what they accept: only the leader of a partition takes a write to it."""

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.request_log.bodies import with_bodies, with_whole_header
from kipctl.pipeline.request_log.line_pieces import (
    HEAD_END,
    MARKER,
    answered_us,
    before_first,
    stamp_of,
)
from kipctl.pipeline.request_log.places import Place, Seen, address_of
from kipctl.protocol.api import ApiKey

_LINES_PARSED = 20_000
"""About as many Produce requests are looked at: partitions are written all the time."""


def votes_for(
    text: DataFrame, zone: Column, unknown: Sequence[Seen], places: Sequence[Place]
) -> dict[tuple[str | None, str], dict[int, int]]:
    """For the addresses that are `unknown`: by cluster and address, how often a partition was
    written there that this broker leads, as Metadata answers had it by then.

    Of each address the file is read where most was served; of many Produce requests, some.
    """
    cluster_of = {(at.file, at.address): at.cluster for at in places}
    busiest: dict[tuple[str | None, str], Seen] = {}
    for of in unknown:
        key = (cluster_of[of.file, of.address], of.address)
        if key not in busiest or busiest[key].served < of.served:
            busiest[key] = of
    chosen = [(of.file, of.address, cluster) for (cluster, _), of in busiest.items()]
    every = max(1, sum(of.served for of in busiest.values()) // _LINES_PARSED)
    head = before_first("value", HEAD_END)
    is_metadata, is_produce = (
        F.contains(head, F.lit(f'"requestApiKey":{int(api)},'))
        for api in (ApiKey.METADATA, ApiKey.PRODUCE)
    )
    is_sampled = F.pmod(F.xxhash64("value"), F.lit(every)) == 0
    lines = (
        text.filter(F.col("file").isin(sorted({of.file for of in busiest.values()})))
        .filter(F.contains("value", F.lit(MARKER)) & (is_metadata | (is_produce & is_sampled)))
        .select(
            F.col("value").alias("whole"),
            "file",
            answered_us(stamp_of("value"), zone).alias("time_us"),
        )
        .transform(with_whole_header)
        .transform(with_bodies)
        .select("*", address_of("header.connection").alias("address"))
    )
    wanted = text.sparkSession.createDataFrame(
        pa.table(
            [list(of) for of in zip(*chosen, strict=True)],
            pa.schema([(name, pa.string()) for name in ("file", "address", "cluster")]),
        )
    )
    of_file = wanted.select("file", "cluster").distinct()
    leaders = lines.join(of_file, "file").transform(leaders_of)
    written = lines.join(wanted, ["file", "address"]).transform(_written)
    counted = with_leader(written, leaders).filter("leader is not null")
    votes: dict[tuple[str | None, str], dict[int, int]] = defaultdict(dict)
    for row in counted.groupBy("cluster", "address", "leader").count().collect():
        votes[row.cluster, row.address][row.leader] = row["count"]
    return votes


def _written(lines: DataFrame) -> DataFrame:
    """A row for each partition of a Produce request that was accepted."""
    return (
        lines.select(
            "cluster", "address", "time_us", F.explode("produced.response.responses").alias("t")
        )
        .select(
            "cluster",
            "address",
            "time_us",
            F.coalesce("t.name", "t.topicId").alias("topic"),
            F.explode("t.partitionResponses").alias("p"),
        )
        .filter("p.errorCode = 0")
        .select("cluster", "address", "time_us", "topic", F.col("p.index").alias("partition"))
    )


def leaders_of(lines: DataFrame) -> DataFrame:
    """When each leader of a partition was first named: `cluster`, `topic`, `partition`, `leader`,
    `time_us`; topics by their names and by their ids.

    `lines` have `cluster`, `time_us` and `asked`. Of two leaders the one of the higher leader epoch
    is the later, whatever brokers that had not heard yet went on to say.
    """
    named = (
        lines.select("cluster", "time_us", F.explode("asked.response.topics").alias("t"))
        .select("cluster", "time_us", "t", F.explode(F.array("t.name", "t.topicId")).alias("topic"))
        .select("cluster", "time_us", "topic", F.explode("t.partitions").alias("p"))
        .filter("p.leaderId >= 0 and topic is not null")
        .groupBy(
            "cluster",
            "topic",
            F.col("p.partitionIndex").alias("partition"),
            F.col("p.leaderEpoch").alias("epoch"),
            F.col("p.leaderId").alias("leader"),
        )
        .agg(F.min("time_us").alias("time_us"))
    )
    so_far = (
        Window.partitionBy("cluster", "topic", "partition")
        .orderBy("time_us")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    newest = F.max("epoch").over(so_far)
    return (
        named.select("*", newest.alias("_newest"))
        .filter("_newest is null or epoch > _newest")
        .select("cluster", "topic", "partition", "leader", "time_us")
    )


def with_leader(rows: DataFrame, leaders: DataFrame) -> DataFrame:
    """Add `leader` of a row's partition, as it was known at `time_us`; null before any Metadata
    answer named it."""
    named = leaders.select(
        "cluster", "topic", "partition", "time_us", F.col("leader").alias("_named")
    )
    so_far = (
        Window.partitionBy("cluster", "topic", "partition")
        .orderBy("time_us", F.col("_named").isNull())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        rows.select("*", F.lit(True).alias("_is_row"))
        .unionByName(named, allowMissingColumns=True)
        .select("*", F.last("_named", ignorenulls=True).over(so_far).alias("leader"))
        .filter("_is_row")
        .drop("_is_row", "_named")
    )
