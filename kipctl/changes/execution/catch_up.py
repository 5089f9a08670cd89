"""How far brokers are that copy what they missed, as after a restart: partitions, bytes, time left.

A broker is whole when every replica on it is in sync, of whatever topic. Until then it fetches as
fast as it can, and who writes to a partition that it leads waits for that.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kipctl.changes.execution.copy_progress import CopyTracker, seconds_left
from kipctl.changes.plans.plan import Move, Plan
from kipctl.cluster.snapshot import PartitionId, Snapshot
from kipctl.counts import counted, format_bytes, format_duration
from kipctl.transport.request import Cluster


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What a broker still copies: so many of its replicas, and bytes and seconds where known."""

    broker: int
    partitions: int
    replicas: int
    bytes_left: int | None = None
    seconds_left: float | None = None

    def __str__(self) -> str:
        copies = "copies" if self.partitions == 1 else "copy"
        parts = [
            f"broker {self.broker}: {self.partitions:,} of"
            f" {counted(self.replicas, 'partition')} still {copies}"
        ]
        if self.bytes_left:
            parts.append(format_bytes(self.bytes_left))
        if self.seconds_left:
            parts.append(f"about {format_duration(self.seconds_left)} left")
        return ", ".join(parts)


@dataclass(slots=True)
class CatchUpTracker:
    """Asks brokers that catch up, and their leaders, how large the logs are (DescribeLogDirs).

    The rate is that between looks; what is asked for, and how often, is a `CopyTracker`'s.
    """

    cluster: Cluster
    _trackers: dict[int, CopyTracker] = field(default_factory=dict)

    def look(
        self, snapshot: Snapshot, behind: Mapping[int, Sequence[PartitionId]]
    ) -> tuple[CatchUp, ...]:
        """How far each of these brokers is now; `snapshot` is of all topics."""
        self._trackers = {b: one for b, one in self._trackers.items() if b in behind}
        return tuple(self._look_at(snapshot, broker, ids) for broker, ids in behind.items())

    def _look_at(self, snapshot: Snapshot, broker: int, ids: Iterable[PartitionId]) -> CatchUp:
        copied = tuple(ids)
        tracker = self._trackers.get(broker)
        if tracker and {move.id for move in tracker.plan.moves} >= {*copied}:
            tracker.look(copied)
        else:
            tracker = self._trackers[broker] = CopyTracker(
                self.cluster, _as_moves(snapshot, broker, copied), clock=time.monotonic
            )
            tracker.begin(is_under_way=True)
            tracker.submitted(tracker.plan)
        replicas = sum(broker in one.replicas for one in snapshot.partitions)
        last = tracker.seen[-1]
        return CatchUp(
            broker,
            len(copied),
            replicas,
            last.whole - last.copied if tracker.knows_sizes else None,
            seconds_left(tracker.seen),
        )


def _as_moves(snapshot: Snapshot, broker: int, ids: Iterable[PartitionId]) -> Plan:
    """What a broker copies, as if it were new there."""
    there = snapshot.by_id
    return Plan(
        tuple(
            Move(
                one,
                tuple(replica for replica in there[one].replicas if replica != broker),
                there[one].replicas,
                there[one].leader,
            )
            for one in ids
        )
    )
