"""What tells a difference from chance: against hand-known values, enumeration and simulation."""

import itertools
import math

import numpy as np
import pytest

from kipctl.pipeline.significance import (
    LEAST_WINDOWS,
    LEVEL,
    RESAMPLES,
    Difference,
    Windows,
    bootstrapped,
    drawn,
    mann_whitney,
    means,
    quantiles,
    student_critical,
    student_p,
    windows,
)


def of_samples(samples: np.ndarray) -> Windows:
    """One run; `samples` has a row for each window."""
    count, size = samples.shape
    window = np.repeat(np.arange(count), size)
    return windows(np.zeros_like(window), window, samples.reshape(-1), np.ones_like(window))


@pytest.mark.parametrize(
    ("freedom", "critical", "level"),
    [
        (1, 12.706, 0.05),
        (2, 4.303, 0.05),
        (3, 3.182, 0.05),
        (4, 2.776, 0.05),
        (5, 2.571, 0.05),
        (10, 2.228, 0.05),
        (10, 3.169, 0.01),
        (9, 1.833, 0.1),
        (120, 1.980, 0.05),
        (100_000, 1.960, 0.05),
    ],
)
def test_students_t_is_that_of_the_printed_tables(
    freedom: int, critical: float, level: float
) -> None:
    assert student_p(critical, freedom) == pytest.approx(level, rel=2e-3)
    assert student_p(-critical, freedom) == student_p(critical, freedom)
    assert student_critical(level, freedom) == pytest.approx(critical, abs=6e-4)


def test_students_t_has_its_ends() -> None:
    assert student_p(0, 7) == 1
    assert student_p(1e9, 7) == pytest.approx(0, abs=1e-12)


def brute_force_quantile(values: list[int], q: float) -> int:
    return sorted(values)[max(1, math.ceil(round(q * len(values), 6))) - 1]


def test_a_resamples_quantile_is_that_of_its_windows_written_out() -> None:
    chance = np.random.default_rng(7)
    rows = chance.integers(0, [2, 6, 40, 9], (400, 4))  # run, window, value, count
    rows[:, 3] += 1
    of = windows(*rows.T)
    held: dict[tuple[int, int], list[int]] = {}
    for run, window, value, count in rows.tolist():
        held.setdefault((run, window), []).extend([value] * count)
    in_order = [held[place] for place in sorted(held)]
    assert of.run.tolist() == [run for run, _ in sorted(held)]
    draws = drawn(of, chance, 50)
    for q in (0.001, 0.5, 0.95, 0.999, 1):
        found = quantiles(of, draws, q)
        for times, quantile in zip(draws.tolist(), found.tolist(), strict=True):
            values = [v for each, n in zip(in_order, times, strict=True) for v in each * n]
            assert quantile == brute_force_quantile(values, q)
    for times, mean in zip(draws.tolist(), means(of, draws).tolist(), strict=True):
        values = [v for each, n in zip(in_order, times, strict=True) for v in each * n]
        assert mean == pytest.approx(np.mean(values))


def test_each_run_gives_one_window_fewer_than_it_has_and_at_least_one() -> None:
    run = np.array([0, 0, 0, 0, 1, 2, 2])
    of = windows(run, np.arange(7), np.arange(7), np.ones(7, np.int64))
    draws = drawn(of, np.random.default_rng(0), 100)
    for name, expected in ((0, 3), (1, 1), (2, 1)):
        assert (draws[:, run == name].sum(axis=1) == expected).all()
    assert of.degrees_of_freedom == 4


def samples(chance: np.random.Generator, count: int, factor: float = 1.0) -> np.ndarray:
    """Windows with a speed of their own, some of them with a stall: as runs with rotations."""
    values = chance.lognormal(8, 0.5, (count, 100)) * chance.lognormal(0, 0.1, (count, 1))
    for window in np.flatnonzero(chance.random(count) < 0.3):
        stalled = int(chance.uniform(2, 20))
        values[window, :stalled] += chance.uniform(0, 1e5, stalled)
    return (values * factor).astype(np.int64)


def stalling(chance: np.random.Generator, count: int, factor: float = 1.0) -> Windows:
    return of_samples(samples(chance, count, factor))


@pytest.mark.parametrize("count", [5, 25])
@pytest.mark.parametrize("q", [None, 0.5, 0.99])
def test_of_equals_about_one_in_twenty_is_called_different(q: float | None, count: int) -> None:
    chance = np.random.default_rng(11)
    trials = 120
    real = sum(
        bootstrapped(stalling(chance, count), stalling(chance, count), q).is_real is True
        for _ in range(trials)
    )
    # With a true rate of 5 %, 14 or more of 120 come once in 200 times.
    assert real / trials < 14 / 120


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_a_shift_of_30_percent_is_found_and_bounded(q: float) -> None:
    chance = np.random.default_rng(5)
    trials = 40
    found = [
        bootstrapped(stalling(chance, 40), stalling(chance, 40, 1.3), q) for _ in range(trials)
    ]
    assert sum(difference.is_real is True for difference in found) >= 0.9 * trials
    # As windows so many would be a table of gigabytes.
    shift = 0.3 * int(np.quantile(samples(chance, 5000), q, method="inverted_cdf"))
    inside = sum(
        difference.low is not None
        and difference.high is not None
        and difference.low <= shift <= difference.high
        for difference in found
    )
    assert inside >= 0.8 * trials  # with a true coverage of 95 %, less comes once in 2000 times


