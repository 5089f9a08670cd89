"""The consumer on real brokers: every record once and in order, whatever happens to them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fake_reads import ReadRan, Received, Row, run_read
from real_reads import (
    Watch,
    Written,
    await_isr,
    make_topic,
    read_while,
    throttle_follower,
    write,
)
from rows import read_back

from kipctl.cluster.moves.rotate_own_topics import rotate_own_topics
from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.topics import LATEST, delete_topics, offsets
from kipctl.lab.cluster import Lab
from kipctl.probe.consume import positions
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.preferred_read_replica import PreferredReadReplica
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.clock import now_us
from kipctl.trace.codes import Decision, RangeCase, RangeHandling
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

TOPIC = "reads"
KIP951, REFRESH, BASELINE = LeaderDiscovery
ON_ALL = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
SOON_OUT_OF_SYNC = (("replica.lag.time.max.ms", "3000"),)
"""A follower that does not fetch is out of sync after 3 s, as its broker is fenced then."""


@pytest.fixture
def on_lab(lab: Lab) -> Iterator[Lab]:
    """The session's lab, whose topic is removed afterwards."""
    yield lab
    delete_topics(lab.bootstrap_server, [TOPIC])


def assert_read_once_and_in_order(lab: Lab, ran: ReadRan, written: Written) -> None:
    """Every offset of the log once and in order, and every value that was acknowledged.

    The log may hold a value twice: to a new leader that has not seen the producer yet, a retry of
    an idempotent producer is no duplicate.
    """
    assert sum(map(len, written.values())) > 100
    assert ran.received.by_partition.keys() == written.keys()
    with Cluster(lab.bootstrap_server) as cluster:
        ends = offsets(cluster, TOPIC, LATEST)
    for partition, records in written.items():
        received = dict(ran.received.by_partition[partition])
        assert ran.received.offsets(partition) == list(range(ends[partition]))
        assert set(received.values()) == {value for _, value in records}
        assert all(offset is None or received[offset] == value for offset, value in records)
    assert ran.outcome.errors == {}


def read(
    lab: Lab, directory: Path, num_records: int, offset: int = -1, **config: object
) -> ReadRan:
    settings = {"auto_offset_reset": "earliest", **config}
    spec = ConsumeSpec(
        lab.access,
        TOPIC,
        num_records,
        timeout_ms=30_000,
        offset=offset,
        config=ConsumerConfig(**settings),
    )
    return run_read(spec, directory)


# --- replicas (KIP-392) ---


def test_the_replica_of_the_rack_is_read_from_within_one_extra_fetch(
    on_lab: Lab, tmp_path: Path
) -> None:
    make_topic(on_lab.bootstrap_server, TOPIC, ON_ALL * 2)
    for index in range(6):
        write(on_lab.bootstrap_server, TOPIC, [b"%d" % n for n in range(500)], index)
    ran = read(on_lab, tmp_path, 3000, client_rack="rack-2")
    assert ran.outcome.records == 3000
    for index in range(6):
        rows = [row for row in ran.reads if row["partition"] == index]
        before = rows[: [bool(row["records"]) for row in rows].index(True)]
        leads = index % 3 == 1
        assert [
            (r["is_leader"], r["preferred_read_replica"]) for r in before if r["is_leader"]
        ] == ([] if leads else [(1, 2)])
        assert {row["broker"] for row in rows if row["records"]} == {2}
    assert not ran.redirects


