"""The verdict: by table, by its rules, and by runs whose truth is known."""

import math

import numpy as np
import pytest
from campaigns import as_many, campaign, chance
from hypothesis import given
from hypothesis import strategies as st
from simulated_runs import FAULTS, KINDS, Kind
from verdicts import false_alarms, found_percent

from kipctl.verdict import Scale, Verdict, adjusted, compare, middle, student_critical, student_p

SEED = as_many(1, chance("simulated runs").randrange(10**6))
MOST_ALARMS = as_many(11, 8)
"""In percent; of few comparisons chance makes more."""
LEAST_FOUND = 90
times = st.lists(st.floats(0.01, 1e6), min_size=3, max_size=6)


@campaign
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_equal_runs_are_seldom_called_different(kind: Kind) -> None:
    alone, any_of_all = false_alarms(as_many(100, 1000), 5, kind, SEED)
    assert any_of_all <= MOST_ALARMS
    # One measure alone is the worst of seven: chance has as many tries at the level of 5 %.
    assert alone <= MOST_ALARMS + 1


@campaign
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(kind: Kind, fault: str) -> None:
    assert found_percent(as_many(30, 1000), 5, kind, fault, SEED) >= LEAST_FOUND


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([], [1.0, 1, 1], "no run on a side, 3 are needed"),
        ([1.0, 1, 1], [100.0], "one run on a side, 3 are needed"),
        ([1.0, 1], [100.0, 100], "two runs on a side, 3 are needed"),
        ([1.0, 1, 1], [2.0, None, 2], "a run has no value"),
        ([1.0, 1, 0], [2.0, 2, 2], "a run has the value 0"),
    ],
)
def test_too_little_cannot_be_told(
    a: list[float | None], b: list[float | None], reason: str
) -> None:
    verdict = compare(a, b, Scale.RATIO)
    assert verdict.is_different is verdict.is_different_alone is None
    assert verdict.text == f"cannot be told: {reason}"
    assert verdict.as_document()["different"] is None
    assert verdict.as_document()["runs_a_side"] == min(len(a), len(b))


@pytest.mark.parametrize(
    ("a", "b", "scale", "expected"),
    [
        ([10.0, 11, 10.5], [20.0, 21, 22], Scale.RATIO, True),
        ([10.0, 11, 10.5], [10.2, 10.8, 11], Scale.RATIO, False),
        # Runs that agree by accident are not certain to a hundredth.
        ([10.0, 10, 10], [10.1, 10.1, 10.1], Scale.RATIO, False),
        ([10.0, 10, 10], [10.3, 10.3, 10.3], Scale.RATIO, True),
        ([0, 0, 0], [2719, 2500, 3000], Scale.COUNT, True),
        ([0, 0, 0], [1, 1, 1], Scale.COUNT, False),
        ([0, 0, 0], [900, 0, 0], Scale.COUNT, False),
        ([5, 6, 7], [5, 6, 7], Scale.COUNT, False),
    ],
)
def test_verdicts_by_table(a: list[float], b: list[float], scale: Scale, expected: bool) -> None:
    verdict = compare(a, b, scale)
    assert verdict.is_different is expected
    assert verdict.runs == 3


def test_the_interval_is_that_of_the_t_test() -> None:
    """Held against R: t.test(log(b), log(a), var.equal=TRUE)."""
    a, b = [1.0, 2, 4], [2.0, 4, 8]
    verdict = compare(a, b, Scale.RATIO)
    error = math.log(2) * math.sqrt(2 / 3)
    assert verdict.p_value == pytest.approx(student_p(math.log(2) / error, 4))
    assert verdict.low == pytest.approx(2 * math.exp(-2.776445 * error), rel=1e-5)
    assert verdict.high == pytest.approx(2 * math.exp(2.776445 * error), rel=1e-5)
    assert middle(b, Scale.RATIO) == pytest.approx(4)


