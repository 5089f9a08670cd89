"""What librdkafka's statistics say of where a partition is read."""

from kipctl.cluster.replica_selection_librdkafka import ClientRead, fetched_from
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
    one = PartitionId("t", 0)
    assert fetched_from({}, [one], "r") == (ClientRead(one, "r", None, 0, 0),)
