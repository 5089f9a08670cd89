"""Operators' commands while a broker is stopped, and once it is back, on real brokers."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from on_lab import (
    Kipctl,
    MakeTopic,
    in_sync,
    kafka_reassign_partitions,
    leaders_of,
    outcomes,
    reorder,
    replicas_of,
    wait_until_everywhere,
)
from test_request_log_kafka import on_for_an_hour

from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.execution.reassign import submit
from kipctl.changes.journal.journal import journal
from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.changes.plans.plan import plan_to
from kipctl.cluster.metadata_convergence import ClusterEvent, EventKind
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.request_log import levels_of
from kipctl.cluster.request_log_record import record_switched_off
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, take_snapshot
from kipctl.errors import PartlyDoneError, TimedOutError
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


UNTIL_BALANCED = ("elect", "preferred", "--broker", "3", "--until", "balanced", "--yes")
STILL_COPIES = r"broker 3: 2 of \d+ partitions still copy, \d+\.\d MB, about \d+ "


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


def test_a_stopped_broker_fails_its_partitions_alone_and_gets_its_leaders_back(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    topic, lost = make_topic("half", [[1, 3], [1, 2]]), make_topic("lost", [[3], [3]])
    back = make_topic("restarted", [[3, 1], [3, 2], [1, 3], [3, 1]])
    reorder(cluster, topic, (3, 1), (2, 1))
    lab.stop(3)
    try:
        wait_until_everywhere(
            cluster, lost, lambda seen: all(p.leader == NO_LEADER for p in seen.partitions)
        )
        ran = kipctl("elect preferred --topic", topic, "--yes -o json", status=5)
        assert outcomes(ran) == [(0, "failed", 1), (1, "elected", 2)]
        assert "1 partition is done, 1 is not: half-0: PREFERRED_LEADER_NOT_AVAILABLE" in ran.err
        kipctl(f"elect preferred --partition {topic}:0 --yes", status=4)

        # The only broker that has the data is away: nobody can lead, not even uncleanly.
        ran = kipctl("elect unclean --topic", lost, "--yes --force", status=4)
        assert "lost-0: ELIGIBLE_LEADERS_NOT_AVAILABLE" in ran.err

        # With a new, empty replica there is one to elect; but only after a clear question.
        submit(cluster, {PartitionId(lost, 0): (2,)}, may_change_replication_factor=True)
        ran = kipctl("elect unclean --topic", lost, "--force", status=2)
        assert "2 of 2 partitions have no leader" in ran.err
        assert "loses for good" in ran.err
        ran = kipctl("elect unclean --topic", lost, "--yes --force -o json", status=5)
        assert outcomes(ran) == [(0, "elected", 2), (1, "failed", NO_LEADER)]

        ran = kipctl("elect preferred --broker 3 --until balanced --timeout 1 --yes", status=6)
        assert "broker 3 is down" in ran.err
        ran = kipctl("wait --topic", back, "--timeout 1", status=6)
        assert "they lack broker 3 (down: start it)" in ran.err
    finally:
        lab.start(3)
    kipctl("elect preferred --broker 3 --until balanced --yes --batch 2 --timeout 300")
    assert leaders_of(cluster, back) == [3, 3, 1, 3]


def test_a_broker_gets_its_leaders_when_it_has_copied_what_it_missed(
    cluster: Cluster, make_topic: MakeTopic, lab: Lab, state: Path
) -> None:
    """It has all of the small topic at once, and is held up with the big one."""
    small, big = make_topic("small", [[3, 1], [3, 2], [3, 1]]), make_topic("big", [[1, 3], [2, 3]])
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = "follower.replication.throttled.replicas"
    rate = "follower.replication.throttled.rate"

    def configure(topic_has: str | None, broker_has: str | None) -> None:
        """With another client than kipctl."""
        for kind, name, config, value in (
            (ResourceType.TOPIC, big, replicas, topic_has),
            (ResourceType.BROKER, "3", rate, broker_has),
        ):
            how = AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
            entry = ConfigEntry(config, value, incremental_operation=how)
            resource = ConfigResource(kind, name, incremental_configs=[entry])
            for done in admin.incremental_alter_configs([resource]).values():
                done.result()

    def lacks_and_leads() -> tuple[bool, int]:
        seen = admin.list_topics(timeout=30).topics
        return (
            any(3 not in partition.isrs for partition in seen[big].partitions.values()),
            sum(partition.leader == 3 for partition in seen[small].partitions.values()),
        )

    configure("*", "200000")
    try:
        lab.stop(3)
        wait_until_everywhere(cluster, big, lambda seen: not in_sync(seen))
        producer = Producer({"bootstrap.servers": lab.bootstrap_server, "acks": "all"})
        for number in range(600):  # at this rate two minutes, of which a busy machine needs one
            producer.produce(big, os.urandom(50_000), partition=number % 2)
        assert producer.flush(60) == 0
        lab.start(3)
        wait_until_everywhere(cluster, small, in_sync)
        with subprocess.Popen(
            [sys.executable, "-m", "kipctl", *UNTIL_BALANCED],
            env=os.environ
            | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server, "XDG_STATE_HOME": str(state)},
            stderr=subprocess.PIPE,
            text=True,
        ) as electing:
            assert electing.stderr is not None
            looks, said = [], ""
            try:
                while not re.search(STILL_COPIES, said):
                    line = electing.stderr.readline()
                    assert line, said
                    said += line
                    looks.append(lacks_and_leads())
            finally:
                configure(None, None)
            said += electing.stderr.read()
        assert electing.returncode == 0, said
    finally:
        configure(None, None)
        lab.start(3)
    assert set(looks) == {(True, 0)}
    assert leaders_of(cluster, small) == [3, 3, 3]
    assert lacks_and_leads()[0] is False


def test_an_unclean_election_says_before_what_it_will_lose(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab, state: Path
) -> None:
    """Broker 1 is away while 100 records are written; then broker 3, which has them."""
    topic = make_topic("stale", [[1, 3], [2, 1]])

    def produce(count: int) -> None:
        producer = Producer({"bootstrap.servers": lab.bootstrap_server, "acks": "all"})
        for _ in range(count):
            producer.produce(topic, b"x", partition=0)
        assert producer.flush(30) == 0

    try:
        produce(20)
        lab.stop(1)
        wait_until_everywhere(cluster, topic, lambda seen: seen.partitions[0].leader == 3)
        produce(100)
        lab.stop(3)
        lab.start(1)
        wait_until_everywhere(
            cluster,
            topic,
            lambda seen: 1 in seen.broker_ids and seen.partitions[0].leader == NO_LEADER,
        )
        ran = kipctl("elect unclean --topic", topic, "--dry-run -o json")
        # After an order of replicas the next step is the election that can give it a leader.
        state.mkdir(exist_ok=True)
        plan = state / "order.json"
        order = {PartitionId(topic, 0): (3, 1)}
        plan.write_text(json.dumps(reassignment_document(order)))
        changed = kipctl("reassign --plan", str(plan), "--yes")
        assert f"kipctl elect unclean --dry-run --topic {topic}" in changed.out
        assert "elect preferred" not in changed.out

        (shown,) = ran.document["partitions"]
        assert (shown["partition"], shown["live"], shown["would_lead"]) == (0, [1], 1)
        assert (shown["last_in_sync"], shown["log_ends"]) == ([3], {"1": 20})
        assert shown["loss"] == (
            "broker 3 (down) may have records from offset 20 on: they will be lost"
        )

        ran = kipctl("elect unclean --topic", topic, "--yes --force -o json")
        assert outcomes(ran) == [(0, "elected", 1)]
    finally:
        lab.start(3)
        lab.start(1)
    wait_until_everywhere(cluster, topic, in_sync)


@pytest.fixture(scope="class")
def without_3(struck_lab: Lab) -> Iterator[None]:
    struck_lab.stop(3)
    yield
    struck_lab.start(3)


@pytest.mark.usefixtures("without_3")
class TestBroker3IsAway:
    """What is to be copied to it stays under way. It is stopped once for all of these."""

    def test_a_cancelled_move_gets_its_old_order_back(
        self, cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, state: Path
    ) -> None:
        topic, foreign = make_topic("cancelled", [[1, 2], [2, 1]]), make_topic("foreign", [[1, 2]])
        others = PartitionId(foreign, 0)
        before = take_snapshot(cluster, [topic])
        plan = plan_to(before, {PartitionId(topic, n): (3, 2) for n in (0, 1)})
        kept = journal(before.cluster_id, {"XDG_STATE_HOME": str(state)})
        entry = kept.save(before.assignment, plan.target)
        with pytest.raises(TimedOutError, match="2 of 2 partitions are still being reassigned"):
            reassign(cluster, plan, entry=entry, timeout_s=0.1)
        assert kipctl("reassign --list -o json").document["ongoing"][0] == {
            "topic": topic,
            "partition": 0,
            "replicas": [3, 2, 1],
            "adding": [3],
            "removing": [1],
        }
        ran = kipctl("reassign --rotate --topic", topic, "--yes", status=4)
        assert "being reassigned already" in ran.err
        assert "kipctl changes cancel" in ran.err

        submit(cluster, {others: (3, 2)}, may_change_replication_factor=False)
        ran = kipctl("changes cancel --yes -o json")
        assert "1 other is left alone" in ran.err
        assert [p["order"] for p in ran.document["cancelled"]] == ["put back", "as before"]
        assert replicas_of(cluster, topic) == [(1, 2), (2, 1)]
        assert [reassignment.id for reassignment in list_reassignments(cluster)] == [others]
        kipctl("changes cancel --topic", foreign, "--yes")
        assert list_reassignments(cluster) == ()
        # All is as it was, so there is nothing left to undo.
        kipctl("undo --yes", status=4)

    def test_a_reorder_that_turns_out_to_copy_data_is_cancelled_at_once(
        self, cluster: Cluster, make_topic: MakeTopic, lab: Lab
    ) -> None:
        topic = make_topic("raced", [[2, 3]], away=[3])
        raced = PartitionId(topic, 0)
        plan = plan_to(take_snapshot(cluster, [topic]), {raced: (3, 2)})
        assert not plan.copies_data

        def another_tool(event: ClusterEvent) -> None:
            if event.kind is EventKind.REASSIGNMENT_CALLED:
                with Cluster(lab.bootstrap_server) as other:
                    reassign(other, plan_to(take_snapshot(other, [topic]), {raced: (1, 2)}))

        with pytest.raises(PartlyDoneError) as partly:
            reassign(cluster, plan, on_event=another_tool)
        assert "would have added [3] and removed [1]; so it was cancelled" in partly.value.what
        assert list_reassignments(cluster) == ()
        # A broker may show the cancelled move for a while yet.
        wait_until_everywhere(
            cluster, topic, lambda seen: set(seen.partitions[0].replicas) == {1, 2}
        )

    def test_what_is_not_as_planned_is_told_by_the_exit_status_too(
        self, cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
    ) -> None:
        topic = make_topic("verified", [[1, 2], [2, 1]])
        target = {PartitionId(topic, 0): (3, 2), PartitionId(topic, 1): (2, 1)}
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(reassignment_document(target)))
        ran = kipctl(f"reassign --verify {plan} -o json", status=5)
        assert ran.document["counts"] == {"different": 1, "done": 1}
        assert "1 of 2 partitions is not as the file says: 0 in progress, 1 diff" in ran.err
        assert "--plan" in ran.err
        submit(cluster, target, may_change_replication_factor=False)
        ran = kipctl(f"reassign --verify {plan} -o json", status=5)
        assert ran.document["counts"] == {"in progress": 1, "done": 1}
        assert "--list" in ran.err

    def test_kafkas_own_tool_lists_what_kipctl_lists(
        self, cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
    ) -> None:
        moving = PartitionId(make_topic("listed", [[1, 2], [2, 1]]), 0)
        submit(cluster, {moving: (2, 3)}, may_change_replication_factor=False)
        assert [reassignment.id for reassignment in list_reassignments(cluster)] == [moving]
        (listed,) = kipctl("reassign --list -o json").document["ongoing"]
        kafkas = kafka_reassign_partitions(lab, "--list")
        replicas, adding, removing = (
            ",".join(map(str, listed[key])) for key in ("replicas", "adding", "removing")
        )
        shown = f"{moving}: replicas: {replicas}. adding: {adding}. removing: {removing}."
        assert shown in kafkas
        assert kafkas.count("replicas:") == 1


def test_a_broker_that_went_away_keeps_its_request_log_and_is_named(
    lab: Lab, cluster: Cluster
) -> None:
    with on_for_an_hour(lab, "-o", "json") as process:
        lab.stop(3)
        try:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
            assert process.returncode == 5
            assert "The request log is STILL ON at broker 3, unless restarted since." in err
            assert err.endswith("Switch it off: kipctl request-log off --broker 3\n")
            assert [b["on"] for b in json.loads(out)["brokers"]] == [False, False, None]
            assert levels_of(cluster, (1, 2)) == {1: "WARN", 2: "WARN"}
        finally:
            lab.start(3)
    cluster.metadata(())
    assert levels_of(cluster, [3]) == {3: "WARN"}
    record_switched_off({lab.cluster_id}, [3])
