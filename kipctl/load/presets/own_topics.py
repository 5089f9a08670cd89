"""kipctl's own producer of many topics: it sends to the one that it was told last."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.produce.config import LEAST_IDLE_MS, ProducerConfig
from kipctl.probe.produce.many_topics import ManyTopicsProducer, Segment
from kipctl.probe.produce.payloads import random_values, variants
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.compression import Compression
from kipctl.protocol.produce_frames import Topic
from kipctl.transport.sockets import Sockets

_RATE, _SIZE = 50, 10
_AT_A_TIME = 5
"""So many records are sent before it looks for another topic."""


def send(
    server: Address,
    topics: Sequence[Topic],
    partitions: int,
    metadata_ms: int,
    told: Callable[[], str],
    is_over: Callable[[], bool],
    sockets: Sockets,
    folder: Path,
) -> None:
    """50 records a second to the topic that `told` names just then, until it is over.

    `metadata_ms` is its metadata.max.age.ms and its metadata.max.idle.ms.
    """
    config = ProducerConfig(
        acks=1,
        enable_idempotence=False,
        metadata_max_age_ms=metadata_ms,
        metadata_max_idle_ms=max(LEAST_IDLE_MS, metadata_ms),
    )
    choose = random.Random(0)
    values = random_values(_SIZE, choose, config.batch_size)
    batches = variants(values, config.batch_size, Compression.NONE, choose)
    names = [topic.name for topic in topics]
    with (
        closing(Tracing(folder, ProduceOutcome.datasets)) as tracing,
        closing(
            ManyTopicsProducer(
                config,
                TopicPolicy.KIP526,
                topics,
                partitions,
                batches,
                tracing,
                (-1, -1),
                sockets,
                [server],
            )
        ) as producer,
    ):
        producer.bootstrap(server)
        while not is_over():
            producer.send([Segment([names.index(told())], _AT_A_TIME, _RATE)])
