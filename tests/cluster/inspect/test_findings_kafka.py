"""`kipctl inspect brokers` on real clusters: what it says is so, and its own requests add up."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from on_lab import Kipctl, MakeTopic, in_sync, wait_until_everywhere
from shared_labs import PATIENT

from kipctl.cluster.broker_metrics import scrape
from kipctl.cluster.inspect.findings.facts import SETTINGS
from kipctl.cluster.throttle_configs import LEADER_RATE, LEADER_REPLICAS
from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
MakeLab = Callable[..., Lab]


def whats(shown: dict[str, Any]) -> list[str]:
    return [f"{finding['severity']}: {finding['what']}" for finding in shown["findings"]]


def counts(requests: list[dict[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter({(row["api"], row["api_version"]): row["count"] for row in requests})


def test_versions_features_and_settings_are_those_of_the_lab(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    make_topic("a-lonely-topic", [[1]])
    ran = kipctl("inspect brokers -o json")
    shown = ran.document
    assert [
        (b["broker"], b["rack"], b["release"], b["is_answering"]) for b in shown["brokers"]
    ] == [(number, f"rack-{number}", "4.3", True) for number in (1, 2, 3)]
    features = {
        feature["feature"]: (feature["in_use_by_brokers"], feature["supported_by_brokers"])
        for feature in shown["features"]
    }
    assert features["metadata.version"] == ("30", "7-30")
    versions = {api["api"]: api["versions"] for api in shown["apis"]}
    assert (versions["Produce"], versions["Fetch"], versions["Metadata"]) == (
        "0-13",
        "4-18",
        "0-13",
    )
    assert {api["all_brokers"] for api in shown["apis"]} == {True}
    settings = {setting["setting"]: setting["value"] for setting in shown["settings"]}
    assert settings["replica.selector.class"].endswith(".RackAwareReplicaSelector")
    assert settings["replica.fetch.backoff.ms"] == "1000"
    for broker in shown["brokers"]:
        assert broker["feature_versions"]["metadata.version"] == {
            "in_use": 30,
            "supported": [7, 30],
        }
        assert broker["api_versions"]["3"] == [0, 13]
        assert broker["setting_values"]["min.insync.replicas"] == "1"
        assert (broker["lists"], broker["error"]) == ([1, 2, 3], None)
    assert shown["metrics"] == []
    (finding,) = [what for what in whats(shown) if "a-lonely-topic" in what]
    assert "partitions with one replica: a-lonely-topic" in finding
    rows = kipctl("inspect brokers -o csv").out.splitlines()
    assert (
        "table,Broker,Address,Rack,Kafka,Leaders,Preferred,Not in sync,(adding),Needed by,Answers"
        in rows
    )
    assert f"settings,min.insync.replicas,1,{SETTINGS['min.insync.replicas']!r}" in [
        row.replace('"', "'") for row in rows
    ]
    first, *others = kipctl("inspect brokers -o plain").out.splitlines()
    assert first.endswith(" at 3 brokers of Kafka 4.3. Nothing was changed.")
    assert others[0].split(": ")[0] in ("problem", "warning", "note")
    assert "Settings" not in others
    assert "Settings" in kipctl("inspect brokers -o wide").out.splitlines()


def test_brokers_count_what_was_sent_and_one_that_stops_is_found(
    make_lab: MakeLab, kipctl: Kipctl
) -> None:
    lab = make_lab(name="doctored", metrics=True, config=(*PATIENT, ("min.insync.replicas", "2")))
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    admin.create_topics([NewTopic("t", 6, 3)])["t"].result()
    with Cluster(lab.bootstrap_server) as brokers:
        wait_until_everywhere(brokers, "t", in_sync)
    del admin  # its requests would be counted too

    arguments = ["inspect", "brokers", "--bootstrap-server", lab.bootstrap_server, "-o", "json"]
    arguments += [word for url in lab.metrics_urls for word in ("--metrics-url", url)]
    ran = kipctl(*arguments)
    shown = ran.document
    assert {broker["release"] for broker in shown["brokers"]} == {"4.3.1"}
    for metrics in shown["metrics"]:
        new = counts(metrics["after"]["requests_by_version"]) - counts(
            metrics["before"]["requests_by_version"]
        )
        own = counts(metrics["own_requests"])
        assert own["Metadata", 13] == 1
        # Brokers fetch from one another, and open connections for it when they like.
        assert new["ApiVersions", 4] >= own.pop(("ApiVersions", 4))
        asked = {api for api, _ in own}
        assert asked - {"ListPartitionReassignments"} == {
            "Metadata",
            "DescribeConfigs",
            "DescribeLogDirs",
            "ListOffsets",
        }
        # A request is counted after its answer: Metadata of before may be among these.
        more = Counter({sent: n for sent, n in new.items() if sent[0] in asked}) - own
        assert not own - new
        assert more.keys() <= {("Metadata", 13)}
    assert [metrics["broker"] for metrics in shown["metrics"]] == [1, 2, 3]

    # Each broker is asked as if it led once, with a batch that it cannot append.
    before = {url: scrape(url).errors for url in lab.metrics_urls}
    ran = kipctl("inspect hints --bootstrap-server", lab.bootstrap_server, "-o json")
    assert ran.document["hinting"] == 3
    for url in lab.metrics_urls:
        errors = scrape(url).errors
        refused = Counter(errors) - Counter(before[url])
        assert refused["Produce", "NOT_LEADER_OR_FOLLOWER"] == 1

    lab.stop(3)
    with Cluster(lab.bootstrap_server) as brokers:
        wait_until_everywhere(
            brokers, "t", lambda seen: all(set(p.isr) == {1, 2} for p in seen.partitions)
        )
    ran = kipctl(*arguments)
    findings = whats(ran.document)
    assert findings[:2] == [
        "problem: Broker 3 is not alive, and 6 partitions have a replica on it.",
        "warning: 6 partitions have replicas out of sync, and just min.insync.replicas left: t-0,"
        " t-1, t-2 and 3 more.",
    ]
    gone = [what for what in findings if lab.metrics_urls[2] in what]
    assert len(gone) == 1
    assert gone[0].startswith("warning: The metrics at ")

    # With one replica in sync of the two that acks=all takes, the other of the last two is kept as
    # an eligible leader (KIP-966).
    lab.stop(2)
    with Cluster(lab.bootstrap_server) as brokers:
        wait_until_everywhere(
            brokers, "t", lambda seen: all(set(p.isr) == {1} for p in seen.partitions)
        )
    ran = kipctl(*arguments)
    assert (
        "note: 6 partitions have eligible leader replicas (KIP-966) out of sync, on broker 2: t-0,"
        " t-1, t-2 and 3 more."
    ) in whats(ran.document)


def test_throttles_and_cordoned_directories_that_stayed_are_found(
    lab: Lab, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    make_topic("throttled", [[1, 2, 3]])
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})

    def alter(kind: ResourceType, name: str, config: str, value: str | None) -> None:
        entry = ConfigEntry(
            config,
            value or "",
            incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
        )
        asked = ConfigResource(kind, name, incremental_configs=[entry])
        admin.incremental_alter_configs([asked])[asked].result()

    left: tuple[tuple[ResourceType, str, str, str], ...] = (
        (ResourceType.TOPIC, "throttled", LEADER_REPLICAS, "*"),
        (ResourceType.BROKER, "2", LEADER_RATE, "1000000"),
        (ResourceType.BROKER, "3", "cordoned.log.dirs", "*"),
    )
    expected = {
        "warning: A replication throttle is still set, and nothing that needs it is being"
        " reassigned: a rate on broker 2 (1,000,000 B/s) and replicas of 1 topic (throttled).",
        "warning: All log directories of broker 3 are cordoned (KIP-1066).",
    }

    def found() -> set[str]:
        ran = kipctl("inspect brokers -o json")
        return expected & set(whats(ran.document))

    assert found() == set()
    try:
        for kind, name, config, value in left:
            alter(kind, name, config, value)
        while found() != expected:  # brokers hear of it a moment later; pytest's timeout ends it
            pass
    finally:
        for kind, name, config, _ in left:
            alter(kind, name, config, None)
    while found():
        pass
