"""What several probes came to together, where one of them did not come to tell."""

from dataclasses import replace
from pathlib import Path

import pytest

from kipctl.measure.consumed import measured
from kipctl.measure.consumed import summarize as summarize_consume
from kipctl.measure.outcomes import as_one_run, salvaged
from kipctl.measure.parts import Part
from kipctl.measure.produced import measured_together
from kipctl.measure.produced import summarize as summarize_produce
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.health import Health
from kipctl.probe.outcome import Outcome
from kipctl.probe.produce.run import ProbeSpec
from kipctl.report.consume_tables import brokers_table
from kipctl.report.perf_tables import times_table
from kipctl.trace.begun import Begun
from kipctl.trace.columns import raw_path

BEGUN = Begun("h", 5_000_000, 1_700_000_000_000_000)
PRODUCE, CONSUME = ProbeSpec("h:1", "t", 1000, throughput=1000), ConsumeSpec("h:1", "t", 1000)
NOT_KNOWN = dict.fromkeys(("throttle_ms", "topic_changes", "loop_lag_ms", "cpu_seconds"))


def dead(spec: ProbeSpec | ConsumeSpec, folder: Path) -> Outcome:
    """It had written nothing."""
    for dataset in ("batches", "reads", "rpcs", "redirects"):
        raw_path(folder, dataset).touch()
    outcome: Outcome = salvaged(spec, BEGUN, folder, "")
    return outcome


@pytest.mark.parametrize("spec", [PRODUCE, CONSUME], ids=["produce", "consume"])
def test_what_one_that_was_cut_off_did_not_tell_is_not_known(
    spec: ProbeSpec | ConsumeSpec, tmp_path: Path
) -> None:
    outcome = dead(spec, tmp_path)
    parts = (Part(outcome, tmp_path),)
    if spec is PRODUCE:
        document = summarize_produce(measured_together(outcome, parts), [], None)  # type: ignore
        notes = times_table(document).notes
    else:
        document = summarize_consume(measured(outcome, parts), [], None)  # type: ignore
        notes = brokers_table(document).notes
    assert document.items() >= NOT_KNOWN.items()
    assert "is not known" in notes[1]
    assert outcome.sent == "settled"


def test_nor_is_that_of_all_unless_that_of_each_is(tmp_path: Path) -> None:
    cut_off = dead(PRODUCE, tmp_path)
    told = [
        replace(cut_off, cpu_s=1.5, health=Health(200, ("t grew",), 1, 2, 5)),
        replace(cut_off, cpu_s=2.5, health=Health(300, ("t grew",), 2, 1, 4)),
    ]
    whole = as_one_run(PRODUCE, told, BEGUN.start_us)  # type: ignore
    assert (whole.cpu_s, whole.health) == (4.0, Health(500, ("t grew",), 2, 2, 5))
    assert whole.sent == "sent"
    part = as_one_run(PRODUCE, [*told, cut_off], BEGUN.start_us)  # type: ignore
    assert (part.cpu_s, part.health, part.sent) == (None, None, "settled")
