"""A broker as the producer sees it: the partitions that wait for it, and how it is written to."""

from kipctl.probe.broker_link import ApiRanges, BrokerLink
from kipctl.probe.leadership import Node
from kipctl.probe.produce.batches import Partition
from kipctl.probe.produce.config import ProducerConfig
from kipctl.protocol.produce import ProduceRequest
from kipctl.protocol.produce_frames import FIRST_TOPIC_ID_VERSION, ProduceEncoder
from kipctl.transport.sockets import Sockets


class ProducerLink(BrokerLink):
    """`pending` are the partitions led by the broker that have something to send, in the order in
    which they asked. There is an `encoder` from the handshake on.
    """

    def __init__(
        self, node: Node, config: ProducerConfig, sockets: Sockets, names_only: bool = False
    ) -> None:
        """`names_only`: Metadata has told no topic ids, as before version 10 (gateways have such),
        so topics are named as they were before Produce 13."""
        super().__init__(node, config, sockets)
        self._named_before = FIRST_TOPIC_ID_VERSION if names_only else None
        self.pending: dict[Partition, None] = {}
        self.encoder: ProduceEncoder | None = None
        self._producer_config = config

    def _choose_versions(self, ranges: ApiRanges) -> None:
        config = self._producer_config
        self.encoder = ProduceEncoder(
            self.common_version(ProduceRequest, ranges, self._named_before),
            config.client_id,
            config.acks,
            config.request_timeout_ms,
        )
