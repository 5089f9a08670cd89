"""Moved leaders as clients met them, and how long each made the client wait: told by whoever saw
them met (a tap), or found in failed attempts.

What a move is, what its wait is, and which failed attempt belongs to which move is said in
`kipctl.measure.moves`: the rules are the same, and the numbers are equal. A tap, to which clients
do not tell their backoff, has rules of its own (`kipctl.tap.episodes`), and writes down what it
counts: its numbers are those of its last line.
"""

from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import columns_of, count_if, is_leader_error, nearest_rank, sum_of
from kipctl.pipeline.inputs import Trace
from kipctl.pipeline.redirects import BATCH, with_episode
from kipctl.trace.codes import WAITS_BELOW_MS

_EPISODE = (*BATCH, "episode")
MOVE = ("run", "arm", "client", "api", "topic", "partition", "topic_generation", "epoch")
"""What names a move; `epoch` is the new leader's."""
_OF_TOPIC = (*_EPISODE, "topic_generation")


def met_moves(trace: Trace) -> DataFrame:
    """A row for each move that a client met, as of `moves`; of the runs of taps those that they
    have told: `wait_us` is null where the new leader was not found, or in a loop."""
    told = trace.told_moves
    if trace.moves is None:
        return moves(trace.redirects)
    of_taps = (
        trace.moves.filter(F.col("run").isin(*told))
        .groupBy(*MOVE)
        .agg(
            F.max("wait_us").alias("wait_us"),
            sum_of("not_ready").alias("not_ready"),
            F.count("*").alias("batches"),
            F.min("error_us").alias("first_error_us"),
        )
    )
    if {run.name for run in trace.runs} <= {*told}:
        return of_taps
    of_others = trace.redirects.filter(~F.col("run").isin(*told))
    return moves(of_others).unionByName(of_taps)


def moves(redirects: DataFrame) -> DataFrame:
    """A row for each move that a client met.

    Result: MOVE; `wait_us`, the wait; `not_ready`, how many answers said that the new leader did
    not lead yet; `batches` that met it; `first_error_us`.
    """
    in_order = Window.partitionBy(*_OF_TOPIC).orderBy("attempt")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    upto = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    onward = in_order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    not_ready = F.col("not_ready_us") > 0
    refused = is_leader_error() | not_ready
    epoch = F.when(refused & (F.col("to_epoch") > F.col("from_epoch")), F.col("to_epoch")).when(
        not_ready & (F.col("from_epoch") >= 0), F.col("from_epoch")
    )
    next_known = F.first("_epoch", ignorenulls=True).over(onward)
    last_known = F.last("_epoch", ignorenulls=True).over(before)
    of_attempts = (
        redirects.transform(with_episode)
        # Older runs do not have it.
        .withColumn("topic_generation", F.coalesce("topic_generation", F.lit(0)))
        .select(
            *_OF_TOPIC,
            "error_us",
            F.expr("backoff_us + metadata_us").alias("waited_us"),
            "attempt",
            not_ready.alias("not_ready"),
            epoch.alias("_epoch"),
            F.max(refused).over(upto).alias("_was_refused"),
        )
        .select("*", next_known.alias("_next"), last_known.alias("_former"))
        .withColumn("epoch", F.coalesce("_next", "_former"))
        .filter("_was_refused and epoch is not null")
    )
    of_batches = of_attempts.groupBy(*_OF_TOPIC, "epoch").agg(
        F.sum("waited_us").alias("wait_us"),
        count_if(F.col("not_ready")).alias("not_ready"),
        F.min("error_us").alias("first_error_us"),
    )
    return of_batches.groupBy(*MOVE).agg(
        F.max("wait_us").alias("wait_us"),
        sum_of("not_ready").alias("not_ready"),
        F.count("*").alias("batches"),
        F.min("first_error_us").alias("first_error_us"),
    )


def move_table(moves: DataFrame, keys: Sequence[str] = ("run", "arm", "api")) -> DataFrame:
    """The table *moves*: how long moved leaders made clients wait.

    Result: the keys; `moves`; `not_ready` (moves); `wait_p50_us`, `wait_p99_us`, `wait_max_us`; and
    how many waits were that long: `below_3_ms` and so on by WAITS_BELOW_MS, and `longer`.
    """
    wait = F.col("wait_us")
    edges = (0, *(1000 * ms for ms in WAITS_BELOW_MS))
    of_length = [
        count_if((wait >= low) & (wait < high)).alias(f"below_{high // 1000}_ms")
        for low, high in pairwise(edges)
    ]
    return moves.groupBy(*columns_of(keys, {"action": ("number", "action")})).agg(
        F.count("*").alias("moves"),
        count_if(F.col("not_ready") > 0).alias("not_ready"),
        nearest_rank("wait_us", 0.5).alias("wait_p50_us"),
        nearest_rank("wait_us", 0.99).alias("wait_p99_us"),
        F.max("wait_us").alias("wait_max_us"),
        *of_length,
        count_if(wait >= edges[-1]).alias("longer"),
    )
