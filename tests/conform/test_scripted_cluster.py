"""The scripted cluster by itself: a request in, an answer out, with a clock that the test has."""

import gc
import socket
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from scripted_requests import PLACE, Clock, asked, call, produced, sent

from kipctl.conform.cluster import (
    Answer,
    Cluster,
    Cut,
    Delay,
    Drop,
    Leader,
    Loopback,
    Node,
    Refusal,
)
from kipctl.conform.cluster.apis import REQUESTS, VERSIONS
from kipctl.conform.cluster.call import read_call
from kipctl.conform.cluster.cluster import HungUpError, SilentError
from kipctl.conform.cluster.control import Control
from kipctl.protocol.api import ApiKey, encode_request
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.committed_offsets import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from kipctl.protocol.find_coordinator import FindCoordinatorRequest
from kipctl.protocol.groups import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, metadata_request
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kipctl.protocol.records import batch_header, encode_record, one_record_batch


def numbered(sequence: int, epoch: int = 0) -> bytes:
    """A batch of one record of an idempotent producer."""
    content = memoryview(encode_record(0, 0, None, b"x"))
    return batch_header(0, 1, 0, 4000, epoch, sequence, content) + bytes(content)


def fetched(cluster: Cluster, offset: int, epoch: int = -1, broker: int = 1, **fields: Any) -> Any:
    partition = FetchPartition(0, epoch, offset, partition_max_bytes=999)
    topic = FetchTopic(topic_id=cluster.topics["t"], partitions=(partition,))
    answer = asked(cluster, FetchRequest(topics=(topic,), **fields), 16, broker)
    return answer.responses[0].partitions[0]


def test_a_leader_appends_and_hands_out_what_it_has(cluster: Cluster) -> None:
    assert produced(cluster, one_record_batch(b"a"))[1].base_offset == 0
    assert produced(cluster, one_record_batch(b"b"))[1].base_offset == 1
    read = fetched(cluster, 1, min_bytes=1)
    assert (read.error_code, read.high_watermark) == (0, 2)
    assert read.records[12:16] == (5).to_bytes(4, "big")
    assert b"b" in read.records
    assert b"a" not in read.records[61:]


def test_another_broker_names_the_leader_and_where_it_listens(cluster: Cluster) -> None:
    answer, partition = produced(cluster, one_record_batch(b"a"), broker=2)
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 5)
    assert [(n.node_id, n.port) for n in answer.node_endpoints] == [(1, 9001)]
    answer, partition = produced(cluster, one_record_batch(b"a"), broker=2, version=9)
    assert (partition.current_leader.leader_id, answer.node_endpoints) == (-1, ())


def test_brokers_of_the_draft_name_leaders_in_produce_9_and_not_before(cluster: Cluster) -> None:
    cluster.has_draft_hints = True
    for version, leader in ((8, -1), (9, 1)):
        answer, partition = produced(cluster, one_record_batch(b"a"), broker=2, version=version)
        assert (partition.current_leader.leader_id, len(answer.node_endpoints)) == (
            leader,
            leader > 0,
        )


def test_nobody_gets_an_answer_for_acks_0(cluster: Cluster) -> None:
    assert asked(cluster, sent(one_record_batch(b"a"), acks=0), 10) is None
    assert cluster.log(PLACE).end == 1


@pytest.mark.parametrize(
    ("sequences", "expected"),
    [
        ((0, 1), (0, 0)),
        ((0, 0), (0, 0)),
        ((0, 2), (0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)),
    ],
)
def test_sequences_are_kept(
    cluster: Cluster, sequences: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    answers = [produced(cluster, numbered(sequence))[1] for sequence in sequences]
    assert tuple(a.error_code for a in answers) == expected
    assert cluster.log(PLACE).end == len(
        {s for s, e in zip(sequences, expected, strict=True) if not e}
    )


@pytest.mark.parametrize("content", [b"x" * 70, one_record_batch(b"x")[:-1] + b"y"])
def test_what_is_no_batch_or_another_than_its_crc_says_is_corrupt(
    cluster: Cluster, content: bytes
) -> None:
    assert produced(cluster, content)[1].error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, 0),
        (5, 0),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_reader_s_epoch_is_held_against_the_leader_s(
    cluster: Cluster, epoch: int, error: int
) -> None:
    read = fetched(cluster, 0, epoch)
    assert read.error_code == error
    assert (read.current_leader.leader_epoch == 5) == (error == ErrorCode.FENCED_LEADER_EPOCH)


