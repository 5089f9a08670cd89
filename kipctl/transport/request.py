"""Blocking connections for admin calls: to one broker, and to a whole cluster."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Self, TypeVar, cast

from kipctl import __version__
from kipctl.errors import RefusedError, TimedOutError, UnreachableError, UsageError
from kipctl.protocol.address import Address
from kipctl.protocol.api import LARGEST_FRAME, decode_response, encode_request
from kipctl.protocol.api_versions import ApiVersionsRequest, version_to_fall_back_to
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.protocol.message import R, Request
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from kipctl.protocol.primitives import INT32, MalformedFrame
from kipctl.protocol.produce import ProduceRequest

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
"""Seconds for opening a connection, as Java's socket.connection.setup.timeout.ms."""


def parse_bootstrap_servers(text: str) -> list[Address]:
    """The addresses in `host:port,host:port`; IPv6 in brackets. Raises `UsageError`."""
    addresses = []
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if bracketed:
            host = host[1:-1]
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536) or (
            not bracketed and any(character in host for character in ":/[]")
        ):
            raise UsageError(
                f"Bad bootstrap server {part.strip()!r} in {text!r}.",
                "Write host:port, separated by commas; an IPv6 address as [::1]:9092.",
            )
        addresses.append(Address(host, int(port)))
    return addresses


def open_socket(address: Address, timeout_s: float) -> socket.socket:
    """A connected socket. This is the one place that opens any: TLS and SASL begin here."""
    connected = socket.create_connection(address, timeout_s)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


