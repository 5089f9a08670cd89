"""Blocking connections for admin calls: to one broker, and to a whole cluster."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Self, TypeVar, cast

from kipctl.errors import KipctlError, RefusedError, TimedOutError, UnreachableError
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey, decode_response, encode_request
from kipctl.protocol.api_versions import own_api_versions_request, version_to_fall_back_to
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.protocol.message import R, Request, Response
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    metadata_request,
)
from kipctl.protocol.primitives import INT32, MalformedFrame
from kipctl.protocol.produce import ProduceRequest
from kipctl.transport.access import Access, as_access
from kipctl.transport.blocking_connection import BlockingConnection, TlsError
from kipctl.transport.product import product_of

T = TypeVar("T")
_MOST_SHOWN = 3
_CHANGES = frozenset(
    {
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)
"""What a protected cluster is asked with the user's consent only."""
_NEGOTIATION_VERSION = 4
"""Of ApiVersions: what 5 adds is not used, and brokers before Kafka 4.4 would refuse it."""
_CHECK_ADDRESS = "Check the address, and that the broker is running."


class BrokerConnection:
    """A connection to one broker, one request at a time, opened when first needed.

    It negotiates versions once per connection. After any failure it is closed, and the next
    request opens a new one. `timeout_s` is for a whole request, connecting included. `sent` counts
    the requests by API and version, those that negotiate versions too; `answer_bytes` is the size
    of the last answer.
    """

    def __init__(
        self, host: str, port: int, client_id: str, timeout_s: float, access: Access | str = ""
    ) -> None:
        """`access` is that of its cluster."""
        self.address = Address(host, port)
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.sent: Counter[tuple[str, int]] = Counter()
        self.answer_bytes = 0
        self.access = as_access(access)
        self._connection: BlockingConnection | None = None
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
        if self._connection is not None:
            self._connection.close()
            self._connection = None

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
        if request.api.key in _CHANGES:
            self.access.require_consent(_api_name(request))
        with self._attempt(_api_name(request)):
            self._ensure_connected()
            return self._exchange(request, self._choose_version(request, version))

    def metadata_frame(self, request: MetadataRequest) -> tuple[int, bytes]:
        """The version asked in, and the answer as it came, for `read_metadata`.

        What is asked of many brokers again and again is not to be decoded in full each time.
        Raises what `request` does.
        """
        with self._attempt(_api_name(request)):
            self._ensure_connected()
            version = self._choose_version(request, None)
            return version, self._answer(request, version)

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
                        "Check that this is the port of a Kafka broker's listener for clients.",
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
                        self._what_to_check(error),
                    ) from error
            raise

    def _what_to_check(self, error: OSError) -> str:
        if isinstance(error, TlsError):
            return "See security.protocol and ssl.* in --command-config."
        servers = self.access.bootstrap if str(self.access) else [self.address]
        if isinstance(error, socket.gaierror) and self.address not in servers:
            return f"Behind a tunnel say where it is reached: --map {self.address}=HOST:PORT"
        security = self.access.security
        unused = [] if security.tls else ["TLS"]
        unused += [] if security.sasl else ["a login (SASL)"]
        if isinstance(error, ConnectionResetError) and unused:
            asked = " or ".join(unused)
            return f"Check that the broker runs, and whether the listener asks for {asked}."
        return _CHECK_ADDRESS

    def _ensure_connected(self) -> None:
        if self._connection is not None and self._connection.is_over():
            self.close()
        if self._connection is not None:
            return
        self._connection = BlockingConnection(self.address, self.access, self._deadline)
        self._negotiate()

    def _negotiate(self) -> None:
        request = own_api_versions_request()
        version = highest = _NEGOTIATION_VERSION
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
                "It may be a controller: name a broker. A newer Kafka, or another listener, may.",
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
        return self._decoded(request, version, self._answer(request, version))

    def _answer(self, request: Request[R], version: int) -> bytes:
        """The frame that answers, from its correlation id on."""
        assert self._connection is not None
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, self.client_id)
        self.sent[_api_name(request), version] += 1
        answer = self._connection.exchange(frame, self._deadline)
        self.answer_bytes = len(answer)
        (correlation_id,) = INT32.unpack_from(answer)
        if correlation_id != self._correlation_id:
            raise MalformedFrame(
                f"answer to request {correlation_id} where {self._correlation_id} was asked"
            )
        return answer

    def _decoded(self, request: Request[R], version: int, frame: bytes) -> R:
        """The answer in the frame: the last one itself if every byte of it is the same."""
        asked = (type(request), version, frame[INT32.size :])
        if self._last is None or self._last[:3] != asked:
            _, response = decode_response(type(request), version, frame)
            self._last = (*asked, response)
        return cast(R, self._last[3])


