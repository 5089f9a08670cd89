"""What a run comes to: percentiles against brute force, redirects and Metadata requests counted."""

import math
import tracemalloc

import numpy as np
import pytest
from campaigns import as_many, campaign, chance
from hypothesis import given
from hypothesis import strategies as st
from rows import rows_of
from trace_rows import random_batches

from kipctl.measure.client_totals import ClientTotals, met_in
from kipctl.measure.distribution import distribution
from kipctl.measure.moves import moves, moves_document
from kipctl.measure.producer_summary import interval_line, kafka_line, record_times
from kipctl.probe.schedule import Schedule
from kipctl.trace.codes import PHASES, Decision, MetadataCause
from kipctl.trace.columns import BATCH_COLUMNS
from kipctl.trace.rows import IntRows


def brute_force_quantile(values: list[int], q: float) -> int:
    """Nearest rank: the least value that at least q of all do not exceed."""
    return sorted(values)[max(1, math.ceil(round(q * len(values), 6))) - 1]


@campaign
def test_weighted_quantiles_are_those_of_the_values_written_out() -> None:
    choose = chance("weighted quantiles")
    for _ in range(as_many(20, 5000)):
        parts = [
            (choose.randrange(500), choose.randint(1, 9)) for _ in range(choose.randint(1, 300))
        ]
        cut = choose.randrange(len(parts) + 1)
        arrays = [np.array(part, np.int64).reshape(-1, 2) for part in (parts[:cut], parts[cut:])]
        spread = distribution((array[:, 0], array[:, 1]) for array in arrays)
        written_out = [value for value, count in parts for _ in range(count)]
        assert spread.total == len(written_out)
        assert spread.mean() == pytest.approx(sum(written_out) / len(written_out))
        assert spread.as_ms()["mean"] == round(spread.mean() / 1000, 4)
        for q in (0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1):
            assert spread.quantile(q) == brute_force_quantile(written_out, q)


def test_nothing_measured_is_zero_everywhere() -> None:
    empty = distribution([])
    shown = empty.as_ms()
    assert set(shown) == {"mean", "p50", "p95", "p99", "p999", "max"}
    assert set(shown.values()) == {0.0}
    times = record_times([], 0, 1000)
    assert times.latency.total == times.bytes == times.first_us == times.last_us == 0
    assert times.longest is None
    assert times.seconds > 0


@campaign
@pytest.mark.parametrize("rate", [1000, 3333.3, -1])
@pytest.mark.parametrize("skip", [0, 1, 7, 250, 10**9])
def test_latencies_of_records_are_those_computed_one_by_one(rate: float, skip: int) -> None:
    """Whatever the stride, and where the warm-up ends in the middle of a batch."""
    choose = chance(f"runs of {rate} after {skip}")
    for _ in range(as_many(1, 100)):
        schedule = Schedule(5_000_000, 10**9, rate)
        batches = random_batches(choose, schedule)
        records = [
            (batch, schedule.intended_us(seq) if schedule.throttled else batch["intended_us"])
            for batch in batches
            for k in range(batch["records"])
            if (seq := batch["first_seq"] + k * batch["seq_stride"]) >= skip and not batch["error"]
        ]
        latencies = [batch["acked_us"] - at_us for batch, at_us in records]
        services = [batch["acked_us"] - batch["sent_us"] for batch, _ in records]
        # In files of many rows the batches come in pieces.
        pieces = [rows_of("batches", *batches[at : at + 4]) for at in range(0, len(batches), 4)]
        times = record_times(pieces, schedule.start_us, schedule.interval_ns, skip)
        for spread, expected in ((times.latency, latencies), (times.service, services)):
            assert spread.total == len(expected)
            if expected:
                for q in (0.5, 0.95, 0.99, 0.999):
                    assert spread.quantile(q) == brute_force_quantile(expected, q)
                assert spread.mean() == pytest.approx(sum(expected) / len(expected))
                assert spread.values[-1] == max(expected)
        assert times.bytes == 100 * len(records)
        if records:
            assert times.first_us == min(at_us for _, at_us in records)
            assert times.last_us == max(batch["acked_us"] for batch, _ in records)
            assert times.longest is not None
            assert times.longest.latency_us == max(latencies)
            each = [(b["acked_us"] - at_us, at_us, b["partition"]) for b, at_us in records]
            assert times.longest in each


