"""DescribeLogDirs: how large the logs of partitions are, as a broker reports them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kipctl.cluster.snapshot import PartitionId, by_topic
from kipctl.counts import broker_list
from kipctl.errors import KipctlError
from kipctl.protocol.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kipctl.protocol.error_codes import ErrorCode, error_name, error_text
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

_DEADLINE_S = 30.0


def sizes_request(partitions: Iterable[PartitionId]) -> DescribeLogDirsRequest:
    """For the logs of these partitions alone."""
    topics = tuple(DescribableLogDirTopic(*topic) for topic in by_topic(partitions).items())
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
    replicas: dict[PartitionId, Located] = {}
    for result in answer.results:
        for topic in result.topics:
            for replica in topic.partitions:
                partition = PartitionId(topic.name, replica.partition_index)
                located, where = replicas.get(partition, Located()), result.log_dir
                replicas[partition] = (
                    replace(located, future=where, copied=replica.partition_size)
                    if replica.is_future_key
                    else replace(located, directory=where, size=replica.partition_size)
                )
    usable = {
        directory.log_dir: directory.usable_bytes
        for directory in answer.results
        if not directory.error_code
    }
    return BrokerDirs(usable, replicas)


def refusal_code(answer: DescribeLogDirsResponse) -> int:
    """Kafka's code of why a broker does not tell of its directories; NONE where it does.

    A client that may not see logs gets an error for the whole answer since version 3, and no
    directory before (Kafka's `KafkaApis.handleDescribeLogDirsRequest`).
    """
    if answer.error_code or answer.results:
        return answer.error_code
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@dataclass(frozen=True, slots=True)
class DiskCopies:
    """What brokers are copying from one of their directories to another; `silent` are those that do
    not tell, each with why."""

    replicas: Mapping[int, Mapping[PartitionId, Located]]
    silent: Mapping[int, str]

    def not_known(self) -> Iterator[str]:
        """Which brokers do not tell, in a sentence; nothing where all do."""
        if not self.silent:
            return
        verb, whose = ("copies", "its") if len(self.silent) == 1 else ("copy", "their")
        why = next(iter(self.silent.values()))
        named = broker_list(self.silent)
        yield f"Whether {named} {verb} between {whose} disks is not known: {why.rstrip('.')}."


def between_disks(
    cluster: Cluster, brokers: Iterable[int], deadline_s: float = _DEADLINE_S
) -> DiskCopies:
    """What these brokers are copying from one of their directories to another; all of them are
    asked at once, with one deadline."""

    def ask(broker: int, connection: BrokerConnection) -> DescribeLogDirsResponse:
        return connection.request(DescribeLogDirsRequest(topics=None))

    replicas, silent = dict[int, Mapping[PartitionId, Located]](), dict[int, str]()
    for broker, answer in ask_each(cluster, sorted(brokers), ask, deadline_s).items():
        if isinstance(answer, KipctlError):
            silent[broker] = answer.what
        elif code := refusal_code(answer):
            silent[broker] = error_text(code)
        else:
            located = broker_dirs(answer).replicas.items()
            replicas[broker] = {p: at for p, at in located if at.future}
    return DiskCopies(replicas, silent)


def reported_sizes(
    broker: int, answer: DescribeLogDirsResponse
) -> tuple[dict[PartitionId, int], str]:
    """The bytes of each log that a broker reports, and why others may be missing: a directory that
    failed has an error and no logs."""
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
