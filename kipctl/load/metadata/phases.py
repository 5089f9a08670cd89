"""What a client does to its topics, phase by phase, and what is known of its Metadata: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kipctl.documents.runs import Growth, LatencyAndSum, MetadataPhase
from kipctl.load.metadata.plan import Phase
from kipctl.measure.distribution import distribution_of
from kipctl.probe.produce.config import LEAST_IDLE_MS
from kipctl.probe.produce.many_topics import Segment
from kipctl.trace.codes import MetadataCause

RENEWED_MS = 2_000
"""`metadata.max.age.ms` where a phase is about renewal: what takes minutes, in seconds."""
CAUSES = tuple(cause.name.lower() for cause in MetadataCause)


@dataclass(frozen=True, slots=True)
class PhaseLoad:
    """How a phase goes, with its own `metadata.max.age.ms` and `metadata.max.idle.ms`.

    None is what the client is configured to.
    """

    phase: Phase
    segments: tuple[Segment, ...]
    max_age_ms: int | None = None
    max_idle_ms: int | None = None


def phase_loads(
    phases: Sequence[Phase], topics: int, rate: float, seconds: float
) -> tuple[PhaseLoad, ...]:
    """The loads of these phases, in their order, for so many topics (2 or more).

    Startup is always the first. `rate` is in records per second, `seconds` the length of a phase
    that could last for any time.
    """
    every = range(topics)
    busy = range(max(1, topics // 10))
    for_a_while = Segment(every, max(1, round(rate * seconds)), rate)
    idle_s = (LEAST_IDLE_MS + 3 * RENEWED_MS) / 1000  # two renewals come after the eviction
    known = {
        Phase.STARTUP: PhaseLoad(Phase.STARTUP, (Segment(every, topics, rate),)),
        Phase.STEADY: PhaseLoad(Phase.STEADY, (for_a_while,), RENEWED_MS),
        Phase.LEADER_CHANGES: PhaseLoad(Phase.LEADER_CHANGES, (for_a_while,)),
        Phase.IDLE_RETURN: PhaseLoad(
            Phase.IDLE_RETURN,
            (
                Segment(busy, max(1, round(rate * idle_s)), rate),
                Segment(range(len(busy), topics), topics - len(busy), rate),
            ),
            RENEWED_MS,
            LEAST_IDLE_MS,
        ),
    }
    return tuple(known[phase] for phase in Phase if phase in {Phase.STARTUP, *phases})


@dataclass(frozen=True, slots=True)
class Rpc:
    """A Metadata request and its answer; None is what the client does not report.

    `cause` is the name of a MetadataCause. Bytes are of whole frames, `us` is from sent to
    received.
    """

    cause: str | None
    topics: int | None
    request_bytes: int | None
    response_bytes: int | None
    us: int | None


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """What a client did in a phase. Times are microseconds, from a record's intended send time."""

    records: int
    failed: int
    seconds: float
    latencies_us: Sequence[int]
    waits_us: Sequence[int] | None
    """Of each record that waited for Metadata; None where the client does not report."""
    rpcs: Sequence[Rpc]
    errors: Mapping[str, int] = field(default_factory=dict)
    """How many of the records failed for what, by Kafka's names, where the client reports it."""


def phase_document(phase: Phase, result: PhaseResult, brokers_counted: int | None) -> MetadataPhase:
    """A phase as JSON has it. `brokers_counted` are the Metadata requests that brokers counted."""
    rpcs = result.rpcs
    causes = [rpc.cause for rpc in rpcs]
    by_cause: dict[str, int] = {c: causes.count(c) for c in CAUSES if c in causes}
    if None in causes:
        by_cause["unknown"] = causes.count(None)
    return {
        "phase": str(phase),
        "records": result.records,
        "failed": result.failed,
        "errors": dict(result.errors),
        "seconds": round(result.seconds, 3),
        "requests": len(rpcs),
        "brokers_counted": brokers_counted,
        "by_cause": by_cause,
        "topics_asked": _sum([rpc.topics for rpc in rpcs]),
        "most_topics_asked": max((rpc.topics for rpc in rpcs if rpc.topics is not None), default=0),
        "request_bytes": _sum([rpc.request_bytes for rpc in rpcs]),
        "response_bytes": _sum([rpc.response_bytes for rpc in rpcs]),
        "request_ms": spread_ms([rpc.us for rpc in rpcs if rpc.us is not None]),
        "waited_records": None if result.waits_us is None else len(result.waits_us),
        "waited_ms": None if result.waits_us is None else spread_ms(result.waits_us),
        "latency_ms": spread_ms(result.latencies_us),
    }


def growth(result: PhaseResult) -> list[Growth]:
    """Requests of a phase for new topics: the first, and those at each tenth of them."""
    new = [r for r in result.rpcs if r.cause == MetadataCause.NEW_TOPIC.name.lower()]
    numbers = sorted({1, *(len(new) * tenth // 10 for tenth in range(1, 11))} - {0})
    return [
        {
            "number": number,
            "topic_count": rpc.topics,
            "request_bytes": rpc.request_bytes,
            "response_bytes": rpc.response_bytes,
            "duration_ms": None if rpc.us is None else rpc.us / 1000,
        }
        for number in numbers
        if number <= len(new)
        for rpc in [new[number - 1]]
    ]


def spread_ms(times_us: Sequence[int]) -> LatencyAndSum | None:
    """mean, p50, p95, p99, p999, max and sum in milliseconds; None for no times."""
    if not times_us:
        return None
    values = np.array(times_us, dtype=np.int64)
    return {**distribution_of(values).as_ms(), "sum": int(values.sum()) / 1000}


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Their sum; None when one is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
