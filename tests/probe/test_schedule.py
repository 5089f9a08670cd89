"""The open loop: intended times and what is due, without drift at any rate."""

import random

import pytest

from kipctl.probe.schedule import Schedule

RATES = [0.1, 1, 3, 7, 60, 999, 1000, 5000, 33_333.3, 123_456, 300_000, 1_000_000, 3_000_000]


@pytest.mark.parametrize("rate", RATES)
def test_what_is_due_and_what_is_intended_agree_to_the_microsecond(rate: float) -> None:
    schedule = Schedule(7_000_000, 10**9, rate)
    choose = random.Random(rate)
    for n in (0, 1, 2, 999, *(choose.randrange(10**8) for _ in range(300))):
        intended = schedule.intended_us(n)
        assert schedule.due(intended) >= n + 1
        assert schedule.due(intended - 1) <= n


@pytest.mark.parametrize(
    ("rate", "seq", "intended_us"),
    [(1000, 5, 5_000), (5000, 1, 200), (3, 3, 999_999), (0.5, 3, 6_000_000), (1_000_000, 123, 123)],
)
def test_a_record_is_intended_for_start_plus_its_number_over_the_rate(
    rate: float, seq: int, intended_us: int
) -> None:
    assert Schedule(10, 1000, rate).intended_us(seq) == 10 + intended_us


@pytest.mark.parametrize("rate", [rate for rate in RATES if rate <= 10_000])
def test_an_hour_of_an_odd_rate_drifts_by_less_than_a_record(rate: float) -> None:
    schedule = Schedule(0, 10**9, rate)
    seq = int(3600 * rate)
    assert abs(schedule.intended_us(seq) - seq / rate * 1e6) < 1e6 / rate


def test_nothing_is_due_before_the_start_and_no_more_than_there_is_at_the_end() -> None:
    schedule = Schedule(1000, 3, 1000)
    assert [schedule.due(now) for now in (0, 999, 1000, 1999, 2000, 3000)] == [0, 0, 1, 1, 2, 3]
    assert schedule.due(10**12) == 3


@pytest.mark.parametrize("rate", [-1, 0, float("inf"), 1e12])
def test_without_a_rate_that_leaves_an_interval_it_is_unthrottled(rate: float) -> None:
    schedule = Schedule(0, 10, rate)
    assert not schedule.throttled
    assert schedule.interval_ns == 0
