"""The size of a Metadata answer on the wire, from its JSON: the log does not report it.

The fields and the versions they came with are those of Kafka's MetadataResponse.json; from version
9 on lengths are varints and every structure ends with its tagged fields, of which there are none.
"""

from collections.abc import Sequence

from kipctl.pipeline.request_lines.requests import (
    MetadataAnswer,
    MetadataPartition,
    MetadataTopic,
    Node,
)


def metadata_answer_bytes(answer: MetadataAnswer, version: int) -> int:
    """The bytes of a Metadata answer with its 4-byte length, header and body."""
    is_flexible = version >= 9
    tags = 1 if is_flexible else 0

    def length(count: int) -> int:
        """Of a length field: 4 bytes, or a varint of the length plus one."""
        return _varint(count + 1) if is_flexible else 4

    def string(text: str | None) -> int:
        size = len(text.encode()) if text else 0
        return size + ((_varint(size + 1) if text is not None else 1) if is_flexible else 2)

    def ids(replicas: Sequence[int] | None) -> int:
        count = len(replicas or ())
        return length(count) + 4 * count

    def broker(node: Node) -> int:
        return 8 + string(node.host) + (string(node.rack) if version >= 1 else 0) + tags

    def partition(entry: MetadataPartition) -> int:
        offline = ids(entry.offline_replicas) if version >= 5 else 0
        epoch = 4 if version >= 7 else 0
        return 10 + epoch + ids(entry.replica_nodes) + ids(entry.isr_nodes) + offline + tags

    def topic(entry: MetadataTopic) -> int:
        partitions = entry.partitions or ()
        flags = (
            (16 if version >= 10 else 0) + (1 if version >= 1 else 0) + (4 if version >= 8 else 0)
        )
        sizes = length(len(partitions)) + sum(map(partition, partitions))
        return 2 + string(entry.name) + flags + sizes + tags

    brokers, topics = answer.brokers or (), answer.topics or ()
    return (
        8
        + (4 if version >= 3 else 0)
        + length(len(brokers))
        + sum(map(broker, brokers))
        + (string(answer.cluster_id) if version >= 2 else 0)
        + (4 if version >= 1 else 0)
        + length(len(topics))
        + sum(map(topic, topics))
        + (4 if 8 <= version <= 10 else 0)
        + (2 if version >= 13 else 0)
        + 2 * tags
    )


def _varint(number: int) -> int:
    """The bytes of an unsigned varint."""
    return max(1, -(-number.bit_length() // 7))
