"""Bytes by rack, and how long a consumer waited when its rack's broker went, from rows of reads."""

import numpy as np
import pytest

from kipctl.errors import UsageError
from kipctl.experiments.closest_replica.experiment import chosen_rack
from kipctl.experiments.closest_replica.figures import rack_outage, traffic, within
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

RACKS = {1: "a", 2: "b", 3: None}
MS = 1000


def reads(*rows: tuple[int, int, int, int]) -> IntRows:
    """Answers by (time in ms, partition, broker, bytes), each of one record if it has bytes."""
    columns = COLUMNS["reads"]
    found = np.zeros((len(rows), len(columns)), dtype=np.int64)
    for row, (time_ms, partition, broker, size) in zip(found, rows, strict=True):
        for name, value in (
            ("time_us", time_ms * MS),
            ("partition", partition),
            ("broker", broker),
            ("bytes", size),
            ("records", int(size > 0)),
        ):
            row[columns.index(name)] = value
    return found


def test_bytes_of_the_own_rack_and_of_others() -> None:
    found = traffic(reads((1, 0, 1, 300), (2, 1, 2, 90), (3, 2, 3, 10), (4, 0, 7, 0)), RACKS, "a")
    assert found == {
        "bytes": 400,
        "bytes_by_rack": {"a": 300, "b": 90, "unknown": 10},
        "own_rack_percent": 75.0,
        "cross_rack_bytes": 100,
    }


def test_of_nothing_no_share_is_told() -> None:
    assert traffic(reads(), RACKS, "a")["own_rack_percent"] is None


def test_a_span_has_its_beginning_and_not_its_end() -> None:
    assert len(within(reads((1, 0, 1, 1), (2, 0, 1, 1), (3, 0, 1, 1)), 1 * MS, 3 * MS)) == 2


def test_the_rack_goes_and_comes_back() -> None:
    rows = reads(
        (900, 0, 1, 10),
        (950, 1, 1, 10),
        (990, 2, 2, 10),  # not read from that rack: it does not count
        (1010, 0, 1, 10),  # still under way
        (1400, 0, 2, 10),
        (1700, 1, 2, 10),
        (5100, 0, 2, 10),
        (5600, 0, 1, 10),
        (9000, 1, 2, 10),
    )
    found = rack_outage(rows, RACKS, "a", 1000 * MS, 5000 * MS, 9000 * MS)
    assert found["partitions"] == 2
    assert found["pause_ms"] == {"p50": 3700.0, "max": 7300.0}
    assert found["elsewhere_after_ms"] == {"p50": 400.0, "max": 700.0}
    assert found["partitions_back"] == 1
    assert found["back_after_ms"] == {"p50": 600.0, "max": 600.0}
    assert found["errors"] == {}


def test_errors_are_named_while_it_is_gone() -> None:
    rows = reads((900, 0, 1, 10), (1100, 0, 2, 0), (1200, 0, 2, 0))
    rows[1:, COLUMNS["reads"].index("error")] = 6
    found = rack_outage(rows, RACKS, "a", 1000 * MS, 2000 * MS, 3000 * MS)
    assert found["errors"] == {"NOT_LEADER_OR_FOLLOWER": 2}
    assert found["back_after_ms"] is None


def test_the_rack_is_the_first_or_the_one_wanted() -> None:
    assert chosen_rack("", RACKS) == "a"
    assert chosen_rack("b", RACKS) == "b"
    with pytest.raises(UsageError, match="No broker is in rack 'c'"):
        chosen_rack("c", RACKS)
    with pytest.raises(UsageError, match="not in several racks"):
        chosen_rack("", {1: "a", 2: "a", 3: None})
