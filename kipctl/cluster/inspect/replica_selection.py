"""Which replica a consumer in a rack reads from, and why: the rules of KIP-392, as pure functions.

The rules are those of Kafka's `ReplicaManager.findPreferredReadReplica` and of its
`RackAwareReplicaSelector`. A broker's own answer is what counts; these foresee and explain it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kipctl.cluster.snapshot import NO_LEADER, PartitionId
from kipctl.counts import counted

NO_SELECTOR = ""
"""The value of `replica.selector.class` where it is not set: consumers read from the leader."""

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Reason(StrEnum):
    """Why a consumer reads from where it reads."""

    LEADER_IN_RACK = "the leader is in the rack"
    FOLLOWER_IN_RACK = "a follower in the rack"
    SILENT = "the broker that was named does not answer"
    NO_LEADER = "no leader"
    NOT_ANSWERED = "the leader gave no answer"
    UNKNOWN_RACK = "the cluster has no such rack"
    NO_REPLICA = "no replica in the rack"
    NO_SELECTOR = "no replica.selector.class on the leader's broker"
    OFFLINE = "the replica in the rack is offline"
    OUT_OF_SYNC = "the replica in the rack is not in sync"
    BEHIND = "the replica in the rack does not reach the offset"
    STARTS_LATER = "the log of the replica in the rack starts after the offset"
    OTHER_SELECTOR = "another replica.selector.class chose so"
    UNFORESEEN = "the broker chose otherwise than its rules say"


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica and its log; offsets are None where its broker did not report them."""

    broker: int
    rack: str | None
    in_sync: bool
    online: bool = True
    log_start: int | None = None
    log_end: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """All that decides where a partition is read from.

    `offset` is the one asked for: the high watermark, where a consumer that has caught up stands.
    `selector` is the leader's `replica.selector.class`, None where its broker did not report it.
    """

    id: PartitionId
    leader: int
    selector: str | None
    offset: int | None
    replicas: tuple[Replica, ...]

    def replica(self, broker: int) -> Replica | None:
        """This broker's replica, if it has one."""
        return next((r for r in self.replicas if r.broker == broker), None)

    def in_rack(self, rack: str) -> tuple[Replica, ...]:
        """The replicas in a rack."""
        return tuple(r for r in self.replicas if r.rack == rack)

    @property
    def leader_rack(self) -> str | None:
        leader = self.replica(self.leader)
        return leader.rack if leader else None

    def records_behind(self, replica: Replica) -> int | None:
        """How many records the replica's log is shorter than the leader's; None when not known."""
        leader = self.replica(self.leader)
        if leader is None or leader.log_end is None or replica.log_end is None:
            return None
        return max(0, leader.log_end - replica.log_end)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the leader said to a Fetch with a rack: the broker to read from, or what failed."""

    reads_from: int | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A rule, the facts that it looked at, and the brokers that are left after it."""

    rule: str
    facts: str
    left: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Where consumers in `rack` read a partition; `expected` are the brokers the rules allow.

    `expected` is empty when the rules cannot tell. `closest` is False when a replica in the rack
    is passed over.
    """

    id: PartitionId
    rack: str
    leader: int
    leader_rack: str | None
    reads_from: int | None
    reads_from_rack: str | None
    closest: bool
    reason: Reason
    detail: str
    expected: tuple[int, ...]

    @property
    def local(self) -> bool:
        return self.reason in (Reason.LEADER_IN_RACK, Reason.FOLLOWER_IN_RACK)

    @property
    def as_expected(self) -> bool | None:
        """Whether the broker did as the rules say; None where they cannot tell."""
        if not self.expected or self.reads_from is None:
            return None
        return self.reads_from in self.expected

    @property
    def why(self) -> str:
        """The reason, with what is to be said about it."""
        return f"{self.reason}: {self.detail}" if self.detail else str(self.reason)


def apply_rules(facts: PartitionFacts, rack: str) -> tuple[Step, ...]:
    """The rules one by one, until one broker is left, or none when they cannot tell.

    Several are left only where nothing else distinguishes them: the broker then takes the one that
    was caught up last, by a clock of its own, and of those the highest id.
    """
    return tuple(_steps(facts, rack))


def _steps(facts: PartitionFacts, rack: str) -> Iterator[Step]:
    leader, left = facts.leader, facts.replicas
    if leader == NO_LEADER:
        yield Step("the leader chooses", "there is no leader", ())
        return
    yield Step("the leader chooses", f"leader {leader} in {facts.leader_rack}", _ids(left))
    selector = f"replica.selector.class of broker {leader}"
    if facts.selector == NO_SELECTOR:
        yield Step(f"{selector}; without it, the leader", "not set", (leader,))
        return
    if facts.selector != RACK_AWARE:
        yield Step(f"{selector}; its rules are its own", facts.selector or "not known", ())
        return
    yield Step(selector, RACK_AWARE.rpartition(".")[2], _ids(left))
    ends = "log ends: " + _reported(facts, lambda r: _number(r.log_end))
    starts = "log starts: " + _reported(facts, lambda r: _number(r.log_start))
    rules: tuple[tuple[str, str, Callable[[Replica], bool]], ...] = (
        (
            "the leader, and replicas in sync",
            _reported(facts, lambda r: "in sync" if r.in_sync else "not in sync"),
            lambda r: r.in_sync,
        ),
        (
            "the log reaches the offset",
            f"offset {facts.offset}; {ends}",
            lambda r: _reaches(r, facts.offset),
        ),
        (
            "the log starts at or before the offset",
            f"offset {facts.offset}; {starts}",
            lambda r: _starts_before(r, facts.offset),
        ),
    )
    for rule, reported, holds in rules:
        left = tuple(r for r in left if r.broker == leader or holds(r))
        yield Step(rule, reported, _ids(left))
        if len(left) < 2:
            return
    left = tuple(r for r in left if r.rack == rack)
    reported = _reported(facts, lambda r: r.rack or "no rack")
    if not left:
        yield Step(f"in {rack}; without any, the leader", reported, (leader,))
        return
    yield Step(f"in {rack}", reported, _ids(left))
    if len(left) < 2:
        return
    if leader in _ids(left):
        yield Step("the leader, where it is in the rack", f"leader {leader} in {rack}", (leader,))
        return
    longest = max(-1 if r.log_end is None else r.log_end for r in left)
    left = tuple(r for r in left if r.log_end is None or r.log_end == longest)
    yield Step("the longest log", ends, _ids(left))
    if len(left) > 1:
        unknown = "when a replica was caught up is known to the leader alone"
        yield Step("the one caught up last, then the highest id", unknown, _ids(left))


def explain_choice(
    facts: PartitionFacts,
    rack: str,
    answer: Answer,
    racks: Collection[str],
    silent: Collection[int] = (),
) -> Choice:
    """Where consumers in a rack read, and why; `silent` brokers do not answer.

    The reason is the first rule that kept them from a replica in their rack.
    """
    serving = None if answer.reads_from is None else facts.replica(answer.reads_from)
    expected = apply_rules(facts, rack)[-1].left
    reason, detail = _reason(facts, rack, answer, racks, silent, expected)
    served_there = serving is not None and serving.rack == rack and reason is not Reason.SILENT
    return Choice(
        id=facts.id,
        rack=rack,
        leader=facts.leader,
        leader_rack=facts.leader_rack,
        reads_from=answer.reads_from,
        reads_from_rack=serving.rack if serving else None,
        closest=served_there or (answer.reads_from is not None and not facts.in_rack(rack)),
        reason=reason,
        detail=detail,
        expected=expected,
    )


def _reason(
    facts: PartitionFacts,
    rack: str,
    answer: Answer,
    racks: Collection[str],
    silent: Collection[int],
    expected: tuple[int, ...],
) -> tuple[Reason, str]:
    there, leader = facts.in_rack(rack), facts.leader
    if leader == NO_LEADER:
        return Reason.NO_LEADER, ""
    if answer.reads_from is None:
        return Reason.NOT_ANSWERED, answer.error
    if answer.reads_from in _ids(there):
        if answer.reads_from in silent:
            return Reason.SILENT, f"broker {answer.reads_from}"
        if answer.reads_from == leader:
            return Reason.LEADER_IN_RACK, ""
        return Reason.FOLLOWER_IN_RACK, ""
    if rack not in racks:
        return Reason.UNKNOWN_RACK, f"it has {', '.join(sorted(racks))}{_unreported(facts)}"
    if not there:
        return Reason.NO_REPLICA, _unreported(facts).removeprefix("; ")
    if facts.selector == NO_SELECTOR:
        return Reason.NO_SELECTOR, f"broker {leader}"
    if not any(r.online for r in there):
        return Reason.OFFLINE, _brokers(there)
    if not any(r.in_sync for r in there):
        return Reason.OUT_OF_SYNC, "; ".join(_lag(facts, r, silent) for r in there if r.online)
    if facts.selector != RACK_AWARE:
        return Reason.OTHER_SELECTOR, facts.selector or f"broker {leader} did not report which"
    in_sync = tuple(r for r in there if r.in_sync)
    if not any(_reaches(r, facts.offset) for r in in_sync):
        return Reason.BEHIND, "; ".join(_lag(facts, r, silent) for r in in_sync)
    if not any(_starts_before(r, facts.offset) for r in in_sync):
        return Reason.STARTS_LATER, _brokers(in_sync)
    said = " or ".join(map(str, expected)) or "nothing"
    return Reason.UNFORESEEN, f"they say broker {said}, if its followers have fetched yet"


def _unreported(facts: PartitionFacts) -> str:
    """Replicas of unknown rack: before Kafka 4.0 brokers report those of live brokers only."""
    unreported = tuple(r for r in facts.replicas if r.rack is None and not r.online)
    return f"; the rack of {_brokers(unreported)}, offline, is not known" if unreported else ""


def _lag(facts: PartitionFacts, replica: Replica, silent: Collection[int]) -> str:
    behind = facts.records_behind(replica)
    if behind is not None:
        return f"broker {replica.broker} is {counted(behind, 'record')} behind"
    missing = replica.broker if replica.log_end is None else facts.leader
    because = "does not answer" if missing in silent else "does not report its log end"
    return f"broker {missing} {because}, so how far behind is not known"


@dataclass(frozen=True, slots=True)
class Flip:
    """A change of where a partition is read from, seen between two looks."""

    id: PartitionId
    rack: str
    before: int | None
    after: int | None
    why: str


def flips(before: Iterable[Choice], after: Iterable[Choice]) -> tuple[Flip, ...]:
    """What changed; a partition that is new, or gone, is no change."""
    old: Mapping[tuple[PartitionId, str], Choice] = {(c.id, c.rack): c for c in before}
    changes = []
    for now in after:
        was = old.get((now.id, now.rack))
        if was is None or (was.reads_from == now.reads_from and was.local == now.local):
            continue
        moved = "" if was.leader == now.leader else f"leader {was.leader} -> {now.leader}; "
        changes.append(Flip(now.id, now.rack, was.reads_from, now.reads_from, moved + now.why))
    return tuple(changes)


def _reaches(replica: Replica, offset: int | None) -> bool:
    return offset is None or replica.log_end is None or replica.log_end >= offset


def _starts_before(replica: Replica, offset: int | None) -> bool:
    return offset is None or replica.log_start is None or replica.log_start <= offset


def _ids(replicas: Iterable[Replica]) -> tuple[int, ...]:
    return tuple(r.broker for r in replicas)


def _brokers(replicas: Iterable[Replica]) -> str:
    return ", ".join(f"broker {r.broker}" for r in replicas)


def _number(offset: int | None) -> str:
    return "not known" if offset is None else str(offset)


def _reported(facts: PartitionFacts, tell: Callable[[Replica], str]) -> str:
    return ", ".join(f"{r.broker} {tell(r)}" for r in facts.replicas)
