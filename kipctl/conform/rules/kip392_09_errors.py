"""392-9 and 392-10: what a replica may refuse with, and what comes of it."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEXT_EPOCH, milliseconds, pass_if
from kipctl.conform.rules.replicas import LATEST_MS, LEADER, REPLICA, Preferred, hot_loop
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import ErrorCode, error_name

_FIRST_MS = 1000.0
_EACH_MS, _REFUSES_MS = 1500.0, 800.0


class Errors(Preferred):
    """Every 1.5 s broker 3 refuses for 800 ms, with another error each time; so long the leader
    names it no more. The last time broker 1 is elected anew: both refuse a consumer that says the
    epoch before with FENCED_LEADER_EPOCH, and nobody else."""

    id = "392-9"
    title = "a replica that refuses is left, whatever it says"
    says = "After an error of the preferred read replica the consumer goes back to the leader."
    why = "A reader that stays gets nothing; one that begins anew reads twice."
    errors: tuple[int, ...] = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    )
    seconds = (_FIRST_MS + 3 * _EACH_MS + LATEST_MS) / 1000

    def arrange(self, stage: Stage) -> None:
        super().arrange(stage)
        error = self._error(stage.ms)
        stage.cluster.names_followers = error is None
        if error == ErrorCode.FENCED_LEADER_EPOCH:
            stage.cluster.move(stage.place, Leader(LEADER, NEXT_EPOCH))

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        error = self._error(stage.ms)
        is_said = attempt.broker == REPLICA and error != ErrorCode.FENCED_LEADER_EPOCH
        return Refusal(error) if error is not None and is_said else None

    def _error(self, ms: float) -> int | None:
        """That of the moment."""
        number, since_ms = divmod(ms - _FIRST_MS, _EACH_MS)
        is_due = 0 <= number < len(self.errors) and since_ms < _REFUSES_MS
        return self.errors[int(number)] if is_due else None

    def judge(self, trace: Trace) -> Judgement:
        refused = {s.tried.error: s for s in reversed(trace.after) if s.tried.error in self.errors}
        if not refused:
            return Judgement(Status.NOT_REACHED, f"Broker {REPLICA} refused it nothing.")
        if looped := hot_loop(trace):
            return looped
        seen = f"Of {counted(len(refused), 'error')}"
        worst = Judgement(Status.PASS, f"{seen} each sent it to the leader.")
        for error, first in refused.items():
            name = error_name(error or 0)
            good = next((s for s in trace.after if s.ms > first.ms and s.is_good), None)
            if good is None or good.tried.offset != first.tried.offset:
                went = "nowhere" if good is None else f"at offset {good.tried.offset:,}"
                return Judgement(
                    Status.FAIL,
                    f"After {name} at offset {first.tried.offset:,} it went on {went}.",
                    first.ms if good is None else good.ms,
                )
            if good.broker != LEADER or good.ms - first.ms >= _REFUSES_MS:
                seen = f"After {name} it was served by broker {good.broker}, "
                seen += f"{milliseconds(good.ms - first.ms)} later."
                worst = Judgement(Status.SLOW, seen, good.ms)
        return worst


class NotAvailable(Errors):
    """After 1 s broker 3 refuses with OFFSET_NOT_AVAILABLE for 800 ms, and the leader names it no
    more for so long. It may be asked again, or the leader. Redpanda's followers say so, as the KIP
    has it (redpanda-data/redpanda#31581); Apache Kafka's say OFFSET_OUT_OF_RANGE instead, which is
    392-5, and OFFSET_NOT_AVAILABLE to ListOffsets alone."""

    id = "392-10"
    title = "an offset that a replica has not got yet is asked for again"
    says = "Who is told OFFSET_NOT_AVAILABLE by a follower, which is behind, tries again (KIP-392)."
    why = "Who takes it for out of range begins anew; who retries at once asks in a hot loop."
    errors = (ErrorCode.OFFSET_NOT_AVAILABLE,)
    seconds = (_FIRST_MS + LATEST_MS) / 1000
    within_ms = 1500.0

    def judge(self, trace: Trace) -> Judgement:
        refused = [s for s in trace.after if s.tried.error in self.errors]
        if not refused:
            return Judgement(Status.NOT_REACHED, f"Broker {REPLICA} refused it nothing.")
        good = (s for s in trace.after if s.ms > refused[0].ms and s.is_good)
        first = next(good, None)
        times = counted(len(refused), "time")
        if first is None:
            seen = f"It was refused {times}, and read nothing more."
            return pass_if(False, seen, refused[-1].ms)
        if looped := hot_loop(trace):
            return looped
        ms, offset = first.ms - refused[0].ms, refused[0].tried.offset
        seen = (
            f"It was refused {times} at offset {offset:,}, and went on at "
            f"{first.tried.offset:,} {milliseconds(ms)} later."
        )
        if first.tried.offset != offset:
            return Judgement(Status.FAIL, seen, first.ms)
        is_late = ms >= self.within_ms * trace.scale
        return Judgement(Status.SLOW if is_late else Status.PASS, seen, first.ms)
