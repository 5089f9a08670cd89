"""Phases, and moves from disk to disk, on brokers with two log directories each."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from on_lab import Kipctl, MakeTopic, kafka_reassign_partitions

from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.cluster.snapshot import PartitionId
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.process import wait_until

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
    return [tuple(partition.replicas) for _, partition in sorted(partitions.items())]


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
    assert [row["state"] for row in kipctl("changes list -o json").document["entries"]] == ["done"]
    kipctl("undo --yes")
    assert seen_by_another(lab, topic) == [(1, 2), (2, 1)]


class Moving:
    """8 MB of a topic, and a kipctl that moves broker 1's replica to its other disk.

    Kafka lets eleven seconds of a rate pass at once: what is to be under way has to take longer.
    """

    def __init__(self, lab: Lab, topic: str, folder: Path, state: Path) -> None:
        self.lab, self.topic, self.plan = lab, topic, folder / "plan.json"
        self.folders = next(node for node in lab.nodes if node.id == 1).log_dirs
        producer = Producer({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
        for _ in range(400):
            producer.produce(topic, os.urandom(20_000))
            producer.poll(0)
        producer.flush()
        (self.before,) = self.where()
        self.after = next(log_dir for log_dir in self.folders if log_dir != self.before)
        entry = {"topic": topic, "partition": 0, "replicas": [1, 2, 3]}
        entry["log_dirs"] = [str(self.after), "any", "any"]
        self.plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        server = {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server, "XDG_STATE_HOME": str(state)}
        self.variables = os.environ | server

    def where(self) -> list[Path]:
        return [folder for folder in self.folders if (folder / f"{self.topic}-0").exists()]

    @property
    def is_copied(self) -> bool:
        return any(self.after.glob(f"{self.topic}-0.*-future"))

    @property
    def is_throttled(self) -> bool:
        """As librdkafka is told by the broker, which lists no such rate where none is set."""
        asked = ConfigResource(ResourceType.BROKER, "1")
        admin = AdminClient({"bootstrap.servers": self.lab.bootstrap_server, "log_level": 0})
        return RATE in admin.describe_configs([asked], request_timeout=60)[asked].result()

    def begin(self, throttle: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "kipctl", "reassign", "--plan", str(self.plan), "--yes"]
        moving = subprocess.Popen(
            [*words, "--throttle", throttle],
            env=self.variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if not wait_until(lambda: self.is_copied, 120):
            moving.kill()
            pytest.fail(f"nothing is copied: {moving.communicate()}")
        return moving


@pytest.fixture
def moving(lab: Lab, make_topic: MakeTopic, tmp_path: Path, state: Path) -> Moving:
    return Moving(lab, make_topic("parcels", [[1, 2, 3]]), tmp_path, state)


def test_killed_while_disks_are_moved_it_is_gone_on_with_and_taken_back(
    lab: Lab, kipctl: Kipctl, moving: Moving
) -> None:
    with moving.begin("200kB/s") as running:
        running.send_signal(signal.SIGKILL)
    assert moving.is_copied
    assert moving.is_throttled
    kipctl("changes resume --yes")
    assert moving.where() == [moving.after]
    assert "completed successfully" in verified(lab, moving.plan).replace("\n", " ")
    assert not moving.is_throttled
    kipctl("reassign --verify", str(moving.plan))
    kipctl("undo --yes --no-throttle")
    assert moving.where() == [moving.before]
    assert seen_by_another(lab, moving.topic) == [(1, 2, 3)]


def test_copies_are_listed_and_given_up_from_another_terminal(
    kipctl: Kipctl, moving: Moving
) -> None:
    with moving.begin("50kB/s") as running:
        (copied,) = kipctl("reassign --list -o json").document["disks"]
        assert (copied["broker"], copied["to_log_dir"]) == (1, str(moving.after))
        cancelled = kipctl("changes cancel --yes")
        _, said = running.communicate(timeout=120)
    assert running.returncode == 4, (said, cancelled.out)
    assert "its copy was given up by somebody else" in " ".join(said.split())
    assert (moving.where(), moving.is_copied, moving.is_throttled) == (
        [moving.before],
        False,
        False,
    )
    assert kipctl("reassign --list -o json").document["disks"] == []
    kipctl("undo --yes")
