"""The doctor's rules: from what a cluster is to what is said of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from kipctl.cluster.broker_metrics import BrokerMetrics, broker_of
from kipctl.cluster.inspect.findings import facts
from kipctl.cluster.inspect.findings.copy_stalls import Reassignments
from kipctl.cluster.inspect.findings.diagnose import diagnose, highest_of_all
from kipctl.cluster.inspect.findings.facts import (
    BrokerFacts,
    ClusterFacts,
    MetricsFacts,
    TopicFacts,
    ask_topics,
    whole_number,
)
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.errors import RefusedError, TimedOutError, UnreachableError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ResourceType,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.primitives import MalformedFrame
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security
from kipctl.transport.access import Access
from kipctl.transport.request import BrokerConnection, Cluster

HEALTHY = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "replica.fetch.backoff.ms": "200",
    "replica.fetch.wait.max.ms": "200",
    "replica.lag.time.max.ms": "30000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "unclean.leader.election.enable": "false",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "300",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "controlled.shutdown.enable": "true",
}
NEW = {ApiKey.PRODUCE: (0, 13), ApiKey.FETCH: (4, 18), ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1)}
KAFKA_3_6 = {
    ApiKey.PRODUCE: (0, 9),
    ApiKey.FETCH: (0, 15),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
}


def healthy(broker: int) -> BrokerFacts:
    return BrokerFacts(
        Broker(broker, f"host-{broker}", 9092, f"rack-{broker}"),
        api_versions=NEW,
        supported={"metadata.version": (7, 30)},
        finalized={"metadata.version": 30},
        settings=HEALTHY,
        lists=frozenset({1, 2, 3}),
    )


def partition(
    number: int,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    internal: bool = False,
) -> Partition:
    return Partition(
        PartitionId("orders", number),
        replicas,
        replicas if isr is None else isr,
        replicas[0] if leader is None else leader,
        leader_epoch=0,
        internal=internal,
    )


def cluster(
    *partitions: Partition,
    brokers: tuple[BrokerFacts, ...] = (healthy(1), healthy(2), healthy(3)),
    metrics: tuple[MetricsFacts, ...] = (),
    min_insync_replicas: int | None = 2,
    unclean: bool = False,
) -> ClusterFacts:
    listed = tuple(broker.broker for broker in brokers)
    return ClusterFacts(
        Snapshot("id", listed, partitions),
        brokers,
        {"orders": TopicFacts(min_insync_replicas, unclean)},
        metrics,
    )


def with_settings(*changes: Mapping[str, str | None]) -> ClusterFacts:
    """Brokers from 1 on with these changes of their settings; one change stands for all three."""
    each = changes * 3 if len(changes) == 1 else changes
    return cluster(
        partition(0),
        brokers=tuple(
            replace(healthy(number), settings={**HEALTHY, **change})
            for number, change in enumerate(each, 1)
        ),
    )


def with_brokers(*brokers: BrokerFacts) -> ClusterFacts:
    return cluster(partition(0), brokers=brokers)


def in_rack(broker: int, rack: str | None) -> BrokerFacts:
    return replace(healthy(broker), broker=Broker(broker, f"host-{broker}", 9092, rack))


def told(facts: ClusterFacts) -> list[str]:
    return [f"{finding.severity}: {finding.what}" for finding in diagnose(facts)]


def test_nothing_is_found_in_a_healthy_cluster() -> None:
    assert told(cluster(partition(0), partition(1, (2, 3, 1)), partition(2, (3, 1, 2)))) == []


def test_nothing_is_found_in_one_healthy_broker() -> None:
    alone = replace(healthy(1), lists=frozenset({1}))
    assert told(cluster(partition(0, (1,)), brokers=(alone,), min_insync_replicas=1)) == []


WHAT_IS_SO = {
    "problem: Broker 4 is not alive, and 1 partition has a replica on it.": cluster(
        partition(0, (1, 2, 4), isr=(1, 2))
    ),
    "problem: 1 partition has no leader; broker 1 had all acknowledged records at last:"
    " orders-0.": cluster(partition(0, isr=(1,), leader=-1)),
    (
        "problem: 2 partitions have fewer replicas in sync than min.insync.replicas: orders-0,"
        " orders-1."
    ): cluster(partition(0, isr=(1,)), partition(1, isr=(1,))),
    (
        "warning: 1 partition has replicas out of sync, and just min.insync.replicas left:"
        " orders-0."
    ): cluster(partition(0, isr=(1, 2))),
    "warning: 1 partition has replicas out of sync: orders-0.": cluster(
        partition(0, isr=(1, 2)), min_insync_replicas=1
    ),
    (
        "warning: 5 partitions have replicas out of sync: orders-0, orders-1, orders-2 and 2 more."
    ): cluster(*(partition(n, isr=(1, 2)) for n in range(5)), min_insync_replicas=1),
    "warning: 1 topic has partitions with one replica: orders.": cluster(
        partition(0, (1,)), min_insync_replicas=1
    ),
    "warning: 1 topic has no more replicas than min.insync.replicas: orders.": cluster(
        partition(0), min_insync_replicas=3
    ),
    "note: 1 topic has min.insync.replicas 1, with three replicas or more: orders.": cluster(
        partition(0), min_insync_replicas=1
    ),
    "warning: 1 of 2 partitions (50.0 %) is not led by the preferred replica.": cluster(
        partition(0, leader=2), partition(1)
    ),
    "note: 1 of 11 partitions (9.1 %) is not led by the preferred replica.": cluster(
        partition(0, leader=2), *(partition(n) for n in range(1, 11))
    ),
    (
        "warning: Broker 1 leads 30 partitions, 3.0 times the mean, and is the preferred leader"
        " of all of them."
    ): cluster(*(partition(n) for n in range(30))),
    "note: 1 topic is diskless: orders.": replace(
        cluster(partition(0)), topics={"orders": TopicFacts(2, diskless=True)}
    ),
    "problem: Broker 2 is listed as alive and does not answer: Broker x hangs.": with_brokers(
        healthy(1), replace(healthy(2), no_answer="Broker x hangs."), healthy(3)
    ),
    "warning: Broker 2 does not list broker 1, which others list.": with_brokers(
        healthy(1), replace(healthy(2), lists=frozenset({2, 3})), healthy(3)
    ),
    "note: No broker has a rack.": with_brokers(
        in_rack(1, None), in_rack(2, None), in_rack(3, None)
    ),
    "warning: Brokers 1, 3 have no rack, the others do.": with_brokers(
        in_rack(1, None), healthy(2), in_rack(3, None)
    ),
    "warning: 1 topic has partitions with all replicas in one rack: orders.": cluster(
        partition(0, (1, 2)),
        brokers=(in_rack(1, "a"), in_rack(2, "a"), in_rack(3, "b")),
        min_insync_replicas=1,
    ),
}


@pytest.mark.parametrize(("first", "facts"), WHAT_IS_SO.items())
def test_what_is_so(facts: ClusterFacts, first: str) -> None:
    assert told(facts)[0] == first


OF_SETTINGS_AND_VERSIONS = {
    "note: Brokers 1, 2, 3: replica.selector.class is not set.": with_settings(
        {"replica.selector.class": ""}
    ),
    "warning: Broker 2: replica.selector.class is not set.": with_settings(
        {}, {"replica.selector.class": None}, {}
    ),
    (
        "note: After a move followers may wait 1000 ms before they ask the new leader"
        " (replica.fetch.backoff.ms 1000, replica.fetch.wait.max.ms 200)."
    ): with_settings({"replica.fetch.backoff.ms": "1000"}),
    (
        "warning: replica.fetch.wait.max.ms (200) is not less than replica.lag.time.max.ms (200)."
    ): with_settings({"replica.lag.time.max.ms": "200"}),
    "note: replica.lag.time.max.ms is 60000.": with_settings({"replica.lag.time.max.ms": "60000"}),
    "warning: unclean.leader.election.enable is true (brokers 1, 2, 3).": with_settings(
        {"unclean.leader.election.enable": "true"}
    ),
    "warning: unclean.leader.election.enable is true (topic orders).": cluster(
        partition(0), unclean=True
    ),
    (
        "warning: Brokers 1, 2, 3: in broker.session.timeout.ms (9000) there is no room for two"
        " heartbeats (broker.heartbeat.interval.ms 5000)."
    ): with_settings({"broker.heartbeat.interval.ms": "5000"}),
    "note: broker.session.timeout.ms is 18000.": with_settings(
        {"broker.session.timeout.ms": "18000"}
    ),
    "warning: Brokers 1, 2, 3: controlled.shutdown.enable is false.": with_settings(
        {"controlled.shutdown.enable": "false"}
    ),
    "note: default.replication.factor is 1.": with_settings({"default.replication.factor": "1"}),
    "note: Brokers 1, 2, 3: auto.leader.rebalance.enable is false.": with_settings(
        {"auto.leader.rebalance.enable": "false"}
    ),
    "warning: min.insync.replicas differs between brokers (1: 2, 2: 2, 3: 1).": with_settings(
        {}, {}, {"min.insync.replicas": "1"}
    ),
    "warning: Brokers 1, 2, 3 have no leader hints (Produce 10, Fetch 16; KIP-951).": with_brokers(
        *(replace(healthy(n), api_versions=KAFKA_3_6) for n in (1, 2, 3))
    ),
    "warning: Brokers run different releases of Kafka (1: 4.3, 2: 3.6, 3: 4.3).": with_brokers(
        healthy(1), replace(healthy(2), supported={"metadata.version": (1, 12)}), healthy(3)
    ),
    "note: metadata.version is 12 (3.6), the brokers know 30 (4.3).": with_brokers(
        *(replace(healthy(n), finalized={"metadata.version": 12}) for n in (1, 2, 3))
    ),
    "note: Broker 1 does not report settings: No right.": with_brokers(
        replace(healthy(1), settings={}, settings_error=RefusedError("No right.", "Grant it.")),
        healthy(2),
        healthy(3),
    ),
    "warning: No.": cluster(
        partition(0),
        metrics=(MetricsFacts("http://x/metrics", error=UnreachableError("No.", "Do.")),),
    ),
    (
        "warning: http://x/metrics has the metrics of broker 7, which this cluster does not list."
    ): cluster(partition(0), metrics=(MetricsFacts("http://x/metrics", broker=7),)),
}


@pytest.mark.parametrize(("finding", "facts"), OF_SETTINGS_AND_VERSIONS.items())
def test_what_settings_and_versions_mean(facts: ClusterFacts, finding: str) -> None:
    assert told(facts) == [finding]


@pytest.mark.parametrize("text", ["", "many", "2.5", "\u0662", "9" * 5000])
def test_a_setting_that_is_no_number_is_not_known(text: str) -> None:
    """As other products may have it."""
    odd = replace(healthy(1), settings=HEALTHY | {"min.insync.replicas": text})
    assert with_brokers(odd).numbers("min.insync.replicas") == {}
    assert with_brokers(healthy(1)).numbers("min.insync.replicas") == {1: 2}
    assert whole_number(text) is None


def test_a_broker_without_metadata_version_is_not_compared() -> None:
    """As other products have features of their own."""
    others = replace(healthy(2), finalized={"own.version": 1})
    assert told(with_brokers(healthy(1), others, healthy(3))) == []


@pytest.mark.parametrize("results", [0, 2])
def test_a_broker_that_answers_about_none_or_several_is_no_kafka(results: int) -> None:
    class Answering:
        access = Access("b:1")

        def request(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
            return DescribeConfigsResponse(results=(DescribeConfigsResult(),) * results)

    with pytest.raises(MalformedFrame, match=f"{results} answers where it was asked about one"):
        facts._settings(cast(BrokerConnection, Answering()), 1)


def test_a_broker_that_is_left_alone_is_not_compared_with_others() -> None:
    """Of three brokers without racks two are gone, and so are all leaders."""
    alone = replace(in_rack(1, None), lists=frozenset({1}))
    shown = told(cluster(partition(0, isr=(2,), leader=-1), brokers=(alone,)))
    assert [finding for finding in shown if "rack" in finding or "preferred" in finding] == []


def test_settings_of_topics_that_nobody_told_are_not_known_and_never_taken_for_1() -> None:
    facts = cluster(partition(0, isr=(1,)), partition(1), min_insync_replicas=None)
    assert told(facts) == [
        "warning: min.insync.replicas of 1 topic is not known: orders.",
        "warning: 1 partition has replicas out of sync, and their min.insync.replicas is not"
        " known: orders-0.",
    ]
    facts = replace(facts, topics={}, topics_error=TimedOutError("Broker b:1 did not answer."))
    assert told(facts)[0] == (
        "warning: min.insync.replicas of 1 topic is not known: orders. Broker b:1 did not answer."
    )


@pytest.mark.parametrize(
    ("replicas", "least", "change"),
    [
        ((1, 2), 2, "Raise the replication factor to 3 first"),
        ((1, 2), 3, "Raise the replication factor to 3 first"),
        ((1, 2, 3), 3, "Add a replica (kipctl reassign --replication-factor N"),
    ],
)
def test_nobody_is_led_to_acks_all_that_means_the_leader_alone(
    replicas: tuple[int, ...], least: int, change: str
) -> None:
    (finding,) = diagnose(cluster(partition(0, replicas), min_insync_replicas=least))
    assert finding.what == "1 topic has no more replicas than min.insync.replicas: orders."
    assert finding.change.startswith(change)


class Configs:
    """A cluster whose brokers tell topics' settings; `fails` from that request on (from 1)."""

    def __init__(self, denied: str = "", fails: int = 0) -> None:
        self.denied, self.fails = denied, fails
        self.access = Access("b:1", Security(sasl=Sasl("PLAIN", "alice", "secret")))
        self.asked: list[int] = []

    def any_broker(self) -> "Configs":
        return self

    def request(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        self.asked.append(len(request.resources))
        if len(self.asked) == self.fails:
            raise TimedOutError("Broker b:1 did not answer DescribeConfigs in 10 s.")
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    resource_type=ResourceType.TOPIC,
                    resource_name=resource.resource_name,
                )
                if resource.resource_name == self.denied
                else DescribeConfigsResult(
                    resource_name=resource.resource_name,
                    configs=(DescribeConfigsResourceResult("min.insync.replicas", "2"),),
                )
                for resource in request.resources
            )
        )


