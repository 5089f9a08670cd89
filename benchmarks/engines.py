"""The contestants of `benchmarks/pipeline.py`: the same percentiles from the same files, five ways.

Each is a context manager: it starts its engine and yields a function from a run's folder to its
answers. DuckDB and polars do it *counted*, with kipctl's own plan, and *plain*, with a row for each
record and their own exact quantile.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.synthetic import QUANTILES
from kipctl.trace.store import Run

if TYPE_CHECKING:
    import polars as pl

CORES = 2
SMALL_HEAP = "600m"
"""Spark takes no less than 450 MB. A JVM uses what heap it may; this shows what it must."""
MEASURES = ("latency", "service")
FIGURES = ("records", "mean_us", *(f"{name}_us" for name in QUANTILES), "max_us")

Answers = dict[str, dict[str, dict[str, float]]]
"""By measure and topic: the columns of `kipctl.pipeline.latency.percentiles`."""
Analyse = Callable[[Path], Answers]


def by_topic(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {row["topic"]: {k: v for k, v in row.items() if k in FIGURES} for row in rows}


# kipctl


@contextmanager
def kipctl(settings: Mapping[str, str]) -> Iterator[Analyse]:
    from kipctl.pipeline.inputs import open_runs
    from kipctl.pipeline.latency import latency
    from kipctl.pipeline.session import spark_session

    with spark_session(f"local[{CORES}]", settings=settings) as spark:

        def analyse(folder: Path) -> Answers:
            latencies = latency(open_runs(spark, [str(folder)]).batches, ["topic"])
            rows = [row.asDict() for row in latencies.collect()]
            return {m: by_topic(row for row in rows if row["time"] == m) for m in MEASURES}

        yield analyse


# DuckDB

_BATCHES = """
    select *, records - skipped as kept
    from (
        select *, greatest(0, least(records,
            (warmup - first_seq + seq_stride - 1) // seq_stride)) as skipped
        from read_parquet('{folder}/batches/*.parquet'), (select {warmup}::bigint as warmup)
        where error = 0
    )
    where kept > 0"""
_SERVICE_COUNTS = """
    select topic, acked_us - sent_us as us, sum(kept) as records from batches group by all"""
_LATENCY_COUNTS = """
    select topic, first_us - (rest_ns + k * step_ns) // 1000 as us, sum(alike) as records
    from (
        select topic, acked_us - nominal_ns // 1000 as first_us, nominal_ns % 1000 as rest_ns,
            step_ns, kept, count(*) as alike
        from (
            select *, (first_seq + skipped * seq_stride) * {interval_ns} as nominal_ns,
                seq_stride * {interval_ns} as step_ns
            from batches
        )
        group by all
    ), unnest(range(kept)) as numbers(k)
    group by all"""
_SERVICE_VALUES = """
    select topic, acked_us - sent_us as us from batches, unnest(range(kept)) as numbers(k)"""
_LATENCY_VALUES = """
    select topic,
        acked_us - (first_seq + (skipped + k) * seq_stride) * {interval_ns} // 1000 as us
    from batches, unnest(range(kept)) as numbers(k)"""


def counted_query(folder: Path, description: dict[str, Any], measure: str) -> str:
    counts = _LATENCY_COUNTS if measure == "latency" else _SERVICE_COUNTS
    quantiles = ", ".join(
        f"min(us) filter (upto * {q.denominator} >= total * {q.numerator}) as {name}_us"
        for name, q in QUANTILES.items()
    )
    return f"""
        with batches as ({_BATCHES}), counts as ({counts}), ranked as (
            select topic, us, records, sum(records) over (partition by topic) as total,
                sum(records) over (partition by topic order by us) as upto
            from counts
        )
        select topic, max(total)::bigint as records, sum(us * records) / max(total) as mean_us,
            {quantiles}, max(us) as max_us
        from ranked group by topic""".format(**settings_of(folder, description))


def plain_query(folder: Path, description: dict[str, Any], measure: str) -> str:
    values = _LATENCY_VALUES if measure == "latency" else _SERVICE_VALUES
    # One list: quantile_disc then sorts once. It is nearest-rank, as kipctl's.
    shares = ", ".join(f"{float(q)}" for q in QUANTILES.values())
    names = ", ".join(f"found[{n}] as {name}_us" for n, name in enumerate(QUANTILES, 1))
    return f"""
        with batches as ({_BATCHES}), every as ({values})
        select topic, records, mean_us, {names}, max_us
        from (
            select topic, count(*) as records, avg(us) as mean_us,
                quantile_disc(us, [{shares}]) as found, max(us) as max_us
            from every group by topic
        )""".format(**settings_of(folder, description))


def settings_of(folder: Path, description: dict[str, Any]) -> dict[str, Any]:
    return {
        "folder": folder,
        "warmup": description["warmup_records"],
        "interval_ns": description["interval_ns"],
    }


def duckdb(query: Callable[[Path, dict[str, Any], str], str]) -> AbstractContextManager[Analyse]:
    @contextmanager
    def session() -> Iterator[Analyse]:
        import duckdb as engine

        with engine.connect(config={"threads": CORES}) as database:

            def rows(text: str) -> Iterator[dict[str, Any]]:
                result = database.execute(text)
                names = [column[0] for column in result.description]
                return (dict(zip(names, row, strict=True)) for row in result.fetchall())

            def analyse(folder: Path) -> Answers:
                description = Run(folder).description
                return {m: by_topic(rows(query(folder, description, m))) for m in MEASURES}

            yield analyse

    return session()


# polars


def scanned(folder: Path, description: dict[str, Any]) -> "pl.LazyFrame":
    """The acknowledged batches with `skipped` and `kept` records, and `nominal_ns`, `step_ns`."""
    import polars as pl

    warmup, interval_ns = description["warmup_records"], description["interval_ns"]
    stride, first = pl.col("seq_stride"), pl.col("first_seq")
    records = pl.col("records").cast(pl.Int64)
    in_warmup = (warmup - first + stride - 1) // stride
    return (
        pl.scan_parquet(folder / "batches" / "*.parquet")
        .filter(pl.col("error") == 0)
        .with_columns(pl.col("topic").cast(pl.Categorical))  # a record's topic takes 4 bytes
        .with_columns(skipped=pl.max_horizontal(0, pl.min_horizontal(records, in_warmup)))
        .with_columns(
            kept=records - pl.col("skipped"),
            nominal_ns=(first + pl.col("skipped") * stride) * interval_ns,
            step_ns=stride * interval_ns,
        )
        .filter(pl.col("kept") > 0)
    )


def counted_frame(batches: "pl.LazyFrame", measure: str) -> "pl.LazyFrame":
    import polars as pl

    us, records = pl.col("us"), pl.col("records")
    if measure == "service":
        times = batches.select("topic", "kept", us=pl.col("acked_us") - pl.col("sent_us"))
        counts = times.group_by("topic", "us").agg(records=pl.col("kept").sum())
    else:
        counts = (
            batches.select(
                "topic",
                "step_ns",
                "kept",
                first_us=pl.col("acked_us") - pl.col("nominal_ns") // 1000,
                rest_ns=pl.col("nominal_ns") % 1000,
            )
            .group_by("topic", "first_us", "rest_ns", "step_ns", "kept")
            .agg(alike=pl.len().cast(pl.Int64))
            .with_columns(k=pl.int_ranges("kept"))
            .explode("k")
            .select(
                "topic",
                "alike",
                us=pl.col("first_us")
                - (pl.col("rest_ns") + pl.col("k") * pl.col("step_ns")) // 1000,
            )
            .group_by("topic", "us")
            .agg(records=pl.col("alike").sum())
        )
    upto, total = records.cum_sum(), records.sum()
    return (
        counts.sort("topic", "us")
        .group_by("topic", maintain_order=True)
        .agg(
            total.alias("records"),
            mean_us=(us * records).sum() / total,
            **{
                f"{name}_us": us.filter(upto * q.denominator >= total * q.numerator).first()
                for name, q in QUANTILES.items()
            },
            max_us=us.max(),
        )
    )


def plain_frame(batches: "pl.LazyFrame", measure: str) -> "pl.LazyFrame":
    import polars as pl

    us = pl.col("us")
    # Computed while they are lists: only the topic is repeated for each record.
    nominal_us = (pl.col("nominal_ns") + pl.int_ranges("kept") * pl.col("step_ns")) // 1000
    each_sent = pl.col("sent_us") + pl.int_ranges("kept") * 0
    start = each_sent if measure == "service" else nominal_us
    return (
        batches.select("topic", us=pl.col("acked_us") - start)
        .explode("us")
        .group_by("topic")
        .agg(
            records=pl.len(),
            mean_us=us.mean(),
            # "equiprobable" is polars' word for nearest-rank.
            **{
                f"{name}_us": us.quantile(float(q), interpolation="equiprobable")
                for name, q in QUANTILES.items()
            },
            max_us=us.max(),
        )
    )


def polars(
    query: Callable[["pl.LazyFrame", str], "pl.LazyFrame"],
) -> AbstractContextManager[Analyse]:
    @contextmanager
    def session() -> Iterator[Analyse]:
        os.environ["POLARS_MAX_THREADS"] = str(CORES)

        def analyse(folder: Path) -> Answers:
            batches = scanned(folder, Run(folder).description)
            return {
                m: by_topic(query(batches, m).collect(engine="streaming").to_dicts())
                for m in MEASURES
            }

        yield analyse

    return session()


CONTESTANTS: dict[str, Callable[[], AbstractContextManager[Analyse]]] = {
    "kipctl": lambda: kipctl({}),
    "kipctl, small heap": lambda: kipctl({"spark.driver.memory": SMALL_HEAP}),
    "DuckDB, counted": lambda: duckdb(counted_query),
    "DuckDB, plain": lambda: duckdb(plain_query),
    "polars, counted": lambda: polars(counted_frame),
    "polars, plain": lambda: polars(plain_frame),
}
