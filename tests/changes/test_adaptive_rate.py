"""The rate that follows what clients feel, and the quota that Kafka gets for it: pure rules."""

import pytest
from copied_under_quota import LONGEST_S, MB, Copied, Copying, QuotaOf, copy_all, pauses_ms

from kipctl.changes.execution.adaptive_rate import (
    GENTLE_CUT,
    GROWTH,
    HARD_CUT,
    HOLD_S,
    QUOTA_WINDOW_S,
    RETURN_S,
    SETTLE_S,
    SLOW_GROWTH,
    AdaptiveRate,
)

FLOOR, CEILING = MB, 100 * MB


def begun(rate_mb: int) -> AdaptiveRate:
    return AdaptiveRate.beginning(rate_mb * MB, FLOOR, CEILING, 0.0)


CUT = begun(50).after(is_good=False, now_s=1.0)
RELIEVED = CUT.after(is_good=True, now_s=1.0 + HOLD_S)
AGAIN = CUT.after(is_good=True, now_s=1.0 + RETURN_S)


@pytest.mark.parametrize(
    ("before", "is_good", "now_s", "rate_mb"),
    [
        # As long as nothing was too much it grows by a share a second, up to the ceiling.
        (begun(20), True, 0.0, 20),
        (begun(20), True, 1.0, 20 * GROWTH),
        (begun(20), True, 2.0, 20 * GROWTH**2),
        (begun(90), True, 2.0, 100),
        # It is cut at once; after a cut it is waited for what that does, and cut again.
        (begun(50), False, 0.1, 50 * HARD_CUT),
        (CUT, False, HOLD_S, 50 * HARD_CUT),
        (CUT, False, 1.0 + HOLD_S, 50 * HARD_CUT**2),
        # Where the guard has been quiet meanwhile the cut is gentle.
        (RELIEVED, False, 2.0 + HOLD_S, RELIEVED.rate * GENTLE_CUT / MB),
        # It never goes below the floor, and grows from there.
        (begun(1), False, 9.0, 1),
        (begun(1).after(is_good=False, now_s=9.0), True, 10.0, GROWTH),
        # After a cut it comes back to what was too much, and goes beyond it.
        (CUT, True, 1.0 + RETURN_S / 2, 50 - 50 * (1 - HARD_CUT) / 8),
        (CUT, True, 1.0 + RETURN_S, 50),
        (AGAIN, True, 3.0 + RETURN_S, 50 * SLOW_GROWTH**2),
        (CUT, True, 1.0 + 9 * RETURN_S, 50),
        (AGAIN, True, 1.0 + 9 * RETURN_S, 100),
        # What a broker's start makes clients wait is not for a lower rate to mend.
        (begun(50).from_now(0.0), False, SETTLE_S - 1, 50),
        (begun(50).from_now(0.0), True, 1.0, 50 * GROWTH),
        (begun(50).from_now(0.0), False, SETTLE_S, 50 * HARD_CUT),
    ],
)
def test_the_rate_follows_what_the_guard_sees(
    before: AdaptiveRate, is_good: bool, now_s: float, rate_mb: float
) -> None:
    assert before.after(is_good=is_good, now_s=now_s).rate == pytest.approx(rate_mb * MB, abs=2)


def test_at_the_floor_it_does_not_forget_what_was_too_much() -> None:
    rule = begun(2)
    for number in range(9):
        rule = rule.after(is_good=False, now_s=number * HOLD_S)
    assert rule.rate == FLOOR
    assert rule.too_much is not None
    assert rule.after(is_good=True, now_s=9 * HOLD_S + RETURN_S).rate > FLOOR


@pytest.mark.parametrize(
    ("now_s", "quota_mb"),
    [
        (0.0, 2.0),
        (1.0, (10 * 2 + 20) / 11),
        (5.5, 11.0),
        (QUOTA_WINDOW_S, 20.0),
        (99.0, 20.0),
    ],
)
def test_the_quota_is_the_mean_of_the_rates_of_its_window(now_s: float, quota_mb: float) -> None:
    rule = AdaptiveRate.beginning(20 * MB, FLOOR, CEILING, 0.0, before=2 * MB)
    assert rule.quota(now_s) == pytest.approx(quota_mb * MB, abs=1)
    assert begun(20).quota(now_s) == 20 * MB, "where nothing was copied before there is no mean"


