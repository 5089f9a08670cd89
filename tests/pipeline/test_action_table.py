"""Windows around actions, what was measured in them, and how long it took to recover."""

from collections.abc import Sequence
from typing import Any

import pytest
from frames import Row, action_frame, frame, part_of, rows_by
from pyspark.sql import SparkSession

from kipctl.pipeline.actions import WINDOWS, action_table
from kipctl.pipeline.redirects import failed_batches
from kipctl.trace.codes import PHASES

pytestmark = pytest.mark.spark

S = 1_000_000
ZERO: Row = {f"{phase}_us": 0 for phase in PHASES}


def table_of(
    spark: SparkSession,
    actions: list[Row],
    batches: list[Row],
    redirects: list[Row],
    reads: Sequence[Row] = (),
    **common: Any,
) -> dict[Any, Row]:
    """The table's rows by run and number."""
    done = action_frame(spark, actions, action="rotate", partitions=3)
    defaults: Row = {"records": 1, "seq_stride": 1, "error": 0, "warmup_records": 0}
    sent = frame(spark, "batches", batches, **{**defaults, "interval_ns": 0, **common})
    met: Row = {"api": "produce", **ZERO, "attempt": 1, "from_broker": 1, "from_epoch": 1}
    rows = frame(spark, "redirects", redirects, **met)
    read = frame(spark, "reads", reads)
    return rows_by(action_table(done, sent, failed_batches(rows, done), read), "run", "number")


def acked(at_us: int, latency_us: int = 10, **more: Any) -> Row:
    return {"intended_us": at_us - latency_us, "acked_us": at_us, "first_seq": at_us, **more}


def windows_of(row: Row, column: str) -> tuple[Any, ...]:
    return tuple(row[f"{window}_{column}"] for window in WINDOWS)


def test_a_rotation_is_measured_before_during_and_after(spark: SparkSession) -> None:
    called, answered, converged = 10 * S, 10 * S + 200_000, 10 * S + 300_000
    batches = [
        acked(8 * S - 1, records=100),  # too early
        acked(8 * S, records=8),
        acked(9 * S, latency_us=700, records=2),
        acked(called, latency_us=5000, records=3),  # the call begins its during
        acked(called + 100, latency_us=1, records=5, error=7),
        acked(called + 500_000, latency_us=400_000, records=1, client="c", first_seq=77),
        acked(called + 500_001, latency_us=90, records=40),
        acked(called + 2_500_000, records=10),
        acked(called + 2_500_001, records=1000),  # too late
        acked(20 * S),
    ]
    redirects = [{"first_seq": 77, "error": 6, "error_us": called + 100_000, "to_broker": 2}]
    action = {"number": 1, "called_us": called, "answered_us": answered, "converged_us": converged}
    [row] = table_of(spark, [action], batches, redirects).values()
    assert (
        part_of(
            row,
            expected := {
                "arm": "kip951",
                "action": "rotate",
                "called_us": called,
                "answered_us": answered,
                "partitions": 3,
                "error": None,
                "controller_us": 200_000,
                "convergence_us": 100_000,
                "redirected": 1,
                "recovery_us": 500_000,
            },
        )
        == expected
    )
    assert windows_of(row, "seconds") == (2.0, 0.500001, 2.0)
    assert windows_of(row, "records") == (10, 4, 50)
    assert windows_of(row, "failed") == (0, 5, 0)
    assert windows_of(row, "records_per_second") == (5.0, 8.0, 25.0)
    assert windows_of(row, "p99_us") == (700, 400_000, 90)
    assert not any(name.endswith(("_from_us", "_until_us")) for name in row)


