"""951-6: Metadata that is behind does not undo a hint."""

from kipctl.conform.rules.hints import NEW, OLD, STALE_MS, Moved, pass_if
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted


class StaleMetadata(Moved):
    """Metadata shows the old leader in its old epoch, while the client has heard of the new one."""

    id = "951-6"
    needs = "951-1"
    title = "Metadata that is behind does not send it back"
    says = "A leader that was named is not overridden by Metadata of a lower epoch."
    why = "The client goes back to the old leader, and is refused again, until Metadata is right."

    def judge(self, trace: Trace) -> Judgement:
        asked, stale_ms = trace.metadata_ms, trace.ms_of_script(STALE_MS)
        first = trace.first_at(NEW)
        if first is None or first >= stale_ms or not any(ms < stale_ms for ms in asked):
            return Judgement(Status.NOT_REACHED, "It did not see both the hint and stale Metadata.")
        seen_ms = max(first, asked[0])
        back = [s.ms for s in trace.after if s.broker == OLD and s.ms > seen_ms]
        seen = f"It went back to broker {OLD} {counted(len(back), 'time')}."
        return pass_if(not back, seen, back[0] if back else first)