TOPICS = [f"t{number}" for number in range(1200)]


def test_settings_of_many_topics_are_asked_for_in_chunks() -> None:
    configs = Configs(denied="t700")
    facts, error = ask_topics(cast(Cluster, configs), TOPICS)
    assert configs.asked == [500, 500, 200]
    assert set(TOPICS) - set(facts) == {"t700"}
    assert facts["t1199"] == TopicFacts(2, None)
    assert error is not None
    assert error.what == (
        "User:alice has no right to DescribeConfigs on Topic t700 (TOPIC_AUTHORIZATION_FAILED)."
    )
    assert error.next_step.startswith("Grant it: kafka-acls --bootstrap-server b:1 ")
    assert error.next_step.endswith("--operation DescribeConfigs --topic t700")


def test_after_a_chunk_that_is_not_answered_the_others_are_not_known() -> None:
    configs = Configs(fails=2)
    facts, error = ask_topics(cast(Cluster, configs), TOPICS)
    assert (len(facts), configs.asked) == (500, [500, 500])
    assert error is not None
    assert error.what == "Broker b:1 did not answer DescribeConfigs in 10 s."


def test_old_brokers_lack_more_than_hints() -> None:
    old = {ApiKey.PRODUCE: (0, 7), ApiKey.FETCH: (0, 10)}
    facts = with_brokers(healthy(1), replace(healthy(2), api_versions=old), healthy(3))
    assert told(facts) == [
        "warning: Broker 2 has no leader hints (Produce 10, Fetch 16; KIP-951).",
        "warning: Broker 2 has no AlterPartitionReassignments (KIP-455).",
        "note: Broker 2 has no preferred read replica (Fetch 11; KIP-392).",
    ]


