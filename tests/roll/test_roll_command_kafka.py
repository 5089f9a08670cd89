"""`kipctl roll` on real brokers: under load, killed in the middle, and with commands that lie."""

import io
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from acknowledged import Reader, check, load
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import in_sync, leaders_of, replicas_of, wait_until_everywhere, wait_until_nowhere
from rolled_lab import rolled

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.moves.journal import journal
from kipctl.cluster.moves.journal_entry import EntryState
from kipctl.cluster.snapshot import take_snapshot
from kipctl.lab.cluster import Lab
from kipctl.roll.next_step import Phase
from kipctl.roll.record import RollRecord, Rolls, RollState, rolls
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

PARTITIONS = 6
STARTED = "Kafka Server started"


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server, timeout_s=10.0) as cluster:
        yield cluster


@pytest.fixture
def topic(lab: Lab, cluster: Cluster) -> Iterator[str]:
    """Two partitions are led by each broker."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = [[n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(PARTITIONS)]
    config = {"min.insync.replicas": "2"}
    new = NewTopic("rolled", PARTITIONS, replica_assignment=replicas, config=config)
    admin.create_topics([new])["rolled"].result()
    wait_until_everywhere(cluster, "rolled", lambda seen: in_sync(seen) and led_by_first(seen))
    # The lab's other topics, as tests before may have left them.
    at_rest = Environment(variables=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server})
    assert run(["wait", "--until", "in-sync,converged"], at_rest) == 0
    assert run(["elect", "preferred", "--all", "--until", "balanced", "--yes"], at_rest) == 0
    yield "rolled"
    admin.delete_topics(["rolled"])["rolled"].result()
    wait_until_nowhere(cluster, ["rolled"])


def led_by_first(seen: Any) -> bool:
    return len(seen.partitions) == PARTITIONS and not seen.not_led_by_preferred


def kept(lab: Lab) -> Rolls:
    return rolls(lab.cluster_id)


def last(lab: Lab) -> RollRecord:
    record = kept(lab).last()
    assert record is not None
    return record


def starts(lab: Lab) -> Counter[int]:
    """How often each broker has started."""
    return Counter(
        {
            node.id: node.log_path.read_text(errors="replace").count(STARTED)
            for node in lab.nodes
            if node.id < 100
        }
    )


def test_a_roll_under_load_loses_nothing(lab: Lab, cluster: Cluster, topic: str) -> None:
    before, order = starts(lab), replicas_of(cluster, topic)
    with load(lab.bootstrap_server, topic, PARTITIONS) as settled:
        status, report, said = rolled(lab, "--lab", "--guard", "under-min-isr > 0")
    assert status == 0, said
    assert report["state"] == "done"
    assert [step["broker"] for step in report["steps"]] == [1, 2, 3]
    for step in report["steps"]:
        assert step["phase"] == "done"
        assert step["leaders_moved_off"] == step["leaders_brought_back"] >= 2
        assert "producer ids of another block" in step["seen_by"]
        assert 0 < step["restarted_seconds"] <= step["in_sync_seconds"]
    assert report["guard"]["conditions"][0]["looks"] > 3
    assert starts(lab) - before == Counter({1: 1, 2: 1, 3: 1})
    # Replicas have their order again, and lead as before; the journal says that it is undone.
    assert replicas_of(cluster, topic) == order
    assert leaders_of(cluster, topic) == [ids[0] for ids in order]
    states = {e.state for e in journal(lab.cluster_id).entries() if not e.undoes}
    assert EntryState.SUBMITTED not in states
    # Every acknowledged record is there, once.
    assert settled.acknowledged
    assert not settled.failed
    assert not check(settled, Reader(lab.bootstrap_server, topic, PARTITIONS))


@pytest.mark.parametrize(
    "phase", [Phase.LEADERS_OFF, Phase.RESTARTING, Phase.RESTARTED, Phase.LEADERS_BACK]
)
def test_killed_in_the_middle_it_is_resumed(
    lab: Lab, cluster: Cluster, topic: str, phase: Phase
) -> None:
    before, order = starts(lab), replicas_of(cluster, topic)
    earlier = kept(lab).last()
    words = ["roll", "--lab", "--broker", "2", "--bootstrap-server", lab.bootstrap_server]
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as killed:
        while not has_come(lab, earlier, phase):
            if killed.poll() is not None:
                assert has_come(lab, earlier, phase), killed.stdout and killed.stdout.read()
        killed.send_signal(signal.SIGKILL)
    if phase is Phase.LEADERS_BACK and last(lab).state is RollState.DONE:
        return  # it was faster than this test
    assert last(lab).state is RollState.UNDER_WAY
    status, _, said = rolled(lab, "--lab", "--broker", "1")
    assert status == 4, said
    assert "kipctl roll --resume" in said

    status, report, said = rolled(lab, "--resume")
    assert status == 0, said
    assert report["state"] == "done"
    assert starts(lab) - before == Counter({2: 1}), said
    assert replicas_of(cluster, topic) == order
    assert leaders_of(cluster, topic) == [ids[0] for ids in order]
    assert rolled(lab, "--resume")[0] == 4


def has_come(lab: Lab, earlier: RollRecord | None, phase: Phase) -> bool:
    """Whether a roll that is not the earlier one has come to this phase."""
    record = kept(lab).last()
    if record is None or (earlier and record.id == earlier.id):
        return False
    return str(phase) in record.steps[0].at


def test_a_command_that_does_nothing_is_not_believed_and_another_goes_on(
    lab: Lab, cluster: Cluster, topic: str
) -> None:
    before = starts(lab)
    status, report, said = rolled(
        lab, "--exec", "echo restarting {broker} of {rack}", "--broker", "3", "--timeout", "10"
    )
    assert status == 6, said
    assert "  restarting 3 of rack-3" in said
    assert "producer ids of the same block as before" in said
    assert "Stopped at broker 3 (restarting)" in said
    assert report["state"] == "stopped"
    assert 3 not in leaders_of(cluster, topic)

    status, report, said = rolled(lab, "--exec", "false", "--broker", "3")
    assert status == 4, said  # the other one has not ended
    status, report, said = rolled(lab, "--resume", "--lab")
    assert status == 0, said
    assert starts(lab) - before == Counter({3: 1})
    assert leaders_of(cluster, topic).count(3) == 2


def test_a_command_that_fails_stops_it(lab: Lab, cluster: Cluster, topic: str) -> None:
    status, report, said = rolled(
        lab, "--exec", "sh -c 'echo no such unit >&2; exit 5'", "--broker", "1"
    )
    assert status == 5, said
    assert "no such unit" in said
    assert "its status is 5" in said
    assert report["steps"][0]["phase"] == "restarting"
    abandoned = kipctl(lab, "roll", "--abandon")
    [command] = re.findall(r"kipctl (reassign --rollback --entry \S+)", abandoned)
    assert "The roll is abandoned." in abandoned
    kipctl(lab, *command.split(), "--yes")
    assert leaders_of(cluster, topic).count(1) == 2


def kipctl(lab: Lab, *words: str) -> str:
    """What a command that ends well prints."""
    out = io.StringIO()
    variables = os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server}
    environment = Environment(io.StringIO(), out, out, variables)
    assert run(list(words), environment) == 0, out.getvalue()
    return out.getvalue()


def test_a_guard_that_is_crossed_stops_it_before_anything_is_done(
    lab: Lab, cluster: Cluster, topic: str
) -> None:
    before = starts(lab)
    status, report, said = rolled(
        lab, "--lab", "--guard", "urp >= 0", "--guard-patience", "1s", "--guard-action", "rollback"
    )
    assert status == 5, said
    assert "Given up after 1 s" in said
    assert report["guard"]["given_up"]
    assert starts(lab) == before
    assert leaders_of(cluster, topic).count(1) == 2
    assert rolled(lab, "--abandon")[0] == 0


def test_a_canary_feels_the_roll(lab: Lab, cluster: Cluster, topic: str) -> None:
    guards = ("--guard", "p99 > 60s", "--guard", "moved-wait p50 > 60s")
    status, report, said = rolled(lab, "--lab", "--broker", "1", *guards)
    assert status == 0, said
    latency, waited = report["guard"]["conditions"]
    assert min(latency["looks"], waited["looks"]) > 3
    assert 0 < latency["worst"] < 60
    assert latency["not_known"] == latency["crossed"] == waited["crossed"] == 0
    # Its own topic's leaders move along: two of that, two of the other.
    assert report["steps"][0]["leaders_moved_off"] >= 4
    waits = report["steps"][0]["waits"]
    # A canary that hears of a move before it sends is not refused: then it has not waited.
    if waits["moves"]:
        assert 0 < waits["p50_seconds"] <= waits["max_seconds"] < 60
    else:
        assert waits["p50_seconds"] is waits["max_seconds"] is None
    while any(name.startswith("kipctl-") for name in take_snapshot(cluster).topics):
        pass  # brokers hear of its removal a little later; pytest's own timeout is the limit

    status, report, said = rolled(
        lab, "--lab", "--guard", "p99 > 0.001ms", "--guard-patience", "1s"
    )
    assert status == 5, said
    assert "p99 > 0.001ms (now " in said
    assert report["guard"]["given_up"]
    assert rolled(lab, "--abandon")[0] == 0


def test_a_topic_of_one_replica_refuses_the_roll(lab: Lab, cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    admin.create_topics([NewTopic("alone", 1, replica_assignment=[[2]])])["alone"].result()
    try:
        wait_until_everywhere(cluster, "alone", lambda seen: bool(seen.partitions))
        status, report, said = rolled(lab, "--lab")
        assert status == 4, said
        assert "broker 2: alone-0 without any replica" in said
        status, report, said = rolled(lab, "--dry-run")
        assert status == 0, said
        assert [step["no_other_replica"] for step in report["order"]] == [0, 1, 0]
        assert kept(lab).unfinished_roll() is None
    finally:
        admin.delete_topics(["alone"])["alone"].result()
