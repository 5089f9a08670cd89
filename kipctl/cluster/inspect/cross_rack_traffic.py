"""How much is read from each partition, and how much of that crosses racks, for whom, at what cost.

Each rack's readers are taken to read every partition once: as much as is written to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kipctl.cluster.inspect.replica_selection import Choice, PartitionFacts, Reason
from kipctl.cluster.log_dirs import reported_sizes, sizes_request
from kipctl.cluster.snapshot import NO_LEADER, PartitionId
from kipctl.errors import KipctlError, UsageError
from kipctl.next_step import Command
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

N = TypeVar("N", int, float)

GB = 10**9
"""Bytes, as providers charge them."""

MONTH_S = 30 * 24 * 3600
"""Seconds of the 30 days that a price is for."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A leader's log at a moment: its size in bytes and its ends; `time_us` is of now_us()."""

    time_us: int
    size: int
    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Samples:
    """The leaders' logs at a moment; `missing` says why the others' are not known."""

    known: Mapping[PartitionId, Sample]
    missing: Mapping[PartitionId, str]

    @property
    def held(self) -> dict[PartitionId, int]:
        """The bytes of each log."""
        return {one: sample.size for one, sample in self.known.items()}


@dataclass(frozen=True, slots=True)
class RackSummary:
    """How readers in one rack fare.

    `held_bytes` and `bytes_per_s` are of the partitions that have a leader, all of them and those
    that another rack serves (`cross_...`); per second only where rates were measured. A sum is
    None when a summand is not known. `cross_percent` is of the bytes per second, or, without
    rates, of those held. `unreported` are the partitions whose bytes it lacks.
    """

    rack: str
    partitions: int
    local: int
    closest: int
    held_bytes: int | None
    cross_held_bytes: int | None
    bytes_per_s: float | None
    cross_bytes_per_s: float | None
    cross_percent: float | None
    unreported: tuple[PartitionId, ...] = ()

    @property
    def local_percent(self) -> float:
        return 100 * self.local / max(1, self.partitions)

    def cost_per_month(self, price_per_gb: float) -> float | None:
        """What the bytes across racks cost in 30 days, in the price's currency."""
        if self.cross_bytes_per_s is None:
            return None
        return self.cross_bytes_per_s * MONTH_S / GB * price_per_gb


def samples(
    cluster: Cluster, facts: Iterable[PartitionFacts], silent: Mapping[int, KipctlError]
) -> Samples:
    """The leaders' logs now, as DescribeLogDirs shows them; `silent` brokers are not asked."""
    by_leader: dict[int, list[PartitionFacts]] = {}
    for one in facts:
        by_leader.setdefault(one.leader, []).append(one)
    known: dict[PartitionId, Sample] = {}
    missing: dict[PartitionId, str] = {}
    for leader, led in by_leader.items():
        if leader == NO_LEADER:
            missing |= {one.id: "no leader" for one in led}
            continue
        if leader in silent:
            missing |= {one.id: silent[leader].what for one in led}
            continue
        sizes, why = _sizes(cluster, leader, [one.id for one in led])
        time_us = now_us()
        for one in led:
            log = one.replica(leader)
            if one.id not in sizes:
                missing[one.id] = why
            elif log is None or log.log_start is None or log.log_end is None:
                missing[one.id] = f"broker {leader} did not report where the log starts and ends"
            else:
                known[one.id] = Sample(time_us, sizes[one.id], log.log_start, log.log_end)
    return Samples(known, missing)


def _sizes(
    cluster: Cluster, broker: int, ids: Iterable[PartitionId]
) -> tuple[dict[PartitionId, int], str]:
    """The bytes of the broker's logs, and why there are not more of them."""
    try:
        answer = cluster.broker(broker).request(sizes_request(ids))
    except KipctlError as error:
        return {}, error.what
    return reported_sizes(broker, answer)


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


def rates(
    before: Samples, after: Samples
) -> tuple[dict[PartitionId, float], dict[PartitionId, str]]:
    """The bytes per second of each log, and why those of the others are not known."""
    found = {
        one: bytes_per_s(before.known[one], sample)
        for one, sample in after.known.items()
        if one in before.known
    }
    missing = {**before.missing, **after.missing}
    return found, {one: why for one, why in missing.items() if one not in found}


def summarize(
    choices: Iterable[Choice],
    held: Mapping[PartitionId, int],
    rates: Mapping[PartitionId, float] | None = None,
) -> tuple[RackSummary, ...]:
    """One summary a rack, in the order of the choices.

    `held` are bytes, `rates` bytes per second; of a partition that is missing there they are not
    known. Where a leader gave no answer, it is not known what of them crosses racks.
    """
    by_rack: dict[str, list[Choice]] = {}
    for choice in choices:
        by_rack.setdefault(choice.rack, []).append(choice)
    found = []
    for rack, chosen in by_rack.items():
        led = [c for c in chosen if c.reason is not Reason.NO_LEADER]
        unsaid = {c.id for c in led if c.reads_from is None}
        read = [c.id for c in led]
        cross = [c.id for c in led if c.reads_from_rack != rack]
        whole, part = _sum(read, held), None if unsaid else _sum(cross, held)
        whole_rate = None if rates is None else _sum(read, rates)
        part_rate = None if rates is None or unsaid else _sum(cross, rates)
        measured = held if rates is None else rates
        found.append(
            RackSummary(
                rack=rack,
                partitions=len(chosen),
                local=sum(c.local for c in chosen),
                closest=sum(c.closest for c in chosen),
                held_bytes=whole,
                cross_held_bytes=part,
                bytes_per_s=whole_rate,
                cross_bytes_per_s=part_rate,
                cross_percent=(
                    _percent(part, whole) if rates is None else _percent(part_rate, whole_rate)
                ),
                unreported=tuple(one for one in read if one in unsaid or one not in measured),
            )
        )
    return tuple(found)


def _sum(ids: Sequence[PartitionId], amounts: Mapping[PartitionId, N]) -> N | None:
    """The sum of these amounts; None when one of them is not known."""
    if any(one not in amounts for one in ids):
        return None
    return sum(amounts[one] for one in ids)


def _percent(part: float | None, whole: float | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None


def unreported(
    summaries: Iterable[RackSummary], missing: Mapping[PartitionId, str]
) -> dict[PartitionId, str]:
    """Why each partition that some rack's sums need is not known: its bytes, or who serves it."""
    needed = dict.fromkeys(one for summary in summaries for one in summary.unreported)
    return {one: missing.get(one, "its leader did not say who serves it") for one in needed}


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
            "Name others with --topic. List them: " + Command("inspect leaders"),
        )
    return tuple(summary for summary in summaries if summary.local_percent < percent)
