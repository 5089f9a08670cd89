"""What a client's Metadata request costs: bytes, and time until the answer is there."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from kipctl.cluster.snapshot import Broker
from kipctl.errors import KipctlError, TimedOutError, UnreachableError
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey, decode_response, encode_request
from kipctl.protocol.metadata import MetadataRequest, metadata_request
from kipctl.protocol.primitives import INT32
from kipctl.transport.access import Access
from kipctl.transport.blocking_connection import BlockingConnection
from kipctl.transport.request import Cluster

SAMPLES = 5
_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one broker's answers cost. `asked` is a topic's name, None for all topics.

    Bytes are of whole frames. Times are microseconds from the request's first byte to the answer's
    last: nothing is decoded meanwhile. Without an answer `error` says why.
    """

    broker: Broker
    asked: str | None
    topics: int = 0
    partitions: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    times_us: tuple[int, ...] = ()
    error: KipctlError | None = None


def costs(
    cluster: Cluster,
    brokers: Sequence[Broker],
    topic: str | None,
    silent: Mapping[int, KipctlError],
) -> tuple[Cost, ...]:
    """Ask these brokers for one topic (if there is one) and for all, each several times.

    One after the other, so that no answer stands behind another one's; those that are known to be
    `silent` are left out, and all that are not begun with after 30 s.
    """
    deadline = time.monotonic() + _DEADLINE_S
    measured = []
    for asked in ([topic] if topic else []) + [None]:
        for broker in brokers:
            if error := silent.get(broker.id):
                measured.append(Cost(broker, asked, error=error))
            elif time.monotonic() > deadline:
                late = TimedOutError(f"The {_DEADLINE_S:g} s for all brokers were over.")
                measured.append(Cost(broker, asked, error=late))
            else:
                measured.append(_cost(cluster, broker, asked))
    return tuple(measured)


def _cost(cluster: Cluster, broker: Broker, asked: str | None) -> Cost:
    request = metadata_request(None if asked is None else [asked])
    try:
        highest = cluster.broker(broker.id).api_versions[ApiKey.METADATA][1]
        version = min(highest, request.api.versions[1])
        frame = encode_request(request, version, 1, cluster.client_id)
        times_us, answer = _ask(
            Address(broker.host, broker.port), cluster.access, frame, cluster.timeout_s
        )
        _, response = decode_response(MetadataRequest, version, answer)
    except KipctlError as error:
        return Cost(broker, asked, error=error)
    return Cost(
        broker,
        asked,
        len(response.topics),
        sum(len(topic.partitions) for topic in response.topics),
        len(frame),
        len(answer) + INT32.size,
        times_us,
    )


def _ask(
    address: Address, access: Access, frame: bytes, timeout_s: float
) -> tuple[tuple[int, ...], bytes]:
    """Send the same request again and again; the times in microseconds, and the last answer."""
    times_us = []
    answer = b""
    try:
        with closing(BlockingConnection(address, access, time.monotonic() + timeout_s)) as opened:
            for _ in range(SAMPLES):
                began_ns = time.perf_counter_ns()
                answer = opened.exchange(frame, time.monotonic() + timeout_s)
                times_us.append((time.perf_counter_ns() - began_ns) // 1000)
    except TimeoutError:
        raise TimedOutError(
            f"Broker {address} did not answer Metadata in {timeout_s:g} s.",
            "Check that the broker is not overloaded or paused.",
        ) from None
    except OSError as error:
        raise UnreachableError(
            f"Broker {address} cannot be reached for Metadata: {error.strerror or error}.",
            "Check the address, and that the broker is running.",
        ) from None
    return tuple(times_us), answer
