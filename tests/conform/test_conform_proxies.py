"""Proxies on loopback: kipctl's own tap, and a small relay whose faults are found one by one."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from in_process import Said, kipctl

from kipctl.conform.proxy.claims import CLAIMS
from kipctl.conform.proxy.passage import differences, is_content, is_hint, is_tag
from kipctl.protocol.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint

RELAY = (sys.executable, str(Path(__file__).with_name("relay.py")), "{upstream}", "{listen}")
TAP = (sys.executable, "-m", "kipctl", "tap", "--bootstrap-server={upstream}", "--listen={listen}")
NODE_ENDPOINTS = {"proxy-produce-endpoints", "proxy-fetch-endpoints"}


def held(*command: str, options: tuple[str, ...] = ()) -> Said:
    words = ("conform", "run", "--as", "proxy", "--repeats", "1", "-o", "json", *options)
    return kipctl(*words, "--", *command)


def failed(said: Said) -> set[str]:
    return {rule["rule"] for rule in json.loads(said.out)["rules"] if rule["status"] == "FAIL"}


@pytest.mark.parametrize("command", [TAP, RELAY], ids=["kipctl tap", "relay"])
def test_a_right_proxy_passes_all(command: tuple[str, ...]) -> None:
    said = held(*command)
    assert said.status == 0, said
    verdicts = {rule["rule"]: rule["status"] for rule in json.loads(said.out)["rules"]}
    assert verdicts == dict.fromkeys([claim.id for claim in CLAIMS], "PASS")


def test_a_proxy_from_before_kip_951_fails_on_node_endpoints_and_on_nothing_else(
    tmp_path: Path,
) -> None:
    """It knows where the endpoints of old are: in Metadata, FindCoordinator, DescribeCluster."""
    report = tmp_path / "report.xml"
    said = held(*RELAY, "PRODUCE", "FETCH", options=("--junit", str(report)))
    assert said.status == 7, said
    assert failed(said) == NODE_ENDPOINTS
    (evidence,) = {
        line
        for rule in json.loads(said.out)["rules"]
        for line in rule["evidence"]
        if line.startswith("Produce v13: broker 4 ")
    }
    assert evidence.endswith("the cluster's own address, past the proxy")
    suite = ElementTree.parse(report).getroot()
    assert suite.get("failures") == "2"


@pytest.mark.parametrize(
    ("faults", "rules"),
    [
        ("METADATA", {"proxy-metadata", "proxy-moved-broker"}),
        ("FIND_COORDINATOR", {"proxy-find-coordinator"}),
        ("DESCRIBE_CLUSTER", {"proxy-describe-cluster"}),
        # Metadata is all that it rewrites.
        (
            "FIND_COORDINATOR DESCRIBE_CLUSTER PRODUCE FETCH",
            {"proxy-find-coordinator", "proxy-describe-cluster", *NODE_ENDPOINTS},
        ),
        ("epochs", {"proxy-hints"}),
        ("rack", {"proxy-answers"}),
        ("client-id", {"proxy-requests"}),
        ("tags", {"proxy-tags"}),
        ("versions", {"proxy-versions"}),
        ("unknown", {"proxy-unknown"}),
        ("new-api-versions", {"proxy-api-versions"}),
        ("order", {"proxy-order"}),
        ("acks-0", {"proxy-acks-0"}),
        ("static", {"proxy-moved-broker"}),
    ],
)
def test_a_fault_fails_its_own_rule_and_no_other(faults: str, rules: set[str]) -> None:
    said = held(*RELAY, *faults.split())
    assert said.status == 7, said
    assert failed(said) == rules


def test_hints_that_are_taken_out_are_slow_and_versions_without_them_not_applicable() -> None:
    for command in ((*RELAY, "no-hints"), (*TAP, "--drop-hints")):
        said = held(*command, options=("--rules", "proxy-hints,proxy-produce-endpoints"))
        assert said.status == 0, said
        assert {rule["status"] for rule in json.loads(said.out)["rules"]} == {"SLOW"}
    said = held(*TAP, "--cap=Produce=9,Fetch=15", options=("--rules", "proxy"))
    assert said.status == 0, said
    verdicts = {rule["rule"]: rule for rule in json.loads(said.out)["rules"]}
    skipped = {id for id, rule in verdicts.items() if rule["status"] == "N/A"}
    assert skipped == {"proxy-hints", *NODE_ENDPOINTS}
    seen = verdicts["proxy-produce-endpoints"]["seen"]
    assert seen == "It offers Produce 9; this comes from 10 on."


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("raise SystemExit('no such broker')", "It ended by itself, with status 1. no such broker"),
        ("import time; time.sleep(60)", "Nothing came through it at 127.0.0.1:"),
    ],
)
def test_a_proxy_that_does_not_listen_cannot_be_judged(command: str, what: str) -> None:
    said = held(sys.executable, "-c", command, options=("--start-timeout", "1"))
    assert said.status == 4, said
    assert what in said.err


def test_a_preset_is_no_proxy_and_no_rule_of_proxies_is_served() -> None:
    said = kipctl("conform", "run", "--as", "proxy", "--preset", "kipctl")
    assert said.status == 2, said
    assert "The preset kipctl is no proxy." in said.err
    said = kipctl("conform", "serve", "951-1", "--as", "proxy")
    assert said.status == 2, said
    assert "None of these rules is about a proxy." in said.err
    said = kipctl("conform", "explain", "proxy-tags")
    assert "It is asked of a proxy." in said.out


def test_the_page_has_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    assert not [c.id for c in CLAIMS if f"| {c.id} | {c.title} |" not in page]


def test_what_differs_is_said_by_its_place() -> None:
    def answer(epoch: int, port: int, tags: tuple[tuple[int, bytes], ...]) -> FetchResponse:
        part = PartitionData(0, 6, current_leader=LeaderIdAndEpoch(2, epoch), unknown_tags=tags)
        topics = (FetchableTopicResponse("t", partitions=(part,)),)
        return FetchResponse(responses=topics, node_endpoints=(NodeEndpoint(2, "h", port),))

    sent, came = answer(5, 1, ((9, b"x"),)), answer(6, 2, ())
    at = "responses[0].partitions[0]"
    assert [*differences(sent, came, is_hint)] == [
        f"{at}.current_leader.leader_epoch is 6, sent was 5"
    ]
    assert [*differences(sent, came, is_tag)] == [f"{at}.unknown_tags is (), sent was ((9, b'x'),)"]
    assert not [*differences(sent, came, is_content)]
    shorter = FetchResponse()
    assert [*differences(sent, shorter, is_content)] == ["responses is (), sent was 1 entry"]
