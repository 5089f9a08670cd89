"""`experiment roll`: brokers restarted one by one under load (the second claim of KIP-951)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kipctl.counts import counted
from kipctl.documents.common import Action as ActionDocument
from kipctl.documents.common import Waits
from kipctl.documents.experiments import (
    FiguresOfHalves,
    MovesOneWay,
    RollArm,
    RollCell,
    RolledRunDocument,
    RollExperimentDocument,
    Worst,
)
from kipctl.errors import RefusedError, UsageError
from kipctl.experiments.arms.arm import Arm, pairs
from kipctl.experiments.arms.end_to_end import (
    CONSUMER,
    PRODUCER,
    Load,
    Written,
    measure_both,
    warm_up,
)
from kipctl.experiments.arms.experiment import MOVE_WAIT, Experiment, Measure, Measures, comparisons
from kipctl.experiments.arms.figures import Figures, pooled
from kipctl.experiments.arms.halves import Half, Records, figures_in, halves, records
from kipctl.experiments.arms.restarts import Restart, leaders_put_back, roll
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.roll.plan import RollPlan
from kipctl.experiments.roll.published import published_for, set_up_differences, set_up_line
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import Role
from kipctl.load.actions import Action, ActionKind, Performed, lab_of
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC, RunPlan
from kipctl.load.start import Starter, starter
from kipctl.measure.client_totals import met_in
from kipctl.measure.delivery import follow_batches
from kipctl.measure.doubts import few_moves_doubts
from kipctl.progress import part_of
from kipctl.trace.columns import BATCH
from kipctl.trace.rows import IntRows
from kipctl.trace.run_rows import dataset, rows
from kipctl.trace.store import Run

P99 = 0.99


@dataclass(frozen=True, slots=True)
class RolledRun:
    """One run of an arm: the figures of its producer, and of who read it (`end_to_end`).

    The records' times are relative to its start.
    """

    written: Written
    restarts: list[Restart]
    spans: list[Half]
    produced: Records
    delivered: Records
    produce: Figures
    end_to_end: Figures

    def figures_in(self, spans: Sequence[Half]) -> FiguresOfHalves:
        """The figures of some of its halves."""
        return figures_in(spans, self.produced, self.delivered, self.produce.redirect_rows)

    def as_document(self) -> RolledRunDocument:
        """For JSON, restart by restart."""
        return {
            "records": {
                "acknowledged": self.produce.acknowledged,
                "failed": self.written.failed,
                "unsettled": unsettled(self.produce.batch_rows, self.written.ended_us),
                "missing": self.produce.acknowledged - self.end_to_end.acknowledged,
            },
            "acknowledged_ms": self.produced.latency.as_ms(),
            "latency_ms": self.delivered.latency.as_ms(),
            "restarts": [restart.as_document(self.written.start_us) for restart in self.restarts],
            "halves": [
                {**self.figures_in([half]), "broker": half.broker, "leaders_move": half.direction}
                for half in self.spans
            ],
        }


MEASURES: Measures[RolledRun] = {
    "move_wait": Measure(MOVE_WAIT, lambda run: run.produce.move_wait_ms),
    "produce": Measure("produce, p99", lambda run: run.produce.quantile_ms(P99)),
    "end_to_end": Measure("end to end, p99", lambda run: run.end_to_end.quantile_ms(P99)),
}
"""What arms are compared by, in milliseconds: the median wait of the producer for a moved leader,
and p99 of what was due from the first restart on."""


def unsettled(batches: IntRows, ended_us: int) -> int:
    """Records that were still under way when the load was told to end, and came to nothing then.

    They count in no latency.
    """
    cut_off = (batches[:, BATCH["error"]] != 0) & (batches[:, BATCH["acked_us"]] >= ended_us)
    return int(batches[cut_off, BATCH["records"]].sum())


def rolled_run(written: Written, restarts: list[Restart], run: Run) -> RolledRun:
    """The results of a run, out of the rows that were recorded of its two clients."""
    batches = rows(dataset(run, "batches", PRODUCER), "batches")
    reads = rows(dataset(run, "reads", CONSUMER), "reads")
    redirect_rows = rows(dataset(run, "redirects", PRODUCER), "redirects")
    rpc_rows = rows(dataset(run, "rpcs", PRODUCER), "rpcs")
    read_batches = follow_batches(batches, reads)
    spans = halves(restarts, written.start_us)
    produced = records(batches, written.interval_ns, written.warmup_records)
    delivered = records(read_batches, written.interval_ns, written.warmup_records)
    return RolledRun(
        written,
        restarts,
        spans,
        produced,
        delivered,
        Figures(produced.in_halves(spans), batches, redirect_rows, rpc_rows),
        Figures(delivered.in_halves(spans), read_batches, redirect_rows, rpc_rows),
    )


def arm_document(name: str, runs: Sequence[RolledRun]) -> RollArm:
    """All runs of an arm in one cell, every record counting the same."""

    def moves(direction: str) -> MovesOneWay:
        spans = ([span for span in run.spans if span.direction == direction] for run in runs)
        return moves_document(
            [run.figures_in(of_run) for run, of_run in zip(runs, spans, strict=True)]
        )

    produce, end_to_end = (
        pooled([getattr(run, side) for run in runs]) for side in ("produce", "end_to_end")
    )
    met = met_in(produce.redirect_rows, produce.rpc_rows)
    return {
        "arm": name,
        "software": runs[0].written.software,
        "measured_by": runs[0].written.measured_by,
        "acknowledged_ms": produce.latency.as_ms(),
        "latency_ms": end_to_end.latency.as_ms(),
        "redirects": met.redirects,
        "metadata_rpcs": met.metadata_rpcs,
        "moves": {"away": moves("away"), "back": moves("back")},
        "runs": [run.as_document() for run in runs],
    }


def moves_document(by_run: Sequence[FiguresOfHalves]) -> MovesOneWay:
    """Leaders' moves in one direction, over runs: means of the p99s, the greatest maxima."""

    def worst(of_runs: Iterable[Waits]) -> Worst:
        waits = list(of_runs)
        return {
            "p99": sum(wait["p99"] for wait in waits) / len(waits),
            "max": max(wait["max"] for wait in waits),
        }

    return {
        "batches_sent_again": sum(run["batches_sent_again"] for run in by_run),
        "acknowledged_ms": worst(run["acknowledged_ms"] for run in by_run),
        "latency_ms": worst(run["latency_ms"] for run in by_run),
        "detection_ms": worst(run["detection_ms"] for run in by_run),
        "client_wait_ms": worst(run["client_wait_ms"] for run in by_run),
    }


