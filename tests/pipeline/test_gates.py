"""--fail-if: what may be written, and when it holds."""

import pytest

from kipctl.errors import UsageError
from kipctl.pipeline.gates import Compared, parse_gate

UNITS = {"p999": "ms", "throughput": "records/s", "failed": "records"}


def holds(text: str, a: float | None, b: float | None, is_different: bool | None = True) -> bool:
    return parse_gate(text, UNITS).trips(Compared(a, b, is_different))


@pytest.mark.parametrize(
    ("text", "a", "b", "expected"),
    [
        ("p999 > +10%", 100, 111, True),
        ("p999 > +10%", 100, 110, False),
        ("p999>=10%", 100, 110, True),
        ("p999 > +10%", 100, 50, False),
        ("p999 < -10%", 100, 50, True),
        ("throughput < -5%", 1000, 949, True),
        ("throughput < -5%", 1000, 950, False),
        ("throughput <= -5 %", 1000, 950, True),
        ("p999 > -10%", 100, 95, True),
        ("p999 > +5ms", 100, 105.1, True),
        ("p999 > +5ms", 100, 105, False),
        ("p999 > +5000us", 100, 105.1, True),
        ("p999 < -0.005s", 100, 94.9, True),
        ("p999 > 50ms", 100, 50.1, True),
        ("p999 > 50ms", 100, 50, False),
        ("p999 > .05s", 1, 50.1, True),
        ("throughput < 900", 1000, 899, True),
        ("failed > 0", 0, 1, True),
        ("failed > 0", 9, 0, False),
        ("failed > +3", 4, 8, True),
        ("failed > +3", 4, 7, False),
        ("failed > +10%", 0, 1, True),
        ("failed > +10%", 0, 0, False),
        ("failed >= 0%", 0, 0, True),
    ],
)
def test_a_condition_holds(text: str, a: float, b: float, expected: bool) -> None:
    assert holds(text, a, b) is expected


def test_a_difference_has_to_be_one_and_a_value_need_not() -> None:
    for text, needs_to_differ in (
        ("p999 > +10%", True),
        ("p999 > +5ms", True),
        ("p999 > 50ms", False),
    ):
        assert holds(text, 100, 200, is_different=True)
        assert holds(text, 100, 200, is_different=False) is not needs_to_differ


def test_what_cannot_be_told_is_judged_by_its_size() -> None:
    assert holds("p999 > +10%", 100, 200, is_different=None)
    assert not holds("p999 > +10%", 100, 101, is_different=None)


def test_without_a_value_a_gate_does_not_let_it_pass() -> None:
    assert holds("p999 > +10%", None, 200)
    assert holds("p999 > +10%", 200, None)
    assert holds("p999 > 50ms", 100, None)
    assert holds("throughput < -5%", 100, None)
    assert holds("p999 > 50ms", None, 200)
    assert not holds("p999 > 50ms", None, 20)


def test_what_only_redirected_batches_have_may_be_missing() -> None:
    gate = parse_gate("p999 > +10%", UNITS)
    assert not gate.trips(Compared(100, None, None, may_lack=True))
    assert not gate.trips(Compared(None, 100, None, may_lack=True))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no condition"),
        ("p999", "no condition"),
        ("p999 = 10%", "no condition"),
        ("p999 > ten%", "no condition"),
        ("p999 > +-10%", "no condition"),
        ("p999 > 10% and more", "no condition"),
        ("p99.9 > 10%", "no condition"),
        ("p42 > 10%", "p999, throughput, failed"),
        ("failed > 10ms", "not a time"),
        ("p999 > 10", "%, us, ms or s"),
    ],
)
def test_what_is_no_condition_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_gate(text, UNITS)
    assert told in str(refused.value)
