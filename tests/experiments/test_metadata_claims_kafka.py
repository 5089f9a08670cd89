"""`kipctl experiment metadata` on real brokers: one that asks as KIP-526 says, one as before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kipctl.load.metadata import phases
from kipctl.report.experiment_metadata_tables import claims_tables
from kipctl.trace.stored_runs import read_stored_run

pytestmark = pytest.mark.kafka
TOPICS = 20


def test_new_topics_alone_and_idle_ones_forgotten(
    experiment: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the policy of before forgets them too is in what brokers count of `perf metadata`."""
    monkeypatch.setattr(phases, "RENEWED_MS", 1000)
    words = f"metadata --topics {TOPICS} --partitions 1 --throughput 50 --record"
    startup = experiment(f"{words} before --arms probe-legacy --phase startup")
    document = experiment(f"{words} metadata --arms probe-preload,java-4.3.1 --phase idle-return")
    (legacy,) = startup["claims"]
    preload, java = document["claims"]
    assert legacy["asks_for_new_topics"] == "with all that it knows"
    assert legacy["startup_topics_asked"] == TOPICS * (TOPICS + 1) // 2
    assert preload["asks_for_new_topics"] == "all at once"
    assert preload["startup_topics_asked"] == TOPICS
    assert preload["startup_requests"] <= 2 < java["startup_requests"]
    assert java["asks_for_new_topics"] == "alone"
    assert java["startup_topics_asked"] == TOPICS
    assert java["startup_response_bytes"] < legacy["startup_response_bytes"]
    for claim in (preload, java):
        assert claim["forgets_idle_topics"] is True
        assert claim["topics_asked_once_idle"] == TOPICS // 10
        assert claim["requests_for_returned_topics"] >= TOPICS - TOPICS // 10
    records = {client["client"]: sent_and_failed(client) for client in document["clients"]}
    assert records["java-4.3.1"] == records["probe-preload"]
    assert [phase["phase"] for phase in document["clients"][0]["phases"]] == [
        "startup",
        "idle-return",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "before-probe-legacy-startup.1",
        "metadata-java-4.3.1-idle-return.1",
        "metadata-java-4.3.1-startup.1",
        "metadata-probe-preload-idle-return.1",
        "metadata-probe-preload-startup.1",
    ]
    assert all(read_stored_run(path).flaw == "" for path in tmp_path.iterdir())
    assert [table.name for table in claims_tables(document)] == ["claims", "requests", "latency"]


def sent_and_failed(client: dict[str, Any]) -> list[tuple[int, int]]:
    return [(phase["records"], phase["failed"]) for phase in client["phases"]]
