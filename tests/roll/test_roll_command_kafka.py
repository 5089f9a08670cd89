"""`kipctl roll` on real brokers: commands that lie, guards, and what refuses it."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_lab import leaders_of, topics_on
from roll_faults import started, starts
from rolled_lab import TOPIC, kipctl, rolled, rolled_topic

from kipctl.changes.journal.journal import journal
from kipctl.cluster.snapshot import take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.roll.record import unfinished_roll
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with rolled_topic(lab) as cluster:
        yield cluster


def test_a_command_that_does_nothing_is_not_believed_and_another_goes_on(
    lab: Lab, cluster: Cluster
) -> None:
    before = starts(lab)
    command = "echo restarting {broker} of {rack}"
    status, report, said = rolled(lab, "--exec", command, "--broker", "3", "--timeout", "10")
    assert status == 6, said
    assert "  restarting 3 of rack-3" in said
    assert "producer ids of the same block as before" in said
    assert "Stopped at broker 3 (restarting)" in said
    assert report["state"] == "stopped"
    assert 3 not in leaders_of(cluster, TOPIC)

    status, report, said = rolled(lab, "--exec", "false", "--broker", "3")
    assert status == 4, said  # the other one has not ended
    assert "kipctl roll --resume" in said
    status, report, said = rolled(lab, "--resume", "--lab")
    assert status == 0, said
    assert started(lab, before) == Counter({3: 1})
    assert leaders_of(cluster, TOPIC).count(3) == 2
    assert rolled(lab, "--resume")[0] == 4


def test_a_command_that_fails_stops_it(lab: Lab, cluster: Cluster) -> None:
    command = "sh -c 'echo no such unit >&2; exit 5'"
    status, report, said = rolled(lab, "--exec", command, "--broker", "1")
    assert status == 5, said
    assert "no such unit" in said
    assert "its status is 5" in said
    assert report["steps"][0]["phase"] == "restarting"
    abandoned = kipctl(lab, "roll", "--abandon")
    assert abandoned.status == 0, abandoned
    said = abandoned.out + abandoned.err
    assert "The roll is abandoned." in said
    [undo] = re.findall(r"kipctl (undo \S+)", said)
    assert kipctl(lab, *undo.split(), "--yes").status == 0
    assert leaders_of(cluster, TOPIC).count(1) == 2


def test_a_program_can_roll_as_its_page_says(
    lab: Lab, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    before = starts(lab)
    _, program = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = program.replace("localhost:9092", lab.bootstrap_server)
    restarts = ("kipctl", "lab", "restart", "{broker}", "--name", lab.name)
    program = re.sub(r'\("ssh".*?\)', repr((sys.executable, "-m", *restarts)), program)
    exec(compile(program, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "1 of 1 broker is restarted\n"
    assert started(lab, before) == Counter({1: 1})
    assert leaders_of(cluster, TOPIC).count(1) == 2


def test_a_guard_that_is_crossed_stops_it_before_anything_is_done(
    lab: Lab, cluster: Cluster
) -> None:
    before = starts(lab)
    guard = ("--guard", "urp >= 0", "--guard-patience", "1s", "--guard-action", "rollback")
    status, report, said = rolled(lab, "--lab", *guard)
    assert status == 5, said
    assert "Given up after 1 s" in said
    assert report["guard"]["is_given_up"]
    assert not started(lab, before)
    assert leaders_of(cluster, TOPIC).count(1) == 2
    assert rolled(lab, "--abandon")[0] == 0


def test_a_canary_feels_the_roll(lab: Lab, cluster: Cluster) -> None:
    guards = ("--guard", "p99 > 60s", "--guard", "moved-wait p50 > 60s")
    status, report, said = rolled(lab, "--lab", "--broker", "1", *guards)
    assert status == 0, said
    latency, waited = report["guard"]["conditions"]
    assert min(latency["looks"], waited["looks"]) > 3
    assert 0 < latency["worst"] < 60
    assert latency["looks_without_value"] < latency["looks"]  # there is none while all stands still
    assert latency["crossed"] == waited["crossed"] == 0
    # Its own topic's leaders move along: two of that, two of the other.
    assert report["steps"][0]["leaders_moved_off"] >= 4
    waits = report["steps"][0]["waits"]
    # A canary that hears of a move before it sends is not refused: then it has not waited.
    if waits["move_count"]:
        assert 0 < waits["wait_ms"]["p50"] <= waits["wait_ms"]["max"]
    else:
        assert waits["wait_ms"] is None
    # Brokers hear of its topic's removal a little later.
    assert wait_until(lambda: not any_own_topic(cluster), 300)


def test_what_is_to_spare_is_said_before_and_who_is_missed_meanwhile(
    lab: Lab, cluster: Cluster
) -> None:
    status, report, said = rolled(lab, "--dry-run", "--spare", "1", "--broker", "1")
    (step,) = report["nodes"]
    assert step["less_than_spare"] == 6
    assert step["such_as"]["at_minimum"]
    before = starts(lab)
    status, report, said = rolled(lab, "--lab", "--spare", "1")
    assert status == 4, said
    assert "leaves less to spare than was asked for" in said
    assert not started(lab, before)

    # Broker 3 is lost while broker 1 restarts.
    command = f"{sys.executable} -m kipctl lab {{}} --name {lab.name}"
    both = f"sh -c '{command.format('stop 3')} && {command.format('restart 1')}'"
    guard = ("--guard", "at-min-isr > 0")
    status, report, said = rolled(lab, "--exec", both, "--broker", "1", "--timeout", "20", *guard)
    assert status == 6, said
    assert "they lack broker 3 (down: start it)" in " ".join(said.split())
    assert started(lab, before) == Counter({1: 1})
    lab.start(3)
    status, report, said = rolled(lab, "--resume")
    assert status == 0, said
    assert leaders_of(cluster, TOPIC).count(1) == 2


def any_own_topic(cluster: Cluster) -> bool:
    return any(name.startswith("kipctl-") for name in take_snapshot(cluster).topics)


def test_a_topic_of_one_replica_refuses_the_roll(lab: Lab) -> None:
    with topics_on(lab) as make:
        make("alone", [[2]])
        status, report, said = rolled(lab, "--lab")
        assert status == 4, said
        assert "broker 2: alone-0 without any replica" in said
        status, report, said = rolled(lab, "--dry-run")
        assert status == 0, said
        assert [step["no_other_replica"] for step in report["nodes"]] == [0, 1, 0]
        assert unfinished_roll(journal(lab.cluster_id)) is None