def test_an_epoch_is_looked_at_before_the_leader(cluster: Cluster) -> None:
    """As Kafka's Partition.getLocalLog: who follows a new leader fences who is behind."""
    cluster.move(PLACE, Leader(2, 6))
    assert fetched(cluster, 0, 5).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetched(cluster, 0, 6).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(cluster, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_offset_outside_of_the_log_is_out_of_range(cluster: Cluster) -> None:
    """Who is refused gets empty records, not null: librdkafka asks again at once for those."""
    refused = fetched(cluster, 1)
    assert (refused.error_code, refused.records) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")


def test_a_fetch_waits_for_records_and_no_longer_than_it_is_allowed(
    cluster: Cluster, clock: Clock
) -> None:
    topic = FetchTopic("t", partitions=(FetchPartition(0, -1, 0, partition_max_bytes=999),))
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=(topic,))
    for happens in (lambda: cluster.log(PLACE).write(b"x", 0), lambda: None):
        cluster.log(PLACE).batches.clear()
        clock.us = 0
        answering = cluster.answer(call(request, 12))
        next(answering)
        happens()
        clock.us = 499_000 if cluster.log(PLACE).batches else 500_000
        with pytest.raises(StopIteration):
            next(answering)


def test_a_reader_is_sent_to_the_follower_in_its_rack(cluster: Cluster) -> None:
    cluster.followers.add((PLACE, 3))
    assert fetched(cluster, 0, rack_id="c").preferred_read_replica == 3
    assert fetched(cluster, 0, rack_id="b").preferred_read_replica == -1
    assert fetched(cluster, 0, rack_id="c", broker=3).error_code == 0
    assert fetched(cluster, 0, broker=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_says_what_it_believes(cluster: Cluster) -> None:
    behind, before = cluster.brokers[3], Leader(1, 5)
    behind.shown[PLACE] = behind.leaders[PLACE] = before
    behind.endpoints[1] = Node(1, "elsewhere", 1)
    behind.hidden = {2}
    cluster.move(PLACE, Leader(2, 6))
    shown = {}
    for broker in cluster.brokers:
        answer: MetadataResponse = asked(cluster, metadata_request(["t"]), 12, broker)
        leader = answer.topics[0].partitions[0]
        shown[broker] = leader.leader_id, leader.leader_epoch, len(answer.brokers)
    assert shown == {1: (2, 6, 3), 2: (2, 6, 3), 3: (1, 5, 2)}
    answer, partition = produced(cluster, one_record_batch(b"a"), broker=3)
    assert partition.current_leader.leader_epoch == 5
    assert answer.node_endpoints[0].host == "elsewhere"
    del behind.leaders[PLACE]
    assert produced(cluster, b"", broker=3)[1].current_leader.leader_epoch == 6


def test_a_topic_made_anew_has_another_id_and_empty_logs(cluster: Cluster) -> None:
    before = cluster.topics["t"]
    produced(cluster, one_record_batch(b"a"))
    cluster.create("t", 1, epoch=0)
    assert cluster.topics["t"] != before
    assert cluster.log(PLACE).end == 0
    by_id = ProduceRequest(
        acks=1,
        topic_data=(TopicProduceData(topic_id=before, partition_data=(PartitionProduceData(0),)),),
    )
    answer = asked(cluster, by_id, 13)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_metadata_of_all_topics_of_none_and_of_one_that_is_not(cluster: Cluster) -> None:
    def topics(request: MetadataRequest, version: int) -> list[tuple[int, str | None]]:
        answer = asked(cluster, request, version)
        return [(topic.error_code, topic.name) for topic in answer.topics]

    assert topics(metadata_request(None), 12) == [(0, "t")]
    assert topics(metadata_request([]), 12) == []
    assert topics(MetadataRequest(), 0) == [(0, "t")]
    assert topics(metadata_request(["u"]), 9) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "u")]


