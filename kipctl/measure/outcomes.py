"""The common outcome of several probes of a run, and the outcome of one that died."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import singledispatch
from pathlib import Path
from typing import Any, cast

import numpy as np

from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.health import Health
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.run import AnyOutcome, Outcome, Spec
from kipctl.protocol.error_codes import error_name
from kipctl.trace.columns import BATCH, READ, raw_path
from kipctl.trace.names import names_in
from kipctl.trace.rows import chunks
from kipctl.trace.run_start import RunStart


def combined_outcome(
    spec: Spec[AnyOutcome], outcomes: Sequence[AnyOutcome], start_us: int
) -> AnyOutcome:
    """The outcomes of one or more workers as that of one run of the spec, which started then.

    It ends with the last of them, and fails if one of them did.
    """
    return cast(AnyOutcome, _as_one_run(spec, outcomes, start_us))


def salvaged_outcome(
    spec: Spec[AnyOutcome], begun: RunStart, directory: Path, failure: str
) -> AnyOutcome:
    """The outcome of a probe that died, from its rows: what it had settled.

    `failure` is empty where it was given up.
    """
    return cast(AnyOutcome, _salvaged(spec, begun, directory, failure))


@singledispatch
def _as_one_run(spec: object, outcomes: Sequence[Any], start_us: int) -> Outcome:
    raise TypeError(f"Nobody knows how outcomes of {spec} come together.")


@singledispatch
def _salvaged(spec: object, begun: RunStart, directory: Path, failure: str) -> Outcome:
    raise TypeError(f"Nobody knows how to salvage {spec}.")


# --- of the producer ---


@_as_one_run.register
def _as_one_run_produced(
    spec: ProduceSpec, outcomes: Sequence[ProduceOutcome], start_us: int
) -> ProduceOutcome:
    return replace(
        outcomes[0],
        generated=sum(outcome.generated for outcome in outcomes),
        acknowledged=sum(outcome.acknowledged for outcome in outcomes),
        failed=sum(outcome.failed for outcome in outcomes),
        unconnected=tuple(sorted({id for outcome in outcomes for id in outcome.unconnected})),
        **_common_of_all(spec, outcomes, start_us),
    )


@_salvaged.register
def _salvaged_produced(
    spec: ProduceSpec, begun: RunStart, directory: Path, failure: str
) -> ProduceOutcome:
    """The batches that were acknowledged or given up."""
    acknowledged, end_us, errors = 0, begun.start_us, Counter[str]()
    for rows in chunks(raw_path(directory, "batches"), len(BATCH)):
        error, records, acked_us = (
            rows[:, BATCH[name]] for name in ("error", "records", "acked_us")
        )
        end_us = max(end_us, int(acked_us.max()))
        acknowledged += int(records[error == 0].sum())
        for code in np.unique(error[error != 0]).tolist():
            errors[error_name(code)] += int(records[error == code].sum())
    failed = errors.total()
    return ProduceOutcome(
        interval_ns=spec.schedule(begun.start_us).interval_ns,
        generated=acknowledged + failed,
        acknowledged=acknowledged,
        failed=failed,
        errors=dict(errors),
        **_common_of_dead(spec, begun, directory, end_us, failure),
    )


# --- of the consumer ---


@_as_one_run.register
def _as_one_run_consumed(
    spec: ConsumeSpec, outcomes: Sequence[ConsumeOutcome], start_us: int
) -> ConsumeOutcome:
    """Those stopped because enough was read have done all."""
    records = sum(outcome.records for outcome in outcomes)
    whole = replace(
        outcomes[0],
        records=records,
        bytes=sum(outcome.bytes for outcome in outcomes),
        partitions=sum(outcome.partitions for outcome in outcomes),
        racks=tuple(sorted({rack for outcome in outcomes for rack in outcome.racks})),
        **_common_of_all(spec, outcomes, start_us),
    )
    return replace(whole, stopped=whole.stopped and records < spec.num_records)


@_salvaged.register
def _salvaged_consumed(
    spec: ConsumeSpec, begun: RunStart, directory: Path, failure: str
) -> ConsumeOutcome:
    """The answers. Which partitions were given up is not known."""
    totals, end_us, partitions = np.zeros(2, np.int64), 0, set[int]()
    for rows in chunks(raw_path(directory, "reads"), len(READ)):
        totals += rows[:, [READ["records"], READ["bytes"]]].sum(axis=0)
        end_us = max(end_us, int(rows[:, READ["time_us"]].max()))
        partitions |= set(rows[:, READ["partition"]].tolist())
    return ConsumeOutcome(
        records=int(totals[0]),
        bytes=int(totals[1]),
        partitions=len(partitions),
        errors={},
        racks=names_in(directory).get("broker_rack", ()),
        **_common_of_dead(spec, begun, directory, end_us, failure),
    )


# --- of both ---


def _common_of_all(
    spec: Spec[AnyOutcome], outcomes: Sequence[AnyOutcome], start_us: int
) -> dict[str, Any]:
    """Outcomes of any kind as one, by the names of Outcome's fields."""
    return {
        "spec": spec,
        "start_us": start_us,
        "end_us": start_us + max(outcome.end_us - outcome.start_us for outcome in outcomes),
        "errors": dict(sum((Counter(outcome.errors) for outcome in outcomes), Counter())),
        "endpoints": tuple(sorted({name for outcome in outcomes for name in outcome.endpoints})),
        "cpu_s": _all_cpu_s([outcome.cpu_s for outcome in outcomes]),
        "health": all_healths([outcome.health for outcome in outcomes]),
        "stopped": any(outcome.stopped for outcome in outcomes),
        "host": ", ".join(dict.fromkeys(outcome.host for outcome in outcomes)),
        "failure": next((outcome.failure for outcome in outcomes if outcome.failure), ""),
    }


def _common_of_dead(
    spec: Spec[AnyOutcome], begun: RunStart, directory: Path, end_us: int, failure: str
) -> dict[str, Any]:
    """What is known of a probe of any kind that died, by the names of Outcome's fields."""
    return {
        **asdict(begun),
        "spec": spec,
        "cluster_id": "",
        "end_us": max(begun.start_us, end_us),
        "topics": (spec.topic,),
        "endpoints": names_in(directory).get("hint_endpoint", ()),
        "cpu_s": None,
        "health": None,
        "stopped": True,
        "failure": failure,
    }


def all_healths(of_workers: Sequence[Health | None]) -> Health | None:
    """That of a run of several workers: what can be counted is added, of lags the worst is taken.

    It is not known (None) unless that of each is.
    """
    known = [health for health in of_workers if health is not None]
    if len(known) < len(of_workers):
        return None
    return Health(
        sum(health.throttle_ms for health in known),
        tuple(dict.fromkeys(change for health in known for change in health.topic_changes)),
        max(health.lag_p50_us for health in known),
        max(health.lag_p99_us for health in known),
        max(health.lag_max_us for health in known),
        sum(health.reauthentications for health in known),
        max(health.reauthentication_max_us for health in known),
        _added(health.connection_failures for health in known),
        _added(health.hinted_elsewhere for health in known),
    )


def _added(counts: Iterable[tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    return tuple(sum((Counter(dict(pairs)) for pairs in counts), Counter[str]()).items())


def _all_cpu_s(of_workers: Sequence[float | None]) -> float | None:
    known = [cpu_s for cpu_s in of_workers if cpu_s is not None]
    return sum(known) if len(known) == len(of_workers) else None
