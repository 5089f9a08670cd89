"""951-16: hints come with FENCED_LEADER_EPOCH too."""

from types import MappingProxyType

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import HINTS, Stage
from kipctl.conform.rules.hints import NEW, NEXT_EPOCH, OLD, Moved
from kipctl.conform.verdict import Role
from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import ErrorCode


class Fenced(Moved):
    """As 951-1, with FENCED_LEADER_EPOCH. Brokers answer no Produce with it."""

    id = "951-16"
    title = "a leader that is named with FENCED_LEADER_EPOCH is asked at once"
    says = "A leader is named with NOT_LEADER_OR_FOLLOWER and with FENCED_LEADER_EPOCH."
    why = "A consumer that knows an older epoch waits for Metadata, though it was told the leader."
    least = MappingProxyType({Role.CONSUMER: HINTS[Role.CONSUMER]})

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != OLD:
            return None
        leader = Leader(NEW, NEXT_EPOCH)
        return Refusal(ErrorCode.FENCED_LEADER_EPOCH, leader, stage.cluster.nodes[NEW])
