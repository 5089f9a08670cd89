"""A broker as the consumer sees it: who is read from it, and the session that it remembers."""

from typing import NamedTuple

from kipctl.probe.broker_link import ApiRanges, BrokerLink
from kipctl.probe.config import ClientConfig
from kipctl.probe.consume.fetch_session import FetchPosition, FetchSession
from kipctl.probe.consume.positions import Partition, TopicIdPartition
from kipctl.probe.leadership import Node
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.fetch_frames import FIRST_TOPIC_ID_VERSION
from kipctl.protocol.list_offsets import ListOffsetsRequest
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kipctl.transport.sockets import Sockets


class ConsumerLink(BrokerLink):
    """`fetchable` are the partitions read from the broker; there is one Fetch at a time."""

    def __init__(
        self, node: Node, config: ClientConfig, sockets: Sockets, names_only: bool = False
    ) -> None:
        """`names_only`: Metadata has told no topic ids, as before version 10 (gateways have such),
        so topics are named as they were before Fetch 13."""
        super().__init__(node, config, sockets)
        self._named_before = FIRST_TOPIC_ID_VERSION if names_only else None
        self.fetchable: dict[Partition, None] = {}
        self.session: FetchSession[Partition | TopicIdPartition] = FetchSession()
        self.is_fetching = False
        self.fetched_us = 0
        """When the last Fetch was answered."""
        self.next_fetch_us = 0
        """No Fetch goes out before this: the broker has refused a whole one."""
        self.fetch_version = self.list_offsets_version = self.leader_epoch_version = 0

    def session_key(self, partition: Partition) -> Partition | TopicIdPartition:
        """The partition as the broker's session names it: by its topic's id, where there are ids.

        Then one of a topic that was made anew is another: it is told though it is wanted from the
        same offset, and the old one is forgotten (Java's `FetchSessionHandler`).
        """
        return (
            partition.topic_id_partition
            if self.fetch_version >= FIRST_TOPIC_ID_VERSION
            else partition
        )

    def _choose_versions(self, ranges: ApiRanges) -> None:
        self.fetch_version = self.common_version(FetchRequest, ranges, self._named_before)
        self.list_offsets_version = self.common_version(ListOffsetsRequest, ranges)
        self.leader_epoch_version = self.common_version(OffsetForLeaderEpochRequest, ranges)


class Asked(NamedTuple):
    """A partition that a broker was asked for, from which position, and when (microseconds)."""

    partition: Partition
    link: ConsumerLink
    want: FetchPosition
    sent_us: int = 0