class BrokerConnection:
    """A connection to one broker, one request at a time, opened when first needed.

    It negotiates versions once per connection. After any failure it is closed, and the next
    request opens a new one. `timeout_s` is for a whole request, connecting included. `sent` counts
    the requests by API and version, those that negotiate versions too.
    """

    def __init__(self, host: str, port: int, client_id: str, timeout_s: float) -> None:
        self.address = Address(host, port)
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.sent: Counter[tuple[str, int]] = Counter()
        self._socket: socket.socket | None = None
        self._api_versions: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._deadline = 0.0
        self._last: tuple[type[object], int, bytes, object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Lowest and highest version per API key, as this broker announces them."""
        with self._attempt("ApiVersions"):
            self._ensure_connected()
        return self._api_versions

    def request(self, request: Request[R], version: int | None = None) -> R:
        """Send a request and return its answer; by default in the highest version both sides know.

        To be asked the same again and again costs little: an answer that is, byte for byte, the
        last one is not decoded again, but is the same object.

        Raises `RefusedError` when the broker does not know the version, `UnreachableError` when it
        cannot be reached or hangs up, `TimedOutError`, and `MalformedFrame`.
        """
        if isinstance(request, ProduceRequest) and request.acks == 0:
            raise ValueError("a Produce request with acks=0 has no answer to wait for")
        with self._attempt(_api_name(request)):
            self._ensure_connected()
            return self._exchange(request, self._choose_version(request, version))

    @contextmanager
    def _attempt(self, api: str) -> Iterator[None]:
        """One request with its deadline: whatever fails is named, and closes the connection."""
        self._deadline = time.monotonic() + self.timeout_s
        try:
            yield
        except RefusedError:
            raise  # nothing was sent
        except BaseException as error:
            self.close()
            match error:
                case MalformedFrame():
                    raise MalformedFrame(
                        f"Broker {self.address} sent a malformed frame: {error.what}.",
                        "Check that this is the port of a Kafka broker's plaintext listener.",
                    ) from None
                case TimeoutError():
                    raise TimedOutError(
                        f"Broker {self.address} did not answer {api} in {self.timeout_s:g} s.",
                        "Check that the broker is not overloaded or paused.",
                    ) from None
                case OSError():
                    raise UnreachableError(
                        f"Broker {self.address} cannot be reached for {api}:"
                        f" {error.strerror or error}.",
                        "Check the address, and that the broker is running.",
                    ) from None
            raise

    def _ensure_connected(self) -> None:
        if self._socket is not None and _has_hung_up(self._socket):
            self.close()
        if self._socket is not None:
            return
        try:
            self._socket = open_socket(self.address, min(self._left(), CONNECT_TIMEOUT_S))
        except TimeoutError:
            raise OSError("no answer to the attempt to connect") from None
        self._negotiate()

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(
            client_software_name="kipctl", client_software_version=__version__
        )
        version = highest = request.api.versions[1]
        response = self._exchange(request, version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = version_to_fall_back_to(response, highest)
            response = self._exchange(request, version)
        if response.error_code:
            self.close()
            raise RefusedError(
                f"Broker {self.address} refuses ApiVersions: {error_text(response.error_code)}.",
                "The listener may ask for authentication, or be none for clients.",
            )
        self._api_versions = {
            api.api_key: (api.min_version, api.max_version) for api in response.api_keys
        }

    def _choose_version(self, request: Request[R], version: int | None) -> int:
        api = _api_name(request)
        if request.api.key not in self._api_versions:
            raise RefusedError(
                f"Broker {self.address} does not know the API {api}.",
                "A newer Kafka, or another listener, may.",
            )
        low, high = self._api_versions[request.api.key]
        first, last = request.api.versions
        if version is None and max(low, first) <= min(high, last):
            return min(high, last)
        if version is not None and low <= version <= high:
            return version
        wanted = f"kipctl {first} to {last}" if version is None else f"asked was {version}"
        raise RefusedError(
            f"Broker {self.address} knows {api} in versions {low} to {high}, {wanted}.",
            "Use a version of Kafka, or of kipctl, that fits the other.",
        )

    def _exchange(self, request: Request[R], version: int) -> R:
        assert self._socket is not None
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, self.client_id)
        self._socket.settimeout(self._left())
        self._socket.sendall(frame)
        self.sent[_api_name(request), version] += 1
        (size,) = INT32.unpack(self._receive(4))
        if not 4 <= size <= LARGEST_FRAME:
            raise MalformedFrame(f"length {size}")
        return self._decoded(request, version, self._receive(size))

    def _decoded(self, request: Request[R], version: int, frame: bytes) -> R:
        """The answer in the frame: the last one itself if every byte of it is the same."""
        (correlation_id,) = INT32.unpack_from(frame)
        if correlation_id != self._correlation_id:
            raise MalformedFrame(
                f"answer to request {correlation_id} where {self._correlation_id} was asked"
            )
        asked = (type(request), version, frame[INT32.size :])
        if self._last is None or self._last[:3] != asked:
            _, response = decode_response(type(request), version, frame)
            self._last = (*asked, response)
        return cast(R, self._last[3])

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        received = bytearray()
        while len(received) < size:
            self._socket.settimeout(self._left())
            chunk = self._socket.recv(min(size - len(received), 1 << 18))
            if not chunk:
                raise OSError("it closed the connection instead of answering")
            received += chunk
        return bytes(received)

    def _left(self) -> float:
        """Seconds until the deadline; raises `TimeoutError` when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _api_name(request: Request[R]) -> str:
    return type(request).__name__.removesuffix("Request")


def _has_hung_up(connected: socket.socket) -> bool:
    """Whether the peer closed an idle connection (or, out of turn, sent something)."""
    connected.setblocking(False)
    try:
        connected.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


class Cluster:
    """A cluster behind its bootstrap servers: a connection to each broker, opened when needed.

    Not for several threads at once.
    """

    def __init__(
        self, bootstrap_servers: str, client_id: str = "kipctl", timeout_s: float = 30.0
    ) -> None:
        self.bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.controller_id = -1
        self._nodes: dict[int, MetadataResponseBroker] = {}
        self._connections: dict[Address, BrokerConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()

    @property
    def nodes(self) -> dict[int, MetadataResponseBroker]:
        """The brokers by id, as the last Metadata answer showed them."""
        if not self._nodes:
            self.metadata(())
        return self._nodes

    def metadata(self, topics: Iterable[str] | None = None) -> MetadataResponse:
        """Metadata of these topics (None: of all), from the first broker that answers.

        Creates no topic. Raises `UnreachableError` when no broker answers.
        """
        request = MetadataRequest(
            topics=None
            if topics is None
            else tuple(MetadataRequestTopic(name=topic) for topic in topics),
            allow_auto_topic_creation=False,
        )
        response = self._from_any(lambda connection: connection.request(request))
        if response.error_code:
            raise RefusedError(
                f"The cluster refuses Metadata: {error_text(response.error_code)}.",
                "Try again; if it stays, look into the brokers' logs.",
            )
        self._nodes = {broker.node_id: broker for broker in response.brokers}
        self.controller_id = response.controller_id
        return response

    def any_broker(self) -> BrokerConnection:
        """A connection to a broker that answers. Raises `UnreachableError` when none does."""

        def answering(connection: BrokerConnection) -> BrokerConnection:
            _ = connection.api_versions
            return connection

        return self._from_any(answering)

    def broker(self, node_id: int) -> BrokerConnection:
        """The connection to a broker, opened by its first request."""
        if node_id not in self.nodes:
            self.metadata(())
        if node_id not in self.nodes:
            alive = ", ".join(map(str, sorted(self.nodes))) or "none"
            raise UnreachableError(
                f"Broker {node_id} is not in the cluster's Metadata (alive: {alive}).",
                "Check the id, and that the broker is running.",
            )
        node = self.nodes[node_id]
        return self._connection(Address(node.host, node.port))

    def controller(self) -> BrokerConnection:
        """A connection, already open, to the broker to send changes to.

        In KRaft that is any broker: Metadata names one at random, and it forwards. So when the
        named one does not answer, another that does is as good.
        """
        if self.controller_id not in self.nodes:
            self.metadata(())
        if self.controller_id in self.nodes:
            connection = self.broker(self.controller_id)
            with suppress(UnreachableError, TimedOutError):
                _ = connection.api_versions
                return connection
        return self.any_broker()

    def ask_controller(self, request: Request[R]) -> R:
        """The controller's answer; it is looked up again, once, when it turns out to have moved."""
        response = self.controller().request(request)
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
            self.metadata(())
            response = self.controller().request(request)
        return response

    def _from_any(self, ask: Callable[[BrokerConnection], T]) -> T:
        """What the first broker that answers says: of those in use, those known, the bootstrap."""
        known = [Address(node.host, node.port) for node in self._nodes.values()]
        in_use = [address for address in self._connections if address in {*known, *self.bootstrap}]
        failures = []
        for address in dict.fromkeys([*in_use, *known, *self.bootstrap]):
            try:
                return ask(self._connection(address))
            except (UnreachableError, TimedOutError, MalformedFrame) as error:
                failures.append(error.what)
                self._connections.pop(address).close()
        raise UnreachableError(
            f"No broker answered. {' '.join(failures)}",
            "Check --bootstrap-server, and that the cluster is running.",
        )

    def _connection(self, address: Address) -> BrokerConnection:
        if address not in self._connections:
            self._connections[address] = BrokerConnection(*address, self.client_id, self.timeout_s)
        return self._connections[address]
