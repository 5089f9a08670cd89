"""Guards: what must not be crossed, and when to pause, go on or give up. Pure rules.

    urp > 10
    under-min-isr > 0
    at-min-isr > 0
    offline > 0 for 5s
    metric kafka_server_replicamanager_underminisrpartitioncount > 0
    p99 > 50ms for 10s
    p99 > 1.5x and > 10ms
    moved-wait p50 > 20ms

`1.5x` is so many times what it was while nothing disturbed it: right before the change began.

What cannot be known counts as crossed: a guard that sees nothing guards nothing.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot
from kipctl.documents.common import GuardCondition, GuardSeen
from kipctl.errors import UsageError

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_TIME = r"(?P<{}>\d+(?:\.\d+)?)\s*(?P<{}_unit>ms|s|m|h)"
_COUNT = (
    rf"(?P<kind>urp|under-min-isr|at-min-isr|offline)\s*(?P<sign>[<>]=?)\s*(?P<limit>{_NUMBER})"
)
_METRIC = (
    r"(?P<kind>metric)\s+(?P<name>[a-zA-Z_:][\w:]*)\s*(?:\{(?P<labels>[^{}]*)\})?"
    rf"\s*(?P<sign>[<>]=?)\s*(?P<limit>{_NUMBER})"
)
_LATENCY = (
    r"(?:(?P<kind>moved-wait)\s+)?p(?P<share>\d{1,2}(?:\.\d+)?)\s*(?P<sign>>=?)\s*"
    + _TIME.format("limit", "limit")
)
_TIMES = (
    r"p(?P<share>\d{1,2}(?:\.\d+)?)\s*(?P<sign>>=?)\s*(?P<times>\d+(?:\.\d+)?)\s*x"
    r"(?:\s+and\s*>=?\s*" + _TIME.format("limit", "limit") + ")?"
)
_FOR = r"(?:\s+for\s+" + _TIME.format("held", "held") + ")?"
_SHAPES = tuple(re.compile(shape + _FOR, re.ASCII) for shape in (_COUNT, _METRIC, _LATENCY, _TIMES))
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"([^"]*)"\s*', re.ASCII)


class Kind(StrEnum):
    """What is looked at. Counts are of partitions; latencies are those of a probe, in seconds."""

    UNDER_REPLICATED = "urp"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"
    """Those that lack replicas, and have min.insync.replicas in sync, or fewer. Kafka's metric
    AtMinIsrPartitionCount counts what lacks none, too, and not what has fewer."""
    OFFLINE = "offline"
    METRIC = "metric"
    LATENCY = "latency"
    MOVED_WAIT = "moved-wait"

    @property
    def is_of_partitions(self) -> bool:
        return self in (
            Kind.UNDER_REPLICATED,
            Kind.UNDER_MIN_ISR,
            Kind.AT_MIN_ISR,
            Kind.OFFLINE,
        )

    @property
    def takes_min_insync(self) -> bool:
        """Whether min.insync.replicas has to be known."""
        return self in (Kind.UNDER_MIN_ISR, Kind.AT_MIN_ISR)

    @property
    def takes_reassignments(self) -> bool:
        """Whether replicas that are being added have to be known."""
        return self in (Kind.UNDER_REPLICATED, Kind.AT_MIN_ISR)

    @property
    def is_measured_by_canary(self) -> bool:
        """Whether a probe has to measure it."""
        return self in (Kind.LATENCY, Kind.MOVED_WAIT)


@dataclass(frozen=True, slots=True)
class Condition:
    """One guard. It is crossed once the comparison has been true for `held_s` seconds.

    `name` and `labels` are a metric's; `percentile` that of a latency. Where there are `times`, it
    is compared with so many times what it was undisturbed, and has to be beyond `limit` as well.
    """

    text: str
    kind: Kind
    sign: str
    limit: float
    held_s: float = 0.0
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    percentile: float = 0.0
    times: float = 0.0

    def limit_above(self, undisturbed: float | None) -> float | None:
        """What a value is compared with; None where that takes what is undisturbed, and it is not
        known."""
        if not self.times:
            return self.limit
        return None if undisturbed is None else max(self.limit, self.times * undisturbed)

    def is_true_of(self, value: float | None, undisturbed: float | None = None) -> bool:
        """Whether the value is beyond the limit; one that is not known is."""
        limit = self.limit_above(undisturbed)
        return value is None or limit is None or _COMPARE[self.sign](value, limit)


def require_metrics(conditions: Iterable[Condition], urls: Collection[str]) -> None:
    """Raise UsageError for metrics of which nobody says where they are."""
    metrics = [condition for condition in conditions if condition.kind is Kind.METRIC]
    if metrics and not urls:
        raise UsageError(
            f"--guard {metrics[0].text!r} would see nothing: where metrics are is not known.",
            "Give --metrics-url for each broker.",
        )


def parse_guard(text: str) -> Condition:
    """A condition such as `urp > 10` or `p99 > 50ms for 10s`. Raises UsageError."""
    words = " ".join(text.split())
    for shape in _SHAPES:
        match = shape.fullmatch(words)
        if match is None:
            continue
        parts = match.groupdict()
        held_s = _seconds(parts["held"], parts["held_unit"]) if parts["held"] else 0.0
        if "share" in parts:
            times = float(parts.get("times") or 0.0)
            if "times" in parts and times <= 1:
                raise UsageError(
                    f"{text!r} is crossed while nothing disturbs it.", "Write more: p99 > 1.5x."
                )
            return Condition(
                words,
                Kind.MOVED_WAIT if parts.get("kind") else Kind.LATENCY,
                parts["sign"],
                _seconds(parts["limit"], parts["limit_unit"]) if parts["limit"] else 0.0,
                held_s,
                percentile=float(parts["share"]),
                times=times,
            )
        return Condition(
            words,
            Kind(parts["kind"]),
            parts["sign"],
            float(parts["limit"]),
            held_s,
            parts.get("name") or "",
            _labels(parts.get("labels") or "", text),
        )
    raise UsageError(
        f"{text!r} is no guard.",
        "Write urp > 10, under-min-isr > 0, at-min-isr > 0, offline > 0, metric NAME > 5,"
        " p99 > 50ms, p99 > 1.5x or moved-wait p50 > 20ms; each may end with: for 10s.",
    )


def _seconds(number: str, unit: str) -> float:
    return float(number) * _SECONDS[unit]


def _labels(text: str, guard: str) -> tuple[tuple[str, str], ...]:
    labels = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _LABEL.fullmatch(part)
        if match is None:
            raise UsageError(f"{guard!r}: {part!r} is no label.", 'Write it as name="value".')
        labels.append((match[1], match[2]))
    return tuple(labels)


def count_partitions(
    kind: Kind,
    snapshot: Snapshot,
    min_insync: Mapping[str, int | None],
    away: int | None = None,
    adding: Mapping[PartitionId, Collection[int]] | None = None,
) -> int | None:
    """How many partitions are so; None where min.insync.replicas of one is asked for and not known.

    What lacks the broker `away` alone, which is being restarted, is as well as it can be: its state
    before and after counts, and that the plan has accepted.

    Replicas that a reassignment is `adding` are not missed before they are there, as brokers count
    it (`Partition.isUnderReplicated`, since Kafka 2.5).
    """
    count = 0
    for partition in snapshot.partitions:
        isr = frozenset(partition.isr) | (frozenset(partition.replicas) & {away})
        added = frozenset((adding or {}).get(partition.id, ()))
        is_behind = not frozenset(partition.replicas) - added <= isr
        least = min_insync.get(partition.id.topic)
        if least is None and kind.takes_min_insync:
            return None
        match kind:
            case Kind.UNDER_REPLICATED:
                count += is_behind
            case Kind.UNDER_MIN_ISR:
                count += least is not None and len(isr) < least
            case Kind.AT_MIN_ISR:
                count += is_behind and least is not None and len(isr) <= least
            case Kind.OFFLINE:
                count += partition.leader == NO_LEADER and not (
                    away in partition.replicas and set(partition.isr) <= {away}
                )
            case _:
                raise ValueError(f"{kind} is no count of partitions")
    return count


class Verdict(StrEnum):
    """What a guard says now."""

    GO = "go"
    PAUSE = "pause"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True)
class Gauge:
    """A condition, and what was seen of it. Times are seconds on the caller's clock.

    `worst` is the value farthest towards the limit, or beyond it, first seen `worst_at` (ISO 8601,
    as the caller says; "" where none was); `looks` counts values,
    `unknown` those that could not be had. `undisturbed` is what it was before the change began,
    where the condition asks for it.
    """

    condition: Condition
    true_since: float | None = None
    is_crossed: bool = False
    crossings: int = 0
    last: float | None = None
    worst: float | None = None
    worst_at: str = ""
    looks: int = 0
    unknown: int = 0
    undisturbed: float | None = None

    def observe(self, value: float | None, now: float, wall_time: str) -> "Gauge":
        """The gauge with this value seen at that time."""
        is_true = self.condition.is_true_of(value, self.undisturbed)
        since = (now if self.true_since is None else self.true_since) if is_true else None
        is_crossed = since is not None and now - since >= self.condition.held_s
        is_worse = operator.gt if self.condition.sign.startswith(">") else operator.lt
        is_worst = value is not None and (self.worst is None or is_worse(value, self.worst))
        return replace(
            self,
            true_since=since,
            is_crossed=is_crossed,
            crossings=self.crossings + (is_crossed and not self.is_crossed),
            last=value,
            worst=value if is_worst else self.worst,
            worst_at=wall_time if is_worst else self.worst_at,
            looks=self.looks + 1,
            unknown=self.unknown + (value is None),
        )

    def __str__(self) -> str:
        now = f"now {format_value(self.condition, self.last)}"
        if self.undisturbed is not None:
            now += f", undisturbed {format_value(self.condition, self.undisturbed)}"
        return f"{self.condition.text} ({now})"

    def as_document(self) -> GuardCondition:
        """For JSON; latencies are seconds."""
        return {
            "condition": self.condition.text,
            "last": self.last,
            "worst": self.worst,
            "worst_at": self.worst_at or None,
            "looks": self.looks,
            "looks_without_value": self.unknown,
            "crossed": self.crossings,
            "undisturbed": self.undisturbed,
        }


def format_value(condition: Condition, value: float | None) -> str:
    """A value as a person reads it."""
    if value is None:
        return "not known"
    return f"{value * 1000:.1f} ms" if condition.kind.is_measured_by_canary else f"{value:g}"


@dataclass(frozen=True, slots=True)
class Guard:
    """All conditions together.

    Any that is crossed pauses what is guarded. It goes on after `quiet_s` seconds in which none
    was, and is given up when one is still, or again, crossed `patience_s` seconds after the pause
    began.
    """

    gauges: tuple[Gauge, ...] = ()
    patience_s: float = 600.0
    quiet_s: float = 30.0
    paused_since: float | None = None
    quiet_since: float | None = None
    is_given_up: bool = False
    pauses: int = 0
    paused_s: float = 0.0
    """Seconds of the pauses that have ended."""

    @classmethod
    def of(
        cls,
        conditions: Iterable[Condition],
        patience_s: float,
        quiet_s: float,
        undisturbed: Mapping[str, float] = MappingProxyType({}),
    ) -> "Guard":
        """Before anything was seen; `undisturbed` is what is known of that already, in seconds, by
        the text of its condition."""
        guard = cls(tuple(map(Gauge, conditions)), patience_s, quiet_s)
        return guard.with_undisturbed(undisturbed)

    def with_undisturbed(self, values: Mapping[str, float]) -> "Guard":
        """With what is undisturbed, for the conditions that ask for it, and do not know it."""
        return replace(
            self,
            gauges=tuple(
                replace(gauge, undisturbed=values.get(gauge.condition.text))
                if gauge.condition.times and gauge.undisturbed is None
                else gauge
                for gauge in self.gauges
            ),
        )

    @property
    def to_compare(self) -> tuple[Condition, ...]:
        """The conditions for which it is still to be measured what is undisturbed."""
        conditions = (gauge.condition for gauge in self.gauges if gauge.undisturbed is None)
        return tuple(condition for condition in conditions if condition.times)

    @property
    def undisturbed(self) -> dict[str, float]:
        """What is known of it, in seconds, by the text of the condition."""
        known = {gauge.condition.text: gauge.undisturbed for gauge in self.gauges}
        return {text: seconds for text, seconds in known.items() if seconds is not None}

    @property
    def measured_by_canary(self) -> tuple[Condition, ...]:
        """The conditions that a probe has to measure."""
        conditions = (gauge.condition for gauge in self.gauges)
        return tuple(condition for condition in conditions if condition.kind.is_measured_by_canary)

    @property
    def verdict(self) -> Verdict:
        if self.is_given_up:
            return Verdict.GIVE_UP
        return Verdict.GO if self.paused_since is None else Verdict.PAUSE

    @property
    def crossed(self) -> tuple[Gauge, ...]:
        return tuple(gauge for gauge in self.gauges if gauge.is_crossed)

    def observe(
        self, values: Mapping[str, float | None], now: float, wall_time: str = ""
    ) -> "Guard":
        """The guard after a look: values by the text of their condition; None is not known.

        Conditions that are not in `values` were not looked at, and stay as they are.
        """
        seen = replace(
            self,
            gauges=tuple(
                gauge.observe(values[gauge.condition.text], now, wall_time)
                if gauge.condition.text in values
                else gauge
                for gauge in self.gauges
            ),
        )
        if seen.crossed:
            began = now if self.paused_since is None else self.paused_since
            return replace(
                seen,
                paused_since=began,
                quiet_since=None,
                pauses=self.pauses + (self.paused_since is None),
                is_given_up=self.is_given_up or now - began >= self.patience_s,
            )
        if self.paused_since is None or self.is_given_up:
            return seen
        quiet_since = now if self.quiet_since is None else self.quiet_since
        if now - quiet_since >= self.quiet_s:
            return replace(
                seen,
                paused_since=None,
                quiet_since=None,
                paused_s=self.paused_s + now - self.paused_since,
            )
        return replace(seen, quiet_since=quiet_since)

    def __str__(self) -> str:
        """Why it pauses, in a few words."""
        if self.crossed:
            return "the guard is crossed: " + ", ".join(map(str, self.crossed))
        return "the guard was crossed; it has to be quiet for a while"

    def as_document(self) -> GuardSeen:
        """For JSON."""
        return {
            "conditions": [gauge.as_document() for gauge in self.gauges],
            "pauses": self.pauses,
            "paused_seconds": round(self.paused_s, 1),
            "is_given_up": self.is_given_up,
        }
