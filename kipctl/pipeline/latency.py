"""How long records took: counted by microsecond, then exact percentiles of the counts.

A batch holds many records whose times follow from its own by arithmetic, and many batches are
alike. So alike batches are counted first, then expanded to records with that weight, and only
counts by microsecond are kept: memory grows with the range of the times, not with the records.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import error_name

QUANTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p999": 0.999,
    "p9999": 0.9999,
}
VALUES = ("latency_us", "service_us")
"""From the intended send time, and from the first write to a socket, to the acknowledgement."""


def with_records_kept(batches: DataFrame) -> DataFrame:
    """Add `skipped` and `kept`: the batch's records in the warm-up, and those after it.

    Record k has sequence number `first_seq + k * seq_stride`; the warm-up is those below
    `warmup_records`.
    """
    in_warmup = F.expr("(warmup_records - first_seq + seq_stride - 1) div seq_stride")
    skipped = F.greatest(F.lit(0), F.least(F.col("records").cast("bigint"), in_warmup))
    return batches.withColumn("skipped", skipped).withColumn("kept", F.col("records") - skipped)


def record_counts(
    batches: DataFrame, keys: Sequence[str], value: str, window_us: int | None = None
) -> DataFrame:
    """How many acknowledged records, after the warm-up, took each time.

    `keys` are columns of `batches`; `value` is one of VALUES. Result: the keys, `window` (bigint,
    if `window_us` is given: the number of the time window in which the batch's first record was
    due), the value (bigint, microseconds) and `records` (bigint).

    Record k's intended send time is `(first_seq + k * seq_stride) * interval_ns // 1000`, as in
    `kipctl.probe.schedule`; unthrottled (`interval_ns` 0) it is the batch's `intended_us`.
    """
    done = with_records_kept(batches.filter("error = 0")).filter("kept > 0")
    grouping = list(keys)
    if window_us:
        done = done.withColumn("window", F.expr(f"intended_us div {window_us}"))
        grouping.append("window")
    if value == "service_us":
        times = done.withColumn(value, F.expr("acked_us - sent_us"))
        return times.groupBy(*grouping, value).agg(F.sum("kept").alias("records"))
    nominal_ns = F.expr("(first_seq + skipped * seq_stride) * interval_ns")
    unthrottled = F.col("interval_ns") == 0
    alike = (
        done.select(
            *grouping,
            nominal_ns.alias("nominal_ns"),
            "acked_us",
            "intended_us",
            unthrottled.alias("unthrottled"),
            F.expr("seq_stride * interval_ns").alias("step_ns"),
            "kept",
        )
        .select(
            *grouping,
            # The first record's latency, and the nanoseconds that its intended time was rounded by.
            F.when(F.col("unthrottled"), F.expr("acked_us - intended_us"))
            .otherwise(F.expr("acked_us - nominal_ns div 1000"))
            .alias("first_us"),
            F.expr("nominal_ns % 1000").alias("rest_ns"),
            "step_ns",
            "kept",
        )
        .groupBy(*grouping, "first_us", "rest_ns", "step_ns", "kept")
        .agg(F.count("*").alias("batches"))
    )
    # Unthrottled records of a batch all take the same: one row with their number is enough.
    last = F.expr("if(step_ns = 0, 0, kept - 1)")
    weight = F.expr("if(step_ns = 0, batches * kept, batches)")
    return (
        alike.select(
            *grouping,
            "first_us",
            "rest_ns",
            "step_ns",
            weight.alias("weight"),
            F.explode(F.sequence(F.lit(0).cast("bigint"), last)).alias("k"),
        )
        .select(
            *grouping, F.expr("first_us - (rest_ns + k * step_ns) div 1000").alias(value), "weight"
        )
        .groupBy(*grouping, value)
        .agg(F.sum("weight").alias("records"))
    )


def percentiles(counts: DataFrame, keys: Sequence[str], value: str) -> DataFrame:
    """Exact nearest-rank percentiles of weighted values.

    `counts` has the keys, `value` (microseconds) and `records` (how often it occurred). Result:
    the keys, `records`, `mean_us` (double), p50_us to p9999_us and `max_us` (bigint): the least
    value that the share of all do not exceed.
    """
    of_key = Window.partitionBy(*[F.col(key) for key in keys] or [F.lit(0)])
    ranked = counts.withColumn("_total", F.sum("records").over(of_key)).withColumn(
        "_rank",
        F.sum("records").over(
            of_key.orderBy(value).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        ),
    )
    return ranked.groupBy(*keys).agg(
        F.max("_total").alias("records"),
        (F.sum(F.col(value) * F.col("records")) / F.max("_total")).alias("mean_us"),
        *(_quantile(value, q).alias(f"{name}_us") for name, q in QUANTILES.items()),
        F.max(value).alias("max_us"),
    )


def _quantile(value: str, q: float) -> Column:
    # Rounded first: 0.999 * 1000 is a little above 999 in binary.
    rank = F.greatest(F.lit(1), F.ceil(F.round(F.col("_total") * F.lit(q), 6)))
    return F.min(F.when(F.col("_rank") >= rank, F.col(value)))


def latency(batches: DataFrame, keys: Sequence[str], window_us: int | None = None) -> DataFrame:
    """The table *latency*: `percentiles` of both VALUES by the keys, `time` says which."""
    grouping = [*keys, "window"] if window_us else list(keys)
    both = [
        percentiles(record_counts(batches, keys, value, window_us), grouping, value).select(
            *grouping, F.lit(value.removesuffix("_us")).alias("time"), *_measures()
        )
        for value in VALUES
    ]
    return both[0].unionByName(both[1])


def _measures() -> list[str]:
    return ["records", "mean_us", *(f"{name}_us" for name in QUANTILES), "max_us"]


def volumes(batches: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The table *records*: how many, how many bytes, how fast.

    Result: the keys; `batches`, `acknowledged` and `failed` (records) of the whole run; and after
    the warm-up `first_us` (the earliest intended time), `last_us` (the latest acknowledgement),
    `bytes` of the values and `records_per_second` between the two: of several runs, all their
    records by all their seconds.
    """
    done = F.col("error") == 0
    counted = done & (F.col("kept") > 0)
    nominal_us = F.expr("(first_seq + skipped * seq_stride) * interval_ns div 1000")
    first = F.when(F.col("interval_ns") == 0, F.col("intended_us")).otherwise(nominal_us)
    of_run = (
        with_records_kept(batches)
        .groupBy(*dict.fromkeys((*keys, "run")))
        .agg(
            F.count("*").alias("batches"),
            F.sum(F.when(done, F.col("records")).otherwise(0)).alias("acknowledged"),
            F.sum(F.when(done, 0).otherwise(F.col("records"))).alias("failed"),
            F.min(F.when(counted, first)).alias("first_us"),
            F.max(F.when(counted, F.col("acked_us"))).alias("last_us"),
            F.sum(F.when(counted, F.expr("bytes * kept div records")).otherwise(0)).alias("bytes"),
            F.sum(F.when(counted, F.col("kept")).otherwise(0)).alias("_kept"),
        )
    )
    seconds = F.sum(F.when(F.col("_kept") > 0, F.greatest(F.lit(1), F.expr("last_us - first_us"))))
    return of_run.groupBy(*keys).agg(
        *(F.sum(name).alias(name) for name in ("batches", "acknowledged", "failed")),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        F.sum("bytes").alias("bytes"),
        F.round(F.sum("_kept") / (seconds / 1e6), 1).alias("records_per_second"),
    )


def failures(batches: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The table *failures*: records that were given up, by the keys, the code and its name."""
    failed = batches.filter("error != 0").withColumn("name", error_name())
    return failed.groupBy(*keys, "error", "name").agg(F.sum("records").alias("records"))
