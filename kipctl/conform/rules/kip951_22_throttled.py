"""951-22: who is throttled where it was refused goes to the new leader all the same."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import EPOCH, NEW, NEXT_EPOCH, OLD, Moved, first_request
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import ErrorCode

_THROTTLE_MS = 500
_IN_FLIGHT_MS = 150.0
"""Until then comes what had been sent before the answer, on a busy machine."""
_MOST_SCALE = 2.0
"""Beyond that nothing is left of the silence to look at."""


class Throttled(Moved):
    """As 951-1, and broker 1, which leads another partition still, asks for 500 ms of silence."""

    id = "951-22"
    needs = "951-1"
    title = "a refusal that throttles silences it there, and nowhere else"
    says = (
        "After an answer with a throttle time (KIP-219) nothing is sent to that broker for so long."
    )
    partitions = 2
    why = "The broker stops reading the connection: what is sent there waits, Metadata too."

    def prepare(self, stage: Stage) -> None:
        stage.cluster.move((stage.place[0], 1), Leader(OLD, EPOCH))

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != OLD:
            return None
        leader, at = Leader(NEW, NEXT_EPOCH), stage.cluster.nodes[NEW]
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader, at, _THROTTLE_MS)

    def judge(self, trace: Trace) -> Judgement:
        if trace.scale > _MOST_SCALE:
            return Judgement(Status.NOT_REACHED, "This machine is too busy to tell.")
        sent = trace.sent_where_refused(_IN_FLIGHT_MS * trace.scale, _THROTTLE_MS)
        if sent:
            seen = f"It sent broker {OLD} {counted(len(sent), 'request')} within {_THROTTLE_MS} ms."
            return Judgement(Status.FAIL, seen, sent[0])
        return first_request(trace, NEW)
