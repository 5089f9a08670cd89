"""`kipctl elect` on a real cluster: each partition's outcome, and what stays as it was."""

import json
from pathlib import Path

import pytest
from on_lab import Kipctl, MakeTopic, leaders_of, outcomes, reorder

from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def test_only_what_is_not_led_by_its_preferred_replica_is_elected(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("elected", [[1, 2], [2, 3], [3, 1]])
    reorder(cluster, topic, (2, 1), (2, 3), (1, 3))
    ran = kipctl("elect preferred --topic", topic, "--dry-run -o json")
    assert [p["partition"] for p in ran.document["partitions"]] == [0, 2]
    assert leaders_of(cluster, topic) == [1, 2, 3]
    waits = ("wait", "--topic", topic, "--until")
    ran = kipctl(*waits, "preferred --timeout 0.5", status=6)
    assert "2 partitions are not led by the preferred replica, such as elected-0" in ran.err

    ran = kipctl("elect preferred --topic", topic, "--batch 1 --yes -o json")
    assert outcomes(ran) == [(0, "elected", 2), (2, "elected", 1)]
    assert leaders_of(cluster, topic) == [2, 2, 1]

    again = kipctl("elect preferred --topic", topic, "--yes -o json")
    assert json.loads(again.out)["partitions"] == []
    kipctl(*waits, "in-sync,preferred,converged,no-reassignment")


def test_partitions_can_be_named_one_by_one_or_in_kafkas_file(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("named", [[1, 2], [1, 2], [1, 2]])
    reorder(cluster, topic, (2, 1), (2, 1), (2, 1))
    kipctl("elect preferred --partition", f"{topic}:1", "--yes")
    assert leaders_of(cluster, topic) == [1, 2, 1]
    file = tmp_path / "election.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 2}]}))
    kipctl("elect preferred --json-file", str(file), "--yes")
    assert leaders_of(cluster, topic) == [1, 2, 2]
