"""`experiment closest-replica`: reading in one's own rack, and what it costs (KIP-392)."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from kipctl.cluster.inspect.replica_selection_facts import broker_racks
from kipctl.cluster.topics import await_topic
from kipctl.documents import experiments
from kipctl.documents.common import Action as ActionDocument
from kipctl.errors import InterruptedRunError, UsageError, did_you_mean
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.end_to_end import (
    CONSUMER,
    PRODUCER,
    Load,
    await_us,
    measure_both,
    warm_up,
)
from kipctl.experiments.arms.experiment import Experiment, Measure, Measures, comparisons
from kipctl.experiments.arms.figures import Figures, pooled
from kipctl.experiments.arms.halves import records
from kipctl.experiments.arms.restarts import leaders_put_back
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.closest_replica.figures import Racks, rack_outage, traffic, within
from kipctl.lab.cluster import Lab
from kipctl.load.actions import lab_of
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC, check_least
from kipctl.measure.delivery import follow_batches
from kipctl.next_step import Command, NextStep
from kipctl.trace.clock import now_us
from kipctl.trace.columns import BATCH
from kipctl.trace.rows import IntRows
from kipctl.trace.run_rows import dataset, rows
from kipctl.trace.store import Run
from kipctl.verdict import LEAST_RUNS

LEADER, CLOSEST = "leader", "closest"
"""A consumer without `client.rack`, and one with it."""
READS = (LEADER, CLOSEST)
_ON_THEIR_WAY_US = 2_000_000
"""Before the rack goes: what was sent undisturbed is also read undisturbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosestPlan:
    """Each client reads `runs` times from leaders and as often from the closest replica.

    A run is `seconds` undisturbed; then, if `goes`, the brokers of the consumer's rack are ended
    for `gone_s` seconds and started again. The rack is the first one if none is named.
    """

    clients: tuple[Arm, ...]
    rack: str = ""
    partitions: int = 12
    throughput: float = 500
    record_size: int = 1000
    seconds: float = 15.0
    warmup_s: float = 5.0
    broker_warmup_s: float = 10.0
    goes: bool = True
    controlled: bool = True
    gone_s: float = 5.0
    after_s: float = 5.0
    """So long it is looked who is read from, once the rack's brokers are in sync again."""
    runs: int = LEAST_RUNS

    def __post_init__(self) -> None:
        """Raises UsageError for numbers that make no sense."""
        check_least(
            ("--runs", self.runs, 1),
            ("--partitions", self.partitions, 1),
            ("--record-size", self.record_size, 1),
        )
        if self.throughput <= 0 or self.seconds <= 0:
            raise UsageError("--throughput and --for must be above 0.")


@dataclass(frozen=True, slots=True)
class RackOutage:
    """When the rack's brokers were ended, ran again, and were looked at last (monotonic us)."""

    called_us: int
    started_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run of one client reading in one way. Times are relative to the run's start."""

    software: str
    measured_by: str
    seconds: float
    steady: IntRows
    """Rows of `reads` while nothing disturbed."""
    outage: experiments.RackOutage | None
    delivered: Figures
    missing: int


ClosestArm = tuple[Arm, str]
"""A client, and from where it reads: one of READS."""
MEASURES: Measures[ReadRun] = {
    "end_to_end_p50": Measure("p50", lambda run: run.delivered.quantile_ms(0.5)),
    "end_to_end_p99": Measure("p99", lambda run: run.delivered.quantile_ms(0.99)),
}
"""What the closest replica adds to the end-to-end latency, in milliseconds."""