def test_a_follower_s_stop_hang_crash_and_return_cost_no_record(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make_lab(config=SOON_OUT_OF_SYNC)
    make_topic(lab.bootstrap_server, TOPIC, [[1, 2, 3], [3, 2, 1]])

    def act(watch: Watch) -> None:
        watch.until_read_from(2)
        for away, back in ((lab.stop, lab.start), (lab.pause, lab.resume), (lab.kill, lab.start)):
            away(2)
            watch.until_read_from(1, 3)
            back(2)
            await_isr(lab.bootstrap_server, TOPIC)
            watch.until_read_from(2)

    ran, written = read_while(
        lab.bootstrap_server,
        TOPIC,
        2,
        tmp_path,
        act,
        client_rack="rack-2",
        request_timeout_ms=2000,
    )
    assert_read_once_and_in_order(lab, ran, written)
    away_us = [row["error_us"] for row in ran.redirects if row["from_broker"] == 2]
    assert away_us
    assert {1, 2, 3} == set(ran.brokers_read)
    named = [row for row in ran.reads if row["preferred_read_replica"] == 2]
    assert {row["is_leader"] for row in named} == {1}


# --- leaders ---


@pytest.mark.parametrize(
    ("discovery", "rack"), [(KIP951, ""), (KIP951, "rack-2"), (REFRESH, ""), (BASELINE, "")]
)
def test_rotations_cost_no_record(
    on_lab: Lab, tmp_path: Path, discovery: LeaderDiscovery, rack: str
) -> None:
    make_topic(on_lab.bootstrap_server, TOPIC, ON_ALL * 2)

    def act(watch: Watch) -> None:
        watch.until_read_from(2)
        with Cluster(on_lab.bootstrap_server) as cluster:
            for _ in range(3):
                assert rotate_own_topics(cluster, [TOPIC]).failures == ()
                watch.until_read_from(2)

    ran, written = read_while(
        on_lab.bootstrap_server, TOPIC, 6, tmp_path, act, discovery, client_rack=rack
    )
    assert_read_once_and_in_order(on_lab, ran, written)
    errors = {row["error"] for row in ran.redirects}
    assert errors <= {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
    decisions = {
        row["decision"] for row in ran.redirects if row["error"] == ErrorCode.FENCED_LEADER_EPOCH
    }
    if discovery is KIP951:
        assert Decision.FOLLOWED in decisions
        assert Decision.IGNORED not in decisions
    else:
        assert decisions <= {Decision.IGNORED, Decision.ABSENT}


def test_stops_and_crashes_of_leaders_cost_no_record(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make_lab(config=SOON_OUT_OF_SYNC)
    make_topic(lab.bootstrap_server, TOPIC, [*ON_ALL, [1, 3, 2], [2, 1, 3], [3, 2, 1]])

    def act(watch: Watch) -> None:
        watch.until_read_from(1, 2, 3)
        with Cluster(lab.bootstrap_server) as cluster:
            for away in (lab.kill, lab.stop, lab.kill):
                leader = take_snapshot(cluster, [TOPIC]).partitions[0].leader
                away(leader)
                watch.until_read_from(*{1, 2, 3} - {leader})
                lab.start(leader)
                await_isr(lab.bootstrap_server, TOPIC)

    ran, written = read_while(lab.bootstrap_server, TOPIC, 6, tmp_path, act)
    assert_read_once_and_in_order(lab, ran, written)
    assert ErrorCode.NETWORK_EXCEPTION in {row["error"] for row in ran.redirects}


def test_an_unclean_election_takes_back_what_was_read_and_it_is_read_on_from_there(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make_lab(config=SOON_OUT_OF_SYNC)
    server = lab.bootstrap_server
    make_topic(server, TOPIC, [[1, 2]], unclean_leader_election_enable="true")
    write(server, TOPIC, [b"both %d" % n for n in range(10)])
    await_isr(server, TOPIC)
    lab.stop(2)
    write(server, TOPIC, [b"only 1: %d" % n for n in range(20)])

    def lose_the_leader(received: Received) -> None:
        if received.count == 30:
            lab.kill(1)
            lab.start(2)
            write(server, TOPIC, [b"only 2: %d" % n for n in range(5)])

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


def ranged(ran: ReadRan) -> list[Row]:
    return [row for row in ran.reads if row["range_case"] != -1]


def delete_records(lab: Lab, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition(TOPIC, 0, before)]).values():
        deleted.result()


@pytest.mark.parametrize(("offset", "case"), [(3, RangeCase.TOO_SMALL), (99, RangeCase.TOO_LARGE)])
@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_positions_that_the_leader_does_not_have(
    on_lab: Lab, tmp_path: Path, offset: int, case: RangeCase, reset: str
) -> None:
    make_topic(on_lab.bootstrap_server, TOPIC, [[1, 2, 3]])
    write(on_lab.bootstrap_server, TOPIC, [b"%d" % n for n in range(20)])
    delete_records(on_lab, before=7)
    ran = read(on_lab, tmp_path, 13, offset, auto_offset_reset=reset)
    (row,) = ranged(ran)
    assert (row["error"], row["is_leader"]) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    if reset == "none":
        assert (row["range_case"], row["range_handling"]) == (case, RangeHandling.FAIL)
        assert ran.outcome.errors == {"OFFSET_OUT_OF_RANGE": 1}
    else:
        assert (row["range_case"], row["range_handling"]) == (case, RangeHandling.RESET)
        assert ran.received.offsets() == list(range(7, 20))


def test_a_position_that_is_deleted_while_the_follower_is_read_from(
    on_lab: Lab, tmp_path: Path
) -> None:
    """The follower refuses it, and the leader says why."""
    make_topic(on_lab.bootstrap_server, TOPIC, [[1, 2, 3]])
    write(on_lab.bootstrap_server, TOPIC, [b"%d" % n for n in range(10)])

    def delete(received: Received) -> None:
        if received.count == 10:
            write(on_lab.bootstrap_server, TOPIC, [b"%d" % n for n in range(10, 50)])
            delete_records(on_lab, before=40)  # answered when all replicas have done it

    spec = ConsumeSpec(
        Access(on_lab.bootstrap_server),
        TOPIC,
        20,
        30_000,
        config=ConsumerConfig(auto_offset_reset="earliest", client_rack="rack-2"),
    )
    ran = run_read(spec, tmp_path, on_records=delete)
    (row,) = ranged(ran)
    assert (row["error"], row["is_leader"]) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert (row["range_case"], row["range_handling"]) == (
        RangeCase.TOO_SMALL,
        RangeHandling.RESET,
    )
    assert (row["broker"], row["fetch_offset"], row["next_offset"]) == (2, 10, 40)
    assert ran.received.offsets() == [*range(10), *range(40, 50)]
    assert ran.brokers_read == [2]


def test_a_position_between_the_high_watermark_and_the_end_is_waited_for(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    """A follower that is in sync and hangs holds the high watermark back."""
    lab = make_lab(racks=0, config=(("broker.session.timeout.ms", "600000"),))  # paused, it stays
    make_topic(lab.bootstrap_server, TOPIC, [[1, 2]])
    lab.pause(2)
    write(lab.bootstrap_server, TOPIC, [b"%d" % n for n in range(10)], acks=1)
    resumed: list[int] = []

    def should_stop() -> bool:
        if not resumed and any(row["time_us"] for row in read_back(tmp_path, "reads")):
            resumed.append(2)
            lab.resume(2)
        return False

    spec = ConsumeSpec(
        lab.access,
        TOPIC,
        5,
        60_000,
        offset=5,
        config=ConsumerConfig(fetch_max_wait_ms=100),
    )
    ran = run_read(spec, tmp_path, should_stop)
    rows = ranged(ran)
    assert {(row["range_case"], row["range_handling"], row["error"]) for row in rows} == {
        (RangeCase.UNCOMMITTED, RangeHandling.WAIT, 0)
    }
    assert ran.received.offsets() == [5, 6, 7, 8, 9]


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
    make_lab: Callable[..., Lab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader would not name it there: what remains is a follower that was named before."""
    lab = make_lab(
        config=(
            ("replica.lag.time.max.ms", "1500"),
            ("replica.fetch.max.bytes", "20000"),
            # A broker that is paused stays in the cluster.
            ("broker.session.timeout.ms", "600000"),
        )
    )
    server = lab.bootstrap_server
    make_topic(server, TOPIC, [[1, 2]])
    throttle_follower(server, TOPIC, 2, rate=1000)
    lab.pause(2)
    write(server, TOPIC, [b"%d " % n + b"x" * 1000 for n in range(2000)], acks=1)
    await_isr(server, TOPIC, {1}, seen_by=1)
    lab.resume(2)
    monkeypatch.setattr(positions, "PreferredReadReplica", NamedBefore)
    for offset, case, handling, read_from in (
        (1990, RangeCase.UNAVAILABLE, RangeHandling.ASK_LEADER, 1990),
        (9000, RangeCase.TOO_LARGE, RangeHandling.RESET, 0),
    ):
        folder = tmp_path / case.name
        folder.mkdir()
        ran = read(lab, folder, 10, offset, client_rack="rack-2")
        (row,) = ranged(ran)
        assert (row["broker"], row["is_leader"]) == (2, 0)
        assert row["error"] == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (row["range_case"], row["range_handling"]) == (case, handling)
        assert row["next_offset"] == read_from
        assert ran.received.offsets()[:10] == list(range(read_from, read_from + 10))
        assert ran.brokers_read == [1]


# --- transactions ---


def test_what_is_committed_is_what_librdkafka_reads(on_lab: Lab, tmp_path: Path) -> None:
    server = on_lab.bootstrap_server
    make_topic(server, TOPIC, [[1, 2, 3]])
    producer = Producer(
        {"bootstrap.servers": server, "transactional.id": "reads-test", "log_level": 0}
    )
    producer.init_transactions(30)
    for transaction in range(6):
        producer.begin_transaction()
        for n in range(50):
            producer.produce(TOPIC, b"%d:%d" % (transaction, n), partition=0)
        producer.flush(30)
        write(server, TOPIC, [b"%d:no transaction" % transaction])
        if transaction % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    write(server, TOPIC, [b"the end"])
    expected = {}
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer(
            {
                "bootstrap.servers": server,
                "group.id": "reads-test",
                "isolation.level": level,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes] = []
        while values[-1:] != [b"the end"]:
            values += [m.value() for m in consumer.consume(1000, timeout=1) if not m.error()]
        consumer.close()
        expected[level] = len(values)
    assert expected == {"read_committed": 157, "read_uncommitted": 307}
    for level, records in expected.items():
        for max_bytes in (1 << 20, 1000):  # in one answer, and in many
            folder = tmp_path / f"{level}-{max_bytes}"
            folder.mkdir()
            ran = read(
                on_lab,
                folder,
                records,
                isolation_level=level,
                max_partition_fetch_bytes=max_bytes,
            )
            assert ran.outcome.records == records
