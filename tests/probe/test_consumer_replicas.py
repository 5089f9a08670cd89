"""Which replica the consumer reads from, and what makes it come back to the leader (KIP-392)."""

from itertools import pairwise
from pathlib import Path

import pytest
from fake_broker import Garbage, HangUp, Silence
from fake_log import READ_VERSIONS, Fetching, ReadCluster, ReadReply
from fake_reads import Received, read_fake

from kipctl.probe.leadership import Leader
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, MetadataCause

NEVER_MS = 100_000_000
RACK_2 = {"client_rack": "rack-2"}


def brokers_asked(cluster: ReadCluster) -> list[int]:
    return [fetching.broker for fetching in cluster.readings]


def test_the_replica_of_the_rack_is_read_from_after_one_fetch_to_the_leader(
    tmp_path: Path,
) -> None:
    with ReadCluster(brokers=3, partitions=6) as cluster:
        for index in range(6):
            cluster.write(index, batches=4)
        ran = read_fake(cluster, tmp_path, 24, **RACK_2)
        for index in range(6):
            first, *others = [row for row in ran.reads if row["partition"] == index]
            leads = index % 3 == 1
            assert first["is_leader"]
            assert (first["preferred_read_replica"], first["records"]) == (
                (-1, 4) if leads else (2, 0)
            )
            assert {(row["broker"], row["is_leader"]) for row in others if row["records"]} == (
                set() if leads else {(2, 0)}
            )
        assert not ran.redirects
        racks = [ran.outcome.racks[row["broker_rack"]] for row in ran.reads]
        assert racks == [f"rack-{row['broker']}" for row in ran.reads]


@pytest.mark.parametrize("fetch_version", [4, 10, 11, 15, 18])
def test_replicas_are_named_from_version_11_on(tmp_path: Path, fetch_version: int) -> None:
    with ReadCluster(versions=READ_VERSIONS | {1: (4, fetch_version)}) as cluster:
        cluster.write(0, batches=3)
        ran = read_fake(cluster, tmp_path, 3, **RACK_2)
        assert ran.brokers_read == ([2] if fetch_version >= 11 else [1])


def test_without_a_rack_none_is_sent_and_the_leader_is_read_from(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0)
        ran = read_fake(cluster, tmp_path)
        assert ran.brokers_read == [1]
        assert {fetching.rack for fetching in cluster.readings} == {""}


def test_records_that_come_with_a_replica_s_name_are_read_once(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=4)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 1:
                first = cluster.logs[0].batches[0].content
                return ReadReply(preferred=2, records=first, high_watermark=4)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 4, **RACK_2)
        assert ran.brokers_read == [1, 2]
        assert ran.received.offsets() == [0, 1, 2, 3]


def test_when_the_lease_is_over_the_leader_is_asked_again(tmp_path: Path) -> None:
    """Also while the follower has nothing and holds the Fetch."""
    with ReadCluster() as cluster:
        cluster.write(0)

        def script(fetching: Fetching) -> ReadReply | None:
            if brokers_asked(cluster).count(1) == 4 and cluster.logs[0].end == 1:
                cluster.write(0)
            return None

        cluster.read_script = script
        ran = read_fake(
            cluster, tmp_path, 2, metadata_max_age_ms=100, fetch_max_wait_ms=5000, **RACK_2
        )
        to_leader = [row for row in ran.reads if row["broker"] == 1]
        assert {row["preferred_read_replica"] for row in to_leader} == {2}
        assert len(to_leader) >= 3
        assert ran.brokers_read == [2]
        assert ran.received.offsets() == [0, 1]
        gaps = [b["time_us"] - a["time_us"] for a, b in pairwise(to_leader)]
        assert min(gaps) >= 100_000


def test_a_lease_that_outlives_the_run_is_not_asked_about_again(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0)

        def more(received: Received) -> None:
            if received.count < 50:
                cluster.write(0)

        read_fake(cluster, tmp_path, 50, on_records=more, **RACK_2)
        assert brokers_asked(cluster).count(1) == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_after_a_replica_s_error_the_leader_is_read_from(tmp_path: Path, error: ErrorCode) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 2:
                cluster.names_replicas = False
                return ReadReply(error)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3, **RACK_2)
        assert brokers_asked(cluster) == [1, 2, 1]
        assert [(row["broker"], row["error"]) for row in ran.errors()] == [(2, error)]
        (row,) = ran.redirects
        assert (row["from_broker"], row["to_broker"]) == (2, 1)
        assert row["records"] == 3
        causes = {call["cause"] for call in ran.calls(ApiKey.METADATA)}
        assert causes <= {MetadataCause.LEADER_CHANGE}


def test_offset_not_available_at_the_leader_is_tried_again_there(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            not_yet = len(cluster.readings) <= 2
            return ReadReply(ErrorCode.OFFSET_NOT_AVAILABLE) if not_yet else None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3)
        assert brokers_asked(cluster) == [1, 1, 1]
        assert [row["error"] for row in ran.redirects] == [ErrorCode.OFFSET_NOT_AVAILABLE] * 2
        assert {row["decision"] for row in ran.redirects} == {Decision.NOT_APPLICABLE}
        assert ran.received.offsets() == [0, 1, 2]


