"""392-7: a replica is read for a while, and then the leader is asked again."""

from kipctl.conform.rules.hints import milliseconds, pass_if
from kipctl.conform.rules.replicas import LEADER, REPLICA, Preferred
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status

_STAYS_MS = 4000.0
_MOST_FLIPS = 3
_IN_FLIGHT_MS = 150.0


class Lease(Preferred):
    """As 392-2, for longer than the metadata.max.age.ms (5 s) that the reader is told.
    What it cannot know is how long a client wants to stay: librdkafka does for 5 minutes, whatever
    its settings are. Who does not come back in time is SLOW."""

    id = "392-7"
    title = "a replica is read for metadata.max.age.ms, and then the leader is asked again"
    says = "The leader is asked anew from time to time: Java's lease is metadata.max.age.ms."
    why = (
        "Who goes to and fro reads nothing half of the time (IBM/sarama#2071); who never comes back"
        " does not hear of a nearer replica."
    )
    seconds = 8.0
    metadata_ms = 5_000

    def judge(self, trace: Trace) -> Judgement:
        if trace.first_at(REPLICA) is None:
            return Judgement(Status.NOT_REACHED, f"It never asked broker {REPLICA}.")
        back = [s.ms for s in trace.after if s.broker == LEADER and s.ms > _IN_FLIGHT_MS]
        flips = sum(ms < _STAYS_MS for ms in back)
        if flips > _MOST_FLIPS:
            return pass_if(False, f"It went back to the leader {flips} times in 4 s.", back[0])
        if not back:
            return Judgement(Status.SLOW, "It did not ask the leader again within 8 s.")
        return pass_if(True, f"It asked the leader again after {milliseconds(back[-1])}.", back[-1])
