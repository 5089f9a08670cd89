"""`kipctl perf produce` while a broker of its lab is restarted."""

import pytest
from one_process import Kipctl

from kipctl.cluster.topics import (
    LATEST,
    await_no_topics,
    await_topic,
    create_topics,
    delete_topics,
    offsets,
)
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


def test_every_acknowledged_record_is_in_the_log_once_through_a_restart(
    lab: Lab, cluster: Cluster, kipctl: Kipctl
) -> None:
    topic = "perf-test"
    create_topics(lab.bootstrap_server, [topic], 4, 3)
    await_topic(cluster, topic, 4)
    ran = kipctl(
        f"perf produce --num-records 2500 --throughput 500 --record-size 50 --topic {topic} "
        "--during restart:2 --every 1 --count 1 -o json",
    )
    assert ran.status == 0, ran.err
    assert ran.document["records"]["acknowledged"] == 2500
    assert ran.document["actions"][0]["error"] is None
    assert sum(offsets(cluster, topic, LATEST).values()) == 2500
    delete_topics(lab.bootstrap_server, [topic])
    await_no_topics(cluster, [topic])
