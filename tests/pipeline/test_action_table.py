"""Windows around actions, what was measured in them, and how long it took to recover."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from frames import Row, action_frame, frame, rows_by
from pyspark.sql import SparkSession

from kipctl.pipeline.actions import WINDOWS, action_table
from kipctl.pipeline.redirects import failed_batches
from kipctl.trace.codes import PHASES

pytestmark = pytest.mark.spark

S = 1_000_000
CALLED = 10 * S
ZERO: Row = {f"{phase}_us": 0 for phase in PHASES}


@dataclass(frozen=True)
class Case:
    """What was recorded of a run, and what is expected of its actions, in turn.

    An expected tuple is that of the columns of the windows before, during and after.
    """

    actions: Sequence[Row]
    expected: Sequence[Row]
    batches: Sequence[Row] = ()
    redirects: Sequence[Row] = ()
    reads: Sequence[Row] = field(default=())


def action(called_us: int, answered_after_us: int | None = None, **more: Any) -> Row:
    answered = {"answered_us": called_us + answered_after_us} if answered_after_us else {}
    return {"called_us": called_us, **answered, **more}


def acked(at_us: int, latency_us: int = 10, **more: Any) -> Row:
    return {"intended_us": at_us - latency_us, "acked_us": at_us, "first_seq": at_us, **more}


CASES: dict[str, Case] = {
    "a rotation": Case(
        [action(CALLED, 200_000, converged_us=CALLED + 300_000)],
        [
            {
                "arm": "kip951",
                "action": "rotate",
                "called_us": CALLED,
                "answered_us": CALLED + 200_000,
                "partitions": 3,
                "error": None,
                "controller_us": 200_000,
                "convergence_us": 100_000,
                "redirected": 1,
                "recovery_us": 500_000,
                "seconds": (2.0, 0.500001, 2.0),
                "records": (10, 4, 50),
                "failed": (0, 5, 0),
                "records_per_second": (5.0, 8.0, 25.0),
                "latency_p99_us": (700, 400_000, 90),
            }
        ],
        [
            acked(8 * S - 1, records=100),  # too early
            acked(8 * S, records=8),
            acked(9 * S, latency_us=700, records=2),
            acked(CALLED, latency_us=5000, records=3),  # the call begins its during
            acked(CALLED + 100, latency_us=1, records=5, error=7),
            acked(CALLED + 500_000, latency_us=400_000, records=1, client="c", first_seq=77),
            acked(CALLED + 500_001, latency_us=90, records=40),
            acked(CALLED + 2_500_000, records=10),
            acked(CALLED + 2_500_001, records=1000),  # too late
            acked(20 * S),
        ],
        [{"first_seq": 77, "error": 6, "error_us": CALLED + 100_000, "to_broker": 2}],
    ),
    # Action 2 comes 1 s after the recovery from 1; 3 while 2 still hurts; then the run ends.
    "windows end where the next action or the run does": Case(
        [action(1 * S, 100), action(3 * S, 100), action(4 * S, 100, action="restart:1")],
        [
            {"seconds": (1.0, 1.0, 1.0), "records": (1, 1, 0)},
            # Recovery is told in full, the window that is measured ends with the next call.
            {"recovery_us": 2 * S, "seconds": (1.0, 1.0, None)},
            {
                "seconds": (None, 0.500001, 0.5),
                "redirected": 0,
                "recovery_us": 500_000,
                "failed": (None, 1, 0),
                "records": (None, 0, 1),
                "latency_p99_us": (None, None, 10),
            },
        ],
        [
            acked(500_000),
            acked(2 * S - 1, first_seq=1),
            acked(5 * S, first_seq=2),
            acked(4 * S + 500_000, first_seq=3, error=7),  # given up
        ],
        [
            {"first_seq": 1, "error": 6, "error_us": S, "to_broker": 2},
            {"first_seq": 2, "error": 6, "error_us": 3 * S + 50, "to_broker": 2},
            # A restart cuts connections: no leader error, and yet it is the action's doing.
            {"first_seq": 3, "error": 13, "error_us": 4 * S + 20},
        ],
    ),
    "an action that was refused, and nobody was redirected": Case(
        [action(2 * S, error="refused")],
        [
            {
                "error": "refused",
                "controller_us": None,
                "convergence_us": None,
                "redirected": 0,
                "recovery_us": 0,
                "seconds": (2.0, None, 2.0),
                "records": (1, None, 0),
            }
        ],
        [acked(S), acked(4 * S)],
    ),
    "a run with one batch": Case([action(3 * S, 7)], [{"records": (0, 1, None)}], [acked(3 * S)]),
    "the warm-up is out of the percentile but not of the rate": Case(
        [action(2 * S)],
        [{"before_records": 11, "before_latency_p99_us": 30}],
        [
            acked(S, latency_us=900_000, first_seq=0, records=10, warmup_records=10),
            acked(S + 1, latency_us=30, first_seq=10, records=1, warmup_records=10),
            acked(3 * S, first_seq=11, warmup_records=10),
        ],
    ),
    "a consumer has what it read, and when the last Fetch recovered": Case(
        [action(CALLED, 10)],
        [
            {
                "redirected": 1,
                "recovery_us": 800_000,
                "read": (7, 3, 35),
                "seconds": (2.0, 0.800001, 1.2),
                "records": (0, 0, 0),
            }
        ],
        # It was sent 100 ms before the error, and read on 500 ms after it.
        redirects=[
            {"api": "fetch", "first_seq": 50, "error": 74, "error_us": CALLED + 300_000}
            | {"detect_us": 100_000, "backoff_us": 400_000, "acknowledge_us": 100_000}
            | {"to_broker": 2}
        ],
        reads=[
            {"time_us": 8 * S - 1, "records": 100},  # too early
            {"time_us": 8 * S, "records": 7},
            {"time_us": CALLED, "records": 1},
            {"time_us": CALLED + 300_000, "error": 74},
            {"time_us": CALLED + 800_000, "records": 2},
            {"time_us": CALLED + 900_000, "records": 30},
            {"time_us": CALLED + 2_000_000, "records": 5},
        ],
    ),
    # Nothing came between: the second began where the first did.
    "two Fetches from one offset are two": Case(
        [action(CALLED, 5)],
        [{"redirected": 2, "recovery_us": 500}],
        redirects=[
            {"api": "fetch", "first_seq": 50, "error": 74, "error_us": at, "to_broker": 2}
            | {"attempt": attempt, "detect_us": 10}
            for at, attempt in ((CALLED + 10, 1), (CALLED + 20, 2), (CALLED + 500, 1))
        ],
        reads=[{"time_us": CALLED + 600}],
    ),
}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> dict[Any, Row]:
    """The rows by run and number: each case is a run."""

    def of_all(part: str) -> list[Row]:
        return [row | {"run": name} for name, case in CASES.items() for row in getattr(case, part)]

    numbered = [
        row | {"run": name, "number": number}
        for name, case in CASES.items()
        for number, row in enumerate(case.actions, 1)
    ]
    done = action_frame(spark, numbered, action="rotate", partitions=3)
    defaults: Row = {"records": 1, "seq_stride": 1, "error": 0, "warmup_records": 0}
    sent = frame(spark, "batches", of_all("batches"), **defaults, interval_ns=0)
    met: Row = {"api": "produce", **ZERO, "attempt": 1, "from_broker": 1, "from_epoch": 1}
    rows = frame(spark, "redirects", of_all("redirects"), **met)
    read = frame(spark, "reads", of_all("reads"))
    return rows_by(action_table(done, sent, failed_batches(rows, done), read), "run", "number")


@pytest.mark.parametrize("name", CASES)
def test_it_is_measured_before_during_and_after(table: dict[Any, Row], name: str) -> None:
    expected_of = dict(enumerate(CASES[name].expected, 1))
    assert {number for run, number in table if run == name} == set(expected_of)
    for number, expected in expected_of.items():
        row = table[name, number]
        shown = {
            column: tuple(row[f"{window}_{column}"] for window in WINDOWS)
            if isinstance(value, tuple)
            else row[column]
            for column, value in expected.items()
        }
        assert shown == expected
        assert not any(column.endswith(("_from_us", "_until_us")) for column in row)
