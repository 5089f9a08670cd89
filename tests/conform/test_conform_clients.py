"""Real programs on loopback: kipctl's own, librdkafka, and a command that is no client."""

import inspect
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from in_process import kipctl

from kipctl.conform.catalogue import REQUIREMENTS
from kipctl.conform.rules import BY_ID
from kipctl.conform.run import Client, play, run_rule
from kipctl.conform.trace import API_OF
from kipctl.conform.verdict import Role, Status
from kipctl.load import presets
from kipctl.load.presets import PRESETS, build
from kipctl.protocol.api import ApiKey

_AS = Role.CONSUMER
_SUBSCRIBED = """
import sys
from confluent_kafka import Consumer
server, topic, group = sys.argv[1:]
consumer = Consumer(
    {"bootstrap.servers": server, "group.id": group, "auto.offset.reset": "earliest"}
)
consumer.subscribe([topic])
while True:
    consumer.poll(1)
"""
_QUIET = ("--quiet-metadata", "0.3")


@pytest.mark.parametrize("role", API_OF)
@pytest.mark.parametrize("preset", ["kipctl", "librdkafka", "kafka-python"])
def test_clients_start_and_are_refused(preset: str, role: Role) -> None:
    """951-2 has no limit of time: librdkafka and kipctl do it, kafka-python knows no hints."""
    client = Client(PRESETS[preset].words(role), role, quiet_s=0.3)
    played = play(BY_ID["951-2"], client)
    if preset == "kafka-python":  # what does not apply is over before it is refused
        assert played.judgement.status is Status.NOT_APPLICABLE, played
    else:
        assert played.judgement.status is Status.PASS, played
        assert played.trace.start_us is not None


@pytest.mark.parametrize("preset", ["kipctl", "librdkafka"])
def test_producers_send_to_the_topics_that_they_are_told(preset: str) -> None:
    client = Client(PRESETS[preset].words(Role.PRODUCER), Role.PRODUCER, quiet_s=0.3)
    played = play(BY_ID["526-1"], client)
    assert played.judgement.status is Status.PASS, played