def test_exact_versions_differ_where_metrics_tell_them() -> None:
    def metrics(broker: int, version: str) -> MetricsFacts:
        counts = BrokerMetrics("http://x", {}, {}, broker, version)
        return MetricsFacts("http://x", broker, counts, counts, {})

    same = cluster(partition(0), metrics=tuple(metrics(n, "4.3.1") for n in (1, 2, 3)))
    assert told(same) == []
    mixed = replace(same, metrics=(metrics(1, "4.3.0"), metrics(2, "4.3.1")))
    assert told(mixed) == [
        "warning: Brokers run different releases of Kafka (1: 4.3.0, 2: 4.3.1, 3: 4.3)."
    ]


def test_the_worst_comes_first_and_each_says_what_to_change() -> None:
    facts = cluster(
        partition(0, isr=(1,)),
        partition(1, (2, 3, 4), isr=(2, 3), leader=3),
        brokers=(healthy(1), in_rack(2, None), replace(healthy(3), settings={})),
    )
    findings = diagnose(facts)
    assert [str(finding.severity) for finding in findings] == sorted(
        (str(finding.severity) for finding in findings), key=["problem", "warning", "note"].index
    )
    assert {str(finding.severity) for finding in findings} == {"problem", "warning"}
    assert all(f.what and f.consequence and f.change for f in findings)


