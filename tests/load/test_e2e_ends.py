"""How an end-to-end run ends: what was acknowledged is waited for, also after Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from trace_rows import table, table_of

from kipctl.cluster.snapshot import Snapshot
from kipctl.errors import InterruptedRunError, PartlyDoneError
from kipctl.load import e2e
from kipctl.load import measure as measured
from kipctl.load.e2e import EndToEndLoad, EndToEndPlan
from kipctl.load.execute import Listeners
from kipctl.load.forever import WatchOptions
from kipctl.load.produce import PerfPlan
from kipctl.load.start import Starter
from kipctl.measure.outcomes import salvaged_outcome
from kipctl.measure.probe_results import ProbeResult
from kipctl.probe.health import Health
from kipctl.probe.produce.run import ProduceSpec
from kipctl.probe.run import Outcome, Spec
from kipctl.protocol.address import Address
from kipctl.report.e2e_tables import e2e_answer, e2e_tables, times_table
from kipctl.signals import Cut
from kipctl.trace.columns import raw_path
from kipctl.trace.rows import IntRows
from kipctl.trace.run_start import RunStart
from kipctl.trace.store import Run
from kipctl.transport.access import Access

BEGUN = RunStart("h", 5_000_000, 1_700_000_000_000_000)
SPEC = ProduceSpec(Access("h:1"), "t", 1000, throughput=1000)
FOREVER = WatchOptions(forever=True, lost_after_s=1e9)
"""Rows are of a time long ago, by the clock."""
TOLD = {"health": Health(lag_p99_us=1), "cpu_s": 1.0, "stopped": False}


def batches(count: int) -> IntRows:
    """Acknowledged 1 ms after their time, one a millisecond, of one record each."""
    seq = np.arange(count)
    at = BEGUN.start_us + seq * 1000
    times = {"intended_us": at, "sent_us": at, "acked_us": at + 1000}
    counts = {"seq_stride": 1, "records": 1, "bytes": 1}
    return table_of("batches", count, first_seq=seq, base_offset=seq, **counts, **times)


def reads(first: int, end: int) -> IntRows:
    """Answers of one record each."""
    offset = np.arange(first, end)
    none = dict.fromkeys(("broker_rack", "preferred_read_replica", "range_case"), -1)
    return table_of(
        "reads",
        end - first,
        fetch_offset=offset,
        next_offset=offset + 1,
        records=1,
        bytes=1,
        time_us=BEGUN.start_us + offset * 1000 + 3000,
        range_handling=-1,
        **none,
    )


@dataclass
class Client:
    """A probe at work; `comes` are rows that it writes as they are asked for."""

    spec: Any
    directory: Path
    dataset: str
    comes: list[IntRows]
    cut: Cut
    told: dict[str, Any] = field(default_factory=lambda: TOLD)
    failure: str = ""
    is_interrupted: bool = False
    second_cut: bool = False
    is_stopped: bool = False
    parts: tuple[ProbeResult[Any], ...] = ()

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self.schedule = SPEC.schedule(BEGUN.start_us)
        for name in ("rpcs", "redirects", self.dataset):
            raw_path(self.directory, name).touch()

    def new_rows(self, dataset: str) -> IntRows:
        """The next that come."""
        came = self.comes.pop(0) if self.comes and not self.is_stopped else table(self.dataset)
        with raw_path(self.directory, self.dataset).open("ab") as file:
            came.tofile(file)
        if self.second_cut and not self.comes:
            self.cut.again = True
        return came

    def is_done_by(self, time_us: int) -> bool:
        """Once it is stopped."""
        return self.is_stopped or self.dataset == "batches"

    def stop(self) -> None:
        """No more come."""
        self.is_stopped = True

    def outcome(self) -> Outcome:
        """Ctrl-C comes the first time."""
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt
        return self.settled(self.told)

    def give_up(self) -> Outcome:
        """It does not come to tell."""
        return self.settled({})

    def settled(self, told: dict[str, Any]) -> Outcome:
        """By its rows."""
        outcome: Outcome = salvaged_outcome(self.spec, BEGUN, self.directory, self.failure)
        outcome = replace(outcome, **({} if self.failure else told))
        self.results = (ProbeResult(outcome, self.directory),)
        return outcome


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a producer of 10 records, and a consumer to which they come by two."""

    def run(
        is_interrupted: bool = False,
        failure: str = "",
        comes: int = 10,
        again: bool = False,
        watched: WatchOptions | None = None,
    ) -> dict[str, Any]:
        cut, documents = Cut(), []
        monkeypatch.setattr(measured, "kafka_version", lambda cluster: None)
        monkeypatch.setattr(measured, "snapshot_after", lambda *_: None)
        summarize = e2e.summarize_end_to_end
        monkeypatch.setattr(
            e2e,
            "summarize_end_to_end",
            lambda *given: documents.append(summarize(*given)) or documents[0],
        )

        @contextmanager
        def cut_in_order() -> Iterator[Cut]:
            yield cut

        class Scripted(Starter):
            @contextmanager
            def start(self, *specs: Spec[Any]) -> Iterator[tuple[Any, ...]]:
                reading, spec = specs
                two = [reads(first, first + 2) for first in range(0, comes, 2)]
                writer = Client(spec, tmp_path / "1", "batches", [batches(10)], cut)
                writer.failure, writer.is_interrupted = failure, is_interrupted
                writer.new_rows("batches")
                reader = Client(reading, tmp_path / "0", "reads", two, cut, second_cut=again)
                yield reader, writer

        monkeypatch.setattr(measured, "cut_in_order", cut_in_order)
        monkeypatch.setattr(e2e, "RunningProbe", Client)
        plan = EndToEndPlan(PerfPlan(probe=SPEC), quiet_s=0.05, watched=watched or WatchOptions())
        cluster: Any = SimpleNamespace()
        before = Snapshot("cluster", (), ())
        run_folder: Run | None = None
        try:
            load = EndToEndLoad(plan)
            measured.measure(load, cluster, before, Listeners(), run_folder, Scripted())
        except (InterruptedRunError, PartlyDoneError) as ended:
            assert is_interrupted or failure or again or watched
            documents[0]["ended"] = ended
        (document,) = documents
        return document

    return run


