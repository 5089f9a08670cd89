"""Which replicas consumers read from, by rack, and how steadily (KIP-392)."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import count_if, error_name, sum_of


def with_role(reads: DataFrame) -> DataFrame:
    """Add `role` of the broker that answered: leader, follower, or unknown."""
    role = F.when(F.col("is_leader"), "leader").when(~F.col("is_leader"), "follower")
    return reads.withColumn("role", role.otherwise("unknown"))


def read_table(
    reads: DataFrame, keys: Sequence[str] = ("run", "arm", "client_rack", "broker_rack", "role")
) -> DataFrame:
    """The table *reads*: what was fetched, by these keys. A row of `reads` is one fetch response
    for one partition.

    Result: the keys; `responses`; `records` (null if no response tells) and `bytes`; of the bytes
    `local_bytes` (broker and client in one rack), `cross_rack_bytes`, `unknown_rack_bytes` and
    `follower_bytes`; `local_share` of the bytes whose racks are known (null if there are none);
    `named_a_replica`: responses that sent the client to a preferred read replica; `errors`.
    """
    local = F.col("client_rack") == F.col("broker_rack")
    return (
        reads.transform(with_role)
        .groupBy(*keys)
        .agg(
            F.count("*").alias("responses"),
            F.sum("records").alias("records"),
            sum_of("bytes").alias("bytes"),
            sum_of(F.when(local, F.col("bytes"))).alias("local_bytes"),
            sum_of(F.when(~local, F.col("bytes"))).alias("cross_rack_bytes"),
            sum_of(F.when(local.isNull(), F.col("bytes"))).alias("unknown_rack_bytes"),
            sum_of(F.when(~F.col("is_leader"), F.col("bytes"))).alias("follower_bytes"),
            count_if(F.col("preferred_read_replica").isNotNull()).alias("named_a_replica"),
            count_if(F.col("error") != 0).alias("errors"),
        )
        .withColumn(
            "local_share",
            F.expr("try_divide(local_bytes, local_bytes + cross_rack_bytes)"),
        )
    )


def flip_table(reads: DataFrame, keys: Sequence[str] = ("run", "arm")) -> DataFrame:
    """The table *flips*: how often consumers changed the replica that they read a partition from.

    The keys are among run, arm, client, topic and partition. A client reads from a broker when that
    answers without an error and does not send it elsewhere; an answer that names a preferred read
    replica holds no records, and asking the leader anew is no flip. Result: the keys; `partitions`
    (of one client each) and `flipped` (those of them that changed at least once); `flips`, the sum
    of the changes, and `most_flips` of one partition; `preferred_changes`: how often the preferred
    read replica that was named was another than the one named before.
    """
    partition = ("run", "arm", "client", "topic", "partition")
    served = (F.col("error") == 0) & F.col("preferred_read_replica").isNull()
    in_turn = Window.partitionBy(*partition).orderBy("time_us", "fetch_offset")

    def changes(column: Column) -> Column:
        """Whether the value, where there is one, is another than the one before it."""
        previous = F.last(column, ignorenulls=True).over(
            in_turn.rowsBetween(Window.unboundedPreceding, -1)
        )
        return column != previous

    of_partition = (
        reads.select(
            *partition,
            changes(F.when(served, F.col("broker"))).alias("_flip"),
            changes(F.col("preferred_read_replica")).alias("_renamed"),
        )
        .groupBy(*partition)
        .agg(count_if(F.col("_flip")).alias("flips"), count_if(F.col("_renamed")).alias("renamed"))
    )
    return of_partition.groupBy(*keys).agg(
        F.count("*").alias("partitions"),
        count_if(F.col("flips") > 0).alias("flipped"),
        F.sum("flips").alias("flips"),
        F.max("flips").alias("most_flips"),
        F.sum("renamed").alias("preferred_changes"),
    )


def read_error_table(reads: DataFrame, keys: Sequence[str] = ("run", "arm")) -> DataFrame:
    """The table *read_errors*: fetch responses with an error.

    By these keys, and `error` (the code) with its `name`. Result: those and `responses`.
    """
    failed = reads.filter("error != 0").transform(with_role).withColumn("name", error_name())
    return failed.groupBy(*keys, "error", "name").agg(F.count("*").alias("responses"))


def out_of_range_table(reads: DataFrame, keys: Sequence[str] = ("run", "arm")) -> DataFrame:
    """The table *out_of_range*: offsets that a broker asked for them did not have (KIP-392).

    By these keys, `case` (the name of a RangeCase) and `handling` (of a RangeHandling). Result:
    those and `times`. Only a client tells its cases.
    """
    known = reads.filter("range_case is not null").transform(with_role)
    named = (F.col("range_case").alias("case"), F.col("range_handling").alias("handling"))
    return known.groupBy(*keys, *named).agg(F.count("*").alias("times"))
