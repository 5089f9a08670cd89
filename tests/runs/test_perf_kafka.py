"""`kipctl perf produce` and the demo's comparison, on real brokers."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from no_own_topics import await_no_own_topics

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.topics import (
    LATEST,
    await_no_topics,
    await_topic,
    await_topics,
    create_topics,
    delete_topics,
    offsets,
    topic_ids,
    topics_named,
)
from kipctl.lab.cluster import Lab
from kipctl.own_topic_names import own_host
from kipctl.probe.produce.run import ProduceSpec
from kipctl.runs.execute import Listeners
from kipctl.runs.own_topic import own_topic
from kipctl.runs.plan import OWN_TOPIC
from kipctl.runs.produce import PerfPlan, produce
from kipctl.runs.start import OnThisMachine
from kipctl.trace.clock import now_us
from kipctl.trace.codes import PHASES
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

KAFKA_LINE = re.compile(
    r"^\d+ records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
    r"[\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.$"
)


def kipctl(lab: Lab, words: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    environment = Environment(
        stdin=StringIO(),
        stdout=out,
        stderr=err,
        variables=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
    )
    status = run(["perf", "produce", *words.split()], environment)
    return status, out.getvalue(), err.getvalue()


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as connected:
        yield connected


@pytest.fixture
def topic(lab: Lab, cluster: Cluster) -> Iterator[str]:
    create_topics(lab.bootstrap_server, ["perf-test"], 4, 3)
    await_topic(cluster, "perf-test", 4)
    yield "perf-test"
    delete_topics(lab.bootstrap_server, ["perf-test"])
    await_no_topics(cluster, ["perf-test"])


def test_a_run_with_rotations_prints_one_object_and_records_what_adds_up(
    lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    status, out, err = kipctl(
        lab,
        "--num-records 24000 --throughput 4000 --record-size 100 --partitions 30 "
        f"--during rotate --every 0.7 --count 3 --output json --record {folder} "
        "--command-property acks=1 retry.backoff.ms=50",
    )
    assert status == 0, err
    said = json.loads(out)
    assert said["_command"] == "perf produce"
    records = {"sent": 24000, "acknowledged": 24000, "failed": 0}
    assert said["records"].items() >= records.items()
    for measure in ("latency_ms", "service_ms"):
        assert list(said[measure]) == ["mean", "p50", "p95", "p99", "p999", "max"]
    assert said["records_per_second"] > 0
    assert said["leader_discovery"] == "kip951"
    assert said["kafka_version"] == lab.kafka_version
    # A slow machine does not begin one with the load over.
    assert [action["action"] for action in said["actions"]] in (["rotate"] * n for n in (1, 2, 3))
    assert all(action["error"] is None for action in said["actions"])
    redirects = said["redirects"]
    hints = redirects["hints"]
    assert redirects["batches"] > 0
    assert hints["present"] == redirects["errors"] - hints["absent"]
    assert hints["ignored"] == 0
    assert set(redirects["phases_ms"]) == set(PHASES)
    assert said["metadata_rpcs"]["total"] == sum(said["metadata_rpcs"]["by_cause"].values())
    await_no_own_topics(cluster)

    recorded = Run(folder)
    assert recorded.description["summary"]["records"] == said["records"]
    batches = recorded.read("batches")
    assert pc.sum(batches["records"]).as_py() == 24000
    assert read_stored_run(folder).flaw == ""
    latency = {
        (row["partition"], row["first_seq"]): row["acked_us"] - row["intended_us"]
        for row in batches.to_pylist()
    }
    spent: dict[tuple[int, int], int] = {}
    for row in recorded.read("redirects").to_pylist():
        key = (row["partition"], row["first_seq"])
        spent[key] = spent.get(key, 0) + sum(row[f"{phase}_us"] for phase in PHASES)
    assert len(spent) >= redirects["batches"]
    assert {key: latency[key] - total for key, total in spent.items()} == dict.fromkeys(spent, 0)
    events = recorded.read("events").to_pylist()
    seen = {(e["partition"], e["seen_by"]) for e in events if e["kind"] == "leader seen"}
    assert len(seen) == 30 * 3


def test_an_action_that_is_due_with_the_load_over_does_not_happen(lab: Lab) -> None:
    status, out, err = kipctl(
        lab,
        "--num-records 7000 --throughput 2000 --record-size 100 --partitions 6 "
        "--during rotate --every 2 --output json",
    )
    assert status == 0, err
    assert len(json.loads(out)["actions"]) == 1
    assert "actions happened" not in err
    status, out, err = kipctl(
        lab,
        "--num-records 7000 --throughput 2000 --record-size 100 --partitions 6 "
        "--during rotate --every 2 --count 2 --output json",
    )
    assert (status, out) == (2, "")
    assert "--count 2 with one rotate every 2 s takes 4 s: 1 fit." in err


def test_plain_output_ends_with_the_line_of_kafkas_own_tool(lab: Lab) -> None:
    status, out, err = kipctl(
        lab,
        "--num-records 3000 --throughput -1 --record-size 100 --partitions 3 "
        "--warmup-records 1000 --reporting-interval 50 --print-metrics",
    )
    assert status == 0, err
    total, steady = out.splitlines()[-2:]
    assert KAFKA_LINE.match(total)
    assert total.startswith("3000 records sent")
    assert steady.startswith("2000 steady state records sent")
    assert "latency_ms.p999" in out


def test_values_are_those_of_the_payload_file(lab: Lab, cluster: Cluster, topic: str) -> None:
    values = {f"value number {i}" for i in range(20)}
    file = Path(os.environ["XDG_STATE_HOME"]) / "payloads"
    file.write_text("\n".join(sorted(values)) + "\n")
    status, _, err = kipctl(
        lab, f"--num-records 500 --throughput -1 --payload-file {file} --topic {topic}"
    )
    assert status == 0, err
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": "values"})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(4)])
    read = [message.value().decode() for message in consumer.consume(500, timeout=60)]
    consumer.close()
    assert len(read) == 500
    assert set(read) == values


def test_every_acknowledged_record_is_in_the_log_once_through_a_restart(
    lab: Lab, cluster: Cluster, topic: str
) -> None:
    status, out, err = kipctl(
        lab,
        f"--num-records 20000 --throughput 2500 --record-size 50 --topic {topic} "
        "--during restart:2 --every 1 --count 1 -o json",
    )
    assert status == 0, err
    said = json.loads(out)
    assert said["records"]["acknowledged"] == 20000
    assert said["actions"][0]["error"] is None
    assert sum(offsets(cluster, topic, LATEST).values()) == 20000


def test_a_topic_that_holds_data_is_refused_without_force(lab: Lab, topic: str) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap_server})
    producer.produce(topic, b"somebody's")
    producer.flush()
    words = f"--num-records 10 --throughput -1 --record-size 10 --topic {topic}"
    status, out, err = kipctl(lab, words)
    assert (status, out) == (4, "")
    assert "holds 1 records" in err
    assert "--force" in err
    assert kipctl(lab, f"{words} --force")[0] == 0


def test_records_that_fail_make_the_exit_status_5(lab: Lab, topic: str) -> None:
    status, out, err = kipctl(
        lab,
        f"--num-records 10 --throughput -1 --record-size 2000000 --topic {topic} "
        "--command-property max.request.size=4000000 -o json",
    )
    assert status == 5
    assert json.loads(out)["records"]["errors"] == {"MESSAGE_TOO_LARGE": 10}
    assert "10 of 10 records failed: MESSAGE_TOO_LARGE 10" in err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("--record-size 10 --num-records 0", 2, "--num-records is 0"),
        ("--record-size -4 --num-records 1", 2, "--record-size is -4"),
        ("--record-size 10 --payload-file x --num-records 1", 2, "not both"),
        ("--record-size 10 --num-records 1 --topic missing", 2, "missing"),
        ("--record-size 10 --num-records 1 --during restart:77", 2, "no broker 77"),
        ("--record-size 10 --num-records 1 --record /dev/null/run", 2, "cannot be written"),
        ("--payload-file /nowhere/payloads --num-records 1", 2, "cannot be read"),
        ("--record-size 10 --num-records 1 --replication-factor 9", 4, "eplication factor"),
        ("--record-size 10 --num-records 1 --bootstrap-server 127.0.0.1:1", 3, "127.0.0.1:1"),
    ],
)
def test_bad_input_gets_one_clear_error_and_leaves_no_record(
    lab: Lab, words: str, status: int, said: str, tmp_path: Path
) -> None:
    got, out, err = kipctl(lab, f"--throughput -1 --record {tmp_path}/run {words}")
    assert (got, out) == (status, ""), err
    assert said in err
    error = err[err.index("kipctl: ") :]
    assert len(error.splitlines()) <= 3
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_before_the_first_record_leaves_no_record(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def interrupt(message: str) -> None:
        assert folder.is_dir()
        assert "Creating topic" in message
        raise KeyboardInterrupt

    probe = ProduceSpec(lab.access, OWN_TOPIC, num_records=1000)
    with pytest.raises(KeyboardInterrupt):
        produce(PerfPlan(probe, record=folder), Listeners(message=interrupt))
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_says_how_far_it_came_and_removes_the_topic(
    lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    process = subprocess.Popen(
        shlex.split(
            f"{sys.executable} -m kipctl perf produce --num-records 1000000 --throughput 500 "
            f"--record-size 100 --partitions 3 --during rotate --every 1 --record {folder}"
        ),
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("rotate 3: "):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 130
    told = re.search(r"Interrupted: of 1,000,000 records ([\d,]+) were sent", rest)
    assert told, rest
    assert re.search(
        r"moved leaders? (was|were) met; the client waited p50 [\d.]+ ms, at most", rest
    )
    assert f"What was measured: kipctl runs show {folder}" in rest
    assert Run(folder).description["stopped"] is True
    assert read_stored_run(folder).flaw == f"interrupted: {told[1]} of 1,000,000 records"
    assert "Traceback" not in rest
    await_no_own_topics(cluster)


def test_two_runs_at_the_same_time_have_a_topic_each(lab: Lab, cluster: Cluster) -> None:
    """And what a run that is gone has left is named, and stays."""
    spec = ProduceSpec(lab.access, OWN_TOPIC, num_records=10**6, throughput=100)
    left = f"kipctl-perf-{own_host()}-{2**22 + 1}-0a1b2c"  # no process has so high an id
    create_topics(lab.bootstrap_server, [left], 1, 1)
    await_topic(cluster, left, 1)
    try:
        with (
            own_topic(cluster, 3, 0, lambda _: None),
            OnThisMachine()(spec) as probe,
        ):
            while not len(probe.new_rows("batches")):
                assert not probe.is_done_by(now_us() + 50_000)
            words = "perf produce --num-records 10 --throughput -1 --record-size 10 --partitions 3"
            other = subprocess.run(
                [sys.executable, "-m", "kipctl", *words.split()],
                env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
                capture_output=True,
                text=True,
            )
            assert other.returncode == 0, other.stderr
            assert f"Runs of kipctl that are gone have left topics, with their data: {left}." in (
                other.stderr
            )
            assert OWN_TOPIC not in other.stderr
            assert set(topics_named(cluster, "kipctl-.*")) >= {left, OWN_TOPIC}
            probe.stop()
            assert probe.outcome().failed == 0
    finally:
        delete_topics(lab.bootstrap_server, [left])
    await_no_own_topics(cluster)


def test_a_topic_that_only_has_kipctls_name_is_left_as_it_is(lab: Lab, cluster: Cluster) -> None:
    create_topics(lab.bootstrap_server, ["kipctl-perf"], 1, 1)
    before = await_topics(cluster, ["kipctl-perf"])
    try:
        words = "--num-records 10 --throughput -1 --record-size 10"
        for named in ("", " --topic kipctl-perf"):
            status, _, err = kipctl(lab, words + named)
            assert status == 0, err
        assert topic_ids(cluster, ["kipctl-perf"]) == before
        assert sum(offsets(cluster, "kipctl-perf", LATEST).values()) == 10
    finally:
        delete_topics(lab.bootstrap_server, ["kipctl-perf"])
    await_no_own_topics(cluster)


def test_strict_refuses_few_moves_and_a_busy_machine(lab: Lab, tmp_path: Path) -> None:
    words = "--throughput 200 --record-size 100 --strict"
    folder = tmp_path / "run"
    status, out, err = kipctl(
        lab,
        f"{words} --num-records 400 --partitions 3 --during rotate --every 0.5 --count 1 "
        f"--record {folder}",
    )
    assert status == 7, err
    assert "moved leaders were met, 20 are wanted" in err
    assert re.match(
        r"Moved leaders: \d+ of 3 were met.*\.\n(.*\n)*400 of 400 records sent were", out
    )
    assert out.index("Read with care") < out.index("latency, from the intended")
    assert any("20 are wanted" in doubt for doubt in Run(folder).description["summary"]["doubts"])
    spin = [sys.executable, "-c", "import os; os.nice(19)\nwhile True: pass"]
    spinning = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        status, _, err = kipctl(lab, f"{words} --num-records 400 --partitions 3")
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    assert status == 7, err
    assert "% busy" in err


def test_partitions_are_reassigned_off_their_leaders_under_load(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    status, out, err = kipctl(
        lab,
        "--num-records 4800 --throughput 400 --record-size 100 --partitions 12 "
        f"--during reassign --every 2 --count 1 --output json --record {folder} "
        "--command-property acks=1 enable.idempotence=false "
        "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner",
    )
    assert status == 0, err
    document = json.loads(out)
    (action,) = document["actions"]
    assert (action["action"], action["partitions"], action["error"]) == ("reassign", 12, None)
    assert document["records"]["failed"] == 0
    # What the old leader was asked for it refused: it is no replica any more.
    assert document["redirects"]["moves"]["met"] > 0
    description = Run(folder).description
    before, after = (
        {p["id"][1]: p["replicas"] for p in description[f"cluster_{when}"]["partitions"]}
        for when in ("before", "after")
    )
    assert all(len(before[index]) == 2 and before[index][0] not in after[index] for index in before)
