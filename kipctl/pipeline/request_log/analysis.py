"""What a request log says of a fleet, as one document."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.errors import UsageError
from kipctl.pipeline.analysis import Make, collected, make_new, save
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.clients import (
    SOFTWARE,
    api_counts,
    client_counts,
    error_counts,
    hint_use,
    metadata_counts,
    read_counts,
    software_counts,
    waits,
)
from kipctl.pipeline.columns import columns_of
from kipctl.pipeline.episodes import episodes
from kipctl.pipeline.request_log.callers import client_key
from kipctl.pipeline.request_log.frames import (
    attempts,
    metadata_rpcs,
    rack_reads,
    refusals,
    told,
)
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.trace.codes import MetadataCause

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
_NO_WAIT = {"episodes": 0, "unfinished": 0, "p50": None, "p99": None, "max": None, "sum": 0.0}


BY = ("broker", "client_id", "software", "origin")
"""What requests by API can be broken down by besides."""
_OF_API = ("api", "api_key", "api_version", "requests")
_SHOWN = {"client": "client_id", "software_name": "software"}
_COLUMNS_OF = {"client_id": ("client",), "software": SOFTWARE}


def analyse(log: RequestLog, by: Sequence[str] = (), save_to: str | None = None) -> dict[str, Any]:
    """The document of `analyze request-log --output json`; docs/request-log.md describes it.

    `by` (of BY) breaks `apis` down further. With `save_to` the tables that the document is made of
    are written there, each as a folder of Parquet. Raises UsageError for what BY lacks, and when
    `save_to` is there already.

    The text is read a second time when clients were told of leader errors, to see what they did
    then. Every list has one order: it does not depend on how Spark divided the work.
    """
    keys = _checked(log, by, save_to)
    answers = told(log).transform(checkpointed)
    refused = refusals(answers)
    tables: dict[str, Make] = {
        "period": lambda: log.calls.agg(
            F.unix_micros(F.min("first")).alias("first_us"),
            F.unix_micros(F.max("last")).alias("last_us"),
        ),
        "apis": lambda: api_counts(log.calls, *keys),
        "clients": lambda: client_counts(log.calls),
        "software": lambda: software_counts(log.calls),
        "software_apis": lambda: api_counts(log.calls.filter("origin = 'client'"), *SOFTWARE),
        "errors": lambda: error_counts(answers),
        "metadata": lambda: metadata_counts(metadata_rpcs(log, refused)),
        "reads": lambda: read_counts(rack_reads(log)),
    }
    tried = attempts(log, refused).persist()
    if not refused.isEmpty():
        tables = {"waits": lambda: _waits(tried, refused), **tables}
    found = collected(tables)
    tried.unpersist()
    if save_to:
        save(log.text.sparkSession, found, save_to)
    return document(log, {"waits": [], **{name: answer.rows for name, answer in found.items()}})


def _checked(log: RequestLog, by: Sequence[str], save_to: str | None) -> list[str]:
    """The columns that `by` stands for, when nothing is wrong with what was asked."""
    if unknown := [name for name in by if name not in BY]:
        raise UsageError(
            f"--by {', '.join(unknown)}: there is no table by that.", f"Known: {', '.join(BY)}."
        )
    if save_to:
        make_new(log.text.sparkSession, save_to)
    return columns_of(by, _COLUMNS_OF)


def _waits(tried: DataFrame, refused: DataFrame) -> DataFrame:
    owners = refused.select(client_key().alias("client"), *SOFTWARE)
    # Of two on one host with the same id, one stands for both: they cannot be told apart.
    of_client = owners.groupBy("client").agg(F.max(F.struct(*SOFTWARE)).alias("software"))
    return waits(episodes(tried), of_client.select("client", "software.*"))


def document(log: RequestLog, rows: Mapping[str, Rows]) -> dict[str, Any]:
    """The rows of the tables put into the document's form."""
    errors = rows["errors"]
    produce = [row for row in errors if row["api_key"] == ApiKey.PRODUCE]
    fetch = [row for row in errors if row["api_key"] == ApiKey.FETCH]
    refused = [row for row in produce if row["error"] == ErrorCode.NOT_LEADER_OR_FOLLOWER]
    period = _period(rows["period"])
    return {
        "lines": asdict(log.lines),
        "broken_lines": [line._asdict() for line in log.broken],
        "period": period,
        "apis": [
            {
                **{_SHOWN.get(name, name): row[name] for name in row if name not in _OF_API},
                "api": row["api"],
                "api_key": row["api_key"],
                "version": row["api_version"],
                "requests": row["requests"],
            }
            for row in sorted(rows["apis"], key=lambda r: (r["api_key"], r["api_version"]))
        ],
        "clients": [
            {
                "software": row["software_name"],
                "version": row["software_version"],
                "client_id": row["client"],
                "origin": row["origin"],
                "requests": row["requests"],
                "connections": row["connections"],
                "hosts": row["hosts"],
            }
            for row in rows["clients"]
        ],
        "fleet": _fleet(rows, period["seconds"]),
        "produce_not_leader": _not_leader(refused),
        "produce_errors": _by_code(produce),
        "fetch_errors": _by_code(fetch),
        "fetch_errors_by_reader": {
            "consumers": _by_code(row for row in fetch if row["origin"] == "client"),
            "replicas": _by_code(row for row in fetch if row["origin"] != "client"),
        },
        "error_names": {
            str(code): error_name(code)
            for code in sorted({row["error"] for row in errors} - {0, None})
        },
        "preferred_read_replica": {"named": _partitions(row for row in fetch if row["named"])},
        "metadata": _metadata(rows["metadata"], period["seconds"]),
        "reads": _reads(rows["reads"]),
        "brokers": [
            {
                "broker": broker,
                "rack": log.brokers.racks.get(broker),
                "addresses": sorted(a for a, b in log.brokers.by_address.items() if b == broker),
            }
            for broker in log.brokers.ids
        ],
    }


