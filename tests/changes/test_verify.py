"""`kipctl reassign --verify` where the broker that is asked is behind the controller."""

from typing import cast

import pytest
from passing_clock import replaced_time

from kipctl.changes.execution import reassign
from kipctl.changes.execution.reassign import State, verify
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.transport.request import Cluster

T0 = PartitionId("t", 0)


@pytest.mark.parametrize(
    ("shown", "state", "looks"),
    [
        ([(2, 1)], State.DONE, 1),
        ([(1, 2), (1, 2), (2, 1)], State.DONE, 3),
        ([(1, 2)] * 100, State.DIFFERENT, 12),
    ],
    ids=["at once", "a broker is behind", "it is different"],
)
def test_what_differs_is_looked_at_again(
    shown: list[tuple[int, int]], state: State, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    looked = []

    def take_snapshot(cluster: Cluster, topics: list[str]) -> Snapshot:
        looked.append(shown[len(looked)])
        return Snapshot("c", (), (Partition(T0, looked[-1], looked[-1], 1, 0),))

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    monkeypatch.setattr(reassign, "take_snapshot", take_snapshot)
    monkeypatch.setattr(reassign, "list_reassignments", lambda cluster, target: ())
    with replaced_time(monotonic=lambda: now_s[0], sleep=sleep):
        (partition,) = verify(cast(Cluster, "cluster"), {T0: (2, 1)})
    assert (partition.state, partition.replicas) == (state, looked[-1])
    assert len(looked) == looks
