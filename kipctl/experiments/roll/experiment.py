"""`experiment roll`: brokers restarted one by one under load (the second claim of KIP-951)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kipctl.counts import counted
from kipctl.documents.common import Action as ActionDocument
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
from kipctl.experiments.arms.experiment import Experiment, Measures, comparisons
from kipctl.experiments.arms.figures import Figures, pooled
from kipctl.experiments.arms.halves import Half, Records, figures_in, halves, records
from kipctl.experiments.arms.restarts import Restart, leaders_put_back, roll
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.roll.plan import RollPlan
from kipctl.experiments.roll.published import in_short, published_for, set_up_differences
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

    def figures_in(self, spans: Sequence[Half]) -> dict[str, Any]:
        """The figures of some of its halves."""
        return figures_in(spans, self.produced, self.delivered, self.produce.redirect_rows)

    def as_document(self) -> dict[str, Any]:
        """For JSON, restart by restart."""
        return {
            "records": {
                "acknowledged": self.produce.acknowledged,
                "failed": self.written.failed,
                "unsettled": unsettled(self.produce.batch_rows, self.written.ended_us),
                "missing": self.produce.acknowledged - self.end_to_end.acknowledged,
            },
            "produce_ms": self.produced.latency.as_ms(),
            "end_to_end_ms": self.delivered.latency.as_ms(),
            "restarts": [restart.as_document(self.written.start_us) for restart in self.restarts],
            "halves": [
                {"broker": half.broker, "leaders_move": half.direction, **self.figures_in([half])}
                for half in self.spans
            ],
        }


MEASURES: Measures[RolledRun] = {
    "move_wait": lambda run: run.produce.move_wait_ms,
    "produce": lambda run: run.produce.quantile_ms(P99),
    "end_to_end": lambda run: run.end_to_end.quantile_ms(P99),
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
    produced, delivered = (
        records(of, written.interval_ns, written.warmup_records) for of in (batches, read_batches)
    )
    return RolledRun(
        written,
        restarts,
        spans,
        produced,
        delivered,
        Figures(produced.in_halves(spans), batches, redirect_rows, rpc_rows),
        Figures(delivered.in_halves(spans), read_batches, redirect_rows, rpc_rows),
    )


def arm_document(runs: Sequence[RolledRun]) -> dict[str, Any]:
    """All runs of an arm in one cell, every record counting the same."""
    produce, end_to_end = (
        pooled([getattr(run, side) for run in runs]) for side in ("produce", "end_to_end")
    )
    met = met_in(produce.redirect_rows, produce.rpc_rows)
    return {
        "software": runs[0].written.software,
        "measured_by": runs[0].written.measured_by,
        "produce_ms": produce.latency.as_ms(),
        "end_to_end_ms": end_to_end.latency.as_ms(),
        "redirects": met.redirects,
        "metadata_rpcs": met.metadata_rpcs,
        "moves": {
            direction: moves_document(
                [run.figures_in([s for s in run.spans if s.direction == direction]) for run in runs]
            )
            for direction in ("away", "back")
        },
        "runs": [run.as_document() for run in runs],
    }


def moves_document(by_run: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Leaders' moves in one direction, over runs: means of the p99s, the greatest maxima."""
    found: dict[str, float] = {
        "batches_sent_again": sum(run["batches_sent_again"] for run in by_run)
    }
    for name in ("produce_ms", "end_to_end_ms", "detection_ms", "client_wait_ms"):
        found[f"{name}_p99"] = sum(run[name]["p99"] for run in by_run) / len(by_run)
        found[f"{name}_max"] = max(run[name]["max"] for run in by_run)
    return found


_MORE_MOVES = "more --partitions, --restarts or --throughput let clients meet more."


def cell_document(
    acks: str, partitions: int, arms: Sequence[Arm], runs: Mapping[str, Sequence[RolledRun]]
) -> dict[str, Any]:
    """All arms under one acks with so many partitions, and how they differ."""
    met = {arm.name: [run.produce.moves_met for run in runs[arm.name]] for arm in arms}
    return {
        "acks": acks,
        "partitions": partitions,
        "doubts": [
            f"acks={acks}, {counted(partitions, 'partition')}: {said}"
            for said in few_moves_doubts(met, _MORE_MOVES)
        ],
        "arms": [{"arm": arm.name, **arm_document(runs[arm.name])} for arm in arms],
        "differences": comparisons(
            [(without.name, with_it.name) for without, with_it in pairs(arms)], MEASURES, runs
        ),
    }


def actions(restarts: Sequence[Restart], start_us: int) -> list[ActionDocument]:
    """The restarts, and the elections that brought leaders back, as actions of `run.json`."""
    found = []
    for at in restarts:
        restart = Action(ActionKind.RESTART, at.broker)
        steps = (
            (restart, at.called_us, at.started_us, at.in_sync_us),
            (Action(ActionKind.ELECT), at.elected_us, at.back_us, at.back_us),
        )
        found += [
            Performed(action, called_us, answered_us, converged_us, at.leaders, at.error or None)
            for action, called_us, answered_us, converged_us in steps
            if called_us
        ]
    return [performed.as_document(start_us) for performed in found]


def run_roll(
    plan: RollPlan,
    stand: Stand,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> dict[str, Any]:
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
    document = {
        "kafka_version": lab.kafka_version,
        "brokers": len(brokers),
        "controllers": sum(node.role is Role.CONTROLLER for node in lab.nodes),
        "restarts": len(chosen),
        "controlled": plan.controlled,
        "throughput": plan.throughput,
        "record_size": plan.record_size,
        "runs": plan.runs,
        "workers": plan.workers,
        "settle_s": plan.settle_s,
        "cells": cells,
    }
    for cell in cells:
        for row in cell["published"]:
            row["set_up_otherwise"] = in_short(document, cell["partitions"])
    return document | {"differs": list(set_up_differences(document))}


def _cells(
    plan: RollPlan,
    stand: Stand,
    lab: Lab,
    chosen: Sequence[int],
    start: Starter,
    record: Callable[[str], Path | None],
    message: Callable[[str], None],
) -> list[dict[str, Any]]:
    """All cells, as JSON has them."""
    cells: list[dict[str, Any]] = []
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
        runs = {arm.name: found for arm, found in of_arms.items()}
        published = published_for(acks, partitions)
        cells.append(
            cell_document(acks, partitions, plan.arms, runs)
            | {"published": [row.as_document() for row in published]}
        )
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
