"""What rules about reading from the closest replica share (KIP-392)."""

from types import MappingProxyType

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import MOST_A_SECOND, most_in_a_second
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status

LEADER, REPLICA = 1, 3
RACK = "c"
"""That of the replica, and of the reader."""
PREFERRED_SINCE = 11
LATEST_MS = 6000.0
"""Clients that look every 5 s (kafkajs), or keep to a least age of Metadata (5 s in franz-go), come
late, not never."""


class Preferred(Rule):
    """The leader sends the reader to broker 3, a follower in its rack, which has all records."""

    least = MappingProxyType({Role.CONSUMER: PREFERRED_SINCE})

    seconds = LATEST_MS / 1000 + 1
    needs_rack = True

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return tried.preferred >= 0

    def arrange(self, stage: Stage) -> None:
        stage.cluster.followers.add((stage.place, REPLICA))

    def judged(self, trace: Trace) -> Judgement:
        version = trace.version
        if version is not None and version >= PREFERRED_SINCE and trace.start_us is None:
            return Judgement(Status.NOT_REACHED, f"It says no rack ({RACK} in {{rack}}).")
        return super().judged(trace)


def hot_loop(trace: Trace) -> Judgement | None:
    """FAIL where it asked the replica again and again, though that refused or hung up."""
    asked = trace.refused_ms(REPLICA)
    most = most_in_a_second(asked)
    if most <= MOST_A_SECOND:
        return None
    seen = f"It asked broker {REPLICA} {most:,} times within 1 s, which refused each time."
    return Judgement(Status.FAIL, seen, asked[-1])
