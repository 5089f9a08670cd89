"""`kipctl experiment metadata` on real brokers: one that asks as KIP-526 says, one as before."""

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.lab.cluster import Lab
from kipctl.report.experiment_metadata_tables import claims_tables
from kipctl.trace.stored_runs import read_stored_run

pytestmark = pytest.mark.kafka
TOPICS = 20


def test_new_topics_alone_and_idle_ones_forgotten(lab: Lab, tmp_path: Path) -> None:
    out, err = StringIO(), StringIO()
    environment = Environment(
        stdin=StringIO(),
        stdout=out,
        stderr=err,
        variables=os.environ | {"KIPCTL_RUNS": str(tmp_path)},
    )
    words = (
        "experiment metadata --arms probe-legacy,probe-preload,java-4.3.1"
        f" --topics {TOPICS} --for 2 --phase idle-return --throughput 100"
        " --record metadata --output json"
        f" --bootstrap-server {lab.bootstrap_server}"
    )
    assert run(words.split(), environment) == 0, err.getvalue()
    document = json.loads(out.getvalue())
    legacy, preload, java = document["claims"]
    assert legacy["asks_for_new_topics"] == "with all that it knows"
    assert legacy["startup_topics_asked"] == TOPICS * (TOPICS + 1) // 2
    assert preload["asks_for_new_topics"] == "all at once"
    assert preload["startup_topics_asked"] == TOPICS
    assert preload["startup_requests"] <= 2 < java["startup_requests"]
    assert java["asks_for_new_topics"] == "alone"
    assert java["startup_topics_asked"] == TOPICS
    assert java["startup_response_bytes"] < legacy["startup_response_bytes"]
    for claim in (legacy, preload, java):
        assert claim["forgets_idle_topics"] is True
        assert claim["topics_asked_once_idle"] == TOPICS // 10
        assert claim["requests_for_returned_topics"] >= TOPICS - TOPICS // 10
    records = {client["client"]: sent_and_failed(client) for client in document["clients"]}
    assert records["java-4.3.1"] == records["probe-legacy"]
    assert [phase["phase"] for phase in document["clients"][0]["phases"]] == [
        "startup",
        "idle-return",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"metadata-{client}-{phase}"
        for client in ("java-4.3.1", "probe-legacy", "probe-preload")
        for phase in ("idle-return", "startup")
    ]
    assert all(read_stored_run(path).flaw == "" for path in tmp_path.iterdir())
    assert [table.name for table in claims_tables(document)] == ["claims", "requests", "latency"]


def sent_and_failed(client: dict[str, Any]) -> list[tuple[int, int]]:
    return [(phase["records"], phase["failed"]) for phase in client["phases"]]