def test_after_many_changes_the_quota_is_of_the_last_window_alone() -> None:
    rule = begun(10)
    for second in range(1, 60):
        rule = rule.after(is_good=True, now_s=float(second))
    assert rule.rate == CEILING
    assert rule.quota(59.0) == CEILING
    assert len(rule.past) <= QUOTA_WINDOW_S + 2


def test_a_broker_that_comes_back_copies_no_burst() -> None:
    rule = begun(20).from_now(100.0)
    assert rule.quota(100.0) == FLOOR
    assert rule.quota(100.0 + QUOTA_WINDOW_S) == 20 * MB


BEST_S = 120
"""How long the best takes that does no harm."""


def copied(
    bears_mb: int,
    line_mb: int,
    cache_mb: int = 50,
    quota_of: QuotaOf = AdaptiveRate.quota,
    pauses: int | None = None,
    share: float = 0.95,
) -> Copied:
    copying = Copying(
        BEST_S * min(bears_mb, line_mb) * MB,
        line_mb * MB,
        lambda _: bears_mb * MB,
        cache_mb * MB,
        None if pauses is None else pauses_ms(pauses, LONGEST_S),
        share,
    )
    rule = AdaptiveRate.beginning(20 * MB, 2 * MB, 1000 * MB, 0.0, before=2 * MB)
    return copy_all(copying, rule, quota_of)


def at_once(rule: AdaptiveRate, now_s: float) -> int:
    return rule.rate


def unthrottled(rule: AdaptiveRate, now_s: float) -> int:
    return 10**12


@pytest.mark.parametrize("pauses", [None, 1, 2, 5])
@pytest.mark.parametrize(
    ("bears_mb", "line_mb", "cache_mb", "longer", "harmed"),
    [
        (10, 200, 50, 1.5, 0.35),  # the first rate is twice what it bears
        (30, 200, 50, 1.5, 0.25),
        (60, 200, 50, 1.5, 0.20),
        (100, 200, 50, 1.5, 0.20),
        (150, 200, 50, 1.6, 0.20),
        (300, 1000, 200, 1.7, 0.17),
        (200, 100, 50, 1.3, 0.0),  # the line is the limit: nothing harms clients
    ],
)
def test_it_copies_nearly_as_fast_as_clients_bear(
    bears_mb: int, line_mb: int, cache_mb: int, longer: float, harmed: float, pauses: int | None
) -> None:
    adapted = copied(bears_mb, line_mb, cache_mb, pauses=pauses)
    assert adapted.seconds <= longer * BEST_S
    assert adapted.harmed <= harmed
    assert adapted.waited_s <= copied(bears_mb, line_mb, cache_mb, unthrottled).waited_s / 20


def test_a_guard_that_every_pause_crosses_takes_far_longer() -> None:
    """Why the default is p95: 30 of 600 records are a pause of 150 ms, 6 are one of 30."""
    by_p99 = copied(100, 200, pauses=1, share=0.99)
    assert by_p99.seconds > 2 * copied(100, 200, pauses=1).seconds


@pytest.mark.parametrize("bears_mb", [30, 60, 100, 150])
def test_a_quota_that_follows_at_once_lets_bursts_pass_and_so_takes_longer(bears_mb: int) -> None:
    assert copied(bears_mb, 200, quota_of=at_once).seconds > 1.15 * copied(bears_mb, 200).seconds


def test_it_follows_where_clients_bear_less_for_a_while_and_then_more() -> None:
    def bears(now_s: float) -> float:
        return 30.0 * MB if 60 < now_s < 120 else 100.0 * MB

    copying = Copying(10_000.0 * MB, 200.0 * MB, bears)  # 142 s at the best
    rule = AdaptiveRate.beginning(20 * MB, 2 * MB, 1000 * MB, 0.0, before=2 * MB)
    adapted = copy_all(copying, rule, AdaptiveRate.quota)
    assert adapted.seconds < 1.6 * 142
    assert adapted.harmed < 0.25
