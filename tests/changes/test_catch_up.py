"""How far a broker is that copies what it missed: who counts as behind, bytes, time left."""

from dataclasses import dataclass

import pytest
from electing_broker import partition
from many_brokers import ManyBrokers, many_brokers
from passing_clock import PassingClock
from reassigning import Held

from kipctl.changes.execution.copy_progress import CatchUp, CatchUpTracker
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import (
    NO_LEADER,
    Broker,
    Partition,
    PartitionId,
    Snapshot,
    from_metadata,
)
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

T0, T1, T2 = (PartitionId("t", number) for number in range(3))


def snapshot(*partitions: Partition) -> Snapshot:
    return Snapshot("c", tuple(Broker(id, "h", 1, None) for id in (1, 2, 3)), partitions)


@pytest.mark.parametrize(
    ("partition", "behind"),
    [
        (partition("t", 0, (1, 2), leader=1), {}),
        (partition("t", 0, (1, 2), leader=1, isr=(1,)), {2: (T0,)}),
        (partition("t", 0, (1, 2, 3), leader=3, isr=(3,)), {1: (T0,), 2: (T0,)}),
        # A broker that is down copies nothing, and there is nobody to copy from.
        (partition("t", 0, (1, 7), leader=1, isr=(1,)), {}),
        (partition("t", 0, (1, 2), leader=NO_LEADER, isr=(1,)), {}),
    ],
)
def test_who_is_behind(partition: Partition, behind: dict[int, tuple[PartitionId, ...]]) -> None:
    assert catching_up(snapshot(partition)) == behind


def test_replicas_that_are_being_added_are_not_missed() -> None:
    seen = snapshot(partition("t", 0, (1, 2, 3), leader=1, isr=(1,)))
    assert catching_up(seen, {T0: (3,)}) == {2: (T0,)}


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (
            CatchUp(3, 4, 12, 1_400_000_000, 30.0),
            "broker 3: 4 of 12 partitions still copy, 1.4 GB, about 30 s left",
        ),
        (CatchUp(3, 1, 1, 20), "broker 3: 1 of 1 partition still copies, 20 B"),
        (CatchUp(3, 2, 4), "broker 3: 2 of 4 partitions still copy"),
        # Its log is as long as the leader's, which is yet to say that it is in sync.
        (CatchUp(3, 2, 4, 0, 0.0), "broker 3: 2 of 4 partitions still copy"),
    ],
)
def test_how_far_it_is_is_said(seen: CatchUp, line: str) -> None:
    assert str(seen) == line


@dataclass
class Recovering(ManyBrokers):
    """Broker 2 was away: of t-1 and t-2 it has nothing yet, and copies them in `copy_s`."""

    began_s: float = 0.0

    def _share_copied(self, partition: PartitionId, broker: int) -> float:
        isr = self.partitions[partition].isr
        if isr is None or broker in isr:
            return 1.0
        return min(1.0, (self.clock() - self.began_s) / self.copy_s)


def test_bytes_are_the_leaders_less_the_brokers_and_the_rate_that_of_two_looks(
    clock: PassingClock,
) -> None:
    recovering = Recovering(
        {T0: Held((1, 2), 1), T1: Held((2, 1), 1, isr=(1,)), T2: Held((3, 2), 3, isr=(3,))},
        sizes={T0: 5_000_000, T1: 100_000_000, T2: 300_000_000},
        copy_s=100.0,
        clock=clock.monotonic,
        began_s=clock.monotonic(),
    )
    with (
        many_brokers(recovering) as broker,
        Cluster(Access(f"127.0.0.1:{broker.port}"), timeout_s=10) as cluster,
    ):
        tracker = CatchUpTracker(cluster)

        def look() -> str:
            seen = from_metadata(cluster.metadata())
            return "; ".join(map(str, tracker.look(seen, catching_up(seen))))

        assert look() == "broker 2: 2 of 3 partitions still copy, 400.0 MB"
        clock.sleep(20)
        assert look() == ("broker 2: 2 of 3 partitions still copy, 320.0 MB, about 1 min 20 s left")
        recovering.partitions[T1].isr = None
        recovering._changed(T1)
        clock.sleep(40)
        assert (
            look() == "broker 2: 1 of 3 partitions still copies, 120.0 MB, about 24 s left"
        )  # t-1 came too
        recovering.partitions[T2].isr = None
        recovering._changed(T2)
        assert look() == ""
