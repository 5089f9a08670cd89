"""A broker as the consumer sees it: who is read from it, and the session that it remembers."""

from kipctl.probe.config import ClientConfig
from kipctl.probe.consume.positions import Partition
from kipctl.probe.consume.session import FetchSession
from kipctl.probe.leadership import Node
from kipctl.probe.links import ApiRanges, Link
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.list_offsets import ListOffsetsRequest
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kipctl.transport.sockets import Sockets


class ConsumerLink(Link):
    """`readers` are the partitions that are read from the broker; there is one Fetch at a time."""

    def __init__(self, node: Node, config: ClientConfig, sockets: Sockets) -> None:
        super().__init__(node, config, sockets)
        self.readers: dict[Partition, None] = {}
        self.session: FetchSession[Partition] = FetchSession()
        self.is_fetching = False
        self.fetched_us = 0
        """When the last Fetch was answered."""
        self.not_before_us = 0
        """No Fetch goes out before this: the broker has refused a whole one."""
        self.fetch_version = self.list_offsets_version = self.leader_epoch_version = 0

    def _settle_versions(self, ranges: ApiRanges) -> None:
        self.fetch_version = self.common(FetchRequest, ranges)
        self.list_offsets_version = self.common(ListOffsetsRequest, ranges)
        self.leader_epoch_version = self.common(OffsetForLeaderEpochRequest, ranges)