def test_an_interval_without_zero_is_what_is_called_real() -> None:
    chance = np.random.default_rng(3)
    for shift in (0.8, 0.9, 1.0, 1.05, 1.1, 1.2):
        for _ in range(5):
            found = bootstrapped(stalling(chance, 12), stalling(chance, 12, shift), 0.5)
            assert found.low is not None
            assert found.high is not None
            assert found.p_value is not None
            if abs(found.p_value - LEVEL) > 0.005:  # on the edge, ranks round either way
                assert (found.low > 0 or found.high < 0) == (found.p_value < LEVEL)


def test_the_same_windows_give_the_same_answer() -> None:
    a, b = (stalling(np.random.default_rng(seed), 10) for seed in (1, 2))
    assert bootstrapped(a, b, 0.99) == bootstrapped(a, b, 0.99)
    alike = bootstrapped(a, a, 0.99)
    assert alike.p_value is not None
    assert alike.p_value > 0.5


def test_a_single_spike_is_not_called_real() -> None:
    """One of 30 windows held all that is slow; the next run need not have one."""
    calm = np.full((30, 100), 1000)
    spike = calm.copy()
    spike[17, :50] = 90_000
    found = bootstrapped(of_samples(calm), of_samples(spike), 0.99)
    assert found.is_real is False


def test_few_windows_tell_nothing() -> None:
    enough = of_samples(np.arange(LEAST_WINDOWS * 10).reshape(LEAST_WINDOWS, 10))
    few = of_samples(np.arange(40).reshape(LEAST_WINDOWS - 1, 10) + 10**6)
    assert bootstrapped(enough, few, 0.5) == Difference()
    assert bootstrapped(few, enough, None) == Difference()
    assert bootstrapped(enough, enough, 0.5).is_real is False
    assert Difference().is_real is None
    ranked = np.arange(LEAST_WINDOWS)
    assert mann_whitney(ranked[1:], ranked).is_real is None
    assert mann_whitney(ranked, ranked).is_real is False


def test_runs_of_a_single_window_each_tell_nothing() -> None:
    """Nothing varies within such a run, so its resamples are all alike."""
    each = np.arange(LEAST_WINDOWS)
    single = windows(each, each, 100 + each, np.ones(LEAST_WINDOWS, np.int64))
    several = of_samples(1000 + np.arange(LEAST_WINDOWS * 10).reshape(LEAST_WINDOWS, 10))
    assert (single.count, single.degrees_of_freedom) == (LEAST_WINDOWS, 0)
    for a, b in ((single, single), (single, several), (several, single)):
        for q in (None, 0.5):
            assert bootstrapped(a, b, q) == Difference()


def test_a_p_value_is_never_smaller_than_resamples_can_tell() -> None:
    low, high = (of_samples(np.full((200, 10), value)) for value in (10, 20))
    found = bootstrapped(low, high, 0.5)
    assert found.p_value is not None
    assert 2 / (RESAMPLES + 1) <= found.p_value < 0.0015
    assert (found.low, found.high) == (10, 10)


def exact_p(a: list[float], b: list[float]) -> float:
    """Of all ways to deal these values to two sides, those with a U as far from the middle."""

    def distance(first: tuple[int, ...]) -> float:
        mine = [both[i] for i in first]
        theirs = [both[i] for i in range(len(both)) if i not in first]
        u = sum((y > x) + (y == x) / 2 for x in mine for y in theirs)
        return abs(u - len(mine) * len(theirs) / 2)

    both = a + b
    observed = distance(tuple(range(len(a))))
    ways = list(itertools.combinations(range(len(both)), len(a)))
    return sum(distance(way) >= observed for way in ways) / len(ways)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]),
        ([1, 2, 3, 4, 9], [5, 6, 7, 8, 10]),
        ([1, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12]),
        ([0, 0, 0, 0, 0, 3], [0, 0, 2, 3, 3, 3]),
        ([5, 5, 5, 5, 6, 7], [5, 5, 6, 6, 7]),
    ],
)
def test_mann_whitney_is_close_to_trying_every_way(a: list[float], b: list[float]) -> None:
    found = mann_whitney(np.array(a), np.array(b))
    assert found.p_value == pytest.approx(exact_p(a, b), abs=0.04)
    pairs = [(y > x) + (y == x) / 2 for x in a for y in b]
    assert found.superiority == pytest.approx(sum(pairs) / len(pairs))
    back = mann_whitney(np.array(b), np.array(a))
    assert back.p_value == pytest.approx(found.p_value, abs=0.04)
    assert back.superiority == pytest.approx(1 - found.superiority)


def test_rare_events_are_not_called_real_too_soon() -> None:
    """Windows that hold an event, of 30 on each side: 4 against none come by chance, 8 do not.

    By counting ways: 2 * C(30, 4) / C(60, 4) = 0.112 and 2 * C(30, 8) / C(60, 8) = 0.0046.
    """
    none = np.zeros(30, np.int64)
    four, eight = (np.where(np.arange(30) < count, 5, 0) for count in (4, 8))
    assert mann_whitney(none, four).p_value == pytest.approx(0.112, abs=0.02)
    assert mann_whitney(none, four).is_real is False
    assert mann_whitney(none, eight).is_real is True


def test_counts_that_never_vary_do_not_differ() -> None:
    found = mann_whitney(np.zeros(9, np.int64), np.zeros(20, np.int64))
    assert (found.p_value, found.superiority, found.is_real) == (1.0, 0.5, False)


def test_of_equal_counts_about_one_in_twenty_is_called_different() -> None:
    chance = np.random.default_rng(2)
    trials = 400
    real = sum(
        mann_whitney(chance.poisson(3, 20), chance.poisson(3, 30)).is_real is True
        for _ in range(trials)
    )
    assert 0.02 < real / trials < 0.085
