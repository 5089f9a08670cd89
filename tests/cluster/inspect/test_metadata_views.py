"""Who is behind, and how long brokers take to know: by table."""

from dataclasses import replace

import pytest

from kipctl.cluster.inspect.metadata_views import (
    ComparedViews,
    Difference,
    ViewOfBroker,
    answer_bytes,
    compare,
    sampled,
)
from kipctl.cluster.metadata_convergence import ClusterEvent, EventKind
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot, from_metadata
from kipctl.errors import UnreachableError
from kipctl.load.metadata.convergence import Sightings, sightings
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.report.metadata_view_tables import sentences

BROKERS = tuple(Broker(id, "h", 9090 + id, None) for id in (1, 2, 3))
ID = PartitionId("t", 0)
NEW = Partition(ID, (1, 2, 3), (1, 2, 3), leader=2, leader_epoch=7)
OLD = replace(NEW, leader=1, leader_epoch=5)
SHRUNK = replace(NEW, isr=(2, 3))


def view(*partitions: Partition, brokers: tuple[Broker, ...] = BROKERS) -> Snapshot:
    return Snapshot("cluster", brokers, partitions)


@pytest.mark.parametrize(
    ("shown", "newest", "behind", "otherwise"),
    [
        ((NEW, NEW, NEW), NEW, [], []),
        # The highest epoch is the newest, even if one broker alone has it.
        ((OLD, OLD, NEW), NEW, [1, 2], []),
        ((NEW, OLD, NEW), NEW, [2], []),
        ((None, NEW, NEW), NEW, [1], []),
        # Of one epoch there is no telling who is behind: what most show is the newest.
        ((NEW, SHRUNK, NEW), NEW, [], [2]),
        ((SHRUNK, NEW, SHRUNK), SHRUNK, [], [2]),
        ((OLD, SHRUNK, OLD), SHRUNK, [1, 3], []),
    ],
)
def test_who_is_behind_the_newest_view(
    shown: tuple[Partition | None, ...], newest: Partition, behind: list[int], otherwise: list[int]
) -> None:
    views = {
        broker.id: view(*(p for p in [partition] if p))
        for broker, partition in zip(BROKERS, shown, strict=True)
    }
    views = compare(BROKERS, views)
    assert [s.broker.id for s in views if s.behind] == behind
    differ = [s.broker.id for s in views if len(s.differences) > len(s.behind)]
    assert differ == otherwise
    assert {d.newest for s in views for d in s.differences} <= {newest}
    assert all(s.agrees == (s.broker.id not in behind + otherwise) for s in views)


def test_how_far_behind() -> None:
    assert Difference(ID, NEW, OLD).epochs_behind == 2
    assert Difference(ID, NEW, SHRUNK).epochs_behind == 0
    assert Difference(ID, NEW, None).epochs_behind is None


def test_brokers_that_one_does_not_see_and_those_that_only_it_sees() -> None:
    lost = view(NEW, brokers=BROKERS[1:])
    first, second, _ = compare(BROKERS, {1: view(NEW), 2: lost, 3: view(NEW)})
    assert first.agrees
    assert (second.unseen, second.extra, second.agrees) == ((1,), (), False)
    *_, third = compare(BROKERS, {1: lost, 2: lost, 3: view(NEW)})
    assert (third.unseen, third.extra) == ((), (1,))


def test_a_broker_that_does_not_answer_has_no_view_and_others_are_compared() -> None:
    error = UnreachableError("Broker 1 cannot be reached.")
    first, second, third = compare(BROKERS, {1: error, 2: view(OLD), 3: view(NEW)})
    assert first == ViewOfBroker(BROKERS[0], None, error=error)
    assert not first.agrees
    assert (len(second.behind), third.agrees) == (1, True)
    nobody = compare(BROKERS, dict.fromkeys((1, 2, 3), error))
    assert [view.error for view in nobody] == [error] * 3


