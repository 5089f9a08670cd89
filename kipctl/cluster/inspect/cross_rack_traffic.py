"""How much is read from each partition, and how much of that crosses racks, for whom, at what cost.

Each rack's readers are taken to read every partition once: as much as is written to it.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kipctl.cluster.inspect.replica_selection import Choice, PartitionFacts, Reason
from kipctl.cluster.inspect.replica_selection_facts import Observation, observe
from kipctl.cluster.log_dirs import reported_sizes, sizes_request
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot, take_snapshot
from kipctl.errors import KipctlError, PartlyDoneError, ThresholdError, UsageError
from kipctl.next_step import Command
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

N = TypeVar("N", int, float)


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
        return {partition: sample.size for partition, sample in self.known.items()}


@dataclass(frozen=True, slots=True)
class Crossing:
    """What crosses racks: bytes per second, None without rates, and the share of what is read."""

    bytes_per_s: float | None
    percent: float | None


@dataclass(frozen=True, slots=True)
class RackSummary:
    """How readers in one rack fare.

    `held_bytes` and `bytes_per_s` are of the partitions that have a leader, all of them and those
    that another rack serves (`cross_...`), as brokers name it to readers that set `client.rack`.
    Readers that name no rack read `from_leaders`. `from_closest` is where replicas are, whatever
    brokers name: it takes a `replica.selector.class` on them. Per second only where rates were
    measured. A sum is None when a summand is not known. Percent are of the bytes per second, or,
    without rates, of those held. `unreported` are the partitions whose bytes it lacks.
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
    from_leaders: Crossing
    from_closest: Crossing
    unreported: tuple[PartitionId, ...] = ()

    @property
    def local_percent(self) -> float:
        return 100 * self.local / max(1, self.partitions)


def samples(
    cluster: Cluster, facts: Iterable[PartitionFacts], silent: Mapping[int, KipctlError]
) -> Samples:
    """The leaders' logs now, as DescribeLogDirs shows them; `silent` brokers are not asked."""
    by_leader: dict[int, list[PartitionFacts]] = {}
    for partition in facts:
        by_leader.setdefault(partition.leader, []).append(partition)
    known: dict[PartitionId, Sample] = {}
    missing: dict[PartitionId, str] = {}
    for leader, led in by_leader.items():
        if leader == NO_LEADER:
            missing |= {partition.id: "no leader" for partition in led}
            continue
        if leader in silent:
            missing |= {partition.id: silent[leader].what for partition in led}
            continue
        sizes, why = _sizes(cluster, leader, [partition.id for partition in led])
        time_us = now_us()
        for partition in led:
            log = partition.replica(leader)
            if partition.id not in sizes:
                missing[partition.id] = why
            elif log is None or log.log_start is None or log.log_end is None:
                missing[partition.id] = (
                    f"broker {leader} did not report where the log starts and ends"
                )
            else:
                known[partition.id] = Sample(
                    time_us, sizes[partition.id], log.log_start, log.log_end
                )
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
    known = {
        partition: bytes_per_s(before.known[partition], sample)
        for partition, sample in after.known.items()
        if partition in before.known
    }
    missing = {**before.missing, **after.missing}
    return known, {partition: why for partition, why in missing.items() if partition not in known}


