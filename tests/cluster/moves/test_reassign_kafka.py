"""`kipctl reassign` on a real cluster: leaders move, come back, and nothing else changes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from on_lab import Kipctl, MakeTopic, leaders_of, replicas_of, wait_until_everywhere

from kipctl.cluster.metadata_convergence import ClusterEvent, EventKind
from kipctl.cluster.moves.journal import journal
from kipctl.cluster.moves.kafka_json import reassignment_document
from kipctl.cluster.moves.plan import plan_to
from kipctl.cluster.moves.plan_execution import reassign
from kipctl.cluster.moves.reassign import submit
from kipctl.cluster.moves.rotate_own_topics import rotate_own_topics
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.errors import PartlyDoneError, TimedOutError
from kipctl.lab.cluster import Lab
from kipctl.measure.doubts import MIN_MOVES
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
    ran = kipctl("reassign", "--rotate", "--topic", topic, "--yes", "-o", "json")
    assert ran.status == 0, ran.err
    assert replicas_of(cluster, topic) == ROTATED
    assert leaders_of(cluster, topic) == [2, 3, 1, 3]
    result = json.loads(ran.out)
    assert [p["outcome"] for p in result["partitions"]] == ["elected"] * 4
    assert [(p["from_leader"], p["leader"]) for p in result["partitions"]] == [
        (1, 2),
        (2, 3),
        (3, 1),
        (1, 3),
    ]
    saved = json.loads(Path(result["saved"]).read_text())
    assert [p["replicas"] for p in saved["partitions"]] == REPLICAS

    ran = kipctl("reassign", "--rollback", "--yes")
    assert ran.status == 0, ran.err
    assert replicas_of(cluster, topic) == as_tuples(REPLICAS)
    assert leaders_of(cluster, topic) == [1, 2, 3, 1]


def test_each_rollback_goes_one_further_back(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("further", REPLICAS[:2])
    for _ in range(2):
        assert kipctl("reassign", "--rotate", "--topic", topic, "--yes").status == 0
    assert leaders_of(cluster, topic) == [3, 1]
    assert kipctl("reassign", "--rollback", "--yes").status == 0
    assert leaders_of(cluster, topic) == [2, 3]
    # The newest change is undone: which one is meant is to be said.
    ran = kipctl("reassign", "--rollback", "--yes")
    assert ran.status == 4
    [entry] = re.findall(r"--rollback .*--entry (\S+) --yes", ran.err)
    assert kipctl("reassign", "--rollback", "--entry", entry, "--yes").status == 0
    assert replicas_of(cluster, topic) == as_tuples(REPLICAS[:2])
    assert leaders_of(cluster, topic) == [1, 2]
    ran = kipctl("reassign", "--rollback", "--yes")
    assert ran.status == 4
    assert "nothing to roll back" in ran.err


def test_a_measured_rotation_rotates_its_own_topic_along(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("measured", REPLICAS)
    ran = kipctl("reassign", "--rotate", "--topic", topic, "--measure", "--yes", "-o", "json")
    assert ran.status == 0, ran.err
    assert replicas_of(cluster, topic) == ROTATED
    shown = json.loads(ran.out)
    assert [one["topic"] for one in shown["partitions"]] == [topic] * 4
    assert shown["counts"]["done"] > 4
    assert shown["measured"]["records"]["acknowledged"] > 0
    met = shown["measured"]["redirects"]["moves"]["met"]
    said = [one for one in shown["measured"]["doubts"] if "moved leaders were met" in one]
    assert bool(said) == (met < MIN_MOVES)
    # Its own topic is gone by now: what is left of the entry is brought back.
    ran = kipctl("reassign", "--rollback", "--yes")
    assert ran.status == 0, ran.err
    assert replicas_of(cluster, topic) == as_tuples(REPLICAS)


def test_what_a_measured_rotation_cost_stands_under_what_moved(
    kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("measured-in-words", REPLICAS)
    ran = kipctl("reassign", "--rotate", "--topic", topic, "--measure", "--yes")
    assert ran.status == 0, ran.err
    moved, cost, *_ = ran.out.splitlines()
    assert moved.startswith("4 leaders moved")
    assert cost.startswith("Moved leaders: ")


def test_a_leader_that_is_not_preferred_moves_too(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("astray", [[1, 2, 3]])
    target = {PartitionId(topic, 0): (2, 1, 3)}
    reassign(cluster, plan_to(take_snapshot(cluster, [topic]), target))
    assert leaders_of(cluster, topic) == [1]
    assert kipctl("reassign", "--rotate", "--topic", topic, "--yes").status == 0
    assert replicas_of(cluster, topic) == [(3, 2, 1)]
    assert leaders_of(cluster, topic) == [3]


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
    ran = kipctl("reassign", "--plan", str(plan), "--dry-run", "-o", "csv")
    rows = [line for line in ran.out.splitlines() if line.startswith(f"partitions,{topic},")]
    assert [row.replace('"', "").split(",")[-1] for row in rows] == [
        " leaves 1",
        "stays",
        "copied to 3",
    ]
    ran = kipctl("reassign", "--plan", str(plan), "--yes")
    assert ran.status == 4
    assert "changes the replication factor of 1 partition" in ran.err
    factor = "--change-replication-factor"
    ran = kipctl("reassign", "--plan", str(plan), "--yes", factor)
    assert ran.status == 0, ran.err
    assert replicas_of(cluster, topic) == list(target.values())
    assert kipctl("reassign", "--rollback", "--yes").status == 0
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


def test_a_cancelled_move_gets_its_old_order_back(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab, state: Path
) -> None:
    topic, foreign = make_topic("cancelled", [[1, 2], [2, 1]]), make_topic("foreign", [[1, 2]])
    others = PartitionId(foreign, 0)
    lab.stop(3)
    try:
        before = take_snapshot(cluster, [topic])
        plan = plan_to(before, {PartitionId(topic, n): (3, 2) for n in (0, 1)})
        kept = journal(before.cluster_id, {"XDG_STATE_HOME": str(state)})
        entry = kept.save(before.assignment, plan.target)
        with pytest.raises(TimedOutError, match="2 of 2 partitions are still being reassigned"):
            reassign(cluster, plan, entry=entry, timeout_s=0.1)
        ran = kipctl("reassign", "--list", "-o", "json")
        assert json.loads(ran.out)["ongoing"][0] == {
            "topic": topic,
            "partition": 0,
            "replicas": [3, 2, 1],
            "adding": [3],
            "removing": [1],
        }
        ran = kipctl("reassign", "--rotate", "--topic", topic, "--yes")
        assert ran.status == 4
        assert "being reassigned already" in ran.err
        assert "--cancel" in ran.err

        submit(cluster, {others: (3, 2)}, may_change_replication_factor=False)
        ran = kipctl("reassign", "--cancel", "--yes", "-o", "json")
        assert ran.status == 0, ran.err
        assert "1 other is left alone" in ran.err
        assert [p["order"] for p in json.loads(ran.out)["cancelled"]] == ["put back", "as before"]
        assert replicas_of(cluster, topic) == [(1, 2), (2, 1)]
        assert [one.id for one in list_reassignments(cluster)] == [others]
        assert kipctl("reassign", "--cancel", "--topic", foreign, "--yes").status == 0
        assert list_reassignments(cluster) == ()
        # All is as it was, so there is nothing left to undo.
        assert kipctl("reassign", "--rollback", "--yes").status == 4
    finally:
        lab.start(3)


def test_a_reorder_that_turns_out_to_copy_data_is_cancelled_at_once(
    cluster: Cluster, make_topic: MakeTopic, lab: Lab
) -> None:
    topic = make_topic("raced", [[1, 2]])
    raced = PartitionId(topic, 0)
    lab.stop(1)
    try:
        plan = plan_to(take_snapshot(cluster, [topic]), {raced: (2, 1)})
        assert not plan.copies_data

        def another_tool(event: ClusterEvent) -> None:
            if event.kind is EventKind.REASSIGNMENT_CALLED:
                with Cluster(lab.bootstrap_server) as other:
                    reassign(other, plan_to(take_snapshot(other, [topic]), {raced: (3, 2)}))

        with pytest.raises(PartlyDoneError) as partly:
            reassign(cluster, plan, on_event=another_tool)
        assert "would have added [1] and removed [3]; so it was cancelled" in partly.value.what
        assert list_reassignments(cluster) == ()
        # A broker may show the cancelled move for a while yet.
        wait_until_everywhere(
            cluster, topic, lambda seen: set(seen.partitions[0].replicas) == {2, 3}
        )
    finally:
        lab.start(1)


def test_what_is_not_as_planned_is_told_by_the_exit_status_too(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab, tmp_path: Path
) -> None:
    topic = make_topic("verified", [[1, 2], [2, 1]])
    target = {PartitionId(topic, 0): (3, 2), PartitionId(topic, 1): (2, 1)}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(reassignment_document(target)))
    ran = kipctl("reassign", "--verify", str(plan), "-o", "json")
    assert (ran.status, json.loads(ran.out)["counts"]) == (5, {"different": 1, "done": 1})
    assert "1 of 2 partitions are not as the file says: 0 in progress, 1 different." in ran.err
    assert "--plan" in ran.err
    lab.stop(3)
    try:
        submit(cluster, target, may_change_replication_factor=False)
        ran = kipctl("reassign", "--verify", str(plan), "-o", "json")
        assert (ran.status, json.loads(ran.out)["counts"]) == (5, {"in progress": 1, "done": 1})
        assert "--list" in ran.err
    finally:
        lab.start(3)
    wait_until_everywhere(cluster, topic, lambda seen: seen.partitions[0].replicas == (3, 2))
    assert kipctl("reassign", "--verify", str(plan)).status == 0


def test_one_refused_partition_does_not_stop_the_others(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic("partly", [[1, 2]])
    (refusal,) = submit(
        cluster,
        {PartitionId(topic, 0): (2, 1), PartitionId(topic, 7): (2, 1)},
        may_change_replication_factor=False,
    )
    assert refusal.id == PartitionId(topic, 7)
    assert refusal.why.startswith("UNKNOWN_TOPIC_OR_PARTITION")
    wait_until_everywhere(cluster, topic, lambda seen: seen.partitions[0].replicas == (2, 1))


def test_the_replication_factor_is_not_changed_by_accident(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic("factor", [[1, 2]])
    (refusal,) = submit(
        cluster, {PartitionId(topic, 0): (1, 2, 3)}, may_change_replication_factor=False
    )
    assert refusal.why.startswith("INVALID_REPLICATION_FACTOR")
    assert replicas_of(cluster, topic) == [(1, 2)]


def test_topics_that_cannot_rotate(kipctl: Kipctl, make_topic: MakeTopic, cluster: Cluster) -> None:
    solo, pair = make_topic("few-solo", [[1]]), make_topic("few-pair", [[1, 2]])
    ran = kipctl("reassign", "--rotate", "--topic", solo, "--yes")
    assert ran.status == 4
    assert "few-solo-0: it has too few replicas to rotate (1)" in ran.err
    ran = kipctl("reassign", "--rotate", "--topic", "few-*", "--yes")
    assert ran.status == 0
    assert "1 is left alone" in ran.err
    assert (leaders_of(cluster, solo), leaders_of(cluster, pair)) == ([1], [2])


def test_wrong_topics_and_plans_change_nothing(
    kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("wrong", [[1, 2]])
    assert kipctl("reassign", "--rotate", "--topic", "nowhere", "--yes").status == 2
    plan = tmp_path / "plan.json"
    for content, problem in [
        ('{"partitions": [', "line 1 column 17: this is not JSON"),
        (
            json.dumps(reassignment_document({PartitionId(topic, 0): (1, 9)})),
            "partitions[0]: wrong-0: broker 9 is not alive",
        ),
        (
            json.dumps(reassignment_document({PartitionId("nowhere", 0): (1, 2)})),
            "partitions[0]: there is no topic 'nowhere'",
        ),
    ]:
        plan.write_text(content)
        ran = kipctl("reassign", "--plan", str(plan), "--yes")
        assert ran.status == 2
        assert problem in ran.err


def test_without_a_terminal_nothing_moves_unasked(
    kipctl: Kipctl, make_topic: MakeTopic, cluster: Cluster
) -> None:
    topic = make_topic("asked", [[1, 2]])
    ran = kipctl("reassign", "--rotate", "--topic", topic)
    assert ran.status == 2
    assert "Repeat with --yes" in ran.err
    assert leaders_of(cluster, topic) == [1]


CTRL_C_BEFORE_THE_ELECTION = """
import time
from kipctl.cli.app import main
from kipctl.cluster.moves import election_batches

