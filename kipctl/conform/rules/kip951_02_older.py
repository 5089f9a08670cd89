"""951-2: a hint that is older than what is known is not followed."""

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Control, Refusal
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import EPOCH, NEW, OLD, pass_if, slow_metadata
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.probe.leadership import Leader

_LASTS_MS = 100.0


class Older(Rule):
    """For 100 ms broker 1, which has started anew and does not know of its replica yet, names a
    leader of the epoch before. Metadata takes half a second."""

    id = "951-2"
    title = "an older leader that is named is not asked"
    says = "A named leader counts only if its epoch is greater than the one that is known."
    why = "A broker that is behind sends clients back to where they came from."

    def __init__(self) -> None:
        self._first_ms: float | None = None

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if self._first_ms is None:
            self._first_ms = stage.ms
        # Of several batches in flight all are refused, or those behind are out of order.
        if attempt.broker != OLD or stage.ms >= self._first_ms + _LASTS_MS:
            return None
        return stage.hint(Leader(NEW, EPOCH - 1))

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        return slow_metadata(call)

    def judge(self, trace: Trace) -> Judgement:
        times = trace.count(2000, NEW)
        if not times and not any(seen.is_good for seen in trace.after):
            return Judgement(Status.NOT_REACHED, "It sent or read nothing afterwards.")
        seen = f"It asked broker {NEW} {counted(times, 'time')} within 2 s."
        return pass_if(not times, seen, trace.first_at(NEW))
