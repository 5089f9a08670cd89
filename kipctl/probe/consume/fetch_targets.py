"""From which broker each partition is read, and from when on."""

from collections.abc import Callable, Iterable

from kipctl.probe.consume.broker_link import ConsumerLink
from kipctl.probe.consume.positions import Partition, State
from kipctl.probe.metadata_refresh import NEVER_US
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.network import Network
from kipctl.trace.codes import MetadataCause


class FetchTargets:
    """Puts partitions where their state and their choice of a replica want them.

    One that is READY is fetchable over a link, one that is neither that nor FAILED is handed
    to who settles positions, and one that waits for its backoff is nowhere until that is over.
    Times are microseconds (monotonic).
    """

    def __init__(
        self,
        assigned: Iterable[Partition],
        metadata: MetadataUpdater[Partition, ConsumerLink],
        network: Network[ConsumerLink],
        settle_position: Callable[[Partition], None],
    ) -> None:
        self.assigned = dict.fromkeys(assigned)
        self.wake_us = NEVER_US
        """When the next backoff is over."""
        self._metadata = metadata
        self._network = network
        self._settle_position = settle_position
        self._link_of: dict[Partition, ConsumerLink] = {}

    def is_fetched_from(self, partition: Partition, link: ConsumerLink) -> bool:
        """Whether it is fetchable over that link."""
        return self._link_of.get(partition) is link

    def place(self, partition: Partition, now_us: int) -> None:
        """Put it where its state wants it: fetchable over a link, or to be positioned."""
        link = self._link_of.pop(partition, None)
        if link is not None:
            link.fetchable.pop(partition, None)
        if partition.retry_us or partition not in self.assigned:
            return
        if partition.state is not State.READY:
            if partition.state is not State.FAILED:
                self._settle_position(partition)
            return
        link = self._link_to_read(partition, now_us)
        if link is None:
            self._metadata.request_update(MetadataCause.LEADER_CHANGE)
            return
        self._link_of[partition] = link
        link.fetchable[partition] = None

    def back_off(self, partition: Partition, until_us: int) -> None:
        """It is not read before that; `place` takes it away from where it is."""
        partition.retry_us = until_us
        self.wake_us = min(self.wake_us, until_us)

    def end_backoffs(self, now_us: int) -> None:
        """Partitions whose backoff is over are read again."""
        for partition in self.assigned:
            if 0 < partition.retry_us <= now_us:
                partition.retry_us = 0
                self.place(partition, now_us)
        waiting = (p.retry_us for p in self.assigned if p.retry_us)
        self.wake_us = min(waiting, default=NEVER_US)

    def refresh(self, now_us: int) -> None:
        """Leases end, and brokers come and go, without a word about the partition itself."""
        for partition in self.assigned:
            if partition.state is State.READY and not partition.retry_us:
                link = self._link_to_read(partition, now_us)
                if link is None or not self.is_fetched_from(partition, link):
                    self.place(partition, now_us)

    def _link_to_read(self, partition: Partition, now_us: int) -> ConsumerLink | None:
        """The link to the broker to read it from, None while it has no leader."""
        leader = self._metadata.link(partition)
        if leader is None:
            return None
        nodes = self._metadata.nodes
        replica = partition.preferred_replica.broker_to_read(leader.node.id, nodes, now_us)
        return leader if replica == leader.node.id else self._network.link(nodes[replica])
