"""Real brokers do what is asked of brokers; one behind a relay from before KIP-951 does not."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from in_process import kipctl
from on_lab import topics_on

from kipctl.cluster.snapshot import take_snapshot
from kipctl.conform.broker.claims import BROKER_CLAIMS
from kipctl.lab.cluster import Lab
from kipctl.lab.ports import first_of_free_ports, is_free
from kipctl.process import wait_until
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
TOPIC = "held-brokers"
RELAY = Path(__file__).with_name("relay.py")


@pytest.fixture
def topic(lab: Lab) -> Iterator[str]:
    """Each broker leads one partition, and follows another; of a third it has no replica."""
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    with topics_on(lab) as make, Cluster(lab.bootstrap_server) as cluster:
        make(TOPIC, [[1, 2], [2, 3], [3, 1]])
        for partition in range(3):
            producer.produce(TOPIC, b"x", partition=partition)
        assert producer.flush(30) == 0
        before = take_snapshot(cluster, [TOPIC])
        yield TOPIC
        assert take_snapshot(cluster, [TOPIC]) == before


@pytest.fixture
def relayed(lab: Lab) -> Iterator[str]:
    """The lab through a relay that leaves NodeEndpoints as they are."""
    port = first_of_free_ports(1)
    upstream = lab.bootstrap_server.partition(",")[0]
    words = [sys.executable, str(RELAY), upstream, f"127.0.0.1:{port}", "PRODUCE", "FETCH"]
    with subprocess.Popen(words) as relay:
        try:
            wait_until(lambda: not is_free(port), 60)
            yield f"127.0.0.1:{port}"
        finally:
            relay.terminate()


def test_real_brokers_pass_and_what_a_relay_leaks_is_found(
    lab: Lab, topic: str, relayed: str
) -> None:
    words = ("conform", "broker", "--topic", topic, "-o", "json", "--bootstrap-server")
    said = kipctl(*words, lab.bootstrap_server)
    assert said.status == 0, said
    statuses = {rule["rule"]: rule["status"] for rule in json.loads(said.out)["rules"]}
    assert statuses == dict.fromkeys([claim.id for claim in BROKER_CLAIMS], "PASS")
    with Cluster(lab.bootstrap_server) as cluster:
        assert set(take_snapshot(cluster, [topic]).leaders_per_broker.values()) == {1}

    said = kipctl(*words, relayed)
    assert said.status == 7, said
    statuses = {rule["rule"]: rule["status"] for rule in json.loads(said.out)["rules"]}
    failed = {rule for rule, status in statuses.items() if status == "FAIL"}
    assert failed == {"broker-produce-endpoint", "broker-fetch-endpoint"}
