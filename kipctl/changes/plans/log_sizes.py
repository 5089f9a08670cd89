"""How large partitions are and how much room brokers have: asked of every broker's log dirs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kipctl.cluster.log_dirs import reported_sizes
from kipctl.cluster.snapshot import PartitionId, Snapshot
from kipctl.errors import KipctlError
from kipctl.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kipctl.transport.request import Cluster


@dataclass(frozen=True, slots=True)
class Disk:
    """The volumes of a broker's log directories, in bytes (DescribeLogDirs 4)."""

    total: int
    usable: int


@dataclass(frozen=True, slots=True)
class LogSizes:
    """Bytes by partition, disks by broker; `missing` says why a broker did not report them."""

    sizes: Mapping[PartitionId, int]
    disks: Mapping[int, Disk]
    missing: Mapping[int, str]


BYTES_IN_S = 10.0
"""How long it is looked what comes in."""
NOT_ASKED = LogSizes({}, {}, {})
"""Of a plan that copies nothing."""


def ask_log_sizes(cluster: Cluster, snapshot: Snapshot) -> LogSizes:
    """Ask every live broker for all its logs; one that does not answer is in `missing`."""
    answers: dict[int, DescribeLogDirsResponse] = {}
    missing: dict[int, str] = {}
    for broker in snapshot.broker_ids:
        try:
            answers[broker] = cluster.broker(broker).request(DescribeLogDirsRequest(topics=None))
        except KipctlError as error:
            missing[broker] = error.what
    return log_sizes(snapshot, answers, missing)


def ask_bytes_in(cluster: Cluster, snapshot: Snapshot, seconds: float = BYTES_IN_S) -> LogSizes:
    """How many bytes the log of each partition grows in so many seconds, at its leader.

    A log that is cut meanwhile, as its oldest records have expired, counts as one that gets none.
    """
    before = ask_log_sizes(cluster, snapshot)
    time.sleep(seconds)
    now = ask_log_sizes(cluster, snapshot)
    grown = {log: max(0, size - before.sizes.get(log, size)) for log, size in now.sizes.items()}
    return replace(now, sizes=grown)


def log_sizes(
    snapshot: Snapshot,
    answers: Mapping[int, DescribeLogDirsResponse],
    missing: Mapping[int, str],
) -> LogSizes:
    """The size of each partition at its leader, or else the largest that a broker reports."""
    held: dict[int, dict[PartitionId, int]] = {}
    silent = dict(missing)
    for broker, answer in answers.items():
        held[broker], why = reported_sizes(broker, answer)
        if answer.error_code or not answer.results:
            silent[broker] = why
    sizes = {}
    for partition in snapshot.partitions:
        at_leader = held.get(partition.leader, {}).get(partition.id)
        reported = [
            held[r][partition.id] for r in partition.replicas if partition.id in held.get(r, ())
        ]
        if at_leader is not None:
            sizes[partition.id] = at_leader
        elif reported:
            sizes[partition.id] = max(reported)
    disks = {
        broker: disk for broker, answer in answers.items() if (disk := disk_of(answer)) is not None
    }
    return LogSizes(sizes, disks, silent)


def disk_of(answer: DescribeLogDirsResponse) -> Disk | None:
    """The room of a broker's log directories; None when it does not report (before Kafka 3.3).

    Directories with the same bytes, total and usable, are taken to be on one volume. Cordoned and
    failed ones get no new replicas, and are left out.
    """
    volumes = {
        (result.total_bytes, result.usable_bytes)
        for result in answer.results
        if not result.error_code and not result.is_cordoned
    }
    if not volumes or any(total < 0 or usable < 0 for total, usable in volumes):
        return None
    return Disk(sum(total for total, _ in volumes), sum(usable for _, usable in volumes))
