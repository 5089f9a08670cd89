"""What people do with kipctl, on a cluster that wants a login over TLS; and no password is told."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from on_secured import Program, Way, broker_ids, files_with, passwords, processes_with

from kipctl.cluster.snapshot import take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.load.clients.client import ConsumerLoad, ProducerLoad
from kipctl.load.clients.java import JavaClient
from kipctl.load.clients.librdkafka import Librdkafka
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
JAVA = "4.3.1"
PARTITIONS = 4
RECORDS = 600
LOAD = ("--num-records", str(RECORDS), "--throughput", "100", "--record-size", "100")
JSON = ("-o", "json")


def test_the_search_finds_a_password_wherever_it_is(secured_lab: Lab, tmp_path: Path) -> None:
    secrets = passwords(secured_lab)
    assert len(secrets) == 4  # of three users, and of the stores
    for number, secret in enumerate(secrets):
        (tmp_path / f"text-{number}").write_bytes(b"password=" + secret)
        pq.write_table(pa.table({"told": [secret.decode()] * 9}), tmp_path / f"{number}.parquet")
    (tmp_path / "nothing").write_text("password=")
    assert {*files_with(secrets, tmp_path)} == {*tmp_path.iterdir()} - {tmp_path / "nothing"}
    told = min(secrets).decode()
    waits = [sys.executable, "-c", "print(flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    for words, variables in (([*waits, told], {}), (waits, {"TOLD": told})):
        with subprocess.Popen(words, env=variables, **pipes) as process:
            assert process.stdout
            assert process.stdout.readline()  # a process that has just begun has no name yet
            telling = processes_with(secrets)
            process.kill()
        assert telling == {sys.executable}


def test_a_run_under_which_leaders_rotate_and_what_it_wrote_is_read(
    kipctl: Program, admin: Way, topic: str
) -> None:
    rotating = ("--during", "rotate", "--every", "0.7", "--count", "2", "--yes")
    run = ("--record", str(kipctl.folder / "run"))
    produce = ("perf", "produce", *LOAD, "--topic", topic, *rotating, *run, *JSON)
    said = json.loads(kipctl(*produce, *admin.options))
    assert said["records"]["acknowledged"] == RECORDS
    assert {action["error"] for action in said["actions"]} == {None}
    consume = ("perf", "consume", "--topic", topic, "--num-records", str(RECORDS), *JSON)
    read = json.loads(kipctl(*consume, "--record", str(kipctl.folder / "read"), *admin.options))
    assert read["records"]["read"] == RECORDS
    assert "acknowledged" in kipctl("runs", "show", str(kipctl.folder / "run"))


def test_records_from_end_to_end_in_a_run_that_outlasts_its_sessions(
    kipctl: Program, admin: Way
) -> None:
    """Which end after 15 s, as the last tenth of one is what a machine may stand still. No
    connection is lost."""
    load = ("--num-records", "800", "--throughput", "50", "--partitions", str(PARTITIONS))
    run = ("--record", str(kipctl.folder / "run"))
    said = json.loads(kipctl("perf", "e2e", *load, *run, *JSON, *admin.options))
    assert (said["records"]["delivered"], said["records"]["failed"]) == (800, 0)
    for client in ("producer", "consumer"):
        assert said["health"][client]["reauthentications"]["count"] >= 1
        assert said["health"][client]["connection_failures"] == {}
        # Nor was Metadata asked for again, as after a connection that is lost.
        assert "error_retry" not in str(said["metadata_rpcs"][client])


def test_leaders_are_rotated_which_each_broker_sees_and_rolled_back(
    kipctl: Program, admin: Way, topic: str
) -> None:
    def leaders() -> list[int]:
        with Cluster(admin.access) as cluster:
            return [partition.leader for partition in take_snapshot(cluster, [topic]).partitions]

    before = leaders()
    rotate = ("reassign", "--rotate", "--topic", topic, "--yes")
    said = json.loads(kipctl(*rotate, *JSON, *admin.options))
    assert {partition["outcome"] for partition in said["partitions"]} == {"elected"}
    knew = {row["broker"] for row in said["timeline"] if row["step"] == "knew every new leader"}
    assert knew == {*broker_ids(admin.lab)}
    assert [*map({1: 2, 2: 1}.get, leaders())] == before
    kipctl("undo", "--yes", *admin.options)
    assert leaders() == before


def test_stock_clients_log_in_through_the_tap(
    kipctl: Program, admin: Way, topic: str, fetched_kafka: Callable[[str], KafkaJars]
) -> None:
    """Who produces and who consumes makes no difference to how they log in."""
    java = JavaClient(JAVA, find_java().path, fetched_kafka(JAVA).paths)
    run = ("--record", str(kipctl.folder / "run"))
    with kipctl.start("tap", *run, *JSON, *admin.options) as tap:
        assert tap.stderr is not None
        first = tap.stderr.readline()
        access = admin.access.behind(first.split()[3])
        assert access.security.protocol == "SASL_PLAINTEXT"
        load = ProducerLoad(topic=topic, num_records=500, throughput=0, record_size=100)
        with java.producer(load, access) as producer:
            assert producer.outcome().records == 500
        wanted = ConsumerLoad(topic=topic, num_records=500, group="g", timeout_s=120)
        with Librdkafka().consumer(wanted, access) as consumer:
            assert consumer.outcome().records == 500
        tap.send_signal(signal.SIGINT)
        out, err = tap.communicate()
    kipctl.keep(first + out + err)
    assert tap.returncode == 0, err
    seen = json.loads(out)["clients"]
    # A connection that ends before its client has said who it is belongs to one without a name.
    busy = [client for client in seen if client["requests"]["by_api"].keys() & {"Produce", "Fetch"}]
    names = {client["software_name"] for client in busy}
    assert names == {"apache-kafka-java", "confluent-kafka-python"}, seen
    assert {client["requests"]["not_decoded"] for client in seen} == {0}, seen


@pytest.mark.parametrize(
    ("user", "verdict", "said"),
    [
        (
            "admin",
            "hint agrees with Metadata",
            "2 of 2 brokers named a leader, all as Metadata has it.",
        ),
        (
            "reader",
            "no right to write to the topic: not known",
            "In Produce no broker named a leader",
        ),
    ],
    ids=["admin", "reader"],
)
def test_what_looks_and_changes_nothing_needs_no_more_than_a_reader_has(
    kipctl: Program, secured_lab: Lab, topic: str, user: str, verdict: str, said: str
) -> None:
    way = Way(secured_lab, secured_lab.client_files[f"{user}-plain"])

    def looked(*words: str) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(kipctl.in_this_process(*words, *JSON, *way.options))
        return parsed

    leaders = looked("inspect", "leaders", "--topic", topic)
    assert len(leaders["partitions"]) == PARTITIONS
    brokers = looked("inspect", "brokers")
    assert [broker["is_answering"] for broker in brokers["brokers"]] == [True, True]
    assert {setting["value"] for setting in brokers["settings"]} != {None}
    metadata = looked("inspect", "metadata")
    assert {row["error"] for row in (*metadata["request_costs"], *metadata["brokers"])} == {None}
    selection = looked("inspect", "replica-selection", "--topic", topic)
    assert {partition["reads_from"] for partition in selection["partitions"]} == {1, 2}
    hints = looked("inspect", "hints", "--topic", topic)
    assert {broker["verdict"] for broker in hints["brokers"]} == {verdict}
    text = kipctl.in_this_process("inspect", "hints", "--topic", topic, *way.options)
    assert text.startswith(said)
    plan = looked("reassign", "--rotate", "--topic", topic, "--dry-run")
    assert len(plan["partitions"]) == PARTITIONS
