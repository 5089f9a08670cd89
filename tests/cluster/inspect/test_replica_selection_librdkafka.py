"""What librdkafka's statistics say of where a partition is read."""

import pytest

from kipctl.cluster.inspect.replica_selection_librdkafka import (
    ClientRead,
    fetched_from,
    has_received,
)
from kipctl.cluster.snapshot import PartitionId

STATISTICS = {
    "topics": {
        "t": {
            "partitions": {
                "0": {"broker": 2, "leader": 1, "rxmsgs": 3, "rxbytes": 300},
                # Being fetched, but nothing has come yet: it may still be sent elsewhere.
                "1": {"broker": 1, "leader": 1, "rxmsgs": 0, "rxbytes": 0},
                # Records have come, and its broker has gone away since.
                "2": {"broker": -1, "leader": -1, "rxmsgs": 3, "rxbytes": 300},
                "-1": {"broker": -1, "leader": -1, "rxmsgs": 0, "rxbytes": 0},
            }
        }
    }
}


def test_only_where_records_came_from_counts() -> None:
    ids = [PartitionId("t", number) for number in (0, 1, 2, 3)] + [PartitionId("u", 0)]
    assert fetched_from(STATISTICS, ids, "rack-2") == (
        ClientRead(ids[0], "rack-2", 2, 3, 300),
        ClientRead(ids[1], "rack-2", None, 0, 0),
        ClientRead(ids[2], "rack-2", None, 3, 300),
        ClientRead(ids[3], "rack-2", None, 0, 0),
        ClientRead(ids[4], "rack-2", None, 0, 0),
    )


def test_before_any_statistics_nothing_has_come() -> None:
    partition_id = PartitionId("t", 0)
    assert fetched_from({}, [partition_id], "r") == (ClientRead(partition_id, "r", None, 0, 0),)


@pytest.mark.parametrize(
    ("partition", "come"),
    [
        ({"broker": 2, "rxmsgs": 3, "rxbytes": 300, "next_offset": 5}, True),
        ({"broker": 2, "rxmsgs": 0, "rxbytes": 0, "next_offset": 5}, False),
        # A marker has come, and records after it may.
        ({"broker": 2, "rxmsgs": 1, "rxbytes": 0, "next_offset": 5}, False),
        ({"broker": 2, "rxmsgs": 1, "rxbytes": 0, "next_offset": 10}, True),
        ({"broker": -1, "rxmsgs": 3, "rxbytes": 300, "next_offset": 10}, False),
    ],
)
def test_it_reads_on_after_markers_until_the_end(partition: dict[str, int], come: bool) -> None:
    partition_id = PartitionId("t", 0)
    statistics = {"topics": {"t": {"partitions": {"0": partition}}}}
    reads = fetched_from(statistics, [partition_id], "r")
    assert has_received(statistics, reads, {partition_id: 10}) is come
    assert has_received(statistics, reads, {})