def test_windows_end_where_the_next_action_or_the_run_does(spark: SparkSession) -> None:
    """Action 2 comes 1 s after the recovery from 1; 3 while 2 still hurts; then the run ends."""
    actions = [
        {"number": 1, "called_us": 1 * S, "answered_us": 1 * S + 100},
        {"number": 2, "called_us": 3 * S, "answered_us": 3 * S + 100},
        {"number": 3, "called_us": 4 * S, "answered_us": 4 * S + 100, "action": "restart:1"},
    ]
    batches = [
        acked(500_000),
        acked(2 * S - 1, first_seq=1),
        acked(5 * S, first_seq=2),
        acked(4 * S + 500_000, first_seq=3, error=7),  # given up
    ]
    redirects = [
        {"first_seq": 1, "error": 6, "error_us": S, "to_broker": 2},
        {"first_seq": 2, "error": 6, "error_us": 3 * S + 50, "to_broker": 2},
        # A restart cuts connections: no leader error, and yet it is the action's doing.
        {"first_seq": 3, "error": 13, "error_us": 4 * S + 20},
    ]
    found = table_of(spark, actions, batches, redirects)
    one, two, three = (found["r", number] for number in (1, 2, 3))
    assert windows_of(one, "seconds") == (1.0, 1.0, 1.0)
    assert windows_of(one, "records") == (1, 1, 0)
    # Recovery is told in full, the window that is measured ends with the next call.
    assert (two["recovery_us"], windows_of(two, "seconds")) == (2 * S, (1.0, 1.0, None))
    assert windows_of(three, "seconds") == (None, 0.500001, 0.5)
    assert (three["redirected"], three["recovery_us"]) == (0, 500_000)
    assert windows_of(three, "failed") == (None, 1, 0)
    assert windows_of(three, "records") == (None, 0, 1)
    assert windows_of(three, "p99_us") == (None, None, 10)


def test_what_did_not_happen_is_null_or_none(spark: SparkSession) -> None:
    """An action that was refused, in a run in which nobody was redirected; another run beside."""
    actions = [
        {"number": 1, "called_us": 2 * S, "error": "refused"},
        {"run": "other", "number": 1, "called_us": 3 * S, "answered_us": 3 * S + 7},
    ]
    batches = [acked(S), acked(4 * S), acked(3 * S, run="other")]
    found = table_of(spark, actions, batches, [])
    row = found["r", 1]
    assert row["error"] == "refused"
    assert (row["controller_us"], row["convergence_us"]) == (None, None)
    assert (row["redirected"], row["recovery_us"]) == (0, 0)
    assert windows_of(row, "seconds") == (2.0, None, 2.0)
    assert windows_of(row, "records") == (1, None, 0)
    other = found["other", 1]
    assert windows_of(other, "records") == (0, 1, None)


def test_the_warm_up_is_out_of_the_percentile_but_not_of_the_rate(spark: SparkSession) -> None:
    batches = [
        acked(S, latency_us=900_000, first_seq=0, records=10),
        acked(S + 1, latency_us=30, first_seq=10, records=1),
        acked(3 * S, first_seq=11),
    ]
    [row] = table_of(
        spark, [{"number": 1, "called_us": 2 * S}], batches, [], warmup_records=10
    ).values()
    assert (row["before_records"], row["before_p99_us"]) == (11, 30)


def test_a_consumer_has_what_it_read_and_when_the_last_fetch_recovered(
    spark: SparkSession,
) -> None:
    called = 10 * S
    reads: list[Row] = [
        {"time_us": 8 * S - 1, "records": 100},  # too early
        {"time_us": 8 * S, "records": 7},
        {"time_us": called, "records": 1},
        {"time_us": called + 300_000, "error": 74},
        {"time_us": called + 800_000, "records": 2},
        {"time_us": called + 900_000, "records": 30},
        {"time_us": called + 2_000_000, "records": 5},
    ]
    met = {"api": "fetch", "first_seq": 50, "error": 74, "error_us": called + 300_000}
    # It was sent 100 ms before the error, and read on 500 ms after it.
    phases = {"detect_us": 100_000, "backoff_us": 400_000, "acknowledge_us": 100_000}
    action = {"number": 1, "called_us": called, "answered_us": called + 10}
    [row] = table_of(spark, [action], [], [{**met, **phases, "to_broker": 2}], reads).values()
    assert (row["redirected"], row["recovery_us"]) == (1, 800_000)
    assert windows_of(row, "read") == (7, 3, 35)
    assert windows_of(row, "seconds") == (2.0, 0.800001, 1.2)
    assert windows_of(row, "records") == (0, 0, 0)


def test_two_fetches_from_one_offset_are_two(spark: SparkSession) -> None:
    """Nothing came between: the second began where the first did."""
    called = 10 * S
    redirects = [
        {"api": "fetch", "first_seq": 50, "error": 74, "error_us": at, "to_broker": 2}
        | {"attempt": attempt, "detect_us": 10}
        for at, attempt in ((called + 10, 1), (called + 20, 2), (called + 500, 1))
    ]
    action = {"number": 1, "called_us": called, "answered_us": called + 5}
    [row] = table_of(spark, [action], [], redirects, [{"time_us": called + 600}]).values()
    assert (row["redirected"], row["recovery_us"]) == (2, 500)
