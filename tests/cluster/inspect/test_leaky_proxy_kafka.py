"""Hints behind a proxy that rewrites Metadata alone: that is said, and whom it leads past it."""

from pathlib import Path

import pytest
from commands import OnLab
from confluent_kafka.admin import AdminClient
from leaky_proxy import leaky_proxy
from on_lab import MakeTopic

from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def test_hints_that_lead_past_a_proxy_are_its_own_and_no_fault_of_brokers(
    cluster: Cluster, lab: Lab, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic("behind", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    real = [int(address.rpartition(":")[2]) for address in lab.bootstrap_server.split(",")]
    with leaky_proxy(real) as proxy:
        # Another client is shown the proxy alone, and kipctl goes through it.
        admin = AdminClient({"bootstrap.servers": proxy.bootstrap_server, "log_level": 0})
        shown = {broker.port for broker in admin.list_topics(timeout=30).brokers.values()}
        assert shown == set(proxy.ports.values())
        kipctl = OnLab(proxy.bootstrap_server, tmp_path / "state").kipctl

        ran = kipctl("inspect hints --topic", topic, "-o json")
        assert (ran.document["hinting"], ran.document["agreeing"]) == (3, 0)
        assert ran.document["past_proxy"]
        hinted = [broker["hint_endpoint"] for broker in ran.document["brokers"]]
        assert {int(endpoint.rpartition(":")[2]) for endpoint in hinted} <= {*real}
        ran = kipctl("inspect hints --require --topic", topic, status=7)
        first, second = ran.out.splitlines()[:2]
        assert first.startswith("3 of 3 brokers named a leader, none as Metadata has it.")
        assert second.strip().startswith("Hints lead past a proxy")

        ran = kipctl(
            f"perf produce --topic {topic} --num-records 800 --throughput 100"
            " --during rotate --every 1s --yes -o json"
        )
        elsewhere = ran.document["hinted_elsewhere"]
        assert sum(elsewhere.values()) > 0
        assert all(any(f":{port}, not " in hint for port in real) for hint in elsewhere)
