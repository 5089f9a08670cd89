"""The consumer on real brokers that are stopped, hang and crash: every record once and in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, Producer
from confluent_kafka import TopicPartition as AnyPartition
from confluent_kafka.admin import AdminClient
from fake_reads import ReadRan, Received, ranged, run_read
from real_reads import (
    ON_ALL,
    TOPIC,
    Reader,
    assert_read_once_and_in_order,
    await_brokers,
    await_isr,
    make_topic,
    read,
    read_while,
    throttled_follower,
    write,
)
from rows import read_back

from kipctl.cluster.topics import delete_topics
from kipctl.lab.cluster import Lab
from kipctl.probe.consume import positions
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.preferred_read_replica import PreferredReadReplica
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.clock import now_us
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.transport.access import Access

pytestmark = pytest.mark.kafka


@pytest.fixture
def on_lab(struck_lab: Lab) -> Iterator[Lab]:
    """The lab to strike, whose nodes run afterwards, without the topic."""
    yield struck_lab
    struck_lab.start(1, 2, 3)
    delete_topics(struck_lab.bootstrap_server, [TOPIC])


def test_stops_hangs_and_crashes_of_followers_and_leaders_cost_no_record(
    on_lab: Lab, tmp_path: Path
) -> None:
    """Broker 2 leads a third of the partitions, and is the follower that one reader is near to."""
    server = on_lab.bootstrap_server
    make_topic(server, ON_ALL * 2)
    near = Reader(tmp_path / "near", config={"client_rack": "rack-2", "request_timeout_ms": 2000})
    far = Reader(tmp_path / "far", config={"request_timeout_ms": 2000})

    def act() -> None:
        admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
        partitions = [AnyPartition(TOPIC, index) for index in range(6)]
        lab = on_lab
        for away, back in ((lab.stop, lab.start), (lab.pause, lab.resume), (lab.kill, lab.start)):
            near.until_read_from(2)
            far.until_read_from(1, 2, 3)
            away(2)
            near.until_read_from(1, 3)
            far.until_read_from(1, 3)
            back(2)
            await_isr(server)
            admin.elect_leaders(ElectionType.PREFERRED, partitions).result()
        near.until_read_from(2)

    (ran_near, ran_far), written = read_while(server, 6, act, near, far)
    for ran in (ran_near, ran_far):
        assert_read_once_and_in_order(on_lab, ran, written)
        assert ErrorCode.NETWORK_EXCEPTION in {row["error"] for row in ran.redirects}
        assert any(row["from_broker"] == 2 for row in ran.redirects)
        assert {1, 2, 3} == set(ran.brokers_read)
    named = [row for row in ran_near.reads if row["preferred_read_replica"] == 2]
    assert {row["is_leader"] for row in named} == {1}


def test_an_unclean_election_takes_back_what_was_read_and_it_is_read_on_from_there(
    on_lab: Lab, tmp_path: Path
) -> None:
    server = on_lab.bootstrap_server
    make_topic(server, [[1, 2]], unclean_leader_election_enable="true")
    write(server, [b"both %d" % n for n in range(10)])
    await_isr(server)
    on_lab.stop(2)
    write(server, [b"only 1: %d" % n for n in range(20)])

    def lose_the_leader(received: Received) -> None:
        if received.count == 30:
            on_lab.kill(1)
            on_lab.start(2)
            write(server, [b"only 2: %d" % n for n in range(5)])

    spec = ConsumeSpec(
        Access(server), TOPIC, 35, 60_000, config=ConsumerConfig(auto_offset_reset="earliest")
    )
    ran = run_read(spec, tmp_path, on_records=lose_the_leader)
    assert ran.received.offsets() == [*range(30), *range(10, 15)]
    assert [value for _, value in ran.received.by_partition[0]][-5:] == [
        b"only 2: %d" % n for n in range(5)
    ]
    assert ran.reads[-1]["broker"] == 2


# --- out of range ---


def test_a_position_between_the_high_watermark_and_the_end_is_waited_for(
    on_lab: Lab, tmp_path: Path
) -> None:
    """A follower that is in sync and hangs holds the high watermark back, until it is missed: for 6
    s. On a machine that was too slow for that it is tried again.
    """
    server, rows, attempts = on_lab.bootstrap_server, list[dict[str, int]](), 0
    producer = Producer({"bootstrap.servers": server, "acks": 1, "log_level": 0})
    spec = ConsumeSpec(
        on_lab.access, TOPIC, 5, 60_000, offset=5, config=ConsumerConfig(fetch_max_wait_ms=100)
    )
    while not rows:
        attempts += 1
        make_topic(server, [[1, 2]])
        await_isr(server)
        directory = tmp_path / str(attempts)
        directory.mkdir()
        on_lab.pause(2)
        for n in range(10):
            producer.produce(TOPIC, b"%d" % n, partition=0)
        assert producer.flush(60) == 0
        ran = run_read(spec, directory, lambda directory=directory: _resumed(on_lab, directory))
        on_lab.resume(2)
        rows = ranged(ran)
        await_isr(server)
        if not rows:
            delete_topics(server, [TOPIC])
    assert {(row["range_case"], row["range_handling"], row["error"]) for row in rows} == {
        (RangeCase.UNCOMMITTED, RangeHandling.WAIT, 0)
    }
    assert ran.received.offsets() == [5, 6, 7, 8, 9]


def _resumed(lab: Lab, directory: Path) -> bool:
    """Broker 2 goes on as soon as the reader has met something; it is never told to stop."""
    if any(row["time_us"] for row in read_back(directory, "reads")):
        lab.resume(2)
    return False


class NamedBefore(PreferredReadReplica):
    """Broker 2 was named by the leader, before the run that a test begins with."""

    __slots__ = ("_is_new",)

    def __init__(self) -> None:
        super().__init__()
        self.set(2, now_us(), 60_000_000)
        self._is_new = True

    def clear(self) -> bool:
        if self._is_new:  # the leader becomes known
            self._is_new = False
            return False
        return super().clear()


def test_positions_that_a_follower_does_not_have_because_it_is_behind_or_nobody_has(
    on_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader would not name it there: what remains is a follower that was named before."""
    server = on_lab.bootstrap_server
    make_topic(server, [[1, 2]])
    monkeypatch.setattr(positions, "PreferredReadReplica", NamedBefore)
    with throttled_follower(server, TOPIC, 2, rate=1000):
        on_lab.pause(2)
        await_isr(server, {1}, seen_by=1)
        # More than it copies at once, as it does before it looks how fast it was.
        write(server, [b"%d " % n + b"x" * 1000 for n in range(4000)], acks=1)
        on_lab.resume(2)
        await_brokers(server, 1, 2, 3)
        for offset, case, handling, read_from in (
            (3990, RangeCase.UNAVAILABLE, RangeHandling.ASK_LEADER, 3990),
            (9000, RangeCase.TOO_LARGE, RangeHandling.RESET, 0),
        ):
            ran: ReadRan = read(on_lab, tmp_path / case.name, 10, offset, client_rack="rack-2")
            (row,) = ranged(ran)
            assert (row["broker"], row["is_leader"]) == (2, 0)
            assert row["error"] == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (row["range_case"], row["range_handling"]) == (case, handling)
            assert row["next_offset"] == read_from
            assert ran.received.offsets()[:10] == list(range(read_from, read_from + 10))
            assert ran.brokers_read == [1]
