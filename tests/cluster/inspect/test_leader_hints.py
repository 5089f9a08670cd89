"""What `inspect hints` says of brokers that no released Kafka is: drafts, and older ones."""

import io
import json
from pathlib import Path

import pytest
from fake_broker import VERSIONS, FakeCluster

from kipctl.cli.app import run
from kipctl.cli.environment import Environment

DRAFT = "hint in the form of KIP-951's early draft: no client reads it"


def inspected(cluster: FakeCluster, directory: Path, output: str = "json") -> str:
    environment = Environment(
        stdin=io.StringIO(),
        stdout=io.StringIO(),
        stderr=io.StringIO(),
        variables={"XDG_STATE_HOME": str(directory)},
    )
    arguments = ["inspect", "hints", "--bootstrap-server", cluster.bootstrap_server, "-o", output]
    assert run(arguments, environment) == 0, environment.stderr.getvalue()
    return environment.stdout.getvalue()


@pytest.fixture
def old_cluster():
    """Two brokers that speak Produce up to 9; each leads one of two partitions."""
    with FakeCluster(partitions=2, versions=VERSIONS | {0: (0, 9)}) as cluster:
        yield cluster


def test_a_draft_is_named_and_counted_apart(old_cluster, tmp_path):
    old_cluster.draft = True
    shown = json.loads(inspected(old_cluster, tmp_path))
    assert (shown["hinting"], shown["drafts"]) == (0, 2)
    first, second = shown["brokers"]
    assert {first["verdict"], second["verdict"]} == {DRAFT}
    there = old_cluster.brokers[2].port
    assert (first["asked"], first["hint_leader"], first["hint_epoch"]) == ("t-1", 2, 5)
    assert first["hint_endpoint"] == f"127.0.0.1:{there}"
    assert old_cluster.records_in_log() == 0
    assert (
        "0 of 2 brokers named a leader. 2 did so only in the form of KIP-951's early draft."
        in inspected(old_cluster, tmp_path, "plain")
    )


def test_a_broker_without_hints_is_too_old(old_cluster, tmp_path):
    shown = json.loads(inspected(old_cluster, tmp_path))
    assert (shown["hinting"], shown["drafts"]) == (0, 0)
    assert {broker["verdict"] for broker in shown["brokers"]} == {"too old for hints"}
    assert {broker["hint_leader"] for broker in shown["brokers"]} == {None}


def test_the_form_that_was_adopted_is_no_draft(tmp_path):
    with FakeCluster(partitions=2) as cluster:
        cluster.draft = True
        shown = json.loads(inspected(cluster, tmp_path))
    assert (shown["hinting"], shown["drafts"]) == (2, 0)
    assert {broker["verdict"] for broker in shown["brokers"]} == {"hint agrees with Metadata"}


def test_metadata_that_is_behind_a_move_is_asked_again(tmp_path):
    """As just after a rotation: brokers know of it before the Metadata of the one that is asked."""
    with FakeCluster(partitions=2) as cluster:
        cluster.shown = dict(cluster.leaders)
        cluster.move(0, 2)
        cluster.move(1, 1)

        def catch_up(_: int) -> None:
            if len(cluster.metadata_asked) == 6:
                cluster.shown = None

        cluster.on_metadata = catch_up
        shown = json.loads(inspected(cluster, tmp_path))
    assert shown["hinting"] == 2
    assert {broker["verdict"] for broker in shown["brokers"]} == {"hint agrees with Metadata"}
    assert [broker["asked"] for broker in shown["brokers"]] == ["t-0", "t-1"]


def test_metadata_that_stays_behind_is_named(tmp_path):
    with FakeCluster(partitions=1, brokers=3) as cluster:
        cluster.shown = dict(cluster.leaders)
        cluster.move(0, 2)
        shown = json.loads(inspected(cluster, tmp_path))
        port = cluster.brokers[1].port
    verdicts = [broker["verdict"] for broker in shown["brokers"]]
    assert verdicts == [
        "no partition is led elsewhere: not asked",
        "answered otherwise",
        "hint differs from Metadata",
    ]
    assert [broker["detail"] for broker in shown["brokers"]] == [
        None,
        "CORRUPT_MESSAGE",
        f"Metadata: 1 epoch 5 127.0.0.1:{port}",
    ]