def run_closest(
    plan: ClosestPlan,
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> experiments.ClosestDocument:
    """Carry it out; returns what `--output json` prints. Raises KipctlError.

    `record` says where the run of a name is recorded, if it is to be.
    """
    cluster = stand.cluster
    racks = broker_racks(cluster)
    rack = chosen_rack(plan.rack, racks)
    lab = lab_if_any(stand, message) if plan.goes else None
    load = Load("all", plan.throughput, plan.record_size, plan.warmup_s)
    warm_up(load, plan.partitions, stand, plan.broker_warmup_s, message)

    def run_one(arm: ClosestArm, _: int, run: Run) -> ReadRun:
        with own_topic(cluster, plan.partitions, 0, lambda _: None):
            return _read_once(plan, *arm, load, stand, lab, racks, rack, run)

    # Without a lab no leader is moved here: what others move is theirs.
    with leaders_put_back(cluster) if lab is not None else nullcontext():
        runs = Experiment(
            arms=tuple(product(plan.clients, READS)),
            runs=plan.runs,
            run_one=run_one,
            record=record,
            message=message,
            name=lambda arm: f"{arm[0].name}-{arm[1]}",
        ).carry_out()
    return {
        "kafka_version": stand.kafka_version,
        "rack": rack,
        "rack_by_broker": {str(broker): racks[broker] for broker in sorted(racks)},
        "partitions": plan.partitions,
        "throughput": plan.throughput,
        "record_size": plan.record_size,
        "seconds": plan.seconds,
        "run_count": plan.runs,
        "rack_goes": lab is not None,
        "controlled": plan.controlled,
        "clients": [
            client_document(
                client.name, {reads: runs[client, reads] for reads in READS}, racks, rack
            )
            for client in plan.clients
        ],
    }


def chosen_rack(wanted: str, racks: Racks) -> str:
    """The consumer's rack: the one wanted, else the first. Raises UsageError."""
    known = sorted({rack for rack in racks.values() if rack})
    if len(known) < 2:
        raise UsageError(
            "The brokers are not in several racks: there is no closest replica.",
            "Leave --bootstrap-server out, for a lab of 3 racks.",
        )
    if wanted and wanted not in known:
        near = did_you_mean(wanted, known)
        raise UsageError(
            f"No broker is in rack {wanted!r}.{near}", f"There are {', '.join(known)}."
        )
    return wanted or known[0]


def lab_if_any(stand: Stand, message: Callable[[str], None]) -> Lab | None:
    """The lab that the cluster is; None, and a message, if it is none."""
    try:
        return lab_of(stand.cluster)
    except UsageError:
        message("This cluster is no lab: no broker is ended, so what then happens is not shown.")
        return None


def _read_once(
    plan: ClosestPlan,
    client: Arm,
    reads: str,
    load: Load,
    stand: Stand,
    lab: Lab | None,
    racks: Racks,
    rack: str,
    run: Run,
) -> ReadRun:
    """One run, recorded. Without a lab no broker goes."""
    before = stand.snapshot()

    def act(begun_us: int) -> RackOutage | None:
        until_us = begun_us + round(plan.seconds * 1e6)
        await_us(until_us)
        if lab is None:
            return None
        await_us(until_us + _ON_THEIR_WAY_US)
        gone = [broker for broker, broker_rack in sorted(racks.items()) if broker_rack == rack]
        return _rack_goes(plan, stand, lab, rack, gone)

    # The producer is kipctl's own for all, so that the consumers alone differ.
    both, outage = measure_both(
        load, stand, run, act, reader=client, client_rack=rack if reads == CLOSEST else ""
    )
    written, start = both.written, both.written.start_us
    batches = rows(dataset(run, "batches", PRODUCER), "batches")
    read_rows = rows(dataset(run, "reads", CONSUMER), "reads")
    begin_us = both.begun_us - start
    until_us = begin_us + round(plan.seconds * 1e6)
    followed = follow_batches(batches, read_rows)
    delivered = records(followed, written.interval_ns, written.warmup_records)
    read_run = ReadRun(
        software=both.reader,
        measured_by="probe" if "kipctl" in both.reader else "tap",
        seconds=plan.seconds,
        steady=within(read_rows, begin_us, until_us),
        outage=None
        if outage is None
        else rack_outage(read_rows, racks, rack, *(at - start for at in astuple(outage))),
        delivered=Figures(
            delivered.due(begin_us, until_us),
            followed,
            rows(dataset(run, "redirects", CONSUMER), "redirects"),
            rows(dataset(run, "rpcs", CONSUMER), "rpcs"),
        ),
        missing=int(followed[followed[:, BATCH["error"]] != 0, BATCH["records"]].sum()),
    )
    stand.describe(
        run,
        "experiment closest-replica",
        written.wall_start_us,
        f"{client.name} {reads}",
        before,
        written.settings,
        {
            "actions": [] if outage is None else [_action(rack, outage, start)],
            **run_document(read_run, racks, rack),
        },
    )
    return read_run


def _rack_goes(
    plan: ClosestPlan, stand: Stand, lab: Lab, rack: str, brokers: Sequence[int]
) -> RackOutage:
    """End the rack's brokers, start them again, and look on for a while."""
    called_us = now_us()
    try:
        for broker in brokers:
            (lab.stop if plan.controlled else lab.kill)(broker)
        await_us(called_us + round(plan.gone_s * 1e6))
        lab.start(*brokers)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            NextStep(
                f"Interrupted. What is in {rack} was being restarted; see that it runs: ",
                Command("lab status"),
                ", ",
                Command("lab start", *brokers, name=lab.name),
                ".",
            )
        ) from None
    started_us = now_us()
    await_topic(stand.cluster, OWN_TOPIC, plan.partitions)
    time.sleep(plan.after_s)
    return RackOutage(called_us, started_us, now_us())


def _action(rack: str, outage: RackOutage, start_us: int) -> ActionDocument:
    return {
        "action": f"restart:{rack}",
        "called_ms": (outage.called_us - start_us) / 1000,
        "answered_ms": (outage.started_us - start_us) / 1000,
        "converged_ms": (outage.until_us - start_us) / 1000,
        "partitions": None,
        "error": None,
    }


def run_document(run: ReadRun, racks: Racks, rack: str) -> experiments.ReadRunDocument:
    """A run by itself, for JSON."""
    return {
        **traffic(run.steady, racks, rack),
        "latency_ms": run.delivered.latency.as_ms(),
        "missing": run.missing,
        "outage": run.outage,
    }


def client_document(
    name: str, runs: Mapping[str, Sequence[ReadRun]], racks: Racks, rack: str
) -> experiments.ClosestClient:
    """One client reading in both ways, and what the closest replica saves and costs it."""

    def way(read_runs: Sequence[ReadRun]) -> experiments.ReadWay:
        return {
            **traffic(np.concatenate([run.steady for run in read_runs]), racks, rack),
            "seconds": sum(run.seconds for run in read_runs),
            "latency_ms": pooled([run.delivered for run in read_runs]).latency.as_ms(),
            "missing": sum(run.missing for run in read_runs),
            "runs": [run_document(run, racks, rack) for run in read_runs],
        }

    ways = {reads: way(read_runs) for reads, read_runs in runs.items()}
    leader, closest = (ways[reads]["cross_rack_bytes"] / ways[reads]["seconds"] for reads in READS)
    first = next(iter(runs.values()))[0]
    return {
        "client": name,
        "software": first.software,
        "measured_by": first.measured_by,
        "ways": {"leader": ways[LEADER], "closest": ways[CLOSEST]},
        "cross_rack_saved_percent": 100 * (1 - closest / leader) if leader else None,
        "differences": comparisons([READS], MEASURES, runs),
    }
