"""Labs of real brokers: how they are made, what is known of them, and what they leave."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from lab_tools import kipctl_lab, produce, runs_c1_only

from kipctl import __version__, process
from kipctl.cluster.broker_metrics import BrokerMetrics, scrape
from kipctl.cluster.sample_topics import RECORDS, SampleTopic, make_sample_topics
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.cluster.topics import LATEST, await_no_topics, delete_topics, offsets
from kipctl.errors import RefusedError
from kipctl.lab.cluster import Lab, LabState, labs, running_labs, take_down, unfinished_labs
from kipctl.lab.node import NodeDiedError
from kipctl.lab.ports import first_of_free_ports, is_free
from kipctl.lab.properties import KAFKAS_SESSION, LabSpec
from kipctl.process import Process
from kipctl.protocol.metadata import MetadataRequest
from kipctl.transport.request import BrokerConnection, Cluster

pytestmark = pytest.mark.kafka
MakeLab = Callable[..., Lab]


def processes(lab: Lab) -> list[Process]:
    running = []
    for node in lab.nodes:
        # One that is about to end may be gone when it is looked at.
        with contextlib.suppress(ProcessLookupError):
            if (pid := node.pid) is not None:
                running.append(process.identify(pid))
    return running


def topics(lab: Lab) -> list[str | None]:
    with Cluster(lab.bootstrap_server) as cluster:
        return [topic.name for topic in cluster.metadata().topics]


@pytest.fixture(scope="module")
def measured(guard: None) -> Iterator[Lab]:
    """A lab whose brokers serve metrics and log each request; each test leaves it running."""
    spec = LabSpec(name="measured", brokers=2, metrics=True, request_log=True, c1_only=True)
    lab = Lab.up(spec, lambda text: None)
    yield lab
    lab.down()


def metadata_requests(broker: BrokerMetrics, versions: Iterable[int]) -> Counter[int]:
    """How many of each of these versions have been counted."""
    return Counter({version: broker.requests.get(("Metadata", version), 0) for version in versions})


def once_it_counts(url: str, sent: Counter[int]) -> BrokerMetrics:
    """A request is counted once its answer is sent: wait until so many of each version are."""
    assert process.wait_until(lambda: sent <= metadata_requests(scrape(url), sent), 300)
    return scrape(url)


def test_metadata_requests_that_a_broker_counts_are_those_that_were_sent(measured: Lab) -> None:
    first, second = measured.metrics_urls
    before = {url: scrape(url) for url in measured.metrics_urls}
    assert [metrics.broker for metrics in before.values()] == [1, 2]
    assert {metrics.kafka_version for metrics in before.values()} == {"4.3.1"}
    sent = Counter({8: 7, 9: 4})  # in words that nobody else speaks: others are counted late
    with BrokerConnection("127.0.0.1", measured.node(1).port, "test", 10.0) as connection:
        for version in sent.elements():
            connection.request(MetadataRequest(topics=()), version)
        after = once_it_counts(first, sent)
        assert after.connections is not None
        assert after.connections["kipctl", __version__] >= 1
    new = Counter(after.requests) - Counter(before[first].requests)
    assert metadata_requests(after, sent) == sent
    assert new["ApiVersions", 4] >= 1  # the one connection's
    assert not metadata_requests(scrape(second), sent).total()


def test_a_topic_to_try_things_with_has_records_in_every_partition(measured: Lab) -> None:
    make_sample_topics(measured.access, [SampleTopic("orders", 3, 2), SampleTopic("bare")])
    with Cluster(measured.bootstrap_server) as cluster:
        made = take_snapshot(cluster, ["orders", "bare"])
        assert {p.id: p.replicas for p in made.partitions} == {
            PartitionId(topic, index): in_turn
            for topic in ("orders", "bare")
            for index, in_turn in enumerate([(1, 2), (2, 1), (1, 2)])
        }
        latest = {topic: offsets(cluster, topic, LATEST) for topic in ("orders", "bare")}
        assert latest == dict.fromkeys(("orders", "bare"), dict.fromkeys(range(3), RECORDS))
        with pytest.raises(RefusedError, match=r"'orders' cannot be made: TOPIC_ALREADY_EXISTS"):
            make_sample_topics(measured.access, [SampleTopic("orders")])
        delete_topics(measured.access, ["orders", "bare"])
        await_no_topics(cluster, ["orders", "bare"])


def test_where_metrics_and_request_logs_are_is_told(measured: Lab) -> None:
    (told,) = json.loads(kipctl_lab("status", "--name", "measured", "-o", "json")[1])["labs"]
    urls = [node["metrics_url"] for node in told["nodes"]]
    assert urls == [*measured.metrics_urls, None]
    assert told["request_log"] is Lab.load("measured").request_log is True
    assert kipctl_lab("status", "--name", "measured", "-o", "plain")[1].splitlines()[-2:] == [
        f"Request logs: {measured.folder}/broker-*/request.log*",
        f"Metrics: {urls[0]} {urls[1]}",
    ]
    assert measured.node(1).request_log_path in measured.folder.glob("broker-*/request.log*")


def test_a_lab_that_was_stopped_on_purpose_is_kept_with_all_that_it_has(measured: Lab) -> None:
    produce(measured, "kept", replicas=2)
    log = measured.node(1).request_log_path
    for turn in ("first", "after-a-restart"):
        while f'"clientId":"{turn}"' not in log.read_text():
            with Cluster(measured.bootstrap_server, client_id=turn) as cluster:
                cluster.metadata(())
        assert '"requestApiKeyName":"METADATA"' in log.read_text()
        assert "Completed request:" not in measured.node(1).log_path.read_text()
        if turn == "first":
            for node in measured.nodes:
                measured.stop(node.id)
            assert measured.state is LabState.STOPPED
            with pytest.raises(RefusedError, match=r"is there already \(stopped\)"):
                Lab.up(LabSpec(name="measured"), lambda text: None)
            measured.start(*(node.id for node in measured.nodes))
    assert "kept" in topics(measured)
    assert [scrape(url).broker for url in measured.metrics_urls] == [1, 2]


def test_a_lab_at_a_port_that_was_asked_for_beside_another_one(
    struck_lab: Lab, make_lab: MakeLab
) -> None:
    first = first_of_free_ports(4)
    with socket.create_server(("127.0.0.1", first + 1)):
        with pytest.raises(RefusedError, match=f"Port {first + 1} belongs to another program"):
            make_lab(name="other", brokers=1, port=first)
        assert "other" not in {lab.name for lab in labs()}
    lab = make_lab(
        name="other",
        brokers=1,
        controllers=3,
        racks=0,
        port=first,
        c1_only=False,
        of_a_run=True,
        config=KAFKAS_SESSION,
    )
    assert lab.bootstrap_server == f"127.0.0.1:{first}"
    assert not runs_c1_only(lab, 1)
    assert {n.port for n in struck_lab.nodes}.isdisjoint(n.port for n in lab.nodes)
    assert struck_lab.cluster_id != lab.cluster_id
    for name, refusal in (
        ("other", "'other' is there already"),
        ("third", f"Port {first} belongs to lab"),
    ):
        with pytest.raises(RefusedError, match=refusal):
            make_lab(name=name, brokers=1, port=first)
    assert lab.state is LabState.RUNNING

    # Of three controllers one alone is no quorum, and two are.
    lab.kill(101)
    lab.kill(102)
    lab.start(101)
    produce(lab, "t", replicas=1)
    assert "t" not in topics(struck_lab)
    with Cluster(lab.bootstrap_server) as cluster:
        assert [broker.rack for broker in cluster.metadata(()).brokers] == [None]

    # It is of this process' run, and left when that is gone.
    assert Lab.load("other").owner == process.current_process()
    assert not Lab.load("other").is_orphan
    record = lab.folder / "lab.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"owner": [2**22 + 1, "0"]}))
    assert Lab.load("other").is_orphan
    status, _, told = kipctl_lab("status")
    assert status == 0
    assert "The run that made lab 'other' is gone." in told


def test_a_lab_left_by_a_crash_is_replaced_and_down_leaves_nothing(make_lab: MakeLab) -> None:
    crashed = make_lab(name="crashed", brokers=1)
    for node in processes(crashed):
        os.kill(node.pid, signal.SIGKILL)
        assert process.wait_for_exit(node, 60)
    assert crashed.state is LabState.LEFT_BEHIND
    assert "crashed" not in [lab.name for lab in running_labs()]
    told: list[str] = []
    lab = Lab.up(LabSpec(name="crashed", brokers=1, c1_only=True), told.append)
    assert told[0] == "Removing lab 'crashed', which a crash left behind."
    assert lab.state is LabState.RUNNING
    assert lab.cluster_id != crashed.cluster_id
    assert "crashed" in [running.name for running in running_labs()]

    produce(lab, "t", replicas=1)
    used = processes(lab)
    assert len(used) == 2
    assert [is_free(node.port) for node in lab.nodes] == [False] * 2
    on_disk = sum(p.stat().st_blocks * 512 for p in lab.folder.rglob("*") if p.is_file())
    assert on_disk < 3 << 20
    assert take_down("crashed")
    assert [process.is_alive(node) for node in used] == [False] * 2
    assert [is_free(node.port) for node in lab.nodes] == [True] * 2
    assert not lab.folder.exists()
    assert not take_down("crashed")


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


STOPS_IN_ITS_START = """
import signal, sys
from kipctl.cli.app import main
from kipctl.lab.cluster import Lab
def stop_here(*of):
    print("here", file=sys.stderr, flush=True)
    signal.pause()
setattr(Lab, {at!r}, stop_here)
main()
"""


@pytest.mark.parametrize(
    ("sent", "status", "left", "at"),
    [
        (signal.SIGINT, 130, False, "_launch"),
        (signal.SIGHUP, 129, False, "_launch"),
        (signal.SIGTERM, 143, False, "wait_ready"),
        (signal.SIGKILL, -9, True, "_launch"),
        (signal.SIGKILL, -9, True, "wait_ready"),
    ],
)
def test_a_start_that_is_cut_off_leaves_nothing_or_is_found(
    guard: None, sent: signal.Signals, status: int, left: bool, at: str
) -> None:
    """A signal to end cleans up at once; what a killed kipctl leaves is cleaned by the next one."""
    program = STOPS_IN_ITS_START.format(at=at)
    with subprocess.Popen(
        [sys.executable, "-c", program, *["lab", "up", "--brokers", "1", "--name", "cut-off"]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as kipctl:
        assert kipctl.stderr is not None
        assert "here\n" in iter(kipctl.stderr.readline, "")
        starting = Lab.load("cut-off")
        assert starting.state is LabState.STARTING
        assert {node.pid is None for node in starting.nodes} == {at == "_launch"}
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
