"""Plans that name log directories: which replicas they want in another one than they are in.

Kafka's own tool moves them by AlterReplicaLogDirs (API 34). kipctl moves no replica between disks,
so such a plan is refused as a whole: half of it would be done, and called done.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kipctl.changes.plans.kafka_json import LogDirs, ReassignmentFile
from kipctl.cluster.inspect.findings.finding import brokers
from kipctl.cluster.log_dirs import reported_directories, sizes_request
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import RefusedError
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import Cluster

_DEADLINE_S = 30.0


class DiskMove(NamedTuple):
    """A replica, by the id of its broker, that is to be in this directory."""

    id: PartitionId
    broker: int
    directory: str


def disk_moves(wanted: LogDirs, now: LogDirs) -> tuple[DiskMove, ...]:
    """What of the directories that are wanted is not so; what is not known is not so."""
    return tuple(
        DiskMove(id, broker, directory)
        for id, of_brokers in wanted.items()
        for broker, directory in of_brokers.items()
        if now.get(id, {}).get(broker) != directory
    )


def require_no_disk_moves(cluster: Cluster, file: ReassignmentFile) -> None:
    """Raise RefusedError for a plan that puts a replica in another directory than it is in."""
    if not file.log_dirs:
        return
    moves = disk_moves(file.log_dirs, _directories(cluster, file.log_dirs))
    if moves:
        first = moves[0]
        raise RefusedError(
            f"{file.path} moves disks on {brokers({move.broker for move in moves})}, such as"
            f" {first.id} to {first.directory} on broker {first.broker}: kipctl moves no replica"
            " from one disk to another.",
            "Nothing was changed. kafka-reassign-partitions --execute does it; to move replicas"
            ' between brokers alone, write "any" into log_dirs.',
        )


def _directories(cluster: Cluster, wanted: LogDirs) -> LogDirs:
    """Where the replicas are that the plan wants in a directory, as far as brokers tell."""
    asked = {broker for of_brokers in wanted.values() for broker in of_brokers}
    request = sizes_request(wanted)
    answers = ask_each(
        cluster,
        sorted(asked & cluster.nodes.keys()),
        lambda broker, connection: reported_directories(connection.request(request)),
        _DEADLINE_S,
    )
    found: dict[PartitionId, dict[int, str]] = {}
    for broker, answer in answers.items():
        if isinstance(answer, Mapping):
            for id, directory in answer.items():
                found.setdefault(id, {})[broker] = directory
    return found
