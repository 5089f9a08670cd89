"""`kipctl perf consume` and `kipctl perf e2e`, on real brokers."""

import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.topics import (
    LATEST,
    await_topic,
    create_topics,
    delete_topics,
    offsets,
)
from kipctl.lab.cluster import Lab
from kipctl.measure.consumer_summary import HEADER
from kipctl.trace.codes import PHASES
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

TOPIC = "consume-test"
PARTITIONS = 6
RECORDS = 5000
VALUE = b"v" * 500


def kipctl(lab: Lab, words: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    environment = Environment(
        stdin=StringIO(),
        stdout=out,
        stderr=err,
        variables=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
    )
    status = run(["perf", *words.split()], environment)
    return status, out.getvalue(), err.getvalue()


def document(lab: Lab, words: str) -> dict[str, Any]:
    status, out, err = kipctl(lab, f"{words} --output json")
    assert status == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as connected:
        yield connected


@pytest.fixture(scope="module")
def topic(lab: Lab, cluster: Cluster) -> Iterator[str]:
    """A topic with records of another client, unevenly spread."""
    create_topics(lab.bootstrap_server, [TOPIC], PARTITIONS, 3)
    await_topic(cluster, TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "compression.type": "lz4"})
    for number in range(RECORDS):
        producer.produce(TOPIC, VALUE, partition=min(number % 8, PARTITIONS - 1))
        producer.poll(0)
    assert producer.flush(60) == 0
    yield TOPIC
    delete_topics(lab.bootstrap_server, [TOPIC])


def test_every_record_is_read_and_all_of_a_rack_from_it(lab: Lab, topic: str) -> None:
    read = document(lab, f"consume --topic {topic} --num-records {RECORDS} --client-rack rack-2")
    assert read["records"]["read"] == RECORDS
    with_records = [broker for broker in read["brokers"] if broker["records"]]
    assert {broker["rack"] for broker in with_records} == {"rack-2"}
    assert sum(broker["records"] for broker in with_records) == RECORDS
    assert {broker["read_as"] for broker in with_records} == {"leader", "follower"}
    # One extra fetch for each partition whose leader is elsewhere: it names the rack's replica.
    assert read["fetches"]["preferred_replica_named"] == PARTITIONS * 2 // 3
    assert read["metadata_rpcs"]["on_critical_path"] == 0


def test_what_to_read_and_how_much_need_not_be_known(lab: Lab, topic: str) -> None:
    assert document(lab, f"consume --topic {topic}")["records"]["read"] == RECORDS
    status, _, told = kipctl(lab, "consume")
    assert status == 2
    assert topic in told
    status, _, told = kipctl(lab, f"consume --topic {topic} --from-latest")
    assert status == 2
    assert "--num-records" in told


def test_without_a_rack_leaders_are_read(lab: Lab, topic: str) -> None:
    read = document(lab, f"consume --topic {topic} --messages {RECORDS}")
    assert {broker["read_as"] for broker in read["brokers"]} == {"leader"}
    assert {broker["local"] for broker in read["brokers"]} == {None}


def test_the_last_lines_are_those_of_kafkas_tool(lab: Lab, topic: str) -> None:
    _, out, _ = kipctl(lab, f"consume --topic {topic} --num-records {RECORDS} --output plain")
    header, line = out.splitlines()[-2:]
    assert header == HEADER
    fields = line.split(", ")
    assert len(fields) == len(header.split(", "))
    assert int(fields[4]) == RECORDS
    _, out, _ = kipctl(lab, f"consume --topic {topic} --num-records {RECORDS} --hide-header")
    assert HEADER not in out


def test_some_partitions_from_an_offset_to_their_end(
    lab: Lab, cluster: Cluster, topic: str
) -> None:
    ends = offsets(cluster, topic, LATEST)
    left = ends[1] + ends[3] - 2 * 100
    words = f"consume --topic {topic} --partition 1 --partition 3 --offset 100 --timeout 5000"
    status, out, err = kipctl(lab, f"{words} --num-records 100000 --output json")
    assert status == 0
    assert json.loads(out)["records"]["read"] == left
    assert f"{left} of 100,000 records were there" in err.replace(f"{left:,}", str(left))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--partition 6", "has no partition 6"),
        ("--partition 0 --offset 999999", "Offset 999999 is outside of consume-test:0"),
        ("--offset 1 --from-latest", "not both"),
        ("--command-property auto.offset.reset=none", "where to begin"),
        ("--command-property linger.ms=5", "'linger.ms' is not one that kipctl's consumer has"),
        ("--command-property isolation.level=dirty", "wrong value"),
        ("--num-records 0", "--num-records is 0"),
        ("--during restart:9", "has no broker 9"),
        ("--workers 7", "7 workers share 6 partitions"),
    ],
)
def test_what_cannot_be_read_is_said_in_three_lines_before_anything_is(
    lab: Lab, topic: str, words: str, said: str
) -> None:
    status, out, err = kipctl(lab, f"consume --topic {topic} --num-records 5 {words}")
    assert status == 2
    assert said in err
    assert not out
    assert len(err.strip().splitlines()) <= 3


