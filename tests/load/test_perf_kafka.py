"""`kipctl perf produce` on real brokers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, TopicPartition
from no_own_topics import await_no_own_topics
from one_process import Kipctl
from processes import started
from until_met import MANY

from kipctl.cluster.topics import (
    await_no_topics,
    await_topic,
    create_topics,
    delete_topics,
    topics_named,
)
from kipctl.lab.cluster import Lab
from kipctl.load import execute
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC
from kipctl.load.start import OnThisMachine
from kipctl.machine import CpuTimes
from kipctl.own_topic_names import own_host
from kipctl.probe.produce.run import ProduceSpec
from kipctl.trace.clock import now_us
from kipctl.trace.codes import PHASES
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

PRODUCE = "perf produce --record-size 100"
KAFKA_LINE = re.compile(
    r"^\d+ records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
    r"[\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.$"
)


@pytest.fixture
def topic(lab: Lab, cluster: Cluster) -> Iterator[str]:
    create_topics(lab.bootstrap_server, ["perf-test"], 4, 3)
    await_topic(cluster, "perf-test", 4)
    yield "perf-test"
    delete_topics(lab.bootstrap_server, ["perf-test"])
    await_no_topics(cluster, ["perf-test"])


@pytest.mark.usefixtures("until_met")
def test_a_run_with_rotations_prints_one_object_and_records_what_adds_up(
    lab: Lab, cluster: Cluster, kipctl: Kipctl, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    ran = kipctl(
        f"{PRODUCE} --num-records {MANY} --throughput 400 --partitions 12 "
        f"--during rotate --every 0.5 --output json --record {folder} "
        "--command-property acks=1 retry.backoff.ms=50",
    )
    assert ran.status == 0, ran.err
    said = ran.document
    assert said["_command"] == "perf produce"
    sent = said["records"]["sent"]
    assert said["records"].items() >= {"acknowledged": sent, "failed": 0}.items()
    for measure in ("latency_ms", "service_ms"):
        assert list(said[measure]) == ["mean", "p50", "p95", "p99", "p999", "max"]
    assert said["records_per_second"] > 0
    assert said["leader_discovery"] == "kip951"
    assert said["kafka_version"] == lab.kafka_version
    assert [action["action"] for action in said["actions"]] == ["rotate"] * 2
    assert "actions happened" not in ran.err
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
    assert pc.sum(batches["records"]).as_py() == sent > 0
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
    assert len(seen) == 12 * 3


def test_values_are_of_the_payload_file_and_what_a_topic_holds_is_added_to_by_force_alone(
    lab: Lab, kipctl: Kipctl, topic: str, tmp_path: Path
) -> None:
    values = {f"value number {i}" for i in range(20)}
    file = tmp_path / "payloads"
    file.write_text("\n".join(sorted(values)) + "\n")
    words = f"perf produce --num-records 500 --throughput -1 --payload-file {file} --topic {topic}"
    ran = kipctl(words)
    assert ran.status == 0, ran.err
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": "values"})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(4)])
    read = [message.value().decode() for message in consumer.consume(500, timeout=60)]
    consumer.close()
    assert len(read) == 500
    assert set(read) == values
    ran = kipctl(words)
    assert (ran.status, ran.out) == (4, "")
    assert "holds 500 records" in ran.err
    assert "--force" in ran.err
    assert kipctl(f"{words} --force").status == 0


def test_records_that_fail_make_the_exit_status_5(kipctl: Kipctl) -> None:
    ran = kipctl(
        "perf produce --num-records 3 --throughput -1 --record-size 2000000 --partitions 1 "
        "--command-property max.request.size=4000000 -o json",
    )
    assert ran.status == 5
    assert ran.document["records"]["errors"] == {"MESSAGE_TOO_LARGE": 3}
    assert "3 of 3 records failed: MESSAGE_TOO_LARGE 3" in ran.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("--record-size 10 --num-records 0", 2, "--num-records is 0"),
        ("--record-size -4 --num-records 1", 2, "--record-size is -4"),
        ("--record-size 10 --payload-file x --num-records 1", 2, "exclude one another"),
        ("--record-size 10 --num-records 1 --topic missing", 2, "missing"),
        ("--record-size 10 --num-records 1 --during restart:77", 2, "no broker 77"),
        ("--record-size 10 --num-records 1 --record /dev/null/run", 2, "cannot be written"),
        ("--payload-file /nowhere/payloads --num-records 1", 2, "cannot be read"),
        ("--record-size 10 --num-records 1 --replication-factor 9", 4, "eplication factor"),
        ("--record-size 10 --num-records 1 --bootstrap-server 127.0.0.1:1", 3, "127.0.0.1:1"),
    ],
)
def test_bad_input_gets_one_clear_error_and_leaves_no_record(
    kipctl: Kipctl, words: str, status: int, said: str, tmp_path: Path
) -> None:
    record = "" if "--record " in words else f"--record {tmp_path}/run"
    ran = kipctl(f"perf produce --throughput -1 {record} {words}")
    assert (ran.status, ran.out) == (status, ""), ran.err
    assert said in ran.err
    assert len(ran.error.splitlines()) <= 3
    assert list(tmp_path.iterdir()) == []


def test_two_runs_at_the_same_time_have_a_topic_each(
    lab: Lab, cluster: Cluster, kipctl: Kipctl
) -> None:
    """And what a run that is gone has left is named, and stays."""
    spec = ProduceSpec(lab.access, OWN_TOPIC, num_records=10**6, throughput=100)
    left = f"kipctl-perf-{own_host()}-{2**22 + 1}-0a1b2c"  # no process has so high an id
    create_topics(lab.bootstrap_server, [left], 1, 1)
    await_topic(cluster, left, 1)
    words = "perf produce --num-records 10 --throughput -1 --record-size 10 --partitions 3"
    try:
        with (
            own_topic(cluster, 3, 0, lambda _: None),
            OnThisMachine()(spec) as probe,
        ):
            while not len(probe.new_rows("batches")):
                assert not probe.is_done_by(now_us() + 50_000)
            with started(lab, words) as other:
                _, err = other.communicate()
            assert other.returncode == 0, err
            assert f"Runs of kipctl that are gone have left topics, with their data: {left}." in err
            assert OWN_TOPIC not in err
            assert set(topics_named(cluster, "kipctl-.*")) >= {left, OWN_TOPIC}
            probe.stop()
            assert probe.outcome().failed == 0
    finally:
        delete_topics(lab.bootstrap_server, [left])
    await_no_own_topics(cluster)


def test_strict_refuses_few_moves_and_a_busy_machine_after_the_lines_of_kafkas_own_tool(
    kipctl: Kipctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([CpuTimes(0, 0), CpuTimes(97, 100)])
    monkeypatch.setattr(execute, "cpu_times", lambda: next(ticks))
    folder = tmp_path / "run"
    ran = kipctl(
        f"{PRODUCE} --throughput 50 --strict --num-records 400 --partitions 3 --during rotate "
        f"--every 2.5 --count 1 --warmup-records 100 --reporting-interval 50 --print-metrics "
        f"--record {folder}",
    )
    assert ran.status == 7, ran.err
    assert re.search("moved leaders? (was|were) met, 20 are wanted", ran.err)
    assert "97 % busy" in ran.err
    assert re.match(
        r"Moved leaders: \d+ of 3 were met.*\.\n(.*\n)*400 of 400 records sent were", ran.out
    )
    assert ran.out.index("Read with care") < ran.out.index("latency, from the intended")
    total, steady = ran.out.splitlines()[-2:]
    assert KAFKA_LINE.match(total)
    assert total.startswith("400 records sent")
    assert steady.startswith("300 steady state records sent")
    assert "latency_ms.p999" in ran.out
    assert any("20 are wanted" in doubt for doubt in Run(folder).description["summary"]["doubts"])


@pytest.mark.usefixtures("until_met")
def test_partitions_are_reassigned_off_their_leaders_under_load(
    kipctl: Kipctl, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    ran = kipctl(
        f"{PRODUCE} --num-records {MANY} --throughput 120 --partitions 6 "
        f"--during reassign --every 0.5 --count 1 --output json --record {folder} "
        "--command-property acks=1 enable.idempotence=false "
        "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner",
    )
    assert ran.status == 0, ran.err
    (action,) = ran.document["actions"]
    assert (action["action"], action["partitions"], action["error"]) == ("reassign", 6, None)
    assert ran.document["records"]["failed"] == 0
    # What the old leader was asked for it refused: it is no replica any more.
    assert ran.document["redirects"]["moves"]["met"] > 0
    description = Run(folder).description
    before, after = (
        {p["id"][1]: p["replicas"] for p in description[f"cluster_{when}"]["partitions"]}
        for when in ("before", "after")
    )
    assert all(len(before[index]) == 2 and before[index][0] not in after[index] for index in before)
