"""Brokers told by what they accept: only the leader of a partition takes a write to it."""

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.request_lines.rows import Kind
from kipctl.pipeline.request_log.groups import followed_of, of_kind
from kipctl.pipeline.request_log.places import Place, Seen
from kipctl.protocol.api import ApiKey

_REQUESTS_LOOKED_AT = 20_000
"""About as many of Produce: partitions are written all the time."""


def votes_for(
    rows: DataFrame, unknown: Sequence[Seen], places: Sequence[Place]
) -> dict[tuple[str | None, str], dict[int, int]]:
    """For the addresses that are `unknown`: by cluster and address, how often a partition was
    written there that this broker leads, as Metadata answers had it by then.

    Of each address the file is read where most was served; of many Produce requests, some.
    """
    cluster_of = {(at.file, at.address): at.cluster for at in places}
    busiest: dict[tuple[str | None, str], Seen] = {}
    for source in unknown:
        key = (cluster_of[source.file, source.address], source.address)
        if key not in busiest or busiest[key].served < source.served:
            busiest[key] = source
    chosen = [(source.file, source.address, cluster) for (cluster, _), source in busiest.items()]
    every = max(1, sum(source.served for source in busiest.values()) // _REQUESTS_LOOKED_AT)
    is_sampled = F.pmod(F.xxhash64("connection", "slot"), F.lit(every)) == 0
    is_of = F.col("api_key") == int(ApiKey.METADATA)
    is_of |= (F.col("api_key") == int(ApiKey.PRODUCE)) & is_sampled
    of_files = F.col("file").isin(sorted({source.file for source in busiest.values()}))
    requests = followed_of(of_kind(rows, Kind.FOLLOWED).filter(of_files & is_of))
    wanted = rows.sparkSession.createDataFrame(
        pa.table(
            [list(column) for column in zip(*chosen, strict=True)],
            pa.schema([(name, pa.string()) for name in ("file", "address", "cluster")]),
        )
    )
    of_file = wanted.select("file", "cluster").distinct()
    leaders = requests.join(of_file, "file").transform(leaders_of)
    written = requests.join(wanted, ["file", "address"]).transform(_written)
    counted = with_leader(written, leaders).filter("leader is not null")
    votes: dict[tuple[str | None, str], dict[int, int]] = defaultdict(dict)
    for row in counted.groupBy("cluster", "address", "leader").count().collect():
        votes[row.cluster, row.address][row.leader] = row["count"]
    return votes


def _partitions(requests: DataFrame, api: ApiKey) -> DataFrame:
    of_api = requests.filter(F.col("api_key") == int(api)).withColumnRenamed(
        "received_us", "time_us"
    )
    return of_api.select("*", F.explode("partitions").alias("p")).select("*", "p.*")


def _written(requests: DataFrame) -> DataFrame:
    """A row for each partition of a Produce request that was accepted."""
    accepted = _partitions(requests, ApiKey.PRODUCE).filter("error = 0")
    topic = F.coalesce("topic_name", "topic_id").alias("topic")
    return accepted.select("cluster", "address", "time_us", topic, "partition")


def leaders_of(requests: DataFrame) -> DataFrame:
    """When each leader of a partition was first named: `cluster`, `topic`, `partition`, `leader`,
    `time_us`; topics by their names and by their ids.

    `requests` have `cluster`, and are of FOLLOWED_REQUESTS. Of two leaders the one of the higher
    leader epoch is the later, whatever brokers that had not heard yet went on to say.
    """
    named = (
        _partitions(requests, ApiKey.METADATA)
        .withColumn("topic", F.explode(F.array("topic_name", "topic_id")))
        .filter("hint_leader >= 0 and topic is not null")
        .groupBy(
            *("cluster", "topic", "partition"),
            F.col("hint_epoch").alias("epoch"),
            F.col("hint_leader").alias("leader"),
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
