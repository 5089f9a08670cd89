"""Before, during and after each action on the cluster: what the records of the run felt of it.

Those of a producer are acknowledged or given up, those of a consumer are read.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.columns import NONE, count_if, sum_of
from kipctl.pipeline.latency import percentiles, record_counts

AROUND_US = 2_000_000
"""How long before an action, and after the recovery from it, is looked at."""
WINDOWS = ("before", "during", "after")
_OF_ACTION = ("run", "arm", "number")


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
    return (
        frame.join(F.broadcast(spans), within, "left")
        .drop("_run", "_from", "_until")
        .fillna({"number": 0, "action": NONE})
    )


def action_table(
    actions: DataFrame, batches: DataFrame, failed: DataFrame, reads: DataFrame
) -> DataFrame:
    """The table *actions*: a row for each action of each run.

    `failed` is of `redirects.failed_batches`. Result: the action's columns; `controller_us` (called
    to answered) and `convergence_us` (answered to converged), null when it did not come to that;
    `redirected` (episodes that began with it) and `recovery_us`; and for each of WINDOWS
    `<window>_seconds`, `_records` (acknowledged), `_records_per_second`, `_failed` (records),
    `_p99_us` (latency, exact, by records after the warm-up) and `_read` (records that consumers
    got; null of a run without); null where the window is empty.

    A record counts in the window in which it was acknowledged, given up or read. `recovery_us` is
    from the call until the last batch or Fetch was settled whose first error came between this call
    and the next; 0 if there was none. *During* is from the call until that moment and the
    controller's answer; *before* and *after* are up to AROUND_US long, and reach neither into
    another action's *during* nor beyond the run.
    """
    # A row for each action. It took all batches to make them, and all that follows reads them: only
    # the rows are kept, not the plan.
    felt = with_windows(actions, batches, failed, reads).transform(checkpointed)
    tagged = batches.transform(_in_windows, felt, "acked_us")
    keys = [*_OF_ACTION, "window"]
    done = F.col("error") == 0
    counts = tagged.groupBy(*keys).agg(
        sum_of(F.when(done, F.col("records"))).alias("records"),
        sum_of(F.when(~done, F.col("records"))).alias("failed"),
    )
    p99 = percentiles(record_counts(tagged, keys, "latency_us"), keys, "latency_us")
    read = (
        reads.transform(_in_windows, felt, "time_us")
        .groupBy(*keys)
        .agg(sum_of("records").alias("read"))
    )
    measured = (
        felt.transform(_window_rows)
        .join(counts, keys, "left")
        .join(read, keys, "left")
        .withColumn("read", F.when(F.col("consumes"), F.coalesce("read", F.lit(0))))
        .join(p99.select(*keys, "p99_us"), keys, "left")
        .fillna(0, ["records", "failed"])
        .withColumn("seconds", (F.col("until_us") - F.col("from_us")) / 1e6)
        .withColumn("records_per_second", F.round(F.col("records") / F.col("seconds"), 1))
    )
    shown = ("seconds", "records", "records_per_second", "failed", "p99_us", "read")
    wide = (
        measured.groupBy(*_OF_ACTION)
        .pivot("window", list(WINDOWS))
        .agg(*(F.first(name).alias(name) for name in shown))
    )
    bounds = [name for window in WINDOWS for name in _bounds(window)]
    return felt.drop("consumes", *bounds).join(wide, list(_OF_ACTION), "left")


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
    moments = moments.unionByName(
        reads.select("run", F.col("time_us").alias("_at"), F.lit(True).alias("_read"))
    )
    ends = moments.groupBy("run").agg(
        (F.max("_at") + 1).alias("_run_until"), F.bool_or("_read").alias("consumes")
    )
    in_order = Window.partitionBy("run").orderBy("called_us", "number")
    next_called = F.lead("called_us").over(in_order)
    during_until = F.least(
        F.greatest("called_us", "answered_us", F.col("settled_us") + 1), next_called
    )
    after_until = F.least(F.col("during_until_us") + AROUND_US, next_called, F.col("_run_until"))
    previous_until = F.lag("during_until_us").over(in_order)
    before_from = F.greatest(F.col("called_us") - AROUND_US, previous_until, F.lit(0))
    return (
        actions.join(settled, list(_OF_ACTION), "left")
        .join(ends, "run", "left")
        .fillna(0, ["redirected"])
        .withColumn("controller_us", F.col("answered_us") - F.col("called_us"))
        .withColumn("convergence_us", F.col("converged_us") - F.col("answered_us"))
        .withColumn("recovery_us", F.coalesce(F.col("settled_us") - F.col("called_us"), F.lit(0)))
        .withColumn("during_from_us", F.col("called_us"))
        .withColumn("during_until_us", during_until)
        .withColumn("before_from_us", before_from)
        .withColumn("before_until_us", F.col("called_us"))
        .withColumn("after_from_us", F.col("during_until_us"))
        .withColumn("after_until_us", after_until)
        .drop("settled_us", "_run_until")
    )


def _with_settled(failed: DataFrame, batches: DataFrame) -> DataFrame:
    """Add `settled_us`: when the batch was acknowledged or given up, or the Fetch answered.

    A Fetch has no intended time: its phases begin when it is sent, the first with its first error.
    """
    batch = ["run", "client", "topic", "partition", "first_seq"]
    settled = batches.select(*batch, F.col("acked_us").alias("settled_us"))
    # Few batches fail, of however many: all the others need not be shuffled.
    produced = settled.join(F.broadcast(failed.filter("api = 'produce'")), batch)
    fetched = failed.filter("api = 'fetch'").withColumn(
        "settled_us", F.expr("first_error_us - until_error_us + latency_us")
    )
    return produced.unionByName(fetched)


def _bounds(window: str) -> tuple[str, str]:
    return f"{window}_from_us", f"{window}_until_us"


def _window_rows(felt: DataFrame) -> DataFrame:
    """A row for each window that is not empty: the action, `consumes`, `window`, `from_us`,
    `until_us`."""

    def bounds(window: str) -> Column:
        start, end = _bounds(window)
        return F.struct(
            F.lit(window).alias("window"),
            F.col(start).alias("from_us"),
            F.col(end).alias("until_us"),
        )

    rows = F.explode(F.array(*map(bounds, WINDOWS))).alias("row")
    kept = (*_OF_ACTION, "consumes")
    return felt.select(*kept, rows).select(*kept, "row.*").filter("from_us < until_us")


def _in_windows(rows: DataFrame, felt: DataFrame, time: str) -> DataFrame:
    """The rows whose moment `time` is in a window of an action, with `number` and `window`."""
    windows = felt.transform(_window_rows).select(
        F.col("run").alias("_run"), "number", "window", "from_us", "until_us"
    )
    within = (
        (F.col("run") == F.col("_run"))
        & (F.col(time) >= F.col("from_us"))
        & (F.col(time) < F.col("until_us"))
    )
    return rows.join(F.broadcast(windows), within).drop("_run", "from_us", "until_us")