@pytest.mark.parametrize(
    ("how", "delivered", "missing"),
    [
        ({}, 10, 0),
        ({"is_interrupted": True}, 10, 0),
        ({"failure": "It died."}, 10, 0),
        ({"comes": 6}, 6, 4),
        ({"comes": 6, "is_interrupted": True}, 6, 4),
        ({"comes": 6, "is_interrupted": True, "watched": FOREVER}, 6, 4),
        # Whether any is missing is not known when Ctrl-C ends the wait.
        ({"comes": 6, "again": True}, 6, None),
        ({"comes": 6, "again": True, "is_interrupted": True}, 6, None),
    ],
)
def test_what_was_acknowledged_is_waited_for_however_the_producer_ends(
    ran: Any, how: dict[str, Any], delivered: int, missing: int | None
) -> None:
    document = ran(**how)
    records = document["records"]
    assert (records["acknowledged"], records["delivered"], records["missing"]) == (
        *(10, delivered),
        missing,
    )
    notes = " ".join(e2e_answer(document)[0].others)
    assert notes.startswith("The longest took ")
    assert ("4 were acknowledged and not delivered." in notes) == (missing == 4)
    assert ("missing is not known" in notes) == (missing is None)
    assert "did not come" not in notes


def test_of_a_producer_that_did_not_come_to_tell_nothing_is_said_to_be_known(ran: Any) -> None:
    document = ran(failure="It died.")
    names = "throttle_ms topic_changes loop_lag_ms reauthentications connection_failures"
    names += " hinted_elsewhere"
    assert document["health"]["producer"] == dict.fromkeys(names.split())
    assert document["health"]["consumer"]["throttle_ms"] == 0
    assert document["cpu_seconds"] == {"producer": None, "consumer": 1.0}
    assert e2e_answer(document)[0].first.startswith("10 of 10 records settled were acknowledged")
    [note] = times_table(document).notes
    assert note.startswith("What quotas, and topics made anew, did to the producer")


def test_it_says_how_well_either_client_went_on(ran: Any) -> None:
    document = ran()
    assert document["health"] == dict.fromkeys(
        ("producer", "consumer"), Health(lag_p99_us=1).as_document()
    )
    assert times_table(document).notes == ()
    recreated = "Topic t was deleted and made anew, as Metadata showed after"
    document["health"] = {
        "producer": Health(1500, (f"{recreated} 1.2 s.",)).as_document(),
        "consumer": Health(2500, (f"{recreated} 1.3 s.",), 0, 9000, 9500).as_document(),
    }
    document["health"]["producer"]["hinted_elsewhere"] = {"broker 2 at b:1, not p:2": 3}
    assert times_table(document).notes[2] == (
        "Hints lead past the proxy: 3 hints that the producer followed named another address than"
        " Metadata, such as broker 2 at b:1, not p:2. It rewrites Metadata alone."
    )
    del document["health"]["producer"]["hinted_elsewhere"]
    assert times_table(document).notes == (
        f"{recreated} 1.2 s.",
        "Brokers throttled the producer for 1.5 s in all (quotas).",
        "Brokers throttled the consumer for 2.5 s in all (quotas).",
        "The consumer itself went on up to 9.0 ms late (p99; at most 9.5 ms): it had too much to "
        "do, or the machine had.",
    )
    del document["health"]  # of an older run
    assert times_table(document).notes == ()


def test_ctrl_c_is_the_end_of_a_run_that_lasts_until_then(ran: Any) -> None:
    document = ran(is_interrupted=True, watched=FOREVER)
    assert "ended" not in document
    records = document["records"]
    assert (records["acknowledged"], records["delivered"], records["missing"]) == (10, 10, 0)
    assert document["latency_ms"]["max"] == 3
    assert document["acknowledged_ms"]["max"] == 1
    whole = document["whole_run"]
    assert (whole["kept_from_seconds"], whole["late"]) == (0, 0)
    titles = [table.title for table in e2e_tables(document)]
    assert any(title.startswith("Moved leaders of the whole run") for title in titles)


def test_a_second_ctrl_c_does_not_wait_for_it(ran: Any) -> None:
    document = ran(is_interrupted=True, comes=6, again=True, watched=FOREVER)
    assert isinstance(document["ended"], InterruptedRunError)
    assert "of 10 records 10 were sent, 6 were read" in document["ended"].what
    assert document["records"]["missing"] is None


def test_that_it_ended_though_nobody_asked_it_to_is_told(ran: Any) -> None:
    document = ran(watched=FOREVER)
    assert isinstance(document["ended"], PartlyDoneError)
    assert "nobody asked it to. Of 10 records 10 are" in document["ended"].what


def test_a_run_with_an_end_that_is_watched_comes_to_the_same(ran: Any) -> None:
    document = ran(watched=WatchOptions(metrics=Address("127.0.0.1", 0)))
    assert "whole_run" not in document
    assert document["records"]["delivered"] == 10
