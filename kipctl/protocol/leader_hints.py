"""The leader that a refusal names (CurrentLeader, NodeEndpoints: KIP-951), or that of its draft.

The KIP as adopted puts CurrentLeader and NodeEndpoints on Produce 10 and Fetch 16. A draft put the
same tags on the flexible versions there were: Produce 9 and Fetch 12 to 15. Clients take no hint
from these versions, so a draft's hint is recognised and counted, never followed. A Fetch 12 to 15
of any Kafka has CurrentLeader (KIP-595); that NodeEndpoints comes with it makes it a draft.

Codecs keep what a version does not name as `unknown_tags`; a draft is read from those.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from kipctl.protocol.address import host_port
from kipctl.protocol.fetch import FetchResponse
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched
from kipctl.protocol.primitives import INT32, MalformedFrame, Reader, write_unsigned_varint
from kipctl.protocol.produce import NodeEndpoint, PartitionProduceResponse, ProduceResponse

FIRST_PRODUCE_WITH_HINTS = 10
FIRST_FETCH_WITH_HINTS = 16

_PRODUCE = range(ProduceResponse.api.flexible_since, FIRST_PRODUCE_WITH_HINTS)
_FETCH = range(FetchResponse.api.flexible_since, FIRST_FETCH_WITH_HINTS)
_CURRENT_LEADER = 0  # of a Produce partition
_NODE_ENDPOINTS = 0  # of either response
_LEADER = Struct(">ii")
_NO_LEADER = -1

Tags = Iterable[tuple[int, bytes]]


class LeaderHint(NamedTuple):
    """Id and epoch of the leader, -1 where none is named; its endpoint if the answer has it.

    `is_draft`: in the form of KIP-951's early draft, which clients do not read.
    """

    leader_id: int = -1
    leader_epoch: int = -1
    endpoint: NodeEndpoint | None = None
    is_draft: bool = False

    @property
    def address(self) -> str | None:
        """host:port of the endpoint."""
        return host_port(self.endpoint.host, self.endpoint.port) if self.endpoint else None


NO_HINT = LeaderHint()
"""An error that names no leader."""


def hint_in_produce(
    partition: PartitionProduceResponse, response: ProduceResponse, version: int
) -> LeaderHint:
    """The hint of a partition in an answer of that version."""
    if draft := drafted_in_produce(version, partition.unknown_tags, response.unknown_tags):
        return draft
    leader = partition.current_leader
    return leader_named(leader.leader_id, leader.leader_epoch, response.node_endpoints)


def hint_in_fetch(fetched: Fetched, answer: FetchAnswer, version: int) -> LeaderHint:
    """The hint of a partition in an answer of that version.

    Versions 12 to 15 name a leader without endpoint, which clients do not take for a hint; with
    endpoints it is one in the form of the draft.
    """
    if draft := drafted_in_fetch(version, fetched.leader, answer.unknown_tags):
        return draft
    if fetched.leader is None or version < FIRST_FETCH_WITH_HINTS:
        return NO_HINT
    return leader_named(*fetched.leader, answer.node_endpoints)


def leader_named(leader_id: int, epoch: int, endpoints: Iterable[NodeEndpoint]) -> LeaderHint:
    """The hint at this leader, with its endpoint if it is among these."""
    endpoint = next((at for at in endpoints if at.node_id == leader_id), None)
    return LeaderHint(leader_id, epoch, endpoint)


def drafted_in_produce(version: int, of_partition: Tags, of_response: Tags) -> LeaderHint | None:
    """The draft's hint of a Produce partition, from its unknown tags and the response's.

    None where there is none: another version, no such tag, something else in it, leader -1.
    """
    if version not in _PRODUCE:
        return None
    leader = next((_leader(c) for tag, c in of_partition if tag == _CURRENT_LEADER), None)
    return _hint(leader, _endpoints_in(of_response) or ())


def drafted_in_fetch(
    version: int, leader: tuple[int, int] | None, of_response: Tags
) -> LeaderHint | None:
    """The draft's hint of a Fetch partition whose CurrentLeader is `leader` (id and epoch).

    None where there is none: another version, no NodeEndpoints in the response, leader -1.
    """
    if version not in _FETCH:
        return None
    endpoints = _endpoints_in(of_response)
    return None if endpoints is None else _hint(leader, endpoints)


def with_endpoints(
    of_response: Tags, change: Callable[[NodeEndpoint], NodeEndpoint]
) -> tuple[tuple[int, bytes], ...]:
    """The unknown tags of a Produce or Fetch response with each of the draft's endpoints changed.

    As tag 0 is known in the versions with hints, it can only be a draft's; one that holds something
    else stays as it is.
    """
    changed = []
    for tag, content in of_response:
        endpoints = _endpoints(content) if tag == _NODE_ENDPOINTS else None
        changed.append((tag, content if endpoints is None else _written(map(change, endpoints))))
    return tuple(changed)


def _hint(leader: tuple[int, int] | None, at: Iterable[NodeEndpoint]) -> LeaderHint | None:
    if leader is None or leader[0] == _NO_LEADER:
        return None
    return leader_named(*leader, at)._replace(is_draft=True)


def _endpoints_in(tags: Tags) -> tuple[NodeEndpoint, ...] | None:
    return next((_endpoints(content) for tag, content in tags if tag == _NODE_ENDPOINTS), None)


def _leader(content: bytes) -> tuple[int, int] | None:
    """CurrentLeader; None if the tag holds something else."""
    reader = Reader(content)
    try:
        leader_id, epoch = _LEADER.unpack(reader.take(_LEADER.size))
        reader.skip_tags()
    except MalformedFrame:
        return None
    return None if reader.remaining else (leader_id, epoch)


@lru_cache(maxsize=64)  # all refused partitions of a response ask for the same
def _endpoints(content: bytes) -> tuple[NodeEndpoint, ...] | None:
    """NodeEndpoints; None if the tag holds something else."""
    reader = Reader(content)
    endpoints = []
    try:
        for _ in range(reader.unsigned_varint() - 1):
            node_id = reader.int32()
            host = reader.text(reader.unsigned_varint() - 1)
            port = reader.int32()
            length = reader.unsigned_varint() - 1
            rack = reader.text(length) if length >= 0 else None
            reader.skip_tags()
            endpoints.append(NodeEndpoint(node_id, host, port, rack))
    except MalformedFrame:
        return None
    return None if reader.remaining else tuple(endpoints)


def _written(endpoints: Iterable[NodeEndpoint]) -> bytes:
    """NodeEndpoints, as they were read."""
    every = tuple(endpoints)
    out = bytearray()
    write_unsigned_varint(out, len(every) + 1)
    for endpoint in every:
        out += INT32.pack(endpoint.node_id)
        _write_text(out, endpoint.host)
        out += INT32.pack(endpoint.port)
        _write_text(out, endpoint.rack)
        out.append(0)  # no tags
    return bytes(out)


def _write_text(out: bytearray, text: str | None) -> None:
    raw = (text or "").encode()
    write_unsigned_varint(out, 0 if text is None else len(raw) + 1)
    out += raw