@pytest.mark.parametrize(("timestamp", "offset"), [(EARLIEST_TIMESTAMP, 0), (LATEST_TIMESTAMP, 2)])
def test_where_a_log_begins_and_ends(cluster: Cluster, timestamp: int, offset: int) -> None:
    for _ in range(2):
        cluster.log(PLACE).write(b"x", 0)
    partition = ListOffsetsPartition(0, 5, timestamp)
    request = ListOffsetsRequest(-1, topics=(ListOffsetsTopic("t", (partition,)),))
    told = asked(cluster, request, 7).topics[0].partitions[0]
    assert (told.error_code, told.offset, told.leader_epoch) == (0, offset, 5)
    told = asked(cluster, request, 7, broker=2).topics[0].partitions[0]
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_producers_get_ids_and_epochs(cluster: Cluster) -> None:
    first = asked(cluster, InitProducerIdRequest(), 4)
    second = asked(cluster, InitProducerIdRequest(), 4)
    assert first.producer_id != second.producer_id
    again = asked(cluster, InitProducerIdRequest(producer_id=first.producer_id), 4)
    assert (again.producer_id, again.producer_epoch) == (first.producer_id, 0)


@pytest.mark.parametrize(
    ("version", "error", "served"),
    [
        (4, 0, {ApiKey.PRODUCE: (0, 13), ApiKey.API_VERSIONS: (0, 4)}),
        (5, ErrorCode.UNSUPPORTED_VERSION, {ApiKey.API_VERSIONS: (0, 4)}),
    ],
)
def test_a_version_that_is_too_new_is_answered_with_those_of_that_api_alone(
    cluster: Cluster, version: int, error: int, served: dict[int, tuple[int, int]]
) -> None:
    answer = asked(cluster, ApiVersionsRequest(), version)
    assert answer.error_code == error
    spans = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert {key: spans[key] for key in served} == served
    assert len(spans) == 1 or not error


def test_what_nobody_knows_ends_the_connection_and_is_noted(cluster: Cluster) -> None:
    unknown = call(ApiVersionsRequest(), 3)
    unknown.api, unknown.request = 99, None
    with pytest.raises(HungUpError):
        next(cluster.answer(unknown))
    frame = encode_request(metadata_request([]), 12, 1, None)[4:]
    strange = b"\0\x63" + frame[2:]
    assert "API 99" in read_call(strange, 0, 1, 0, REQUESTS, dict(VERSIONS)).unknown
    old = b"\0\0\0\2" + frame[4:]
    unserved = read_call(old, 0, 1, 0, REQUESTS, dict(VERSIONS)).unknown
    assert unserved == f"Produce version 2 (served: 3 to {VERSIONS[0][1]})"
    longer = read_call(frame + bytes(3), 0, 1, 0, REQUESTS, dict(VERSIONS))
    assert (longer.request, longer.left_over) == (metadata_request([]), 3)


def test_requests_are_delayed_dropped_cut_and_answered_as_scripts_say(
    cluster: Cluster, clock: Clock
) -> None:
    request = metadata_request(["t"])

    def script(control: Control) -> None:
        cluster.control = lambda exchange: control

    script(Delay(1000))
    answering = cluster.answer(call(request, 12))
    next(answering)
    clock.us = 1000
    with pytest.raises(StopIteration):
        next(answering)
    for control, error in ((Drop(), SilentError), (Cut(), HungUpError)):
        script(control)
        with pytest.raises(error):
            next(cluster.answer(call(request, 12)))
    other = MetadataResponse(cluster_id="other")
    script(Answer(other))
    assert asked(cluster, request, 12) is other


def test_partitions_are_refused_as_scripts_say_and_that_is_noted(cluster: Cluster) -> None:
    hint = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, Leader(3, 9), cluster.nodes[3], 250)
    cluster.script = lambda attempt: hint if attempt.place == PLACE else None
    exchange = call(sent(one_record_batch(b"a")), 10)
    with pytest.raises(StopIteration) as over:
        next(cluster.answer(exchange))
    answer = over.value.value
    assert answer.throttle_time_ms == 250
    assert [n.node_id for n in answer.node_endpoints] == [3]
    tried = exchange.tried[PLACE]
    assert (tried.error, tried.hint, tried.records) == (6, Leader(3, 9), 1)
    assert exchange.is_answered