_MORE_MOVES = "more --partitions, --restarts or --throughput let clients meet more."


def cell_document(
    acks: str, partitions: int, arms: Sequence[Arm], runs: Mapping[str, Sequence[RolledRun]]
) -> RollCell:
    """All arms under one acks with so many partitions, and how they differ."""
    met = {arm.name: [run.produce.moves_met for run in runs[arm.name]] for arm in arms}
    return {
        "acks": acks,
        "partitions": partitions,
        "doubts": [
            f"acks={acks}, {counted(partitions, 'partition')}: {said}"
            for said in few_moves_doubts(met, _MORE_MOVES)
        ],
        "arms": [arm_document(arm.name, runs[arm.name]) for arm in arms],
        "differences": comparisons(
            [(without.name, with_it.name) for without, with_it in pairs(arms)], MEASURES, runs
        ),
        "published_rolls": [],
    }


def actions(restarts: Sequence[Restart], start_us: int) -> list[ActionDocument]:
    """The restarts, and the elections that brought leaders back, as actions of `run.json`."""
    done = []
    for at in restarts:
        restart = Action(ActionKind.RESTART, at.broker)
        steps = (
            (restart, at.called_us, at.started_us, at.in_sync_us),
            (Action(ActionKind.ELECT), at.elected_us, at.back_us, at.back_us),
        )
        done += [
            Performed(action, called_us, answered_us, converged_us, at.leaders, at.error or None)
            for action, called_us, answered_us, converged_us in steps
            if called_us
        ]
    return [performed.as_document(start_us) for performed in done]


