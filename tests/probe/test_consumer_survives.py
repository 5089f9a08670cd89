"""What the consumer survives: sessions that brokers forget, garbage, silence; and how it ends."""

from itertools import pairwise

import pytest
from brokers import Garbage
from fake_kafka import TOPIC, Versions
from fake_reads import Received, read_fake
from fetching import READ_VERSIONS, ReadCluster, forgotten, told

from kipctl.conform.cluster import Attempt, Handout, HungUpError, Refusal, SilentError
from kipctl.probe.schedule import Share
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.records import MAGIC_AT

BACKOFF_MS = 20


def written(
    partitions: int = 1, batches: int = 1, brokers: int = 1, versions: Versions = READ_VERSIONS
) -> ReadCluster:
    """A cluster with so many batches of one record in each partition."""
    cluster = ReadCluster(brokers, partitions, versions)
    for index in range(partitions):
        cluster.write(index, batches)
    return cluster


def replace_batch(cluster: ReadCluster, partition: int, number: int, content: bytes) -> None:
    batches = cluster.log_of(partition).batches
    batches[number] = batches[number]._replace(content=content)


# --- sessions (KIP-227) ---


def test_a_session_is_opened_once_and_told_only_where_to_read_on() -> None:
    def more(received: Received) -> None:
        if received.count < 6:
            cluster.write(1)

    cluster = written(partitions=3)
    read_fake(cluster, 6, on_records=more, fetch_max_wait_ms=50)
    opening, *others = cluster.fetches
    assert (opening.request.session_id, opening.request.session_epoch) == (0, 0)
    assert told(opening) == {0: 0, 1: 0, 2: 0}
    assert {seen.request.session_id for seen in others} == {100}
    assert [seen.request.session_epoch for seen in others] == list(range(1, len(others) + 1))
    assert told(others[0]) == {0: 1, 1: 1, 2: 1}
    assert all(set(told(seen)) <= {1} for seen in others[1:])


def test_partitions_that_are_read_elsewhere_are_forgotten() -> None:
    def script(fetching: Attempt) -> None:
        if (fetching.partition, fetching.offset, fetching.broker) == (1, 1, 1):
            cluster.elect(1, 2)
            cluster.write(1)

    def more(received: Received) -> None:
        if received.offsets(1)[-1:] == [1] and received.count < 7:
            cluster.write(0)

    cluster = written(partitions=3, brokers=2)
    cluster.lead(*[cluster.leaders[TOPIC, 0]] * 3)
    cluster.read_script = script
    ran = read_fake(cluster, 7, on_records=more, fetch_max_wait_ms=50)
    assert ran.received.offsets(1) == [0, 1]
    at_1 = [seen for seen in cluster.fetches if seen.broker == 1]
    assert [forgotten(seen) for seen in at_1 if forgotten(seen)] == [{1}]
    assert {seen.request.session_epoch for seen in at_1} == set(range(len(at_1)))


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_session_that_is_refused_is_opened_anew(error: ErrorCode) -> None:
    def refuse(received: Received) -> None:
        if received.count == 2:  # both, of the first answer; the next Fetch is not sent yet
            cluster.session_errors.append(error)
            for index in (0, 1):
                cluster.write(index)

    cluster = written(partitions=2)
    ran = read_fake(cluster, 4, on_records=refuse)
    assert ran.received.offsets(0) == ran.received.offsets(1) == [0, 1]
    assert [row["error"] for row in ran.calls(ApiKey.FETCH)] == [0, error, 0]
    number = 0 if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 100
    asked = [(seen.request.session_id, seen.request.session_epoch) for seen in cluster.fetches]
    assert asked == [(0, 0), (100, 1), (number, 0)]
    assert told(cluster.fetches[-1]) == {0: 1, 1: 1}
    refused, full = ran.calls(ApiKey.FETCH)[1:]
    is_evicted = error in (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    )
    pause_us = full["sent_us"] - refused["received_us"]
    assert pause_us < 1_000 if is_evicted else pause_us >= 20_000


def test_every_fetch_is_refused_for_a_while_and_none_is_sent_before_the_backoff() -> None:
    cluster = written(batches=3)
    cluster.session_errors = [ErrorCode.FETCH_SESSION_ID_NOT_FOUND] * 3
    ran = read_fake(cluster, 3, retry_backoff_ms=BACKOFF_MS)
    assert [seen.request.session_epoch for seen in cluster.fetches] == [0] * 4
    for refused, following in pairwise(ran.calls(ApiKey.FETCH)):
        assert following["sent_us"] - refused["received_us"] >= BACKOFF_MS * 1000
    assert ran.received.offsets() == [0, 1, 2]


