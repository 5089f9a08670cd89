"""Replicas that catch up without a reassignment, as after a restart, and how much they lack."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from kipctl.cluster.log_dirs import reported_sizes, sizes_request
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot
from kipctl.errors import KipctlError
from kipctl.protocol.describe_log_dirs import DescribeLogDirsResponse
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

_DEADLINE_S = 30.0
"""For all brokers together."""


NONE_ADDED: Mapping[PartitionId, Collection[int]] = {}


def catching_up(
    snapshot: Snapshot, adding: Mapping[PartitionId, Collection[int]] = NONE_ADDED
) -> dict[int, tuple[PartitionId, ...]]:
    """By live broker that is not whole, the partitions that it still copies. A pure function.

    Not counted is what does not come back by copying: replicas on a disk that has failed, and those
    of partitions that have no leader to copy from. Nor are replicas that a reassignment is
    `adding`: as brokers count it (`Partition.isUnderReplicated`), nothing is missed there yet.
    """
    by_broker: dict[int, list[PartitionId]] = defaultdict(list)
    live = frozenset(snapshot.broker_ids)
    for partition in snapshot.partitions:
        if partition.leader == NO_LEADER or len(partition.isr) == len(partition.replicas):
            continue
        left_out = {*partition.isr, *partition.offline, *adding.get(partition.id, ())}
        for broker in live & {*partition.replicas} - left_out:
            by_broker[broker].append(partition.id)
    return {broker: tuple(ids) for broker, ids in sorted(by_broker.items())}


def ask_bytes_to_go(
    cluster: Cluster, snapshot: Snapshot, behind: Mapping[int, Collection[PartitionId]]
) -> dict[int, int]:
    """How many bytes brokers that catch up lack of these: what leaders hold more than they do.

    Brokers that do not report are left out; a leader that does not counts as one with nothing more.
    """
    leaders = {partition.id: partition.leader for partition in snapshot.partitions}
    wanted: dict[int, set[PartitionId]] = defaultdict(set)
    for broker, partitions in behind.items():
        for partition in partitions:
            wanted[broker].add(partition)
            wanted[leaders[partition]].add(partition)

    def ask(broker: int, connection: BrokerConnection) -> DescribeLogDirsResponse:
        return connection.request(sizes_request(wanted[broker]))

    held = {
        broker: reported_sizes(broker, answer)[0]
        for broker, answer in ask_each(cluster, wanted, ask, _DEADLINE_S).items()
        if not isinstance(answer, KipctlError) and not answer.error_code and answer.results
    }
    return {
        broker: sum(
            max(
                0,
                held.get(leaders[partition], {}).get(partition, 0) - held[broker].get(partition, 0),
            )
            for partition in partitions
        )
        for broker, partitions in behind.items()
        if broker in held
    }