def test_a_group_of_one_member_joins_commits_and_leaves(cluster: Cluster) -> None:
    answer = asked(cluster, FindCoordinatorRequest(coordinator_keys=("g",)), 4, broker=2)
    assert [(c.key, c.node_id) for c in answer.coordinators] == [("g", 1)]
    protocols = (JoinGroupProtocol("range", b"all"),)
    join = JoinGroupRequest("g", 10_000, protocol_type="consumer", protocols=protocols)
    assert asked(cluster, join, 9, broker=2).error_code == ErrorCode.NOT_COORDINATOR
    first = asked(cluster, join, 9)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = asked(cluster, replace(join, member_id=first.member_id), 9)
    assert (joined.leader, joined.protocol_name) == (first.member_id, "range")
    assert [member.metadata for member in joined.members] == [b"all"]
    own = SyncGroupAssignment(joined.member_id, b"t-0")
    sync = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=(own,))
    assert asked(cluster, sync, 5).assignment == b"t-0"
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    assert asked(cluster, beat, 4).error_code == 0
    late = replace(beat, generation_id=joined.generation_id - 1)
    assert asked(cluster, late, 4).error_code == ErrorCode.ILLEGAL_GENERATION
    partitions = (OffsetCommitPartition(0, 7),)
    commit = OffsetCommitRequest("g", topics=(OffsetCommitTopic("t", partitions=partitions),))
    assert asked(cluster, commit, 9).topics[0].partitions[0].error_code == 0
    for topics in (None, (OffsetFetchTopic("t", partition_indexes=(0,)),)):
        fetch = OffsetFetchRequest(groups=(OffsetFetchGroup("g", topics=topics),))
        told = asked(cluster, fetch, 9).groups[0].topics[0].partitions[0]
        assert told.committed_offset == 7
    id, other = cluster.topics["t"], UUID(int=9)
    by_id = tuple(OffsetCommitTopic(topic_id=uuid, partitions=partitions) for uuid in (id, other))
    committed = asked(cluster, OffsetCommitRequest("g", topics=by_id), 10).topics
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in committed] == [
        (id, 0),
        (other, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    for named_topics in (None, (OffsetFetchTopic(topic_id=id, partition_indexes=(0,)),)):
        fetch = OffsetFetchRequest(groups=(OffsetFetchGroup("g", topics=named_topics),))
        (topic,) = asked(cluster, fetch, 10).groups[0].topics
        assert (topic.topic_id, topic.partitions[0].committed_offset) == (id, 7)
    leave = LeaveGroupRequest("g", members=(LeavingMember(joined.member_id),))
    assert asked(cluster, leave, 5).members[0].error_code == 0
    assert asked(cluster, beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_cluster_on_loopback_is_changed_in_its_thread() -> None:
    loopback = Loopback(Cluster({"t": 1}))
    with loopback as cluster:
        before = cluster.nodes[2].port
        loopback.do(lambda: cluster.restart(2))
        assert cluster.nodes[2].port != before
        with socket.create_connection(("127.0.0.1", cluster.nodes[2].port), timeout=10) as there:
            there.sendall(bytes(4))
            assert there.recv(1) == b""  # no frame is empty
        loopback.do(lambda: cluster.stop(2))
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", cluster.nodes[2].port), timeout=10)


def test_what_is_no_request_is_kept_and_its_connection_closed() -> None:
    loopback = Loopback(Cluster({"t": 1}, brokers=1))
    with loopback as cluster:
        with socket.create_connection(("127.0.0.1", cluster.nodes[1].port), timeout=10) as there:
            there.sendall(b"\0\0\0\2ab")
            assert there.recv(1) == b""
        assert [type(malformed) for malformed in loopback.malformed] == [MalformedFrame]


def test_connections_are_closed_that_nobody_has_served_yet() -> None:
    """pytest makes an error of a socket that is left to the garbage collector."""
    for _ in range(5):
        with Loopback(Cluster({"t": 1})) as cluster:
            host, _, port = cluster.bootstrap_server.rpartition(":")
            connected = [socket.create_connection((host, int(port))) for _ in range(10)]
        for connection in connected:
            connection.close()
    gc.collect()