@pytest.mark.parametrize("version", [4, 6, 7, 18])
def test_a_broker_that_keeps_no_sessions_is_told_everything_each_time(version: int) -> None:
    def more(received: Received) -> None:
        if received.count < 5:
            cluster.write(0)

    cluster = written(partitions=2, versions=READ_VERSIONS | {1: (4, version)})
    cluster.sessions.keeps = lambda: False
    ran = read_fake(cluster, 5, on_records=more, fetch_max_wait_ms=50)
    assert {frozenset(told(seen)) for seen in cluster.fetches} == {frozenset({0, 1})}
    assert ran.received.count == 5


# --- what is asked for ---


@pytest.mark.parametrize("version", [6, 7, 18])
def test_sessions_are_closed_at_the_end(version: int) -> None:
    """That of each broker, also where a Fetch waits; brokers before Fetch 7 have none."""
    cluster = written(partitions=3, versions=READ_VERSIONS | {1: (4, version)})
    ran = read_fake(cluster, 3)
    assert cluster.sessions.kept == {}
    assert len(cluster.sessions.closed) == (0 if version < 7 else len(cluster.brokers))
    last = max(row["received_us"] for row in ran.rpcs)
    assert last <= ran.outcome.end_us  # it is no part of the run


def test_a_topic_whose_id_nobody_tells_is_read_by_its_name() -> None:
    """Metadata before 10 has no ids, Fetch from 13 on nothing else: so it is with some gateways."""
    cluster = written(partitions=2, versions=READ_VERSIONS | {3: (0, 9)})
    ran = read_fake(cluster, 2)
    assert {fetching.version for fetching in cluster.readings} == {12}
    assert ran.received.count == 2


def test_the_limits_are_those_of_the_configuration() -> None:
    cluster = written(versions=READ_VERSIONS | {1: (4, 17)})
    read_fake(
        cluster,
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
        HungUpError(),
        SilentError(),
        Garbage(b""),
        Garbage(b"\0\0\0"),
        Garbage(b"\0\0\0\0"),
        Garbage(b"\xff" * 200),
    ],
    ids=["hangs up", "is silent", "says nothing", "cut off", "wrong answer", "garbage"],
)
def test_a_leader_that_fails_now_and_then_is_read_on(what: Exception) -> None:
    failed: set[int] = set()

    def script(fetching: Attempt) -> None:
        if fetching.offset and fetching.partition not in failed:
            failed.add(fetching.partition)
            cluster.write(fetching.partition, batches=2)
            raise what

    cluster = written(partitions=4, batches=3, brokers=2)
    cluster.read_script = script
    ran = read_fake(cluster, 20, request_timeout_ms=200, fetch_max_wait_ms=50)
    assert {index: ran.received.offsets(index) for index in range(4)} == {
        index: [0, 1, 2, 3, 4] for index in range(4)
    }
    lost = [row for row in ran.calls(ApiKey.FETCH) if row["error"]]
    assert lost
    assert {(r["error"], r["received_us"]) for r in lost} == {(ErrorCode.NETWORK_EXCEPTION, 0)}
    assert {row["error"] for row in ran.redirects} == {ErrorCode.NETWORK_EXCEPTION}


def test_an_answer_cut_within_its_records_breaks_the_connection_not_the_run() -> None:
    """The right correlation id, and then a frame that ends too early."""

    def script(fetching: Attempt) -> None:
        if len(cluster.readings) == 1:
            # Handshake, where to begin, and this Fetch are numbers 1, 2 and 3.
            raise Garbage((3).to_bytes(4, "big") + b"\0" * 7 + b"\x01\x02")

    cluster = written(batches=3)
    cluster.read_script = script
    ran = read_fake(cluster, 3)
    assert len(ran.redirects) == 1
    assert ran.received.offsets() == [0, 1, 2]