def test_leaders_that_go_back_unasked_are_told_of_with_the_time() -> None:
    astray = cluster(partition(0, leader=2))
    assert diagnose(astray)[0].consequence.startswith("Within 300 s the controller moves them")
    off = {**HEALTHY, "auto.leader.rebalance.enable": "false"}
    stay = cluster(
        partition(0, leader=2), brokers=tuple(replace(healthy(n), settings=off) for n in (1, 2, 3))
    )
    assert diagnose(stay)[0].consequence.startswith("They stay where they are")


def test_the_version_that_all_brokers_know() -> None:
    facts = with_brokers(healthy(1), replace(healthy(2), api_versions=KAFKA_3_6), healthy(3))
    assert highest_of_all(facts, ApiKey.PRODUCE) == 9
    assert highest_of_all(facts, ApiKey.METADATA) == -1
    silent = with_brokers(healthy(1), replace(healthy(2), no_answer="no", api_versions={}))
    assert highest_of_all(silent, ApiKey.PRODUCE) == 13


@pytest.mark.parametrize(
    ("url", "told_id", "broker"),
    [
        ("http://host-2:7071/metrics", None, 2),
        ("http://host-2:7071/metrics", 3, 3),
        ("http://elsewhere:7071/metrics", None, None),
    ],
)
def test_whose_metrics_they_are(url: str, told_id: int | None, broker: int | None) -> None:
    brokers = [healthy(number).broker for number in (1, 2, 3)]
    assert broker_of(BrokerMetrics(url, {}, {}, told_id), brokers) == broker


def test_two_brokers_on_one_host_are_not_guessed_at() -> None:
    brokers = [Broker(number, "host", 9092 + number, None) for number in (1, 2)]
    assert broker_of(BrokerMetrics("http://host:7071/metrics", {}, {}), brokers) is None


def test_how_many_replicas_a_topic_is_to_have_is_seen_when_its_reassignment_is_over() -> None:
    weak = cluster(partition(0), min_insync_replicas=1)
    moving = Reassignment(partition(0).id, (1, 2, 3), adding=(3,), removing=(1,))
    during = replace(weak, copying=Reassignments(busy=(moving,)))
    assert any("min.insync.replicas 1" in said for said in told(weak))
    assert not any("min.insync.replicas 1" in said for said in told(during))
