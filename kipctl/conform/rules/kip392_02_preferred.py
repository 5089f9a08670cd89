"""392-2: a reader goes to the replica that it is sent to."""

from kipctl.conform.rules.hints import asked_within
from kipctl.conform.rules.replicas import LATEST_MS, REPLICA, Preferred
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement


class ReadThere(Preferred):
    """A follower is in the reader's rack; the leader says so, and hands out no records."""

    id = "392-2"
    title = "it reads at once from the replica that it is sent to"
    says = "The consumer fetches from the preferred read replica that the leader names."
    why = "The leader hands out nothing: who asks it again waits."

    def judge(self, trace: Trace) -> Judgement:
        return asked_within(trace, REPLICA, trace.at_once_ms, LATEST_MS * trace.scale)
