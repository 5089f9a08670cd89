"""Which replica the consumer reads from, and what makes it come back to the leader (KIP-392)."""

from itertools import pairwise

import pytest
from brokers import Garbage
from fake_kafka import TOPIC
from fake_reads import Received, read_fake
from fake_run import NEVER_MS
from fetching import READ_VERSIONS, ReadCluster

from kipctl.conform.cluster import Attempt, Handout, HungUpError, Refusal, SilentError
from kipctl.probe.leadership import Leader
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, MetadataCause

RACK_2 = {"client_rack": "rack-2"}


def written(batches: int, brokers: int = 2) -> ReadCluster:
    """A cluster with so many batches of one record in its partition."""
    cluster = ReadCluster(brokers)
    cluster.write(0, batches)
    return cluster


def brokers_asked(cluster: ReadCluster) -> list[int]:
    return [fetching.broker for fetching in cluster.readings]


def test_the_replica_of_the_rack_is_read_from_after_one_fetch_to_the_leader() -> None:
    cluster = ReadCluster(brokers=3, partitions=6)
    for index in range(6):
        cluster.write(index, batches=4)
    ran = read_fake(cluster, 24, **RACK_2)
    for index in range(6):
        first, *others = [row for row in ran.reads if row["partition"] == index]
        leads = index % 3 == 1
        assert first["is_leader"]
        assert (first["preferred_read_replica"], first["records"]) == ((-1, 4) if leads else (2, 0))
        assert {(row["broker"], row["is_leader"]) for row in others if row["records"]} == (
            set() if leads else {(2, 0)}
        )
    assert not ran.redirects
    racks = [ran.outcome.racks[row["broker_rack"]] for row in ran.reads]
    assert racks == [f"rack-{row['broker']}" for row in ran.reads]


@pytest.mark.parametrize("version", [4, 10, 11, 15, 18])
def test_replicas_are_named_from_version_11_on(version: int) -> None:
    cluster = ReadCluster(versions=READ_VERSIONS | {1: (4, version)})
    cluster.write(0, batches=3)
    ran = read_fake(cluster, 3, **RACK_2)
    assert ran.brokers_read == ([2] if version >= 11 else [1])


def test_without_a_rack_none_is_sent_and_the_leader_is_read_from() -> None:
    cluster = written(1)
    ran = read_fake(cluster)
    assert ran.brokers_read == [1]
    assert {fetching.call.request.rack_id for fetching in cluster.readings} == {""}


def test_records_that_come_with_a_replica_s_name_are_read_once() -> None:
    def script(fetching: Attempt) -> Refusal | None:
        if fetching.broker == 1:
            first = cluster.log_of(0).batches[0].content
            return Handout(first, 4, preferred=2)
        return None

    cluster = written(4)
    cluster.read_script = script
    ran = read_fake(cluster, 4, **RACK_2)
    assert ran.brokers_read == [1, 2]
    assert ran.received.offsets() == [0, 1, 2, 3]


# --- the lease ---


def test_when_the_lease_is_over_the_leader_is_asked_again() -> None:
    """Also while the follower has nothing and holds the Fetch."""

    def script(fetching: Attempt) -> None:
        if brokers_asked(cluster).count(1) == 4 and cluster.log_of(0).end == 1:
            cluster.write(0)

    cluster = written(1)
    cluster.read_script = script
    ran = read_fake(cluster, 2, metadata_max_age_ms=100, fetch_max_wait_ms=5000, **RACK_2)
    to_leader = [row for row in ran.reads if row["broker"] == 1]
    assert {row["preferred_read_replica"] for row in to_leader} == {2}
    assert len(to_leader) >= 3
    assert ran.brokers_read == [2]
    assert ran.received.offsets() == [0, 1]
    gaps = [b["time_us"] - a["time_us"] for a, b in pairwise(to_leader)]
    assert min(gaps) >= 100_000


def test_a_lease_that_outlives_the_run_is_not_asked_about_again() -> None:
    def more(received: Received) -> None:
        if received.count < 50:
            cluster.write(0)

    cluster = written(1)
    read_fake(cluster, 50, on_records=more, **RACK_2)
    assert brokers_asked(cluster).count(1) == 1


# --- what makes it come back ---


def refusing_at_replica(answer: Refusal | Exception, brokers: int = 2) -> ReadCluster:
    """The follower answers so, or meets that trouble; the leader does not name it again."""

    def script(fetching: Attempt) -> Refusal | None:
        if fetching.broker != 2:
            return None
        cluster.names_followers = False
        if isinstance(answer, Exception):
            raise answer
        return answer

    cluster = written(3, brokers)
    cluster.read_script = script
    return cluster


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_after_a_replica_s_error_the_leader_is_read_from(error: ErrorCode) -> None:
    cluster = refusing_at_replica(Refusal(error))
    ran = read_fake(cluster, 3, **RACK_2)
    assert brokers_asked(cluster) == [1, 2, 1]
    assert [(row["broker"], row["error"]) for row in ran.errors()] == [(2, error)]
    (row,) = ran.redirects
    assert (row["from_broker"], row["to_broker"]) == (2, 1)
    assert row["records"] == 3
    causes = {call["cause"] for call in ran.calls(ApiKey.METADATA)}
    assert causes <= {MetadataCause.LEADER_CHANGE}


