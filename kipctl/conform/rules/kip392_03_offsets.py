"""392-3: no record is lost or read twice on the way to a replica."""

from itertools import pairwise

from kipctl.conform.rules.hints import pass_if
from kipctl.conform.rules.replicas import REPLICA, Preferred
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted


class Offsets(Preferred):
    """As 392-2; what counts is where the reader goes on."""

    id = "392-3"
    title = "it goes on where it was"
    says = "Which replica is read changes no position: replicas have the same offsets."
    why = "Records are lost, or read again."

    def judge(self, trace: Trace) -> Judgement:
        asked = trace.offsets
        first = next((s for s in trace.after if s.broker == REPLICA), None)
        if first is None:
            return Judgement(Status.NOT_REACHED, f"It never asked broker {REPLICA}.")
        if (offset := first.tried.offset) != asked[0]:
            # The answer that names the replica hands out no records.
            seen = f"It went on at offset {offset:,}, not at {asked[0]:,}."
            return Judgement(Status.FAIL, seen, first.ms)
        back = [
            later.ms for s, later in pairwise(trace.after) if later.tried.offset < s.tried.offset
        ]
        seen = f"It went back {counted(len(back), 'time')} in {counted(len(asked), 'Fetch')}."
        return pass_if(not back, seen, back[0] if back else first.ms)
