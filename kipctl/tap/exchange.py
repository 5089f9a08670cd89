"""One connection's requests and answers: what they mean, and what clients get to see of them.

No sockets here: frames come in, and frames to pass on go out.
"""

from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kipctl.client_behaviour.facts import Event
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersionsResponse
from kipctl.protocol.primitives import MalformedFrame
from kipctl.tap.apis import FETCH, METADATA, PRODUCE, SHARE, FetchApi, ProduceApi, ShareApi
from kipctl.tap.clients import Client, Identity
from kipctl.tap.leaders import PartitionId
from kipctl.tap.metadata_api import MetadataApi
from kipctl.tap.observer import Observer
from kipctl.tap.positions_api import PositionsApi
from kipctl.tap.produce_requests import read_acks
from kipctl.tap.rewrite import (
    POSITIONS,
    REQUESTS,
    WITH_ENDPOINTS,
    is_known,
    read_answer,
    read_request,
    with_body,
)
from kipctl.tap.route import Api, Flight, Route
from kipctl.tap.version_caps import capped, unsupported_api_versions
from kipctl.trace.codes import MetadataCause

_HEAD = Struct(">hhih")
_SASL_HANDSHAKE = 17
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_FIRST_WITH_ENDPOINTS = {PRODUCE: 10, FETCH: 16}
"""From these versions on answers may name brokers (KIP-951); those of other APIs here always do."""
_INT32 = Struct(">i")
_WELL_KNOWN = range(93)
"""API keys of Kafka 4.3: of those that are not read, all bytes pass as they are."""


class Passed(NamedTuple):
    """An answer to pass on: its frame, and for how long it is to be held (microseconds)."""

    frame: bytes
    delay_us: int


