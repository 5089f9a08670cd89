"""`experiment closest-replica`: bytes by rack, how long a consumer waits when its rack's broker
goes, from rows of reads; and what it does beside its runs.
"""

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from trace_rows import table

from kipctl.changes.execution.batch_execution import Execution
from kipctl.cleanup_failures import CleanupFailures
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import UnreachableError, UsageError
from kipctl.experiments.arms import restarts
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.closest_replica import experiment
from kipctl.experiments.closest_replica.experiment import ClosestPlan, chosen_rack, run_closest
from kipctl.experiments.closest_replica.figures import rack_outage, traffic, within
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows
from kipctl.transport.request import Cluster

RACKS = {1: "a", 2: "b", 3: None}
MS = 1000


def reads(*rows: tuple[int, int, int, int]) -> IntRows:
    """Answers by (time in ms, partition, broker, bytes), each of one record if it has bytes."""
    names = ("time_us", "partition", "broker", "bytes", "records")
    return table(
        "reads",
        *(
            dict(zip(names, (ms * MS, partition, broker, size, size > 0), strict=True))
            for ms, partition, broker, size in rows
        ),
    )


def test_bytes_of_the_own_rack_and_of_others() -> None:
    by_rack = traffic(reads((1, 0, 1, 300), (2, 1, 2, 90), (3, 2, 3, 10), (4, 0, 7, 0)), RACKS, "a")
    assert by_rack == {
        "bytes": 400,
        "bytes_by_rack": {"a": 300, "b": 90, "unknown": 10},
        "own_rack_percent": 75.0,
        "cross_rack_bytes": 100,
    }
    assert traffic(reads(), RACKS, "a")["own_rack_percent"] is None


def test_a_span_has_its_beginning_and_not_its_end() -> None:
    assert len(within(reads((1, 0, 1, 1), (2, 0, 1, 1), (3, 0, 1, 1)), 1 * MS, 3 * MS)) == 2


def test_the_rack_goes_and_comes_back() -> None:
    rows = reads(
        (900, 0, 1, 10),
        (-4000, 1, 2, 10),
        (-3000, 1, 1, 10),  # the last before, however long
        (980, 2, 1, 10),
        (990, 2, 2, 10),  # not read from that rack any more: it does not count
        (1010, 0, 1, 10),  # still under way
        (1400, 0, 2, 10),
        (1700, 1, 2, 10),
        (5100, 0, 2, 10),
        (5600, 0, 1, 10),
        (9000, 1, 2, 10),
    )
    outage = rack_outage(rows, RACKS, "a", 1000 * MS, 5000 * MS, 9000 * MS)
    assert outage["partitions"] == 2
    assert outage["pause_ms"] == {"p50": 3700.0, "max": 7300.0}
    assert outage["elsewhere_after_ms"] == {"p50": 400.0, "max": 700.0}
    assert outage["partitions_back"] == 1
    assert outage["back_after_ms"] == {"p50": 600.0, "max": 600.0}
    assert outage["errors"] == {}


def test_errors_are_named_while_it_is_gone() -> None:
    rows = reads((900, 0, 1, 10), (1100, 0, 2, 0), (1200, 0, 2, 0))
    rows[1:, COLUMNS["reads"].index("error")] = 6
    outage = rack_outage(rows, RACKS, "a", 1000 * MS, 2000 * MS, 3000 * MS)
    assert outage["errors"] == {"NOT_LEADER_OR_FOLLOWER": 2}
    assert outage["back_after_ms"] is None


def test_the_rack_is_the_first_or_the_one_wanted() -> None:
    assert chosen_rack("", RACKS) == "a"
    assert chosen_rack("b", RACKS) == "b"
    with pytest.raises(UsageError, match="No broker is in rack 'c'"):
        chosen_rack("c", RACKS)
    with pytest.raises(UsageError, match="not in several racks"):
        chosen_rack("", {1: "a", 2: "a", 3: None})


@pytest.mark.parametrize(("is_on", "put_back"), [(None, 0), (SimpleNamespace(name="lab"), 1)])
def test_leaders_are_put_back_on_a_lab_alone_where_brokers_are_restarted(
    is_on: Any, put_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it moves none: what others move meanwhile is theirs."""
    called = []

    def leaders_put_back(cluster: object) -> AbstractContextManager[None]:
        called.append(cluster)
        return nullcontext()

    monkeypatch.setattr(experiment, "leaders_put_back", leaders_put_back)
    monkeypatch.setattr(experiment, "broker_racks", lambda _: {1: "a", 2: "b"})
    monkeypatch.setattr(experiment, "lab_if_any", lambda *_: is_on)
    monkeypatch.setattr(experiment, "warm_up", lambda *_: None)
    stand = SimpleNamespace(cluster="cluster", access=None, kafka_version=None)
    done = run_closest(ClosestPlan(clients=()), cast(Stand, stand), lambda _: None, lambda _: None)
    assert done["rack_goes"] is (is_on is not None)
    assert len(called) == put_back


def test_leaders_that_cannot_be_put_back_take_the_place_of_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led = Partition(PartitionId("t", 0), (1, 2), (1, 2), leader=1, leader_epoch=0)

    def fails(change: Execution, **how: object) -> None:
        assert [*change.plan.preferred_leaders.items()] == [(led.id, 1)]
        raise UnreachableError("No broker answers.")

    monkeypatch.setattr(restarts, "take_snapshot", lambda _: Snapshot("id", (), (led,)))
    monkeypatch.setattr(restarts, "elect_until_balanced", fails)
    CleanupFailures.errors.clear()
    with restarts.leaders_put_back(cast(Cluster, "cluster")):
        pass
    (left,) = CleanupFailures.errors
    CleanupFailures.errors.clear()
    assert str(left) == (
        "Leaders that its restarts have moved were not put back: No broker answers.\n"
        "Put them back: kipctl elect preferred --all"
    )
