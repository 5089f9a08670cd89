"""951-13: a known leader that is named without its endpoint may be asked at once."""

from dataclasses import replace

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, NEXT_EPOCH, OLD, Moved
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.probe.leadership import Leader


class NoEndpoint(Moved):
    """As 951-1, without an endpoint. Broker 2 is known from Metadata."""

    id = "951-13"
    needs = "951-1"
    title = "a known leader that is named without its endpoint may be asked at once"
    says = "Endpoints are optional: a leader's id and epoch alone advance the client's view."
    why = "Proxies and some brokers leave endpoints out; the client then waits for Metadata."

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        return stage.hint(Leader(NEW, NEXT_EPOCH), False) if attempt.broker == OLD else None

    def judge(self, trace: Trace) -> Judgement:
        judged = super().judge(trace)
        # A client may do so, and need not: it is late then, not wrong.
        is_late = judged.status is Status.FAIL
        return replace(judged, status=Status.SLOW) if is_late else judged
