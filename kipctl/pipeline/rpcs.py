"""Requests counted: by API, version, client, broker; Metadata requests by their cause (KIP-526)."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import api_name, columns_of, count_if, nearest_rank, sum_of
from kipctl.protocol.api import ApiKey
from kipctl.trace.codes import MetadataCause

_IS_METADATA = f"api_key = {int(ApiKey.METADATA)}"


def rpc_table(rpcs: DataFrame, keys: Sequence[str] = ("run", "arm", "api")) -> DataFrame:
    """The table *rpcs*: requests counted by these keys.

    Result: the keys (for `api` the columns `api_key` and `api`, its name); `requests`, `errors`
    (answered with one, or failed by the client), `unanswered` (acks=0, or the connection was lost),
    `request_bytes` and `response_bytes` (sums), `p50_us` and `p99_us` of the time from sending to
    the answer (null if none came), and `critical`: requests whose answer a batch waited for.
    """
    time_us = F.col("received_us") - F.col("sent_us")
    return (
        rpcs.select("*", api_name().alias("api"), time_us.alias("_time_us"))
        .groupBy(*columns_of(keys, {"api": ("api_key", "api")}))
        .agg(
            F.count("*").alias("requests"),
            count_if(F.col("error") != 0).alias("errors"),
            count_if(F.col("received_us").isNull()).alias("unanswered"),
            sum_of("request_bytes").alias("request_bytes"),
            sum_of("response_bytes").alias("response_bytes"),
            nearest_rank("_time_us", 0.5).alias("p50_us"),
            nearest_rank("_time_us", 0.99).alias("p99_us"),
            count_if(F.col("critical")).alias("critical"),
        )
    )


def metadata_table(rpcs: DataFrame, keys: Sequence[str] = ("run", "arm", "cause")) -> DataFrame:
    """The table *metadata*: the Metadata requests alone, by these keys.

    Result: as of `rpc_table`, and `bytes` of requests and responses together. The sums of
    `requests`, `critical` and `bytes` over the causes are `total`, `on_critical_path` and `bytes`
    of the live summary (`kipctl.measure.redirects.metadata_rpcs`).
    """
    counted = rpc_table(rpcs.filter(_IS_METADATA), keys)
    return counted.withColumn("bytes", F.col("request_bytes") + F.col("response_bytes"))


def with_inferred_causes(
    rpcs: DataFrame, errors: DataFrame, client: Sequence[str] = ("run", "client")
) -> DataFrame:
    """Give Metadata requests without a cause the one that their client's sequence suggests.

    `client` are the columns that tell one client from another, in both frames. `errors` holds those
    and `time_us`: when the client was told of NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH. The
    first of these rules that holds gives the cause:

    1. `start`: it is the client's first Metadata request.
    2. `error_retry`: the Metadata request before it was answered with an error, or not at all; or a
       request that was sent since then failed without an answer.
    3. `leader_change`: the client has been told of a leader error since it sent the one before.
    4. `new_topic`: where `rpcs` has a column `new_topics` (how many of the topics asked for the
       client never asked for before): it is above 0. Else: more topics are asked for than in any
       request before; a client that asks for new topics alone (Java) is not found out then.
    5. `max_age`: none of these; the client's own clock (`metadata.max.age.ms`) is all that is left.

    Causes that the source gave are kept, and so are the columns and rows of all other requests.
    """
    metadata = rpcs.filter(_IS_METADATA).withColumn("_kind", F.lit("metadata"))
    others = rpcs.filter(f"not ({_IS_METADATA})")
    leader_errors = errors.select(
        *client, F.col("time_us").alias("sent_us"), F.lit("leader error").alias("_kind")
    )
    # acks=0 has no answer either, but no error.
    lost = others.filter("received_us is null and error != 0").select(
        *client, "sent_us", F.lit("lost").alias("_kind")
    )
    turns = metadata.unionByName(leader_errors, allowMissingColumns=True).unionByName(
        lost, allowMissingColumns=True
    )
    causes = turns.transform(_with_previous, client).withColumn(
        "cause", F.coalesce(F.col("cause"), _inferred_cause("new_topics" in rpcs.columns))
    )
    named = causes.filter("_kind = 'metadata'").select(rpcs.columns)
    return named.unionByName(others)


def _with_previous(turns: DataFrame, client: Sequence[str]) -> DataFrame:
    """Add what came earlier than each row of its client: `_previous` (sent, received and error of
    the Metadata request before it), `_leader_error_us` and `_lost_us` (the latest of these), and
    `_most_topics`.
    """
    is_metadata = F.col("_kind") == "metadata"
    earlier = (
        Window.partitionBy(*client)
        # A leader error told at the very moment of a request counts for it; a request sent at that
        # moment cannot be lost yet.
        .orderBy("sent_us", F.col("_kind") == "lost", is_metadata)
        .rowsBetween(Window.unboundedPreceding, -1)
    )

    def last(kind: str, value: Column) -> Column:
        return F.last(F.when(F.col("_kind") == kind, value), ignorenulls=True).over(earlier)

    return turns.select(
        "*",
        last("metadata", F.struct("sent_us", "received_us", "error")).alias("_previous"),
        last("leader error", F.col("sent_us")).alias("_leader_error_us"),
        last("lost", F.col("sent_us")).alias("_lost_us"),
        F.max(F.when(is_metadata, F.col("topics"))).over(earlier).alias("_most_topics"),
    )


def _inferred_cause(new_topics_are_known: bool) -> Column:
    failed = F.col("_previous.received_us").isNull() | (F.col("_previous.error") != 0)
    lost = F.col("_lost_us") >= F.col("_previous.sent_us")
    refused = F.col("_leader_error_us") > F.col("_previous.sent_us")
    more = F.col("topics") > F.col("_most_topics")
    new = F.coalesce(F.col("new_topics") > 0, more) if new_topics_are_known else more
    rules = (
        (F.col("_previous").isNull(), MetadataCause.START),
        (failed | lost, MetadataCause.ERROR_RETRY),
        (refused, MetadataCause.LEADER_CHANGE),
        (new, MetadataCause.NEW_TOPIC),
        (F.lit(True), MetadataCause.MAX_AGE),
    )
    return F.coalesce(*(F.when(holds, F.lit(cause.name.lower())) for holds, cause in rules))
