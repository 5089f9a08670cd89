"""Releases of Kafka: the oldest whose every step works, and two of them in one cluster."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from lab_tools import kipctl_lab
from one_process import in_this_process
from roll_faults import STARTED, UNASKED
from versions import ENDS, OK, PARTITIONS, STEPS, TOPIC, Place, outcomes

from kipctl.cluster.inspect.leader_hint_check import Verdict
from kipctl.cluster.topics import await_topic, create_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.process import wait_until
from kipctl.protocol.api import ApiKey
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
MakeLab = Callable[..., Lab]
OLD, NEW = "3.6.2", "4.3.1"
OLDEST = "3.2.3"


@pytest.fixture(autouse=True)
def releases(fetched_kafka: Callable[[str], KafkaJars]) -> None:
    for version in (OLDEST, OLD, NEW):
        fetched_kafka(version)


def here(words: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    said = in_this_process(*words, **variables)
    return said.status, said.out, said.err


def test_the_oldest_release_that_is_worked_with_goes_through_every_step(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(brokers=2, racks=2, kafka_version=OLDEST, config=UNASKED)
    assert outcomes(Place(lab, tmp_path, here)) == dict.fromkeys(STEPS, OK)


def test_a_cluster_in_the_middle_of_its_upgrade(make_lab: MakeLab, tmp_path: Path) -> None:
    """Broker 2 is newer than broker 1 and the controller, and keeps to their metadata.version."""
    lab = make_lab(
        brokers=2, racks=2, kafka_version=OLD, config=UNASKED, request_log=True, name="upgraded"
    )
    place = Place(lab, tmp_path, here)
    status, out, err = kipctl_lab("restart", "2", "--name", lab.name, "--kafka-version", NEW)
    assert status == 0, err
    assert f"Upgraded: node 2 Kafka {NEW}" in out
    assert lab.kafka_version == OLD
    assert [lab.kafka_version_of(node.id) for node in lab.nodes] == [OLD, NEW, OLD]
    create_topics(lab.access, [TOPIC], PARTITIONS, 2)
    with Cluster(lab.access) as cluster:
        await_topic(cluster, TOPIC, PARTITIONS)
        spoken = {node: cluster.broker(node).api_versions for node in (1, 2)}
    assert spoken[1][ApiKey.PRODUCE][1] == 9 < spoken[2][ApiKey.PRODUCE][1]

    # Each broker is asked in the newest version of its own, whoever leads.
    load = f"perf produce --topic {TOPIC} {ENDS} --during rotate --every 0.3 --count 1 --yes"
    document = place.kipctl(f"{load} --record {tmp_path}/run")
    assert document["records"]["acknowledged"] == document["records"]["sent"]
    asked = defaultdict(set)
    for row in Run(tmp_path / "run").read("rpcs").to_pylist():
        if row["api_key"] == ApiKey.PRODUCE:
            asked[row["broker"]].add(row["api_version"])
    assert asked == {node: {spoken[node][ApiKey.PRODUCE][1]} for node in (1, 2)}

    brokers = place.kipctl(f"inspect hints --topic {TOPIC}")["brokers"]
    assert [broker["verdict"] for broker in brokers] == [Verdict.TOO_OLD, Verdict.AGREES]
    shown = place.kipctl("inspect brokers")
    assert [broker["release"] for broker in shown["brokers"]] == ["3.6", "4.3"]
    assert "different releases" in " ".join(finding["what"] for finding in shown["findings"])

    # Both log each request from their start, in the words of their own logging, and nowhere else.
    for node in (1, 2):
        assert '"requestApiKeyName":"METADATA"' in lab.node(node).request_log_path.read_text()
        assert "Completed request:" not in lab.node(node).log_path.read_text()
    # It answers a moment before it says so.
    assert wait_until(lambda: STARTED in lab.node(1).log_path.read_text(), 300)