def redirect_rows(*rows: dict[str, int]) -> IntRows:
    default = {"attempt": 1, "error": 6, "base_offset": -1, "decision": Decision.ABSENT}
    return rows_of("redirects", *rows, **default)


def test_two_fetches_from_one_offset_are_two() -> None:
    once = {"first_seq": 10, "backoff_us": 20_000}
    redirects = met_in(redirect_rows(once, {**once, "attempt": 2}, once)).redirects
    assert (redirects["batches"], redirects["errors"]) == (2, 3)
    assert redirects["client_share_ms"] == {"p50": 20.0, "p99": 40.0, "sum": 60.0}


def test_redirects_are_counted_by_batch_and_by_error() -> None:
    redirects = met_in(
        redirect_rows(
            # A batch refused twice, the second time by a leader that did not know yet.
            {"first_seq": 1, "attempt": 1, "decision": Decision.FOLLOWED, "detect_us": 400},
            {
                "first_seq": 1,
                "attempt": 2,
                "decision": Decision.STALE,
                "not_ready_us": 600,
                "backoff_us": 100_000,
                "same_epoch_retry": 1,
                "acknowledge_us": 2000,
            },
            # The same number in another partition is another batch.
            {"first_seq": 1, "partition": 1, "base_offset": 17, "metadata_us": 30_000},
            {"first_seq": 5, "error": 74, "decision": Decision.UNKNOWN_NODE},
            # It lost its connection first: a redirect with all its phases.
            {
                "first_seq": 9,
                "error": 13,
                "decision": Decision.NOT_APPLICABLE,
                "backoff_us": 50_000,
            },
            {"first_seq": 9, "attempt": 2, "decision": Decision.IGNORED},
            # In a form that no client reads: as if there were none, but counted.
            {"first_seq": 12, "decision": Decision.DRAFT},
            # Never told of another leader: none.
            {
                "first_seq": 11,
                "error": 13,
                "decision": Decision.NOT_APPLICABLE,
                "backoff_us": 70_000,
                "base_offset": 3,
            },
        )
    ).redirects
    assert redirects["batches"] == 5
    assert redirects["errors"] == 6
    assert redirects["appended_then_failed"] == 1
    assert redirects["same_epoch_retries"] == 1
    assert redirects["hints"] == {
        "present": 4,
        "absent": 1,
        "followed": 1,
        "known": 0,
        "stale": 1,
        "unknown_node": 1,
        "ignored": 1,
        "draft": 1,
        "same_epoch": 0,
        "refuser": 0,
        "other_endpoint": 0,
    }
    phases_ms = redirects["phases_ms"]
    assert tuple(phases_ms) == PHASES
    assert phases_ms["backoff"] == {"p50": 0.0, "p99": 100.0, "sum": 150.0}
    assert phases_ms["metadata"] == {"p50": 0.0, "p99": 30.0, "sum": 30.0}
    assert phases_ms["not_ready"]["sum"] == 0.6
    assert phases_ms["acknowledge"]["sum"] == 2.0
    assert phases_ms["detect"]["p99"] == 0.4
    # Backoff and metadata together are what a client can save, batch by batch.
    assert redirects["client_share_ms"] == {"p50": 30.0, "p99": 100.0, "sum": 180.0}


