"""`kipctl tap --rotate` on real brokers: it starts a client, moves leaders until it has met enough,
ends it, does it again without hints, and leaves the cluster as it was."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_lab import topics_on
from one_process import in_this_process

from kipctl.cluster.snapshot import take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
TOPIC = "tap-rotates"
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


@pytest.fixture
def topic(lab: Lab) -> Iterator[str]:
    with topics_on(lab) as make:
        yield make(TOPIC, REPLICAS)


def test_it_says_what_hints_are_worth_and_leaves_no_trace(
    lab: Lab, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = str(tmp_path_factory.mktemp("state"))
    client = (
        f"{sys.executable} -m kipctl perf produce --bootstrap-server {{bootstrap}} --force"
        " --topic {topic} --num-records 1000000 --throughput 100"
    )
    ran = in_this_process(
        *("tap", "--bootstrap-server", lab.bootstrap_server, "--rotate", topic, "--yes"),
        *("--until-met", "3", "--and-without-hints", "--run", client, "--output", "json"),
        *("--record", "noon"),
        XDG_STATE_HOME=state,
    )
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    without = document["without_hints"]
    waited = []
    for half, run in ((document, "noon"), (without, "noon-without-hints")):
        recorded = json.loads((Path(state) / "kipctl" / "runs" / run / "run.json").read_text())
        for name in ("rotations", "rotated_topic", "wanted_moves", "all_met", "cluster_id"):
            assert recorded["summary"][name] == half[name]
        rotated = recorded["summary"]["actions"]
        assert [(action["action"], action["partitions"]) for action in rotated] == [
            ("rotate", 3)
        ] * half["rotations"]
        led = Run(Path(state) / "kipctl" / "runs" / run).read("events").to_pylist()
        assert {(row["topic"], row["partition"]) for row in led} >= {(topic, n) for n in range(3)}
        assert all(row["time_us"] >= rotated[0]["called_ms"] * 1000 for row in led)
        (own,) = (row for row in half["clients"] if row["client_id"] == "kipctl-perf")
        assert own["moves"]["met"] >= 3
        assert half["rotations"] >= 1
        assert (half["rotated_topic"], half["wanted_moves"], half["all_met"]) == (topic, 3, True)
        waited.append(own["moves"]["wait_ms"]["p50"])
        assert own["hints"]["sent"] > 0
        assert own["hints"]["dropped"] == (own["hints"]["sent"] if half is without else 0)
    assert without["conditions"] == {"drop_hints": True}
    (worth,) = document["hints_worth"]
    assert worth["client_id"] == "kipctl-perf"
    assert [worth["with_ms"], worth["without_ms"]] == waited
    assert "kipctl-perf" in ran.err
    assert " of 3 met." in ran.err
    with Cluster(lab.bootstrap_server) as cluster:
        now = take_snapshot(cluster, [topic])
    assert [list(p.replicas) for p in now.partitions] == REPLICAS
    assert [p.leader for p in now.partitions] == [1, 2, 3]
    listed = in_this_process(
        *("changes", "list", "--bootstrap-server", lab.bootstrap_server, "--output", "json"),
        XDG_STATE_HOME=state,
    )
    assert [entry["state"] for entry in json.loads(listed.out)["entries"]] == ["undone"]


def test_a_client_that_breaks_off_is_told_and_leaders_are_back(
    lab: Lab, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ran = in_this_process(
        *("tap", "--bootstrap-server", lab.bootstrap_server, "--rotate", topic, "--yes"),
        *("--run", f"{sys.executable} -c 'import sys; sys.exit(\"no such setting\")'"),
        XDG_STATE_HOME=str(tmp_path_factory.mktemp("state")),
    )
    assert ran.status == 4
    assert "status 1: no such setting" in ran.err
    with Cluster(lab.bootstrap_server) as cluster:
        assert [p.leader for p in take_snapshot(cluster, [topic]).partitions] == [1, 2, 3]
