"""What rows of a tap come to, and when two arms are called different."""

import pytest
from redirect_runs import batch, figures, measured_runs
from trace_rows import table

from kipctl.experiments.arms.differ import adjusted, differing
from kipctl.experiments.arms.figures import pooled, records_within, removable_us, service


def test_service_time_counts_from_the_first_send_and_leaves_out_warm_up_and_failures() -> None:
    rows = table(
        "batches",
        batch(0, 0, 10, sent_us=1),
        batch(2, 100, 20, sent_us=105),
        batch(4, 200, 30, sent_us=201, error=6),
    )
    times = service(rows, 2)
    assert (times.values.tolist(), times.counts.tolist()) == ([15], [2])


def test_the_warm_up_of_a_client_of_its_own_rate_is_what_it_sent_in_that_time() -> None:
    rows = table("batches", batch(0, 50, 60), batch(2, 1_000_049, 70), batch(4, 1_000_050, 80))
    assert records_within(rows, 1.0) == 4
    assert records_within(rows, 0.0) == 0
    assert records_within(table("batches"), 1.0) == 0


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


def test_runs_together_have_the_records_of_all_and_their_moves_stay_apart() -> None:
    slow, quick = measured_runs([100, 102, 104], [1, 2, 3])
    assert (slow.move_wait_ms, quick.move_wait_ms) == (102, 2)
    both = pooled([slow, quick])
    assert both.as_document()["redirects"]["moves"]["met"] == 6
    assert both.acknowledged == slow.acknowledged + quick.acknowledged
    assert both.latency.total == slow.latency.total + quick.latency.total
    assert figures(table("batches", batch(0, 0, 10))).move_wait_ms is None


def test_arms_that_never_meet_are_different_and_the_cut_is_of_the_first() -> None:
    difference = differing([100.0, 102.0, 104.0], [0.4, 0.5, 0.6])
    assert difference.without == pytest.approx(102, rel=1e-3)
    assert difference.with_it == pytest.approx(0.5, rel=0.02)
    assert difference.verdict.is_different is True
    assert difference.cut_percent == pytest.approx(99.5, abs=0.1)
    document = difference.as_document("a", "b", "p99", "p99")
    assert document["different"] is True
    assert document["ratio_interval"]
    assert document["ratio_interval"][1] < 0.05
    assert document["with_ms_by_run"] == [0.4, 0.5, 0.6]


def test_an_arm_is_not_told_apart_from_itself_nor_by_runs_that_vary_as_much() -> None:
    difference = differing([100.0, 102.0, 104.0], [104.0, 100.0, 102.0])
    assert difference.cut_percent == pytest.approx(0)
    assert difference.verdict.text == "not different"
    assert differing([300.0, 100.0, 110.0], [90.0, 90.0, 90.0]).verdict.is_different is False


@pytest.mark.parametrize(
    ("without", "with_it"), [([100.0], [1.0]), ([100.0] * 3, [1.0, None, 1.0]), ([], [])]
)
def test_too_little_cannot_be_told(
    without: list[float | None], with_it: list[float | None]
) -> None:
    difference = differing(without, with_it)
    assert difference.verdict.is_different is None
    assert difference.verdict.text.startswith("cannot be told")


def test_what_is_asked_at_once_is_adjusted() -> None:
    difference = differing([100.0, 102.0, 104.0], [90.0, 91.0, 93.0])
    assert difference.verdict.is_different is True
    p_value = difference.verdict.p_value
    assert p_value is not None
    many = adjusted([difference] * 10)
    assert many[0].verdict.adjusted == pytest.approx(10 * p_value)
