"""How long records took: counted by microsecond, then exact percentiles of the counts.

A batch holds many records whose times follow from its own by arithmetic, and many batches are
alike. So alike batches are counted first, then expanded to records with that weight, and only
counts by microsecond are kept: memory grows with the range of the times, not with the records.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kipctl.pipeline.columns import error_name
from kipctl.pipeline.partitions import is_in_one_partition

QUANTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p999": 0.999,
    "p9999": 0.9999,
}
TIMES = ("latency", "service")
"""From the intended send time, and from the first write to a socket, to the acknowledgement."""

_PER = 10_000
"""Quantiles are whole numbers of this: ranks are then compared as integers."""
_BUCKET_BITS = 10
"""A bucket of values is 1,024 us wide."""


def with_records_kept(batches: DataFrame) -> DataFrame:
    """Add `skipped` and `kept`: the batch's records in the warm-up, and those after it.

    Record k has sequence number `first_seq + k * seq_stride`; the warm-up is those below
    `warmup_records`.
    """
    in_warmup = F.expr("(warmup_records - first_seq + seq_stride - 1) div seq_stride")
    skipped = F.greatest(F.lit(0), F.least(F.col("records").cast("bigint"), in_warmup))
    return batches.withColumn("skipped", skipped).withColumn("kept", F.col("records") - skipped)


def record_counts(
    batches: DataFrame,
    keys: Sequence[str],
    window_us: int | None = None,
    times: Sequence[str] = TIMES,
    *,
    with_failed: bool = False,
) -> DataFrame:
    """How many acknowledged records, after the warm-up, took each time.

    Those that failed are left out, or counted with the time after which they were given up, which
    is a lower bound of what they would have taken. `keys` are columns of `batches`, `times` some of
    TIMES. Result: the keys, `window` (bigint, if
    `window_us` is given: the number of the time window in which the batch's first record was due),
    `time` (which of `times`), `value_us` (bigint) and `records` (bigint).

    Record k's intended send time is `(first_seq + k * seq_stride) * interval_ns // 1000`, as in
    `kipctl.probe.schedule`; unthrottled (`interval_ns` 0) it is the batch's `intended_us`.
    """
    settled = batches if with_failed else batches.filter("error = 0")
    done = with_records_kept(settled).filter("kept > 0")
    grouping = [F.col(key) for key in keys]
    if window_us:
        grouping.append(F.expr(f"intended_us div {window_us}").alias("window"))
    names = [*keys, "window"] if window_us else list(keys)
    # Of each: the first record's time, the nanoseconds that its intended time was rounded by, and
    # how much later the next is due. Service times of a batch are alike, as is all unthrottled.
    of_times = {
        "latency": "'latency', first_us, nominal_ns % 1000, step_ns",
        "service": "'service', acked_us - sent_us, 0L, 0L",
    }
    stacked = ", ".join(of_times[time] for time in times)
    alike = (
        done.select(
            *grouping,
            F.expr("(first_seq + skipped * seq_stride) * interval_ns").alias("nominal_ns"),
            F.expr("seq_stride * interval_ns").alias("step_ns"),
            *("intended_us", "sent_us", "acked_us", "interval_ns", "kept"),
        )
        .withColumn(
            "first_us",
            F.expr("acked_us - if(interval_ns = 0, intended_us, nominal_ns div 1000)"),
        )
        .select(
            *names,
            "kept",
            F.expr(f"stack({len(times)}, {stacked}) as (time, first_us, rest_ns, step_ns)"),
        )
        .filter("first_us is not null")  # what was given up before it was sent has no service time
        .groupBy(*names, "time", "first_us", "rest_ns", "step_ns", "kept")
        .agg(F.count("*").alias("batches"))
    )
    # Records of a batch that all take the same: one row with their number is enough.
    last = F.expr("if(step_ns = 0, 0, kept - 1)")
    weight = F.expr("if(step_ns = 0, batches * kept, batches)")
    return (
        alike.select(
            *names,
            *("time", "first_us", "rest_ns", "step_ns"),
            weight.alias("weight"),
            F.explode(F.sequence(F.lit(0).cast("bigint"), last)).alias("k"),
        )
        .select(
            *names,
            "time",
            F.expr("first_us - (rest_ns + k * step_ns) div 1000").alias("value_us"),
            "weight",
        )
        .groupBy(*names, "time", "value_us")
        .agg(F.sum("weight").alias("records"))
    )


def percentiles(counts: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Exact nearest-rank percentiles of weighted values.

    `counts` has the keys, `value_us` (bigint) and `records` (how often it occurred). Result:
    the keys, `records`, `mean_us` (double), p50_us to p9999_us and `max_us` (bigint): the least
    value that the share of all do not exceed.

    No task sorts all values of a key, unless the session has one partition for everything: buckets
    of values are ranked first, and then only the values in those buckets that hold a percentile.
    """
    rank = _ranked_at_once if is_in_one_partition(counts.sparkSession) else _ranked_by_bucket
    return (
        rank(counts, keys)
        .groupBy(*keys)
        .agg(
            F.max("_total").alias("records"),
            (F.max("_sum") / F.max("_total")).alias("mean_us"),
            *(_quantile(q).alias(f"{name}_us") for name, q in QUANTILES.items()),
            F.max("_max").alias("max_us"),
        )
    )


def _quantile(q: float) -> Column:
    return F.expr(f"min(if(_upto * {_PER} >= _total * {round(q * _PER)}, value_us, null))")


def _ranked_at_once(counts: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The values, how many records have them or less (`_upto`), and of their key the number of
    records (`_total`), the sum of their values (`_sum`) and the greatest (`_max`)."""
    sums = ("records", "value_us * records", "value_us")
    return counts.select(*keys, "value_us", *_running(keys, "value_us", *sums))


def _ranked_by_bucket(counts: DataFrame, keys: Sequence[str]) -> DataFrame:
    """As `_ranked_at_once`, only of values in a bucket that holds a percentile."""
    bucketed = counts.select(
        *keys, "value_us", "records", F.shiftright("value_us", _BUCKET_BITS).alias("_bucket")
    )
    sums = ("_in_bucket", "_bucket_sum", "_bucket_max")
    # A percentile's rank is above that of the bucket before, and not above the bucket's own.
    holds = " or ".join(
        f"((_upto - _in_bucket) * {_PER} < _total * {share} and _upto * {_PER} >= _total * {share})"
        for share in (round(q * _PER) for q in QUANTILES.values())
    )
    holding = (
        bucketed.groupBy(*keys, "_bucket")
        .agg(
            F.sum("records").alias("_in_bucket"),
            F.expr("sum(value_us * records)").alias("_bucket_sum"),
            F.max("value_us").alias("_bucket_max"),
        )
        .select(*keys, "_bucket", "_in_bucket", *_running(keys, "_bucket", *sums))
        .filter(holds)
        .select(
            *(F.col(key).alias(f"_of_{key}") for key in (*keys, "_bucket")),
            F.expr("_upto - _in_bucket").alias("_below"),
            *("_total", "_sum", "_max"),
        )
    )
    # Null-safe throughout: a key may be null, and Spark then counts once for both sides.
    same = reduce(
        Column.__and__,
        (F.col(key).eqNullSafe(F.col(f"_of_{key}")) for key in (*keys, "_bucket")),
    )
    in_bucket = Window.partitionBy(*keys, "_bucket").orderBy("value_us")
    return bucketed.join(holding, same).select(
        *keys,
        "value_us",
        (F.col("_below") + F.sum("records").over(in_bucket)).alias("_upto"),
        *("_total", "_sum", "_max"),
    )


def _running(
    keys: Sequence[str], order: str, records: str, value_sum: str, greatest: str
) -> list[Column]:
    """`_upto` in that order, and of all of the key `_total`, `_sum` and `_max`: one sort."""
    in_order = Window.partitionBy(*[F.col(key) for key in keys] or [F.lit(0)]).orderBy(order)
    upto = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    of_all = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    return [
        F.sum(records).over(upto).alias("_upto"),
        F.sum(records).over(of_all).alias("_total"),
        F.sum(F.expr(value_sum)).over(of_all).alias("_sum"),
        F.max(greatest).over(of_all).alias("_max"),
    ]


def latency(batches: DataFrame, keys: Sequence[str], window_us: int | None = None) -> DataFrame:
    """The table *latency*: `percentiles` of both TIMES by the keys; `time` says which."""
    grouping = [*keys, "window", "time"] if window_us else [*keys, "time"]
    return percentiles(record_counts(batches, keys, window_us), grouping)


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
