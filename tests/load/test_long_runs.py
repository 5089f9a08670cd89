"""What a run came to is computed in memory that does not grow with the length of the run."""

import os
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from trace_rows import table_of

from kipctl.load.e2e import follow
from kipctl.load.read_to_end import acknowledged_ends, await_offsets
from kipctl.measure import consumer_summary, distribution, producer_summary
from kipctl.measure.delivery import match_delivery
from kipctl.measure.export import record_batches
from kipctl.measure.outcomes import combined_outcome, salvaged_outcome
from kipctl.measure.probe_results import ProbeResult, rows_of_probes
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.protocol.api import ApiKey
from kipctl.trace import rows as trace_rows
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import IntRows, RowReader
from kipctl.trace.run_start import RunStart
from kipctl.trace.store import Run
from kipctl.transport.access import Access

BEGUN = RunStart("h", 5_000_000, 1_700_000_000_000_000)
PARTITIONS = 4
FEW_ROWS = 100
"""That are read at once, so that a run of some thousand is a long one."""

Written = tuple[ProbeResult[ProduceOutcome], ...]
Read = tuple[ProbeResult[ConsumeOutcome], ...]
Evaluate = Callable[[Written, Read], None]


@pytest.fixture(autouse=True)
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_rows, "CHUNK_ROWS", FEW_ROWS)
    monkeypatch.setattr(distribution, "_MOST_NEW", FEW_ROWS)


def write(directory: Path, dataset: str, rows: int, **columns: object) -> None:
    directory.mkdir(exist_ok=True)
    table_of(dataset, rows, **columns).tofile(raw_path(directory, dataset))


def run_of(directory: Path, records: int, lag: int = 3000) -> tuple[Written, Read]:
    """Two producers' batches of one record each, and what a consumer got: all of it.

    One record a millisecond; each is acknowledged 2 ms after its time, and read after `lag` us.
    """
    directory.mkdir()
    seq = np.arange(records)
    spec = ProduceSpec(Access("h:1"), "t", records, throughput=1000)
    written = []
    for worker in range(2):
        folder = directory / str(worker)
        own = seq[worker::2]
        sent = BEGUN.start_us + own * 1000
        write(
            folder,
            "batches",
            len(own),
            partition=own % PARTITIONS,
            first_seq=own,
            seq_stride=1,
            records=1,
            bytes=100,
            intended_us=sent,
            sent_us=sent,
            acked_us=sent + 2000,
            base_offset=own // PARTITIONS,
        )
        write(folder, "rpcs", len(own), sent_us=sent, received_us=sent + 2000)
        write(folder, "redirects", 0)
        written.append(ProbeResult(salvaged_outcome(spec, BEGUN, folder, ""), folder))
    folder = directory / "reader"
    sent = BEGUN.start_us + seq * 1000
    write(
        folder,
        "reads",
        records,
        partition=seq % PARTITIONS,
        broker=1,
        broker_rack=-1,
        preferred_read_replica=-1,
        records=1,
        bytes=100,
        fetch_offset=seq // PARTITIONS,
        next_offset=seq // PARTITIONS + 1,
        range_case=-1,
        range_handling=-1,
        time_us=sent + lag,
    )
    write(folder, "rpcs", records, api_key=ApiKey.FETCH, sent_us=sent, received_us=sent + lag)
    write(folder, "redirects", 0)
    read = salvaged_outcome(ConsumeSpec(Access("h:1"), "t", records), BEGUN, folder, "")
    return tuple(written), (ProbeResult(read, folder),)


def outcome_of(written: Written) -> ProduceOutcome:
    spec = written[0].outcome.spec
    return combined_outcome(spec, [part.outcome for part in written], BEGUN.start_us)


def produced(written: Written, read: Read) -> None:
    run = producer_summary.measured_produce(outcome_of(written), written)
    assert run.times.latency.values.tolist() == [2000]
    producer_summary.summarize_produce(run, [], None)


def consumed(written: Written, read: Read) -> None:
    run = consumer_summary.measured_consume(read[0].outcome, read)
    document = consumer_summary.summarize_consume(run, [], None)
    assert document["fetches"]["partitions_with_records"] == run.outcome.records


def followed(written: Written, read: Read) -> None:
    outcome = outcome_of(written)
    delivery = follow(outcome, written, read[0].outcome, read)
    assert (delivery.delivered, delivery.missing) == (outcome.acknowledged, 0)
    assert len(delivery.times.latency.values) == 1


def waited_for(written: Written, read: Read) -> None:
    class Reader:
        reads = RowReader(raw_path(read[0].directory, "reads"), len(COLUMNS["reads"]))

        def new_rows(self, dataset: str) -> IntRows:
            return self.reads.new_rows()

        def is_done_by(self, time_us: int) -> bool:
            return False

    await_offsets(Reader(), acknowledged_ends(written), quiet_s=60)


def recorded(written: Written, read: Read) -> None:
    run = Run.create(read[0].directory / "run")
    for part in (*written, *read):
        for dataset in part.outcome.datasets:
            run.write(dataset, record_batches(part.outcome, part.directory, dataset))


def both_salvaged(written: Written, read: Read) -> None:
    for part in (*written, *read):
        salvaged_outcome(part.outcome.spec, BEGUN, part.directory, "")


def followed_to_its_death(written: Written, read: Read) -> None:
    """The consumer died when it had read a tenth."""
    outcome = outcome_of(written)
    path, width = raw_path(read[0].directory, "reads"), len(COLUMNS["reads"])
    os.truncate(path, outcome.acknowledged // 10 * width * 8)
    delivery = follow(outcome, written, read[0].outcome, read)
    assert delivery.missing == outcome.acknowledged - outcome.acknowledged // 10


def followed_among_others(written: Written, read: Read) -> None:
    """Each answer also brought a record of somebody else's."""
    outcome = written[0].outcome
    batches = partial(rows_of_probes, written[:1], "batches", BEGUN.start_us)
    reads = partial(rows_of_probes, read, "reads", BEGUN.start_us)
    delivery = match_delivery(batches, reads, BEGUN.start_us, 10**6, late_us=1_000_000)
    assert (delivery.delivered, delivery.missing) == (outcome.acknowledged, 0)
    assert delivery.extra == outcome.acknowledged


@pytest.mark.parametrize("lag", [3000, 10**9], ids=["read at once", "read later"])
@pytest.mark.parametrize(
    "evaluate",
    [produced, consumed, followed, followed_to_its_death, waited_for, recorded, both_salvaged],
)
def test_memory_does_not_grow_with_the_length_of_the_run(
    evaluate: Evaluate, lag: int, tmp_path: Path
) -> None:
    assert_bounded(evaluate, lag, tmp_path)


def test_nor_does_it_with_what_others_produce(tmp_path: Path) -> None:
    """A consumer that keeps up: of one that lags behind, what others produced is kept that long."""
    assert_bounded(followed_among_others, 3000, tmp_path)


def assert_bounded(evaluate: Evaluate, lag: int, folder: Path) -> None:
    """Three times the rows do not take half as much again."""

    def peak(records: int, name: str) -> int:
        parts = run_of(folder / name, records, lag)
        tracemalloc.start()
        try:
            evaluate(*parts)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(400, "first")  # what is made once: modules, caches
    most = 1.5 * peak(3000, "short")
    # One of two: other threads of the process, of tests before, are counted too.
    assert any(peak(9000, name) < most for name in ("long", "long again"))
