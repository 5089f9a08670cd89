"""Fetch: leaders hand out records, and may name a replica nearer to the reader (KIP-392)."""

from typing import TYPE_CHECKING

from kipctl.conform.cluster.apis.fetch_sessions import SESSIONS_SINCE, Asked
from kipctl.conform.cluster.apis.hints import Hints, refused
from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Handout, Refusal, Scripted
from kipctl.conform.cluster.state import Broker
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchPartition, FetchResponse, PartitionData

if TYPE_CHECKING:
    from kipctl.conform.cluster.apis import Answering
    from kipctl.conform.cluster.cluster import Cluster

_FOLLOWERS_SINCE, _IDS_SINCE, _HINTS_SINCE = 11, 13, 16


def fetch(cluster: "Cluster", broker: Broker, call: Exchange) -> "Answering":
    """Waits for `min_bytes` as long as the client allows, and no longer than for an error."""
    request, version = call.request, call.version
    session = cluster.sessions.asked(broker.id, request, version)
    if isinstance(session, int):
        return FetchResponse(error_code=session)
    until_us = cluster.now_us() + request.max_wait_ms * 1000
    hinted = version >= (_IDS_SINCE if cluster.has_draft_hints else _HINTS_SINCE)
    while True:
        before = cluster.stamp()
        hints, read = Hints(hinted), dict[Asked, PartitionData]()
        is_due = cluster.now_us() >= until_us or not session.partitions
        for asked, p in session.partitions.items():
            attempt = _attempt(cluster, call, asked, p)
            scripted = yield from cluster.scripted(attempt)
            start, told = (
                _look(cluster, broker, attempt, p.partition_max_bytes)
                if scripted is None
                else (-1, scripted)
            )
            read[asked] = _data(attempt, told, start, hints)
        size = sum(len(p.records or b"") for p in read.values())
        is_due |= any(p.error_code or p.preferred_read_replica >= 0 for p in read.values())
        if is_due or size >= request.min_bytes:
            break
        yield
        while cluster.stamp() == before and cluster.now_us() < until_us:
            yield
    is_full = version < SESSIONS_SINCE or request.session_epoch <= 0
    return FetchResponse(
        hints.throttle_ms,
        session_id=session.number,
        responses=session.news(read, is_full, cluster.order),
        node_endpoints=hints.endpoints,
    )


def _attempt(cluster: "Cluster", call: Exchange, asked: Asked, p: FetchPartition) -> Attempt:
    """The same at each look."""
    name, id, index = asked
    place = cluster.names.get(id, "") if call.version >= _IDS_SINCE else name, index
    if place in call.tried:
        return call.tried[place]
    made = call.attempt(place, id)
    made.epoch, made.offset = p.current_leader_epoch, p.fetch_offset
    return made


def _look(cluster: "Cluster", broker: Broker, attempt: Attempt, most: int) -> tuple[int, Scripted]:
    """Where the log begins, and what there is from the offset on."""
    has_followers, place = attempt.version >= _FOLLOWERS_SINCE, attempt.place
    if refusal := refused(cluster, broker, attempt, must_lead=not has_followers):
        return -1, refusal
    replica, preferred, records = cluster.replica(broker, place), -1, b""
    if not replica.start <= attempt.offset <= replica.end:
        return -1, Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    if has_followers and broker.leads(place):
        rack = attempt.call.request.rack_id
        preferred = cluster.nearer(place, broker.id, rack, attempt.offset)
    if preferred < 0:
        records = replica.branch.read(attempt.offset, most, replica.high_watermark)
    return replica.start, Handout(records, replica.high_watermark, preferred)


def _data(attempt: Attempt, told: Scripted, start: int, hints: Hints) -> PartitionData:
    index = attempt.partition
    if isinstance(told, Refusal):
        hint = hints.of(attempt, told)
        # Kafka says empty records (`FetchResponse.partitionResponse`): null ones are malformed to
        # librdkafka.
        return PartitionData(index, told.error, -1, -1, -1, current_leader=hint, records=b"")
    attempt.error = 0
    if attempt.version >= _FOLLOWERS_SINCE:
        attempt.preferred = told.preferred
    high = told.high_watermark
    return PartitionData(
        index, 0, high, high, start, preferred_read_replica=attempt.preferred, records=told.records
    )
