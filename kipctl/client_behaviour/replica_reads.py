"""What a consumer does with the replicas that leaders name to it (KIP-392): rules, an answer at a
time. All times are microseconds of one clock."""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kipctl.client_behaviour.episode import AT_ONCE_US
from kipctl.client_behaviour.facts import Event
from kipctl.client_behaviour.in_a_row import AGAIN
from kipctl.protocol.error_codes import ErrorCode

FLIPS_US = 60_000_000
"""Consumers ask the leader again once in `metadata.max.age.ms`, 5 minutes unless less is set."""
RECHECK_US = 30_000_000
_NOBODY = -1
_NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Answer(NamedTuple):
    """What a Fetch was answered for one partition. `preferred` is the replica that is named, -1 if
    none is; `next_offset` is the one after the last record, `offset` itself if there was none."""

    broker: int
    sent_us: int
    at_us: int
    preferred: int
    error: int
    offset: int
    next_offset: int


@dataclass(slots=True)
class _Partition:
    named: int = _NOBODY
    by: int = _NOBODY
    named_us: int = 0
    was_read: bool = False
    """From the replica that is named, since."""
    erred: bool = False
    """The replica that is named answered an error, since: the leader is to be asked."""
    ignored: int = 0
    sent_to_us: deque[int] = field(default_factory=lambda: deque(maxlen=AGAIN + 1))
    """When it was sent to a replica that it had read from, and left."""
    refuser: int = _NOBODY
    refused_us: int = 0
    kept: int = 0
    reader: int = _NOBODY
    read_us: int = 0
    next_offset: int = 0


@dataclass(slots=True)
class ReplicaReads:
    """Of one client: the partitions of which a leader named a replica."""

    _partitions: dict[Hashable, _Partition] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def answered(self, partition: Hashable, answer: Answer) -> Iterator[Event]:
        """Signs that an answer is, given those before it."""
        state = self._partitions.get(partition)
        if state is None:
            if answer.preferred < 0:
                return
            state = self._partitions[partition] = _Partition()
        yield from _stays_at_refuser(state, answer)
        if answer.preferred >= 0:
            yield from _named(state, answer)
        elif answer.broker == state.named:
            state.was_read |= not answer.error
            state.erred |= answer.error != 0
        if not answer.error and answer.next_offset > answer.offset >= 0:
            is_other = state.reader not in (_NOBODY, answer.broker)
            is_soon = answer.at_us - state.read_us < RECHECK_US
            if is_other and is_soon and answer.offset < state.next_offset:
                yield Event.READ_TWICE
            state.reader, state.read_us = answer.broker, answer.at_us
            state.next_offset = answer.next_offset


def _stays_at_refuser(state: _Partition, answer: Answer) -> Iterator[Event]:
    """A replica that says that it is none any more is to be left."""
    if answer.error != _NOT_LEADER or answer.broker != state.named:
        if answer.broker == state.refuser or answer.broker == state.by:
            state.refuser, state.kept = _NOBODY, 0
    elif state.refuser != answer.broker:
        state.refuser, state.refused_us, state.kept = answer.broker, answer.at_us, 0
    elif answer.sent_us >= state.refused_us:
        state.kept += 1
        if state.kept > AGAIN:
            state.kept = 0
            yield Event.REPLICA_KEPT


def _named(state: _Partition, answer: Answer) -> Iterator[Event]:
    """The leader names a replica."""
    is_same = (state.named, state.by) == (answer.preferred, answer.broker)
    asked_after_us = answer.sent_us - state.named_us
    if state.was_read and not state.erred:
        state.sent_to_us.append(answer.at_us)
        is_full = len(state.sent_to_us) > AGAIN
        if is_full and answer.at_us - state.sent_to_us[0] < FLIPS_US:
            state.sent_to_us.clear()
            yield Event.REPLICA_FLIP
    if state.was_read or state.erred or not is_same or asked_after_us >= AT_ONCE_US:
        state.ignored = 0
    elif asked_after_us >= 0:  # what was sent before was under way
        state.ignored += 1
        if state.ignored > AGAIN:
            state.ignored = 0
            yield Event.REPLICA_IGNORED
    state.named, state.by, state.named_us = answer.preferred, answer.broker, answer.at_us
    state.was_read = state.erred = False
