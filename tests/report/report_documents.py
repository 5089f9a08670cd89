"""Documents that a report is made of, of any size, as `kipctl.pipeline.pictures` makes them."""

from typing import Any

from kipctl.pipeline.tables import TABLES
from kipctl.trace.codes import PHASES

Document = dict[str, Any]

ACTION = {
    "action": "rotate",
    "answered_ms": 2040.0,
    "converged_ms": 2100.0,
    "partitions": 12,
    "error": None,
}
CAUSES = ("start", "new_topic", "leader_change", "max_age", "idle_eviction", "error_retry")


def table_row(name: str, /, **known: Any) -> Document:
    """A row of a table of `analyze`: what is not named is 1000; `wait_ms__p50` is in `wait_ms`."""
    [table] = [table for table in TABLES if table.name == name]
    row: Document = {"run": "noon", "arm": "kip951"}
    for columns in table.columns:
        for path in columns.written_out:
            *parts, last = path.split(".")
            at = row
            for part in parts:
                at = at.setdefault(part, {})
            at[last] = known.pop("__".join((*parts, last)), 1000)
    return row | known


def attempt(number: int, **known: Any) -> Document:
    return {
        "attempt": number,
        "error": 6,
        "error_us": 2_000_000 + number,
        "from_broker": 1,
        "decision": "followed",
        "hint_leader": 2,
        "to_broker": 2,
        **{f"{phase}_us": 0 for phase in PHASES},
        "detect_us": 1500,
        "backoff_us": 100_000,
        **known,
    }


def redirected(attempts: int = 1, **known: Any) -> Document:
    failed = [attempt(number) for number in range(1, attempts + 1)]
    failed[0]["queued_us"] = 250
    failed[-1]["acknowledge_us"] = 3000
    return {
        "run": "noon",
        "arm": "kip951",
        "client": "kipctl-perf",
        "api": "produce",
        "topic": "orders",
        "partition": 3,
        "errors": attempts,
        "latency_us": 250 + attempts * 101_500 + 3000,
        "client_share_us": attempts * 100_000,
        "brokers": "1->2",
        "failed_attempts": failed,
        **known,
    }


def timeline(run: str = "noon", arm: str = "kip951", buckets: int = 5, **known: Any) -> Document:
    rows = [
        {"run": run, "window": at, "time": "latency", "records": 100}
        | {"time_ms": {"p50": 0.9 + at / 1000, "p99": 1.9 + at / 1000, "max": 40 + at / 1000}}
        for at in range(buckets)
    ]
    return {
        "run": run,
        "arm": arm,
        "from_us": 0,
        "until_us": buckets * 1_000_000,
        "latency": rows,
        "refused": [{"run": run, "api": "produce", "bucket": 2, "count": 12}],
        "metadata": [{"run": run, "cause": "leader_change", "bucket": 2, "count": 3}],
        "leaders": {
            "partitions": 2,
            "rows": [
                {"names": [f"orders-{at}"], "count": 1, "leads": [(0, 1 + at), (2_100_000, 2 - at)]}
                for at in range(2)
            ],
            "rows_left_out": 0,
            "partitions_left_out": 0,
            "has_more_changes": False,
        },
        **known,
    }


def described(run: str = "noon", arm: str = "kip951", **known: Any) -> Document:
    return {
        "run": run,
        "arm": arm,
        "started": "2026-01-31T12:00:00+00:00",
        "command": "perf produce",
        "doubts": [],
        "clients": [],
        "failed": None,
        "stopped": False,
        "end_of": "",
        "tells_moves": False,
        "actions": "1 x rotate",
        "settings": {"acks": "all"},
        "span_us": (0, 5_000_000),
        **known,
    }


def small() -> Document:
    """One run with a rotation, every picture and every table."""
    rows = {
        "records": [table_row("records", acknowledged=500, failed=0)],
        "latency": [table_row("latency", time="latency")],
        "failures": [table_row("failures", error=7, name="REQUEST_TIMED_OUT")],
        "moves": [table_row("moves", api="produce", moves=12)],
        "redirects": [table_row("redirects", api="produce", episodes=12)],
        "actions": [table_row("actions", number=1, called_ms=2000.0, **ACTION)],
        "rpcs": [table_row("rpcs", api="PRODUCE", api_version=13)],
        "metadata": [table_row("metadata", cause="leader_change", requests=3)],
        "reads": [
            table_row(
                "reads", client_rack="r1", broker_rack=f"r{n}", role="follower", local_share=0.5
            )
            for n in (1, 2)
        ],
        "flips": [table_row("flips")],
        "read_errors": [table_row("read_errors", error=1, name="OFFSET_OUT_OF_RANGE")],
        "out_of_range": [table_row("out_of_range", case="unavailable", handling="wait")],
    }
    keys = {table.name: table.key_columns(("run", "arm")) for table in TABLES}
    return {
        "analysis": {
            "runs": [{"run": "noon", "path": "file:/runs/noon"}],
            "by": ["run", "arm"],
            "window_ms": 10_000,
            "tables": {
                table.name: {
                    "title": table.title,
                    "keys": keys[table.name],
                    "rows": len(rows[table.name]),
                    "shown": len(rows[table.name]),
                }
                for table in TABLES
            },
            **rows,
        },
        "bucket_us": 1_000_000,
        "runs": [described()],
        "latencies": [{"run": "noon", "arm": "kip951", "bins": [(900.0, 490), (40_000.0, 10)]}],
        "waits": [
            {"run": "noon", "arm": "kip951", "api": "produce", "bins": [(300.5, 10), (1200.0, 2)]}
        ],
        "slowest": [redirected()],
        "arms": {name: rows[name] for name in ("records", "latency", "moves", "redirects")},
        "timelines": [timeline()],
    }


def large() -> Document:
    """What many runs of millions of batches come to at most: everything at its cap."""
    document = small()
    runs = [(f"run-{number}-of-a-long-name", f"arm-{number % 3}") for number in range(80)]
    document["runs"] = [described(run, arm) for run, arm in runs]
    document["analysis"]["runs"] = [{"run": run, "path": f"file:/runs/{run}"} for run, _ in runs]
    for name, about in document["analysis"]["tables"].items():
        [first, *_] = document["analysis"][name]
        document["analysis"][name] = [first | {"run": run, "arm": arm} for run, arm in runs] * 5
        about |= {"rows": 10_000, "shown": 400}
    bins = [(10 ** (number / 50), 1_000_000 + number) for number in range(350)]
    document["latencies"] = [{"run": run, "arm": arm, "bins": bins} for run, arm in runs]
    document["waits"] = [latency | {"api": "produce"} for latency in document["latencies"]]
    document["slowest"] = [redirected(30) for _ in range(20)]
    leads = [(at * 5_000_000, 1 + at % 9) for at in range(40)]
    groups = [{"names": [f"orders-{n}" for n in range(6)], "count": 500, "leads": leads}] * 16
    every = [(at, name) for at in range(150) for name in CAUSES]
    document["timelines"] = [
        timeline(run, arm, 150)
        | {
            "leaders": {
                "partitions": 10_000,
                "rows": groups,
                "rows_left_out": 7,
                "partitions_left_out": 2000,
                "has_more_changes": True,
            },
            "metadata": [
                {"run": run, "cause": cause, "bucket": at, "count": 1 + at} for at, cause in every
            ],
            "refused": [
                {"run": run, "api": api, "bucket": at, "count": 1 + at}
                for api in ("produce", "fetch")
                for at in range(150)
            ],
        }
        for run, arm in runs[:4]
    ]
    return document
