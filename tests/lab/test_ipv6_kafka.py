"""Real brokers at an IPv6 address; where a machine has none, the same at an IPv4 address.

Librdkafka and Java's client go through a tap that listens there too.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from one_process import in_this_process
from scripted_broker import a_loopback

from kipctl.cluster.topics import await_no_topics, await_topic, create_topics, delete_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.lab.properties import LabSpec
from kipctl.load.clients.client import Client, ConsumerLoad, ProducerLoad
from kipctl.load.clients.java import JavaClient
from kipctl.load.clients.librdkafka import Librdkafka
from kipctl.protocol.address import host_port
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import parse_bootstrap_servers
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
HOST = a_loopback()
JAVA = "4.3.1"
TOPIC = "by-ipv6"


@pytest.fixture(scope="module")
def lab_there(guard: None) -> Iterator[Lab]:
    """2 brokers, which clients find at that address."""
    lab = Lab.up(LabSpec(name="ipv6", brokers=2, c1_only=True, host=HOST), lambda text: None)
    yield lab
    lab.down()


@pytest.fixture
def topic(lab_there: Lab) -> Iterator[str]:
    with Cluster(lab_there.access) as cluster:
        await_no_topics(cluster, [TOPIC])  # a test before may have made and removed one
        create_topics(lab_there.access, [TOPIC], 2, 2)
        await_topic(cluster, TOPIC, 2)
    yield TOPIC
    delete_topics(lab_there.access, [TOPIC])


def document(lab: Lab, words: str, state: Path) -> dict[str, Any]:
    options = ("--bootstrap-server", lab.bootstrap_server, "-o", "json")
    said = in_this_process(*words.split(), *options, XDG_STATE_HOME=str(state))
    assert said.status == 0, said
    return said.document


def test_commands_go_there(lab_there: Lab, topic: str, tmp_path: Path) -> None:
    brokers = document(lab_there, "inspect brokers", tmp_path)["brokers"]
    servers = lab_there.bootstrap_server.split(",")
    assert {server.host for server in parse_bootstrap_servers(lab_there.bootstrap_server)} == {HOST}
    assert [(broker["address"], broker["is_answering"]) for broker in brokers] == [
        (s, True) for s in servers
    ]
    load = "perf e2e --num-records 100 --throughput 100 --partitions 2"
    sent = document(lab_there, load, tmp_path)
    assert sent["records"]["delivered"] == 100
    assert sent["health"]["producer"]["connection_failures"] == {}
    moved = document(lab_there, f"reassign --rotate --topic {topic} --yes", tmp_path)
    assert {partition["outcome"] for partition in moved["partitions"]} == {"elected"}
    hints = document(lab_there, f"inspect hints --topic {topic}", tmp_path)
    assert {broker["verdict"] for broker in hints["brokers"]} == {"hint agrees with Metadata"}


def test_stock_clients_go_through_a_tap_there(
    lab_there: Lab, topic: str, fetched_kafka: Callable[[str], KafkaJars]
) -> None:
    java = JavaClient(JAVA, find_java().path, fetched_kafka(JAVA).paths)
    clients: tuple[Client, ...] = (Librdkafka(), java)
    spec = TapSpec(access=lab_there.access, listen=host_port(HOST, 0))
    with running_tap(spec, None) as tap:
        access = lab_there.access.behind(tap.bootstrap_server)
        for client in clients:
            load = ProducerLoad(topic=topic, num_records=50, throughput=0, record_size=10)
            with client.producer(load, access) as producer:
                assert producer.outcome().records == 50
            wanted = ConsumerLoad(topic=topic, num_records=50, group="g", timeout_s=120)
            with client.consumer(wanted, access) as consumer:
                assert consumer.outcome().records == 50
        shown = tap.show()
        assert {*shown.ports} == {*lab_there.bootstrap_server.split(",")}
        assert shown.messages == ()
