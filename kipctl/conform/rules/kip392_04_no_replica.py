"""392-4 to 392-6: who cannot read from a replica any more goes back to the leader."""

from math import inf
from typing import ClassVar

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Control, Cut, Refusal
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import milliseconds
from kipctl.conform.rules.replicas import LATEST_MS, LEADER, REPLICA, Preferred, hot_loop
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode

_READS_MS = 1000.0
_WITHIN_MS = 1500.0


class NoReplica(Preferred):
    """Broker 3 was read for 1 s, and refuses with NOT_LEADER_OR_FOLLOWER; the leader names it no
    more. Who asks it again before 50 ms are over, each time, is in a hot loop: that fails."""

    id = "392-4"
    title = "a replica that refuses is left"
    says = "After an error of the preferred read replica the consumer goes back to the leader."
    why = "A reader that stays gets nothing until its Metadata is old (KAFKA-14379)."
    seconds = (LATEST_MS + _READS_MS + LATEST_MS) / 1000
    error: ClassVar[int] = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __init__(self) -> None:
        self._until_ms = inf

    def arrange(self, stage: Stage) -> None:
        super().arrange(stage)
        stage.cluster.names_followers = stage.ms < self._until_ms

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != REPLICA:
            return None
        self._until_ms = min(self._until_ms, stage.ms + _READS_MS)
        return self.refusal(stage) if stage.ms >= self._until_ms else None

    def refusal(self, stage: Stage) -> Refusal | None:
        """What broker 3 says when it has been read long enough."""
        return Refusal(self.error)

    def judge(self, trace: Trace) -> Judgement:
        at_replica = [s.ms for s in trace.after if s.broker == REPLICA]
        if not at_replica:
            return Judgement(Status.NOT_REACHED, f"It never asked broker {REPLICA}.")
        refused = (s.ms for s in trace.after if s.broker == REPLICA and s.tried.error)
        left_ms = next(refused, at_replica[-1])
        good = (
            s.ms
            for s in trace.after
            if s.broker == LEADER and s.is_good and s.tried.preferred < 0 and s.ms >= left_ms
        )
        ms = next(good, None)
        if looped := hot_loop(trace):
            return looped
        if ms is None:
            return Judgement(Status.FAIL, "The leader served it never.")
        seen = f"The leader served it after {milliseconds(ms - left_ms)}."
        is_late = ms - left_ms >= _WITHIN_MS * trace.scale
        return Judgement(Status.SLOW if is_late else Status.PASS, seen, ms)


class OutOfRange(NoReplica):
    """As 392-4, with OFFSET_OUT_OF_RANGE."""

    id = "392-5"
    title = "an offset that a replica has not got is asked of the leader"
    says = "OFFSET_OUT_OF_RANGE of a follower is checked with the leader before any reset."
    why = "The reader starts anew, or loses records, though the leader has the offset."
    error = ErrorCode.OFFSET_OUT_OF_RANGE

    def judge(self, trace: Trace) -> Judgement:
        refused = next((s for s in trace.after if s.broker == REPLICA and s.tried.error), None)
        if refused is not None:
            later = (s for s in trace.after if s.broker == LEADER and s.ms > refused.ms)
            first = next((s for s in later if s.is_good), refused)
            if (offset := first.tried.offset) != refused.tried.offset:
                seen = f"It went on at offset {offset:,}, not at {refused.tried.offset:,}."
                return Judgement(Status.FAIL, seen, first.ms)
        return super().judge(trace)


class DeadReplica(NoReplica):
    """As 392-4, but broker 3, which Metadata has still, hangs up on every Fetch."""

    id = "392-6"
    title = "a replica that is gone is left"
    says = "Who cannot reach the preferred read replica goes back to the leader."
    why = "A reader that stays gets nothing while the broker is away."

    def refusal(self, stage: Stage) -> Refusal | None:
        return None

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        is_there = call.api == ApiKey.FETCH and call.broker == REPLICA
        return Cut() if is_there and stage.ms >= self._until_ms else None