def halt(*arguments):
    print("the election is next", flush=True)
    while True:  # a pause could begin just after the signal that is to end it
        time.sleep(0.05)

election_batches.elect = halt
main()
"""


def test_ctrl_c_says_what_was_done_and_how_to_undo_it(
    kipctl: Kipctl, make_topic: MakeTopic, cluster: Cluster, lab: Lab, state: Path
) -> None:
    topic = make_topic("interrupted", REPLICAS)
    arguments = ["reassign", "--rotate", "--topic", topic, "--yes"]
    with subprocess.Popen(
        [sys.executable, "-c", CTRL_C_BEFORE_THE_ELECTION, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"XDG_STATE_HOME": str(state), "KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "the election is next\n":
            pytest.fail(process.communicate()[1])
        process.send_signal(2)
        _, err = process.communicate()
    assert process.returncode == 130
    said = err.splitlines()[-2:]
    assert said == [
        "kipctl: Interrupted. Of 4 partitions 4 have their new replicas, 0 their old ones and 0"
        " are under way; 0 are led by their new preferred leader, 4 are not.",
        "Go on: kipctl reassign --resume. Undo: kipctl reassign --rollback",
    ]
    wait_until_everywhere(
        cluster, topic, lambda shown: [one.replicas for one in shown.partitions] == ROTATED
    )
    assert kipctl("reassign", "--rollback", "--yes").status == 0
    assert replicas_of(cluster, topic) == as_tuples(REPLICAS)
    assert leaders_of(cluster, topic) == [1, 2, 3, 1]
