"""The scripted cluster's logs: what brokers have of them that are behind, and what readers are
told in sessions."""

from typing import Any

import pytest
from scripted_requests import PLACE, Clock, asked, call, produced, sent

from kipctl.conform.cluster import Attempt, Cluster, Handout, Leader, Refusal
from kipctl.conform.cluster.control import Waiting
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kipctl.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kipctl.protocol.metadata import metadata_request
from kipctl.protocol.records import one_record_batch

BATCH = one_record_batch(b"a")


def fetch(cluster: Cluster, offsets: dict[int, int], **fields: Any) -> Any:
    """The answer to a Fetch that does not wait."""
    partitions = tuple(
        FetchPartition(p, fetch_offset=at, partition_max_bytes=999) for p, at in offsets.items()
    )
    topics = (FetchTopic("t", partitions=partitions),) if offsets else ()
    return asked(cluster, FetchRequest(topics=topics, max_wait_ms=0, **fields), 12)


def read_of(answer: Any) -> dict[int, tuple[int, int]]:
    """Each partition's error and number of bytes."""
    return {
        p.partition_index: (p.error_code, len(p.records or b""))
        for topic in answer.responses
        for p in topic.partitions
    }


def test_a_session_tells_what_is_new_of_what_it_was_told(cluster: Cluster) -> None:
    cluster.sessions.keeps = lambda: True
    cluster.move(("t", 1), Leader(1, 6))
    opened = fetch(cluster, {0: 0, 1: 0}, session_epoch=0)
    assert read_of(opened) == {0: (0, 0), 1: (0, 0)}
    number = opened.session_id
    cluster.log(PLACE).write(b"a", 0)
    assert set(read_of(fetch(cluster, {}, session_id=number, session_epoch=1))) == {0}
    assert read_of(fetch(cluster, {0: 1}, session_id=number, session_epoch=2)) == {}
    forgotten = (ForgottenTopic("t", partitions=(0,)),)
    cluster.log(PLACE).write(b"b", 0)
    left = fetch(cluster, {}, session_id=number, session_epoch=3, forgotten_topics_data=forgotten)
    assert read_of(left) == {}
    late = fetch(cluster, {}, session_id=number, session_epoch=3)
    assert late.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    fetch(cluster, {}, session_id=number, session_epoch=-1)
    assert cluster.sessions.closed == [number]
    gone = fetch(cluster, {}, session_id=number, session_epoch=4)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_is_closed_and_a_log_that_begins_later_is_told(
    cluster: Cluster,
) -> None:
    """As FetchManager.newContext and CachedPartition.maybeUpdateResponseData."""
    cluster.sessions.keeps = lambda: True
    for _ in range(2):
        cluster.log(PLACE).write(b"a", 0)
    number = fetch(cluster, {0: 2}, session_epoch=0).session_id
    assert read_of(fetch(cluster, {}, session_id=number, session_epoch=1)) == {}
    cluster.log(PLACE).delete(1)
    assert set(read_of(fetch(cluster, {}, session_id=number, session_epoch=2))) == {0}
    forgotten = (ForgottenTopic("t", partitions=(0,)),)
    left = fetch(cluster, {}, session_id=number, session_epoch=3, forgotten_topics_data=forgotten)
    assert (left.session_id, cluster.sessions.kept) == (0, {})


