"""What a script waits for, by table; and the wait itself on a scripted cluster."""

import socket
from dataclasses import replace

import pytest
from campaigns import as_many, campaign, chance
from electing_broker import ElectingCluster, partition
from many_brokers import ManyBrokers, many_brokers
from passing_clock import PassingClock
from reassigning import Held, Reassigning
from scripted_broker import ALICE, VERSIONS_WITH_LOGIN, ScriptedBroker, with_login

from kipctl.changes.journal.entry import Origin
from kipctl.changes.wait_conditions import (
    ClusterState,
    Comparison,
    Condition,
    Views,
    await_conditions,
    compare,
    parse_conditions,
    unmet,
)
from kipctl.cluster.snapshot import NO_LEADER, Broker, PartitionId, Snapshot
from kipctl.errors import RefusedError, UsageError
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

IN_SYNC, PREFERRED, CONVERGED, QUIET = Condition
T0, HIDDEN = PartitionId("t", 0), PartitionId("u", 0)
REPLICAS = {T0: (1, 2), HIDDEN: (1, 2)}
GOOD = Snapshot(
    "c", tuple(Broker(id, "h", 1, None) for id in (1, 2)), (partition("t", 0, (1, 2), leader=1),)
)
MOVED = replace(GOOD, partitions=(replace(GOOD.partitions[0], leader=2, leader_epoch=6),))
BEHIND = replace(GOOD, partitions=(replace(GOOD.partitions[0], isr=(1,)),))
TWO_BEHIND = replace(
    BEHIND, partitions=(*BEHIND.partitions, partition("t", 1, (1, 7), leader=1, isr=(1,)))
)
WITHOUT = replace(GOOD, partitions=())


@pytest.mark.parametrize(
    ("condition", "seen", "left"),
    [
        (IN_SYNC, ClusterState(GOOD), ""),
        (
            IN_SYNC,
            ClusterState(BEHIND),
            "1 partition is not all in sync, such as t-0: it lacks broker 2",
        ),
        (
            IN_SYNC,
            ClusterState(replace(BEHIND, brokers=GOOD.brokers[:1])),
            "1 partition is not all in sync, such as t-0: it lacks broker 2 (down: start it)",
        ),
        (
            IN_SYNC,
            ClusterState(TWO_BEHIND),
            "2 partitions are not all in sync, such as t-0: they lack broker 2, broker 7 (down:"
            " start it)",
        ),
        (IN_SYNC, ClusterState(WITHOUT), ""),
        (PREFERRED, ClusterState(GOOD), ""),
        (
            PREFERRED,
            ClusterState(MOVED),
            "1 partition is not led by the preferred replica, such as",
        ),
        (CONVERGED, ClusterState(GOOD, Comparison((1, 2))), ""),
        (
            CONVERGED,
            ClusterState(GOOD, Comparison((1, 2), (), (T0,))),
            "1 partition is not led by the same broker in every broker's eyes, such as t-0",
        ),
        (
            CONVERGED,
            ClusterState(GOOD, Comparison((1, 2, 3), (2, 3), (T0,))),
            "broker 2, 3 does not answer",
        ),
        (QUIET, ClusterState(GOOD), ""),
        (
            QUIET,
            ClusterState(GOOD, Comparison(), frozenset([T0])),
            "1 partition is being reassigned, such as t-0",
        ),
        # The controller lists what the client may not Describe, too.
        (
            QUIET,
            ClusterState(WITHOUT, Comparison(), frozenset([T0])),
            "1 partition is being reassigned, such as t-0",
        ),
    ],
)
def test_what_keeps_a_condition_from_being_met(
    condition: Condition, seen: ClusterState, left: str
) -> None:
    reason = unmet(condition, seen)
    assert reason.startswith(left)
    assert bool(reason) == bool(left)


@pytest.mark.parametrize(
    ("shown", "compared"),
    [
        ([], Comparison()),
        ([{T0: (5, 1)}, {T0: (5, 1)}], Comparison((1, 2))),
        ([{T0: (5, 1)}, {T0: (6, 2)}, {T0: (5, 1)}], Comparison((1, 2, 3), (), (T0,))),
        # The same leader at another epoch: one of them has not heard yet.
        ([{T0: (5, 1)}, {T0: (6, 1)}], Comparison((1, 2), (), (T0,))),
        ([{T0: (5, 1)}, {}], Comparison((1, 2), (), (T0,))),
        ([{}, {T0: (5, 1)}], Comparison((1, 2), (), (T0,))),
        # Deleted, in every broker's eyes; and what is not asked for.
        ([{}, {PartitionId("other", 0): (5, 1)}], Comparison((1, 2))),
        ([None, {T0: (5, 1)}, None, {T0: (5, 1)}], Comparison((1, 2, 3, 4), (1, 3))),
        ([None, {T0: (5, 1)}, {T0: (5, 2)}], Comparison((1, 2, 3), (1,), (T0,))),
    ],
)
def test_what_brokers_show_is_compared(shown: list[Views | None], compared: Comparison) -> None:
    assert compare(enumerate(shown, start=1), [T0]) == compared