def test_a_resolution_makes_little_of_what_is_below_it() -> None:
    apart = ([0.01, 0.012, 0.011], [0.02, 0.022, 0.021])
    assert compare(*apart, Scale.RATIO).is_different is True
    assert compare(*apart, Scale.RATIO, resolution=1).is_different is False
    assert compare([0.0, 0, 0], [100.0, 101, 99], Scale.RATIO, resolution=1).is_different is True
    assert middle([0.0, 0.0], Scale.RATIO, resolution=1) == 0
    assert middle([0.0, 0.0, 0.0], Scale.RATIO, resolution=0.1) == 0
    assert middle([0.0, 0.3], Scale.RATIO, resolution=0.1) == pytest.approx(0.1)
    assert middle([0.0, 0.0], Scale.RATIO) is None
    assert middle([1, 2, 6], Scale.COUNT) == 3
    assert middle([], Scale.COUNT) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # Of what is known to 0.1 a difference far below that is none, however alike runs are.
        ([0.0, 0, 0], [0.02, 0.02, 0.02], False),
        ([0.02, 0.02, 0.02], [0.05, 0.05, 0.05], False),
        ([0.01, 0.012, 0.011], [0.03, 0.028, 0.031], False),
        ([0.0, 0, 0], [0.0, 0, 0], False),
        ([0.0, 0, 0], [0.3, 0.3, 0.3], True),
        ([1.0, 1, 1], [1.2, 1.2, 1.2], True),
        ([0.0, 0, 0], [100.0, 101, 99], True),
    ],
)
def test_what_is_known_to_a_resolution_is_not_told_apart_below_it(
    a: list[float], b: list[float], expected: bool
) -> None:
    assert compare(a, b, Scale.RATIO, resolution=0.1).is_different is expected
    assert compare(b, a, Scale.RATIO, resolution=0.1).is_different is expected


@given(times, times, st.floats(0.01, 100))
def test_order_and_unit_do_not_matter(a: list[float], b: list[float], unit: float) -> None:
    verdict = compare(a, b, Scale.RATIO)
    other = compare([unit * v for v in a[::-1]], [unit * v for v in b[::-1]], Scale.RATIO)
    assert other.p_value == pytest.approx(verdict.p_value, rel=1e-6, abs=1e-9)
    swapped = compare(b, a, Scale.RATIO)
    assert swapped.p_value == pytest.approx(verdict.p_value)
    assert verdict.low is not None
    assert swapped.high == pytest.approx(1 / verdict.low)


@given(times, times)
def test_an_interval_without_1_is_a_difference(a: list[float], b: list[float]) -> None:
    verdict = compare(a, b, Scale.RATIO)
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.p_value is not None
    if not 0.0499 < verdict.p_value < 0.0501:
        assert verdict.is_different is not (verdict.low <= 1 <= verdict.high)


def test_holms_method_is_that_of_its_paper() -> None:
    p_values = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005, "e": None}
    verdicts = adjusted({name: Verdict(p, p) for name, p in p_values.items()})
    assert {name: verdict.adjusted for name, verdict in verdicts.items()} == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02, "e": None}
    )
    assert [verdicts[name].is_different for name in "abde"] == [True, False, True, None]
    assert verdicts["b"].is_different_alone is True


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
    ],
)
def test_students_t_is_that_of_the_printed_tables(
    freedom: int, critical: float, level: float
) -> None:
    assert student_p(critical, freedom) == pytest.approx(level, rel=2e-3)
    assert student_p(-critical, freedom) == student_p(critical, freedom)
    assert student_critical(level, freedom) == pytest.approx(critical, abs=6e-4)


def test_the_planted_faults_are_in_the_simulated_runs() -> None:
    from simulated_runs import runs

    chance = np.random.default_rng(3)
    plain = runs(50, KINDS[0], chance)
    assert np.median(runs(50, KINDS[0], chance, "outage")["p99"]) > 100 * np.median(plain["p99"])
    assert runs(50, KINDS[0], chance, "failures")["failed"].min() >= 800
