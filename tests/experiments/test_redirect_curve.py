"""The gain curve's arithmetic, and how a run differs from the published one."""

from dataclasses import replace

import pytest

from kipctl.experiments.arms.names import parse_arms
from kipctl.experiments.redirect.gain_curve import behind_ms, hinted_pairs, read_off, saved
from kipctl.experiments.redirect.published import KIP, published_cut_percent, set_up_differences

LINE = ((0.0, 100.0), (100.0, 200.0), (1000.0, 1100.0))


@pytest.mark.parametrize(
    ("staleness_ms", "wait_ms", "beyond"),
    [
        (0, 100, False),
        (50, 150, False),
        (100, 200, False),
        (550, 650, False),
        (1000, 1100, False),
        (1001, 1100, True),
    ],
)
def test_between_points_the_curve_is_straight_and_beyond_them_it_is_not_extended(
    staleness_ms: float, wait_ms: float, beyond: bool
) -> None:
    read = read_off(LINE, staleness_ms)
    assert (read.wait_ms, read.beyond) == (wait_ms, beyond)
    # One point stands for that alone.
    assert read_off(((staleness_ms, wait_ms),), staleness_ms + 1).beyond
    assert not read_off(((staleness_ms, wait_ms),), staleness_ms).beyond


ARMS = parse_arms("probe-baseline,probe-kip951,java-3.6.0,java-4.3.1-capped,java-4.3.1,librdkafka")


def test_hints_show_where_one_of_a_kind_takes_them() -> None:
    assert [(a.name, b.name) for a, b in hinted_pairs(ARMS)] == [
        ("probe-baseline", "probe-kip951"),
        ("java-3.6.0", "java-4.3.1"),
        ("java-4.3.1-capped", "java-4.3.1"),
    ]


def test_what_is_saved_is_the_distance_of_two_curves() -> None:
    lines = {
        "java-3.6.0": ((0.0, 105.0), (1000.0, 1032.0)),
        "java-4.3.1": ((0.0, 45.0), (1000.0, 41.0)),
        "probe-kip951": ((0.0, 40.0),),
    }
    (only,) = saved(lines, ARMS, 1000)
    assert (only.without, only.with_hints) == ("java-3.6.0", "java-4.3.1")
    assert only.saved_ms == 991
    assert only.cut_percent == pytest.approx(96.03, abs=0.01)
    (half,) = saved(lines, ARMS, 500)
    assert half.as_document()["saved_ms"] == pytest.approx(568.5 - 43)


def test_how_far_behind_brokers_were_is_told_by_nearest_rank() -> None:
    assert behind_ms([*range(1000, 200_001, 1000)]) == {"p50": 100, "p99": 198, "max": 200}
    assert behind_ms([7000]) == {"p50": 7, "p99": 7, "max": 7}
    assert behind_ms([]) == {}


def test_the_published_cut_is_the_one_that_the_kip_states() -> None:
    cut = published_cut_percent("with hints")
    assert cut is not None
    assert 87 < cut < 88
    assert published_cut_percent("rejected alternative") == pytest.approx(-80.4, abs=0.1)
    assert published_cut_percent("baseline") is None
    assert published_cut_percent("") is None


def test_only_what_is_set_up_otherwise_is_named_and_what_the_kip_leaves_open() -> None:
    here = replace(KIP, brokers=3, throughput=1500, acks="1", stale_metadata_ms=1000.0)
    assert [tuple(d.values()) for d in set_up_differences(here)] == [
        ("brokers", "6", "3"),
        ("records/s", "100,000", "1,500"),
        ("acks", "all", "1"),
        ("Metadata made stale for, ms", "0", "1,000"),
    ]