def run_roll(
    plan: RollPlan,
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> RollExperimentDocument:
    """Carry it out on a lab; returns what `--output json` prints. Raises KipctlError.

    `record` says where the run of a name is recorded, if it is to be.
    """
    cluster = stand.cluster
    lab = lab_of(cluster)
    brokers = sorted(cluster.nodes)
    if len(brokers) < 2:
        raise UsageError("With one broker there is nowhere for leaders to move to.")
    chosen = brokers[: plan.restarts or len(brokers)]
    workers = RunPlan(workers=plan.workers)
    with leaders_put_back(cluster), starter(workers, message, runs=2) as start:
        cells = _cells(plan, stand, lab, chosen, start, record, message)
    document: RollExperimentDocument = {
        "kafka_version": lab.kafka_version,
        "broker_count": len(brokers),
        "controller_count": sum(node.role is Role.CONTROLLER for node in lab.nodes),
        "restart_count": len(chosen),
        "controlled": plan.controlled,
        "throughput": plan.throughput,
        "record_size": plan.record_size,
        "run_count": plan.runs,
        "worker_count": plan.workers,
        "settle_seconds": plan.settle_s,
        "cells": cells,
        "differs": [],
    }
    for cell in cells:
        otherwise = set_up_line(document, cell["partitions"])
        rows = published_for(cell["acks"], cell["partitions"])
        cell["published_rolls"] = [row.as_document(otherwise) for row in rows]
    document["differs"] = list(set_up_differences(document))
    return document


def _cells(
    plan: RollPlan,
    stand: Stand,
    lab: Lab,
    chosen: Sequence[int],
    start: Starter,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> list[RollCell]:
    """All cells, as JSON has them, but for what was published."""
    cells: list[RollCell] = []
    for number, (acks, partitions) in enumerate(plan.cells):
        load = Load(acks, plan.throughput, plan.record_size, plan.warmup_s, start)
        if not cells:
            warm_up(load, partitions, stand, plan.broker_warmup_s, message)

        def run_one(
            arm: Arm, _: int, run: Run, load: Load = load, size: int = partitions
        ) -> RolledRun:
            with own_topic(stand.cluster, size, 0, lambda _: None):
                return _roll_once(plan, arm, load, stand, lab, chosen, run, message)

        of_arms = Experiment(
            arms=plan.arms,
            runs=plan.runs,
            run_one=run_one,
            record=record,
            message=part_of(message, number / len(plan.cells), (number + 1) / len(plan.cells)),
            name=lambda arm: arm.name,
            condition=f"acks-{acks}-partitions-{partitions}",
            told=f"acks={acks}, {counted(partitions, 'partition')}",
        ).carry_out()
        runs = {arm.name: arm_runs for arm, arm_runs in of_arms.items()}
        cells.append(cell_document(acks, partitions, plan.arms, runs))
    return cells


def _roll_once(
    plan: RollPlan,
    arm: Arm,
    load: Load,
    stand: Stand,
    lab: Lab,
    brokers: Sequence[int],
    run: Run,
    message: Callable[[str], None],
) -> RolledRun:
    """One roll under one arm's load, recorded. Raises RefusedError when a broker did not return."""
    before, cluster = stand.snapshot(), stand.cluster

    def act(_: int) -> list[Restart]:
        return roll(lab, cluster, OWN_TOPIC, brokers, plan.controlled, plan.settle_s, message)

    both, restarts = measure_both(load, stand, run, act, writer=arm, reader=arm)
    written = both.written
    rolled = rolled_run(written, restarts, run)
    stand.describe(
        run,
        "experiment roll",
        written.wall_start_us,
        arm.name,
        before,
        written.settings,
        {"actions": actions(restarts, written.start_us), **rolled.as_document()},
    )
    if wrong := [restart for restart in restarts if restart.error]:
        raise RefusedError(f"The roll broke off at broker {wrong[0].broker}: {wrong[0].error}")
    return rolled
