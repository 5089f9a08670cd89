"""The Fetches under way: at most one at a broker, each in the broker's session."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from kipctl.probe.consume.broker_link import ConsumerLink
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.fetch_retries import FetchRetries
from kipctl.probe.consume.fetch_session import FetchPosition
from kipctl.probe.consume.offset_fetcher import PositionCall
from kipctl.probe.consume.positions import Partition
from kipctl.probe.consume.requests import fetch_request
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.network import Network
from kipctl.transport.loop_connection import ConnectionLostError

_CLOSE_US = 1_000_000
"""How long the end waits for brokers to close their sessions."""


@dataclass(frozen=True, slots=True)
class FetchCall:
    """A Fetch under way: what the session reads for us with it."""

    wanted: dict[Partition, FetchPosition]


class Fetches:
    """Asks brokers for what is fetchable from them."""

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: MetadataUpdater[Partition, ConsumerLink],
        network: Network[ConsumerLink],
        retries: FetchRetries,
        now_us: Callable[[], int],
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._network = network
        self._retries = retries
        self._now_us = now_us

    def send_all(self) -> None:
        """Ask each broker that is not being asked yet."""
        for link in self._network.links:
            # Not before a link's loss, which may just have sent its partitions here.
            now = self._now_us()
            if link.fetchable and not link.is_fetching and now >= link.next_fetch_us:
                self._send(link, now)

    def _send(self, link: ConsumerLink, now: int) -> None:
        if not self._network.ensure_connected(link) or not link.may_send:
            return
        epoch = self._metadata.epoch
        wanted = {p: FetchPosition(p.offset, epoch(p)) for p in link.fetchable}
        for partition, want in wanted.items():
            self._retries.retried(partition, link, want.leader_epoch, now)
        asked = link.session.next_request({link.session_key(p): want for p, want in wanted.items()})
        request = fetch_request(self._config, asked)
        link.is_fetching = True
        try:
            link.send_message(request, link.fetch_version, now, FetchCall(wanted))
        except ConnectionLostError:
            self._network.disconnect(link)

    def calls(self) -> Iterator[FetchCall | PositionCall]:
        """What brokers were asked of partitions, and have not answered."""
        for link in self._network.links:
            for flight in link.connection.in_flight if link.connection else ():
                if isinstance(flight.subject, FetchCall | PositionCall):
                    yield flight.subject

    def is_wanted_of(self, epoch: int, partition: Partition) -> bool:
        """Whether a Fetch under way is to a leader of this epoch."""
        return any(
            (want := call.wanted.get(partition)) and want.leader_epoch == epoch
            for call in self.calls()
            if isinstance(call, FetchCall)
        )

    def close_sessions(self) -> None:
        """Close the sessions that brokers keep for us.

        Else they keep them until others need the room (KIP-227; Java's
        `AbstractFetch.prepareCloseFetchSessionRequests`). A Fetch that waits at a broker is waited
        for: brokers read a connection's next request after they have answered.
        """
        now, told = self._now_us(), []
        for link in self._network.links:
            asked = link.session.closing_request()
            if asked is not None and link.may_send:
                with suppress(ConnectionLostError):  # then it is closed with the connection
                    link.send_message(fetch_request(self._config, asked), link.fetch_version, now)
                    told.append(link)
        self._network.finish(told, now + _CLOSE_US)
