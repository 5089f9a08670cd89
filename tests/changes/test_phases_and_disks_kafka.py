"""Phases, and moves from disk to disk, on brokers with two log directories each."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from on_lab import Kipctl, MakeTopic, kafka_configs, kafka_reassign_partitions

from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.cluster.snapshot import PartitionId
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec

pytestmark = pytest.mark.kafka

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def lab(guard: None) -> Iterator[Lab]:
    lab = Lab.up(LabSpec(name="disks", c1_only=True, log_dirs=2), lambda text: None)
    yield lab
    lab.down()


def seen_by_another(lab: Lab, topic: str) -> list[tuple[int, ...]]:
    """The replicas of each partition, as librdkafka is told them."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    partitions = admin.list_topics(topic).topics[topic].partitions
    return [tuple(one.replicas) for _, one in sorted(partitions.items())]


def verified(lab: Lab, plan: Path) -> str:
    words = ("--verify", "--preserve-throttles", "--reassignment-json-file", str(plan))
    return kafka_reassign_partitions(lab, *words)


def test_phases_end_where_the_last_one_says_and_come_back(
    lab: Lab, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("phased", [[1, 2], [2, 1]])
    phases = [{0: (1, 3), 1: (2, 3)}, {0: (2, 3)}]
    files = [tmp_path / "1.json", tmp_path / "2.json"]
    for file, phase in zip(files, phases, strict=True):
        target = {PartitionId(topic, number): ids for number, ids in phase.items()}
        file.write_text(json.dumps(reassignment_document(target)))
    plans = " ".join(f"--plan {file}" for file in files)
    kipctl(f"reassign {plans} --yes --throttle 50MB/s --between 0s")
    assert seen_by_another(lab, topic) == [(2, 3), (2, 3)]
    assert "is completed." in verified(lab, files[1])
    kipctl("reassign", plans.replace("--plan", "--verify"))
    assert [one["state"] for one in kipctl("changes list -o json").document["entries"]] == ["done"]
    kipctl("undo --yes")
    assert seen_by_another(lab, topic) == [(1, 2), (2, 1)]


def test_killed_while_disks_are_moved_it_is_gone_on_with_and_taken_back(
    lab: Lab, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path, state: Path
) -> None:
    topic = make_topic("parcels", [[1, 2, 3]])
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    for _ in range(600):
        producer.produce(topic, os.urandom(20_000))
        producer.poll(0)
    producer.flush()
    folders = next(node for node in lab.nodes if node.id == 1).log_dirs

    def where() -> list[str]:
        return [folder.name for folder in folders if (folder / f"{topic}-0").exists()]

    (before,) = where()
    after = next(folder for folder in folders if folder.name != before)
    plan = tmp_path / "plan.json"
    entry = {"topic": topic, "partition": 0, "replicas": [1, 2, 3]}
    entry["log_dirs"] = [str(after), "any", "any"]
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    words = [sys.executable, "-m", "kipctl", "reassign", "--plan", str(plan), "--yes"]
    variables = {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server, "XDG_STATE_HOME": str(state)}
    with subprocess.Popen(
        [*words, "--throttle", "1MB/s"], env=os.environ | variables, stderr=subprocess.DEVNULL
    ) as moving:
        until = time.monotonic() + 120
        while not list(after.glob(f"{topic}-0.*-future")):
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(moving.pid, signal.SIGKILL)
    assert "is still in progress" in verified(lab, plan)
    described = ("--entity-type", "brokers", "--entity-name", "1", "--describe")
    server = ("--bootstrap-server", lab.bootstrap_server)
    assert f"{RATE}=1000000" in kafka_configs(lab, *server, *described)
    kipctl("changes resume --yes")
    assert where() == [after.name]
    assert "completed successfully" in verified(lab, plan).replace("\n", " ")
    assert f"{RATE}=" not in kafka_configs(lab, *server, *described)
    kipctl("reassign --verify", str(plan))
    kipctl("undo --yes --no-throttle")
    assert where() == [before]
    assert seen_by_another(lab, topic) == [(1, 2, 3)]
