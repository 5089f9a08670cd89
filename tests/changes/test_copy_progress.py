"""How far copying has come, by table: rate, time left, and the line that tells it."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from many_brokers import ManyBrokers, many_brokers
from reassigning import VERSIONS, Held, reassigning
from scripted_broker import HANG_UP, Asked, ScriptedBroker

from kipctl.changes.execution.copy_progress import (
    ASK_AGAIN_S,
    CopyResult,
    CopySample,
    CopyTracker,
    bytes_per_s,
    copied_so_far,
    seconds_left,
)
from kipctl.changes.execution.reassign import submit
from kipctl.changes.plans.plan import Move, Plan
from kipctl.cluster.snapshot import PartitionId
from kipctl.counts import format_duration
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.describe_log_dirs import DescribeLogDirsRequest
from kipctl.protocol.message import Response
from kipctl.transport.request import Cluster

MB, GB = 10**6, 10**9


def steady(rate: float, whole: int, until_s: float, every_s: float = 5.0) -> list[CopySample]:
    """Looks at copying that goes on at so many bytes per second."""
    times = [every_s * n for n in range(int(until_s / every_s) + 1)]
    return [CopySample(t, round(min(rate * t, whole)), whole) for t in times]


@pytest.mark.parametrize(
    ("seen", "throttle", "left_s"),
    [
        ([], None, None),
        ([CopySample(0, 0, GB)], None, None),
        ([CopySample(0, 0, 0)], None, 0),
        ([CopySample(0, 0, GB), CopySample(10, GB, GB)], None, 0),
        # It has not begun, or it stands still.
        ([CopySample(0, 0, GB), CopySample(10, 0, GB)], None, None),
        ([CopySample(0, 0, GB), CopySample(10, 100 * MB, GB)], None, 90),
        # What was faster, or slower, at first is no measure.
        (
            [CopySample(0, 0, GB), CopySample(10, 500 * MB, GB), CopySample(20, 600 * MB, GB)],
            None,
            40,
        ),
        ([CopySample(0, 0, GB), CopySample(10, 0, GB), CopySample(20, 500 * MB, GB)], None, 10),
        # The leader grows meanwhile.
        ([CopySample(0, 0, GB), CopySample(10, 500 * MB, 2 * GB)], None, 30),
        # A throttle lets much through in its first seconds; then the busiest broker counts.
        ([CopySample(0, 0, GB), CopySample(1, 500 * MB, GB, busiest=400 * MB)], 50 * MB, 8),
        ([CopySample(0, 0, GB), CopySample(10, 0, GB, busiest=GB)], 50 * MB, 20),
        ([CopySample(0, 0, GB), CopySample(10, 100 * MB, GB, busiest=300 * MB)], 50 * MB, 90),
        # ... and that much has to be waited for afterwards.
        (
            [CopySample(0, 0, GB), CopySample(2, 550 * MB, GB, busiest=450 * MB, most=GB)],
            50 * MB,
            18,
        ),
        # Less than before, as after a log was cut: no rate.
        ([CopySample(0, 10, GB), CopySample(10, 0, GB)], None, None),
    ],
)
def test_how_long_it_still_takes(
    seen: list[CopySample], throttle: int | None, left_s: float | None
) -> None:
    estimate = seconds_left(seen, throttle)
    assert estimate == (None if left_s is None else pytest.approx(left_s))


@given(st.integers(MB, GB), st.integers(10 * GB, 10**13), st.floats(0.1, 0.99))
def test_at_a_steady_rate_it_is_right_after_the_first_tenth(
    rate: int, whole: int, share: float
) -> None:
    lasts_s = whole / rate
    at_s = share * lasts_s
    seen = steady(rate, whole, at_s, every_s=max(1.0, at_s / 50))
    left_s = seconds_left(seen)
    assert left_s is not None
    assert left_s == pytest.approx(lasts_s - seen[-1].time_s, rel=0.2, abs=1)


def test_the_rate_is_that_of_the_later_half() -> None:
    seen = [*steady(100, 10_000, 20), CopySample(40, 3000, 10_000)]
    assert bytes_per_s(seen) == pytest.approx(1000 / 20)


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        ([CopySample(0, 0, 5 * GB)], "Copied 0.0 of 5.0 GB"),
        (
            [CopySample(0, 0, 5 * GB), CopySample(25, 1200 * MB, 5 * GB)],
            "Copied 1.2 of 5.0 GB, 48 MB/s, 1 min 19 s left",
        ),
        (
            [CopySample(0, 0, 50 * MB), CopySample(10, 5 * MB, 50 * MB)],
            "Copied 5.0 of 50.0 MB, 500 kB/s, 1 min 30 s left",
        ),
        (
            [CopySample(0, 0, 900), CopySample(1, 900, 900)],
            "Copied 900 of 900 B, 900 B/s, 0 s left",
        ),
    ],
)
def test_the_line_that_tells_it(seen: list[CopySample], line: str) -> None:
    assert copied_so_far(seen) == line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (80, "1 min 20 s"), (7500, "2 h 5 min")],
)
def test_a_time_as_a_person_says_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@dataclass
class Clock:
    """A time that tests set."""

    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


T = [PartitionId("t", n) for n in range(3)]
MOVES = Plan(tuple(Move(partition, (1, 2), (3, 2), 1) for partition in T))


def test_what_new_replicas_hold_is_asked_for_until_all_are_there() -> None:
    clock, lines = Clock(), list[str]()
    cluster = ManyBrokers(
        {partition: Held((1, 2), 1) for partition in T},
        (1, 2, 3),
        sizes=dict.fromkeys(T, 100 * MB),
        copy_s=10,
        clock=clock,
    )
    with many_brokers(cluster) as broker, Cluster(broker.address) as asked:
        copying = CopyTracker(asked, MOVES, progress=lines.append, clock=clock)
        copying.begin()
        assert copying.expected_bytes == 300 * MB
        copying.leave_out([T[2]])
        submit(asked, MOVES.without([T[2]]).target, may_change_replication_factor=False)
        copying.submitted(MOVES.without([T[2]]))
        clock.now_s = 100.5
        copying.look(T[:2])
        assert lines == []
        clock.now_s = 105.0
        copying.look(T[:2])
        clock.now_s = 105.1
        copying.look(T[:2])
        assert lines == ["Copied 100.0 of 200.0 MB, 20 MB/s, 5 s left"]
        assert copying.seen[-1].busiest == 100 * MB
        asked_before = cluster.counts["DescribeLogDirs"]
        clock.now_s = 110.5
        copying.look([])
        copying.look([])
        # Of the brokers that give and take, and once.
        assert cluster.counts["DescribeLogDirs"] == asked_before + 2
    assert copying.outcome(10.5) == CopyResult(300 * MB, 200 * MB, 10.5)
    assert len(lines) == 1


def test_a_broker_that_does_not_tell_sizes_is_asked_once() -> None:
    lines: list[str] = []
    asked: list[object] = []

    def answer(received: Asked) -> Response | bytes | None:
        asked.append(received.request)
        return None if isinstance(received.request, ApiVersionsRequest) else HANG_UP

    with ScriptedBroker(answer) as broker, Cluster(broker.address, timeout_s=5) as cluster:
        copying = CopyTracker(cluster, MOVES, progress=lines.append, clock=lambda: 0.0)
        copying.begin()
        copying.submitted(MOVES)
        copying.look([])
        assert (copying.expected_bytes, lines) == (0, [])
        before = len(asked)
        copying.look([])
        assert len(asked) == before


def test_a_plan_that_copies_nothing_asks_nothing() -> None:
    with ScriptedBroker() as broker, Cluster(broker.address) as cluster:
        copying = CopyTracker(cluster, Plan((Move(T[0], (1, 2), (2, 1), 1),)))
        copying.begin()
        copying.submitted(copying.plan)
        copying.look([])
        assert broker.asked == []


class TestWhenItIsGivenUp:
    """After so many seconds in which no new replica was seen to grow, and none arrived."""

    PATIENCE_S = 300.0

    def test_as_long_as_replicas_grow_there_is_time(self) -> None:
        clock = Clock()
        cluster = ManyBrokers(
            {partition: Held((1, 2), 1) for partition in T},
            (1, 2, 3),
            sizes=dict.fromkeys(T, 100 * MB),
            copy_s=3600,
            clock=clock,
        )
        with many_brokers(cluster) as broker, Cluster(broker.address) as asked:
            copying = CopyTracker(asked, MOVES, clock=clock)
            assert copying.stalled_until(self.PATIENCE_S) == float("-inf")
            copying.begin()
            assert copying.knows_sizes
            submit(asked, MOVES.target, may_change_replication_factor=False)
            copying.submitted(MOVES)
            for _ in range(30):
                clock.now_s += 100
                # Not known to stand still before it was looked at.
                assert copying.stalled_until(self.PATIENCE_S) > clock.now_s
                copying.look(T)
                assert copying.stalled_until(self.PATIENCE_S) == clock.now_s + self.PATIENCE_S
            cluster.clock = lambda: 3100.0  # from now on nothing grows
            last_s = clock.now_s
            while copying.stalled_until(self.PATIENCE_S) > clock.now_s:
                clock.now_s += 100
                copying.look(T)
            assert clock.now_s == last_s + self.PATIENCE_S
            copying.look(T[1:])  # one has arrived all the same
            assert copying.stalled_until(self.PATIENCE_S) == clock.now_s + self.PATIENCE_S
            clock.now_s += 100
            copying.look([])
            assert copying.stalled_until(self.PATIENCE_S) == clock.now_s + self.PATIENCE_S

    def test_where_brokers_do_not_tell_what_arrives_counts(self) -> None:
        clock = Clock()
        with reassigning(dict.fromkeys(T, (1, 2))) as (fake, broker), Cluster(broker.address) as c:
            fake.stumbles[DescribeLogDirsRequest] = [HANG_UP] * 100
            copying = CopyTracker(c, MOVES, clock=clock)
            copying.begin()
            copying.submitted(MOVES)
            assert not copying.knows_sizes
            for left, more_s in ((3, 100.0), (2, 300.0), (2, 100.0), (1, 300.0)):
                clock.now_s += 200
                copying.look(T[:left])
                assert copying.stalled_until(self.PATIENCE_S) == clock.now_s + more_s

    def test_a_broker_that_was_away_is_asked_again(self) -> None:
        clock = Clock()
        with reassigning(dict.fromkeys(T, (1, 2))) as (fake, broker), Cluster(broker.address) as c:
            fake.stumbles[DescribeLogDirsRequest] = [HANG_UP]
            copying = CopyTracker(c, MOVES, clock=clock)
            for passed_s, knows_sizes in (
                (0.0, False),
                (ASK_AGAIN_S / 2, False),
                (ASK_AGAIN_S, True),
            ):
                clock.now_s += passed_s
                copying.begin()
                assert copying.knows_sizes is knows_sizes

    def test_one_that_refuses_to_tell_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        monkeypatch.delitem(VERSIONS, int(ApiKey.DESCRIBE_LOG_DIRS))
        with reassigning(dict.fromkeys(T, (1, 2))) as (_, broker), Cluster(broker.address) as c:
            copying = CopyTracker(c, MOVES, clock=clock)
            copying.begin()
            assert copying._silent == {1: float("inf")}
            assert not copying.knows_sizes