@pytest.mark.parametrize("check_crcs", [True, False])
def test_a_corrupt_batch_ends_its_partition_unless_crcs_are_not_checked(check_crcs: bool) -> None:
    cluster = written(partitions=2, batches=2)
    whole = cluster.log_of(1).batches[1].content
    replace_batch(cluster, 1, 1, whole.replace(b"1:1:", b"1:1."))
    ran = read_fake(
        cluster, 4, timeout_ms=1500, in_order=False, fetch_max_wait_ms=20, check_crcs=check_crcs
    )
    assert ran.received.offsets(0) == [0, 1]
    assert ran.received.offsets(1) == [0]  # the test does not take it either
    if not check_crcs:
        assert (ran.outcome.records, ran.outcome.errors) == (4, {})
        return
    assert (ran.outcome.records, ran.outcome.errors) == (3, {"CORRUPT_MESSAGE": 1})
    assert [(r["partition"], r["error"]) for r in ran.errors()] == [(1, ErrorCode.CORRUPT_MESSAGE)]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_an_old_format_end_their_partition_by_that_name(magic: int) -> None:
    cluster = written()
    content = cluster.log_of(0).batches[0].content
    replace_batch(cluster, 0, 0, content[:MAGIC_AT] + bytes([magic]) + content[MAGIC_AT + 1 :])
    ran = read_fake(cluster)
    assert ran.outcome.errors == {"UNSUPPORTED_FOR_MESSAGE_FORMAT": 1}


def test_an_answer_without_a_whole_batch_ends_its_partition() -> None:
    """Brokers send a first batch whole however large it is; to ask on would never end."""
    cluster = written()
    cut = cluster.log_of(0).batches[0].content[:-1]
    cluster.read_script = lambda _: Handout(cut, 1)
    ran = read_fake(cluster)
    assert ran.outcome.errors == {"CORRUPT_MESSAGE": 1}
    assert len(cluster.fetches) == 1


@pytest.mark.parametrize(
    "error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_FETCH_SIZE, 3000]
)
def test_an_error_that_does_not_pass_ends_its_partition_and_others_are_read_on(error: int) -> None:
    cluster = written(partitions=2, batches=2)
    cluster.read_script = lambda f: Refusal(error) if f.partition == 0 else None
    ran = read_fake(cluster, 2)
    assert sum(ran.outcome.errors.values()) == 1
    assert ran.received.offsets(1) == [0, 1]
    assert len(ran.errors()) == 1


def test_answers_about_partitions_that_nobody_asked_for_are_no_news() -> None:
    cluster = written(partitions=3, batches=2)
    ran = read_fake(cluster, 2, partitions=(1,))
    assert {row["partition"] for row in ran.reads} == {1}
    assert set(told(cluster.fetches[0])) == {1}


# --- the end ---


def test_the_run_ends_when_there_was_no_record_for_so_long() -> None:
    cluster = written(batches=2)
    ran = read_fake(cluster, 100, timeout_ms=1500, fetch_max_wait_ms=20)
    last_us = max(row["time_us"] for row in ran.reads if row["records"])
    assert 1_500_000 <= ran.outcome.end_us - last_us < 1_600_000
    assert (ran.outcome.records, ran.outcome.stopped) == (2, False)


def test_who_stops_it_has_what_was_read() -> None:
    read: list[int] = []
    ran = read_fake(
        written(batches=2),
        100,
        on_records=lambda received: read.append(received.count),
        should_stop=lambda: bool(read),
        fetch_max_wait_ms=20_000,
    )
    assert (ran.outcome.records, ran.outcome.stopped) == (2, True)


def test_a_reading_that_is_still_open_at_the_end_is_in_the_trace() -> None:
    cluster = ReadCluster(brokers=1)
    cluster.read_script = lambda _: Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    ran = read_fake(cluster, timeout_ms=1500, retry_backoff_ms=BACKOFF_MS)
    assert len(ran.redirects) >= 2
    assert len(ran.errors()) == len(ran.redirects)
    assert {row["records"] for row in ran.redirects} == {0}


def test_idle_partitions_are_not_asked_about_more_often_than_fetch_max_wait_allows() -> None:
    """No hot loop where nothing is written."""
    cluster = ReadCluster(brokers=3, partitions=6)
    cluster.write(0)
    ran = read_fake(cluster, 2, timeout_ms=500, fetch_max_wait_ms=100)
    waits = (ran.outcome.end_us - ran.outcome.start_us) / 100_000
    assert len(ran.calls(ApiKey.FETCH)) <= 3 * (waits + 3)


def test_a_worker_that_has_no_partition_of_its_own_reads_nothing() -> None:
    ran = read_fake(ReadCluster(partitions=2), 10, share=Share(worker=2, workers=3))
    assert (ran.outcome.records, ran.outcome.partitions, ran.outcome.errors) == (0, 0, {})
