"""Which product answers, by what it answers; and what of kipctl does not work there.

Nothing in the protocol names a product: its cluster id, its brokers' names and the APIs that it
announces give it away. Of these Kafka and kfake run in the tests: what is said of the others is
from the sources beside it.
"""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple


class Product(StrEnum):
    """Brokers that speak Kafka's protocol; `KAFKA` is also what nothing tells from Kafka."""

    KAFKA = "Apache Kafka"
    REDPANDA = "Redpanda"
    AUTOMQ = "AutoMQ"
    MSK = "Amazon MSK"
    MSK_SERVERLESS = "Amazon MSK Serverless"
    CONFLUENT_CLOUD = "Confluent Cloud"
    WARPSTREAM = "WarpStream"
    EVENT_HUBS = "Azure Event Hubs"
    KFAKE = "kfake (franz-go's fake cluster)"


_BY_ID = (
    # redpanda: src/v/kafka/server/handlers/metadata.cc ("so that callers can identify which Kafka
    # implementation they're talking to")
    (re.compile(r"redpanda\..+"), Product.REDPANDA),
    # docs.confluent.io: logical clusters are named lkc-...
    (re.compile(r"lkc-[a-z0-9]+"), Product.CONFLUENT_CLOUD),
    # docs.warpstream.com: virtual clusters are named vci_...
    (re.compile(r"vci_[0-9a-f_]+"), Product.WARPSTREAM),
    # franz-go: pkg/kfake/cluster.go
    (re.compile("kfake"), Product.KFAKE),
)
_BY_HOST = (
    # docs.aws.amazon.com/msk: how bootstrap brokers are named
    (re.compile(r".+\.kafka-serverless\.[^.]+\.amazonaws\.com.*"), Product.MSK_SERVERLESS),
    (re.compile(r".+\.kafka\.[^.]+\.amazonaws\.com.*"), Product.MSK),
    (re.compile(r".+\.confluent\.cloud"), Product.CONFLUENT_CLOUD),
    (re.compile(r".+\.warpstream\.com"), Product.WARPSTREAM),
    (re.compile(r".+\.servicebus\.(windows|usgovcloudapi)\.net"), Product.EVENT_HUBS),
)
_OF_AUTOMQ = range(500, 700)
"""API keys of its own: streams from 501 on, its zone router 515, GetNextNodeId 600 (AutoMQ's
`ApiKeys`)."""


def product_of(cluster_id: str, hosts: Collection[str], apis: Collection[int]) -> Product:
    """By the cluster's id, its brokers' host names as Metadata has them, and the API keys that a
    broker announces.
    """
    for pattern, product in _BY_ID:
        if pattern.fullmatch(cluster_id):
            return product
    for pattern, product in _BY_HOST:
        if any(pattern.fullmatch(host.lower().rstrip(".")) for host in hosts):
            return product
    if any(key in _OF_AUTOMQ for key in apis):
        return Product.AUTOMQ
    return Product.KAFKA


class Limit(NamedTuple):
    """What a command, or all that begin with these words, cannot do there; and who says so."""

    commands: tuple[str, ...]
    what: str
    source: str


_REASSIGNS = ("reassign", "undo", "changes undo", "changes resume")
_LEADERS = ("inspect leaders", "inspect metadata", "wait", "elect", *_REASSIGNS)
_NO_LEADERS = "any agent serves any partition: leaders that are shown are not who has the data"
LIMITS: Mapping[Product, tuple[Limit, ...]] = {
    Product.KFAKE: (
        Limit(
            _REASSIGNS,
            "a reassignment is accepted and not carried out",
            "franz-go: pkg/kfake/45_alter_partition_assignments.go",
        ),
    ),
    Product.REDPANDA: (
        Limit(
            _REASSIGNS,
            "moving replicas does not move the leader, and throttles are refused",
            "redpanda-data/redpanda#9043",
        ),
    ),
    Product.AUTOMQ: (
        Limit(
            ("inspect hints", "tap"),
            "hints may have a zone router's endpoint and not the leader's",
            "AutoMQ/automq#3546",
        ),
        Limit(_REASSIGNS, "its own balancer may move partitions back", "AutoMQ/automq#867"),
    ),
    Product.MSK_SERVERLESS: (
        Limit(
            (*_REASSIGNS, "elect", "roll"),
            "it has no AlterPartitionReassignments, and places replicas itself",
            "segmentio/topicctl#69",
        ),
    ),
    Product.CONFLUENT_CLOUD: (
        Limit(
            (*_REASSIGNS, "elect", "roll", "request-log"),
            "nobody but Confluent may ALTER the cluster",
            "redpanda-data/kminion#313",
        ),
    ),
    Product.WARPSTREAM: (Limit(_LEADERS, _NO_LEADERS, "docs.warpstream.com: Service Discovery"),),
}


def limits(product: Product, command: str) -> list[str]:
    """Sentences on what the command, by its words, cannot do there."""
    return [
        f"{product}: {limit.what} ({limit.source})."
        for limit in LIMITS.get(product, ())
        if any(f"{command} ".startswith(f"{words} ") for words in limit.commands)
    ]
