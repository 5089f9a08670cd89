"""What spoils a run, by table; and how the beginning of a run is told from its end."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import rows_of

from kipctl.machine import CpuTimes, busy_share, cpu_times
from kipctl.measure.distribution import Distribution, distribution_of
from kipctl.measure.doubts import MIN_MOVES, Observed, doubts, few_moves
from kipctl.measure.probe_results import ProbeResult
from kipctl.measure.producer_summary import service_times_at_ends
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.trace.columns import raw_path
from kipctl.transport.access import Access


def of_ms(ms: float, count: int = 1000) -> Distribution:
    return distribution_of(np.full(count, round(1000 * ms), dtype=np.int64))


GOOD = Observed(measured_p99_ms=20.0, loop_lag_ms=0.3, busy=0.6, moves=MIN_MOVES)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (GOOD, []),
        (replace(GOOD, loop_lag_ms=None, busy=None, moves=None), []),
        (replace(GOOD, loop_lag_ms=2.0), ["2.0 ms late"]),
        (replace(GOOD, loop_lag_ms=1.9), []),
        (replace(GOOD, loop_lag_ms=0.9, measured_p99_ms=1.0), []),
        (replace(GOOD, busy=0.97), ["97 % busy"]),
        (replace(GOOD, busy=0.9), []),
        (replace(GOOD, first=of_ms(137), last=of_ms(5)), ["fell from 137.0 to 5.0 ms"]),
        (replace(GOOD, first=of_ms(137), last=of_ms(5)), ["a run of 10 s that does not count"]),
        (replace(GOOD, first=of_ms(9), last=of_ms(5)), []),
        (replace(GOOD, first=of_ms(0.9), last=of_ms(0.2)), []),
        (replace(GOOD, first=of_ms(5), last=of_ms(137)), []),
        (replace(GOOD, first=of_ms(137, 99), last=of_ms(5)), []),
        (replace(GOOD, moves=3), ["Only 3 moved leaders"]),
        (replace(GOOD, moves=0), ["Only 0 moved leaders"]),
        # With acks=0 more moves, or partitions, would not help.
        (replace(GOOD, moves=0, is_answered=False), ["With acks=0 no answer refuses"]),
        (replace(GOOD, moves=None, is_answered=False), []),
        (replace(GOOD, moves=3, busy=1.0, loop_lag_ms=9.0), ["late", "busy", "Only 3"]),
    ],
)
def test_what_spoils_a_run_is_said(seen: Observed, words: list[str]) -> None:
    sentences = doubts(seen)
    assert len(sentences) == len(words)
    assert all(word in sentence for word, sentence in zip(words, sentences, strict=True))
    assert all("More: kipctl explain " in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("met", "named"),
    [
        ({"a": [20, 25], "b": [30, 20]}, None),
        ({}, None),
        # Together they met enough, and one run of them said little.
        ({"a": [90, 3, 90], "b": [30, 20, 40]}, "(a 90 | 3 | 90; 20 are wanted in each)"),
        ({"a": [19], "b": [0, 0]}, "(a 19; b 0 | 0; 20 are wanted in each)"),
    ],
)
def test_each_run_must_have_met_enough_moves(met: dict[str, list[int]], named: str | None) -> None:
    doubt = few_moves(met)
    assert doubt is None if named is None else named in str(doubt)


def test_the_first_fifth_stands_beside_the_last_two(tmp_path: Path) -> None:
    def batch(seq: int, service_us: int, error: int = 0) -> dict[str, int]:
        return {
            "first_seq": seq,
            "records": 1,
            "sent_us": 10,
            "acked_us": 10 + service_us,
            "error": error,
        }

    # 10 records of warm-up, then 100: 9 ms in the first fifth, 5 in the middle, 1 in the end.
    rows = [batch(seq, 1_000_000) for seq in range(10)]
    rows += [batch(10 + k, 9000 if k < 20 else 5000 if k < 60 else 1000) for k in range(100)]
    rows += [batch(15, 77_000, error=7)]
    raw_path(tmp_path, "batches").write_bytes(rows_of("batches", *rows).tobytes())
    spec = ProduceSpec(Access("localhost:1"), "t", num_records=110, warmup_records=10)
    nothing = {"topics": (), "endpoints": (), "errors": {}, "stopped": False, "cpu_s": None}
    times = {"start_us": 0, "wall_start_us": 0, "end_us": 0, "interval_ns": 0}
    counts = {"generated": 110, "acknowledged": 110, "failed": 0}
    outcome = ProduceOutcome(spec=spec, cluster_id=None, **nothing, **times, **counts)
    first, last = service_times_at_ends(outcome, [ProbeResult(outcome, tmp_path)])
    assert (first.values.tolist(), first.counts.tolist()) == ([9000], [20])
    assert (last.values.tolist(), last.counts.tolist()) == ([1000], [40])


def test_how_busy_a_machine_was_is_what_its_cores_used() -> None:
    assert busy_share(CpuTimes(100, 1000), CpuTimes(190, 1100)) == 0.9
    assert busy_share(CpuTimes(100, 1000), CpuTimes(100, 1000)) is None
    assert busy_share(None, CpuTimes(1, 2)) is None
    now = cpu_times()
    assert now is None or 0 < now.busy <= now.total
