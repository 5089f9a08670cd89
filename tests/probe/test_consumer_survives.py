"""What the consumer survives: sessions that brokers forget, garbage, silence; and how it ends."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from fake_broker import TOPIC, Garbage, HangUp, Silence
from fake_log import READ_VERSIONS, Fetching, ReadCluster, ReadReply
from fake_reads import Received, read_fake, run_read

from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.schedule import Share
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.records import MAGIC_AT
from kipctl.transport.access import Access

BACKOFF_MS = 20


# --- sessions (KIP-227) ---


def test_a_session_is_opened_once_and_told_only_where_to_read_on(tmp_path: Path) -> None:
    with ReadCluster(brokers=1, partitions=3) as cluster:
        for index in range(3):
            cluster.write(index)

        def more(received: Received) -> None:
            if received.count < 6:
                cluster.write(1)

        read_fake(cluster, tmp_path, 6, on_records=more, fetch_max_wait_ms=50)
        opening, *others = cluster.fetches
        assert (opening.session_id, opening.session_epoch) == (0, 0)
        assert opening.told == {0: 0, 1: 0, 2: 0}
        assert {seen.session_id for seen in others} == {100}
        assert [seen.session_epoch for seen in others] == list(range(1, len(others) + 1))
        assert others[0].told == {0: 1, 1: 1, 2: 1}
        assert all(set(seen.told) <= {1} for seen in others[1:])


def test_partitions_that_are_read_elsewhere_are_forgotten(tmp_path: Path) -> None:
    with ReadCluster(brokers=2, partitions=3) as cluster:
        for index in range(3):
            cluster.leaders[index] = cluster.leaders[0]
            cluster.write(index)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.partition == 1 and fetching.offset == 1 and fetching.broker == 1:
                cluster.move(1, 2)
                cluster.write(1)
            return None

        def more(received: Received) -> None:
            if received.by_partition[1][-1:] == [(1, b"1:1")] and received.count < 7:
                cluster.write(0)

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 7, on_records=more, fetch_max_wait_ms=50)
        assert ran.received.offsets(1) == [0, 1]
        at_1 = [seen for seen in cluster.fetches if seen.broker == 1]
        assert [seen.forgotten for seen in at_1 if seen.forgotten] == [{1}]
        assert {seen.session_epoch for seen in at_1} == set(range(len(at_1)))


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_session_that_is_refused_is_opened_anew(tmp_path: Path, error: ErrorCode) -> None:
    with ReadCluster(brokers=1, partitions=2) as cluster:
        for index in (0, 1):
            cluster.write(index)

        def refuse(received: Received) -> None:
            if received.count == 2:  # both, of the first answer; the next Fetch is not sent yet
                cluster.session_errors.append(error)
                for index in (0, 1):
                    cluster.write(index)

        ran = read_fake(cluster, tmp_path, 4, on_records=refuse)
        assert ran.received.offsets(0) == ran.received.offsets(1) == [0, 1]
        assert [row["error"] for row in ran.calls(ApiKey.FETCH)] == [0, error, 0]
        number = 0 if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 100
        asked = [(seen.session_id, seen.session_epoch) for seen in cluster.fetches]
        assert asked == [(0, 0), (100, 1), (number, 0)]
        assert cluster.fetches[-1].told == {0: 1, 1: 1}


def test_every_fetch_is_refused_for_a_while_and_none_is_sent_before_the_backoff(
    tmp_path: Path,
) -> None:
    with ReadCluster(brokers=1) as cluster:
        cluster.write(0, batches=3)
        cluster.session_errors = [ErrorCode.FETCH_SESSION_ID_NOT_FOUND] * 3
        ran = read_fake(cluster, tmp_path, 3, retry_backoff_ms=BACKOFF_MS)
        assert [seen.session_epoch for seen in cluster.fetches] == [0] * 4
        calls = ran.calls(ApiKey.FETCH)
        for refused, following in pairwise(calls):
            assert following["sent_us"] - refused["received_us"] >= BACKOFF_MS * 1000
        assert ran.received.offsets() == [0, 1, 2]


@pytest.mark.parametrize("fetch_version", [4, 6, 7, 18])
def test_a_broker_that_keeps_no_sessions_is_told_everything_each_time(
    tmp_path: Path, fetch_version: int
) -> None:
    with ReadCluster(
        brokers=1, partitions=2, versions=READ_VERSIONS | {1: (4, fetch_version)}
    ) as cluster:
        cluster.keeps_sessions = False
        for index in (0, 1):
            cluster.write(index)

        def more(received: Received) -> None:
            if received.count < 5:
                cluster.write(0)

        ran = read_fake(cluster, tmp_path, 5, on_records=more, fetch_max_wait_ms=50)
        assert {frozenset(seen.told) for seen in cluster.fetches} == {frozenset({0, 1})}
        assert ran.received.count == 5


# --- what is asked for ---


def test_the_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    with ReadCluster(brokers=1, versions=READ_VERSIONS | {1: (4, 17)}) as cluster:
        cluster.write(0)
        read_fake(
            cluster,
            tmp_path,
            1,
            fetch_min_bytes=7,
            fetch_max_wait_ms=70,
            fetch_max_bytes=1 << 20,
            max_partition_fetch_bytes=1 << 10,
            isolation_level="read_committed",
            client_rack="rack-1",
        )
        request = cluster.fetches[0].request
        assert (request.min_bytes, request.max_wait_ms) == (7, 70)
        assert (request.max_bytes, request.isolation_level) == (1 << 20, 1)
        assert request.topics[0].partitions[0].partition_max_bytes == 1 << 10
        assert request.rack_id == "rack-1"


# --- garbage and silence ---


@pytest.mark.parametrize(
    "what",
    [
        HangUp(),
        Silence(),
        Garbage(b""),
        Garbage(b"\0\0\0"),
        Garbage(b"\0\0\0\0"),
        Garbage(b"\xff" * 200),
    ],
    ids=["hangs up", "is silent", "says nothing", "cut off", "wrong answer", "garbage"],
)
def test_a_leader_that_fails_now_and_then_is_read_on(tmp_path: Path, what: Exception) -> None:
    with ReadCluster(brokers=2, partitions=4) as cluster:
        for index in range(4):
            cluster.write(index, batches=3)
        failed: set[int] = set()

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset and fetching.partition not in failed:
                failed.add(fetching.partition)
                cluster.write(fetching.partition, batches=2)
                raise what
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 20, request_timeout_ms=200, fetch_max_wait_ms=50)
        assert {index: ran.received.offsets(index) for index in range(4)} == {
            index: [0, 1, 2, 3, 4] for index in range(4)
        }
        lost = [row for row in ran.calls(ApiKey.FETCH) if row["error"]]
        assert lost
        assert {(row["error"], row["received_us"]) for row in lost} == {
            (ErrorCode.NETWORK_EXCEPTION, 0)
        }
        assert {row["error"] for row in ran.redirects} == {ErrorCode.NETWORK_EXCEPTION}


def test_an_answer_cut_within_its_records_breaks_the_connection_not_the_run(
    tmp_path: Path,
) -> None:
    """The right correlation id, and then a frame that ends too early."""
    with ReadCluster(brokers=1) as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            if len(cluster.readings) == 1:
                # Handshake, where to begin, and this Fetch are numbers 1, 2 and 3.
                raise Garbage((3).to_bytes(4, "big") + b"\0" * 7 + b"\x01\x02")
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3)
        assert len(ran.redirects) == 1
        assert ran.received.offsets() == [0, 1, 2]


@pytest.mark.parametrize("check_crcs", [True, False])
def test_a_corrupt_batch_ends_its_partition_unless_crcs_are_not_checked(
    tmp_path: Path, check_crcs: bool
) -> None:
    with ReadCluster(brokers=1, partitions=2) as cluster:
        for index in (0, 1):
            cluster.write(index, batches=2)
        batch = cluster.logs[1].batches[1]
        at = batch.content.index(b"1:1")
        batch.content = batch.content[: at + 1] + b"." + batch.content[at + 2 :]
        if not check_crcs:
            config = ConsumerConfig(auto_offset_reset="earliest", check_crcs=False)
            spec = ConsumeSpec(Access(cluster.bootstrap_server), TOPIC, 4, config=config)
            outcome = spec.run(tmp_path, lambda schedule: None, lambda: False)
            assert (outcome.records, outcome.errors) == (4, {})
            return
        ran = read_fake(cluster, tmp_path, 4, timeout_ms=1500, fetch_max_wait_ms=20)
        assert ran.outcome.errors == {"CORRUPT_MESSAGE": 1}
        assert ran.outcome.records == 3
        assert ran.received.offsets(0) == [0, 1]
        assert ran.received.offsets(1) == [0]
        assert [(row["partition"], row["error"]) for row in ran.errors()] == [
            (1, ErrorCode.CORRUPT_MESSAGE)
        ]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_an_old_format_end_their_partition_by_that_name(
    tmp_path: Path, magic: int
) -> None:
    with ReadCluster(brokers=1) as cluster:
        cluster.write(0)
        (batch,) = cluster.logs[0].batches
        batch.content = batch.content[:MAGIC_AT] + bytes([magic]) + batch.content[MAGIC_AT + 1 :]
        ran = read_fake(cluster, tmp_path, 1)
        assert ran.outcome.errors == {"UNSUPPORTED_FOR_MESSAGE_FORMAT": 1}


def test_an_answer_without_a_whole_batch_ends_its_partition(tmp_path: Path) -> None:
    """Brokers send a first batch whole however large it is; to ask on would never end."""
    with ReadCluster(brokers=1) as cluster:
        cluster.write(0)
        cut = cluster.logs[0].batches[0].content[:-1]
        cluster.read_script = lambda _: ReadReply(records=cut, high_watermark=1)
        ran = read_fake(cluster, tmp_path, 1)
        assert ran.outcome.errors == {"CORRUPT_MESSAGE": 1}
        assert len(cluster.fetches) == 1


@pytest.mark.parametrize(
    "error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_FETCH_SIZE, 3000]
)
def test_an_error_that_does_not_pass_ends_its_partition_and_others_are_read_on(
    tmp_path: Path, error: int
) -> None:
    with ReadCluster(brokers=1, partitions=2) as cluster:
        for index in (0, 1):
            cluster.write(index, batches=2)
        cluster.read_script = lambda f: ReadReply(error) if f.partition == 0 else None
        ran = read_fake(cluster, tmp_path, 2)
        assert sum(ran.outcome.errors.values()) == 1
        assert ran.received.offsets(1) == [0, 1]
        assert len(ran.errors()) == 1


def test_answers_about_partitions_that_nobody_asked_for_are_no_news(tmp_path: Path) -> None:
    with ReadCluster(brokers=1, partitions=3) as cluster:
        for index in range(3):
            cluster.write(index, batches=2)
        ran = read_fake(cluster, tmp_path, 2, partitions=(1,))
        assert {row["partition"] for row in ran.reads} == {1}
        assert set(cluster.fetches[0].told) == {1}


# --- the end ---


def test_the_run_ends_when_there_was_no_record_for_so_long(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=2)
        ran = read_fake(cluster, tmp_path, 100, timeout_ms=1500, fetch_max_wait_ms=20)
        last_us = max(row["time_us"] for row in ran.reads if row["records"])
        assert ran.outcome.end_us - last_us >= 1_500_000
        assert (ran.outcome.records, ran.outcome.stopped) == (2, False)


def test_who_stops_it_has_what_was_read(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=2)
        read = threading.Event()
        ran = read_fake(
            cluster,
            tmp_path,
            100,
            on_records=lambda received: read.set(),
            should_stop=read.is_set,
            fetch_max_wait_ms=20_000,
        )
        assert (ran.outcome.records, ran.outcome.stopped) == (2, True)


def test_a_reading_that_is_still_open_at_the_end_is_in_the_trace(tmp_path: Path) -> None:
    with ReadCluster(brokers=1) as cluster:
        cluster.read_script = lambda _: ReadReply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        ran = read_fake(cluster, tmp_path, timeout_ms=1500, retry_backoff_ms=BACKOFF_MS)
        assert len(ran.redirects) >= 2
        assert len(ran.errors()) == len(ran.redirects)
        assert {row["records"] for row in ran.redirects} == {0}


def test_idle_partitions_are_not_asked_about_more_often_than_fetch_max_wait_allows(
    tmp_path: Path,
) -> None:
    """No hot loop where nothing is written."""
    with ReadCluster(brokers=3, partitions=6) as cluster:
        cluster.write(0)
        ran = read_fake(cluster, tmp_path, 2, timeout_ms=500, fetch_max_wait_ms=100)
        waits = (ran.outcome.end_us - ran.outcome.start_us) / 100_000
        assert len(ran.calls(ApiKey.FETCH)) <= 3 * (waits + 3)


def test_a_worker_that_has_no_partition_of_its_own_reads_nothing(tmp_path: Path) -> None:
    with ReadCluster(partitions=2) as cluster:
        config = ConsumerConfig(auto_offset_reset="earliest")
        share = Share(worker=2, workers=3)
        spec = ConsumeSpec(
            Access(cluster.bootstrap_server), TOPIC, 10, 60_000, config=config, share=share
        )
        ran = run_read(spec, tmp_path)
        assert (ran.outcome.records, ran.outcome.partitions, ran.outcome.errors) == (0, 0, {})