@given(st.data())
def test_it_does_not_matter_in_how_many_pieces_rows_are_read(data: st.DataObject) -> None:
    batches = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1)), max_size=12))
    rows = redirect_rows(
        *(
            {
                "attempt": attempt,
                "error": data.draw(st.sampled_from([6, 6, 74, 13])),
                "partition": partition,
                "from_epoch": 1,
                "to_epoch": data.draw(st.integers(1, 3)),
                "not_ready_us": data.draw(st.sampled_from([0, 0, 50])),
                "backoff_us": data.draw(st.integers(0, 9_999_999)),
                "metadata_us": data.draw(st.integers(0, 99_999)),
            }
            for attempts, partition in batches
            for attempt in range(1, attempts + 1)
        )
    )
    whole = met_in(rows)
    pieces = ClientTotals(exact=True)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    for piece in np.split(rows, cuts):
        if len(piece):  # of a file that ends nothing more is read
            pieces.add_redirects(piece)
    assert pieces.finish().redirects == whole.redirects
    assert whole.redirects["moves"] == moves_document([moves(rows)])


def test_a_run_without_redirects_has_every_number_as_zero() -> None:
    redirects = met_in(redirect_rows()).redirects
    assert redirects["batches"] == redirects["errors"] == redirects["appended_then_failed"] == 0
    assert set(redirects["hints"].values()) == {0}
    assert all(set(shown.values()) == {0.0} for shown in redirects["phases_ms"].values())
    assert set(redirects["client_share_ms"].values()) == {0.0}


def test_metadata_requests_are_counted_by_cause() -> None:
    calls: list[dict[str, int]] = [
        {"api_key": 3, "cause": MetadataCause.START},
        {
            "api_key": 3,
            "cause": MetadataCause.LEADER_CHANGE,
            "critical": 1,
            "queued_behind": 2,
            "queued_behind_us": 7000,
        },
        {"api_key": 3, "cause": MetadataCause.LEADER_CHANGE},
        {"api_key": 0, "cause": -1, "request_bytes": 10**6},
    ]
    rpcs = rows_of("rpcs", *calls, request_bytes=10, response_bytes=100)
    assert met_in(redirect_rows(), rpcs).metadata_rpcs == {
        "total": 3,
        "on_critical_path": 1,
        "bytes": 330,
        "queued_behind": {"requests": 1, "wait_ms": {"p50": 7.0, "max": 7.0}},
        "by_cause": {"leader_change": 2, "start": 1},
    }


def test_the_last_line_is_the_one_of_kafkas_own_tool() -> None:
    batch = {"records": 4, "seq_stride": 1, "bytes": 4_000_000, "sent_us": 10, "intended_us": 1}
    rows = rows_of("batches", {**batch, "acked_us": 2_000_000})
    times = record_times([rows], 0, 1_000_000)
    assert kafka_line(times) == (
        "4 records sent, 2.000000 records/sec (1.91 MB/sec), 1998.50 ms avg latency, "
        "2000.00 ms max latency, 1998 ms 50th, 2000 ms 95th, 2000 ms 99th, 2000 ms 99.9th."
    )
    assert " steady state records sent, " in kafka_line(times, " steady state")
    assert interval_line(times, 5.0) == (
        "4 records sent, 0.8 records/sec (0.76 MB/sec), 1998.5 ms avg latency, "
        "2000.0 ms max latency."
    )


def test_the_times_of_many_records_take_little_memory() -> None:
    """Of 6 million records in large batches, with 200 different times."""
    size, batches = 150, 20_000
    count = np.arange(batches)
    rows = np.zeros((batches, len(BATCH_COLUMNS)), dtype=np.int64)
    for name, values in {
        "first_seq": count * size,
        "seq_stride": 1,
        "records": size,
        "bytes": size,
        "sent_us": count * size,
        "acked_us": (count + 1) * size + count % 50,
    }.items():
        rows[:, BATCH_COLUMNS.index(name)] = values
    tracemalloc.start()
    times = record_times([rows, rows], 0, 1_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert times.latency.total == 2 * size * batches
    assert len(times.latency.values) == size + 49
    assert peak < 120e6
