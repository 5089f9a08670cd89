"""Kafka's own reassignment tool and kipctl on one cluster: they agree on plans, and on what is."""

import json
from pathlib import Path
from typing import Any

import pytest
from on_lab import Kipctl, MakeTopic, kafka_reassign_partitions, replicas_of, wait_until_everywhere

from kipctl.cluster.snapshot import take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]
ROTATED = [(2, 3, 1), (3, 1, 2), (1, 2, 3), (3, 2, 1)]
BY_TURNS = [[1, 2], [2, 1], [1, 2], [2, 1]]
ALL_BY_1 = [[1, 2, 3]] * 40
"""More than the leaders of all other topics of the lab, which count as well."""


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
    ran = kipctl("reassign --rotate --topic", topic, "--dry-run -o json")
    assert take_snapshot(cluster, [topic]) == before
    assert not state.exists()
    plan = tmp_path / "plan.json"
    plan.write_text(ran.out)

    kafkas = kafka_reassign_partitions(lab, "--execute", "--reassignment-json-file", str(plan))
    wait_until_everywhere(cluster, topic, lambda seen: list(seen.assignment.values()) == ROTATED)
    ran = kipctl("reassign --verify", str(plan), "-o json")
    assert ran.document["counts"] == {"done": 4}

    # The way back that Kafka's tool prints is a plan for kipctl.
    back = tmp_path / "back.json"
    back.write_text(next(line for line in kafkas.splitlines() if line.startswith("{")))
    kipctl("reassign --plan", str(back), "--yes")
    assert replicas_of(cluster, topic) == [tuple(ids) for ids in REPLICAS]


WAYS: list[tuple[str, list[list[int]], int | None]] = [
    ("--rotate", BY_TURNS, 4),
    ("--leaders-off 1", BY_TURNS, 2),
    ("--leader ways-2-0=2", BY_TURNS, 1),
    ("--balance leaders", ALL_BY_1, None),
    ("--drain 1", BY_TURNS, 4),
    ("--replace 2=3", BY_TURNS, 4),
    ("--replication-factor 3", BY_TURNS, 4),
    ("--replication-factor 1", BY_TURNS, 4),
]


def test_kafkas_own_tool_agrees_with_what_each_way_leaves(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, lab: Lab, tmp_path: Path
) -> None:
    """All of them are asked about at once: the tool takes longer to start than to answer."""
    planned: list[dict[str, Any]] = []
    for number, (way, replicas, moved) in enumerate(WAYS):
        topic = make_topic(f"ways-{number}", replicas)
        words = f"reassign {way} --topic {topic}"
        plan = kipctl(words, "--dry-run -o json").document["partitions"]
        assert len(plan) == (moved or len(plan)) > 0, way
        kipctl(words, "--yes")
        now = replicas_of(cluster, topic)
        assert [now[row["partition"]] for row in plan] == [tuple(p["replicas"]) for p in plan], way
        assert take_snapshot(cluster, [topic]).not_led_by_preferred == (), way
        planned += plan
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": planned}))
    kafkas = kafka_reassign_partitions(lab, "--verify", "--reassignment-json-file", str(file))
    assert kafkas.count("is completed.") == len(planned)
    for entry in kipctl("changes list -o json").document["entries"]:
        kipctl("undo --yes", entry["id"])
    for number, (way, replicas, _) in enumerate(WAYS):
        assert replicas_of(cluster, f"ways-{number}") == [tuple(ids) for ids in replicas], way