def seen(time_us: int, partition: int, broker: int, epoch: int = 1) -> ClusterEvent:
    return ClusterEvent(EventKind.LEADER_SEEN, time_us, "t", partition, 1, 2, epoch, broker)


def test_each_broker_is_timed_from_the_call_and_from_the_first_that_knew() -> None:
    first_move = [
        ClusterEvent(EventKind.REASSIGNMENT_CALLED, 50),
        ClusterEvent(EventKind.ELECTION_CALLED, 100),
        seen(130, 0, 2),
        seen(120, 0, 1),
        seen(180, 1, 2),
        seen(150, 1, 1),
        # Seen once more after the broker was connected to anew: the first time counts.
        seen(190, 1, 1),
        ClusterEvent(EventKind.ELECTION_ANSWERED, 140),
    ]
    second_move = [ClusterEvent(EventKind.ELECTION_CALLED, 1000), seen(1005, 0, 2, epoch=2)]
    assert sightings([first_move, second_move]) == (
        Sightings(1, (20, 50), (0, 0)),
        Sightings(2, (5, 30, 80), (0, 10, 30)),
    )
    assert sightings([]) == ()


def test_a_broker_with_replicas_that_metadata_does_not_list_is_not_said_to_agree() -> None:
    whole, fenced = view(NEW), view(NEW, brokers=BROKERS[:2])
    assert whole.away == ()
    assert fenced.away == (3,)
    assert view(NEW, brokers=BROKERS[:1]).away == (2, 3)
    alike = ComparedViews(compare(BROKERS[:2], {1: fenced, 2: fenced}), 1)
    assert sentences(alike, 2, ()) == ("All brokers show the same.",)
    assert sentences(alike, 2, (3,)) == (
        "Broker 3 is not alive, and not asked.",
        "All brokers that are alive show the same.",
    )
    behind = view(OLD, brokers=BROKERS[:2])
    astray = ComparedViews(compare(BROKERS[:2], {1: fenced, 2: behind}), 3)
    assert sentences(astray, 2, (3, 4)) == (
        "Brokers 3, 4 are not alive, and not asked.",
        "Broker 2 does not show what the others do, even after 3 looks.",
    )


RACKS = tuple(Broker(id, "h", 9092, f"rack-{id % 3}") for id in range(200))


@pytest.mark.parametrize(
    ("answer", "most", "asked"),
    [
        (1_000, 32_000_000, 200),  # all of them
        (4_700_000, 32_000_000, 6),  # 100,000 partitions
        (1_000_000_000, 32_000_000, 3),  # fewer are no comparison
        (0, 32_000_000, 200),
    ],
)
def test_of_a_large_cluster_some_brokers_are_asked(answer: int, most: int, asked: int) -> None:
    chosen = sampled(RACKS, answer, most)
    assert len(set(chosen)) == asked
    assert {broker.rack for broker in chosen} == {"rack-0", "rack-1", "rack-2"}
    assert list(chosen) == sorted(chosen, key=lambda broker: broker.id)


def test_how_long_an_answer_is_follows_from_what_it_shows() -> None:
    partitions = tuple(
        MetadataResponsePartition(0, number, 1, 5, (1, 2, 3), (1, 2), ()) for number in range(50)
    )
    response = MetadataResponse(
        brokers=tuple(MetadataResponseBroker(id, "broker.example.org", 9092) for id in range(3)),
        cluster_id="x" * 22,
        topics=tuple(
            MetadataResponseTopic(name=f"topic-{n:04}", partitions=partitions) for n in range(40)
        ),
    )
    assert answer_bytes(from_metadata(response)) == pytest.approx(
        len(encode(response, 12)), rel=0.02
    )


def test_that_only_some_were_asked_is_said() -> None:
    alike = ComparedViews(compare(BROKERS[:2], {1: view(NEW), 2: view(NEW)}), 1)
    assert sentences(alike, 200, ()) == (
        "2 of 200 brokers were asked, as the answers of all are more than 32 MB. With --topic"
        " answers are shorter, and more are asked.",
        "The 2 brokers asked show the same.",
    )
