"""951-16: hints come with FENCED_LEADER_EPOCH too."""

from types import MappingProxyType

from kipctl.conform.rule import HINTS
from kipctl.conform.rules.hints import Moved
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.protocol.error_codes import ErrorCode


class Fenced(Moved):
    """As 951-1, but broker 1 follows broker 2 now, as after an election. It looks at the leader
    epoch in a Fetch first, and refuses with FENCED_LEADER_EPOCH. Who says none (-1) is refused as
    in 951-1, and producers say none: they are N/A."""

    id = "951-16"
    needs = "951-1"
    title = "a leader that is named with FENCED_LEADER_EPOCH is asked at once"
    says = "A leader is named with NOT_LEADER_OR_FOLLOWER and with FENCED_LEADER_EPOCH."
    why = "A consumer that knows an older epoch waits for Metadata, though it was told the leader."
    least = MappingProxyType({Role.CONSUMER: HINTS[Role.CONSUMER]})
    is_given_away = False

    def judge(self, trace: Trace) -> Judgement:
        if not any(s.tried.error == ErrorCode.FENCED_LEADER_EPOCH for s in trace.refused):
            seen = "It says no leader epoch, so that no broker fences it."
            return Judgement(Status.NOT_APPLICABLE, seen)
        return super().judge(trace)