@pytest.mark.parametrize(
    "trouble", [HungUpError(), SilentError(), Garbage(b"\0" * 100), Garbage(b"\0\0\0")]
)
def test_a_replica_that_hangs_up_or_is_silent_or_speaks_garbage_is_left_for_the_leader(
    trouble: Exception,
) -> None:
    """At once: another broker is asked, so there is no backoff to wait for."""
    cluster = refusing_at_replica(trouble)
    ran = read_fake(
        cluster,
        3,
        request_timeout_ms=1500,
        fetch_max_wait_ms=50,
        retry_backoff_ms=NEVER_MS,
        **RACK_2,
    )
    assert brokers_asked(cluster) == [1, 2, 1]
    (row,) = ran.redirects
    assert (row["error"], row["to_broker"]) == (ErrorCode.NETWORK_EXCEPTION, 1)
    assert ran.received.offsets() == [0, 1, 2]


def test_offset_not_available_at_the_leader_is_tried_again_there() -> None:
    def script(fetching: Attempt) -> Refusal | None:
        not_yet = len(cluster.readings) <= 2
        return Refusal(ErrorCode.OFFSET_NOT_AVAILABLE) if not_yet else None

    cluster = written(3)
    cluster.read_script = script
    ran = read_fake(cluster, 3)
    assert brokers_asked(cluster) == [1, 1, 1]
    assert [row["error"] for row in ran.redirects] == [ErrorCode.OFFSET_NOT_AVAILABLE] * 2
    assert {row["decision"] for row in ran.redirects} == {Decision.NOT_APPLICABLE}
    assert ran.received.offsets() == [0, 1, 2]


def test_a_replica_that_does_not_listen_any_more_is_left_and_taken_again_when_it_is_back() -> None:
    """The leader names it all the while, as Kafka does until the controller has fenced it."""

    def script(fetching: Attempt) -> None:
        if fetching.broker == 2:
            cluster.brokers[2].close()
            raise HungUpError
        if brokers_asked(cluster).count(1) == 4:
            cluster.names_followers = False

    cluster = written(3, brokers=3)
    cluster.read_script = script
    ran = read_fake(cluster, 3, **RACK_2)
    assert brokers_asked(cluster) == [1, 2, 1, 1, 1]
    assert ran.received.offsets() == [0, 1, 2]


def test_a_replica_that_metadata_does_not_have_yet_is_read_from_once_it_does() -> None:
    def catch_up(broker: int) -> None:
        if len(cluster.metadata_asked) > 3:
            cluster.unlisted = set()

    cluster = written(3)
    cluster.unlisted = {2}
    cluster.on_metadata = catch_up
    ran = read_fake(cluster, 3, **RACK_2)
    assert ran.brokers_read == [2]
    named = [row for row in ran.reads if row["preferred_read_replica"] == 2]
    assert len(named) >= 2
    assert brokers_asked(cluster).count(1) == len(named) <= len(cluster.metadata_asked) + 1


def test_a_new_leader_is_asked_for_the_replica_anew() -> None:
    def script(fetching: Attempt) -> None:
        if fetching.offset == 3 and cluster.leaders[TOPIC, 0].id == 1:
            cluster.elect(0, 3)
            cluster.write(0, batches=3)

    cluster = written(3, brokers=3)
    cluster.read_script = script
    ran = read_fake(cluster, 6, retry_backoff_ms=NEVER_MS, **RACK_2)
    assert ran.brokers_read == [2]
    (row,) = ran.redirects
    assert (row["from_broker"], row["error"]) == (2, ErrorCode.FENCED_LEADER_EPOCH)
    assert (row["decision"], row["to_broker"]) == (Decision.FOLLOWED, 3)
    assert brokers_asked(cluster)[-2:] == [3, 2]
    assert ran.received.offsets() == list(range(6))


def test_a_replica_that_knows_the_new_leader_after_the_reader_is_waited_for() -> None:
    """UNKNOWN_LEADER_EPOCH: the reader has it from a hint, the follower not yet."""
    refused: list[int] = []

    def script(fetching: Attempt) -> Refusal | None:
        if fetching.broker == 2 and len(refused) < 2:
            refused.append(2)
            return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
        return None

    cluster = written(3, brokers=3)
    cluster.lead(Leader(1, 6))
    cluster.read_script = script
    ran = read_fake(cluster, 3, **RACK_2)
    assert brokers_asked(cluster) == [1, 2, 2, 2]
    assert [row["same_epoch_retry"] for row in ran.redirects] == [1, 1]
    assert ran.received.offsets() == [0, 1, 2]
