"""The page of brokers' request logs: its sentence, its words, and names from clients as text."""

from typing import Any

import pytest
from test_html_page import HOSTILE, Elements, draw_nothing, svgs

from kipctl.report.html.request_log_page import request_log_page
from kipctl.report.html.svg import short


def fleet_row(software: str, hints: str, clients: int, refused: int) -> dict[str, Any]:
    """As far as a page shows it."""
    return {
        "software": software,
        "version": "1.0",
        "client_count": clients,
        "requests": 10 * clients,
        "hint_behaviour": hints,
        "requests_by_api": {"PRODUCE": {"9": 10}},
        "not_leader": {"total": refused, "hinted": max(0, refused - 1)},
        "wait_ms": {"p50": None, "max": None},
        "followed_hints": {"present": 0, "followed": 0, "at_once": 0},
        "metadata": {"per_minute": 0.0, "response_bytes": 0},
        "rack_bytes": {"cross_rack_share": None},
    }


def cluster(cluster_id: str | None, *fleet: dict[str, Any]) -> dict[str, Any]:
    return {
        "cluster_id": cluster_id,
        "period": {"from": "2026-11-24T00:00:00.000+00:00", "to": "x", "seconds": 60.0},
        "apis": [{"api": "PRODUCE", "api_version": 9, "requests": 70}],
        "clients": [],
        "brokers": [],
        "findings": [],
        "refused_clients": [],
        "metadata_clients": [],
        **{f"latency_{by}": [] for by in ("by_api", "by_broker", "by_client")},
        "principals": [],
        "talkers": [],
        "rackless_reads": {"fetched_bytes": 0, "cross_rack_bytes": 0},
        "deprecated": [],
        "fleet": list(fleet),
        "produce_not_leader": {"total": 5, "hinted": 4, "appended_then_failed": 0},
        "fetch_errors": {},
        "fetch_errors_by_reader": {"consumers": {}, "replicas": {}},
        "preferred_read_replica": {"named": 0},
        "metadata": {
            "requests": 4,
            "per_minute": 4.0,
            "response_bytes": 100,
            "by_cause": {"start": 1, "leader_change": 3},
        },
        "reads": [{"client_rack": "a", "broker_rack": None, "fetch_count": 1, "bytes": 1_000_000}],
        "requests_of_unknown_brokers": {},
        "clocks": [],
    }


def in_time(cluster_id: str | None, software: str) -> dict[str, Any]:
    def counts(**by_name: int) -> list[dict[str, Any]]:
        return [
            {"name": name, "bucket": at, "count": count}
            for at, (name, count) in enumerate(by_name.items())
        ]

    return {
        "cluster_id": cluster_id,
        "from_us": 1_767_225_600_000_000,
        "bucket_us": 1_000_000,
        "apis": counts(PRODUCE=70, METADATA=4),
        "software": counts(**{software: 70}),
        "errors": counts(NOT_LEADER_OR_FOLLOWER=5),
        "metadata": counts(start=1, leader_change=3),
    }


def log(*clusters: dict[str, Any], broken: int = 0) -> dict[str, Any]:
    lines = {"read": 80, "parsed": 74, "broken": broken, "other": 6 - broken}
    return {
        "lines": lines,
        "copies": {},
        "broken_lines": [],
        "turned_clocks": [],
        "clusters": list(clusters),
    }


TWO = (
    fleet_row("apache-kafka-java", "known to follow", 3, 0),
    fleet_row("librdkafka", "waits", 4, 5),
)


def test_its_sentence_says_who_uses_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)
    page = request_log_page(["logs"], log(cluster("c", *TWO)), [in_time("c", "java 4")])
    words = " ".join(Elements(page.html).words)
    assert (
        "70 requests of 7 clients in 60 s. Leader hints: waits (4 clients); known to follow (3 "
        "clients). 5 answers that the leader is another one, 4 of them "
        "naming it."
    ) in words
    assert "Requests by API: PRODUCE 70, METADATA 4." in words
    assert "Metadata requests by cause: leader_change 3, start 1." in words
    assert set(page.pictures) == {"time1", "clients1", "causes1", "reads1"}
    assert len(svgs(page.html)) == 2 * len(page.pictures)
    assert "Read with care" not in words


def test_each_of_several_clusters_has_its_own_and_names_are_text() -> None:
    both = log(cluster(HOSTILE, fleet_row(HOSTILE, "follows", 1, 0)), cluster(None, *TWO), broken=2)
    over_time = [in_time(HOSTILE, HOSTILE), in_time(None, "java")]
    page = request_log_page([HOSTILE], both, over_time, HOSTILE)
    assert "<script" not in page.html
    elements = Elements(page.html)
    words = " ".join(elements.words)
    assert f"{short(HOSTILE, 10)}: 10 requests" in words
    assert "not known: 70 requests" in words
    assert "2 lines are broken, and not counted." in words
    ids = [attributes["id"] for _, attributes in elements.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
