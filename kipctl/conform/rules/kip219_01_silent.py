"""219-1: who is throttled is silent for so long."""

from types import MappingProxyType

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import pass_if
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.counts import counted

_THROTTLE_MS = 500
_IN_FLIGHT_MS = 150.0
"""Until then comes what had been sent before the answer, on a busy machine."""
_MOST_SCALE = 2.0
"""Beyond that nothing is left of the silence to look at."""


class Silent(Rule):
    """One good answer of broker 1 asks for 500 ms of silence."""

    id = "219-1"
    title = "a good answer that throttles silences it on that connection"
    says = "After an answer with a throttle time nothing is sent on that connection for so long."
    why = "The broker stops reading the connection: what is sent there waits, Metadata too."
    least = MappingProxyType({Role.PRODUCER: 6, Role.CONSUMER: 8})

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return bool(getattr(tried.call.response, "throttle_time_ms", 0))

    def __init__(self) -> None:
        self._has_throttled = False

    def prepare(self, stage: Stage) -> None:
        def throttle_ms(call: Exchange) -> int:
            if stage.began_us is None or self._has_throttled or stage.place not in call.tried:
                return 0
            self._has_throttled = True
            return _THROTTLE_MS

        stage.cluster.throttle_ms = throttle_ms

    def judge(self, trace: Trace) -> Judgement:
        if trace.scale > _MOST_SCALE:
            return Judgement(Status.NOT_REACHED, "This machine is too busy to tell.")
        sent = trace.sent_where_refused(_IN_FLIGHT_MS * trace.scale, _THROTTLE_MS)
        goes_on = any(s.ms >= _THROTTLE_MS for s in trace.after)
        after = "" if goes_on else ", and nothing afterwards"
        return pass_if(
            goes_on and not sent,
            f"It sent {counted(len(sent), 'request')} within {_THROTTLE_MS} ms{after}.",
            sent[0] if sent else None,
        )
