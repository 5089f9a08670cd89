"""Throttles on a real cluster: they hold copying back, and all configs are as before afterwards."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import Producer
from on_lab import Kipctl, MakeTopic, replicas_of

from kipctl.changes.execution.reassign import await_finished, submit
from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.changes.plans.log_sizes import ask_log_sizes
from kipctl.changes.plans.plan import plan_to
from kipctl.changes.throttle import (
    BROKER,
    TOPIC,
    Change,
    Setting,
    Throttle,
    prepare_throttle,
    read_settings,
    read_throttle,
    restore_throttle,
    set_throttle,
    wanted_settings,
)
from kipctl.cluster.log_dirs import reported_sizes
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.cluster.throttle_configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
    REPLICAS,
)
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.protocol.describe_configs import ResourceType
from kipctl.protocol.describe_log_dirs import DescribeLogDirsRequest
from kipctl.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

MB = 10**6
RATE = MB // 5


@pytest.fixture(autouse=True)
def none_afterwards(cluster: Cluster) -> Iterator[None]:
    yield
    brokers = [Setting(BROKER, str(broker), config) for broker in (1, 2, 3) for config in RATES]
    now = read_settings(cluster, brokers)
    left = tuple(Change(setting, None, now[setting]) for setting in brokers)
    restore_throttle(cluster, Throttle(left))


def fill(lab: Lab, topic: str, megabytes: int) -> None:
    settings = {"bootstrap.servers": lab.bootstrap_server, "acks": 1, "log_level": 0}
    producer = Producer({**settings, "queue.buffering.max.messages": 1000})
    for _ in range(megabytes * 10):
        while True:
            try:
                producer.produce(topic, b"x" * 100_000, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def keep_all(cluster: Cluster, topic: str) -> None:
    """Labs remove old data within seconds; here it is to be copied."""
    kept = AlterConfigsResource(
        ResourceType.TOPIC, topic, (AlterableConfig("retention.bytes", value="-1"),)
    )
    answer = cluster.ask_controller(IncrementalAlterConfigsRequest(resources=(kept,)))
    assert [response.error_code for response in answer.responses] == [0]


def test_a_throttle_holds_copying_back_and_all_configs_are_as_before(
    lab: Lab, cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic("throttled", [[1]])
    keep_all(cluster, topic)
    fill(lab, topic, 20)
    held = ask_log_sizes(cluster, take_snapshot(cluster, [topic])).sizes[PartitionId(topic, 0)]
    assert held > 20 * MB
    own = Setting(TOPIC, topic, LEADER_REPLICAS), Setting(BROKER, "1", LEADER_RATE)
    set_throttle(
        cluster, Throttle((Change(own[0], None, "0:2"), Change(own[1], None, "123456789")))
    )
    settings = [Setting(TOPIC, topic, config) for config in REPLICAS]
    settings += [Setting(BROKER, broker, config) for broker in "123" for config in RATES]
    wait_for(cluster, {own[0]: "0:2", own[1]: "123456789"})
    before = read_settings(cluster, settings)

    plan = plan_to(take_snapshot(cluster, [topic]), {PartitionId(topic, 0): (3,)})
    wanted = wanted_settings(plan.moves, RATE, cluster.nodes)
    throttle = prepare_throttle(cluster, wanted, own=plan.target)
    assert read_throttle(json.loads(json.dumps(throttle.document()))) == throttle
    set_throttle(cluster, throttle)
    wait_for(cluster, {change.setting: change.during for change in throttle.changes})
    assert read_settings(cluster, settings)[own[0]] == "0:2,0:1"
    assert read_settings(cluster, settings)[Setting(TOPIC, topic, FOLLOWER_REPLICAS)] == "0:3"

    # The quota's window lets 11 s through at once: at this rate half of it takes 40 s.
    submit(cluster, plan.target, may_change_replication_factor=False)
    copied = [-1]
    while copied[-1] <= 0 or len({*copied[-20:]}) > 1:  # until it stands still
        sizes, _ = reported_sizes(3, cluster.broker(3).request(DescribeLogDirsRequest(topics=None)))
        copied.append(sizes.get(PartitionId(topic, 0), 0))
    assert copied[-1] < held / 2
    assert [ongoing.id for ongoing in list_reassignments(cluster)] == [PartitionId(topic, 0)]

    assert restore_throttle(cluster, throttle) == ()
    wait_for(cluster, before)
    assert read_settings(cluster, settings) == before
    deadline = time.monotonic() + 120
    await_finished(cluster, plan.target, lambda: deadline, lambda text: None)
    assert replicas_of(cluster, topic) == [(3,)]
    now = ask_log_sizes(cluster, take_snapshot(cluster, [topic]))
    assert now.sizes[PartitionId(topic, 0)] == held
    assert now.disks.keys() == {1, 2, 3}

    left = tuple(Change(setting, None, before[setting]) for setting in own)
    assert restore_throttle(cluster, Throttle(left)) == ()
    wait_for(cluster, dict.fromkeys(own))


def test_two_kipctl_never_leave_the_other_unlimited_and_nothing_in_the_end(
    lab: Lab, cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """With journals of their own, as on two machines."""
    topics = make_topic("first", [[1]]), make_topic("second", [[2]])
    for topic in topics:
        keep_all(cluster, topic)
        fill(lab, topic, 10)
        plan = reassignment_document({PartitionId(topic, 0): (3,)})
        (tmp_path / topic).write_text(json.dumps(plan))
    taken = Setting(BROKER, "3", FOLLOWER_RATE)
    looks: list[str | None] = []

    def is_first_busy(cluster: Cluster) -> bool:
        return any(ongoing.id.topic == topics[0] for ongoing in list_reassignments(cluster))

    def look_on() -> None:
        with Cluster(lab.bootstrap_server, timeout_s=30.0) as own:
            while is_first_busy(own):
                now = read_settings(own, [taken])[taken]
                looks.extend([now] if is_first_busy(own) else [])

    words = ["reassign", "--plan", str(tmp_path / topics[0]), "--yes", "--throttle", "200kB/s"]
    elsewhere = {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server, "XDG_STATE_HOME": str(tmp_path)}
    elsewhere["KIPCTL_LOCK_FOLDER"] = str(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", *words],
        env=os.environ | elsewhere,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert wait_until(lambda: is_first_busy(cluster), 60)
        looking = Thread(target=look_on)
        looking.start()
        second = ["--plan", str(tmp_path / topics[1]), "--throttle 2MB/s --additional --yes"]
        ran = kipctl("reassign", *second, status=(0, 5))
        _, first_said = running.communicate(timeout=300)
        looking.join()
    said = " ".join(ran.err.split())
    assert "that kipctl here has not set" in said
    assert "2.0 MB/s takes its place" in said
    assert len(looks) > 3
    assert None not in looks, (looks, said, first_said)
    assert {replicas_of(cluster, topic)[0] for topic in topics} == {(3,)}
    settings = [Setting(BROKER, broker, config) for broker in "123" for config in RATES]
    settings += [Setting(TOPIC, topic, config) for topic in topics for config in REPLICAS]
    assert read_settings(cluster, settings) == dict.fromkeys(settings), (said, first_said)


def wait_for(cluster: Cluster, values: dict[Setting, str | None]) -> None:
    """Brokers hear of a change a moment later; pytest's own timeout is the limit."""
    while {**read_settings(cluster, values)} != values:
        time.sleep(0.05)