class Exchange:
    """Follows a connection. Every method that takes a frame raises MalformedFrame for garbage.

    `address` is the broker's, `host` what the client knows the tap by, and to the tap's ports so
    much is added in what it is told. `client_host` is where it connects from, `is_bootstrap` says
    that it came to the bootstrap servers. Times are monotonic microseconds.
    """

    def __init__(
        self,
        observer: Observer,
        number: int,
        address: Address,
        host: str,
        now_us: int,
        add_to_ports: int = 0,
        client_host: str = "",
        is_bootstrap: bool = False,
    ) -> None:
        self._observer = observer
        self._number = number
        self._client_host, self._is_bootstrap = client_host, is_bootstrap
        self._route = route = Route(observer, number, address, host, now_us, add_to_ports)
        self._apis: dict[int, Api] = {
            PRODUCE: ProduceApi(route),
            FETCH: FetchApi(route),
            METADATA: MetadataApi(route),
            **{key: ShareApi(route) for key in SHARE},
            **{key: PositionsApi(route) for key in POSITIONS},
        }
        self._flights: deque[Flight] = deque()
        self._answered_us = 0
        self._software = ("", "")
        self._has_asked = False
        """For ApiVersions, with which clients name their software."""
        self._client: Client | None = None
        self._client_id_bytes: bytes | None = None
        """The client id as the last request had it, with its length."""

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return len(self._flights)

    @property
    def client(self) -> Client | None:
        """Who is at the other end; None before the first request."""
        return self._client

    def request(self, frame: bytes, now_us: int) -> None:
        """A request came, and goes on as it is."""
        if len(frame) < 14:
            raise MalformedFrame(f"a request of {len(frame) - 4} bytes, which has no head")
        api_key, version, correlation, length = _HEAD.unpack_from(frame, 4)
        if api_key == _SASL_HANDSHAKE and version == 0:
            raise MalformedFrame("SaslHandshake 0, whose tokens are no requests; it needs 1")
        end = 14 + max(length, 0)
        if frame[12:end] != self._client_id_bytes:
            self._client_id_changed(frame, end)
        client = self._client
        assert client
        flight = Flight(
            api_key, version, correlation, len(frame), now_us, len(self._flights), client
        )
        client.counts.requests[api_key] += 1
        if client.unreachable.rebootstrap_us and client.unreachable.goes_on(
            self._route.connected_us, now_us
        ):
            client.sightings.note(Event.REBOOTSTRAP_IGNORED, now_us, broker=self._route.broker)
        if is_known(api_key, version):
            self._read(flight, frame)
        else:
            self._not_decoded(flight, frame)
        if flight.is_answered:
            self._flights.append(flight)
        else:
            self._row(flight, 0, 0, 0)

    def _read(self, flight: Flight, frame: bytes) -> None:
        """Look at a request, which passes as it is: a gateway's own form of it is no reason to end
        a connection."""
        api = self._apis.get(flight.api_key)
        try:
            if api is not None:
                api.request(flight, frame)
            elif flight.api_key == _API_VERSIONS:
                self._api_versions(flight, frame)
        except MalformedFrame:
            flight.client.counts.not_decoded += 1
            flight.is_followed = False
            if flight.api_key == PRODUCE:
                flight.subject = ("", {})

    def _not_decoded(self, flight: Flight, frame: bytes) -> None:
        """A request that is not read; of some APIs that is as it should be."""
        api_key = flight.api_key
        is_wanted = api_key in REQUESTS and api_key not in POSITIONS
        flight.client.counts.not_decoded += is_wanted or api_key not in _WELL_KNOWN
        if api_key == PRODUCE:
            flight.subject = ("", {})
            flight.is_answered = read_acks(frame, flight.version) != 0
            flight.client.counts.acks_0 += not flight.is_answered

    def _client_id_changed(self, frame: bytes, end: int) -> None:
        """The client calls itself otherwise than before."""
        if end > len(frame):
            raise MalformedFrame(f"a client id of {end - 14} bytes in a request of {len(frame)}")
        self._client_id_bytes = frame[12:end]
        name = frame[14:end].decode("utf-8", "replace")
        self._identified(name)

    def _identified(self, client_id: str) -> None:
        identity = Identity(client_id, *self._software, self._client_host)
        before = self._client
        self._client = self._observer.client(identity, self._has_asked)
        if before is self._client:
            return
        if before is not None:
            before.open_connections -= 1
            before.counts.connections -= 1
        self._client.open_connections += 1
        self._client.counts.connections += 1
        if self._is_bootstrap:
            self._client.unreachable.bootstrapped(self._route.connected_us)

    def _api_versions(self, flight: Flight, frame: bytes) -> None:
        body = read_request(_API_VERSIONS, flight.version, frame)
        if self._has_asked and not body.client_software_name:
            return  # again, in a version that the broker speaks
        self._has_asked = True
        self._software = (body.client_software_name, body.client_software_version)
        assert self._client
        self._identified(self._client.identity.client_id)
        if flight.client is not self._client:
            flight.client.counts.requests[_API_VERSIONS] -= 1
            self._client.counts.requests[_API_VERSIONS] += 1
            flight.client = self._client

    def answer(self, frame: bytes, now_us: int) -> Passed:
        """An answer came; returns what the client is to get for it."""
        if not self._flights:
            raise MalformedFrame("an answer that nobody asked for")
        flight = self._flights[0]  # what is no answer to it leaves it under way
        size = len(frame)
        if size < 8:
            raise MalformedFrame(f"an answer of {size - 4} bytes")
        (correlation,) = _INT32.unpack_from(frame, 4)
        if correlation != flight.correlation_id:
            raise MalformedFrame(f"an answer to request {correlation}, not {flight.correlation_id}")
        self._flights.popleft()
        if flight.client.unreachable:
            flight.client.unreachable.answered(self._route.broker)
        frame = self._answer(flight, frame, now_us)
        behind_us = max(0, self._answered_us - flight.sent_us) if flight.ahead else 0
        self._answered_us = now_us
        self._row(flight, now_us, size, behind_us)
        return Passed(frame, self._observer.delays.get(flight.api_key, 0))

    def look_through(self, frame: bytes) -> Iterator[None]:
        """Before `answer`, for the next one that is long: others have their turn at each step."""
        flight = self._flights[0] if self._flights else None
        api = self._apis[METADATA]
        if (
            isinstance(api, MetadataApi)
            and flight is not None
            and flight.api_key == METADATA
            and is_known(METADATA, flight.version)
            and frame[4:8] == _INT32.pack(flight.correlation_id)
        ):
            yield from api.look_through(flight, frame)

    def _answer(self, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """What the client is to get.

        Raises MalformedFrame for an answer that cannot be read and may name brokers: with their own
        addresses the client would leave the tap.
        """
        api_key, version = flight.api_key, flight.version
        api = self._apis.get(api_key)
        if not is_known(api_key, version):
            if api_key == _API_VERSIONS:
                return unsupported_api_versions(flight.correlation_id)
            return frame
        if api is not None:
            return self._followed(api, flight, frame, now_us)
        if api_key == _API_VERSIONS:
            return self._with_caps(flight, frame)
        if api_key in WITH_ENDPOINTS:
            return self._route.translated(flight, frame, read_answer(api_key, version, frame))
        return frame

    def _followed(self, api: Api, flight: Flight, frame: bytes, now_us: int) -> bytes:
        """The answer to a request of which more is known."""
        api_key, version = flight.api_key, flight.version
        first = _FIRST_WITH_ENDPOINTS.get(api_key, 0)
        may_name_brokers = api_key in WITH_ENDPOINTS and version >= first
        if not flight.is_followed and not may_name_brokers:
            return frame
        if not flight.is_followed and api_key in _FIRST_WITH_ENDPOINTS:
            return self._route.translated(flight, frame, read_answer(api_key, version, frame))
        try:
            return api.answer(flight, frame, now_us)
        except MalformedFrame:
            if may_name_brokers or self._observer.spec.drop_hints:
                raise
            flight.client.counts.not_decoded += 1
            api.lost(flight, now_us)
            return frame

    def _with_caps(self, flight: Flight, frame: bytes) -> bytes:
        """The versions that clients are to see."""
        body: ApiVersionsResponse = read_answer(_API_VERSIONS, flight.version, frame)
        changed = capped(body, self._observer.caps)
        if changed == body:
            return frame
        return with_body(_API_VERSIONS, flight.version, frame, changed)

    def lost(self, now_us: int, is_clients: bool = False) -> None:
        """The connection is gone, closed by the client or not: what was in flight is not answered
        any more."""
        client = self._client
        if client is None:
            return
        client.open_connections -= 1
        if is_clients:
            client.cut.closed(now_us, self._route.broker)
        if self._flights and not self._observer.is_ending:
            client.counts.lost += 1
            client.had_error = True
        flights, self._flights = self._flights, deque()
        under_way: list[PartitionId] = []
        for flight in flights:
            self._row(flight, 0, 0, 0)
            if api := self._apis.get(flight.api_key):
                under_way += api.lost(flight, now_us)
        if flights and not (self._observer.is_ending or self._is_bootstrap):
            self._observer.failed(client, self._route.broker, now_us, under_way)

    def _row(self, flight: Flight, received_us: int, size: int, behind_us: int) -> None:
        if not self._observer.directory:
            return
        client = flight.client
        self._observer.recorder.rpc(
            (
                *client.number,
                self._number,
                self._route.broker,
                flight.api_key,
                flight.version,
                flight.size,
                size,
                flight.sent_us,
                received_us,
                flight.ahead,
                behind_us,
                flight.cause,
                max(flight.topics, 0),
                flight.cause == MetadataCause.LEADER_CHANGE and client.waiting > 0,
                0,
            )
        )
