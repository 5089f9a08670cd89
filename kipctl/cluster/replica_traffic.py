"""How much is read from each partition, and how much of that crosses racks, for whom, at what cost.

Each rack's readers are taken to read every partition once: as much as is written to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kipctl.cluster.replica_selection import Choice, PartitionFacts
from kipctl.cluster.snapshot import NO_LEADER, PartitionId
from kipctl.errors import UsageError
from kipctl.protocol.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

GB = 10**9
"""Bytes, as providers charge them."""

MONTH_S = 30 * 24 * 3600
"""Seconds of the 30 days that a price is told for."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A leader's log at a moment: its size in bytes and its ends; `time_us` is of now_us()."""

    time_us: int
    size: int
    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True)
class RackSummary:
    """How readers in one rack fare.

    `held_bytes` and `bytes_per_s` are of the partitions that can be read, all of them and those
    that another rack serves (`cross_...`); per second only where rates were measured.
    """

    rack: str
    partitions: int
    local: int
    closest: int
    held_bytes: int
    cross_held_bytes: int
    bytes_per_s: float | None
    cross_bytes_per_s: float | None

    @property
    def local_percent(self) -> float:
        return 100 * self.local / max(1, self.partitions)

    @property
    def cross_percent(self) -> float | None:
        """Of the bytes per second (of those held, without rates), the share that crosses racks."""
        whole, part = self.bytes_per_s, self.cross_bytes_per_s
        if whole is None or part is None:
            whole, part = self.held_bytes, self.cross_held_bytes
        return 100 * part / whole if whole else None

    def cost_per_month(self, price_per_gb: float) -> float | None:
        """What the bytes across racks cost in 30 days, in the price's currency."""
        if self.cross_bytes_per_s is None:
            return None
        return self.cross_bytes_per_s * MONTH_S / GB * price_per_gb


def samples(cluster: Cluster, facts: Iterable[PartitionFacts]) -> dict[PartitionId, Sample]:
    """The leaders' logs now; a partition whose leader did not tell its ends is left out.

    Raises UnreachableError, TimedOutError or RefusedError when a leader does not answer.
    """
    by_leader: dict[int, list[PartitionFacts]] = {}
    for one in facts:
        if one.leader != NO_LEADER:
            by_leader.setdefault(one.leader, []).append(one)
    found = {}
    for leader, led in by_leader.items():
        sizes = _sizes(cluster, leader, [one.id for one in led])
        time_us = now_us()
        for one in led:
            log = one.replica(leader)
            if log and log.log_start is not None and log.log_end is not None and one.id in sizes:
                found[one.id] = Sample(time_us, sizes[one.id], log.log_start, log.log_end)
    return found


def _sizes(cluster: Cluster, broker: int, ids: Iterable[PartitionId]) -> dict[PartitionId, int]:
    topics: dict[str, list[int]] = {}
    for one in ids:
        topics.setdefault(one.topic, []).append(one.partition)
    answer = cluster.broker(broker).request(
        DescribeLogDirsRequest(
            topics=tuple(DescribableLogDirTopic(t, tuple(found)) for t, found in topics.items())
        )
    )
    return {
        PartitionId(topic.name, partition.partition_index): partition.partition_size
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }


def bytes_per_s(before: Sample, after: Sample) -> float:
    """How fast a log grew.

    Where its start moved or it shrank meanwhile (retention, compaction), by the records appended
    and the mean size of those that are held.
    """
    seconds = (after.time_us - before.time_us) / 1e6
    appended = max(0, after.log_end - before.log_end)
    if not appended or seconds <= 0:
        return 0.0
    grown = after.size - before.size
    if after.log_start != before.log_start or grown <= 0:
        grown = round(appended * after.size / max(1, after.log_end - after.log_start))
    return grown / seconds


def summarize(
    choices: Iterable[Choice],
    held: Mapping[PartitionId, int],
    rates: Mapping[PartitionId, float] | None = None,
) -> tuple[RackSummary, ...]:
    """One summary a rack, in the order of the choices.

    `held` are bytes, `rates` bytes per second; a partition that is missing there counts as none.
    """
    by_rack: dict[str, list[Choice]] = {}
    for choice in choices:
        by_rack.setdefault(choice.rack, []).append(choice)
    found = []
    for rack, chosen in by_rack.items():
        read = [c.id for c in chosen if c.reads_from is not None]
        cross = [c.id for c in chosen if c.reads_from is not None and c.reads_from_rack != rack]
        found.append(
            RackSummary(
                rack=rack,
                partitions=len(chosen),
                local=sum(c.local for c in chosen),
                closest=sum(c.closest for c in chosen),
                held_bytes=sum(held.get(i, 0) for i in read),
                cross_held_bytes=sum(held.get(i, 0) for i in cross),
                bytes_per_s=None if rates is None else sum(rates.get(i, 0.0) for i in read),
                cross_bytes_per_s=None if rates is None else sum(rates.get(i, 0.0) for i in cross),
            )
        )
    return tuple(found)


def parse_percent(text: str) -> float:
    """The number in `95%` or `95`. Raises UsageError unless it is from 0 to 100."""
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise UsageError(f"{text!r} is no percentage.", "Write it as 95%.")
    return percent


def below(summaries: Iterable[RackSummary], percent: float) -> tuple[RackSummary, ...]:
    """The racks that serve fewer of the partitions to their readers than so many percent.

    Raises UsageError when there is nothing to look at, of which nothing could be said.
    """
    summaries = tuple(summaries)
    if not any(summary.partitions for summary in summaries):
        raise UsageError(
            "There is no partition that --require-local could hold for.",
            "Name others with --topic; kipctl inspect leaders lists them.",
        )
    return tuple(summary for summary in summaries if summary.local_percent < percent)
