"""392-3: no record is lost or read twice on the way to a replica."""

from itertools import pairwise

from kipctl.conform.rules.hints import pass_if
from kipctl.conform.rules.replicas import REPLICA, Preferred
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status


class Offsets(Preferred):
    """As 392-2; what counts is where the reader goes on."""

    id = "392-3"
    title = "it goes on where it was"
    says = "Which replica is read changes no position: replicas have the same offsets."
    why = "Records are lost, or read again."

    def judge(self, trace: Trace) -> Judgement:
        asked = trace.offsets
        first = next((s.tried.offset for s in trace.after if s.broker == REPLICA), None)
        if first is None:
            return Judgement(Status.NOT_REACHED, f"It never asked broker {REPLICA}.")
        if first != asked[0]:
            # The answer that names the replica hands out no records.
            return Judgement(Status.FAIL, f"It went on at offset {first:,}, not at {asked[0]:,}.")
        back = sum(later < offset for offset, later in pairwise(asked))
        return pass_if(not back, f"It went back {back} times in {len(asked)} Fetches.")
