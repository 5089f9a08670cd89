"""`--since` and `--before` in every form, and the conditions they become."""

import pytest

from kipctl.errors import UsageError
from kipctl.pipeline.period import Moment, parse_period

NOON_US = 1_769_860_800_000_000
"""2026-01-31, noon, UTC."""


@pytest.mark.parametrize("text", ["99999999999999999d", "36525d1ms", "9" * 400 + "s"])
def test_a_duration_that_no_trace_has(text: str) -> None:
    with pytest.raises(UsageError, match="a century at most"):
        parse_period(text, None)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("10s", "10s"),
        ("1m", "59s"),
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00", "2026-01-31T12:30:00+01:00"),
    ],
)
def test_a_period_in_which_nothing_can_be(since: str, until: str) -> None:
    with pytest.raises(UsageError, match="is not earlier than --before"):
        parse_period(since, until)


def test_a_time_and_a_duration_cannot_be_told_apart_before_a_start_is_known() -> None:
    assert parse_period("2026-01-31T12:00:00", "10s").before == Moment(10_000_000, False)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("10s", Moment(10_000_000, False)),
        ("2026-01-31T12:00:00", Moment(NOON_US, True)),
        ("2026-01-31 12:00", Moment(NOON_US, True)),
        ("2026-01-31T12:00:00Z", Moment(NOON_US, True)),
        ("2026-01-31T13:00:00+01:00", Moment(NOON_US, True)),
        ("2026-01-31T12:00:00.25", Moment(NOON_US + 250_000, True)),
    ],
)
def test_moments(text: str, moment: Moment) -> None:
    assert parse_period(text, None).since == moment
    assert parse_period(None, text).before == moment


@pytest.mark.parametrize("text", ["noon", "12:00", "2026-13-01", "10s ago"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(UsageError, match="--before"):
        parse_period(None, text)


def test_conditions_count_from_the_start() -> None:
    assert parse_period(None, None).condition("t", NOON_US) == "true"
    assert parse_period("1s", None).condition("t", NOON_US) == "t >= 1000000L"
    both = parse_period("2026-01-31T12:00:01", "2026-01-31T12:00:03")
    assert both.condition("t", NOON_US) == "t >= 1000000L and t < 3000000L"
    assert both.condition("t", 0) == f"t >= {NOON_US + 1_000_000}L and t < {NOON_US + 3_000_000}L"