def _period(rows: Rows) -> dict[str, Any]:
    first, last = rows[0]["first_us"], rows[0]["last_us"]
    if first is None:
        return {"from": None, "to": None, "seconds": None}
    moments = [datetime.fromtimestamp(us / 1e6, UTC) for us in (first, last)]
    start, end = (moment.isoformat(timespec="milliseconds") for moment in moments)
    return {"from": start, "to": end, "seconds": (last - first) / 1e6}


def _partitions(rows: Iterable[Row]) -> int:
    return sum(row["partitions"] for row in rows)


def _not_leader(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {
        "total": _partitions(rows),
        "hinted": _partitions(row for row in rows if row["hinted"]),
        "appended_then_failed": _partitions(row for row in rows if row["appended"]),
    }


def _by_code(rows: Iterable[Row]) -> dict[str, int]:
    """Answers by error code, without 0; codes as text, as JSON's keys are."""
    counts: Counter[int] = Counter()
    for row in rows:
        if row["error"]:
            counts[row["error"]] += row["partitions"]
    return {str(code): counts[code] for code in sorted(counts)}


def _by_software(rows: Iterable[dict[str, Any]]) -> Mapping[tuple[str, str], Rows]:
    found: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in rows:
        found[row["software_name"], row["software_version"]].append(row)
    return found


def _fleet(rows: Mapping[str, Rows], seconds: float | None) -> Rows:
    """A row for each software and version of clients."""
    apis = _by_software(rows["software_apis"])
    errors = _by_software(row for row in rows["errors"] if row["origin"] == "client")
    waited = _by_software(rows["waits"])
    metadata = _by_software(rows["metadata"])
    reads = _by_software(rows["reads"])
    fleet = []
    for row in rows["software"]:
        software = (row["software_name"], row["software_version"])
        versions: dict[str, dict[str, int]] = defaultdict(dict)
        for api in sorted(apis[software], key=lambda r: (r["api_key"], r["api_version"])):
            versions[api["api"]][str(api["api_version"])] = api["requests"]
        spoken = {
            key: [r["api_version"] for r in apis[software] if r["api_key"] == key]
            for key in (ApiKey.PRODUCE, ApiKey.FETCH)
        }
        refused = [r for r in errors.get(software, ()) if r["is_leader_error"]]
        fleet.append(
            {
                "software": software[0],
                "version": software[1],
                "clients": row["clients"],
                "connections": row["connections"],
                "requests": row["requests"],
                "hints": hint_use(*software, *spoken.values()).value,
                "apis": dict(versions),
                "leader_errors": _not_leader(refused),
                "wait_ms": _wait_ms(waited.get(software, [])),
                "metadata": _metadata(metadata.get(software, []), seconds),
                "reads": _racks(reads.get(software, [])),
            }
        )
    return fleet


def _wait_ms(rows: Rows) -> dict[str, Any]:
    if not rows:
        return dict(_NO_WAIT)
    row = rows[0]
    times = {name: row[f"{name}_us"] / 1000 for name in ("p50", "p99", "max", "sum")}
    return {"episodes": row["episodes"], "unfinished": row["unfinished"], **times}


def _metadata(rows: Rows, seconds: float | None) -> dict[str, Any]:
    total = sum(row["requests"] for row in rows)
    causes: Counter[str] = Counter()
    for row in rows:
        causes[row["cause"]] += row["requests"]
    return {
        "requests": total,
        "per_minute": 60 * total / seconds if seconds else None,
        "response_bytes": sum(row["bytes"] for row in rows),
        "by_cause": {
            cause.name.lower(): causes[cause.name.lower()]
            for cause in MetadataCause
            if causes[cause.name.lower()]
        },
    }


def _racks(rows: Rows) -> dict[str, Any]:
    """Bytes read by whether broker and client are in one rack."""
    known = [row for row in rows if row["broker_rack"] is not None]
    total = sum(row["bytes"] for row in known)
    cross = sum(row["bytes"] for row in known if row["client_rack"] != row["broker_rack"])
    return {
        "bytes_of_known_racks": total,
        "cross_rack_bytes": cross,
        "cross_rack_share": cross / total if total else None,
    }


def _reads(rows: Rows) -> Rows:
    """What was read by client rack and broker rack."""
    fetches: Counter[tuple[str, str | None]] = Counter()
    sizes: Counter[tuple[str, str | None]] = Counter()
    for row in rows:
        racks = (row["client_rack"], row["broker_rack"])
        fetches[racks] += row["fetches"]
        sizes[racks] += row["bytes"]
    return [
        {
            "client_rack": client_rack,
            "broker_rack": broker_rack,
            "fetches": fetches[client_rack, broker_rack],
            "bytes": sizes[client_rack, broker_rack],
        }
        for client_rack, broker_rack in sorted(
            fetches, key=lambda racks: (racks[0], racks[1] or "")
        )
    ]
