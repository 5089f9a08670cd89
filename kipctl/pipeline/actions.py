"""Before, during and after each action on the cluster: how the records of the run fared.

Those of a producer are acknowledged or given up, those of a consumer are read.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.columns import NONE, count_if, sum_of
from kipctl.pipeline.latency import percentiles, record_counts
from kipctl.pipeline.partitions import broadcast_if_few, coalesced

AROUND_US = 2_000_000
"""How long before an action, and after the recovery from it, is looked at."""
WINDOWS = ("before", "during", "after")
_OF_ACTION = ("run", "number")
"""A run is of one arm; of a tap its rows are of several, one a client."""


def with_last_action(frame: DataFrame, actions: DataFrame, time: str) -> DataFrame:
    """Add to each row `number` and `action` of the last action of its run called by then.

    `time` is the frame's column of moments (microseconds since the run's start); before the first
    action the number is 0 and the action "-".
    """
    later = Window.partitionBy("run").orderBy("called_us", "number")
    spans = actions.filter("called_us is not null").select(
        F.col("run").alias("_run"),
        "number",
        "action",
        F.col("called_us").alias("_from"),
        F.lead("called_us").over(later).alias("_until"),
    )
    within = (
        (F.col("run") == F.col("_run"))
        & (F.col(time) >= F.col("_from"))
        & (F.col("_until").isNull() | (F.col(time) < F.col("_until")))
    )
    return frame.join(F.broadcast(spans), within, "left").select(
        *(F.col(name) for name in frame.columns),
        F.coalesce("number", F.lit(0)).alias("number"),
        F.coalesce("action", F.lit(NONE)).alias("action"),
    )


def action_table(
    actions: DataFrame, batches: DataFrame, failed: DataFrame, reads: DataFrame
) -> DataFrame:
    """The table *actions*: a row for each action of each run.

    `failed` is of `redirects.failed_batches`. Result: the action's columns; `controller_us` (called
    to answered) and `convergence_us` (answered to converged), null when that did not happen;
    `redirected` (episodes that began with it) and `recovery_us`; and for each of WINDOWS
    `<window>_seconds`, `_records` (acknowledged), `_records_per_second`, `_failed` (records),
    `_latency_p99_us` (exact, by records after the warm-up) and `_read` (records that consumers
    got; null of a run without); null where the window is empty.

    A record counts in the window in which it was acknowledged, given up or read. `recovery_us` is
    from the call until the last batch or Fetch was settled whose first error came between this call
    and the next; 0 if there was none. *During* is from the call until that moment and the
    controller's answer; *before* and *after* are up to AROUND_US long, and reach neither into
    another action's *during* nor beyond the run.
    """
    # A row for each action. It took all batches to make them, and all that follows reads them: only
    # the rows are kept, not the plan.
    windowed = with_windows(actions, batches, failed, reads).transform(checkpointed)
    keys = [*_OF_ACTION, "window"]
    counts = (
        _settled_records(batches, reads)
        .transform(coalesced)
        .transform(_in_windows, windowed, "_at_us")
        .groupBy(*keys)
        .agg(*(sum_of(name).alias(name) for name in ("records", "failed", "read")))
    )
    tagged = batches.transform(_in_windows, windowed, "acked_us")
    p99 = percentiles(record_counts(tagged, keys, times=["latency"]), keys)
    seconds = (F.col("until_us") - F.col("from_us")) / 1e6
    records = F.coalesce("records", F.lit(0))
    measured = {
        "seconds": seconds,
        "records": records,
        "records_per_second": F.round(records / seconds, 1),
        "failed": F.coalesce("failed", F.lit(0)),
        "latency_p99_us": F.col("p99_us"),
        "read": F.when(F.col("consumes"), F.coalesce("read", F.lit(0))),
    }
    bounds = [name for window in WINDOWS for name in _bounds(window)]
    own = windowed.drop("consumes", *bounds).columns
    has_length = F.col("from_us") < F.col("until_us")
    return (
        _window_rows(windowed, *own, "consumes")
        .join(counts, keys, "left")
        .join(p99.select(*keys, "p99_us"), keys, "left")
        .groupBy(*own)
        .agg(
            *(
                F.max(F.when((F.col("window") == window) & has_length, value)).alias(
                    f"{window}_{name}"
                )
                for window in WINDOWS
                for name, value in measured.items()
            )
        )
    )


def _settled_records(batches: DataFrame, reads: DataFrame) -> DataFrame:
    """What was acknowledged (`records`), given up (`failed`) or `read`, and when (`_at_us`)."""
    nothing = F.lit(None).cast("bigint")
    done = F.col("error") == 0
    written = batches.select(
        "run",
        "arm",
        F.col("acked_us").alias("_at_us"),
        F.when(done, F.col("records")).cast("bigint").alias("records"),
        F.when(~done, F.col("records")).cast("bigint").alias("failed"),
        nothing.alias("read"),
    )
    return written.unionAll(
        reads.select(
            "run",
            "arm",
            F.col("time_us").alias("_at_us"),
            nothing.alias("records"),
            nothing.alias("failed"),
            F.col("records").alias("read"),
        )
    )


def with_windows(
    actions: DataFrame, batches: DataFrame, failed: DataFrame, reads: DataFrame
) -> DataFrame:
    """The actions with `controller_us`, `convergence_us`, `redirected`, `recovery_us`, whether the
    run `consumes`, and the bounds of their windows (`before_from_us`, `before_until_us`, ...; until
    is exclusive).
    """
    settled = (
        failed.transform(_with_settled, batches)
        .groupBy(*_OF_ACTION)
        .agg(
            F.max("settled_us").alias("settled_us"),
            count_if(F.col("errors") > 0).alias("redirected"),
        )
    )
    moments = batches.select("run", F.col("acked_us").alias("_at"), F.lit(False).alias("_read"))
    moments = moments.unionAll(
        reads.select("run", F.col("time_us").alias("_at"), F.lit(True).alias("_read"))
    )
    ends = (
        moments.transform(coalesced)
        .groupBy("run")
        .agg((F.max("_at") + 1).alias("_run_until"), F.bool_or("_read").alias("consumes"))
    )
    in_order = Window.partitionBy("run").orderBy("called_us", "number")
    next_called = F.lead("called_us").over(in_order)
    during_until = F.least(
        F.greatest("called_us", "answered_us", F.col("settled_us") + 1), next_called
    )
    with_during = (
        actions.join(settled, list(_OF_ACTION), "left")
        .join(ends, "run", "left")
        .select(
            *actions.columns,
            F.coalesce("redirected", F.lit(0)).alias("redirected"),
            "consumes",
            (F.col("answered_us") - F.col("called_us")).alias("controller_us"),
            (F.col("converged_us") - F.col("answered_us")).alias("convergence_us"),
            F.coalesce(F.col("settled_us") - F.col("called_us"), F.lit(0)).alias("recovery_us"),
            "_run_until",
            next_called.alias("_next_called_us"),
            during_until.alias("during_until_us"),
        )
    )
    previous_until = F.lag("during_until_us").over(in_order)
    until = F.col("during_until_us")
    return with_during.select(
        *(name for name in with_during.columns if name[0] != "_" and name != "during_until_us"),
        F.col("called_us").alias("during_from_us"),
        until.alias("during_until_us"),
        F.greatest(F.col("called_us") - AROUND_US, previous_until, F.lit(0)).alias(
            "before_from_us"
        ),
        F.col("called_us").alias("before_until_us"),
        until.alias("after_from_us"),
        F.least(until + AROUND_US, F.col("_next_called_us"), F.col("_run_until")).alias(
            "after_until_us"
        ),
    )


def _with_settled(failed: DataFrame, batches: DataFrame) -> DataFrame:
    """Add `settled_us`: when the batch was acknowledged or given up, or the Fetch answered.

    A Fetch has no intended time: its phases begin when it is sent, the first with its first error.
    """
    batch = ["run", "client", "topic", "partition", "first_seq"]
    settled = batches.select(*batch, F.col("acked_us").alias("settled_us"))
    # Where few batches failed, of however many, all the others need not be shuffled.
    produced = settled.join(broadcast_if_few(failed.filter("api = 'produce'")), batch)
    fetched = failed.filter("api = 'fetch'").withColumn(
        "settled_us", F.expr("first_error_us - until_error_us + latency_us")
    )
    return produced.unionByName(fetched).transform(coalesced)


def _bounds(window: str) -> tuple[str, str]:
    return f"{window}_from_us", f"{window}_until_us"


def _window_rows(windowed: DataFrame, *columns: str) -> DataFrame:
    """Three rows for each action: these columns, `window`, `from_us` and `until_us`.

    In a window that has no length nothing is, and one that is not known has null.
    """

    def bounds(window: str) -> Column:
        start, end = _bounds(window)
        return F.struct(
            F.lit(window).alias("window"),
            F.col(start).alias("from_us"),
            F.col(end).alias("until_us"),
        )

    rows = F.explode(F.array(*map(bounds, WINDOWS))).alias("row")
    return windowed.select(*columns, rows).select(*columns, "row.*")


def _in_windows(rows: DataFrame, windowed: DataFrame, time: str) -> DataFrame:
    """The rows whose moment `time` is in a window of an action, with `number` and `window`."""
    windows = _window_rows(windowed.withColumnRenamed("run", "_run"), "_run", "number")
    within = (
        (F.col("run") == F.col("_run"))
        & (F.col(time) >= F.col("from_us"))
        & (F.col(time) < F.col("until_us"))
    )
    return rows.join(F.broadcast(windows), within).drop("_run", "from_us", "until_us")
