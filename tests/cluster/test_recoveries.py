"""How many bytes brokers that catch up lack of what their leaders hold."""

import pytest
from metadata_answers import metadata_of
from scripted_broker import HANG_UP, VERSIONS, Answers, Asked, ScriptedBroker

from kipctl.cluster.recoveries import ask_bytes_to_go
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.transport.request import Cluster

FIRST, SECOND = PartitionId("t", 0), PartitionId("t", 1)


def holding(*sizes: int) -> DescribeLogDirsResponse:
    partitions = tuple(DescribeLogDirsPartition(index, size) for index, size in enumerate(sizes))
    topic = DescribeLogDirsTopic("t", partitions)
    return DescribeLogDirsResponse(results=(DescribeLogDirsResult(0, "/data", (topic,)),))


@pytest.mark.parametrize(
    ("of_leader", "of_follower", "to_go"),
    [
        (holding(1000, 500), holding(400, 500), {2: 600}),
        # What a follower has more of one partition is nothing towards another.
        (holding(1000, 500), holding(400, 900), {2: 600}),
        (HANG_UP, holding(400, 500), {2: 0}),
        (holding(1000, 500), HANG_UP, {}),
        (holding(1000, 500), DescribeLogDirsResponse(error_code=31), {}),
    ],
)
def test_it_is_what_leaders_hold_more(
    of_leader: Response | bytes, of_follower: Response | bytes, to_go: dict[int, int]
) -> None:
    """Broker 1 leads both partitions, and broker 2 is behind."""

    def answering(sizes: Response | bytes) -> Answers:
        def answer(asked: Asked) -> Response | bytes | None:
            if isinstance(asked.request, DescribeLogDirsRequest):
                return sizes
            ports = {1: first.port, 2: second.port}
            is_asked = isinstance(asked.request, MetadataRequest)
            return metadata_of((1, 5), (1, 5), ports=ports) if is_asked else None

        return answer

    led_by_1 = tuple(Partition(partition, (1, 2), (1,), 1, 5) for partition in (FIRST, SECOND))
    versions = VERSIONS | {35: (1, 4)}
    with (
        ScriptedBroker(answering(of_leader), versions) as first,
        ScriptedBroker(answering(of_follower), versions) as second,
        Cluster(first.address) as cluster,
    ):
        snapshot = Snapshot("c", (), led_by_1)
        assert ask_bytes_to_go(cluster, snapshot, {2: (FIRST, SECOND)}) == to_go
