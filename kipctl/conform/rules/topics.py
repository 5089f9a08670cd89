"""What rules about the Metadata of many topics share (KIP-526)."""

from collections.abc import Sequence
from types import MappingProxyType

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.rule import Rule
from kipctl.conform.trace import API_OF, Trace
from kipctl.conform.verdict import Role
from kipctl.protocol.api import ApiKey

FIRST_MS = 200.0
"""Until then it sends to the first topic, as before."""


class Topics(Rule):
    """The producer is told on its standard input to which topic it sends from now on."""

    least = MappingProxyType({Role.PRODUCER: 0})
    topics = 2

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return True


def topics_asked(trace: Trace) -> Sequence[tuple[float, frozenset[str] | None]]:
    """When Metadata was asked for, in ms since the start, and of which topics; None for all. They
    are named by their name or their id."""
    start = trace.start_us or 0
    return [
        (
            (e.us - start) / 1000,
            None
            if e.request.topics is None
            else frozenset(
                topic.name or trace.names.get(topic.topic_id, "") for topic in e.request.topics
            ),
        )
        for e in trace.exchanges
        if e.api == ApiKey.METADATA and e.us >= start and e.request is not None
    ]


def topics_sent_to(trace: Trace, since_start: bool = True) -> frozenset[str]:
    """From the start on, or at all."""
    start, api = (trace.start_us or 0) if since_start else 0, API_OF[trace.role]
    return frozenset(
        name for e in trace.exchanges if e.api == api and e.us >= start for name, _ in e.tried
    )
