"""DescribeLogDirs: the log directories of the broker asked, and replica sizes (API 35)."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int16, Int32, Int64, Message, Request, Response


class DescribeLogDirsPartition(Message):
    """A replica: `partition_size` is the bytes of its log segments.

    `offset_lag` is behind the high watermark, and 0 on replicas half copied: do not rely on it.
    A future replica is on its way between two directories of the broker.
    """

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Message):
    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(Message):
    """One log directory; `total_bytes` and `usable_bytes` are those of its volume, or -1."""

    error_code: Int16 = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, Field("4+", ignorable=True)] = -1
    usable_bytes: Annotated[Int64, Field("4+", ignorable=True)] = -1
    is_cordoned: Annotated[bool, Field("5+", ignorable=True)] = False


class DescribeLogDirsResponse(Response):
    """Topics that the broker has no replica of are left out."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Field("3+", ignorable=True)] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()


class DescribableLogDirTopic(Message):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """`topics` None asks for all."""

    api = Api(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), flexible_since=2)

    topics: tuple[DescribableLogDirTopic, ...] | None = ()
