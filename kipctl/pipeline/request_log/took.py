"""How long requests took, by API, by broker and by client: percentiles of the seven times."""

from collections.abc import Iterable
from functools import partial

from pyspark.sql import DataFrame

from kipctl.documents.log_traffic import LogLatency, TimedApi, TimeQuantiles
from kipctl.documents.pages import Row
from kipctl.pipeline.columns import API_NAMES
from kipctl.pipeline.jvm import mapped_in_arrow
from kipctl.pipeline.request_lines.rows import Kind
from kipctl.pipeline.request_lines.times import (
    BY_API,
    BY_BROKER,
    BY_CLIENT,
    BY_KEYS,
    COUNTED,
    PERCENTILES,
    QUANTILES,
    TIMES,
    TOOK_COLUMNS,
    counted,
    percentiles,
)
from kipctl.pipeline.request_log.groups import of_kind
from kipctl.pipeline.request_log.log import RequestLog


def took(log: RequestLog) -> DataFrame:
    """Rows of PERCENTILES. Each task counts what it has; no row of Spark's is a single request."""
    places = {(place.file, place.address): (place.cluster, place.broker) for place in log.places}
    times = of_kind(log.rows, Kind.TOOK).select(*TOOK_COLUMNS)
    in_tasks = mapped_in_arrow(times, partial(counted, places), COUNTED)
    return mapped_in_arrow(in_tasks.repartition(*BY_KEYS), percentiles, PERCENTILES)


def latency_of(rows: Iterable[Row]) -> LogLatency:
    """The document, from rows of `took`: what was asked most first."""
    in_order = sorted(rows, key=lambda row: (-row["requests"], row["api_key"], row["is_follower"]))
    return {
        "latency_by_api": [_timed(row) for row in in_order if row["by"] == BY_API],
        "latency_by_broker": [
            {"broker": row["broker"], **_timed(row)} for row in in_order if row["by"] == BY_BROKER
        ],
        "latency_by_client": [
            {"client_id": row["client"], **_timed(row)}
            for row in in_order
            if row["by"] == BY_CLIENT
        ],
    }


def _timed(row: Row) -> TimedApi:
    size = len(QUANTILES)
    quantiles: dict[str, TimeQuantiles] = {
        time: _in_ms(row["us"][size * number : size * (number + 1)])
        for number, time in enumerate(TIMES)
    }
    return {
        "api": API_NAMES.get(row["api_key"], f"API {row['api_key']}"),
        "api_key": row["api_key"],
        "is_follower": row["is_follower"],
        "requests": row["requests"],
        "total_time_ms": quantiles["total"],
        "request_queue_time_ms": quantiles["request_queue"],
        "local_time_ms": quantiles["local"],
        "remote_time_ms": quantiles["remote"],
        "throttle_time_ms": quantiles["throttle"],
        "response_queue_time_ms": quantiles["response_queue"],
        "send_time_ms": quantiles["send"],
    }


def _in_ms(us: Iterable[int]) -> TimeQuantiles:
    p50, p90, p99, p999, longest = (quantile / 1000 for quantile in us)
    return {"p50": p50, "p90": p90, "p99": p99, "p999": p999, "max": longest}
