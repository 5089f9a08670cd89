"""The record of a run: what was measured, what was done and seen meanwhile, and of what cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from kipctl import __version__
from kipctl.cluster.snapshot import Snapshot
from kipctl.cluster.watch import ClusterEvent
from kipctl.probe.config import as_properties
from kipctl.probe.export import record_batches
from kipctl.probe.parts import Part
from kipctl.probe.run import ProbeOutcome
from kipctl.probe.summary import Measured
from kipctl.probe.tracing import COLUMNS
from kipctl.trace.schema import EVENTS
from kipctl.trace.store import Run, wall_time, without_secrets


def record(
    run: Run,
    how: Mapping[str, object],
    measurement: Measured,
    parts: Sequence[Part],
    events: list[ClusterEvent],
    document: dict[str, Any],
    before: Snapshot,
    after: Snapshot,
) -> None:
    """Write the run's folder: the datasets of its parts and of the events, then `run.json`.

    `how` is what the plan says beside the probe's specification. Parts that their workers have
    recorded already are left as they are. Of a run that did not come to its end, `run.json` says
    that it `failed`, and why, or that it was `stopped`: somebody asked it to send no more.
    """
    for part in parts:
        if not part.recorded:
            for dataset in COLUMNS:
                rows = record_batches(part.outcome, part.directory, dataset)
                run.write(dataset, rows, part.outcome.spec.share.worker)
    outcome = measurement.outcome
    run.write("events", [_event_rows(events, outcome.start_us)])
    spec = outcome.spec
    run.describe(
        {
            "kipctl_version": __version__,
            "command": "perf produce",
            "started": wall_time(outcome.wall_start_us),
            "start_wall_us": outcome.wall_start_us,
            "interval_ns": outcome.interval_ns,
            "num_records": spec.num_records,
            "throughput": spec.throughput,
            "record_size": None if spec.payload_file else spec.record_size,
            "warmup_records": spec.warmup_records,
            **how,
            "hosts": [part.outcome.host for part in parts],
            **_cut_short(outcome),
            "leader_discovery": spec.discovery.value,
            "bootstrap_server": spec.bootstrap_server,
            "producer": without_secrets(as_properties(spec.config)),
            "cluster_before": asdict(before),
            "cluster_after": asdict(after),
            "summary": document,
        }
    )


def _cut_short(outcome: ProbeOutcome) -> dict[str, object]:
    if outcome.failure:
        return {"failed": outcome.failure}
    return {"stopped": True} if outcome.stopped else {}


def _event_rows(events: list[ClusterEvent], start_us: int) -> pa.RecordBatch:
    rows = [
        {
            "kind": event.kind.value,
            "topic": event.topic,
            "partition": event.partition,
            "from_broker": event.from_leader,
            "to_broker": event.to_leader,
            "epoch": event.leader_epoch,
            "seen_by": event.seen_by_broker,
            "time_us": event.time_us - start_us,
        }
        for event in events
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)