def test_a_broker_that_starts_anew_knows_no_sessions(cluster: Cluster) -> None:
    cluster.sessions.keeps = lambda: True
    number = fetch(cluster, {0: 0}, session_epoch=0).session_id
    cluster.restart(1)
    gone = fetch(cluster, {}, session_id=number, session_epoch=1)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_who_has_given_its_replica_away_looks_at_no_epoch(cluster: Cluster) -> None:
    """As ReplicaManager.getPartitionOrError."""
    cluster.move(PLACE, Leader(2, 6))
    cluster.not_held.add((PLACE, 1))
    for epoch in (-1, 5, 7):
        topic = FetchTopic("t", partitions=(FetchPartition(0, epoch, 0),))
        answer = asked(cluster, FetchRequest(topics=(topic,), max_wait_ms=0), 12)
        assert read_of(answer)[0][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    shown = asked(cluster, metadata_request(["t"]), 12).topics[0].partitions[0]
    assert tuple(shown.replica_nodes) == (2, 3)


def test_by_itself_no_session_is_kept(cluster: Cluster) -> None:
    assert fetch(cluster, {0: 0}, session_epoch=0).session_id == 0


def test_who_was_deposed_and_has_not_heard_holds_acks_all_and_loses_the_rest(
    cluster: Cluster,
) -> None:
    behind = cluster.brokers[1]
    behind.hear(cluster.image.copy())
    cluster.move(PLACE, Leader(2, 6))
    assert (
        asked(cluster, sent(BATCH, acks=1), 10).responses[0].partition_responses[0].error_code == 0
    )
    held = cluster.answer(call(sent(BATCH), 10))
    for _ in range(3):
        next(held)
    assert cluster.records == 0
    behind.hear(cluster.image)
    with pytest.raises(StopIteration) as over:
        next(held)
    partition = over.value.value.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_epoch == 6


def test_what_is_held_is_appended_in_the_order_in_which_it_came(cluster: Cluster) -> None:
    """Also where the second is looked at first, and an end of the first's connection frees it."""
    behind = cluster.brokers[1]
    behind.hear(cluster.image.copy())
    cluster.move(PLACE, Leader(1, 6))
    first, second, third = (cluster.answer(call(sent(BATCH), 10)) for _ in range(3))
    for held in (first, second, third):
        next(held)
    behind.hear(cluster.image)
    next(second)
    assert cluster.records == 0
    with pytest.raises(StopIteration):
        next(first)
    next(third)
    second.close()
    with pytest.raises(StopIteration):
        next(third)
    assert cluster.records == 2


def test_a_log_is_read_as_the_leader_of_its_epoch_had_it(cluster: Cluster) -> None:
    behind = cluster.brokers[1]
    for _ in range(2):
        produced(cluster, BATCH)
    behind.hear(cluster.image.copy())
    cluster.new_leader_end = lambda log: 1
    cluster.move(PLACE, Leader(2, 6))
    assert read_of(fetch(cluster, {0: 1}))[0] == (0, len(BATCH))
    behind.hear(cluster.image)
    assert read_of(fetch(cluster, {0: 1}))[0] == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert (cluster.log(PLACE).end, cluster.log(PLACE).epoch) == (1, 6)


@pytest.mark.parametrize(("ms", "offset"), [(0, 0), (1_000, 0), (1_001, 1), (2_001, -1)])
def test_the_first_batch_since_a_time_is_looked_for(
    cluster: Cluster, clock: Clock, ms: int, offset: int
) -> None:
    cluster.epoch_us = 0
    for clock.us in (1_000_000, 2_000_000):
        produced(cluster, BATCH)
    partition = ListOffsetsPartition(0, timestamp=ms)
    request = ListOffsetsRequest(-1, topics=(ListOffsetsTopic("t", (partition,)),))
    assert asked(cluster, request, 7).topics[0].partitions[0].offset == offset


def test_a_script_may_wait_and_hand_out_what_is_in_no_log(cluster: Cluster) -> None:
    is_over: list[bool] = []

    def script(attempt: Attempt) -> Handout | Waiting | None:
        return Handout(BATCH, 7) if attempt.api == ApiKey.FETCH else wait()

    def wait() -> Waiting:
        while not is_over:
            yield
        return Refusal(0, offset=9)

    cluster.script = script
    assert read_of(fetch(cluster, {0: 0}))[0] == (0, len(BATCH))
    answering = cluster.answer(call(sent(BATCH), 10))
    next(answering)
    is_over.append(True)
    with pytest.raises(StopIteration) as over:
        next(answering)
    assert over.value.value.responses[0].partition_responses[0].base_offset == 9
    assert cluster.records == 0
