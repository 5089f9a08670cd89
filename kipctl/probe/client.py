"""What producer and consumer have in common: connections, leaders, and a row for each request."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import ClassVar, Generic

from kipctl.probe.config import ClientConfig
from kipctl.probe.health import Health
from kipctl.probe.idle_eviction import TopicsInUse
from kipctl.probe.leadership import LeaderDiscovery, Node
from kipctl.probe.metadata_updater import AnyPartition, MetadataCall, MetadataUpdater
from kipctl.probe.network import AnyLink, Network
from kipctl.probe.retries import Retries
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS, ErrorCode
from kipctl.protocol.metadata import MetadataResponse
from kipctl.trace.codes import MetadataCause
from kipctl.transport.loop_connection import InFlight
from kipctl.transport.sockets import Sockets

STALE_METADATA_ERRORS = LEADER_ERRORS | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""Errors after which every client asks for Metadata."""
TICK_US = 50_000
"""How often a client looks after what has no moment of its own: timeouts, the trace."""


class ProbeClient(Generic[AnyPartition, AnyLink]):
    """One thread, one connection per broker. Times are monotonic microseconds."""

    _baseline_backs_off: ClassVar[bool]
    """Whether a client of this kind waited out its backoff before KIP-951, although it knew a newer
    leader already."""

    def __init__(
        self,
        config: ClientConfig,
        discovery: LeaderDiscovery,
        partitions: Mapping[str, Sequence[AnyPartition]],
        make_link: Callable[[Node], AnyLink],
        tracing: Tracing,
        sockets: Sockets,
        bootstrap: Iterable[Address],
        should_stop: Callable[[], bool],
        topics_in_use: TopicsInUse | None = None,
    ) -> None:
        """`partitions` are those of each topic by name; `bootstrap` are the servers to begin with,
        and to return to; `should_stop` is asked every 50 ms or so. With a working set Metadata is
        asked for its topics, else for all.
        """
        self._tracing = tracing
        self._now_us = sockets.now_us
        self._network = Network(
            sockets, make_link, self._response_received, self._disconnected, self._written
        )
        self._metadata = MetadataUpdater(
            config,
            discovery,
            partitions,
            self._network,
            tracing,
            self._leader_changed,
            self._topic_recreated,
            bootstrap,
            topics_in_use,
        )
        self._retries = Retries(
            config,
            discovery,
            tracing,
            self._baseline_backs_off and discovery is LeaderDiscovery.BASELINE,
        )
        self.errors: Counter[str] = Counter()
        """What failed, by the error's name."""
        self._should_stop = should_stop
        self._next_tick_us = 0

    def apply_first_metadata(self, response: MetadataResponse, version: int) -> None:
        """Take the Metadata answer, of that version, that the run starts with."""
        self._metadata.apply_first(response, version, self._now_us())

    @property
    def endpoints(self) -> Iterable[str]:
        """The endpoints that hints have named, by their number in the trace."""
        return self._retries.endpoints

    def health(self, start_us: int) -> Health:
        """What became of topics, and how well the client itself went on since then."""
        lags = self._network.lags_us
        return Health(
            self._network.throttle_ms,
            tuple(
                f"Topic {change}, as Metadata showed after {(seen_us - start_us) / 1e6:.1f} s."
                for change, seen_us in self._metadata.topic_changes.items()
            ),
            _quantile(lags, 0.5),
            _quantile(lags, 0.99),
            max(lags, default=0),
            len(self._network.reauthentications_us),
            max(self._network.reauthentications_us, default=0),
            tuple(self._network.failures.most_common()),
            tuple(self._metadata.hinted_elsewhere.most_common()),
        )

    def close(self) -> None:
        """Close every connection."""
        self._network.close()

    def _tick(self, now: int) -> None:
        """What is looked after now and then: timeouts, logins, the trace, whether to stop."""
        self._next_tick_us = now + TICK_US
        self._network.disconnect_timed_out()
        self._network.keep_authenticated()
        if self._tracing.flush(now):
            gc.collect()  # what failed connections leave: it is little, and has days to grow
        if self._should_stop():
            self.stop()

    # --- what each client does in its own way ---

    def stop(self) -> None:
        """Begin nothing more."""
        raise NotImplementedError

    def _leader_changed(self, partition: AnyPartition) -> None:
        """`MetadataUpdater`'s on_leader_changed."""
        raise NotImplementedError

    def _topic_recreated(self, partitions: Sequence[AnyPartition]) -> None:
        """`MetadataUpdater`'s on_recreated."""
        raise NotImplementedError

    def _handle_response(
        self, link: AnyLink, flight: InFlight, frame: memoryview, now: int
    ) -> tuple[int, int]:
        """Take an answer; returns its error and its number of topics. Raises MalformedFrame."""
        raise NotImplementedError

    def _written(self, link: AnyLink, flight: InFlight) -> None:
        """A request that has no answer is wholly written (`Network`'s on_written)."""
        raise NotImplementedError

    def _handle_request_lost(self, link: AnyLink, flight: InFlight, now: int) -> int:
        """A request was lost with its connection; returns its number of topics."""
        raise NotImplementedError

    # --- answers and losses ---

    def _response_received(
        self, link: AnyLink, flight: InFlight, frame: memoryview, now: int, behind_us: int
    ) -> None:
        """An answer came (`Network`'s on_answer). Raises MalformedFrame."""
        if flight.api_key == ApiKey.METADATA:
            self._metadata.handle_response(flight, frame, now, behind_us)
            return
        assert link.connection is not None
        number = link.connection.number
        if flight.api_key == ApiKey.API_VERSIONS:
            error, topics = link.finish_handshake(flight, frame, now).error_code, 0
        else:
            error, topics = self._handle_response(link, flight, frame, now)
        size = len(frame) + 4
        self._tracing.rpc(link.node.id, number, flight, now, size, behind_us, topics, error)

    def _disconnected(self, link: AnyLink, number: int, flights: list[InFlight], now: int) -> None:
        """A connection is gone (`Network`'s on_lost): what was in flight on it is tried again."""
        self._metadata.request_update(MetadataCause.ERROR_RETRY)
        for flight in flights:
            if isinstance(flight.subject, MetadataCall):
                self._metadata.handle_disconnect(flight.subject, now)
                continue
            topics = 0
            if flight.api_key != ApiKey.API_VERSIONS:
                topics = self._handle_request_lost(link, flight, now)
            error = ErrorCode.NETWORK_EXCEPTION
            self._tracing.rpc(link.node.id, number, flight, 0, 0, 0, topics, error)


def _quantile(counts: Mapping[int, int], q: float) -> int:
    """The nearest-rank quantile of values that occurred so often; 0 if there are none."""
    rank = max(1, ceil(round(q * sum(counts.values()), 6)))
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return 0
