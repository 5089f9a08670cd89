"""What a principal with few rights is told: which is missing, whose, and what grants it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from on_secured import Way, granted, ran, topic_of

from kipctl.cluster.acls import NEEDED
from kipctl.cluster.topics import delete_topics, topics_named
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.transport.acl_errors import CLUSTER, Right
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
MANY = "kipctl-metadata"
FEW = ("--topics", "2", "--for", "0.5", "--throughput", "20", "--phase", "steady", "--yes")
JSON = ("-o", "json")


@pytest.fixture
def alice(secured_lab: Lab) -> Way:
    """She may do nothing."""
    return Way(secured_lab, secured_lab.client_files["alice-plain"])


@pytest.fixture
def reader(secured_lab: Lab) -> Way:
    return Way(secured_lab, secured_lab.client_files["reader-plain"])


@pytest.fixture
def no_topics_stay(secured_lab: Lab) -> Iterator[None]:
    """Who may Create and not Delete leaves topics behind."""
    yield
    with Cluster(secured_lab.access) as cluster:
        delete_topics(secured_lab.access, [*topics_named(cluster, f"{MANY}-.*")])


def test_who_may_not_create_topics_is_told_so(alice: Way, tmp_path: Path) -> None:
    status, out, err = ran("perf", "metadata", *FEW, *alice.options, state=tmp_path)
    assert (status, out) == (4, "")
    error = err[err.index("kipctl: ") :]
    assert "User:alice has no right to Create on Topic kipctl-metadata-" in error
    assert "--operation Create --topic kipctl-metadata --resource-pattern-type prefixed" in error
    assert "Delete" not in error


def test_who_may_create_topics_and_not_write_to_them_is_told_so_first(
    alice: Way, no_topics_stay: None, tmp_path: Path
) -> None:
    with granted(alice.lab, "alice", MANY, AclOperation.CREATE, AclOperation.DESCRIBE):
        status, _, err = ran("perf", "metadata", *FEW, *alice.options, state=tmp_path)
    assert status == 4
    first, last = err.index("no right to Write on Topic"), err.index("no right to Delete on Topic")
    assert first < last
    assert "--operation Write --topic kipctl-metadata --resource-pattern-type prefixed" in err


@pytest.mark.parametrize("who", ["alice", "reader"])
def test_a_broker_that_hides_something_says_whose_right_is_missing(
    secured_lab: Lab, who: str, tmp_path: Path
) -> None:
    way = Way(secured_lab, secured_lab.client_files[f"{who}-plain"])
    of_broker = f"User:{who} has no right to "
    status, out, err = ran("request-log", "off", *way.options, state=tmp_path)
    if who == "alice":
        assert status == 4
        assert f"{of_broker}DescribeConfigs on the Cluster" in err
        assert "Grant it: kafka-acls --bootstrap-server " in err
    status, out, err = ran("inspect", "brokers", *JSON, *way.options, state=tmp_path)
    findings = json.loads(out)["findings"]
    told = [finding for finding in findings if "not report settings" in finding["what"]]
    assert [
        of_broker in finding["what"] and "kafka-acls" in finding["change"] for finding in told
    ] == ([True] if who == "alice" else [])


@pytest.mark.parametrize(
    "command",
    [
        ("elect", "preferred", "--all", "--dry-run"),
        ("elect", "unclean", "--all", "--dry-run"),
        ("inspect", "brokers"),
        ("inspect", "leaders"),
        ("inspect", "metadata"),
        ("wait", "--until", "in-sync"),  # earlier tests may have left leaders elsewhere
    ],
    ids=" ".join,
)
def test_what_looks_at_all_topics_says_that_some_may_be_hidden(
    alice: Way, reader: Way, tmp_path: Path, command: tuple[str, ...]
) -> None:
    with topic_of(alice.lab, "shown", 1):
        _, _, err = ran(*command, *alice.options, state=tmp_path)
        assert "none that User:alice may Describe." in err
        _, _, err = ran(*command, *reader.options, state=tmp_path)
        assert "Topics that User:reader may not Describe are not among these." in err


def test_clusters_test_judges_rights_on_kipctls_own_topics(alice: Way, tmp_path: Path) -> None:
    test = ("clusters", "test", *JSON, *alice.options)
    with granted(
        alice.lab, "alice", MANY, *(AclOperation[name] for name in ("CREATE", "WRITE", "DELETE"))
    ):
        status, out, err = ran(*test, state=tmp_path)
    assert status == 0, err
    missing = {right["command"]: right["not_granted"] for right in json.loads(out)["rights"]}
    of_moves = ["Describe on Cluster", "Alter on Cluster"]
    assert missing["perf metadata"] == of_moves
    assert missing["inspect metadata --measure-convergence"] == of_moves
    assert "Write on Topic kipctl-perf-*" in missing["perf without --topic"]
    assert missing["tap"] == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("elect preferred --all --yes", "none that User:alice may Describe"),
        ("elect unclean --all --yes", "none that User:alice may Describe"),
        ("reassign --drain 9 --dry-run", "User:alice may not be shown all topics"),
        (
            "perf produce --during rotate --num-records 1000000 --throughput 10",
            "no right to Describe and Alter on the Cluster",
        ),
    ],
)
def test_who_sees_or_may_do_too_little_is_refused_before_anything_begins(
    alice: Way, tmp_path: Path, command: str, told: str
) -> None:
    status, out, err = ran(*command.split(), *alice.options, state=tmp_path)
    assert (status in (2, 4), out) == (True, "")
    assert told in err
    assert "Grant it: kafka-acls --bootstrap-server " in err


class Granted:
    """Rights of alice on the cluster and on one topic, given and taken."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self.topic = topic
        self.admin = AdminClient({**lab.access.librdkafka(), "log_level": 0})

    def give(self, right: Right) -> None:
        for made in self.admin.create_acls([AclBinding(*self._acl(right))]).values():
            made.result()

    def take(self, right: Right) -> None:
        for gone in self.admin.delete_acls([AclBindingFilter(*self._acl(right))]).values():
            gone.result()

    def _acl(self, right: Right) -> tuple[object, ...]:
        of_cluster = right.resource == CLUSTER
        return (
            ResourceType.BROKER if of_cluster else ResourceType.TOPIC,
            "kafka-cluster" if of_cluster else self.topic,
            *(ResourcePatternType.LITERAL, "User:alice", "*"),
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right.operation).upper()],
            AclPermissionType.ALLOW,
        )


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("throttle set 5MB/s --yes", "throttle"),
        ("wait --until in-sync,no-reassignment --timeout 5s", "wait"),
    ],
)
def test_throttles_and_waits_need_what_clusters_test_says(
    alice: Way, tmp_path: Path, command: str, needed: str
) -> None:
    """Each right in turn is taken, and then nothing of it is done."""
    with topic_of(alice.lab, "limited", 1) as topic:
        words = (*command.split(), "--topic", topic, *alice.options)

        def status() -> int:
            return ran(*words, state=tmp_path)[0]

        granted, rights = Granted(alice.lab, topic), NEEDED[needed]
        try:
            assert status() == 4
            for right in rights:
                granted.give(right)
            assert wait_until(lambda: status() == 0, 60)
            # AlterConfigs lets its owner see configs, too.
            for right in (right for right in rights if right.operation != "DescribeConfigs"):
                granted.take(right)
                assert wait_until(lambda: status() != 0, 60), right
                granted.give(right)
            assert wait_until(lambda: status() == 0, 60)
            if needed == "throttle":
                clear = ("throttle", "clear", "--yes", *alice.options)
                assert wait_until(lambda: ran(*clear, state=tmp_path)[0] == 0, 60)
        finally:
            for right in rights:
                granted.take(right)
            assert wait_until(lambda: status() == 4, 60)  # others begin where she has no right
