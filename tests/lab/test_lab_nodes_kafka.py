"""Nodes of a lab: what they serve and log, and how each is stopped, started, paused and killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from lab_tools import kipctl_lab, runs_c1_only, topic_on
from on_lab import in_sync, wait_until_everywhere

from kipctl import process
from kipctl.errors import RefusedError, UsageError
from kipctl.lab.cluster import Lab, LabState
from kipctl.lab.node import NodeState
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
ALL_RUN = dict.fromkeys((1, 2, 3, 101), NodeState.RUNNING)


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether it holds in time: on a busy machine a broker may be fenced for a moment."""
    return process.wait_until(condition, 300)


def states(lab: Lab) -> dict[int, NodeState]:
    return {status.id: status.state for status in lab.status()}


def brokers_listed_by(lab: Lab, node_id: int) -> set[int]:
    with Cluster(f"127.0.0.1:{lab.node(node_id).port}") as cluster:
        return {broker.node_id for broker in cluster.metadata(()).brokers}


def test_brokers_are_in_racks_and_serve_topics_on_all_of_them(lab: Lab) -> None:
    before = sum(status.leaders or 0 for status in lab.status())
    with topic_on(lab, "served", 3) as topic, Cluster(lab.bootstrap_server) as cluster:
        wait_until_everywhere(cluster, topic, in_sync)
        metadata = cluster.metadata([topic])
        statuses = lab.status()
    assert {b.node_id: (b.rack, b.port) for b in metadata.brokers} == {
        n.id: (f"rack-{n.id}", n.port) for n in lab.nodes if n.id <= 3
    }
    assert {len(p.isr_nodes) for p in metadata.topics[0].partitions} == {3}
    roles = ["broker"] * 3 + ["controller"]
    assert [(s.id, s.role.value) for s in statuses] == [*zip((1, 2, 3, 101), roles, strict=True)]
    assert sum(status.leaders or 0 for status in statuses) == before + 3
    assert statuses[3].leaders is None


def test_a_broker_reads_its_configuration_as_given(lab: Lab) -> None:
    asked = ConfigResource(ResourceType.BROKER, "2")
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server})
    config = admin.describe_configs([asked])[asked].result()
    assert config["broker.rack"].value == "rack-2"
    assert config["replica.selector.class"].value.endswith(".RackAwareReplicaSelector")


def test_status_shows_every_node(lab: Lab) -> None:
    status, out, _ = kipctl_lab("status", "--name", lab.name, "--output", "json")
    assert status == 0
    (document,) = json.loads(out)["labs"]
    assert document["bootstrap_server"] == lab.bootstrap_server
    assert document["state"] == "running"
    assert document["request_log"] is False
    shown = ("node", "role", "rack", "pid", "state", "request_log_file")
    assert [tuple(node[name] for name in shown) for node in document["nodes"]] == [
        (n.id, n.role.value, n.rack, n.pid, "running", str(n.request_log_path)) for n in lab.nodes
    ]
    _, out, _ = kipctl_lab("status", "--name", lab.name, "--output", "plain")
    lines = out.splitlines()
    assert lines[0] == f"Lab {lab.name} is running, with Kafka 4.3.1; nodes: 4 running."
    (first,) = (words for line in lines if (words := line.split())[:1] == ["1"])
    node = lab.nodes[0]
    assert first[:6] == ["1", "broker", "rack-1", str(node.port), str(node.pid), "running"]
    assert lines[-1] == f"Bootstrap server: {lab.bootstrap_server}"


def test_logs_of_one_node_and_of_all(lab: Lab) -> None:
    status, out, _ = kipctl_lab("logs", "2", "--name", lab.name, "--lines", "3")
    assert status == 0
    assert len(out.splitlines()) == 3
    assert out.splitlines()[0] in lab.node(2).log_path.read_text()
    _, out, _ = kipctl_lab("logs", "--name", lab.name, "--lines", "1")
    labels = [line.partition(" | ")[0] for line in out.splitlines()]
    assert labels == ["broker-1", "broker-2", "broker-3", "controller-101"]


def test_logs_are_followed_until_ctrl_c(lab: Lab) -> None:
    command = ["lab", "logs", "1", "--follow", "--lines", "1", "--name", lab.name]
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as kipctl:
        assert kipctl.stdout is not None
        assert kipctl.stdout.readline() != ""
        with lab.node(1).log_path.open("a") as log:
            log.write("a line of the test\n")
        assert "a line of the test\n" in iter(kipctl.stdout.readline, "")
        kipctl.send_signal(signal.SIGINT)
    assert kipctl.returncode == 130


def test_stop_start_pause_resume_and_kill(lab: Lab) -> None:
    assert becomes(lambda: brokers_listed_by(lab, 2) == {1, 2, 3})
    status, out, _ = kipctl_lab("pause", "1", "--name", lab.name, "--output", "json")
    nodes = {node["node"]: node["state"] for node in json.loads(out)["labs"][0]["nodes"]}
    assert (status, nodes[1]) == (0, "paused")
    assert becomes(lambda: states(lab) == ALL_RUN | {1: NodeState.PAUSED})
    lab.stop(3)
    with pytest.raises(RefusedError, match="broker-3 does not run"):
        lab.resume(3)
    assert kipctl_lab("resume", "1", "--name", lab.name)[0] == 0
    assert becomes(lambda: states(lab) == ALL_RUN | {3: NodeState.STOPPED})
    assert becomes(lambda: brokers_listed_by(lab, 2) == {1, 2})

    before = lab.node(2).pid
    lab.kill(2)
    assert states(lab)[2] is NodeState.STOPPED
    lab.start(2, 3)
    assert lab.node(2).pid not in (None, before)
    assert becomes(lambda: states(lab) == ALL_RUN)
    assert becomes(lambda: brokers_listed_by(lab, 1) == brokers_listed_by(lab, 3) == {1, 2, 3})
    status, _, told = kipctl_lab("pause", "3", "9", "--name", lab.name)
    assert (status, told.splitlines()[0]) == (2, f"kipctl: Lab {lab.name!r} has no node 9.")
    assert states(lab)[3] is NodeState.RUNNING
    with pytest.raises(UsageError, match="has no node 9"):
        lab.stop(9)


def test_a_broker_that_crashed_or_is_shutting_down_is_seen_and_started_again(lab: Lab) -> None:
    with topic_on(lab, "kept", replicas=3) as topic:
        before, crashed = lab.node(3).pid, process.identify(lab.node(1).pid or 0)
        os.kill(crashed.pid, signal.SIGKILL)
        assert process.wait_for_exit(crashed, 60)
        assert states(lab)[1] is NodeState.CRASHED
        assert lab.state is LabState.RUNNING
        with subprocess.Popen(
            [sys.executable, "-m", "kipctl", "lab", "stop", "3", "--name", lab.name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as stopper:
            assert becomes(lambda: lab.node(3).state is not NodeState.RUNNING)
            assert lab.node(3).state in (NodeState.STOPPING, NodeState.STOPPED)
            lab.start(1, 3)
        assert stopper.returncode == 0
        assert lab.node(3).pid not in (None, before)
        assert runs_c1_only(lab, 3), "as the lab was asked for, also after a restart"
        assert becomes(lambda: states(lab) == ALL_RUN)
        assert becomes(lambda: brokers_listed_by(lab, 3) == {1, 2, 3})
        with Cluster(lab.bootstrap_server) as cluster:
            assert topic in [listed.name for listed in cluster.metadata().topics]
