"""What rows of a tap come to, and when two arms are called different."""

import math

import numpy as np
import pytest
from redirect_runs import SECOND, batch, felt_runs, figures, table

from kipctl.experiments.arms.differ import RUN_LEVEL, differing, runs_apart
from kipctl.experiments.arms.figures import LEAD_US, in_windows, removable_us, service, together


def test_a_window_begins_just_before_an_action_and_the_first_has_the_quiet_beginning() -> None:
    rows = table(
        "batches",
        batch(0, 0, 10),
        batch(2, 1 * SECOND, 20),
        batch(4, 4 * SECOND - LEAD_US - 1, 30),
        batch(6, 4 * SECOND - LEAD_US, 40),
        batch(8, 5 * SECOND, 50, error=6),
        batch(10, 9 * SECOND, 60),
    )
    assert in_windows(rows, 2, [2 * SECOND, 4 * SECOND, 6 * SECOND]).tolist() == [
        [0, 20, 2],
        [0, 30, 2],
        [1, 40, 2],
        [2, 60, 2],
    ]


def test_service_time_counts_from_the_first_send_and_leaves_out_warm_up_and_failures() -> None:
    rows = table(
        "batches",
        batch(0, 0, 10, sent_us=1),
        batch(2, 100, 20, sent_us=105),
        batch(4, 200, 30, sent_us=201, error=6),
    )
    found = service(rows, 2)
    assert (found.values.tolist(), found.counts.tolist()) == ([15], [2])


def test_without_actions_a_window_is_a_second() -> None:
    rows = table("batches", batch(0, 999_999, 10), batch(2, 1_000_000, 20))
    assert in_windows(rows, 0, []).tolist() == [[0, 10, 2], [1, 20, 2]]


def test_what_a_hint_could_take_away_is_the_waiting_and_the_second_refusal() -> None:
    first = {"attempt": 1, "error": 6, "queued_us": 1, "detect_us": 10, "backoff_us": 100}
    second = {"attempt": 2, "error": 6, "detect_us": 20, "metadata_us": 300, "acknowledge_us": 5}
    lost_connection = {"attempt": 1, "error": -1, "backoff_us": 5000, "acknowledge_us": 7}
    new_leader_late = {"attempt": 1, "error": 6, "detect_us": 2, "not_ready_us": 60}
    assert removable_us(table("redirects", first, second, lost_connection)) == (420, 436)
    assert removable_us(table("redirects", lost_connection, new_leader_late)) == (0, 62)
    assert removable_us(table("redirects")) == (0, 0)


def test_records_of_failed_batches_are_counted_by_error_and_have_no_latency() -> None:
    run = figures(table("batches", batch(0, 5, 10), batch(2, 6, 90, error=7), batch(4, 7, 30)))
    assert run.acknowledged == 4
    assert run.failed == {"REQUEST_TIMED_OUT": 2}
    assert run.latency.values.tolist() == [10, 30]
    assert run.seconds == pytest.approx(91e-6)
    assert run.as_document()["records"] == {
        "acknowledged": 4,
        "failed": 2,
        "errors": {"REQUEST_TIMED_OUT": 2},
    }


def test_runs_together_have_the_records_of_all() -> None:
    run = figures(table("batches", batch(0, 0, 10), batch(2, 6, 90)))
    both = together([run, run])
    assert both.acknowledged == 2 * run.acknowledged
    assert both.latency.counts.tolist() == [4, 4]


SLOW = ([101, 103, 108], [104, 102, 107], [105, 101, 106])
QUICK = ([41, 47, 52], [44, 50, 59], [42, 58, 45])


def test_arms_that_never_meet_are_different_and_the_cut_is_of_the_first() -> None:
    found = differing(felt_runs(*SLOW), felt_runs(*QUICK))
    assert (found.without, found.with_it) == (108, 59)
    assert found.without_by_run == (108, 107, 106)
    assert found.runs_overlap is False
    assert found.is_different is True
    assert found.cut_percent == pytest.approx(100 * 49 / 108)
    assert found.as_document()["interval_ms"][1] < 0


def test_an_arm_is_not_told_apart_from_itself() -> None:
    found = differing(felt_runs(*SLOW), felt_runs(*reversed(SLOW)))
    assert found.cut_percent == 0
    assert (found.is_different, found.verdict) == (False, "not different")


def test_one_run_among_those_of_the_other_arm_is_enough_to_doubt() -> None:
    always = [108, 108, 108]
    found = differing(felt_runs(always, always, [106] * 3), felt_runs(*[[106] * 3] * 3))
    assert found.difference.is_real
    assert found.runs_overlap is True
    assert (found.is_different, found.verdict) == (False, "single runs overlap")


def test_runs_that_vary_as_much_as_they_are_apart_are_doubted() -> None:
    found = differing(felt_runs([300] * 3, [100] * 3, [110] * 3), felt_runs(*[[90] * 3] * 3))
    assert found.difference.is_real
    assert found.runs_overlap is False
    assert (found.is_different, found.verdict) == (False, "runs vary too much")


@pytest.mark.parametrize(
    ("a", "b", "p_value"),
    [
        ((math.e, math.e**2, math.e**3), (math.e**5, math.e**6, math.e**7), 0.00805),  # t = 4.899
        ((5.0, 5.0), (5.0, 5.0), 1),
        ((5.0, 5.0), (6.0, 6.0), 0),
        ((5.0,), (6.0, 7.0), None),
        ((0.0, 5.0), (6.0, 7.0), None),
    ],
)
def test_runs_are_held_against_one_another_by_a_t_test_on_logarithms(
    a: tuple[float, ...], b: tuple[float, ...], p_value: float | None
) -> None:
    assert runs_apart(a, b) == pytest.approx(p_value, abs=1e-5)


def test_runs_of_one_arm_are_rarely_called_apart_however_much_a_whole_run_is_moved() -> None:
    chance = np.random.default_rng(7)
    p_values = [
        runs_apart(*(np.exp(chance.normal(5, 0.5, 3)).tolist() for _ in "ab")) for _ in range(4000)
    ]
    called = sum(p is not None and p < RUN_LEVEL for p in p_values) / len(p_values)
    assert 0.5 * RUN_LEVEL < called < 1.5 * RUN_LEVEL


def test_of_few_windows_nothing_is_said() -> None:
    found = differing(felt_runs([101, 103, 108]), felt_runs([41, 47, 52]))
    assert found.runs_overlap is None
    assert (found.is_different, found.verdict) == (None, "too little to tell")
