"""Metadata of one topic, as a broker shows it."""

from collections.abc import Mapping
from uuid import UUID

from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def metadata_of(
    *leaders: tuple[int, int],
    ports: Mapping[int, int] | None = None,
    replicas: tuple[int, ...] = (),
    topic_id: UUID = ZERO_UUID,
    error: int = 0,
) -> MetadataResponse:
    """Of partitions from 0 up with (leader, epoch) each; all have these replicas, in sync.

    `ports` are those of brokers on loopback.
    """
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(id, "127.0.0.1", port) for id, port in (ports or {}).items()
        ),
        topics=(
            MetadataResponseTopic(
                *(error, "t", topic_id),
                partitions=tuple(
                    MetadataResponsePartition(0, index, leader, epoch, replicas, replicas)
                    for index, (leader, epoch) in enumerate(leaders)
                ),
            ),
        ),
    )
