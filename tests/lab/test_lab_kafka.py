"""Labs of real brokers: what they serve, what happens to their nodes, and what they leave."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from on_lab import in_sync, wait_until_everywhere

from kipctl import process
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.errors import RefusedError, UsageError
from kipctl.lab.cluster import Lab, LabState, labs, running_labs, take_down, unfinished_labs
from kipctl.lab.jars import KafkaJars
from kipctl.lab.node import NodeDiedError, NodeState
from kipctl.lab.ports import first_of_free_ports, is_free
from kipctl.lab.properties import KAFKAS_SESSION, LabSpec
from kipctl.process import Process
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
MakeLab = Callable[..., Lab]


def produce(lab: Lab, topic: str, replicas: int) -> None:
    """Make a topic and write a record to it that every in-sync replica has."""
    quiet = {"bootstrap.servers": lab.bootstrap_server, "log_level": 0}
    admin = AdminClient(quiet)
    admin.create_topics([NewTopic(topic, 3, replicas)])[topic].result()
    failed: list[object] = []
    producer = Producer({**quiet, "acks": "all", "message.timeout.ms": 60_000})
    producer.produce(topic, b"a record", on_delivery=lambda error, _: failed.append(error))
    producer.flush()
    assert failed == [None]


def processes(lab: Lab) -> list[Process]:
    found = []
    for node in lab.nodes:
        # One that is about to end may be gone when it is looked at.
        with contextlib.suppress(ProcessLookupError):
            if (pid := node.pid) is not None:
                found.append(process.identify(pid))
    return found


def runs_c1_only(lab: Lab, node_id: int) -> bool:
    """Whether Java was told to leave its second compiler out, by the arguments of the process."""
    arguments = Path(f"/proc/{lab.node(node_id).pid}/cmdline").read_bytes().split(b"\0")
    return b"-XX:TieredStopAtLevel=1" in arguments


def states(lab: Lab) -> dict[int, NodeState]:
    return {status.id: status.state for status in lab.status()}


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether it holds within a minute: on a busy machine a broker may be fenced for a moment."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
    return True


def runs_whole(lab: Lab) -> bool:
    return set(states(lab).values()) == {NodeState.RUNNING}


def brokers_listed_by(lab: Lab, node_id: int) -> set[int]:
    with Cluster(f"127.0.0.1:{lab.node(node_id).port}") as cluster:
        return {broker.node_id for broker in cluster.metadata(()).brokers}


def test_brokers_are_in_racks_and_serve_topics_on_all_of_them(lab: Lab) -> None:
    before = sum(status.leaders or 0 for status in lab.status())
    produce(lab, "served", replicas=3)
    with Cluster(lab.bootstrap_server) as cluster:
        wait_until_everywhere(cluster, "served", in_sync)
        metadata = cluster.metadata(["served"])
    assert {b.node_id: (b.rack, b.port) for b in metadata.brokers} == {
        n.id: (f"rack-{n.id}", n.port) for n in lab.nodes if n.id <= 3
    }
    assert {len(p.isr_nodes) for p in metadata.topics[0].partitions} == {3}
    statuses = lab.status()
    assert [(s.id, s.role.value, s.state.value) for s in statuses] == [
        (1, "broker", "running"),
        (2, "broker", "running"),
        (3, "broker", "running"),
        (101, "controller", "running"),
    ]
    assert sum(status.leaders or 0 for status in statuses) == before + 3
    assert statuses[3].leaders is None
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server})
    admin.delete_topics(["served"])["served"].result()


def test_a_broker_reads_its_configuration_as_given(lab: Lab) -> None:
    asked = ConfigResource(ResourceType.BROKER, "2")
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server})
    config = admin.describe_configs([asked])[asked].result()
    assert config["broker.rack"].value == "rack-2"
    assert config["replica.selector.class"].value.endswith(".RackAwareReplicaSelector")


def test_down_leaves_no_process_port_or_data(make_lab: MakeLab, state_home: Path) -> None:
    lab = make_lab(name="gone", brokers=2, config=(("num.io.threads", "3"),))
    assert "gone" in [running.name for running in running_labs()]
    used = processes(lab)
    assert len(used) == 3
    assert [is_free(node.port) for node in lab.nodes] == [False] * 3
    produce(lab, "t", replicas=2)
    on_disk = sum(p.stat().st_blocks * 512 for p in lab.folder.rglob("*") if p.is_file())
    assert on_disk < 4 << 20
    assert take_down("gone")
    assert [process.is_alive(node) for node in used] == [False] * 3
    assert [is_free(node.port) for node in lab.nodes] == [True] * 3
    assert not lab.folder.exists()
    assert not take_down("gone")


def test_a_second_lab_has_ports_of_its_own_and_a_second_of_its_name_is_refused(
    lab: Lab, make_lab: MakeLab
) -> None:
    other = make_lab(name="other", brokers=1)
    assert {node.port for node in lab.nodes}.isdisjoint(node.port for node in other.nodes)
    assert lab.cluster_id != other.cluster_id
    produce(other, "t", replicas=1)
    with Cluster(lab.bootstrap_server) as cluster:
        assert "t" not in [topic.name for topic in cluster.metadata().topics]
    with pytest.raises(RefusedError, match="'other' is there already"):
        Lab.up(LabSpec(name="other"), lambda text: None)
    assert other.state is LabState.RUNNING


def test_ports_that_were_asked_for(make_lab: MakeLab) -> None:
    first = first_of_free_ports(2)
    with socket.create_server(("127.0.0.1", first + 1)):
        with pytest.raises(RefusedError, match=f"Port {first + 1} belongs to another program"):
            make_lab(brokers=1, port=first)
        assert {lab.name for lab in labs()} <= {"session", "secured"}
    lab = make_lab(brokers=1, port=first, c1_only=False)
    assert lab.bootstrap_server == f"127.0.0.1:{first}"
    assert not runs_c1_only(lab, 1)
    lab.stop(1)
    with pytest.raises(RefusedError, match=f"Port {first} belongs to lab"):
        make_lab(brokers=1, port=first)


def test_stop_start_pause_resume_and_kill(make_lab: MakeLab) -> None:
    lab = make_lab(brokers=3)
    assert becomes(lambda: brokers_listed_by(lab, 2) == {1, 2, 3})

    lab.stop(1)
    assert states(lab)[1] is NodeState.STOPPED
    assert becomes(lambda: brokers_listed_by(lab, 2) == {2, 3})
    lab.start(1)
    assert becomes(lambda: brokers_listed_by(lab, 1) == brokers_listed_by(lab, 2) == {1, 2, 3})

    lab.pause(1)
    but_one = {1: NodeState.PAUSED, **dict.fromkeys((2, 3, 101), NodeState.RUNNING)}
    assert becomes(lambda: states(lab) == but_one)
    lab.stop(3)
    with pytest.raises(RefusedError, match="broker-3 does not run"):
        lab.resume(3)
    lab.resume(1)
    lab.start(3)
    assert becomes(lambda: brokers_listed_by(lab, 1) == {1, 2, 3})

    before = lab.node(2).pid
    lab.kill(2)
    assert states(lab)[2] is NodeState.STOPPED
    lab.restart(2)
    assert lab.node(2).pid != before
    assert becomes(lambda: runs_whole(lab))
    with pytest.raises(UsageError, match="has no node 9"):
        lab.stop(9)


def test_a_broker_that_is_shutting_down_is_waited_for_and_started(lab: Lab) -> None:
    before = lab.node(3).pid
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", "lab", "stop", "3", "--name", lab.name],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as stopper:
        while (is_over := stopper.poll() is not None, lab.node(3).state)[1] is NodeState.RUNNING:
            assert not is_over
        assert lab.node(3).state in (NodeState.STOPPING, NodeState.STOPPED)
        lab.start(3)
    assert stopper.returncode == 0
    assert lab.node(3).pid not in (None, before)
    assert runs_c1_only(lab, 3), "as the session's lab was asked for, also after a restart"
    assert becomes(lambda: runs_whole(lab))
    assert becomes(lambda: brokers_listed_by(lab, 3) == {1, 2, 3})


def test_a_broker_that_crashed_is_seen_and_started_again(make_lab: MakeLab) -> None:
    lab = make_lab(brokers=2)
    produce(lab, "kept", replicas=2)
    crashed = process.identify(lab.node(1).pid or 0)
    os.kill(crashed.pid, signal.SIGKILL)
    assert process.wait_for_exit(crashed, 10)
    assert states(lab)[1] is NodeState.CRASHED
    assert lab.state is LabState.RUNNING
    lab.start(1)
    assert becomes(lambda: runs_whole(lab))
    with Cluster(lab.bootstrap_server) as cluster:
        assert "kept" in [topic.name for topic in cluster.metadata().topics]


def test_a_lab_left_by_a_crash_is_replaced(make_lab: MakeLab) -> None:
    crashed = make_lab(name="crashed", brokers=1)
    for node in processes(crashed):
        os.kill(node.pid, signal.SIGKILL)
        assert process.wait_for_exit(node, 10)
    assert crashed.state is LabState.LEFT_BEHIND
    assert "crashed" not in [lab.name for lab in running_labs()]
    told: list[str] = []
    again = Lab.up(LabSpec(name="crashed", brokers=1), told.append)
    assert told[0] == "Removing lab 'crashed', which a crash left behind."
    assert again.state is LabState.RUNNING
    assert again.cluster_id != crashed.cluster_id


def test_a_lab_that_was_stopped_on_purpose_is_kept(make_lab: MakeLab) -> None:
    lab = make_lab(name="stopped", brokers=1)
    produce(lab, "kept", replicas=1)
    lab.stop(1)
    lab.stop(101)
    assert lab.state is LabState.STOPPED
    with pytest.raises(RefusedError, match=r"is there already \(stopped\)"):
        Lab.up(LabSpec(name="stopped"), lambda text: None)
    lab.start(1, 101)
    with Cluster(lab.bootstrap_server) as cluster:
        assert "kept" in [topic.name for topic in cluster.metadata().topics]


def test_a_broker_that_dies_at_its_start_shows_its_last_error_and_keeps_its_log(
    make_lab: MakeLab,
) -> None:
    with pytest.raises(NodeDiedError) as died:
        make_lab(name="dead", brokers=1, config=(("num.io.threads", "-3"),))
    assert "Invalid value -3 for configuration num.io.threads" in died.value.what
    log = Path(died.value.next_step.removeprefix("Its log: "))
    assert "num.io.threads" in log.read_text()
    lab = Lab.load("dead")
    assert lab.state is LabState.LEFT_BEHIND
    assert processes(lab) == []
    with pytest.raises(RefusedError, match="never became ready"):
        lab.start(1)
    assert take_down("dead")


@pytest.mark.parametrize("launched", [False, True])
@pytest.mark.parametrize(
    ("sent", "status", "left"),
    [
        (signal.SIGINT, 130, False),
        (signal.SIGTERM, 143, False),
        (signal.SIGHUP, 129, False),
        (signal.SIGKILL, -9, True),
    ],
)
def test_a_start_that_is_cut_off_leaves_nothing_or_is_found(
    guard: None, sent: signal.Signals, status: int, left: bool, launched: bool
) -> None:
    """A signal to end cleans up at once; what a killed kipctl leaves is cleaned by the next one."""
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", "lab", "up", "--name", "cut-off"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as kipctl:
        assert kipctl.stderr is not None
        assert any(line.startswith("Starting Kafka") for line in kipctl.stderr)
        starting = Lab.load("cut-off")
        assert starting.state is LabState.STARTING
        while launched and any(node.pid is None for node in starting.nodes):
            assert kipctl.poll() is None
        kipctl.send_signal(sent)
        kipctl.stderr.read()
    assert kipctl.returncode == status
    assert ("cut-off" in {lab.name for lab in labs()} | set(unfinished_labs())) is left
    if left:
        lab = Lab.load("cut-off")
        assert lab.state is LabState.LEFT_BEHIND
        running = processes(lab)
        assert take_down("cut-off")
        assert [node for node in running if process.is_alive(node)] == []
        assert not lab.folder.exists()


def test_what_a_start_left_without_a_record_is_found_and_removed(state_home: Path) -> None:
    left = state_home / "kipctl" / "labs" / "half"
    left.mkdir(parents=True)
    (left / "lab.json").write_text('{"kafka_version": ')
    assert "half" in unfinished_labs()
    assert take_down("half")
    assert not left.exists()


def test_kafka_3_6_2_starts_and_takes_records(
    make_lab: MakeLab, fetched_kafka: Callable[[str], KafkaJars]
) -> None:
    fetched_kafka("3.6.2")
    lab = make_lab(kafka_version="3.6.2")
    assert lab.kafka_version == "3.6.2"
    produce(lab, "t", replicas=3)
    with Cluster(lab.bootstrap_server) as cluster:
        assert cluster.any_broker().api_versions[0][1] == 9  # Produce
    # It answers a moment before it says so.
    assert becomes(lambda: "Kafka Server started" in lab.log_path(1).read_text())


def test_several_controllers_and_no_racks(make_lab: MakeLab) -> None:
    lab = make_lab(brokers=1, controllers=3, racks=0, config=KAFKAS_SESSION)
    lab.kill(101)
    lab.kill(102)
    lab.start(101)
    produce(lab, "t", replicas=1)
    with Cluster(lab.bootstrap_server) as cluster:
        assert [broker.rack for broker in cluster.metadata(()).brokers] == [None]


@pytest.mark.parametrize("version", ["4.3.1", "3.6.2"])
def test_a_lab_whose_brokers_log_each_request_from_their_start(
    make_lab: MakeLab, fetched_kafka: Callable[[str], KafkaJars], version: str
) -> None:
    fetched_kafka(version)
    lab = make_lab(brokers=1, kafka_version=version, request_log=True)
    assert Lab.load(lab.name).request_log
    for turn in ("first", "after-a-restart"):
        log = lab.node(1).request_log_path
        while f'"clientId":"{turn}"' not in log.read_text():
            with Cluster(lab.bootstrap_server, client_id=turn) as cluster:
                cluster.metadata(())
        assert '"requestApiKeyName":"METADATA"' in log.read_text()
        assert "Completed request:" not in lab.log_path(1).read_text()
        lab.restart(1)


def test_a_lab_of_a_run_is_known_to_be_one_and_left_when_its_run_is_gone(
    make_lab: Callable[..., Lab], capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make_lab(brokers=1, of_a_run=True)
    assert Lab.load(lab.name).owner == process.current_process()
    assert not Lab.load(lab.name).is_orphan
    record = lab.folder / "lab.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"owner": [2**22 + 1, "0"]}))
    assert Lab.load(lab.name).is_orphan
    assert run(["lab", "status"], Environment()) == 0
    assert f"The run that made lab {lab.name!r} is gone." in capsys.readouterr().err
