"""Requests counted: by API, version, client, broker; Metadata requests by their cause (KIP-526)."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import api_name, columns_of, count_if, nearest_rank, sum_of
from kipctl.protocol.api import ApiKey
from kipctl.trace.codes import MetadataCause

AGE_US = 240_000_000
LEAST_PERIOD_US = 2_000_000
"""As of the tap (`kipctl.tap.metadata_causes`): `metadata.max.age.ms` and its like are 5 minutes,
less may be set and then shows by being regular, and what comes more often is a backoff."""
_LIKE = 0.1
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
    of the live summary (`kipctl.measure.client_totals`).
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

    1. `leader_change`: the client has been told of a leader error since it sent the one before (or
       ever, if there is none).
    2. `start`: it is the client's first Metadata request, and `rpcs` has no column `is_start` (the
       source saw the client begin) or that holds. Else the first one is `first_seen`.
    3. `error_retry`: the Metadata request before it was answered with an error, or not at all; or a
       request that was sent since then failed without an answer.
    4. `new_topic`: where `rpcs` has a column `new_topics` (how many of the topics asked for the
       client never asked for before): it is above 0. Else: more topics are asked for than in any
       request before; a client that asks for new topics alone (Java) is not found out then. Of a
       client that was not seen to begin nobody knows what is new: `first_seen`.
    5. `max_age`: the same topics were asked for AGE_US ago, or as long ago as they were before or
       will be next (by 10 %), if that is LEAST_PERIOD_US or more. The same are those of equal
       `asked`, where `rpcs` has that, or as many.
    6. `unexplained`: none of these.

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
    turns = (
        metadata.transform(_with_ages, client)
        .unionByName(leader_errors, allowMissingColumns=True)
        .unionByName(lost, allowMissingColumns=True)
    )
    causes = turns.transform(_with_previous, client).withColumn(
        "cause", F.coalesce(F.col("cause"), _inferred_cause("new_topics" in rpcs.columns))
    )
    named = causes.filter("_kind = 'metadata'").select(rpcs.columns)
    return named.unionByName(others)


def _with_ages(metadata: DataFrame, client: Sequence[str]) -> DataFrame:
    """Add `_age_us`, how long ago the client asked for the same, that of the request for it before
    (`_age_before_us`) and of the one after (`_age_after_us`); and whether it `_began` in sight."""
    same = F.col("asked") if "asked" in metadata.columns else F.col("topics")
    of_same = Window.partitionBy(*client, same).orderBy("sent_us")
    of_client = Window.partitionBy(*client).orderBy("sent_us")
    is_start = F.col("is_start") if "is_start" in metadata.columns else F.lit(True)
    return metadata.select(
        "*",
        (F.col("sent_us") - F.lag("sent_us").over(of_same)).alias("_age_us"),
        F.first(is_start).over(of_client).alias("_began"),
    ).select(
        "*",
        F.lag("_age_us").over(of_same).alias("_age_before_us"),
        F.lead("_age_us").over(of_same).alias("_age_after_us"),
    )


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
    is_first = F.col("_previous").isNull()
    failed = F.col("_previous.received_us").isNull() | (F.col("_previous.error") != 0)
    lost = F.col("_lost_us") >= F.col("_previous.sent_us")
    refused = F.col("_leader_error_us") > F.coalesce("_previous.sent_us", F.lit(-(2**62)))
    more = F.col("topics") > F.col("_most_topics")
    new = F.coalesce(F.col("new_topics") > 0, more) if new_topics_are_known else more
    age = F.col("_age_us")
    apart = (F.abs(age - F.col(f"_age_{side}_us")) for side in ("before", "after"))
    is_regular = (age >= LEAST_PERIOD_US) & (F.least(*apart) <= _LIKE * age)
    rules = (
        (refused, MetadataCause.LEADER_CHANGE),
        (is_first & F.col("_began"), MetadataCause.START),
        (is_first, MetadataCause.FIRST_SEEN),
        (failed | lost, MetadataCause.ERROR_RETRY),
        (new & F.col("_began"), MetadataCause.NEW_TOPIC),
        (new, MetadataCause.FIRST_SEEN),
        ((age >= AGE_US) | is_regular, MetadataCause.MAX_AGE),
        (F.lit(True), MetadataCause.UNEXPLAINED),
    )
    return F.coalesce(*(F.when(holds, F.lit(cause.name.lower())) for holds, cause in rules))