def test_a_replica_that_hangs_up_is_left_at_once_for_the_leader(tmp_path: Path) -> None:
    """Another broker is asked: there is no backoff to wait for."""
    with ReadCluster() as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 2:
                cluster.names_replicas = False
                raise HangUp
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3, retry_backoff_ms=NEVER_MS, **RACK_2)
        assert brokers_asked(cluster) == [1, 2, 1]
        (row,) = ran.redirects
        assert (row["error"], row["to_broker"]) == (ErrorCode.NETWORK_EXCEPTION, 1)
        assert ran.received.offsets() == [0, 1, 2]


@pytest.mark.parametrize("what", [Silence(), Garbage(b"\0" * 100), Garbage(b"\0\0\0")])
def test_a_replica_that_hangs_or_speaks_garbage_is_given_up(
    tmp_path: Path, what: Exception
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 2:
                cluster.names_replicas = False
                raise what
            return None

        cluster.read_script = script
        ran = read_fake(
            cluster, tmp_path, 3, request_timeout_ms=1500, fetch_max_wait_ms=50, **RACK_2
        )
        assert brokers_asked(cluster) == [1, 2, 1]
        assert ran.redirects[0]["error"] == ErrorCode.NETWORK_EXCEPTION
        assert ran.received.offsets() == [0, 1, 2]


def test_a_replica_that_does_not_listen_any_more_is_left_and_taken_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    """The leader names it all the while, as Kafka does until the controller has fenced it."""
    with ReadCluster(brokers=3) as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 2:
                cluster.brokers[2].close()
                raise HangUp
            if brokers_asked(cluster).count(1) == 4:
                cluster.names_replicas = False
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3, **RACK_2)
        assert brokers_asked(cluster) == [1, 2, 1, 1, 1]
        assert ran.received.offsets() == [0, 1, 2]


def test_a_replica_that_metadata_does_not_have_any_more_is_left(tmp_path: Path) -> None:
    """It answers still, and holds the Fetch."""
    with ReadCluster() as cluster:
        cluster.write(0)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset == 1 and not cluster.hidden:
                cluster.hidden = {2}
                cluster.names_replicas = False
            if fetching.offset == 1 and fetching.broker == 1 and cluster.logs[0].end == 1:
                cluster.write(0)
            return None

        cluster.read_script = script
        ran = read_fake(
            cluster, tmp_path, 2, metadata_max_age_ms=300, fetch_max_wait_ms=20_000, **RACK_2
        )
        assert ran.received.offsets() == [0, 1]
        assert 1 in brokers_asked(cluster)[2:]


def test_a_replica_that_metadata_does_not_have_yet_is_read_from_once_it_does(
    tmp_path: Path,
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=3)
        cluster.hidden = {2}

        def caught_up(broker: int) -> None:
            if len(cluster.metadata_asked) > 3:
                cluster.hidden = set()

        cluster.on_metadata = caught_up
        ran = read_fake(cluster, tmp_path, 3, **RACK_2)
        assert ran.brokers_read == [2]
        named = [row for row in ran.reads if row["preferred_read_replica"] == 2]
        assert len(named) >= 2
        assert brokers_asked(cluster).count(1) == len(named) <= len(cluster.metadata_asked) + 1


def test_a_new_leader_is_asked_for_the_replica_anew(tmp_path: Path) -> None:
    with ReadCluster(brokers=3) as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset == 3 and cluster.leaders[0].id == 1:
                cluster.move(0, 3)
                cluster.write(0, batches=3)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 6, retry_backoff_ms=NEVER_MS, **RACK_2)
        assert ran.brokers_read == [2]
        (row,) = ran.redirects
        assert (row["from_broker"], row["error"]) == (2, ErrorCode.FENCED_LEADER_EPOCH)
        assert (row["decision"], row["to_broker"]) == (Decision.FOLLOWED, 3)
        assert brokers_asked(cluster)[-2:] == [3, 2]
        assert ran.received.offsets() == list(range(6))


def test_a_replica_that_knows_the_new_leader_before_the_reader_is_waited_for(
    tmp_path: Path,
) -> None:
    """UNKNOWN_LEADER_EPOCH: the reader has it from a hint, the follower not yet."""
    with ReadCluster(brokers=3) as cluster:
        cluster.write(0, batches=3)
        cluster.leaders[0] = Leader(1, 6)
        refused: list[int] = []

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 2 and len(refused) < 2:
                refused.append(2)
                return ReadReply(ErrorCode.UNKNOWN_LEADER_EPOCH)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3, **RACK_2)
        assert brokers_asked(cluster) == [1, 2, 1, 2, 1, 2]
        assert ran.received.offsets() == [0, 1, 2]


def test_the_same_records_from_leader_and_replica_are_read_once(tmp_path: Path) -> None:
    """The lease ends while the replica holds the Fetch: both are asked for what comes next."""
    with ReadCluster() as cluster:
        cluster.write(0)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 1 and fetching.offset == 1:
                cluster.names_replicas = False
                if cluster.logs[0].end == 1:
                    cluster.write(0)  # the replica's reader wakes as well
            return None

        cluster.read_script = script
        ran = read_fake(
            cluster, tmp_path, 2, metadata_max_age_ms=100, fetch_max_wait_ms=20_000, **RACK_2
        )
        assert ran.received.offsets() == [0, 1]
