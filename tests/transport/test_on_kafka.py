"""Every message in every version that a real broker knows, and records that librdkafka reads."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from record_batches import Record, encode_batch

from kipctl.cluster.topics import await_no_topics, await_topic, create_topics, delete_topics
from kipctl.lab.cluster import Lab
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import LEAST_OF_KAFKA_4, ApiVersionsRequest
from kipctl.protocol.compression import Compression
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.list_offsets import (
    CONSUMER_REPLICA_ID,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kipctl.transport.request import BrokerConnection, Cluster

pytestmark = pytest.mark.kafka

TOPIC = "protocol-on-kafka"


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as cluster:
        yield cluster


@pytest.fixture
def topic(lab: Lab, cluster: Cluster) -> Iterator[MetadataResponseTopic]:
    """A topic of one partition on all brokers, once every broker knows it."""
    create_topics(lab.bootstrap_server, [TOPIC], 1, 3)
    await_topic(cluster, TOPIC, 1)
    (topic_metadata,) = cluster.metadata([TOPIC]).topics
    yield topic_metadata
    delete_topics(lab.bootstrap_server, [TOPIC])
    await_no_topics(cluster, [TOPIC])


def common(connection: BrokerConnection, request: type) -> range:
    low, high = connection.api_versions[request.api.key]
    first, last = request.api.versions
    assert (first, min(high, last)) == (max(low, first), high), "kipctl knows all versions"
    return range(first, high + 1)


def log_end(leader: BrokerConnection, version: int):
    partition = ListOffsetsPartition(0, timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(CONSUMER_REPLICA_ID, 0, (ListOffsetsTopic(TOPIC, (partition,)),))
    return leader.request(request, version).topics[0].partitions[0]


def produce(
    connection: BrokerConnection, topic: MetadataResponseTopic, batch: bytes, version: int
) -> tuple[ProduceResponse, PartitionProduceResponse]:
    partitions = (PartitionProduceData(0, batch),)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=(TopicProduceData(TOPIC, topic.topic_id, partitions),),
    )
    response = connection.request(request, version)
    return response, response.responses[0].partition_responses[0]


def test_records_of_every_version_and_compression_arrive_as_they_were(lab, cluster, topic):
    leader = cluster.broker(topic.partitions[0].leader_id)
    sent = []
    now_ms = int(time.time() * 1000)  # older ones would be removed by retention at any moment
    for version in common(leader, ProduceRequest):
        for compression in Compression:
            if compression is Compression.ZSTD and version < 7:
                continue  # KIP-110
            records = [
                Record(f"{version} {compression.name}".encode(), b"k", now_ms, (("h", b"1"),)),
                Record(b"x" * 70_000, None, now_ms + 2, (("n", None), ("n", b""))),
            ]
            _, partition = produce(leader, topic, encode_batch(records, compression), version)
            assert partition.error_code == ErrorCode.NONE, (version, compression)
            assert partition.base_offset == len(sent)
            sent += records
    for version in common(leader, ListOffsetsRequest):
        assert log_end(leader, version).offset == len(sent)
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": TOPIC})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    read = []
    while len(read) < len(sent):
        (message,) = consumer.consume(1, timeout=60)
        assert message.error() is None
        _, timestamp = message.timestamp()
        headers = tuple(message.headers())
        read.append(Record(message.value(), message.key(), timestamp, headers))
    consumer.close()
    assert read == sent


def test_a_broker_that_does_not_lead_hints_from_version_10_on(cluster, topic):
    (partition,) = topic.partitions
    leader = cluster.nodes[partition.leader_id]
    follower = cluster.broker(next(n for n in cluster.nodes if n != partition.leader_id))
    for version in common(follower, ProduceRequest):
        response, refused = produce(follower, topic, encode_batch([Record(b"v")]), version)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.base_offset == -1
        hint = (refused.current_leader, [(n.node_id, n.port) for n in response.node_endpoints])
        if version < 10:
            assert hint == (LeaderIdAndEpoch(), [])
        else:
            expected = LeaderIdAndEpoch(partition.leader_id, partition.leader_epoch)
            assert hint == (expected, [(leader.node_id, leader.port)])


def test_metadata_by_name_and_by_id_in_every_version(cluster, topic):
    broker = cluster.any_broker()
    for version in common(broker, MetadataRequest):
        request = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),))
        response = broker.request(request, version)
        assert {node.node_id for node in response.brokers} == {1, 2, 3}
        (topic_metadata,) = response.topics
        (partition,) = topic_metadata.partitions
        assert isinstance(partition, MetadataResponsePartition)
        assert (topic_metadata.name, partition.leader_id) == (TOPIC, topic.partitions[0].leader_id)
    by_id = MetadataRequest(topics=(MetadataRequestTopic(topic.topic_id, None),))
    assert broker.request(by_id).topics[0].name == TOPIC


def test_the_least_versions_of_kafka_4_are_those_that_its_brokers_tell(cluster):
    told = cluster.any_broker().api_versions
    least = {**LEAST_OF_KAFKA_4, ApiKey.PRODUCE: 0}
    assert {key: told[key][0] for key in least} == least
    others = [key for key, (first, _) in told.items() if first and key not in least]
    write_txn_markers, share_groups = 27, range(76, 80)  # of brokers alone; of no Kafka before 4
    assert others == [write_txn_markers, *share_groups]


def test_the_cluster_describes_itself_in_every_version(cluster):
    broker = cluster.any_broker()
    for version in common(broker, ApiVersionsRequest):
        request = ApiVersionsRequest(client_software_name="kipctl", client_software_version="1")
        response = broker.request(request, version)
        assert response.error_code == ErrorCode.NONE
        assert len(response.api_keys) == len(broker.api_versions)
    for version in common(broker, DescribeClusterRequest):
        assert len(broker.request(DescribeClusterRequest(), version).brokers) == 3


def test_producer_ids_are_handed_out_in_every_version_without_two_phase_commit(cluster):
    broker = cluster.any_broker()
    assert broker.api_versions[InitProducerIdRequest.api.key] == (0, 5)
    given = set()
    for version in range(6):
        while (
            answer := broker.request(InitProducerIdRequest(), version)
        ).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            continue  # the broker's first block of ids is on its way
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
        given.add(answer.producer_id)
    assert len(given) == 6


def test_reassignments_say_per_partition_what_was_refused(cluster, topic):
    replicas = topic.partitions[0].replica_nodes
    request = AlterPartitionReassignmentsRequest(
        topics=(
            ReassignableTopic(
                TOPIC,
                (ReassignablePartition(0, (77,)), ReassignablePartition(9, replicas)),
            ),
        )
    )
    controller = cluster.controller()
    for version in common(controller, AlterPartitionReassignmentsRequest):
        response = controller.request(request, version)
        assert response.error_code == ErrorCode.NONE
        (answered,) = response.responses
        codes = {p.partition_index: p.error_code for p in answered.partitions}
        assert codes == {
            0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    assert cluster.ask_controller(ListPartitionReassignmentsRequest()).topics == ()
