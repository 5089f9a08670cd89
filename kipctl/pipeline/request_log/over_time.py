"""What a page of request logs draws: requests, errors and Metadata requests by time.

They are counted from the rows that the document's tables are made of, so their sums are the same.
"""

from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.documents.pages import CountInTime, LogTimeline, Rows
from kipctl.pipeline.clients import SOFTWARE
from kipctl.pipeline.concurrent import all_at_once
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.pipeline.request_log.metadata import metadata_requests
from kipctl.protocol.api_versions import OWN_SOFTWARE
from kipctl.protocol.error_codes import error_name


def over_time(log: RequestLog) -> list[LogTimeline]:
    """By cluster, of a log that was read `by_time`: `cluster_id`; `from_us` (of the first bucket,
    since the epoch) and `bucket_us`; and by name and bucket (its number) how many: `apis`, requests
    (those of followers apart), `software`, requests of clients, `errors`, answers for a partition,
    `metadata`, Metadata requests by cause, kipctl's own left out.
    """
    calls = log.calls.filter("first_us is not null")
    of_clients = calls.filter(F.col("origin") == "client")
    is_replica = F.col("origin") == "replica"
    answers = calls.select(
        "cluster", "first_us", "requests", F.explode("answers").alias("answer")
    ).filter("answer.error != 0")
    names: dict[str, tuple[DataFrame, Any]] = {
        "apis": (calls, F.concat("api", F.when(is_replica, " of followers").otherwise(""))),
        "software": (of_clients, F.concat_ws(" ", *SOFTWARE)),
        "errors": (
            answers.withColumn("requests", F.col("requests") * F.col("answer.partitions")),
            F.col("answer.error"),
        ),
        "metadata": (
            metadata_requests(log.calls)
            .filter(F.col("software_name") != OWN_SOFTWARE)
            .withColumnRenamed("received_us", "first_us")
            .filter("first_us is not null"),
            F.col("cause"),
        ),
    }
    number = F.floor(F.col("first_us") / log.slice_us).alias("bucket")

    def counted(frame: DataFrame, name: Any) -> Rows:
        rows = frame.groupBy("cluster", name.alias("name"), number).agg(
            F.sum("requests").alias("count")
        )
        return [row.asDict() for row in rows.orderBy("cluster", "name", "bucket").collect()]

    tables = all_at_once({name: partial(counted, *frame) for name, frame in names.items()})
    tables["errors"] = [{**row, "name": error_name(row["name"])} for row in tables["errors"]]
    clusters = {row["cluster"] for row in tables["apis"]}
    return [
        _of_cluster(cluster, log.slice_us, tables)
        for cluster in sorted(clusters, key=lambda name: name or "")
    ]


def _of_cluster(cluster: str | None, slice_us: int, tables: dict[str, Rows]) -> LogTimeline:
    """Its rows, the buckets counted from its first."""
    rows = {name: [row for row in tables[name] if row["cluster"] == cluster] for name in tables}
    first = min(row["bucket"] for row in rows["apis"])

    def counts(name: str) -> list[CountInTime]:
        return [
            {"name": row["name"], "bucket": row["bucket"] - first, "count": row["count"]}
            for row in rows[name]
        ]

    return {
        "cluster_id": cluster,
        "from_us": first * slice_us,
        "bucket_us": slice_us,
        "apis": counts("apis"),
        "software": counts("software"),
        "errors": counts("errors"),
        "metadata": counts("metadata"),
    }
