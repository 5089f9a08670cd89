"""Where a connection leads, what is on its way over it, and what all APIs' reading has in
common."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from kipctl.client_behaviour.episode import Hint, HintFault
from kipctl.client_behaviour.facts import Event
from kipctl.protocol.address import Address
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kipctl.protocol.metadata import MetadataResponseBroker
from kipctl.protocol.produce import NodeEndpoint
from kipctl.tap.clients import Client, Leader
from kipctl.tap.episodes import About, Way
from kipctl.tap.fetches import NamedPartition
from kipctl.tap.leaders import PartitionId
from kipctl.tap.observer import Observer
from kipctl.tap.produce_requests import Refusal
from kipctl.tap.rewrite import translated, with_body

_NO_CAUSE = -1
_NO_SUCH_ID = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
EPOCH_ERRORS = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)


@dataclass(slots=True)
class Flight:
    """A request on its way. `subject` is what its answer needs."""

    api_key: int
    version: int
    correlation_id: int
    size: int
    sent_us: int
    ahead: int
    client: Client
    subject: Any = None
    cause: int = _NO_CAUSE
    topics: int = 0
    is_followed: bool = True
    """It was read, and what it asks for is kept until its answer comes."""
    is_answered: bool = True
    """False where the client wants no answer (acks=0)."""


@dataclass(slots=True)
class Route:
    """Where a connection of that number leads. `address` is the broker's, `host` what clients know
    the tap by, and to the tap's ports so much is added in what they are told."""

    observer: Observer
    number: int
    address: Address
    host: str
    connected_us: int
    add_to_ports: int = 0

    @property
    def broker(self) -> int:
        """The broker's id, -1 if it is not known."""
        return self.observer.addresses.broker_at(self.address)

    @property
    def way(self) -> Way:
        """Which broker is asked, and over which connection."""
        return Way(self.broker, self.number)

    def named(
        self, brokers: Iterable[MetadataResponseBroker | NodeEndpoint], is_metadata: bool = False
    ) -> None:
        """An answer says where these are."""
        nodes = ((at.node_id, at.host, at.port, at.rack) for at in brokers)
        self.observer.addresses.learn(nodes, is_metadata)

    def translate(self, host: str, port: int) -> Address:
        """The tap's own address that stands for this one."""
        ours = self.observer.addresses.port_for(Address(host, port))
        return Address(self.host, ours + self.add_to_ports)

    def translated(self, flight: Flight, frame: bytes, body: Any) -> bytes:
        """The answer, with the tap's addresses in place of the brokers'."""
        changed = translated(body, self.translate)
        return with_body(flight.api_key, flight.version, frame, changed)

    def leader_error(
        self,
        flight: Flight,
        about: About,
        refusal: Refusal,
        now_us: int,
        has_paused: bool | None = False,
    ) -> Refusal:
        """A partition's leader is another: learn from it what the tap needs to know.

        Returns what the client gets to see of it, with what that is to it.
        """
        observer, client, partition = self.observer, flight.client, about.partition
        client.leader_error = True
        client.counts.leader_errors += 1
        known, shown = client.leader_shown(partition), None
        is_metadata_older = client.metadata_is_older(partition)
        if refusal.hint_leader >= 0:
            if refusal.is_draft:
                client.counts.draft_hints += 1
            else:
                client.counts.hints += 1
                observer.leaders.learn(partition, refusal.hint_leader, refusal.hint_epoch)
            client.counts.dropped_hints += observer.spec.drop_hints
        if observer.spec.drop_hints:
            refusal = Refusal(refusal.error, refusal.base_offset)
        if refusal.has_hint:
            hint = Leader(refusal.hint_leader, refusal.hint_epoch)
            place = observer.addresses.place(hint.broker)
            is_placed = refusal.address and (not place or place == refusal.address)
            fault = client.fault_of_hint(
                partition, self.broker, hint, None if refusal.address is None else bool(is_placed)
            )
            # A leader fences off who knows an older epoch of it: that is no hint at another broker.
            is_fenced = refusal.error == ErrorCode.FENCED_LEADER_EPOCH
            if is_fenced and fault is HintFault.REFUSER:
                fault, shown = None, None
            else:
                shown = Hint(*hint, fault)
            refusal = refusal._replace(fault=fault, is_news=hint != known)
            client.hinted(partition, hint)
            if fault is None:
                client.cut.hinted(now_us, self.broker, hint.broker)
        seen_us = now_us + observer.delays.get(flight.api_key, 0)
        client.episodes.refused(
            about,
            self.way,
            flight.sent_us,
            seen_us,
            shown,
            known,
            has_paused,
            is_fenced=refusal.error == ErrorCode.FENCED_LEADER_EPOCH,
            is_metadata_older=is_metadata_older,
        )
        if observer.stale:
            observer.stale.refused(partition, self.broker, now_us)
        return refusal

    def refused_as_before(
        self, flight: Flight, said: str | bytes, number: int, error: int, now_us: int
    ) -> None:
        """An error that a client may get for a topic that was made anew, if it holds on to the old
        one: to its id, to its leader, or to an epoch of that."""
        client = flight.client
        about = PartitionId(self.observer.leaders.topic(said), number)
        shown = client.topics.get(about.topic)
        if isinstance(said, bytes):
            is_old = error in _NO_SUCH_ID and shown is not None and said != shown.topic_id
        else:
            goes_elsewhere = self.broker != client.leader_shown(about).broker
            is_old = error == ErrorCode.UNKNOWN_LEADER_EPOCH or (
                error in LEADER_ERRORS and goes_elsewhere
            )
        if is_old and client.recreated.refused(about.topic, flight.sent_us, now_us):
            client.sightings.note(Event.RECREATED_IGNORED, now_us, about, self.broker)

    def about(self, api: int, topic: str | bytes, number: int, producer: int = -1) -> About:
        """What a request is about."""
        return About(api, PartitionId(self.observer.leaders.topic(topic), number), producer)


class Api(ABC):
    """Follows one API's requests and answers on a connection.

    Each method that takes a frame raises MalformedFrame for what cannot be read.
    """

    def __init__(self, route: Route) -> None:
        self._route = route
        self._observer = route.observer

    @abstractmethod
    def request(self, flight: Flight, frame: bytes) -> None:
        """A request, which passes as it is: note what its answer needs."""

    @abstractmethod
    def answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """What the client is to get for the answer."""

    def _note_position(
        self, flight: Flight, what: Hashable, said: NamedPartition, now_us: int
    ) -> None:
        """A partition was refused what asks where to read, or cannot be read from there."""
        client = flight.client
        if client.positions.refused(what, flight.sent_us, now_us):
            about = PartitionId(self._observer.leaders.topic(said[0]), said[1])
            client.sightings.note(Event.POSITION_REFUSED, now_us, about, self._route.broker)

    def _note(
        self, flight: Flight, event: Event, topic: str | bytes, partition: int, now_us: int
    ) -> None:
        """A partition was answered what matters where it comes again and again."""
        about = PartitionId(self._observer.leaders.topic(topic), partition)
        flight.client.sightings.once_more(event, now_us, about, self._route.broker)

    def lost(self, flight: Flight, now_us: int) -> Iterable[PartitionId]:
        """The request is never answered, as far as can be seen. Returns what it was about."""
        return ()