def test_a_consumer_of_a_group_joins_and_reads() -> None:
    client = Client((sys.executable, "-c", _SUBSCRIBED, "{bootstrap}", "{topic}", "{group}"), _AS)
    played = play(BY_ID["951-2"], replace(client, quiet_s=0.3))
    assert played.judgement.status is Status.PASS, played
    asked = {exchange.api for exchange in played.trace.exchanges}
    assert asked >= {ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
    assert not [exchange.unknown for exchange in played.trace.exchanges if exchange.unknown]


def test_a_client_is_held_against_a_rule_and_its_fault_is_status_7(tmp_path: Path) -> None:
    """kafka-python goes on with its connections when it is told to rebootstrap."""
    report, known = tmp_path / "report.xml", tmp_path / "known"
    words = ("conform", "run", "--preset", "kafka-python", "--rules", "1102-1", "--repeats", "1")
    said = kipctl(*words, *_QUIET, "-o", "json", "--junit", str(report))
    assert said.status == 7, said
    (rule,) = json.loads(said.out)["rules"]
    assert (rule["status"], rule["is_expected"]) == ("FAIL", False)
    assert "NOT_LEADER_OR_FOLLOWER" in rule["evidence"][0]
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite.find("testcase/failure") is not None
    known.write_text("1102-1\n")
    said = kipctl(*words, *_QUIET, "--expect", str(known))
    assert said.status == 0, said
    assert "1102-1  FAIL" in said.out


def test_a_command_that_does_nothing_is_not_reached() -> None:
    words = ("conform", "run", "--rules", "951-1", "--repeats", "1", *_QUIET)
    said = kipctl(*words, "--", sys.executable, "-c", "print('{topic} of', '{role}')")
    assert said.status == 4, said
    assert "No rule could be judged." in said.err
    assert "NOT REACHED" in said.out
    assert "It ended by itself, with status 0. conform-951-1 of producer" in said.out


def test_each_program_belongs_to_a_preset() -> None:
    text = Path(str(presets.__file__)).read_text() + inspect.getsource(build)
    programs = [*(build.PROGRAMS / "java").glob("*.java")]
    programs += (build.PROGRAMS / "python").glob("with_*.py")
    programs += [path.parent for path in (build.PROGRAMS / "go").glob("*/main.go")]
    programs += [
        path.with_suffix("")
        for path in (build.PROGRAMS / "node").glob("*.mjs")
        if path.stem != "driver"
    ]
    assert len(programs) >= 9
    assert [path.name for path in programs if f'"{path.name}"' not in text] == []


def test_versions_are_those_that_are_built() -> None:
    pins = "".join(
        path.read_text()
        for pattern in ("*.mod", "*.package.json")
        for path in build.PROGRAMS.rglob(pattern)
    )
    built = [preset for preset in PRESETS.values() if {"go", "npm"} & {*preset.tools}]
    assert len(built) >= 8
    assert [
        preset.name
        for preset in built
        if not re.search(rf'[v"]{re.escape(preset.version)}\b', pins)
    ] == []


def test_what_a_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    said = kipctl("conform", "run", "--preset", "franz-go-1.22.3")
    assert said.status == 2, said
    assert "The preset franz-go-1.22.3 cannot be had here: There is no go on this" in said.err
    listed = json.loads(kipctl("conform", "list", "-o", "json").out)["presets"]
    assert {preset["name"]: preset["available"] for preset in listed}["franz-go-1.22.3"] is False


def test_lists_and_pages() -> None:
    listed = json.loads(kipctl("conform", "list", "-o", "json").out)
    assert [rule["rule"] for rule in listed["rules"]] == [required.id for required in REQUIREMENTS]
    assert {preset["name"] for preset in listed["presets"]} == PRESETS.keys()
    said = kipctl("conform", "explain", "951-3").out
    assert BY_ID["951-3"].why in said


def test_the_cluster_of_a_rule_is_served_to_those_that_it_is_about() -> None:
    said = kipctl("conform", "serve", "951-21", "--as", "consumer")
    assert said.status == 2, said
    assert "None of these rules is about a consumer." in said.err


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("break", Status.NOT_REACHED, "It ended by itself, with status 0."),
        ("__import__('os').kill(__import__('os').getpid(), 9)", Status.FAIL, "by signal 9."),
    ],
    ids=["by itself", "by a signal"],
)
def test_who_ends_in_mid_rule_does_not_pass(end: str, status: Status, said: str) -> None:
    """It would pass 951-2: who is gone asks no wrong broker."""
    ends = _SUBSCRIBED.replace(
        "while True:\n    consumer.poll(1)",
        """
from time import monotonic
until = monotonic() + 60
began = None
while monotonic() < until:
    message = consumer.poll(1)
    if message and began is None:
        began = monotonic()
    if began and monotonic() > began + 1.5:
        END
""",
    ).replace("END", end)
    client = Client((sys.executable, "-c", ends, "{bootstrap}", "{topic}", "{group}"), _AS)
    played = play(BY_ID["951-2"], replace(client, quiet_s=0.3))
    assert played.judgement.status is status, played
    assert said in played.judgement.seen


def test_a_client_that_does_not_start_is_tried_with_one_rule_and_what_it_lacks_is_said() -> None:
    asks = (
        "import socket, struct, sys, time\n"
        "host, _, port = sys.argv[1].rpartition(':')\n"
        "for api, version in (68, 1), (0, 2):\n"  # ConsumerGroupHeartbeat; Produce
        "    there = socket.create_connection((host, int(port)))\n"
        "    there.sendall(struct.pack('>ihhih', 10, api, version, 7, -1))\n"
        "time.sleep(60)\n"
    )
    command = (sys.executable, "-c", asks, "{bootstrap}")
    said = kipctl("conform", "run", "--start-timeout", "1s", "--repeats", "1", "--", *command)
    assert said.status == 4, said
    assert said.out.count("NOT REACHED") == 1
    assert "did not send or read enough within 1 s" in said.out
    assert "API 68, version 1, Produce version 2 (served: 3 to " in " ".join(said.out.split())


def test_who_is_not_told_its_rack_is_not_held_against_it() -> None:
    client = Client((sys.executable, "-c", _SUBSCRIBED, "{bootstrap}", "{topic}", "{group}"), _AS)
    verdict = run_rule(BY_ID["392-1"], client, 1.0, lambda text: None)
    assert (verdict.status, verdict.seen) == (
        Status.NOT_REACHED,
        "It is not told its rack ({rack}).",
    )