def _forwarded(connection: BrokerConnection, request: Request[R]) -> R:
    """The answer to a request that brokers forward to the controller.

    A broker that has just started announces its own versions of it. With the first that it forwards
    it learns those of the controller, which may be of an older release: it hangs up on a version
    that is too new, and announces the controller's from then on. Nothing was done then.
    """
    announced = connection.api_versions.get(request.api.key)
    try:
        return connection.request(request)
    except UnreachableError:
        now = announced
        with suppress(KipctlError):
            now = connection.api_versions.get(request.api.key)
        if now == announced:
            raise
        return connection.request(request)


def _is_elsewhere(response: Response) -> bool:
    """Whether it was not the controller that answered; some APIs say so topic by topic."""
    each = getattr(response, "topics", ()) or getattr(response, "responses", ())
    codes = {getattr(part, "error_code", 0) for part in (response, *each)}
    return ErrorCode.NOT_CONTROLLER in codes


def _summary(failures: list[KipctlError]) -> str:
    """The first few of them: of many servers one cause is said often enough."""
    shown = " ".join(error.what for error in failures[:_MOST_SHOWN])
    more = len(failures) - _MOST_SHOWN
    return f"{shown} And {more} more." if more > 0 else shown


def _api_name(request: Request[R]) -> str:
    return type(request).__name__.removesuffix("Request")


class Cluster:
    """A cluster behind its bootstrap servers: a connection to each broker, opened when needed.

    Not for several threads at once.
    """

    def __init__(
        self, access: Access | str, client_id: str = "kipctl", timeout_s: float = 30.0
    ) -> None:
        """Bootstrap servers alone are an unsecured cluster's. Raises UsageError."""
        self.access = as_access(access)
        self.bootstrap = self.access.bootstrap
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.controller_id = -1
        self._nodes: dict[int, MetadataResponseBroker] = {}
        self._connections: dict[Address, BrokerConnection] = {}
        self._passed_over: set[int] = set()
        """Brokers named as controller that did not answer; each attempt costs the time-out."""

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
        request = metadata_request(topics)
        response, apis = self._from_any(
            lambda connection: (connection.request(request), connection.api_versions)
        )
        if response.error_code:
            raise RefusedError(
                f"The cluster refuses Metadata: {error_text(response.error_code)}.",
                "Try again; if it stays, look into the brokers' logs.",
            )
        cluster_id = response.cluster_id or ""
        hosts = [broker.host for broker in response.brokers]
        self.access.identify(cluster_id)
        self.access.products.add(product_of(cluster_id, hosts, apis))
        self._nodes = {broker.node_id: broker for broker in response.brokers}
        self.access.brokers.clear()
        self.access.brokers.update(
            (broker.node_id, Address(broker.host, broker.port)) for broker in response.brokers
        )
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
        named one does not answer, another that does is as good, and it is not tried again unless a
        broker says that it is not the controller.
        """
        if self.controller_id not in self.nodes:
            self.metadata(())
        if self.controller_id in self.nodes.keys() - self._passed_over:
            connection = self.broker(self.controller_id)
            try:
                _ = connection.api_versions
                return connection
            except (UnreachableError, TimedOutError):
                self._passed_over.add(self.controller_id)
        return self.any_broker()

    def ask_controller(self, request: Request[R]) -> R:
        """The controller's answer; it is looked up again, once, when it turns out to have moved."""
        response = _forwarded(self.controller(), request)
        if _is_elsewhere(response):
            self._passed_over.clear()
            self.metadata(())
            response = _forwarded(self.controller(), request)
        return response

    def _from_any(self, ask: Callable[[BrokerConnection], T]) -> T:
        """What the first broker that answers says: of those in use, those known, the bootstrap."""
        known = [Address(node.host, node.port) for node in self._nodes.values()]
        in_use = [address for address in self._connections if address in {*known, *self.bootstrap}]
        failures: list[KipctlError] = []
        for address in dict.fromkeys([*in_use, *known, *self.bootstrap]):
            try:
                return ask(self._connection(address))
            except (UnreachableError, TimedOutError, MalformedFrame) as error:
                failures.append(error)
                self._connections.pop(address).close()
        hints = {error.next_step for error in failures}
        raise UnreachableError(
            f"No broker answered. {_summary(failures)}",
            hints.pop()
            if len(hints) == 1 and _CHECK_ADDRESS not in hints
            else "Check --bootstrap-server, and that the cluster is running.",
        )

    def _connection(self, address: Address) -> BrokerConnection:
        if address not in self._connections:
            self._connections[address] = BrokerConnection(
                *address, self.client_id, self.timeout_s, self.access
            )
        return self._connections[address]
