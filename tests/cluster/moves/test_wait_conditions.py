"""What a script waits for, by table; and the wait itself on a scripted cluster."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from electing_broker import ElectingCluster, partition
from many_brokers import ManyBrokers, many_brokers
from reassigning import Held, kipctl_on, reassigning
from scripted_broker import VERSIONS, Asked, ScriptedBroker
from test_elect_commands import kipctl

from kipctl.cluster.moves.journal import journal
from kipctl.cluster.moves.journal_entry import Origin
from kipctl.cluster.moves.wait_conditions import (
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
from kipctl.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kipctl.protocol.message import Response
from kipctl.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

IN_SYNC, PREFERRED, CONVERGED, QUIET = Condition
T0 = PartitionId("t", 0)
GOOD = Snapshot(
    "c", tuple(Broker(id, "h", 1, None) for id in (1, 2)), (partition("t", 0, (1, 2), leader=1),)
)
MOVED = replace(GOOD, partitions=(replace(GOOD.partitions[0], leader=2, leader_epoch=6),))
BEHIND = replace(GOOD, partitions=(replace(GOOD.partitions[0], isr=(1,)),))
WITHOUT = replace(GOOD, partitions=())


@pytest.mark.parametrize(
    ("condition", "seen", "left"),
    [
        (IN_SYNC, ClusterState(GOOD), ""),
        (IN_SYNC, ClusterState(BEHIND), "1 partition is not all in sync, such as t-0"),
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
    found = unmet(condition, seen)
    assert found.startswith(left)
    assert bool(found) == bool(left)


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


def lagging() -> ElectingCluster:
    return ElectingCluster.of(
        partition("t", 0, (1, 2), leader=1, isr=(1,)), partition("u", 0, (1, 2), leader=1)
    )


def test_a_wait_ends_when_its_conditions_are_met() -> None:
    cluster = lagging()

    def catch_up() -> None:
        if cluster.metadata_asked == 8:
            cluster.partitions[T0] = replace(cluster.partitions[T0], isr=(1, 2))

    cluster.before_metadata = catch_up
    ran = kipctl(cluster, "wait --until in-sync,preferred,converged")
    assert ran.status == 0, ran.err
    assert "1 partition is not all in sync, such as t-0" in ran.err
    assert "in-sync, preferred, converged" in ran.out


def test_what_is_not_met_in_time_is_said() -> None:
    ran = kipctl(lagging(), "wait --until in-sync --timeout 0.2")
    assert ran.status == 6
    assert "After 0.2 s: 1 partition is not all in sync, such as t-0." in ran.err


def test_only_the_topics_named_are_waited_for() -> None:
    cluster = lagging()
    assert kipctl(cluster, "wait --until in-sync --topic u").status == 0
    assert kipctl(cluster, "wait --until in-sync --topic never").status == 2


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for() -> None:
    cluster = lagging()
    cluster.partitions[T0] = replace(cluster.partitions[T0], leader=NO_LEADER)

    def delete() -> None:
        if cluster.metadata_asked == 4:
            cluster.delete("t")

    cluster.before_metadata = delete
    assert kipctl(cluster, "wait --until in-sync --topic ?").status == 0


def thirty_brokers() -> ManyBrokers:
    ids = [PartitionId("t", n) for n in range(30)]
    places = {one: tuple((n + more) % 30 + 1 for more in range(3)) for n, one in enumerate(ids)}
    return ManyBrokers(
        {one: Held(replicas, replicas[0]) for one, replicas in places.items()},
        brokers=tuple(range(1, 31)),
        sizes=dict.fromkeys(ids, 1),
    )


def test_of_many_brokers_all_have_to_answer_and_some_are_compared(tmp_path: Path) -> None:
    with many_brokers(thirty_brokers()) as broker:
        ran = kipctl_on(broker, tmp_path)("wait", "--until", "in-sync,converged")
    assert ran.status == 0, ran.err
    assert "30 of 30        20" in ran.out


@pytest.mark.parametrize("dead", range(2, 31))
def test_any_one_that_crashed_and_is_still_listed_keeps_it_from_being_met(
    dead: int, tmp_path: Path
) -> None:
    cluster = thirty_brokers()
    with many_brokers(cluster) as broker, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        cluster.ports[dead] = nobody.getsockname()[1]
        words = ("wait", "--until", "in-sync,converged", "--timeout", "0.1")
        ran = kipctl_on(broker, tmp_path)(*words)
    assert ran.status == 6, ran.err
    assert f"broker {dead} does not answer" in ran.err


def test_what_is_hidden_and_being_reassigned_keeps_all_topics_from_being_quiet(
    tmp_path: Path,
) -> None:
    hidden = PartitionId("u", 0)
    with reassigning({T0: (1, 2), hidden: (1, 2)}) as (fake, broker):
        fake.partitions[hidden].target = (3, 4)
        seen = dict(fake.partitions)
        shown = fake._metadata

        def without(request):  # type: ignore[no-untyped-def]
            fake.partitions = {T0: seen[T0]}
            try:
                return shown(request)
            finally:
                fake.partitions = seen

        fake._metadata = without  # type: ignore[method-assign]
        kipctl = kipctl_on(broker, tmp_path)
        ran = kipctl("wait", "--until", "no-reassignment", "--timeout", "0.1")
        assert ran.status == 6, ran.err
        assert "1 partition is being reassigned, such as u-0" in ran.err
        assert kipctl("wait", "--until", "no-reassignment", "--topic", "t").status == 0


def test_between_two_batches_it_says_that_more_may_begin(tmp_path: Path) -> None:
    with reassigning({T0: (1, 2)}) as (_, broker):
        kipctl = kipctl_on(broker, tmp_path)
        words = ("wait", "--until", "no-reassignment")
        assert "is changing this cluster now" not in kipctl(*words).err
        with journal("fake", {"XDG_STATE_HOME": str(tmp_path)}).locked(Origin(("roll",))):
            ran = kipctl(*words)
    assert ran.status == 0
    assert "kipctl roll, process " in ran.err
    assert "is changing this cluster now, and may begin more." in ran.err


@pytest.mark.parametrize("bits", [0, -1])
def test_who_is_shown_no_topic_is_not_told_that_all_is_well(bits: int) -> None:
    """-1 has the bits of all operations: who may do all on the cluster is shown all there is."""
    cluster = ElectingCluster({})

    def answer(asked: Asked) -> Response | bytes | None:
        match asked.request:
            case SaslHandshakeRequest():
                return SaslHandshakeResponse(mechanisms=("PLAIN",))
            case SaslAuthenticateRequest():
                return SaslAuthenticateResponse()
            case DescribeClusterRequest():
                return DescribeClusterResponse(cluster_authorized_operations=bits)
        return cluster.answer(asked)

    security = Security(sasl=Sasl("PLAIN", "alice", "secret"))
    versions = {**VERSIONS, 17: (0, 1), 36: (0, 2)}
    with ScriptedBroker(answer, versions) as broker:
        cluster.port = broker.port
        with Cluster(Access(broker.address, security), timeout_s=5) as asked:
            if bits:
                assert await_conditions(asked, None, (IN_SYNC,), 5, print)
                return
            with pytest.raises(RefusedError, match="No topic is shown"):
                await_conditions(asked, None, (IN_SYNC,), 5, print)
