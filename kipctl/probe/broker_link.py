"""A broker as a client sees it: its connection and handshake."""

import random
from typing import Any

from kipctl.errors import RefusedError
from kipctl.probe.backoff import Backoff
from kipctl.probe.config import ClientConfig
from kipctl.probe.leadership import Node
from kipctl.protocol.address import host_port
from kipctl.protocol.api import decode_response, encode_request
from kipctl.protocol.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    own_api_versions_request,
    version_to_fall_back_to,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Request
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce_frames import Buffer
from kipctl.transport.loop_connection import ConnectionLostError, InFlight, LoopConnection
from kipctl.transport.sockets import READ, WRITE, Sockets

_API_VERSIONS_VERSION = 3
ApiRanges = dict[int, tuple[int, int]]
"""Lowest and highest version per API key."""


class BrokerLink:
    """One broker's connection, as in the Java client: one per broker, shared by all requests.

    It is `ready` once the broker has told its API versions; what a client keeps about a broker,
    and settles as soon as these are known, is its own kind of link.
    """

    def __init__(self, node: Node, config: ClientConfig, sockets: Sockets) -> None:
        self.node = node
        self.connection: LoopConnection | None = None
        self.unwritten: InFlight | None = None
        """A request that has no answer, until it is wholly written."""
        self.ready = False
        self.ready_us = 0
        self.window_open_us = 0
        """When the next request could go out again, after the in-flight window was full or the one
        before was not wholly written.
        """
        self.reconnect_us = 0
        """No new connection before this."""
        self.throttled_until_us = 0
        """The broker reads nothing of ours before this, as it has said (KIP-219)."""
        self.is_throttled = False
        self.metadata_version = 0
        self._config = config
        self._limit = config.in_flight_limit
        self._request_timeout_us = config.request_timeout_ms * 1000
        self._sockets = sockets
        self._watched = READ | WRITE
        self._attempts = 0
        """Connections begun since one was ready."""
        self._reconnect = Backoff(
            config.reconnect_backoff_ms * 1000, config.reconnect_backoff_max_ms * 1000
        )
        self._setup = Backoff(
            config.socket_connection_setup_timeout_ms * 1000,
            config.socket_connection_setup_timeout_max_ms * 1000,
        )
        self._setup_until_us = 0
        self._address = 0
        """Which of the host's addresses is next: another after each failure (as Java does)."""

    @property
    def may_send(self) -> bool:
        """A request can go out: ready, not throttled, window open, the one before wholly written.

        (Java's `NetworkClient.canSendRequest`.)
        """
        connection = self.connection
        return (
            self.ready
            and connection is not None
            and not self.is_throttled
            and len(connection.in_flight) < self._limit
            and connection.takes_requests
        )

    @property
    def is_logging_in(self) -> bool:
        """Its connection takes no request, as its session is being renewed."""
        return self.connection is not None and self.connection.is_logging_in

    @property
    def has_failed(self) -> bool:
        """The last attempt to connect has led to nothing, or has not yet led to anything again."""
        return self._attempts > (self.connection is not None)

    @property
    def load(self) -> int:
        """Requests in flight."""
        return len(self.connection.in_flight) if self.connection else 0

    def has_timed_out(self, now_us: int) -> bool:
        """The oldest request waits longer than `request.timeout.ms`, or the connection is not
        ready within `socket.connection.setup.timeout.ms`, which grows (KIP-601).
        """
        if self.connection is None:
            return False
        if self.ready:
            in_flight = self.connection.in_flight
            oldest = in_flight[0] if in_flight else self.unwritten
            return oldest is not None and oldest.sent_us <= now_us - self._request_timeout_us
        return self._setup_until_us <= now_us

    def answered(self, frame: memoryview, now_us: int) -> tuple[InFlight, int]:
        """The request that a frame answers, and for how long it stood behind earlier ones.

        Raises ConnectionLostError for an answer to no request.
        """
        connection = self.connection
        assert connection is not None
        in_flight = connection.in_flight
        if not in_flight or in_flight[0].correlation_id != int.from_bytes(frame[:4], "big"):
            raise ConnectionLostError("an answer to no request")
        if len(in_flight) >= self._limit:
            self.window_open_us = now_us
        flight = in_flight.popleft()
        behind_us = max(0, connection.answered_us - flight.sent_us) if flight.ahead else 0
        connection.answered_us = now_us
        return flight, behind_us

    def connect(self, number: int) -> LoopConnection | None:
        """Begin to connect; None while the host's name is looked up. Raises ConnectionLostError.

        The first attempt after a connection that was ready is made at once; then they are
        `reconnect.backoff.ms` apart, which grows (Java's `ClusterConnectionStates`).
        """
        now_us = self._sockets.now_us()
        self.reconnect_us = now_us + self._reconnect.wait_us(self._attempts, random.random())
        self._setup_until_us = now_us + self._setup.wait_us(self._attempts, random.random())
        address = self._address
        self._attempts += 1  # also if it fails at once
        self._address += 1
        connection = self._sockets.connect(
            self.node.host, self.node.port, number, address, self._config.receive_buffer_bytes
        )
        if connection is None:
            self._attempts -= 1
            self._address = address
            self.reconnect_us = now_us
            return None
        self._watched = READ | WRITE
        self.connection = connection
        return connection

    def establish(self, now_us: int) -> None:
        """Go on with connecting; then the broker is asked for its API versions.

        Raises ConnectionLostError.
        """
        assert self.connection is not None
        self.connection.establish()
        if self.connection.connected:
            self.send_message(own_api_versions_request(), _API_VERSIONS_VERSION, now_us)
        self.watch()

    def finish_handshake(
        self, flight: InFlight, frame: memoryview, now_us: int
    ) -> ApiVersionsResponse:
        """Take the broker's API versions; the link is ready after it.

        Raises MalformedFrame for any error but that of the version, RefusedError when the broker
        speaks no version that kipctl does.
        """
        _, response = decode_response(ApiVersionsRequest, flight.api_version, frame)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = version_to_fall_back_to(response, _API_VERSIONS_VERSION)
            if version < flight.api_version:
                self.send_message(own_api_versions_request(), version, now_us)
                return response
        if response.error_code:
            raise MalformedFrame(f"ApiVersions was answered with error {response.error_code}")
        ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self.metadata_version = self.common_version(MetadataRequest, ranges)
        self._choose_versions(ranges)
        self._attempts = 0
        self._address -= 1
        self.ready = True
        self.ready_us = now_us
        return response

    def _choose_versions(self, ranges: ApiRanges) -> None:
        """The broker's API versions are known. Raises RefusedError if they do not do."""

    def common_version(
        self, request: type[Request[Any]], ranges: ApiRanges, before: int | None = None
    ) -> int:
        """The newest version that the broker and kipctl both speak, which is below `before`.

        Raises RefusedError.
        """
        low, high = request.api.versions
        if before is not None:
            high = min(high, before - 1)
        broker_low, broker_high = ranges.get(request.api.key, (0, -1))
        version = min(high, broker_high)
        if version < max(low, broker_low):
            raise RefusedError(
                f"Broker {self.node.id} at {host_port(self.node.host, self.node.port)} speaks "
                f"{request.__name__} {broker_low} to {broker_high}, kipctl {low} to {high}."
            )
        return version

    def send_message(
        self, request: Request[Any], version: int, now_us: int, subject: object = None
    ) -> None:
        """Encode and send a request. Raises ConnectionLostError."""
        assert self.connection is not None
        frame = encode_request(
            request, version, self.connection.next_correlation_id(), self._config.client_id
        )
        self.send([frame], len(frame), request.api.key, version, now_us, subject)

    def send(
        self,
        buffers: list[Buffer],
        size: int,
        api_key: int,
        version: int,
        now_us: int,
        subject: object,
        answered: bool = True,
    ) -> None:
        """Write a frame; `answered` is False for acks=0. Raises ConnectionLostError.

        What has no answer is `unwritten`, until somebody takes it from there.
        """
        connection = self.connection
        assert connection is not None
        in_flight = connection.in_flight
        number = connection.correlation_id
        ahead = len(in_flight)
        flight = InFlight(number, api_key, version, size, now_us, ahead, subject)
        if answered:
            in_flight.append(flight)
        else:
            self.unwritten = flight
        connection.send(buffers)
        self.watch()

    def watch(self) -> None:
        """Ask the loop to wake for writing just while there is something unwritten."""
        assert self.connection is not None
        wanted = READ | WRITE if self.connection.wants_write else READ
        if wanted != self._watched:
            self._sockets.watch(self.connection, wanted)
            self._watched = wanted

    def pop_written(self) -> InFlight | None:
        """The request that has no answer, once it is wholly written; it is told of once."""
        assert self.connection is not None
        if self.connection.wants_write:
            return None
        written, self.unwritten = self.unwritten, None
        return written

    def disconnect(self) -> list[InFlight]:
        """Close the connection; returns the requests that were in flight on it, or on their way."""
        if self.connection is None:
            return []
        lost = list(self.connection.in_flight)
        if self.unwritten:
            lost.append(self.unwritten)
            self.unwritten = None
        self.connection.close()
        self.connection = None
        self.ready = False
        self.is_throttled, self.throttled_until_us = False, 0
        return lost
