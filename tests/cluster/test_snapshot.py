"""Snapshots: which topics a pattern means, and the counts that an operator reads."""

import pytest
from electing_broker import ElectingCluster, partition

from kipctl.cluster.snapshot import (
    Broker,
    Partition,
    PartitionId,
    Snapshot,
    from_metadata,
    refresh_snapshot,
    select,
    take_snapshot,
)
from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.transport.request import Cluster

CLUSTER = Snapshot(
    "cluster",
    tuple(Broker(id, "localhost", 9000 + id, None) for id in (1, 2, 3)),
    tuple(
        Partition(PartitionId(topic, 0), (1, 2), (1, 2), leader, 0, internal=topic.startswith("__"))
        for topic, leader in [("__consumer_offsets", 1), ("orders", 1), ("orders-eu", 2), ("x", 1)]
    ),
)


@pytest.mark.parametrize(
    ("patterns", "topics"),
    [
        ([], ("orders", "orders-eu", "x")),
        (["orders"], ("orders",)),
        (["orders*"], ("orders", "orders-eu")),
        (["*"], ("orders", "orders-eu", "x")),
        (["?", "orders"], ("orders", "x")),
        (["__consumer_offsets"], ("__consumer_offsets",)),
        (["*", "__consumer_offsets"], ("__consumer_offsets", "orders", "orders-eu", "x")),
    ],
)
def test_internal_topics_are_left_alone_unless_named(
    patterns: list[str], topics: tuple[str, ...]
) -> None:
    assert select(CLUSTER, patterns).topics == topics


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("order", "No topic is named 'order'"),
        ("o?", "No topic matches 'o\\?'"),
        ("__*", "No topic matches"),
    ],
)
def test_a_pattern_that_means_nothing_is_wrong_usage(pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select(CLUSTER, ["orders", pattern])


def test_a_broker_that_leads_nothing_counts_in_the_skew() -> None:
    assert CLUSTER.leaders_per_broker == {1: 3, 2: 1, 3: 0}
    assert CLUSTER.leader_skew == 3 / (4 / 3)
    assert [p.id.topic for p in CLUSTER.not_led_by_preferred] == ["orders-eu"]
    assert Snapshot("empty", CLUSTER.brokers, ()).leader_skew is None


def test_what_follows_from_a_snapshot_is_computed_once() -> None:
    """Not once for each partition that is looked up: that grows by the square."""
    for name in ("by_id", "assignment", "topics", "leaders_per_broker", "leaderless"):
        assert getattr(CLUSTER, name) is getattr(CLUSTER, name)
    assert CLUSTER.only([]).by_id == {}
    assert CLUSTER.only(CLUSTER.by_id) == CLUSTER


def test_metadata_becomes_a_sorted_snapshot() -> None:
    snapshot = from_metadata(
        MetadataResponse(
            cluster_id="abc",
            brokers=(
                MetadataResponseBroker(node_id=2, host="b", port=2, rack=None),
                MetadataResponseBroker(node_id=1, host="a", port=1, rack="r"),
            ),
            topics=(
                MetadataResponseTopic(
                    name="t",
                    is_internal=True,
                    partitions=(
                        MetadataResponsePartition(
                            partition_index=10,
                            leader_id=2,
                            leader_epoch=4,
                            replica_nodes=(1, 2),
                            isr_nodes=(2,),
                            offline_replicas=(1,),
                        ),
                        MetadataResponsePartition(
                            partition_index=9,
                            leader_id=-1,
                            leader_epoch=5,
                            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                            replica_nodes=(1,),
                        ),
                    ),
                ),
            ),
        )
    )
    assert snapshot == Snapshot(
        "abc",
        (Broker(1, "a", 1, "r"), Broker(2, "b", 2, None)),
        (
            Partition(PartitionId("t", 9), (1,), (), -1, 5, (), True),
            Partition(PartitionId("t", 10), (1, 2), (2,), 2, 4, (1,), True),
        ),
    )


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UsageError, "There is no topic 'lost'"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, RefusedError, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_a_topic_that_is_not_shown_is_an_error(
    code: ErrorCode, error: type[KipctlError], message: str
) -> None:
    with pytest.raises(error, match=message):
        from_metadata(
            MetadataResponse(topics=(MetadataResponseTopic(name="lost", error_code=code),))
        )


def test_a_topic_that_is_gone_is_left_out_when_it_is_looked_at_again() -> None:
    cluster = ElectingCluster.of(partition("t", 0, (1, 2), 1), partition("u", 0, (1, 2), 1))
    with cluster.start() as broker, Cluster(broker.address) as reached:
        assert refresh_snapshot(reached, ["u", "t"]).topics == ("t", "u")
        cluster.delete("u")
        assert refresh_snapshot(reached, ["u", "t"]).topics == ("t",)
        with pytest.raises(UsageError, match="There is no topic 'u'"):
            take_snapshot(reached, ["u", "t"])
