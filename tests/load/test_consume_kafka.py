"""`kipctl perf consume` and `kipctl perf e2e`, on real brokers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from one_process import Kipctl
from until_met import MANY

from kipctl.cluster.topics import (
    LATEST,
    await_no_topics,
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

PARTITIONS = 6
RECORDS = 5000
VALUE = b"v" * 500
CONSUME = "perf consume --topic consume-test"
Document = Callable[[str], dict[str, Any]]


@pytest.fixture
def document(kipctl: Kipctl) -> Document:
    """What a command says as JSON, when it is done."""

    def said(words: str) -> dict[str, Any]:
        ran = kipctl(f"{words} --output json")
        assert ran.status == 0, ran.err
        return ran.document

    return said


@pytest.fixture(scope="module", autouse=True)
def topic(lab: Lab) -> Iterator[str]:
    """A topic with records of another client, unevenly spread."""
    name = "consume-test"
    create_topics(lab.bootstrap_server, [name], PARTITIONS, 3)
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "compression.type": "lz4"})
    with Cluster(lab.bootstrap_server) as cluster:
        await_topic(cluster, name, PARTITIONS)
        for number in range(RECORDS):
            producer.produce(name, VALUE, partition=min(number % 8, PARTITIONS - 1))
            producer.poll(0)
        assert producer.flush(60) == 0
        yield name
        delete_topics(lab.bootstrap_server, [name])
        await_no_topics(cluster, [name])


def test_every_record_is_read_and_all_of_a_rack_from_it(document: Document, tmp_path: Path) -> None:
    words = f"{CONSUME} --num-records {RECORDS} --client-rack rack-2 --record {tmp_path}/run"
    read = document(words)
    assert read["records"]["read"] == RECORDS
    with_records = [broker for broker in read["brokers"] if broker["records"]]
    assert {broker["rack"] for broker in with_records} == {"rack-2"}
    assert sum(broker["records"] for broker in with_records) == RECORDS
    assert {broker["read_as"] for broker in with_records} == {"leader", "follower"}
    # One extra fetch for each partition whose leader is elsewhere: it names the rack's replica.
    assert read["fetches"]["preferred_replica_named"] == PARTITIONS * 2 // 3
    assert read["metadata_rpcs"]["on_critical_path"] == 0

    run = Run(tmp_path / "run")
    assert run.description["command"] == "perf consume"
    assert run.description["consumer"]["client.rack"] == "rack-2"
    rows = run.read("reads")
    assert pc.sum(rows["records"]).as_py() == RECORDS
    assert set(rows["client_rack"].to_pylist()) == {"rack-2"}
    assert set(rows["software_name"].to_pylist()) == {"kipctl"}
    # Of each partition what was read joins without a gap.
    at = dict.fromkeys(range(PARTITIONS), 0)
    for row in rows.to_pylist():
        if row["records"]:
            assert row["fetch_offset"] == at[row["partition"]]
            assert row["next_offset"] == row["fetch_offset"] + row["records"]
            at[row["partition"]] = row["next_offset"]
    assert run.read("rpcs").num_rows >= read["fetches"]["requests"]
    assert run.description["summary"] == {
        key: value for key, value in read.items() if not key.startswith("_")
    }


def test_what_to_read_and_how_much_need_not_be_known(
    document: Document, kipctl: Kipctl, topic: str
) -> None:
    """Without a rack leaders are read."""
    read = document(CONSUME)
    assert read["records"]["read"] == RECORDS
    assert {broker["read_as"] for broker in read["brokers"]} == {"leader"}
    assert {broker["local"] for broker in read["brokers"]} == {None}
    for partitions, held in (("1", RECORDS // 8), ("1 5", RECORDS // 2)):
        words = " ".join(f"--partition {topic}:{partition}" for partition in partitions.split())
        assert document(f"perf consume {words}")["records"]["read"] == held
    for words, told in (
        (f"{CONSUME} --partition {topic}:6", "has no partition 6"),
        ("perf consume", topic),
        (f"{CONSUME} --from-latest", "--num-records"),
        ("perf consume --topic no-such --num-records 5", "no-such"),
    ):
        ran = kipctl(words)
        assert ran.status == 2
        assert told in ran.err


def test_the_last_lines_are_those_of_kafkas_tool(kipctl: Kipctl) -> None:
    header, line = kipctl(f"{CONSUME} --messages {RECORDS} --output plain").out.splitlines()[-2:]
    assert header == HEADER
    fields = line.split(", ")
    assert len(fields) == len(header.split(", "))
    assert int(fields[4]) == RECORDS
    ran = kipctl(f"{CONSUME} --num-records {RECORDS} --hide-header --client-rack rack-9")
    assert HEADER not in ran.out
    # An unknown rack is a warning that names the known.
    assert ran.status == 0
    assert "no broker is in rack 'rack-9'" in ran.err
    assert "rack-1, rack-2, rack-3" in ran.err


def test_some_partitions_from_an_offset_to_their_end(
    document: Document, kipctl: Kipctl, cluster: Cluster, topic: str
) -> None:
    ends = offsets(cluster, topic, LATEST)
    left = ends[1] + ends[3] - 2 * 100
    chosen = "--partition consume-test:1 --partition consume-test:3"
    words = f"{CONSUME} {chosen} --offset 100"
    assert document(f"{words} --num-records {left}")["records"]["read"] == left
    # Those that are not there are waited for, but only so long, from the last that came.
    ran = kipctl(f"{words} --num-records 100000 --timeout 1000 --output json")
    assert ran.status == 0
    read = ran.document["records"]["read"]
    assert read <= left
    assert f"{read:,} of 100,000 records were there: none came for 1s" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--partition consume-test:6", "has no partition 6"),
        (
            "--partition consume-test:0 --offset 999999",
            "Offset 999999 is outside of consume-test:0",
        ),
        ("--offset 1 --from-latest", "exclude one another"),
        ("--command-property auto.offset.reset=none", "where to begin"),
        ("--command-property linger.ms=5", "'linger.ms' is not one that kipctl's consumer has"),
        ("--command-property isolation.level=dirty", "wrong value"),
        ("--num-records 0", "--num-records is 0"),
        ("--during restart:9", "has no broker 9"),
        ("--workers 7", "7 workers share 6 partitions"),
    ],
)
def test_what_cannot_be_read_is_said_in_three_lines_before_anything_is(
    kipctl: Kipctl, words: str, said: str
) -> None:
    count = "" if "--num-records" in words else "--num-records 5"
    ran = kipctl(f"{CONSUME} {count} {words}")
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) <= 3


@pytest.mark.usefixtures("until_met")
def test_end_to_end_through_rotations_nothing_is_lost_and_redirects_add_up(
    document: Document, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    measured = document(
        f"perf e2e --num-records {MANY} --throughput 400 --record-size 200 --partitions 6 "
        f"--client-rack rack-3 --during rotate --every 0.5 --count 2 --record {folder}",
    )
    records = measured["records"]
    assert records["sent"] == records["acknowledged"] == records["delivered"] > 0
    assert (records["failed"], records["missing"]) == (0, 0)
    assert [action["error"] for action in measured["actions"]] == [None, None]
    latency, acknowledged = measured["latency_ms"], measured["acknowledged_ms"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    assert acknowledged["mean"] > 0
    run = Run(folder)
    batches, reads = run.read("batches"), run.read("reads")
    assert pc.sum(batches["records"]).as_py() == records["sent"]
    assert pc.sum(reads["records"]).as_py() == records["sent"] + records["extra"]
    assert set(run.read("rpcs")["client"].to_pylist()) == {"kipctl-perf", "kipctl-perf-consumer"}
    redirects = run.read("redirects").to_pylist()
    assert {row["api"] for row in redirects} == {"produce", "fetch"}
    for row in redirects:
        assert all(row[f"{phase}_us"] >= 0 for phase in PHASES)
    fetches = [row for row in redirects if row["api"] == "fetch"]
    decisions = {row["decision"] for row in fetches if row["error"] in (6, 74)}
    assert decisions, "two rotations, and no Fetch met them"
    assert decisions <= {"followed", "known", "stale", "same_epoch", "absent"}
    # That of a leader that has not heard that it leads is none, too (UNKNOWN_LEADER_EPOCH).
    without_hint = [row for row in fetches if row["decision"] not in ("followed", "known")]
    assert measured["metadata_rpcs"]["consumer"]["on_critical_path"] <= len(without_hint)


def test_kafkas_end_to_end_lines_end_it(kipctl: Kipctl) -> None:
    ran = kipctl("perf e2e --num-records 300 --throughput 300 --partitions 3 --producer-acks 1")
    assert ran.status == 0, ran.err
    average, percentiles = ran.out.splitlines()[-2:]
    assert average.startswith("Avg latency: ")
    assert average.endswith(" ms")
    assert percentiles.startswith("Percentiles: 50th = ")
    ran = kipctl("perf e2e --num-records 300 --producer-acks 0")
    assert ran.status == 2
    assert "acks=0" in ran.err
