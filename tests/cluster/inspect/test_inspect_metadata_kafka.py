"""`kipctl inspect metadata` on real brokers."""

import json
from collections.abc import Callable

import pytest
from no_own_topics import await_no_own_topics
from on_lab import Kipctl, MakeTopic

from kipctl.lab.cluster import Lab
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
    ran = kipctl("inspect", "metadata", "--topic", "costly-*", "-o", "json")
    assert ran.status == 0, ran.err
    shown = json.loads(ran.out)
    asked = [(cost["broker"], cost["asked"], cost["topics"]) for cost in shown["costs"]]
    assert asked[:3] == [(broker, "costly-1", 1) for broker in (1, 2, 3)]
    assert [one[:2] for one in asked[3:]] == [(broker, "all topics") for broker in (1, 2, 3)]
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="costly-1"),), allow_auto_topic_creation=False
    )
    for cost in shown["costs"][:3]:
        connection = cluster.broker(cost["broker"])
        version = min(13, connection.api_versions[ApiKey.METADATA][1])
        body = encode(connection.request(request), version)
        # A length, a correlation id and no tags go before it.
        assert cost["response_bytes"] == 9 + len(body)
        assert 0 < cost["p50_ms"] <= cost["max_ms"]
    assert {cost["partitions"] for cost in shown["costs"][:3]} == {2}
    assert all(cost["partitions"] >= 3 for cost in shown["costs"][3:])
    assert [(b["broker"], b["partitions"], b["behind"]) for b in shown["brokers"]] == [
        (broker, 3, 0) for broker in (1, 2, 3)
    ]
    assert (shown["agree"], shown["differences"]) == (True, [])
    plain = kipctl("inspect", "metadata").out
    assert plain.splitlines()[0] == "All brokers show the same."


def test_every_broker_is_timed_until_it_shows_each_new_leader(
    cluster: Cluster, kipctl: Kipctl
) -> None:
    ran = kipctl("inspect", "metadata", "--measure-convergence", "--moves", "2", "-o", "json")
    assert ran.status == 0, ran.err
    convergence = json.loads(ran.out)["convergence"]
    assert [(one["broker"], one["seen"]) for one in convergence] == [(b, 60) for b in (1, 2, 3)]
    for one in convergence:
        assert 0 <= one["behind_p50_ms"] <= one["behind_max_ms"] <= one["after_call_max_ms"]
    await_no_own_topics(cluster)


def test_a_paused_broker_is_told_of_as_one_that_does_not_answer(
    make_lab: Callable[..., Lab], kipctl: Kipctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kipctl.cli.inspect_metadata.TIMEOUT_S", 6.0)
    own = make_lab(brokers=2, config=(("broker.session.timeout.ms", "600000"),))
    own.pause(2)
    ran = kipctl("inspect", "metadata", "--bootstrap-server", own.bootstrap_server, "-o", "json")
    assert ran.status == 0, ran.err
    shown = json.loads(ran.out)
    assert [cost["error"] is None for cost in shown["costs"]] == [True, False]
    assert shown["brokers"][0]["error"] is None
    assert "did not answer Metadata in 6 s" in shown["brokers"][1]["error"]
    # It is not asked for again and again.
    assert (shown["agree"], shown["looks"]) == (False, 1)
