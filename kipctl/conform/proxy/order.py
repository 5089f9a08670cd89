"""Claims about many requests at a time: each gets its own answer, in turn."""

from kipctl.conform.cluster import Delay
from kipctl.conform.proxy.claim import Claim, failures
from kipctl.conform.proxy.passage import differences
from kipctl.conform.proxy.requests import find_coordinator, metadata, produce
from kipctl.conform.proxy.session import Session
from kipctl.conform.verdict import Outcome, judged
from kipctl.protocol.find_coordinator import FindCoordinatorRequest
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.produce import ProduceRequest

_SLOW_US = 200_000


def _is_group(path: str) -> bool:
    return path.endswith(".key")


class Order(Claim):
    """Eight requests are sent on one connection before the first is answered, which takes 200 ms;
    half of them ask for groups whose names come back.
    """

    id = "proxy-order"
    title = "answers come in the order of the requests, each with its correlation id"
    says = "A connection's requests are answered in order, each with the id that it came with."
    why = "A client takes one answer for another, or drops the connection."
    least = ((MetadataRequest, 0), (FindCoordinatorRequest, 4))

    def play(self, session: Session) -> Outcome:
        version = session.version_of(FindCoordinatorRequest)
        groups = (find_coordinator(version, f"group-{number}") for number in range(4))
        requests = [asked for group in groups for asked in (group, metadata())]
        passages = session.ask_all(requests, slow=Delay(_SLOW_US))
        problems = failures(passages)
        for passage in passages:
            if passage.failure:
                continue
            if passage.came_correlation_id != passage.correlation_id:
                problems.append(
                    f"{passage.name}: request {passage.correlation_id} gets the answer to"
                    f" {passage.came_correlation_id}"
                )
            elif passage.sent and passage.came:
                lines = differences(passage.sent, passage.came, _is_group)
                problems += [f"{passage.name}: {line}" for line in lines]
        return judged(problems, f"{len(passages)} answers came in order.")


class NoAnswer(Claim):
    """A Produce with acks=0, which gets no answer, then Metadata on the same connection."""

    id = "proxy-acks-0"
    title = "a Produce with acks=0 is not waited for"
    says = "With acks=0 the broker sends no answer."
    why = "A proxy that waits for it takes the next answer for it: all that follow are wrong."
    least = ((ProduceRequest, 0), (MetadataRequest, 0))

    def play(self, session: Session) -> Outcome:
        unanswered, *passages = session.ask_all([produce((0,), acks=0), metadata()])
        problems = failures(passages)
        if unanswered.arrived is None:
            problems.append(f"{unanswered.name} does not arrive")
        for passage in passages:
            if not passage.failure and passage.came_correlation_id != passage.correlation_id:
                problems.append(
                    f"{passage.name}: request {passage.correlation_id} gets the answer to"
                    f" {passage.came_correlation_id}"
                )
        return judged(problems, "What follows it is answered.")
