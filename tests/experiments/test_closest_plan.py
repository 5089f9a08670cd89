"""What `experiment closest-replica` does beside its runs."""

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kipctl.cleanup_failures import CleanupFailures
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import UnreachableError
from kipctl.experiments.arms import restarts
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.closest_replica import experiment
from kipctl.experiments.closest_replica.experiment import ClosestPlan, run_closest
from kipctl.transport.request import Cluster


@pytest.mark.parametrize(("lab", "put_back"), [(None, 0), (SimpleNamespace(name="lab"), 1)])
def test_leaders_are_put_back_on_a_lab_alone_where_brokers_are_restarted(
    lab: Any, put_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it moves none: what others move meanwhile is theirs."""
    called = []

    def leaders_put_back(cluster: object) -> AbstractContextManager[None]:
        called.append(cluster)
        return nullcontext()

    monkeypatch.setattr(experiment, "leaders_put_back", leaders_put_back)
    monkeypatch.setattr(experiment, "broker_racks", lambda _: {1: "a", 2: "b"})
    monkeypatch.setattr(experiment, "lab_if_any", lambda *_: lab)
    monkeypatch.setattr(experiment, "warm_up", lambda *_: None)
    stand = SimpleNamespace(cluster="cluster", access=None, kafka_version=None)
    done = run_closest(ClosestPlan(clients=()), cast(Stand, stand), lambda _: None, lambda _: None)
    assert done["rack_goes"] is (lab is not None)
    assert len(called) == put_back


def test_leaders_that_cannot_be_put_back_take_the_place_of_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led = Partition(PartitionId("t", 0), (1, 2), (1, 2), leader=1, leader_epoch=0)

    def fails(cluster: object, chosen: object, **how: object) -> None:
        assert chosen == {led.id}
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
