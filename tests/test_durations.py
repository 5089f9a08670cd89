"""Durations are written one way everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipctl.durations import Duration
from kipctl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1.5m", 90),
        ("2h", 7200),
        (" 1s ", 1),
        ("0.5s", 0.5),
        ("500ms", 0.5),
        ("1m30s", 90),
        ("1d", 86400),
        ("0s", 0),
        ("0", 0),
        ("5", 5),
        ("2.5", 2.5),
        ("20us", 0.00002),
    ],
)
def test_what_a_duration_says(text: str, seconds: float) -> None:
    assert Duration.parse(text) == pytest.approx(seconds, rel=1e-12)


def test_a_bare_number_is_in_the_unit_of_its_option() -> None:
    assert Duration.parse("5000", "ms") == 5
    assert Duration.parse("5s", "ms") == 5
    with pytest.raises(UsageError, match="is not a duration"):
        Duration.parse("5", "")


@pytest.mark.parametrize(
    "text", ["", "s", "-5s", "5 s", "1m 30s", "nans", "nan", "٣s", "5x", "1e3s"]
)
def test_anything_else_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        Duration.parse(text)


def test_longer_than_a_century_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="a century at most"):
        Duration.parse("40000d")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (2.5, "2.5s"), (90, "90s"), (600, "10m"), (7200, "2h")],
)
def test_how_a_duration_prints(seconds: float, text: str) -> None:
    assert str(Duration(seconds)) == f"{Duration(seconds)}" == text


@given(st.integers(0, 10**9))
def test_what_is_printed_is_read_back(ms: int) -> None:
    seconds = ms / 1000
    assert Duration.parse(str(Duration(seconds))) == pytest.approx(seconds)
