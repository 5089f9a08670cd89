"""What is kept of Fetches that failed, where answers cross."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kipctl.probe.consume.broker_link import Asked, ConsumerLink
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.fetch_retries import FetchRetries
from kipctl.probe.consume.fetch_session import FetchPosition
from kipctl.probe.consume.positions import Partition
from kipctl.probe.leadership import KnownLeader, LeaderDiscovery, Node
from kipctl.probe.retries import Retries
from kipctl.probe.tracing import Tracing
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import PHASES
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import read_rows
from kipctl.transport.access import Access
from kipctl.transport.sockets import SystemSockets

CONFIG = ConsumerConfig(retry_backoff_ms=20)
SOCKETS = SystemSockets(lambda: 0, Access(""))


def link(node: int) -> ConsumerLink:
    return ConsumerLink(Node(node, "localhost", 9092), CONFIG, SOCKETS)


class Finder:
    """Knows the leader since the failure, epoch 4, and is connected with it or not."""

    def __init__(self, leader: ConsumerLink | None) -> None:
        self.leader = leader

    def link(self, partition: Partition) -> ConsumerLink | None:
        return self.leader

    def epoch(self, partition: Partition) -> int:
        return 4


def failures_of(tracing: Tracing, leader: ConsumerLink | None = None) -> FetchRetries:
    finder: Any = Finder(leader)
    return FetchRetries(Retries(CONFIG, LeaderDiscovery.KIP951, tracing, False), tracing, finder)


def spent_by_phase(folder: Path) -> dict[str, int]:
    """Of all failed attempts that were written, in microseconds."""
    columns = list(COLUMNS["redirects"])
    spent = read_rows(raw_path(folder, "redirects"), len(columns)).sum(axis=0)
    return {phase: int(spent[columns.index(f"{phase}_us")]) for phase in PHASES}


@pytest.mark.parametrize(
    ("state", "waited_for"),
    [
        ("no leader", "metadata"),
        ("not connected", "connect"),
        ("throttled", "throttled"),
        ("full", "queued"),
    ],
)
def test_who_gives_up_has_waited_for_what_it_lacked(
    tmp_path: Path, state: str, waited_for: str
) -> None:
    """Not for Metadata, which had named the leader long before."""
    partition = Partition(Topic("t", ZERO_UUID), 0, 0, 0)
    partition.learn(KnownLeader(5, 0, 2_500, None))
    leader = link(2)
    connection: Any = SimpleNamespace(in_flight=[], takes_requests=state != "full")
    if state != "not connected":
        leader.ready, leader.ready_us, leader.connection = True, 900, connection
    if state == "throttled":
        leader.is_throttled, leader.throttled_until_us = True, 5_000_000
    with closing(Tracing(tmp_path, ("redirects",))) as tracing:
        failures = failures_of(tracing, None if state == "no leader" else leader)
        not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
        failures.failed(Asked(partition, link(1), FetchPosition(0, 4), 1_000), not_leader, 2_000)
        failures.finish(partition, 0, 3_002_000)
    spent = spent_by_phase(tmp_path)
    assert sum(spent.values()) == 3_001_000
    assert 15_000 <= spent["backoff"] <= 25_000
    assert max(spent, key=lambda phase: spent[phase]) == waited_for
    assert waited_for == "metadata" or spent["metadata"] == 0


def test_a_newer_leader_that_refuses_while_a_retry_is_under_way_is_waited_for(
    tmp_path: Path,
) -> None:
    """The retry went to the older epoch; what was refused was asked in the newer one."""
    partition = Partition(Topic("t", ZERO_UUID), 0, 0, 0)
    with closing(Tracing(tmp_path, ("redirects",))) as tracing:
        failures = failures_of(tracing)
        not_leader, unknown = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH
        failures.failed(Asked(partition, link(1), FetchPosition(0, 4), 1_000), not_leader, 2_000)
        failures.retried(partition, link(1), 4, 30_000)
        failures.retried(partition, link(2), 5, 31_000)
        failures.failed(Asked(partition, link(2), FetchPosition(0, 5), 31_000), unknown, 32_000)
        assert failures.wait_us(partition, 5)
        assert not failures.wait_us(partition, 6)


def test_an_answer_that_comes_before_the_retry_ends_the_wait_for_it(tmp_path: Path) -> None:
    """Another broker was still being asked when the leader refused: the phases are the whole."""
    partition = Partition(Topic("t", ZERO_UUID), 0, 0, 0)
    with closing(Tracing(tmp_path, ("redirects",))) as tracing:
        failures = failures_of(tracing)
        fenced = ErrorCode.FENCED_LEADER_EPOCH
        failures.failed(Asked(partition, link(1), FetchPosition(0, 4), 1_000), fenced, 2_000)
        failures.finish(partition, 3, 9_000)
    assert sum(spent_by_phase(tmp_path).values()) == 8_000


def test_a_second_refusal_before_a_retry_ends_the_wait_for_it(tmp_path: Path) -> None:
    """A broker that was asked before is asked again next, and its old answer comes first."""
    partition = Partition(Topic("t", ZERO_UUID), 0, 0, 0)
    with closing(Tracing(tmp_path, ("redirects",))) as tracing:
        failures = failures_of(tracing)
        not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
        failures.failed(Asked(partition, link(1), FetchPosition(0, -1), 1_000), not_leader, 2_000)
        failures.failed(Asked(partition, link(2), FetchPosition(0, -1), 1_500), not_leader, 5_000)
        failures.finish(partition, 3, 9_000)
    assert sum(spent_by_phase(tmp_path).values()) == 8_000
