"""An unclean election under transactions, on brokers: what is said before and after is what is so.

The state is read by another client: a consumer of librdkafka, and Kafka's own tool.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import OnLab
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from lost_commits import await_committed, transactional, without_a_leader, write
from on_lab import Ran, in_sync, kafka_tool, wait_until_everywhere

from kipctl.cluster.snapshot import refresh_snapshot
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

OPEN, LOST, FEW = "tx", "tx2", "tx3"
"""A transaction is open; and the marker of one that was committed is lost, of the last with fewer
replicas in sync than min.insync.replicas."""
_TIMEOUT_S = 120


def by_topic(ran: Ran) -> dict[str, Any]:
    return {transaction["topic"]: transaction for transaction in ran.document["transactions"]}


def findings(ran: Ran) -> dict[str, Any]:
    return {finding["id"]: finding for finding in ran.document["findings"]}


def kafka_transactions(lab: Lab, command: str) -> str:
    """Kafka's own tool, as the command printed calls it."""
    words = shlex.split(command)
    assert words[0] == "kafka-transactions.sh"
    return kafka_tool(lab, "org.apache.kafka.tools.TransactionsCommand", *words[1:])


def require_two_in_sync(lab: Lab, topic: str) -> None:
    """For writes with acks=all, and for its high watermark to advance."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    change = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result()


def test_what_readers_of_committed_records_meet_is_said_before_and_after(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make_lab(
        config=(
            ("transaction.state.log.min.isr", "1"),
            ("offsets.topic.replication.factor", "1"),
            # A follower is told the new high watermark with its next records, or after this: broker
            # 2 is stopped before, on a slow machine too.
            ("replica.fetch.wait.max.ms", "10000"),
        ),
    )
    kipctl = OnLab(lab.bootstrap_server, tmp_path / "state").kipctl
    with Cluster(lab.bootstrap_server, timeout_s=20) as cluster:
        opened = without_a_leader(lab, cluster, OPEN, LOST, FEW)
        require_two_in_sync(lab, FEW)
        chosen = f"elect unclean --partition {OPEN}:0 --partition {LOST}:0 --partition {FEW}:0"

        before = kipctl(chosen, "--dry-run -o json")
        assert [row["may_come_back"] for row in before.document["partitions"]] == [[1]] * 3
        transactions = by_topic(before)
        assert transactions[OPEN]["transactional_id"] == "app-open"
        assert transactions[OPEN]["state"] == "Ongoing"
        assert (transactions[OPEN]["hanging"], transactions[OPEN]["start_offset"]) == (False, 0)
        assert (transactions[LOST]["hanging"], transactions[LOST]["start_offset"]) == (True, 11)
        assert transactions[LOST]["state"] == "CompleteCommit"

        # The change of min.insync.replicas has made the cluster forget who was in sync.
        refused = kipctl(f"elect unclean --partition {FEW}:0 --yes", status=4)
        assert "Who was in sync last with tx3-0 is not known" in refused.err
        refused = kipctl(chosen, "--yes", status=4)
        assert "Broker 1 was in sync last with tx-0 and 2 more" in refused.err
        assert len(refresh_snapshot(cluster, [OPEN, LOST, FEW]).leaderless) == 3

        elected = kipctl(chosen, "--force --yes -o json", status=5)
        assert "Readers with read_committed stop at offset 11 of tx2-0 for good" in elected.err
        assert [row["from_leader"] for row in elected.document["partitions"]] == [None] * 3
        assert {row["topic"]: row["last_stable_offset"] for row in elected.document["held_up"]} == {
            OPEN: 0,
            LOST: 11,
        }
        assert by_topic(elected)[OPEN]["hanging"] is False
        # No reader gets what is beyond the high watermark; and who looks later has to know, too.
        (standing,) = elected.document["high_watermark_stands"]
        assert (standing["topic"], standing["in_sync"], standing["min_insync_replicas"]) == (
            FEW,
            1,
            2,
        )
        assert by_topic(elected)[FEW]["hanging"]
        assert "First bring more replicas in sync with tx3-0" in elected.err
        await_committed(lab, LOST, 10)

        opened.commit_transaction(_TIMEOUT_S)
        await_committed(lab, OPEN, 4)

        hanging = findings(kipctl("inspect brokers -o json"))["hanging-transaction"]
        assert "tx2-0, tx3-0. In tx2-0 it is of producer" in hanging["what"]
        command = by_topic(elected)[LOST]["abort"]
        assert hanging["change"].endswith(command)
        kafka_transactions(lab, command)
        lab.start(1)
        wait_until_everywhere(cluster, FEW, in_sync)
        kafka_transactions(lab, by_topic(elected)[FEW]["abort"])
        assert "hanging-transaction" not in findings(kipctl("inspect brokers -o json"))
        later = transactional(lab, "app-later")
        later.begin_transaction()
        write(later, LOST, 3)
        later.commit_transaction(_TIMEOUT_S)
        await_committed(lab, LOST, 13)
