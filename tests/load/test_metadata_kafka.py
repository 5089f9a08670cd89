"""`perf metadata` on real brokers: who asks for what, held to what brokers count themselves."""

from collections.abc import Callable
from typing import Any

import pytest
from no_own_topics import await_no_own_topics
from one_process import in_this_process

from kipctl.lab.cluster import Lab
from kipctl.load.metadata import phases
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

TOPICS = 20


def perf_metadata(lab: Lab, throughput: int, words: str) -> list[dict[str, Any]]:
    """The clients of a run, every broker's metrics asked."""
    urls = [word for url in lab.metrics_urls for word in ("--metrics-url", url)]
    ran = in_this_process(
        *("perf", "metadata", "--topics", str(TOPICS), "--partitions", "1", "-o", "json"),
        *("--throughput", str(throughput), "--bootstrap-server", lab.bootstrap_server),
        *(*urls, *words.split()),
    )
    assert ran.status == 0, ran.err
    clients: list[dict[str, Any]] = ran.document["clients"]
    assert all(phase["failed"] == 0 for client in clients for phase in client["phases"])
    return clients


def phases_of(client: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {phase["phase"]: phase for phase in client["phases"]}


def test_requests_topics_and_bytes_are_those_that_brokers_count(
    make_lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(brokers=2, metrics=True)
    with monkeypatch.context() as sooner:  # topics are taken for idle, and Metadata is renewed
        sooner.setattr(phases, "LEAST_IDLE_MS", 1500)
        sooner.setattr(phases, "RENEWED_MS", 1000)
        kip526, legacy = perf_metadata(lab, 50, "--phase idle-return")
    for client in (kip526, legacy):
        by_name = phases_of(client)
        assert list(by_name) == ["startup", "idle-return"]
        startup, idle = by_name.values()
        for phase in (startup, idle):
            assert phase["requests"] == phase["brokers_counted"]
        assert startup["by_cause"] == {"start": 1, "new_topic": TOPICS}
        assert startup["waited_records"] == TOPICS
        # Nine tenths are idle meanwhile, are dropped, and come back one after the other; a few of
        # them with a renewal of all, which is due at the same time.
        assert idle["waited_records"] >= TOPICS - TOPICS // 10
        assert idle["by_cause"].keys() == {"idle_eviction", "max_age"}
        with_a_renewal = idle["waited_records"] - idle["by_cause"]["idle_eviction"]
        assert 0 <= with_a_renewal <= idle["by_cause"]["max_age"]
    assert kip526["phases"][0]["topics_asked"] == TOPICS
    assert legacy["phases"][0]["topics_asked"] == TOPICS * (TOPICS + 1) // 2
    assert {step["topic_count"] for step in kip526["growth"]} == {1}
    assert [step["topic_count"] for step in legacy["growth"]] == [
        s["number"] for s in legacy["growth"]
    ]

    changes, librdkafka = perf_metadata(
        lab,
        10,  # so slow that librdkafka asks for each topic before the next is written to
        "--phase steady --phase leader-changes --for 4 "
        "--client probe --policy kip526 --client librdkafka",
    )
    _, steady, moved = changes["phases"]
    assert steady["requests"] == steady["brokers_counted"]
    assert steady["by_cause"].keys() == {"max_age"}
    assert steady["topics_asked"] == TOPICS * steady["requests"]
    assert steady["waited_records"] == 0
    assert moved["by_cause"].keys() == {"leader_change"}
    assert moved["topics_asked"] == TOPICS * moved["requests"]
    assert moved["move_count"] > 0

    # One topic costs the same bytes, whoever asks for it under the same client id.
    sizes = [
        (step["request_bytes"], step["response_bytes"])
        for client in (changes, librdkafka)
        for step in client["growth"]
        if step["topic_count"] == 1
    ]
    assert len(sizes) > len(changes["growth"])
    assert len(set(sizes)) == 1
    assert all("unknown" not in phase["by_cause"] for phase in librdkafka["phases"])
    assert all(phase["waited_records"] is None for phase in librdkafka["phases"])
    assert phases_of(librdkafka)["steady"]["most_topics_asked"] == TOPICS

    with Cluster(lab.bootstrap_server) as cluster:
        await_no_own_topics(cluster)
