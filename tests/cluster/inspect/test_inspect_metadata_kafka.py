"""`kipctl inspect metadata` on real brokers."""

import pytest
from no_own_topics import await_no_own_topics
from on_lab import Kipctl, MakeTopic

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def test_costs_are_those_of_the_frames_and_all_brokers_agree(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    make_topic("costly-1", [[1, 2], [2, 3]])
    make_topic("costly-2", [[1, 2, 3]])
    ran = kipctl("inspect metadata --topic costly-* -o json")
    shown = ran.document
    asked = [
        (cost["broker"], cost["asked"], cost["topic_count"]) for cost in shown["request_costs"]
    ]
    assert asked[:3] == [(broker, "costly-1", 1) for broker in (1, 2, 3)]
    assert [row[:2] for row in asked[3:]] == [(broker, "all topics") for broker in (1, 2, 3)]
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="costly-1"),), allow_auto_topic_creation=False
    )
    for cost in shown["request_costs"][:3]:
        connection = cluster.broker(cost["broker"])
        version = min(13, connection.api_versions[ApiKey.METADATA][1])
        body = encode(connection.request(request), version)
        # A length, a correlation id and no tags go before it.
        assert cost["response_bytes"] == 9 + len(body)
        assert 0 < cost["took_ms"]["p50"] <= cost["took_ms"]["max"]
    assert {cost["partition_count"] for cost in shown["request_costs"][:3]} == {2}
    assert all(cost["partition_count"] >= 3 for cost in shown["request_costs"][3:])
    assert [(b["broker"], b["partitions"], b["behind"]) for b in shown["brokers"]] == [
        (broker, 3, 0) for broker in (1, 2, 3)
    ]
    assert (shown["agree"], shown["differences"]) == (True, [])
    plain = kipctl("inspect metadata").out
    assert plain.splitlines()[0] == "All brokers show the same."


def test_every_broker_is_timed_until_it_shows_each_new_leader(
    cluster: Cluster, kipctl: Kipctl
) -> None:
    ran = kipctl("inspect metadata --measure-convergence --moves 2 -o json")
    convergence = ran.document["convergence"]
    assert [(broker["broker"], broker["leaders_seen"]) for broker in convergence] == [
        (b, 60) for b in (1, 2, 3)
    ]
    for broker in convergence:
        behind = broker["behind_ms"]
        assert 0 <= behind["p50"] <= behind["max"] <= broker["after_call_ms"]["max"]
    await_no_own_topics(cluster)
