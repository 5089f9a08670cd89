"""`kipctl demo`: the same rotations under each way of finding the new leader."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kipctl.errors import RefusedError
from kipctl.experiments.actions import parse_action
from kipctl.experiments.arms.differ import Differing, adjusted, differing, middle_ms
from kipctl.experiments.conduct import Listeners
from kipctl.experiments.own_topic import own_topic
from kipctl.experiments.perf import PerfPlan, PerfResult, measure
from kipctl.experiments.plan import OWN_TOPIC, usual_rate
from kipctl.measure.distribution import Distribution, distribution
from kipctl.measure.doubts import few_moves
from kipctl.measure.moves import moves, wait_ms
from kipctl.measure.redirects import metadata_rpcs, redirects
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProbeSpec
from kipctl.report.verdicts import few_runs_note
from kipctl.trace.store import Run
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster
from kipctl.verdict import ENOUGH_RUNS, LEAST_RUNS

_QUOTAS = "asked for by quotas"
OWNERS = {
    "the brokers' own": ("detect", "not_ready", "acknowledge"),
    "the client's": ("backoff", "metadata", "connect"),
    "spent in queues behind them": ("queued",),
    _QUOTAS: ("throttled",),
}
"""Whose time each phase of a redirect is."""
ARMS = (LeaderDiscovery.KIP951, LeaderDiscovery.REFRESH, LeaderDiscovery.BASELINE)
_ADMIN_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """How much is measured: per acks, `rounds` runs of each arm, interleaved. Times in seconds."""

    partitions: int = 100
    record_size: int = 1000
    throughput: float = field(default_factory=lambda: usual_rate(os.cpu_count() or 1))
    seconds: float = 6.0
    every_s: float = 2.0
    rotations: int = 2
    rounds: int = LEAST_RUNS
    warmup_seconds: float = 12.0
    """Of a run that is not counted: brokers compile what they do often."""

    @property
    def num_records(self) -> int:
        return int(self.throughput * self.seconds)


@dataclass(frozen=True, slots=True)
class Arm:
    """All runs of one leader discovery under one acks, taken together."""

    acks: str
    discovery: LeaderDiscovery
    latency: Distribution
    p999_ms: tuple[float, ...]
    """Of each run by itself."""
    move_waits_ms: tuple[float | None, ...]
    """The median wait for a moved leader in each run; None of one that met none."""
    moves_met: tuple[int, ...]
    """In each run."""
    redirects: dict[str, Any]
    metadata_rpcs: dict[str, Any]
    failed: int

    def as_document(self) -> dict[str, Any]:
        return {
            "acks": self.acks,
            "leader_discovery": self.discovery.value,
            "latency_ms": self.latency.as_ms(),
            "p999_ms_by_run": list(self.p999_ms),
            "move_wait_ms_by_run": list(self.move_waits_ms),
            "moves_met_by_run": list(self.moves_met),
            "records_failed": self.failed,
            "redirected_time_percent": shares(self.redirects),
            "redirects": self.redirects,
            "metadata_rpcs": self.metadata_rpcs,
        }


def shares(redirects: dict[str, Any]) -> dict[str, float]:
    """Of the time of redirected batches, the percentage that each owner had; quotas if any."""
    phases = redirects["phases_ms"]
    total = sum(phase["sum"] for phase in phases.values())
    of_owners = {
        owner: 100 * sum(phases[name]["sum"] for name in names) / total if total else 0.0
        for owner, names in OWNERS.items()
    }
    return {owner: share for owner, share in of_owners.items() if share or owner != _QUOTAS}


def pool(acks: str, discovery: LeaderDiscovery, runs: Sequence[PerfResult]) -> Arm:
    """Take runs of one arm together: every record counts the same."""
    measured = [run.measured for run in runs]
    redirect_rows = []
    for number, run in enumerate(measured):
        rows = run.redirect_rows.copy()
        rows[:, 0] = number  # the same sequence numbers and epochs occur in each run
        redirect_rows.append(rows)
    met = [moves(run.redirect_rows) for run in measured]
    return Arm(
        acks,
        discovery,
        distribution((m.steady.latency.values, m.steady.latency.counts) for m in measured),
        tuple(m.steady.latency.quantile(0.999) / 1000 for m in measured),
        tuple(map(wait_ms, met)),
        tuple(map(len, met)),
        redirects(np.concatenate(redirect_rows)),
        metadata_rpcs(np.concatenate([m.metadata_rows for m in measured])),
        sum(m.outcome.failed for m in measured),
    )


def compare(
    access: Access, acks: str, plan: DemoPlan, listeners: Listeners, record: Path
) -> tuple[Arm, ...]:
    """Measure every arm `rounds` times, in turn, on one topic. Raises KipctlError.

    Each run is recorded in a folder of its own in `record`.
    """
    base = PerfPlan(
        probe=ProbeSpec(
            access=access,
            topic=OWN_TOPIC,
            num_records=plan.num_records,
            throughput=plan.throughput,
            record_size=plan.record_size,
            warmup_records=int(plan.throughput),
            config=ProducerConfig(
                acks=-1 if acks == "all" else int(acks),
                enable_idempotence=False,
                partitioner="round-robin",  # every partition is written to, so every move is met
            ),
        ),
        during=parse_action("rotate"),
        every_s=plan.every_s,
        count=plan.rotations,
        partitions=plan.partitions,
        reporting_interval_s=plan.seconds * 10,
    )
    runs: dict[LeaderDiscovery, list[PerfResult]] = {arm: [] for arm in ARMS}
    with (
        Cluster(access, "kipctl", _ADMIN_TIMEOUT_S) as cluster,
        own_topic(cluster, plan.partitions, 0, lambda _: None) as before,
    ):
        warm = replace(base.probe, num_records=int(plan.throughput * plan.warmup_seconds))
        listeners.message(f"acks={acks}: warming up for {plan.warmup_seconds:g} s")
        measure(replace(base, probe=warm, every_s=0.8, count=0), cluster, before, Listeners())
        for number in range(plan.rounds):
            # Every other round the other way round, so that no arm always follows the same one.
            for arm in ARMS if number % 2 == 0 else reversed(ARMS):
                listeners.message(
                    f"acks={acks}, {arm}: {plan.num_records:,} records at {plan.throughput:g}/s, "
                    f"{plan.rotations} rotations of {plan.partitions} leaders "
                    f"(round {number + 1} of {plan.rounds})"
                )
                probe = replace(base.probe, discovery=arm, seed=number)
                named = replace(base, probe=probe, arm=f"acks={acks}, {arm}")
                run = Run.create(record / f"acks-{acks}-{arm}-{number + 1}")
                result = measure(named, cluster, before, Listeners(), run)
                for action in result.document["actions"]:
                    if action["error"]:
                        raise RefusedError(f"A rotation failed: {action['error']}")
                runs[arm].append(result)
    return tuple(pool(acks, arm, runs[arm]) for arm in ARMS)


def comparisons(arms: Sequence[Arm]) -> list[tuple[Arm, Arm, Differing]]:
    """Hints beside each other way, by the wait for a moved leader."""
    hinted = next(arm for arm in arms if arm.discovery is LeaderDiscovery.KIP951)
    others = [arm for arm in arms if arm is not hinted]
    answers = adjusted([differing(arm.move_waits_ms, hinted.move_waits_ms) for arm in others])
    return [(arm, hinted, answer) for arm, answer in zip(others, answers, strict=True)]


def findings(arms: Sequence[Arm]) -> tuple[str, ...]:
    """What these arms of one acks show, in sentences; only what the numbers say."""
    by_discovery = {arm.discovery: arm for arm in arms}
    sentences = []
    # What is said is what is compared: the median of each run, and what runs came to together.
    waits = ", ".join(
        f"{arm.discovery} {ms:.1f} ms"
        for arm in arms
        if (ms := middle_ms(arm.move_waits_ms)) is not None
    )
    if waits:
        sentences.append(
            "For a moved leader the client itself waited (median of a run, geometric mean of the "
            f"runs): {waits}."
        )
    compared = comparisons(arms)
    for without, with_it, found in compared:
        cut = "" if found.cut_percent is None else f", {_less(found.cut_percent)}"
        p = found.verdict.adjusted
        level = "" if p is None else f" (p {p:.2g})" if p >= 0.0001 else " (p below 0.0001)"
        sentences.append(
            f"{with_it.discovery} beside {without.discovery}: {found.verdict.text}{cut}{level}."
        )
    if few := few_moves({arm.discovery.value: arm.moves_met for arm in arms}):
        sentences.append(f"{few}: such a run's median, and what is compared by it, says little.")
    told = [found.verdict.runs for *_, found in compared if found.verdict.is_different is not None]
    if told and min(told) < ENOUGH_RUNS:
        sentences.append(few_runs_note(min(told)))
    hinted = by_discovery.get(LeaderDiscovery.KIP951)
    if hinted and hinted.redirects["batches"]:
        whose = shares(hinted.redirects)
        parts = ", ".join(f"{share:.0f} % {owner}" for owner, share in whose.items())
        sentences.append(
            f"With hints, the redirected batches' time was {parts}: the largest part was "
            f"{max(whose, key=lambda owner: whose[owner])}."
        )
    ordered = sorted(arms, key=lambda arm: arm.latency.quantile(0.999))
    order = ", ".join(
        f"{arm.discovery} {arm.latency.quantile(0.999) / 1000:.0f} ms" for arm in ordered
    )
    sentences.append(
        f"p99.9 of all records, which depends on how many were under way and is not compared: "
        f"{order}."
    )
    return tuple(sentences)


def _less(cut_percent: float) -> str:
    """By how much it is below, or above, the other."""
    return f"{abs(cut_percent):.3g} % {'less' if cut_percent >= 0 else 'more'}"
