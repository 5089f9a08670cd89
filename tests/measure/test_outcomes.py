"""Outcomes of several probes as one run, where one of them was killed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kipctl.measure.consumer_summary import measured_consume, summarize_consume
from kipctl.measure.outcomes import combined_outcome, salvaged_outcome
from kipctl.measure.probe_results import ProbeResult
from kipctl.measure.producer_summary import measured_produce, summarize_produce
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.health import Health
from kipctl.probe.produce.run import ProduceSpec
from kipctl.probe.run import AnyOutcome, Outcome, Spec
from kipctl.report.consume_tables import consume_tables
from kipctl.report.perf_tables import times_table
from kipctl.report.tables import Table
from kipctl.trace.columns import raw_path
from kipctl.trace.run_start import RunStart
from kipctl.transport.access import Access

BEGUN = RunStart("h", 5_000_000, 1_700_000_000_000_000)
PRODUCE, CONSUME = (
    ProduceSpec(Access("h:1"), "t", 1000, throughput=1000),
    ConsumeSpec(Access("h:1"), "t", 1000),
)
NOT_KNOWN = dict.fromkeys(
    (
        "throttle_ms",
        "topic_changes",
        "loop_lag_ms",
        "reauthentications",
        "connection_failures",
        "hinted_elsewhere",
        "cpu_seconds",
    )
)


def killed(spec: Spec[AnyOutcome], folder: Path) -> AnyOutcome:
    """The outcome of a probe that had written nothing."""
    for dataset in ("batches", "reads", "rpcs", "redirects"):
        raw_path(folder, dataset).touch()
    return salvaged_outcome(spec, BEGUN, folder, "")


def killed_producer(folder: Path) -> tuple[Outcome, dict[str, Any], Table]:
    outcome = killed(PRODUCE, folder)
    document = summarize_produce(
        measured_produce(outcome, [ProbeResult(outcome, folder)]), [], None
    )
    return outcome, document, times_table(document)


def killed_consumer(folder: Path) -> tuple[Outcome, dict[str, Any], Table]:
    outcome = killed(CONSUME, folder)
    document = summarize_consume(
        measured_consume(outcome, [ProbeResult(outcome, folder)]), [], None
    )
    [brokers] = (table for table in consume_tables(document) if table.name == "brokers")
    return outcome, document, brokers


@pytest.mark.parametrize("salvage", [killed_producer, killed_consumer])
def test_what_a_killed_probe_did_not_report_is_not_known(
    salvage: Callable[[Path], tuple[Outcome, dict[str, Any], Table]], tmp_path: Path
) -> None:
    outcome, document, table = salvage(tmp_path)
    assert document.items() >= NOT_KNOWN.items()
    assert "is not known" in table.notes[0]
    assert outcome.sent_or_settled == "settled"


def test_nor_is_that_of_all_unless_that_of_each_is(tmp_path: Path) -> None:
    cut_off = killed(PRODUCE, tmp_path)
    whole_ones = [
        replace(cut_off, cpu_s=1.5, health=Health(200, ("t grew",), 1, 2, 5)),
        replace(cut_off, cpu_s=2.5, health=Health(300, ("t grew",), 2, 1, 4)),
    ]
    whole = combined_outcome(PRODUCE, whole_ones, BEGUN.start_us)
    assert (whole.cpu_s, whole.health) == (4.0, Health(500, ("t grew",), 2, 2, 5))
    assert whole.sent_or_settled == "sent"
    part = combined_outcome(PRODUCE, [*whole_ones, cut_off], BEGUN.start_us)
    assert (part.cpu_s, part.health, part.sent_or_settled) == (None, None, "settled")
