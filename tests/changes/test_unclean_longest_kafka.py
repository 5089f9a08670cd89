"""`elect unclean --longest` on brokers: the live replica with the most records leads."""

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import OnLab
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.cluster.snapshot import Partition, PartitionId, refresh_snapshot
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
_TIMEOUT_S = 120


def test_the_longest_log_leads_where_another_would(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    """3 has two records, 2 has five, and 1, which is down, has more."""
    lab = make_lab()
    kipctl = OnLab(lab.bootstrap_server, tmp_path / "state").kipctl
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    topic = NewTopic("lost", 1, replica_assignment=[[1, 3, 2]])
    admin.create_topics([topic])["lost"].result()
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "acks": "all", "log_level": 0})

    def write(records: int) -> None:
        for number in range(records):
            producer.produce("lost", f"record {number}")
        assert producer.flush(_TIMEOUT_S) == 0

    with Cluster(lab.bootstrap_server, timeout_s=20) as cluster:

        def lost() -> Partition | None:
            return refresh_snapshot(cluster, ["lost"]).by_id.get(PartitionId("lost", 0))

        def in_sync(*brokers: int) -> bool:
            seen = lost()
            return seen is not None and set(seen.isr) == set(brokers)

        assert wait_until(lambda: in_sync(1, 2, 3), _TIMEOUT_S)
        write(2)
        lab.stop(3)
        assert wait_until(lambda: in_sync(1, 2), _TIMEOUT_S)
        write(3)
        lab.stop(2)
        assert wait_until(lambda: in_sync(1), _TIMEOUT_S)
        write(4)
        lab.stop(1)
        lab.start(2, 3)
        assert wait_until(
            lambda: {2, 3} == set(refresh_snapshot(cluster, ["lost"]).broker_ids), _TIMEOUT_S
        )

        shown = kipctl("elect unclean --topic lost --dry-run")
        assert "Another live replica has more records than the one that would lead" in shown.out
        better = kipctl("elect unclean --topic lost --longest --dry-run -o json").document
        (one,) = better["partitions"]
        assert (one["log_ends"], one["would_lead"]) == ({"3": 2, "2": 5}, 2)

        ran = kipctl("elect unclean --topic lost --longest --force --yes -o json")
        (one,) = ran.document["partitions"]
        assert (one["outcome"], one["leader"], one["replicas"]) == ("elected", 2, [2, 1, 3])
        lab.start(1)
        assert wait_until(lambda: in_sync(1, 2, 3), _TIMEOUT_S)
        kipctl("undo --yes")
        seen = lost()
        assert seen is not None
        assert seen.replicas == (1, 3, 2)
