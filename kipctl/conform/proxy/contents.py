"""Claims about all that is no endpoint: it comes through as it was sent."""

from collections.abc import Callable, Sequence
from typing import Any

from kipctl.conform.proxy.claim import Claim, failures
from kipctl.conform.proxy.passage import Passage, differences, is_content, is_hint, is_tag
from kipctl.conform.proxy.requests import fetch, find_coordinator, metadata, produce
from kipctl.conform.proxy.session import Session
from kipctl.conform.verdict import Outcome, Status, judged, outcome
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.find_coordinator import FindCoordinatorRequest
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.message import Request
from kipctl.protocol.produce import ProduceRequest

_NO_LEADER = -1


def _everything(session: Session) -> list[Passage]:
    """A request of each API that it offers, in a version that both know."""
    version = session.version_of(FindCoordinatorRequest)
    requests: Sequence[Request[Any]] = (
        metadata(),
        produce(),
        fetch(),
        find_coordinator(version),
        DescribeClusterRequest(),
        InitProducerIdRequest(),
    )
    offered = [request for request in requests if session.version_of(type(request)) is not None]
    return [session.ask(request) for request in offered]


def _changed_answers(passages: Sequence[Passage], is_compared: Callable[[str], bool]) -> list[str]:
    return [
        f"{passage.name}: {line}"
        for passage in passages
        if passage.sent and passage.came
        for line in differences(passage.sent, passage.came, is_compared)
    ]


def _changed_requests(passages: Sequence[Passage], is_compared: Callable[[str], bool]) -> list[str]:
    return [
        f"{passage.name}, the request: {line}"
        for passage in passages
        if passage.arrived and passage.arrived.request
        for line in differences(passage.as_sent, passage.arrived.request, is_compared)
    ]


class Answers(Claim):
    """One request of each API is answered, and compared field by field: errors, epochs, ids,
    racks, offsets, records.
    """

    id = "proxy-answers"
    title = "all else in answers comes as it was sent"
    says = "A proxy has to do with endpoints; all else is between client and broker."
    why = "What is changed or lost on the way is looked for in clients and brokers, in vain."

    def play(self, session: Session) -> Outcome:
        passages = _everything(session)
        problems = [*failures(passages), *_changed_answers(passages, is_content)]
        return judged(problems, _compared(passages))


class Requests(Claim):
    """One request of each API is compared with what arrives: its version, client id, all fields."""

    id = "proxy-requests"
    title = "requests arrive as they were sent"
    says = "Brokers answer in the version of the request; quotas and logs go by its client id."
    why = "Quotas hold the wrong client, and a request log names none."

    def play(self, session: Session) -> Outcome:
        passages = _everything(session)
        problems = _changed_requests(passages, is_content)
        for passage in passages:
            arrived = passage.arrived
            if arrived is None:
                continue
            if arrived.version != passage.version:
                problems.append(f"{passage.name}: it arrives in version {arrived.version}")
            if arrived.client_id != passage.client_id:
                problems.append(
                    f"{passage.name}: its client id is {arrived.client_id!r},"
                    f" sent was {passage.client_id!r}"
                )
        return judged(problems, _compared(passages))


class Tags(Claim):
    """Each message, and each part of one, has a tagged field more (9001) that no release has."""

    id = "proxy-tags"
    title = "tagged fields that it does not know are kept"
    says = "Tagged fields that are not known are passed on (KIP-482)."
    why = "What later releases add does not come through, and nothing says so."

    def play(self, session: Session) -> Outcome:
        passages = _everything(session)
        problems = _changed_answers(passages, is_tag) + _changed_requests(passages, is_tag)
        return judged(problems, _compared(passages))


class Hints(Claim):
    """Broker 1 is asked for partitions that brokers 2 and 4 lead, and names them."""

    id = "proxy-hints"
    title = "the leader that is named comes with its id and epoch"
    says = "CurrentLeader has the id and the epoch of the leader (KIP-951)."
    why = "Clients go to the wrong broker, or take the hint for an older one and wait."

    def play(self, session: Session) -> Outcome:
        wanted = ((ProduceRequest, 10, produce), (FetchRequest, 16, fetch))
        offered = [make for kind, least, make in wanted if (session.version_of(kind) or 0) >= least]
        if not offered:
            seen = "It offers neither Produce 10 nor Fetch 16, from which on leaders are named."
            return outcome(Status.NOT_APPLICABLE, seen)
        passages = [session.ask(make()) for make in offered]
        problems = failures(passages) + _changed_answers(passages, is_hint)
        if problems and all(f"is {_NO_LEADER}, sent" in problem for problem in problems):
            seen = "It takes the leaders out; clients go on as before KIP-951."
            return outcome(Status.SLOW, seen, problems)
        return judged(problems, _compared(passages))


def _compared(passages: Sequence[Passage]) -> str:
    return f"Compared: {', '.join(p.name for p in passages if p.sent and p.came)}."
