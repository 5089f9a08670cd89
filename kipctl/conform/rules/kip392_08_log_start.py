"""392-8: who is behind what is left begins where the log begins."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Waiting
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import milliseconds, pass_if
from kipctl.conform.rules.replicas import LATEST_MS, REPLICA, Preferred
from kipctl.conform.trace import Seen, Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.protocol.error_codes import ErrorCode

_HOLDS_MS, _DELETES_MS = 500.0, 1200.0
_KEPT = 10
_WITHIN_MS = 2000.0
_MOST = 20


class LogStart(Preferred):
    """From 0.5 s on broker 3 holds a Fetch; at 1.2 s all records but 10 are deleted, and it says
    OFFSET_OUT_OF_RANGE.
    What it cannot know is the client's auto.offset.reset: it expects earliest. Who begins later, or
    leaves it to the application and asks no more (sarama), is NOT REACHED."""

    id = "392-8"
    title = "whose offset was deleted begins where the log begins"
    says = (
        "An offset that is too small needs no check of truncation: the consumer resets it, by"
        " auto.offset.reset."
    )
    why = "The reader is stuck, or loses records that are there."
    seconds = (_DELETES_MS + LATEST_MS) / 1000

    def __init__(self) -> None:
        self._is_deleted = False

    def arrange(self, stage: Stage) -> None:
        super().arrange(stage)
        if stage.ms >= _DELETES_MS and not self._is_deleted:
            self._is_deleted = True
            log = stage.cluster.log(stage.place)
            log.delete(log.end - _KEPT)

    def refuse(self, stage: Stage, attempt: Attempt) -> Waiting | None:
        return self._delayed(stage) if attempt.broker == REPLICA and stage.ms >= _HOLDS_MS else None

    def _delayed(self, stage: Stage) -> Waiting:
        while stage.ms < _DELETES_MS:
            yield
        return None

    def judge(self, trace: Trace) -> Judgement:
        refused = [s for s in trace.after if s.tried.error == ErrorCode.OFFSET_OUT_OF_RANGE]
        if not refused:
            return Judgement(Status.NOT_REACHED, f"Broker {REPLICA} refused it no offset.")
        good = (s for s in trace.after if s.ms > refused[0].ms and s.is_good)
        first = next(good, None)
        if trace.after[-1] is refused[-1] and len(refused) <= _MOST:
            return Judgement(Status.NOT_REACHED, "It asked for the partition no more.")
        if first is None or len(refused) > _MOST:
            seen = f"It was refused {counted(len(refused), 'time')}."
            return pass_if(False, seen, refused[-1].ms)
        ms, lost = first.ms - refused[0].ms, first.tried.offset - _log_start(first)
        seen = f"It went on {milliseconds(ms)} later, {counted(lost, 'record')} beyond the start."
        if lost:
            return Judgement(Status.NOT_REACHED, seen, first.ms)
        is_late = ms > _WITHIN_MS * trace.scale
        return Judgement(Status.SLOW if is_late else Status.PASS, seen, first.ms)


def _log_start(seen: Seen) -> int:
    """As the answer to a Fetch says."""
    answer = seen.tried.call.response
    starts = (
        p.log_start_offset
        for topic in getattr(answer, "responses", ())
        for p in topic.partitions
        if p.partition_index == seen.tried.partition
    )
    return next(starts, seen.tried.offset)