def test_conditions_are_separated_by_commas() -> None:
    assert parse_conditions("preferred, in-sync,preferred") == (PREFERRED, IN_SYNC)
    with pytest.raises(UsageError, match="'' is no condition"):
        parse_conditions("in-sync,")


@pytest.fixture
def lagging(clock: PassingClock) -> ElectingCluster:
    return ElectingCluster.of(
        partition("t", 0, (1, 2), leader=1, isr=(1,)), partition("u", 0, (1, 2), leader=1)
    )


def test_a_wait_ends_when_its_conditions_are_met(lagging: ElectingCluster) -> None:
    def catch_up() -> None:
        if lagging.metadata_asked == 8:
            lagging.partitions[T0] = replace(lagging.partitions[T0], isr=(1, 2))

    lagging.before_metadata = catch_up
    ran = lagging.kipctl("wait --until in-sync,preferred,converged")
    assert "1 partition is not all in sync, such as t-0: it lacks broker 2;" in ran.err
    assert "; broker 2: 1 of 2 partitions still copies" in ran.err
    assert "in-sync, preferred, converged" in ran.out


def test_what_is_not_met_in_time_is_said(lagging: ElectingCluster) -> None:
    ran = lagging.kipctl("wait --until in-sync --timeout 60", status=6)
    assert "After 60 s: 1 partition is not all in sync, such as t-0: it lacks broker 2;" in ran.err


def test_without_a_condition_all_that_a_restart_needs_is_waited_for(
    lagging: ElectingCluster,
) -> None:
    ran = lagging.kipctl("wait --timeout 60", status=6)
    assert "not all in sync" in ran.err
    lagging.partitions[T0] = replace(lagging.partitions[T0], isr=(1, 2), leader=2)
    assert "in-sync, converged" in lagging.kipctl("wait").out


def test_only_the_topics_named_are_waited_for(lagging: ElectingCluster) -> None:
    lagging.kipctl("wait --until in-sync --topic u")
    lagging.kipctl("wait --until in-sync --topic never", status=2)


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for(lagging: ElectingCluster) -> None:
    lagging.partitions[T0] = replace(lagging.partitions[T0], leader=NO_LEADER)

    def delete() -> None:
        if lagging.metadata_asked == 4:
            lagging.delete("t")

    lagging.before_metadata = delete
    lagging.kipctl("wait --until in-sync --topic ?")


@campaign
@pytest.mark.usefixtures("clock")
def test_of_many_brokers_all_have_to_answer_and_some_are_compared() -> None:
    """Any one that crashed and is still listed keeps it from being met, whichever it is."""
    places = [tuple((n + more) % 30 + 1 for more in range(3)) for n in range(30)]
    held = {PartitionId("t", n): Held(replicas, replicas[0]) for n, replicas in enumerate(places)}
    cluster = ManyBrokers(held, tuple(range(1, 31)), sizes=dict.fromkeys(held, 1))
    wait = "wait --until in-sync,converged --timeout 1"
    with many_brokers(cluster), socket.socket() as nobody:
        assert "30 of 30        20" in cluster.kipctl(wait).out
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        ports = dict(cluster.ports)
        for dead in chance("dead broker").sample(range(2, 31), as_many(4, 29)):
            cluster.ports = {**ports, dead: nobody.getsockname()[1]}
            cluster._frames.clear()
            assert f"broker {dead} does not answer" in cluster.kipctl(wait, status=6).err


def test_what_is_hidden_and_being_reassigned_keeps_all_topics_from_being_quiet(
    fake: Reassigning, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.partitions[HIDDEN].target = (3, 4)
    seen, shown = dict(fake.partitions), fake._metadata

    def without(request: MetadataRequest) -> MetadataResponse:
        fake.partitions = {T0: seen[T0]}
        try:
            return shown(request)
        finally:
            fake.partitions = seen

    monkeypatch.setattr(fake, "_metadata", without)
    ran = fake.kipctl("wait --until no-reassignment --timeout 60", status=6)
    assert "1 partition is being reassigned, such as u-0" in ran.err
    fake.kipctl("wait --until no-reassignment --topic t")


def test_between_two_batches_it_says_that_more_may_begin(fake: Reassigning) -> None:
    wait = "wait --until no-reassignment"
    assert "is changing this cluster now" not in fake.kipctl(wait).err
    with fake.kept.locked(Origin(("roll",))):
        ran = fake.kipctl(wait)
    assert "kipctl roll, process " in ran.err
    assert "is changing this cluster now, and may begin more." in ran.err


@pytest.mark.parametrize("bits", [0, -1])
def test_who_is_shown_no_topic_is_not_told_that_all_is_well(bits: int) -> None:
    """-1 has the bits of all operations: who may do all on the cluster is shown all there is."""
    cluster = ElectingCluster({})
    with ScriptedBroker(with_login(cluster.answer, bits), VERSIONS_WITH_LOGIN) as broker:
        cluster.port = broker.port
        with Cluster(Access(broker.address, ALICE), timeout_s=5) as asked:
            if bits:
                assert await_conditions(asked, None, (IN_SYNC,), 5, print)
                return
            with pytest.raises(RefusedError, match="No topic is shown"):
                await_conditions(asked, None, (IN_SYNC,), 5, print)
