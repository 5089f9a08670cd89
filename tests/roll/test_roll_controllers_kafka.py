"""`kipctl roll` of brokers and controllers on real nodes, under load, some of which are struck."""

from collections import Counter
from collections.abc import Iterator

import pytest
from acknowledged import Reader, check, load
from campaigns import as_many, campaign, chance
from lab_state import SESSION
from on_lab import leaders_of, replicas_of
from roll_faults import UNASKED, moments, started, starts
from rolled_lab import REPLICAS, TOPIC, rolled, rolled_topic

from kipctl.changes.journal.entry import EntryState
from kipctl.changes.journal.journal import journal
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.process import wait_until
from kipctl.roll.quorum import ask_quorum, quorum_problem

pytestmark = pytest.mark.kafka

BROKERS, CONTROLLERS = (1, 2, 3), (101, 102, 103)


@pytest.fixture(scope="module")
def lab(guard: None) -> Iterator[Lab]:
    """4 brokers and 3 controllers, none of which is soon missed on a busy machine."""
    config = (*UNASKED, SESSION, ("controller.quorum.fetch.timeout.ms", "6000"))
    spec = LabSpec(name="rolled", brokers=4, controllers=3, c1_only=True, config=config)
    lab = Lab.up(spec, lambda text: None)
    yield lab
    lab.down()


@pytest.mark.timeout(900)
def test_brokers_and_controllers_are_restarted_under_load_and_nothing_is_lost(
    lab: Lab,
) -> None:
    ports = {node.id: node.port for node in lab.nodes}
    with rolled_topic(lab) as cluster:
        assert wait_until(lambda: not quorum_problem(ask_quorum(cluster)), 300)
        first = ask_quorum(cluster)
        assert {v.id: (v.host, v.port) for v in first.voters} == {
            node: ("127.0.0.1", ports[node]) for node in CONTROLLERS
        }
        before, processes = starts(lab), {node.id: node.pid for node in lab.nodes}

        # A command that does nothing is not believed: neither of a standby nor of the active one.
        status, report, said = rolled(
            lab,
            *("--exec", "echo {role} {broker} at {host}:{port}", "--timeout", "15"),
            *("--broker", "none", "--controllers"),
        )
        assert status == 6, said
        standby = report["steps"][0]["broker"]  # the active one is the last
        assert f"  controller {standby} at 127.0.0.1:{ports[standby]}" in said
        assert f"Stopped at controller {standby} (restarting); 0 of 3 nodes are restarted" in said
        assert "it has not been away" in said
        assert rolled(lab, "--abandon")[0] == 0

        with load(lab.bootstrap_server, TOPIC, len(REPLICAS), rate=50) as settled:
            chosen = [word for broker in BROKERS for word in ("--broker", str(broker))]
            guard = ("--guard", "under-min-isr > 0")
            status, report, said = rolled(lab, "--lab", "--controllers", *chosen, *guard)
        assert status == 0, said
        assert report["state"] == "done"
        assert report["guard"]["conditions"][0]["looks"] > 3
        steps = report["steps"]
        order = [step["broker"] for step in steps]
        assert (*order[:3], *sorted(order[3:])) == (*BROKERS, *CONTROLLERS)
        assert [step["phase"] for step in steps] == ["done"] * 6
        assert all("it was away" in step["seen_by"] for step in steps)
        for step in steps[:3]:
            assert step["leaders_moved_off"] == step["leaders_brought_back"] >= 2
            assert "producer ids of another block" in step["seen_by"]
            assert 0 < step["restarted_seconds"] <= step["in_sync_seconds"]
        assert steps[3]["role"] == "controller"
        ended = sorted(steps, key=lambda step: step["at"]["done"])
        assert sorted(step["broker"] for step in ended[3:]) == list(CONTROLLERS)
        assert started(lab, before) == Counter(BROKERS)
        assert [node.id for node in lab.nodes if node.pid == processes[node.id]] == [4]
        # The active one came last, and handed over.
        assert ask_quorum(cluster).epoch > first.epoch
        assert "no longer leads the controllers" in ended[-1]["seen_by"]
        # Replicas have their order again, and lead as before; the journal says that it is undone.
        assert replicas_of(cluster, TOPIC) == REPLICAS
        assert leaders_of(cluster, TOPIC) == [ids[0] for ids in REPLICAS]
        states = {e.state for e in journal(lab.cluster_id).entries() if not e.undoes}
        assert EntryState.SUBMITTED not in states
        assert settled.acknowledged
        assert not settled.failed
        assert not check(settled, Reader(lab.bootstrap_server, TOPIC, len(REPLICAS)))


@campaign
@pytest.mark.timeout(1500)
def test_a_node_that_is_struck_meanwhile_loses_no_record_and_what_is_left_is_said(
    lab: Lab,
) -> None:
    """A drain or a roll, with one fault."""
    chances = (chance(f"a node is struck {n}") for n in range(as_many(1, 20)))
    for ended in moments(lab, chances, rolled=as_many(2, 4)):
        assert ended.fault == "", ended
