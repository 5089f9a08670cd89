"""Kafka's own reassignment tool and kipctl on one cluster: they agree on plans, and on what is."""

import json
import subprocess
from pathlib import Path

import pytest
from on_lab import Kipctl, MakeTopic, replicas_of, wait_until_everywhere

from kipctl.cluster.moves.reassign import submit
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]
ROTATED = [(2, 3, 1), (3, 1, 2), (1, 2, 3), (3, 2, 1)]
BY_TURNS = [[1, 2], [2, 1], [1, 2], [2, 1]]
ALL_BY_1 = [[1, 2, 3]] * 40
"""More than the leaders of all other topics of the lab, which count as well."""


def kafka_reassign_partitions(lab: Lab, *arguments: str) -> str:
    command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    java = [lab.java.path, "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, lab.jars.paths))]
    return subprocess.run(
        [*java, command, "--bootstrap-server", lab.bootstrap_server, *arguments],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_a_dry_run_changes_nothing_and_kafkas_own_tool_can_carry_it_out(
    cluster: Cluster,
    kipctl: Kipctl,
    make_topic: MakeTopic,
    lab: Lab,
    tmp_path: Path,
    state: Path,
) -> None:
    topic = make_topic("dry", REPLICAS)
    before = take_snapshot(cluster, [topic])
    ran = kipctl("reassign", "--rotate", "--topic", topic, "--dry-run", "-o", "json")
    assert ran.status == 0, ran.err
    assert take_snapshot(cluster, [topic]) == before
    assert not state.exists()
    plan = tmp_path / "plan.json"
    plan.write_text(ran.out)

    kafkas = kafka_reassign_partitions(lab, "--execute", "--reassignment-json-file", str(plan))
    wait_until_everywhere(cluster, topic, lambda seen: list(seen.assignment.values()) == ROTATED)
    ran = kipctl("reassign", "--verify", str(plan), "-o", "json")
    assert (ran.status, json.loads(ran.out)["counts"]) == (0, {"done": 4})

    # The way back that Kafka's tool prints is a plan for kipctl.
    back = tmp_path / "back.json"
    back.write_text(next(line for line in kafkas.splitlines() if line.startswith("{")))
    ran = kipctl("reassign", "--plan", str(back), "--yes")
    assert ran.status == 0, ran.err
    assert "log_dirs" in ran.err
    assert replicas_of(cluster, topic) == [tuple(ids) for ids in REPLICAS]


@pytest.mark.parametrize(
    ("way", "replicas", "moved"),
    [
        ("--rotate", BY_TURNS, 4),
        ("--leaders-off 1", BY_TURNS, 2),
        ("--leader ways-0=2", BY_TURNS, 1),
        ("--balance leaders", ALL_BY_1, None),
        ("--drain 1", BY_TURNS, 4),
        ("--replace 2=3", BY_TURNS, 4),
        ("--replication-factor 3", BY_TURNS, 4),
        ("--replication-factor 1", BY_TURNS, 4),
    ],
)
def test_kafkas_own_tool_agrees_with_what_each_way_leaves(
    cluster: Cluster,
    kipctl: Kipctl,
    make_topic: MakeTopic,
    lab: Lab,
    tmp_path: Path,
    way: str,
    replicas: list[list[int]],
    moved: int | None,
) -> None:
    topic = make_topic("ways", replicas)
    words = ("reassign", *way.split(), "--topic", topic)
    ran = kipctl(*words, "--dry-run", "-o", "json")
    assert ran.status == 0, ran.err
    plan = tmp_path / "plan.json"
    plan.write_text(ran.out)
    planned = json.loads(ran.out)["partitions"]
    assert len(planned) == (moved or len(planned)) > 0
    ran = kipctl(*words, "--yes")
    assert ran.status == 0, ran.err
    now = replicas_of(cluster, topic)
    assert [now[one["partition"]] for one in planned] == [tuple(one["replicas"]) for one in planned]
    assert take_snapshot(cluster, [topic]).not_led_by_preferred == ()
    kafkas = kafka_reassign_partitions(lab, "--verify", "--reassignment-json-file", str(plan))
    assert kafkas.count("is completed.") == len(planned)
    assert kipctl("reassign", "--rollback", "--yes").status == 0
    assert replicas_of(cluster, topic) == [tuple(ids) for ids in replicas]


def test_kafkas_own_tool_lists_what_kipctl_lists(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab
) -> None:
    topic = make_topic("listed", [[1, 2], [2, 1]])
    moving = PartitionId(topic, 0)
    lab.stop(3)
    try:
        submit(cluster, {moving: (2, 3)}, may_change_replication_factor=False)
        assert [one.id for one in list_reassignments(cluster)] == [moving]
        ran = kipctl("reassign", "--list", "-o", "json")
        (listed,) = json.loads(ran.out)["ongoing"]
        kafkas = kafka_reassign_partitions(lab, "--list")
        replicas, adding, removing = (
            ",".join(map(str, listed[key])) for key in ("replicas", "adding", "removing")
        )
        shown = f"{moving}: replicas: {replicas}. adding: {adding}. removing: {removing}."
        assert shown in kafkas
        assert kafkas.count("replicas:") == 1
    finally:
        lab.start(3)
    wait_until_everywhere(cluster, topic, lambda seen: seen.partitions[0].replicas == (2, 3))
