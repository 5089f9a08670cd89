"""Small recorded runs as an operator has them: one without incidents, one with every table."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kipctl import __version__
from kipctl.trace.clock import wall_time
from kipctl.trace.codes import PHASES
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run

INTERVAL_NS = 1_000_000
RECORDS_A_BATCH = 10
WARMUP_RECORDS = 500
_START_WALL_US = 1_767_225_600_000_000
_NOT_LEADER = 6
_TIMED_OUT = 7
_OUT_OF_RANGE = 1


def plain_run(folder: Path, records: int = 20_000) -> Run:
    """`perf produce` without incidents: batches and requests; all other datasets are empty."""
    chance = np.random.default_rng(1)
    batches = _batches(chance, records, factor=1.0)
    rpcs = _requests(batches)
    return _written(folder, records, (), batches=batches, rpcs=rpcs)


def experiment_run(
    folder: Path, seed: int = 1, records: int = 20_000, *, factor: float = 1.0
) -> Run:
    """`perf e2e` with a rotation and an election: rows for every table of `kipctl analyze`.

    Every 20th batch is redirected, every 100th given up. `factor` makes all times so much longer.
    """
    chance = np.random.default_rng(seed)
    batches = _batches(chance, records, factor=factor)
    for number, batch in enumerate(batches):
        if number % 100 == 99:
            batch |= {"error": _TIMED_OUT, "attempts": 3}
    redirects = [
        _redirect(batch, int(factor * chance.integers(200, 2000)))
        for number, batch in enumerate(batches)
        if number % 20 == 7
    ]
    lasts_ms = records * INTERVAL_NS / 1e6
    actions = [
        {
            "action": action,
            "called_ms": called,
            "answered_ms": called + 8,
            "converged_ms": called + 30,
            "partitions": 12,
            "error": None,
        }
        for action, called in (("rotate", lasts_ms / 3), ("elect", lasts_ms * 2 / 3))
    ]
    return _written(
        folder,
        records,
        actions,
        batches=batches,
        rpcs=_requests(batches),
        redirects=redirects,
        reads=_reads(batches),
    )


def _batches(chance: np.random.Generator, records: int, factor: float) -> list[dict[str, Any]]:
    batches = []
    for number in range(records // RECORDS_A_BATCH):
        first = number * RECORDS_A_BATCH
        due = first * INTERVAL_NS // 1000
        sent = due + (RECORDS_A_BATCH - 1) * INTERVAL_NS // 1000 + 30
        took = int(factor * chance.lognormal(8, 0.4))
        batches.append(
            {
                "partition": number % 12,
                "first_seq": first,
                "seq_stride": 1,
                "records": RECORDS_A_BATCH,
                "bytes": 100 * RECORDS_A_BATCH,
                "intended_us": due,
                "sent_us": sent,
                "acked_us": sent + took,
                "attempts": 1,
                "error": 0,
                "broker": number % 3 + 1,
                "leader_epoch": 1,
                "base_offset": first // 12,
            }
        )
    return batches


def _requests(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    common = {"software_name": "kipctl", "software_version": __version__, "connection": 1}
    sizes = {"request_bytes": 1200, "response_bytes": 80, "topics": 1, "error": 0}
    rows = []
    for number, batch in enumerate(batches):
        times = {"sent_us": batch["sent_us"], "received_us": batch["acked_us"]}
        produce = {"api_key": 0, "api_version": 12, "broker": batch["broker"], "critical": False}
        rows.append(common | sizes | times | produce)
        if number % 100 == 0:
            metadata = {"api_key": 3, "api_version": 13, "broker": 1, "critical": number > 0}
            cause = {"cause": "max_age" if number else "start"}
            rows.append(common | sizes | times | metadata | cause)
    return rows


def _redirect(batch: dict[str, Any], backoff_us: int) -> dict[str, Any]:
    phases = {f"{phase}_us": 0 for phase in PHASES}
    detect = 400
    latency = batch["acked_us"] - batch["intended_us"]
    queued = batch["sent_us"] - batch["intended_us"]
    rest = latency - queued - detect - backoff_us
    phases |= {"queued_us": queued, "detect_us": detect, "backoff_us": backoff_us}
    phases["acknowledge_us"] = max(0, rest)
    return {
        "api": "produce",
        "partition": batch["partition"],
        "first_seq": batch["first_seq"],
        "records": batch["records"],
        "attempt": 1,
        "error": _NOT_LEADER,
        "error_us": batch["sent_us"] + detect,
        "from_broker": 1,
        "from_epoch": 1,
        "base_offset": -1,
        "hint_leader": 2,
        "hint_epoch": 2,
        "decision": "followed",
        "to_broker": 2,
        "to_epoch": 2,
        **phases,
    }


def _reads(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for number, batch in enumerate(batches):
        broker = 1 + (batch["partition"] + (number > len(batches) // 2)) % 3
        refused = number % 100 == 99
        rows.append(
            {
                "partition": batch["partition"],
                "software_name": "kipctl",
                "software_version": __version__,
                "broker": broker,
                "broker_rack": f"rack-{broker}",
                "client_rack": "rack-1",
                "is_leader": broker == 1,
                "records": 0 if refused else batch["records"],
                "bytes": 0 if refused else batch["bytes"],
                "error": _OUT_OF_RANGE if refused else 0,
                "fetch_offset": batch["base_offset"],
                "range_case": "unavailable" if refused else None,
                "range_handling": "wait" if refused else None,
                "time_us": batch["acked_us"] + 500,
            }
        )
    return rows


def _written(folder: Path, records: int, actions: Any, **datasets: list[dict[str, Any]]) -> Run:
    run = Run.create(folder)
    common = {"source": "probe", "client": "kipctl-perf", "topic": "orders"}
    for name, schema in DATASETS.items():
        wholes = (common | row for row in datasets.get(name, ()))
        rows = [{field.name: whole.get(field.name) for field in schema} for whole in wholes]
        run.write(name, [pa.RecordBatch.from_pylist(rows, schema=schema)] if rows else [])
    run.describe(
        {
            "kipctl_version": __version__,
            "command": "perf produce",
            "started": wall_time(_START_WALL_US),
            "start_wall_us": _START_WALL_US,
            "interval_ns": INTERVAL_NS,
            "num_records": records,
            "throughput": 1e9 / INTERVAL_NS,
            "record_size": 100,
            "warmup_records": WARMUP_RECORDS,
            "leader_discovery": "kip951",
            "bootstrap_server": "127.0.0.1:9092",
            "producer": {"acks": "all"},
            "summary": {"actions": list(actions)},
        }
    )
    return run
