"""What must hold when a client is handed an answer, or a connection that is lost."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from story import AnyStory
from world import SimulatedSockets

from kipctl.probe.client import ProbeClient
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.api import ApiKey, decode_response
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.leader_hints import FIRST_FETCH_WITH_HINTS, FIRST_PRODUCE_WITH_HINTS
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.produce import ProduceRequest
from kipctl.transport.loop_connection import InFlight

Afterwards = Callable[[], None]
"""Looks at the client once it has taken the answer."""


class Handed:
    """Stands between a client and its network, and looks at both."""

    def __init__(
        self, client: ProbeClient[Any, Any], story: AnyStory, sockets: SimulatedSockets
    ) -> None:
        self._client, self._story, self._sockets = client, story, sockets
        self._metadata, network = client._metadata, client._network
        self._take, self._lose = network._on_answer, network._on_lost
        network._on_answer, network._on_lost = self._answered, self._lost
        self._ready: set[int] = set()
        """Connections whose broker has told its API versions."""
        self._told_us = sockets.now_us()
        """When Metadata last told of brokers."""

    def _answered(
        self, link: Any, flight: InFlight, frame: memoryview, now_us: int, behind_us: int
    ) -> None:
        looks: list[Afterwards] = []
        match flight.api_key:
            case ApiKey.API_VERSIONS:
                self._ready.add(link.connection.number)
            case ApiKey.METADATA:
                looks.append(self._metadata_serves_all(flight, frame, now_us))
            case ApiKey.PRODUCE:
                _, answer = decode_response(ProduceRequest, flight.api_version, frame)
                partitions = [
                    (t.name, t.topic_id, p, p.index)
                    for t in answer.responses
                    for p in t.partition_responses
                ]
                if flight.api_version >= FIRST_PRODUCE_WITH_HINTS:
                    looks.append(self._hints_are_taken(answer, partitions))
            case ApiKey.FETCH:
                _, read = decode_response(FetchRequest, flight.api_version, frame)
                partitions = [
                    (t.topic, t.topic_id, p, p.partition_index)
                    for t in read.responses
                    for p in t.partitions
                ]
                if flight.api_version >= FIRST_FETCH_WITH_HINTS:
                    looks.append(self._hints_are_taken(read, partitions))
                looks.append(self._replicas_are_kept(link, partitions))
        self._take(link, flight, frame, now_us, behind_us)
        for look in looks:
            look()

    def _partition(self, name: str, id: UUID, index: int) -> Any:
        """The client's, of a topic that an answer names so; None for one that it does not know."""
        for partitions in self._metadata._partitions.values():
            known = partitions[0].topic
            is_this = name == known.name if name else id == known.id
            if is_this and index < len(partitions):
                return partitions[index]
        return None

    def _hints_are_taken(self, answer: Any, partitions: list[Any]) -> Afterwards:
        """What is newer is believed from then on, whatever the answer is worth (KIP-951)."""
        reached = {*self._metadata.nodes, *(at.node_id for at in answer.node_endpoints)}
        reached -= {id for id in reached if id < 0}  # bootstrap servers lead nothing
        newest = [
            (partition, named.leader_epoch)
            for *topic, p, index in partitions
            if p.error_code in LEADER_ERRORS
            and (named := p.current_leader).leader_id in reached
            and (partition := self._partition(*topic, index)) is not None
        ]

        def look() -> None:
            if self._story.discovery is LeaderDiscovery.KIP951:
                for partition, epoch in newest:
                    known = self._metadata.epoch(partition)
                    assert known >= epoch, f"a hint of epoch {epoch} is not taken, but {known}"

        return look

    def _replicas_are_kept(self, link: Any, partitions: list[Any]) -> Afterwards:
        """A follower that has not heard of the leader's epoch is waited for."""
        kept = [
            (partition, self._metadata.epoch(partition))
            for *topic, p, index in partitions
            if p.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
            and (partition := self._partition(*topic, index)) is not None
            and partition.preferred_replica.preferred == link.node.id
        ]

        def look() -> None:
            for partition, epoch in kept:
                is_kept = partition.preferred_replica.preferred == link.node.id
                is_moved = self._metadata.epoch(partition) != epoch
                assert is_kept or is_moved, "a replica is left that does not know the epoch yet"

        return look

    def _metadata_serves_all(self, flight: InFlight, frame: memoryview, now_us: int) -> Afterwards:
        """An answer for all topics serves whatever was wanted before it."""
        _, answer = decode_response(MetadataRequest, flight.api_version, frame)
        topics = flight.subject.topics
        if answer.brokers:
            self._told_us = now_us

        def look() -> None:
            policy, known = self._metadata._policy, self._metadata._partitions
            is_full = policy.refreshed_us == now_us and policy.in_flight is None
            lacks = any(not self._metadata.has_leader(p) for topic in topics for p in known[topic])
            assert not is_full or lacks or policy.requested is None, "Metadata is wanted twice"

        return look

    def _lost(self, link: Any, number: int, flights: list[InFlight], now_us: int) -> None:
        """Nobody cuts a connection that is well, unless Metadata has not come for too long."""
        open_ = self._sockets.open.values()
        socket = next((s for s in open_ if s.connection and s.connection.number == number), None)
        config = self._story.config
        waited_us = now_us - flights[0].sent_us if flights else 0
        if (
            socket is not None
            and not socket.failed
            and number in self._ready
            and waited_us < config.request_timeout_ms * 1000
        ):
            silent_ms = (now_us - self._told_us) / 1000
            assert silent_ms > config.metadata_recovery_rebootstrap_trigger_ms, (
                f"the connection to {link.node.id} is cut, with {len(flights)} requests in flight"
            )
        self._lose(link, number, flights, now_us)
