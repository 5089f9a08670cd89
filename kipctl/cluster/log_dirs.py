"""DescribeLogDirs: how large the logs of partitions are, as a broker reports them."""

from collections.abc import Iterable

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


def reported_directories(answer: DescribeLogDirsResponse) -> dict[PartitionId, str]:
    """The directory in which a broker has each log; not that of one which is being copied there."""
    return {
        PartitionId(topic.name, partition.partition_index): result.log_dir
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }


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
