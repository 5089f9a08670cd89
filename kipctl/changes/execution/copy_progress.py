"""How far copying has come: what new replicas hold against their leaders, how fast, how long yet.

A new replica's log grows from nothing to what the leader has at that moment. Both are asked for
with DescribeLogDirs, of the brokers that give and take, for the partitions under way alone; and
so rarely that asking takes a twentieth of the time at most.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.plans.plan import Move, Plan
from kipctl.changes.throttle import format_rate
from kipctl.changes.throttle_settings import read_settings
from kipctl.cluster.log_dirs import reported_sizes, sizes_request
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot
from kipctl.cluster.throttle_configs import BROKER, RATES, Setting
from kipctl.counts import counted, format_bytes, format_duration, unit_of
from kipctl.errors import KipctlError, RefusedError
from kipctl.progress import ProgressText
from kipctl.transport.request import Cluster

SHARE_OF_TIME = 0.05
"""Of the time that goes by, what may be spent on asking."""
ASK_AGAIN_S = 60.0
"""A broker that was away is not asked for so long; one that refuses is not asked again."""


@dataclass(frozen=True, slots=True)
class CopySample:
    """What is copied at `time_s` (of a monotonic clock), and what will be, in bytes.

    Of the broker with the most to take, or to give as a leader: `busiest` is what it has still to,
    `most` what it has in all.
    """

    time_s: float
    copied: int
    whole: int
    busiest: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class CopyResult:
    """Of a change that has ended: bytes of new replicas as expected, bytes that they got, and
    seconds from the first request until the last of them was in sync."""

    expected_bytes: int
    copied: int
    seconds: float

    def document(self) -> dict[str, float]:
        """As `--output json` prints it."""
        return {
            "expected_bytes": self.expected_bytes,
            "copied_bytes": self.copied,
            "seconds": self.seconds,
        }


def bytes_per_s(seen: Sequence[CopySample]) -> float:
    """How fast the later half of the time copied; 0 while that is not known. A pure function."""
    if len(seen) < 2:
        return 0.0
    last = seen[-1]
    half_s = (seen[0].time_s + last.time_s) / 2
    earlier = (sample for sample in seen[:-1] if sample.time_s <= half_s)
    since = max(earlier, key=lambda sample: sample.time_s)
    passed_s = last.time_s - since.time_s
    return max(0, last.copied - since.copied) / passed_s if passed_s > 0 else 0.0


def seconds_left(seen: Sequence[CopySample], throttle: int | None = None) -> float | None:
    """How long copying still takes at the rate of late; None while nothing is known of that.

    With a throttle, in bytes per second in and out of each broker, it takes at least as long as the
    busiest broker needs. What the throttle lets through at once at first is no gain: Kafka keeps it
    over a window (`replication.quota.window.num` seconds), and nothing goes through until the mean
    is right again. A pure function.
    """
    if not seen:
        return None
    last, rate = seen[-1], bytes_per_s(seen)
    left = max(0, last.whole - last.copied)
    if not left:
        return 0.0
    passed_s = last.time_s - seen[0].time_s
    at_least = max(last.busiest / throttle, last.most / throttle - passed_s) if throttle else 0.0
    if not rate:
        return at_least or None
    return max(left / rate, at_least)


def copied_so_far(seen: Sequence[CopySample], throttle: int | None = None) -> str:
    """How far it has come, as `Copied 1.2 of 5.0 GB, 48 MB/s, 1 min 20 s left`."""
    last, rate, left_s = seen[-1], bytes_per_s(seen), seconds_left(seen, throttle)
    unit, size = unit_of(last.whole)
    digits = 0 if size == 1 else 1
    line = f"Copied {last.copied / size:.{digits}f} of {last.whole / size:.{digits}f} {unit}"
    if rate:
        unit, size = unit_of(rate)
        line += f", {rate / size:.3g} {unit}/s"
    return line + (f", {format_duration(left_s)} left" if left_s is not None else "")


@dataclass(slots=True)
class CopyTracker:
    """The copying of a plan, from before it is submitted to its end.

    A broker that does not answer counts as it last did.
    """

    cluster: Cluster
    plan: Plan
    throttle: int | None = None
    progress: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    seen: list[CopySample] = field(default_factory=list)
    expected_bytes: int = 0
    _sizes: dict[PartitionId, int] = field(default_factory=dict)
    """What each new replica will hold, as far as is known."""
    _held: dict[tuple[PartitionId, int], int] = field(default_factory=dict)
    _moves: dict[PartitionId, Move] = field(default_factory=dict)
    _under_way: dict[PartitionId, Move] = field(default_factory=dict)
    _silent: dict[int, float] = field(default_factory=dict)
    """Brokers that did not report, and from when on they are asked again."""
    _interval: ReportInterval = field(default_factory=ReportInterval)
    _arrived: set[PartitionId] = field(default_factory=set)
    _other_rates: dict[Setting, str | None] = field(default_factory=dict)
    """What others have set, as last seen."""
    _said_rates: dict[Setting, str | None] = field(default_factory=dict)
    _moved_s: float | None = None
    _looked_s: float = 0.0

    @property
    def knows_sizes(self) -> bool:
        """Whether brokers tell of any partition how large it is."""
        return bool(self._sizes)

    def stalled_until(self, patience_s: float) -> float:
        """When it is to be given up (of the clock), as it has stood still for so many seconds.

        It moves when a new replica is seen to have grown, or a partition arrives. What was not
        looked at is not known to stand still: until the next look there is always time. Negative
        infinity while nothing has been copied.
        """
        if self._moved_s is None:
            return float("-inf")
        if not self._under_way:
            return self._moved_s + patience_s
        return self.clock() + patience_s - max(0.0, self._looked_s - self._moved_s)

    def begin(self, *, is_under_way: bool = False) -> None:
        """Ask how much there is to copy, before anything is submitted; or while it is copied."""
        self._moves = {move.id: move for move in self.plan.moves if move.adding}
        self._ask(self._moves.values(), with_new=is_under_way)
        self._note()
        self.expected_bytes = self.seen[-1].whole
        self._interval.is_due(self.clock())

    def leave_out(self, partitions: Iterable[PartitionId]) -> None:
        """These are not copied after all."""
        for partition in partitions:
            self._moves.pop(partition, None)

    def submitted(self, plan: Plan) -> None:
        """These are copied from now on."""
        these = {move.id: move for move in plan.moves if move.id in self._moves}
        if these:
            self._moved_s = self.clock()
        self._under_way |= these

    def look(self, unfinished: Collection[PartitionId]) -> None:
        """Ask how far those are that are under way, if it is time, or if all have ended."""
        ended = self._under_way.keys() - frozenset(unfinished)
        is_over = bool(self._under_way) and len(ended) == len(self._under_way)
        began_s = self.clock()
        if ended - self._arrived:
            self._arrived |= ended
            self._moved_s = began_s
        is_due = self._interval.is_due(began_s)
        if not self._under_way or not (is_due or is_over):
            return
        self._ask(self._under_way.values())
        for id in ended:
            self._under_way.pop(id)
            held = [self._held.get((id, broker), 0) for broker in self._moves[id].adding]
            self._sizes[id] = max(held) or self._sizes.get(id, 0)
            for broker in self._moves[id].adding:
                self._held[id, broker] = self._sizes[id]
        self._note()
        if self.throttle is not None and not is_over:
            self._say_other_rates(str(self.throttle))
        now_s = self.clock()
        self._interval.rest(now_s, (now_s - began_s) / SHARE_OF_TIME)
        if self.expected_bytes and not is_over:
            text, last = copied_so_far(self.seen, self.throttle), self.seen[-1]
            self.progress(ProgressText(text, last.copied, last.whole, shows_time_left=True))

    def _say_other_rates(self, own: str) -> None:
        """Say where somebody else has set another rate: seen twice, as a broker may not have heard
        yet of what was set."""
        moves = self._under_way.values()
        brokers = {broker for move in moves for broker in (move.leader, *move.adding)}
        alive = sorted(brokers & set(self.cluster.nodes))
        try:
            now = read_settings(
                self.cluster, [Setting(BROKER, str(b), config) for b in alive for config in RATES]
            )
        except KipctlError:
            return
        other = {setting: value for setting, value in now.items() if value != own}
        twice = [
            setting
            for setting, value in other.items()
            if self._other_rates.get(setting, own) == value != self._said_rates.get(setting, own)
        ]
        self._other_rates = other
        self._said_rates |= {setting: other[setting] for setting in twice}
        if twice:
            more = f", and so {len(twice) - 1} more" if twice[1:] else ""
            self.progress(
                f"Somebody else has set {twice[0]} to {format_rate(other[twice[0]])}{more}:"
                " it holds for what is copied here"
            )

    def outcome(self, seconds: float) -> CopyResult:
        """The bytes expected and copied."""
        return CopyResult(self.expected_bytes, self.seen[-1].copied, seconds)

    def _ask(self, moves: Iterable[Move], *, with_new: bool = True) -> None:
        at: dict[int, set[PartitionId]] = defaultdict(set)
        asked = tuple(moves)
        for move in asked:
            for broker in (move.leader, *(move.adding if with_new else ())):
                at[broker].add(move.id)
        sizes = {
            broker: self._sizes_at(broker, ids)
            for broker, ids in sorted(at.items())
            if broker != NO_LEADER and self._silent.get(broker, 0.0) <= self.clock()
        }
        has_grown = False
        for move in asked:
            size = sizes.get(move.leader, {}).get(move.id)
            if size is not None:
                self._sizes[move.id] = size
            for broker in move.adding:
                before = self._held.get((move.id, broker), 0)
                held = sizes.get(broker, {}).get(move.id, before)
                self._held[move.id, broker] = held
                has_grown = has_grown or held > before
        self._looked_s = self.clock()
        if has_grown:
            self._moved_s = self._looked_s

    def _sizes_at(self, broker: int, ids: Collection[PartitionId]) -> Mapping[PartitionId, int]:
        try:
            answer = self.cluster.broker(broker).request(sizes_request(ids))
            return reported_sizes(broker, answer)[0]
        except RefusedError:
            self._silent[broker] = float("inf")
            return {}
        except KipctlError:
            self._silent[broker] = self.clock() + ASK_AGAIN_S
            return {}

    def _note(self) -> None:
        """Add up what is known."""
        copied = whole = 0
        coming, going = Counter[int](), Counter[int]()
        all_coming, all_going = Counter[int](), Counter[int]()
        for partition_id, move in self._moves.items():
            size = self._sizes.get(partition_id, 0)
            for broker in move.adding:
                held = min(self._held.get((partition_id, broker), 0), size)
                copied += held
                whole += size
                coming[broker] += size - held
                going[move.leader] += size - held
                all_coming[broker] += size
                all_going[move.leader] += size
        busiest = max((*coming.values(), *going.values()), default=0)
        most = max((*all_coming.values(), *all_going.values()), default=0)
        self.seen.append(CopySample(self.clock(), copied, whole, busiest, most))


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
        self._trackers = {b: tracker for b, tracker in self._trackers.items() if b in behind}
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
        replicas = sum(broker in partition.replicas for partition in snapshot.partitions)
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
                id,
                tuple(replica for replica in there[id].replicas if replica != broker),
                there[id].replicas,
                there[id].leader,
            )
            for id in ids
        )
    )
