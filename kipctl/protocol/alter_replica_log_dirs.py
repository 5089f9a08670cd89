"""AlterReplicaLogDirs: replicas of the broker asked to other log directories of it (API 34)."""

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Int16, Int32, Message, Request, Response


class AlterReplicaLogDirPartitionResult(Message):
    """REPLICA_NOT_AVAILABLE is also the answer where the broker has no such replica yet: it keeps
    in mind where to put it (Kafka's `ReplicaManager.alterReplicaLogDirs`)."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


class AlterReplicaLogDirsResponse(Response):
    """The broker has begun to copy; DescribeLogDirs has the copies as future replicas."""

    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


class AlterReplicaLogDirTopic(Message):
    name: str = ""
    partitions: tuple[Int32, ...] = ()


class AlterReplicaLogDir(Message):
    """The replicas that are to be in this directory, an absolute path."""

    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    """A copy that is under way to another directory is given up."""

    api = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), flexible_since=2)

    dirs: tuple[AlterReplicaLogDir, ...] = ()
