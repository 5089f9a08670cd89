"""Claims about where clients are sent: to the proxy itself, for the broker that is meant."""

from abc import abstractmethod
from typing import Any

from kipctl.conform.proxy.claim import Claim, failures
from kipctl.conform.proxy.passage import Passage, endpoints
from kipctl.conform.proxy.requests import fetch, find_coordinator, metadata, produce
from kipctl.conform.proxy.session import Session
from kipctl.conform.verdict import Outcome, Status, judged, outcome
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.find_coordinator import FindCoordinatorRequest
from kipctl.protocol.message import Request
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.produce import ProduceRequest

_MOVED = 2


class Endpoints(Claim):
    """Each endpoint in an answer is connected to, and has to lead to its broker."""

    @abstractmethod
    def request(self, session: Session) -> Request[Any]:
        """Whose answer has them."""

    def play(self, session: Session) -> Outcome:
        return self.judge(session, session.ask(self.request(session)))

    def judge(self, session: Session, passage: Passage) -> Outcome:
        if passage.came is None:
            return judged(failures([passage]), "")
        came = endpoints(passage.came)
        named = {endpoint.broker for endpoint in came}
        left_out = sorted(
            {endpoint.broker for endpoint in endpoints(passage.sent)} - named
            if passage.sent
            else ()
        )
        problems = [f"broker {broker} is left out" for broker in left_out]
        problems += [wrong for at in came if (wrong := session.what_is_wrong(at))]
        led = ", ".join(f"{broker} at {address}" for broker, address in came)
        return judged(
            [f"{passage.name}: {problem}" for problem in problems],
            f"{passage.name}: each leads to its broker: {led}.",
        )


class InMetadata(Endpoints):
    """Metadata is asked for, and each broker in it is connected to."""

    id = "proxy-metadata"
    title = "brokers in Metadata are at the proxy"
    says = "Metadata has the endpoint of every broker on the listener that was asked."
    why = "Clients go to the brokers past the proxy, or cannot reach them at all."
    least = ((MetadataRequest, 0),)

    def request(self, session: Session) -> Request[Any]:
        return metadata()


class InFindCoordinator(Endpoints):
    """The coordinator of a group is asked for, and connected to."""

    id = "proxy-find-coordinator"
    title = "coordinators are at the proxy"
    says = "FindCoordinator has the endpoint of the coordinator on the listener that was asked."
    why = "Groups and transactions go past the proxy, or never start."
    least = ((FindCoordinatorRequest, 0),)

    def request(self, session: Session) -> Request[Any]:
        return find_coordinator(session.version_of(FindCoordinatorRequest))


class InDescribeCluster(Endpoints):
    """DescribeCluster is asked, and each broker in it is connected to."""

    id = "proxy-describe-cluster"
    title = "brokers in DescribeCluster are at the proxy"
    says = "DescribeCluster has the endpoint of every broker (KIP-700)."
    why = "Admin clients that begin with it (Java's since 4.0) go past the proxy."
    least = ((DescribeClusterRequest, 0),)

    def request(self, session: Session) -> Request[Any]:
        return DescribeClusterRequest()


class OfHints(Endpoints):
    """Broker 1 is asked for partitions that brokers 2 and 4 lead. It names them, with their
    endpoints; Metadata has never shown broker 4.
    """

    says = (
        "NodeEndpoints has the endpoint of every leader that is named with"
        " NOT_LEADER_OR_FOLLOWER (KIP-951)."
    )
    why = "When a leader moves, clients that follow the hint go past the proxy, or wait in vain."

    def judge(self, session: Session, passage: Passage) -> Outcome:
        if passage.came is not None and not endpoints(passage.came):
            seen = f"{passage.name}: it takes the endpoints out; clients go on as before KIP-951."
            return outcome(Status.SLOW, seen)
        return super().judge(session, passage)


class InProduce(OfHints):
    __doc__ = OfHints.__doc__
    id = "proxy-produce-endpoints"
    title = "NodeEndpoints of Produce are at the proxy"
    least = ((ProduceRequest, 10),)

    def request(self, session: Session) -> Request[Any]:
        return produce()


class InFetch(OfHints):
    __doc__ = OfHints.__doc__
    id = "proxy-fetch-endpoints"
    title = "NodeEndpoints of Fetch are at the proxy"
    least = ((FetchRequest, 16),)

    def request(self, session: Session) -> Request[Any]:
        return fetch()


class Moved(InMetadata):
    """Broker 2 is started anew at another port; then Metadata is asked for."""

    id = "proxy-moved-broker"
    title = "a broker that listens elsewhere now is still reached"
    says = "A broker is known by its id; where it listens may change when it starts anew."
    why = "After a roll that gives brokers new addresses clients cannot reach them until the proxy"
    why += " is started anew too."

    def play(self, session: Session) -> Outcome:
        session.ask(metadata())
        session.do(lambda: session.upstream.restart(_MOVED))
        return super().play(session)
