"""Which Kafka release a cluster runs, as far as its brokers report it."""

from kipctl.protocol.api_versions import own_api_versions_request
from kipctl.transport.request import Cluster

_FIRST_LEVEL = {
    "4.4": 31,
    "4.3": 30,
    "4.2": 28,
    "4.1": 26,
    "4.0": 22,
    "3.9": 21,
    "3.8": 20,
    "3.7": 15,
    "3.6": 12,
    "3.5": 9,
    "3.4": 8,
    "3.3": 4,
}
"""The first metadata.version of each release (Kafka's `MetadataVersion`), newest first."""


def release_of(metadata_version: int) -> str | None:
    """The release whose newest metadata.version this is; None before 3.3 and without KRaft."""
    return next((name for name, first in _FIRST_LEVEL.items() if metadata_version >= first), None)


def kafka_release(cluster: Cluster) -> str | None:
    """The release of the broker that answers, such as "4.3"; None when it is not known.

    No API names the release; the newest metadata.version that the broker supports gives it away.
    """
    answer = cluster.any_broker().request(own_api_versions_request())
    supported = {feature.name: feature.max_version for feature in answer.supported_features}
    return release_of(supported.get("metadata.version", 0))
