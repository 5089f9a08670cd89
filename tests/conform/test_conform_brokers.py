"""`kipctl conform broker` on scripted brokers: right ones, and each of its rules broken alone."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from in_process import Said, kipctl

from kipctl.cluster.inspect.replica_selection import Choice, PartitionFacts, Reason
from kipctl.cluster.snapshot import PartitionId
from kipctl.conform.broker.claims import BROKER_CLAIMS, Selection
from kipctl.conform.broker.facts import Facts
from kipctl.conform.cluster import Attempt, Cluster, Handout, Leader, Loopback, Node
from kipctl.conform.cluster.control import Scripted
from kipctl.conform.verdict import Status
from kipctl.protocol.api import ApiKey
from kipctl.protocol.records import one_record_batch

ALL = {claim.id for claim in BROKER_CLAIMS}
UNKNOWN = "broker-replica-selection"
"""Scripted brokers do not tell their replica.selector.class."""


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    """Three brokers that hold all, each in a rack of its own; followers are read from."""
    loopback = Loopback(Cluster({"t": 3}))
    with loopback as cluster:
        for place in cluster.leaders:
            cluster.log(place).write(b"x", 0)
            cluster.followers |= {(place, broker) for broker in cluster.brokers}
        yield loopback
    assert not loopback.malformed


def held(loopback: Loopback, *options: str) -> Said:
    server = loopback.cluster.bootstrap_server
    words = ("conform", "broker", "--bootstrap-server", server, "-o", "json")
    return kipctl(*words, *options)


def verdicts(said: Said) -> dict[str, str]:
    return {rule["rule"]: rule["status"] for rule in json.loads(said.out)["rules"]}


def test_right_brokers_pass(loopback: Loopback) -> None:
    before = {place: loopback.cluster.log(place).end for place in loopback.cluster.leaders}
    said = held(loopback)
    assert said.status == 0, said
    assert verdicts(said) == dict.fromkeys(ALL, "PASS") | {UNKNOWN: "NOT REACHED"}
    assert before == {place: loopback.cluster.log(place).end for place in before}


def names_nobody(cluster: Cluster) -> None:
    cluster.names_leaders = False


def another_epoch(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        for place, leader in cluster.leaders.items():
            broker.shown[place] = Leader(leader.id, leader.epoch + 1)


def another_endpoint(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        for id in cluster.brokers:
            broker.endpoints[id] = Node(id, "127.0.0.1", 1)


def drafts(cluster: Cluster) -> None:
    cluster.has_draft_hints = True


def no_follower_reads(cluster: Cluster) -> None:
    cluster.followers = set()
    cluster.names_followers = False


def scripted(wanted: Callable[[Attempt], bool], told: Scripted) -> Callable[[Cluster], None]:
    def put(cluster: Cluster) -> None:
        cluster.script = lambda attempt: (
            told if attempt.api == ApiKey.FETCH and wanted(attempt) else None
        )

    return put


def rack(attempt: Attempt) -> str:
    return str(attempt.call.request.rack_id)


RECORDS = one_record_batch(b"x")


@pytest.mark.parametrize(
    ("put", "rules"),
    [
        (names_nobody, {"broker-produce-hint", "broker-fetch-hint"}),
        (another_epoch, {"broker-produce-hint", "broker-fetch-hint"}),
        (another_endpoint, {"broker-produce-endpoint", "broker-fetch-endpoint"}),
        (drafts, {"broker-draft"}),
        (no_follower_reads, {"broker-follower-read"}),
        (scripted(lambda a: a.version == 10, Handout()), {"broker-old-reader"}),
        (
            scripted(lambda a: bool(rack(a)), Handout(RECORDS, preferred=2)),
            {"broker-preferred-empty"},
        ),
        (
            scripted(lambda a: a.version == 12 and not rack(a), Handout(preferred=2)),
            {"broker-no-rack"},
        ),
    ],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, set) else "fault",
)
def test_a_fault_fails_its_own_rule_and_no_other(
    loopback: Loopback, put: Callable[[Cluster], None], rules: set[str]
) -> None:
    loopback.do(lambda: put(loopback.cluster))
    said = held(loopback)
    assert said.status == 7, said
    statuses = verdicts(said)
    assert {rule for rule, status in statuses.items() if status == "FAIL"} == rules


def test_what_is_known_to_fail_is_no_status_7(loopback: Loopback, tmp_path: Path) -> None:
    loopback.do(lambda: drafts(loopback.cluster))
    known, report = tmp_path / "known", tmp_path / "report.xml"
    known.write_text("broker-draft\nbroker-no-rack\n")
    said = held(loopback, "--expect", str(known), "--junit", str(report), "--rules", "broker")
    assert said.status == 0, said
    assert "broker-no-rack is expected to fail, and does not" in said.err
    assert 'classname="conform.cluster" name="broker-draft"' in report.read_text()


def test_without_a_partition_nothing_is_judged() -> None:
    with Loopback(Cluster({})) as cluster:
        said = kipctl("conform", "broker", "--bootstrap-server", cluster.bootstrap_server)
    assert said.status == 4, said
    assert "No rule could be judged." in said.err


ID = PartitionId("t", 0)


def choice(reads_from: int | None, expected: tuple[int, ...], reason: Reason) -> Choice:
    return Choice(ID, "b", 1, "a", reads_from, "b", False, reason, "", expected)


@pytest.mark.parametrize(
    ("choices", "selector", "status"),
    [
        ([choice(2, (2,), Reason.FOLLOWER_IN_RACK)], "x", Status.PASS),
        ([choice(1, (1,), Reason.NO_SELECTOR)], "", Status.NOT_APPLICABLE),
        ([choice(3, (1,), Reason.UNFORESEEN)], "", Status.FAIL),
        ([choice(3, (2,), Reason.UNFORESEEN)], "x", Status.FAIL),
        ([choice(3, (), Reason.OTHER_SELECTOR)], "other", Status.NOT_REACHED),
        ([], "x", Status.NOT_REACHED),
    ],
)
def test_replicas_that_readers_are_sent_to(
    choices: list[Choice], selector: str, status: Status
) -> None:
    facts = Facts(choices=tuple(choices), partitions=(PartitionFacts(ID, 1, selector, 0, ()),))
    assert Selection().judge(facts).judgement.status is status


def test_without_racks_nobody_is_sent_anywhere() -> None:
    judged = Selection().judge(Facts(no_racks="No broker of the cluster has a rack.")).judgement
    assert (judged.status, judged.seen) == (
        Status.NOT_APPLICABLE,
        "No broker of the cluster has a rack.",
    )


def test_the_page_has_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    assert not [c.id for c in BROKER_CLAIMS if f"| {c.id} | {c.title} |" not in page]