def test_a_topic_that_is_not_there(lab: Lab) -> None:
    status, _, err = kipctl(lab, "consume --topic no-such --num-records 5")
    assert status == 2
    assert "no-such" in err


def test_an_unknown_rack_is_a_warning_that_names_the_known(lab: Lab, topic: str) -> None:
    status, _, err = kipctl(
        lab, f"consume --topic {topic} --num-records {RECORDS} --client-rack rack-9"
    )
    assert status == 0
    assert "no broker is in rack 'rack-9'" in err
    assert "rack-1, rack-2, rack-3" in err


def test_a_recorded_run_holds_each_read(lab: Lab, topic: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = f"consume --topic {topic} --num-records {RECORDS} --client-rack rack-1"
    read = document(lab, f"{words} --record {folder}")
    run = Run(folder)
    assert run.description["command"] == "perf consume"
    assert run.description["consumer"]["client.rack"] == "rack-1"
    rows = run.read("reads")
    assert pc.sum(rows["records"]).as_py() == RECORDS
    assert set(rows["client_rack"].to_pylist()) == {"rack-1"}
    assert set(rows["software_name"].to_pylist()) == {"kipctl"}
    # Of each partition what was read joins without a gap.
    for partition in range(PARTITIONS):
        of_partition = [row for row in rows.to_pylist() if row["partition"] == partition]
        with_records = [row for row in of_partition if row["records"]]
        at = 0
        for row in with_records:
            assert row["fetch_offset"] == at
            assert row["next_offset"] == at + row["records"]
            at = row["next_offset"]
    assert run.read("rpcs").num_rows >= read["fetches"]["requests"]
    assert run.description["summary"] == {
        key: value for key, value in read.items() if not key.startswith("_")
    }


def test_end_to_end_through_rotations_nothing_is_lost_and_redirects_add_up(
    lab: Lab, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    found = document(
        lab,
        "e2e --num-records 9000 --throughput 1500 --record-size 200 --partitions 9 "
        f"--client-rack rack-3 --during rotate --every 1.5 --count 2 --record {folder}",
    )
    records = found["records"]
    assert records["sent"] == records["acknowledged"] == records["delivered"] == 9000
    assert (records["failed"], records["missing"]) == (0, 0)
    # A second one that would begin after the last record does not begin.
    assert [action["error"] for action in found["actions"]] in ([None], [None, None])
    latency, acknowledged = found["latency_ms"], found["acknowledged_ms"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    assert acknowledged["mean"] > 0
    run = Run(folder)
    batches, reads = run.read("batches"), run.read("reads")
    assert pc.sum(batches["records"]).as_py() == 9000
    assert pc.sum(reads["records"]).as_py() == 9000 + records["extra"]
    assert set(run.read("rpcs")["client"].to_pylist()) == {"kipctl-perf", "kipctl-perf-consumer"}
    redirects = run.read("redirects").to_pylist()
    assert {row["api"] for row in redirects} == {"produce", "fetch"}
    for row in redirects:
        assert all(row[f"{phase}_us"] >= 0 for phase in PHASES)
    fetches = [row for row in redirects if row["api"] == "fetch" and row["error"] in (6, 74)]
    assert fetches, "two rotations, and no Fetch met them"
    assert {row["decision"] for row in fetches} <= {"followed", "known", "stale", "absent"}
    without_hint = [row for row in fetches if row["decision"] not in ("followed", "known")]
    assert found["metadata_rpcs"]["consumer"]["on_critical_path"] <= len(without_hint)


def test_kafkas_end_to_end_lines_end_it(lab: Lab) -> None:
    status, out, err = kipctl(
        lab, "e2e --num-records 300 --throughput 300 --partitions 3 --producer-acks 1"
    )
    assert status == 0, err
    average, percentiles = out.splitlines()[-2:]
    assert average.startswith("Avg latency: ")
    assert average.endswith(" ms")
    assert percentiles.startswith("Percentiles: 50th = ")
    status, _, err = kipctl(lab, "e2e --num-records 300 --producer-acks 0")
    assert status == 2
    assert "acks=0" in err
