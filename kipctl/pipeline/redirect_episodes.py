"""Redirect episodes of clients that tell no phases: built from what a proxy or a broker saw.

All there is to see is one client's requests for one partition, one after the other. An *episode*
begins with an answer NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH and ends with the next answer
without an error; the answers are taken in the order in which they were given.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kipctl.pipeline.columns import brokers_named, count_if, is_leader_error, sum_of

ATTEMPTS = StructType(
    [
        StructField("cluster", StringType()),
        StructField("client", StringType()),  # what tells one client of the cluster from all others
        StructField("connection", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("api_key", IntegerType()),
        StructField("broker", IntegerType()),  # null if it is not known
        StructField("sent_us", LongType()),
        StructField("received_us", LongType()),  # null if no answer came
        StructField("error", IntegerType()),  # of the partition
        StructField("base_offset", LongType()),  # >= 0 with an error: appended, then failed
        StructField("hint_leader", IntegerType()),  # null or -1: the error names no leader
    ]
)
"""A row is one partition in one request: what `episodes` is built from."""
FOLLOWED_WITHIN_US = 10_000
"""A hint counts as used when the next attempt goes to the leader it names within this time.

Java 4.3.1 sends again 0.6 to 3.7 ms after the error (medians); without hints, but with fresh
Metadata, it takes 18 ms, and clients that wait out `retry.backoff.ms` take 100.
"""

_PARTITION = ("cluster", "client", "api_key", "topic", "partition")
_TURN = ("answered_us", "sent_us", "succeeded", "refused")
"""The order of attempts. Of several at the very same time other errors come first, then the
refusal, then the success."""


def episodes(attempts: DataFrame) -> DataFrame:
    """A row for each episode, from a frame of the schema ATTEMPTS.

    Result: cluster, client, api_key, topic, partition; `first_error_us` and `ended_us` (when they
    were answered; the end is null if it was not seen); `attempts`, `errors` (leader errors) and
    `other_errors` (requests without an answer too); `appended_then_failed`; `hints_present`,
    `hints_unseen` (no attempt after it was seen), `hints_reached` (the next attempt went to the
    leader that the hint names) and `hints_used` (within FOLLOWED_WITHIN_US); `duration_us` from the
    first error to the end, of which `wait_us` passed without any attempt for the partition under
    way and `answer_us` with one or more (one without an answer is over at once; where no end was
    seen, up to the last one sent); `brokers` (`1->2`: of the first error, and of the last attempt)
    and how many were `visited`; `looped`.

    An episode loops when a broker that refused (a leader error) is asked again after another one,
    or refuses again. Attempts that were under way when the first error was answered are no reaction
    to it: they are counted, but they make no loop; neither do unknown brokers.
    """
    return (
        attempts.transform(_of_redirected_partitions)
        .transform(_with_what_follows)
        .transform(_numbered)
        .transform(_with_returns)
        .transform(_summed)
    )


def _of_redirected_partitions(attempts: DataFrame) -> DataFrame:
    """The attempts of clients for partitions that refused them at least once, with
    `answered_us`, `refused` and `succeeded`."""
    ever_refused = F.max(is_leader_error()).over(Window.partitionBy(*_PARTITION))
    return (
        attempts.select("*", ever_refused.alias("_ever_refused"))
        .filter("_ever_refused")
        .select(
            *attempts.columns,
            F.coalesce("received_us", "sent_us").alias("answered_us"),
            is_leader_error().alias("refused"),
            ((F.col("error") == 0) & F.col("received_us").isNotNull()).alias("succeeded"),
        )
    )


def _with_what_follows(attempts: DataFrame) -> DataFrame:
    """Add `next`: when and to which broker the first attempt after this one's answer was sent; and
    `idle_us`: how long none was under way from the answer to then, null if another one was."""
    moment = F.explode(
        F.array(
            F.struct(F.col("sent_us").alias("at_us"), F.lit(True).alias("is_sent")),
            F.struct(F.col("answered_us").alias("at_us"), F.lit(False).alias("is_sent")),
        )
    )
    # Backwards, so that what follows is what was passed already.
    later = (
        Window.partitionBy(*_PARTITION)
        .orderBy(
            F.col("moment.at_us").desc(),
            F.col("moment.is_sent"),
            *(F.col(name).desc() for name in _TURN),
        )
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    sent = F.when(F.col("moment.is_sent"), F.struct("sent_us", "broker"))
    # Answers still to come, but for those to attempts that are still to be sent.
    under_way = F.sum(F.when(F.col("moment.is_sent"), -1).otherwise(1)).over(later)
    return (
        attempts.select("*", moment.alias("moment"))
        .select(
            "*",
            F.last(sent, ignorenulls=True).over(later).alias("next"),
            under_way.alias("_under_way"),
        )
        .filter("not moment.is_sent")
        .select(
            *attempts.columns,
            "next",
            F.when(F.col("_under_way") == 0, F.col("next.sent_us") - F.col("answered_us")).alias(
                "idle_us"
            ),
        )
    )


def _numbered(attempts: DataFrame) -> DataFrame:
    """The attempts of episodes alone, with `episode` (a number in the partition) and
    `first_error_us`.

    Between two successes lies at most one episode, which the later one ends.
    """
    in_turn = Window.partitionBy(*_PARTITION).orderBy(*_TURN)
    before = in_turn.rowsBetween(Window.unboundedPreceding, -1)
    in_episode = Window.partitionBy(*_PARTITION, "episode").orderBy(*_TURN)
    so_far = in_episode.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        attempts.withColumn("episode", count_if(F.col("succeeded")).over(before))
        .withColumn(
            "first_error_us", F.min(F.when(F.col("refused"), F.col("answered_us"))).over(so_far)
        )
        .filter("first_error_us is not null")
    )


def _with_returns(numbered: DataFrame) -> DataFrame:
    """Add `returned`: whether the attempt went in a circle, as `episodes` says."""
    of_broker = Window.partitionBy(*_PARTITION, "episode", "broker")
    reaction = F.col("sent_us") >= F.col("first_error_us")
    as_sent = Window.partitionBy(*_PARTITION, "episode", reaction).orderBy("sent_us", *_TURN)
    from_another = F.lag("broker").over(as_sent) != F.col("broker")
    refused_us = F.col("_refused_us")
    after_another = refused_us <= F.col("_arrived_us")
    again = (
        F.col("refused") & (refused_us <= F.col("sent_us")) & (refused_us < F.col("answered_us"))
    )
    return (
        numbered.withColumn(
            "_refused_us", F.min(F.when(F.col("refused"), F.col("answered_us"))).over(of_broker)
        )
        .withColumn("_arrived_us", F.when(from_another, F.col("sent_us")))
        .withColumn("_arrived_us", F.last("_arrived_us", ignorenulls=True).over(as_sent))
        .withColumn(
            "returned",
            F.coalesce(
                reaction & F.col("broker").isNotNull() & (after_another | again), F.lit(False)
            ),
        )
    )


def _summed(numbered: DataFrame) -> DataFrame:
    hinted = F.col("refused") & (F.col("hint_leader") >= 0)
    unseen = hinted & F.col("next.sent_us").isNull()
    reached = hinted & (F.col("next.broker") == F.col("hint_leader"))
    used = reached & (F.col("next.sent_us") - F.col("answered_us") <= FOLLOWED_WITHIN_US)
    order = F.struct(*_TURN)
    # An idle time begins with an answer: it is of the episode, unless that answer is the end.
    idle = F.when(~F.col("succeeded"), F.col("idle_us"))
    return (
        numbered.groupBy(*_PARTITION, "episode")
        .agg(
            F.min("first_error_us").alias("first_error_us"),
            F.min(F.when(F.col("succeeded"), F.col("answered_us"))).alias("ended_us"),
            F.count("*").alias("attempts"),
            count_if(F.col("refused")).alias("errors"),
            count_if(~F.col("refused") & ~F.col("succeeded")).alias("other_errors"),
            count_if(F.col("refused") & (F.col("base_offset") >= 0)).alias("appended_then_failed"),
            count_if(hinted).alias("hints_present"),
            count_if(unseen).alias("hints_unseen"),
            count_if(reached).alias("hints_reached"),
            count_if(used).alias("hints_used"),
            sum_of(idle).alias("wait_us"),
            F.min_by("broker", order).alias("_first_broker"),
            F.max_by("broker", order).alias("_last_broker"),
            F.size(F.collect_set("broker")).alias("visited"),
            F.bool_or("returned").alias("looped"),
        )
        .withColumn("duration_us", F.col("ended_us") - F.col("first_error_us"))
        .withColumn("answer_us", F.col("duration_us") - F.col("wait_us"))
        .withColumn("brokers", brokers_named(F.col("_first_broker"), F.col("_last_broker")))
        .drop("episode", "_first_broker", "_last_broker")
    )
