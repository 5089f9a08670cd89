"""DescribeLogDirs: how large the logs of partitions are, as a broker reports them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kipctl.cluster.snapshot import PartitionId, by_topic
from kipctl.protocol.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kipctl.protocol.error_codes import error_name


def sizes_request(partitions: Iterable[PartitionId]) -> DescribeLogDirsRequest:
    """For the logs of these partitions alone."""
    topics = tuple(DescribableLogDirTopic(*one) for one in by_topic(partitions).items())
    return DescribeLogDirsRequest(topics=topics)


@dataclass(frozen=True, slots=True)
class Located:
    """The directory of a replica and its bytes; `future` is where it is being copied to ("": it is
    not), with the bytes that are there."""

    directory: str = ""
    size: int = 0
    future: str = ""
    copied: int = 0


@dataclass(frozen=True, slots=True)
class BrokerDirs:
    """The directories of a broker that are in use, with what is free there (-1: not known), and
    where the replicas are that it was asked for."""

    usable: Mapping[str, int]
    replicas: Mapping[PartitionId, Located]


def broker_dirs(answer: DescribeLogDirsResponse) -> BrokerDirs:
    """What a broker reports. A pure function."""
    found: dict[PartitionId, Located] = {}
    for result in answer.results:
        for topic in result.topics:
            for one in topic.partitions:
                partition = PartitionId(topic.name, one.partition_index)
                located, where = found.get(partition, Located()), result.log_dir
                found[partition] = (
                    replace(located, future=where, copied=one.partition_size)
                    if one.is_future_key
                    else replace(located, directory=where, size=one.partition_size)
                )
    usable = {one.log_dir: one.usable_bytes for one in answer.results if not one.error_code}
    return BrokerDirs(usable, found)


def reported_sizes(
    broker: int, answer: DescribeLogDirsResponse
) -> tuple[dict[PartitionId, int], str]:
    """The bytes of each log that a broker reports, and why others may be missing.

    A client that may not see logs gets an error for the whole answer since version 3, and no
    directory before (Kafka's `KafkaApis.handleDescribeLogDirsRequest`); a directory that failed
    has an error and no logs.
    """
    sizes = {
        PartitionId(topic.name, partition.partition_index): partition.partition_size
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
    if answer.error_code:
        return sizes, f"broker {broker}: {error_name(answer.error_code)}"
    if not answer.results:
        return sizes, f"broker {broker} shows no log directory: DESCRIBE on the cluster is needed"
    failed = [result for result in answer.results if result.error_code]
    if failed:
        code = error_name(failed[0].error_code)
        return sizes, f"broker {broker}, directory {failed[0].log_dir}: {code}"
    return sizes, f"broker {broker} has no log of it any more"
