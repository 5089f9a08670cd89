"""Redirect episodes of a client that told its phases: the probe.

An *episode* is a batch, or a consumer's Fetch for a partition, that met NOT_LEADER_OR_FOLLOWER or
FENCED_LEADER_EPOCH at least once. Its phases are the sums over all its failed attempts, those that
met another error too; together they are its latency. The rules are those of the live summary
(`kipctl.measure.client_totals`), and the numbers are equal.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.actions import with_last_action
from kipctl.pipeline.columns import (
    brokers_named,
    columns_of,
    count_if,
    is_leader_error,
    nearest_rank,
    sum_of,
)
from kipctl.trace.codes import PHASES, Decision

BATCH = ("run", "arm", "client", "api", "topic", "partition", "first_seq")
"""What names a batch that failed; of a Fetch, `first_seq` is the offset that it asked for."""
_EPISODE = (*BATCH, "episode")

_PHASE_COLUMNS = tuple(f"{phase}_us" for phase in PHASES)
_HINTS = tuple(
    decision.name.lower() for decision in Decision if decision is not Decision.NOT_APPLICABLE
)
_COUNTS = (
    "errors",
    "records",
    "appended_then_failed",
    "hints_present",
    *(f"hints_{hint}" for hint in _HINTS),
    "same_epoch_retries",
)


def failed_batches(redirects: DataFrame, actions: DataFrame) -> DataFrame:
    """A row for each batch or Fetch that met any error after which it was to be sent again.

    Result: BATCH; `episode`; `records`, `attempts`; `errors` (leader errors) and `other_errors`;
    `appended_then_failed`, `hints_present` and `hints_<decision>` (of the leader errors);
    `same_epoch_retries`; the phases (`queued_us` ... `acknowledge_us`), `client_share_us` (backoff
    and metadata) and `latency_us` (all of them); `brokers` (`1->2`: the one that gave the first
    leader error, and the one tried after the last); `looped`; `first_error_us` and
    `until_error_us` (from when that attempt was sent to its error); and of the last action called
    before that, `number` (0 before any) and `action` ("-").
    """
    refused = is_leader_error()
    none = (Decision.ABSENT.name.lower(), Decision.DRAFT.name.lower())
    decided = ~F.col("decision").isin(*none)
    hinted = F.coalesce(decided, F.col("hint_leader") >= 0)
    same_epoch = F.col("to_broker").isNotNull() & (
        F.coalesce(F.col("to_epoch"), F.lit(-1)) <= F.col("from_epoch")
    )
    went_on = F.col("is_last") & F.col("to_broker").isNotNull()
    batches = (
        redirects.transform(with_episode)
        .transform(with_returns)
        .groupBy(*_EPISODE)
        .agg(
            F.max("records").cast("bigint").alias("records"),
            (F.count("*") + count_if(went_on)).alias("attempts"),
            count_if(refused).alias("errors"),
            count_if(~refused).alias("other_errors"),
            count_if(refused & (F.col("base_offset") >= 0)).alias("appended_then_failed"),
            count_if(refused & hinted).alias("hints_present"),
            *(
                count_if(refused & (F.col("decision") == hint)).alias(f"hints_{hint}")
                for hint in _HINTS
            ),
            count_if(refused & same_epoch).alias("same_epoch_retries"),
            *(sum_of(F.col(phase)).alias(phase) for phase in _PHASE_COLUMNS),
            F.min("error_us").alias("first_error_us"),
            sum_of(F.when(F.col("attempt") == 1, F.col("detect_us") + F.col("not_ready_us"))).alias(
                "until_error_us"
            ),
            F.min_by("from_broker", F.when(refused, F.col("attempt"))).alias("_first_broker"),
            F.max_by("to_broker", F.when(refused, F.col("attempt"))).alias("_last_broker"),
            F.collect_set(F.when(refused, F.col("from_broker"))).alias("_refused_by"),
            # The last try has no row of its own: it is where the last row went on to.
            F.max(
                F.when(went_on & (F.col("to_broker") != F.col("from_broker")), F.col("to_broker"))
            ).alias("_ended_at"),
            F.bool_or("returned").alias("_returned"),
        )
    )
    ended_in_a_circle = F.coalesce(
        F.array_contains("_refused_by", F.col("_ended_at")), F.lit(False)
    )
    own = [name for name in batches.columns if not name.startswith("_")]
    return batches.select(
        *own,
        F.expr("backoff_us + metadata_us").alias("client_share_us"),
        F.expr(" + ".join(_PHASE_COLUMNS)).alias("latency_us"),
        brokers_named(F.col("_first_broker"), F.col("_last_broker")).alias("brokers"),
        (F.col("_returned") | ended_in_a_circle).alias("looped"),
    ).transform(with_last_action, actions, "first_error_us")


def with_episode(redirects: DataFrame) -> DataFrame:
    """Add `episode`: which one it is of what BATCH names, by the first attempts that had failed.

    A batch has one; a Fetch from one offset may succeed, bring no records, and fail anew.
    """
    so_far = (
        Window.partitionBy(*BATCH)
        .orderBy("error_us", F.col("attempt").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    number = F.when(F.col("api") == "fetch", count_if(F.col("attempt") == 1).over(so_far))
    return redirects.withColumn("episode", F.coalesce(number, F.lit(1)))


def with_returns(redirects: DataFrame) -> DataFrame:
    """Add `is_last` (of its batch) and `returned`: whether the attempt went in a circle.

    It did when its broker had refused the batch (a leader error) before, and either another broker
    was tried in between, or it refused again although the client knew no newer epoch. A leader that
    was elected anew and is asked in its new epoch is none.
    """
    by_attempt = Window.partitionBy(*_EPISODE).orderBy("attempt")
    earlier_at_broker = (
        Window.partitionBy(*_EPISODE, "from_broker")
        .orderBy("attempt")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    came_from_another = ~F.lag("from_broker").over(by_attempt).eqNullSafe(F.col("from_broker"))
    first_refusal = F.min(F.when(is_leader_error(), F.col("attempt"))).over(earlier_at_broker)
    refused_epoch = F.max(F.when(is_leader_error(), F.col("from_epoch"))).over(earlier_at_broker)
    arrived = F.last("_arrived", ignorenulls=True).over(by_attempt)
    refused_again = is_leader_error() & (F.col("from_epoch") <= refused_epoch)
    return redirects.select(
        "*",
        F.lead("attempt").over(by_attempt).isNull().alias("is_last"),
        F.when(came_from_another, F.col("attempt")).alias("_arrived"),
    ).select(
        *redirects.columns,
        "is_last",
        (
            F.coalesce(first_refusal < arrived, F.lit(False))
            | F.coalesce(refused_again, F.lit(False))
        ).alias("returned"),
    )


def episodes(failed: DataFrame) -> DataFrame:
    """Of `failed_batches` those that met a leader error."""
    return failed.filter("errors > 0")


def redirect_table(episodes: DataFrame, keys: Sequence[str] = ("run", "arm")) -> DataFrame:
    """The table *redirects*: episodes by these keys, counted and summed up.

    Result: the keys; `episodes`; the sums of `errors`, `records`, `appended_then_failed`,
    `hints_present` and `hints_<decision>`, `same_epoch_retries`; p50, p99 and sum of the client
    share and of every phase (`backoff_p99_us`); p50, p99 and max of the latency; `loops` (episodes)
    and `longest_loop` (the most leader errors that one of them met; 0 for none).
    """
    spread = [
        column
        for name in ("client_share", *PHASES)
        for column in (
            nearest_rank(f"{name}_us", 0.5).alias(f"{name}_p50_us"),
            nearest_rank(f"{name}_us", 0.99).alias(f"{name}_p99_us"),
            F.sum(f"{name}_us").alias(f"{name}_sum_us"),
        )
    ]
    return episodes.groupBy(*columns_of(keys, {"action": ("number", "action")})).agg(
        F.count("*").alias("episodes"),
        *(sum_of(name).alias(name) for name in _COUNTS),
        *spread,
        nearest_rank("latency_us", 0.5).alias("latency_p50_us"),
        nearest_rank("latency_us", 0.99).alias("latency_p99_us"),
        F.max("latency_us").alias("latency_max_us"),
        count_if(F.col("looped")).alias("loops"),
        F.coalesce(F.max(F.when(F.col("looped"), F.col("errors"))), F.lit(0)).alias("longest_loop"),
    )