def summarize(
    choices: Iterable[Choice],
    facts: Iterable[PartitionFacts],
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
    racks_of = {partition.id: {r.rack for r in partition.replicas} for partition in facts}
    measured = held if rates is None else rates

    def crossing(ids: Sequence[PartitionId], read: Sequence[PartitionId]) -> Crossing:
        rate = None if rates is None else _sum(ids, rates)
        return Crossing(rate, _percent(_sum(ids, measured), _sum(read, measured)))

    summaries = []
    for rack, chosen in by_rack.items():
        led = [c for c in chosen if c.reason is not Reason.NO_LEADER]
        unsaid = {c.id for c in led if c.reads_from is None}
        read = [c.id for c in led]
        cross = [c.id for c in led if c.reads_from_rack != rack]
        named = Crossing(None, None) if unsaid else crossing(cross, read)
        summaries.append(
            RackSummary(
                rack=rack,
                partitions=len(chosen),
                local=sum(c.local for c in chosen),
                closest=sum(c.closest for c in chosen),
                held_bytes=_sum(read, held),
                cross_held_bytes=None if unsaid else _sum(cross, held),
                bytes_per_s=None if rates is None else _sum(read, rates),
                cross_bytes_per_s=named.bytes_per_s,
                cross_percent=named.percent,
                from_leaders=crossing([c.id for c in led if c.leader_rack != rack], read),
                from_closest=crossing([id for id in read if rack not in racks_of[id]], read),
                unreported=tuple(id for id in read if id in unsaid or id not in measured),
            )
        )
    return tuple(summaries)


def _sum(ids: Sequence[PartitionId], amounts: Mapping[PartitionId, N]) -> N | None:
    """The sum of these amounts; None when one of them is not known."""
    if any(id not in amounts for id in ids):
        return None
    return sum(amounts[id] for id in ids)


def _percent(part: float | None, whole: float | None) -> float | None:
    return 100 * (part / whole) if part is not None and whole else None


def unreported(
    summaries: Iterable[RackSummary], missing: Mapping[PartitionId, str]
) -> dict[PartitionId, str]:
    """Why each partition that some rack's sums need is not known: its bytes, or who serves it."""
    needed = dict.fromkeys(id for summary in summaries for id in summary.unreported)
    return {id: missing.get(id, "its leader did not say who serves it") for id in needed}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was `observation`, how each rack's readers fare then, and why some bytes are not known.

    `amounts` are the bytes that partitions hold, or the bytes per second where they were measured.
    """

    observation: Observation
    summaries: tuple[RackSummary, ...]
    not_known: Mapping[PartitionId, str]
    amounts: Mapping[PartitionId, float]


def by_size(cluster: Cluster, observation: Observation) -> Traffic:
    """By how much the partitions hold. Raises what `samples` does."""
    before = samples(cluster, observation.facts, observation.silent)
    summaries = summarize(observation.choices, observation.facts, before.held)
    return Traffic(observation, summaries, unreported(summaries, before.missing), before.held)


def by_rate(
    cluster: Cluster,
    wanted: Snapshot,
    racks: Sequence[str],
    observation: Observation,
    over_s: float,
) -> Traffic:
    """By how much is written to them, and by a second look, after so many seconds.

    Raises what `observe` does.
    """
    before = samples(cluster, observation.facts, observation.silent)
    time.sleep(over_s)
    now = take_snapshot(cluster, wanted.topics).only(p.id for p in wanted.partitions)
    observation = observe(cluster, now, racks)
    after = samples(cluster, observation.facts, observation.silent)
    per_second, missing = rates(before, after)
    summaries = summarize(observation.choices, observation.facts, after.held, per_second)
    return Traffic(observation, summaries, unreported(summaries, missing), per_second)


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


def too_few_local(
    failed: Sequence[RackSummary], percent: float, choices: Sequence[Choice]
) -> ThresholdError:
    """The error about racks that serve fewer than so many percent to their readers."""
    reported = ", ".join(f"{s.rack} {s.local} of {s.partitions}" for s in failed)
    astray = next(
        choice for choice in choices if choice.rack == failed[0].rack and not choice.local
    )
    see = Command("inspect replica-selection", explain=str(astray.id), client_rack=astray.rack)
    return ThresholdError(
        f"Fewer than {percent:g} % of the partitions are read within the rack: {reported}.",
        "See why: " + see,
    )


def require_rates(not_known: Mapping[PartitionId, str]) -> None:
    """Raise PartlyDoneError for partitions of which it is not known how much is written to them."""
    if not_known:
        first, why = next(iter(not_known.items()))
        raise PartlyDoneError(
            f"How much is written to {len(not_known)} of the partitions is not known:"
            f" {first}: {why.removesuffix('.')}.",
            "Sums that need them are left out; the others are shown.",
        )
