"""`kipctl reassign` on a real cluster: leaders move, come back, and nothing else changes."""

import json
from pathlib import Path

import pytest
from on_lab import Kipctl, MakeTopic, leaders_of, replicas_of, wait_until_everywhere

from kipctl.changes.execution.plan_execution import rotate_own_topics
from kipctl.changes.execution.reassign import submit
from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.cli.environment import Environment
from kipctl.cluster.metadata_convergence import ClusterEvent, EventKind
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.measure.doubts import MIN_MOVES
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]
ROTATED = [(2, 3, 1), (3, 1, 2), (1, 2, 3), (3, 2, 1)]


def as_tuples(replicas: list[list[int]]) -> list[tuple[int, ...]]:
    return [tuple(ids) for ids in replicas]


def test_a_rotation_moves_every_leader_and_its_rollback_brings_all_back(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("rotated", REPLICAS)
    ran = kipctl("reassign --rotate --topic", topic, "--yes -o json")
    assert replicas_of(cluster, topic) == ROTATED
    assert leaders_of(cluster, topic) == [2, 3, 1, 3]
    result = ran.document
    assert [p["outcome"] for p in result["partitions"]] == ["elected"] * 4
    assert [(p["from_leader"], p["leader"]) for p in result["partitions"]] == [
        (1, 2),
        (2, 3),
        (3, 1),
        (1, 3),
    ]
    saved = json.loads(Path(result["saved"]).read_text())
    assert [p["replicas"] for p in saved["partitions"]] == REPLICAS

    ran = kipctl("undo --yes")
    assert replicas_of(cluster, topic) == as_tuples(REPLICAS)
    assert leaders_of(cluster, topic) == [1, 2, 3, 1]


def test_a_measured_rotation_rotates_its_own_topic_along_and_says_what_it_cost(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Report] = []
    reporting = Environment.report

    def noted(self: Environment, report: Report, output: OutputFormat) -> None:
        reports.append(report)
        reporting(self, report, output)

    monkeypatch.setattr(Environment, "report", noted)
    topic = make_topic("measured", REPLICAS)
    shown = kipctl("reassign --rotate --topic", topic, "--measure --yes -o json").document
    assert replicas_of(cluster, topic) == ROTATED
    assert [partition["topic"] for partition in shown["partitions"]] == [topic] * 4
    assert shown["counts"]["done"] > 4
    assert shown["measured"]["records"]["acknowledged"] > 0
    met = shown["measured"]["redirects"]["moves"]["met"]
    said = [doubt for doubt in shown["measured"]["doubts"] if "moved leaders were met" in doubt]
    assert bool(said) == (met < MIN_MOVES)
    moved, cost, *_ = reports[0].opening  # what stands above the tables
    assert moved.first.startswith("4 leaders moved")
    assert cost.first.startswith("Moved leaders: ")
    # Its own topic is gone by now: what is left of the entry is brought back.
    kipctl("undo --yes")
    assert replicas_of(cluster, topic) == as_tuples(REPLICAS)


def test_a_plan_that_moves_data_is_told_from_a_reorder(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("moved", [[1, 2], [1, 2], [1, 2]])
    target = {
        PartitionId(topic, 0): (3, 2),
        PartitionId(topic, 1): (2, 1),
        PartitionId(topic, 2): (1, 2, 3),
    }
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(reassignment_document(target)))
    ran = kipctl("reassign --plan", str(plan), "--dry-run -o csv")
    rows = [line for line in ran.out.splitlines() if line.startswith(f"partitions,{topic},")]
    assert [row.replace('"', "").split(",")[-1] for row in rows] == [
        " leaves 1",
        "stays",
        "copied to 3",
    ]
    ran = kipctl("reassign --plan", str(plan), "--yes", status=4)
    assert "changes the replication factor of 1 partition" in ran.err
    factor = "--change-replication-factor"
    ran = kipctl("reassign --plan", str(plan), "--yes", factor)
    assert replicas_of(cluster, topic) == list(target.values())
    kipctl("undo --yes")
    assert replicas_of(cluster, topic) == [(1, 2)] * 3


def test_rotations_can_be_repeated_and_tell_what_every_broker_saw(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic("repeated", REPLICAS[:3])
    for turn in range(1, 4):
        events: list[ClusterEvent] = []
        moved = rotate_own_topics(cluster, [topic], events.append)
        assert not moved.failures
        seen = [event for event in events if event.kind is EventKind.LEADER_SEEN]
        new = {p.id.partition: (p.leader, turn) for p in take_snapshot(cluster, [topic]).partitions}
        assert {
            (event.partition, event.seen_by_broker): (event.to_leader, event.leader_epoch)
            for event in seen
        } == {(partition, broker): new[partition] for partition in new for broker in (1, 2, 3)}
        assert all(event.from_leader != event.to_leader for event in seen)
        called = next(e.time_us for e in events if e.kind is EventKind.ELECTION_CALLED)
        assert all(called < event.time_us <= moved.election.converged_us for event in seen)
        assert [e.kind for e in events if e.topic is None] == list(EventKind)[:4]
    assert replicas_of(cluster, topic) == as_tuples(REPLICAS[:3])


def test_refused_partitions_do_not_stop_the_others(cluster: Cluster, make_topic: MakeTopic) -> None:
    """One that there is not, and one whose replication factor would change by accident."""
    topic = make_topic("partly", [[1, 2], [1, 2]])
    turned, grown, lost = (PartitionId(topic, number) for number in (0, 1, 7))
    target = {turned: (2, 1), grown: (1, 2, 3), lost: (2, 1)}
    refused = submit(cluster, target, may_change_replication_factor=False)
    why = {refusal.id: refusal.reason for refusal in refused}
    assert why.keys() == {grown, lost}
    assert why[grown].startswith("INVALID_REPLICATION_FACTOR")
    assert why[lost].startswith("UNKNOWN_TOPIC_OR_PARTITION")
    wait_until_everywhere(
        cluster, topic, lambda seen: list(seen.assignment.values()) == [(2, 1), (1, 2)]
    )
