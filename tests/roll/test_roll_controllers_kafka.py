"""`kipctl roll --controllers` on real nodes, under load."""

from collections.abc import Callable

import pytest
from acknowledged import Reader, check, load
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import in_sync, leaders_of, replicas_of, wait_until_everywhere
from rolled_lab import rolled

from kipctl.lab.cluster import Lab
from kipctl.roll.quorum import Quorum, ask_quorum, quorum_problem
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

TOPIC, PARTITIONS = "rolled", 6
CONTROLLERS = (101, 102, 103)


def quorum_of(lab: Lab) -> Quorum:
    with Cluster(lab.bootstrap_server, timeout_s=10.0) as cluster:
        return ask_quorum(cluster)


@pytest.mark.timeout(900)
def test_brokers_and_controllers_are_restarted_under_load_and_nothing_is_lost(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(
        brokers=3, controllers=3, config=(("leader.imbalance.check.interval.seconds", "86400"),)
    )
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = [[n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(PARTITIONS)]
    config = {"min.insync.replicas": "2"}
    new = NewTopic(TOPIC, PARTITIONS, replica_assignment=replicas, config=config)
    admin.create_topics([new])[TOPIC].result()
    first = quorum_of(lab)
    ports = {node.id: node.port for node in lab.nodes}
    assert {v.id: (v.host, v.port) for v in first.voters} == {
        node: ("127.0.0.1", ports[node]) for node in CONTROLLERS
    }
    with Cluster(lab.bootstrap_server, timeout_s=10.0) as cluster:
        wait_until_everywhere(cluster, TOPIC, in_sync)
        before = {node.id: node.pid for node in lab.nodes}

        while quorum_problem(first := quorum_of(lab)):
            pass
        # A command that does nothing is not believed: neither of a standby nor of the active one.
        status, report, said = rolled(
            lab,
            *("--exec", "echo {role} {broker} at {host}:{port}", "--timeout", "15"),
            *("--broker", "none", "--controllers"),
        )
        assert status == 6, said
        standby = min(set(CONTROLLERS) - {first.active})
        assert f"  controller {standby} at 127.0.0.1:{ports[standby]}" in said
        assert f"Stopped at controller {standby} (restarting); 0 of 3 nodes are done" in said
        assert "it has not been away" in said
        assert rolled(lab, "--abandon")[0] == 0

        with load(lab.bootstrap_server, TOPIC, PARTITIONS) as settled:
            status, report, said = rolled(
                lab, "--lab", "--controllers", "--guard", "under-min-isr > 0"
            )
        assert status == 0, said
        assert report["state"] == "done"
        order = [step["broker"] for step in report["steps"]]
        assert order[:3] == [1, 2, 3]
        assert sorted(order[3:]) == list(CONTROLLERS)
        assert report["steps"][3]["role"] == "controller"
        assert all(step["phase"] == "done" for step in report["steps"])
        assert all("it was away" in step["seen_by"] for step in report["steps"])
        ended = sorted(report["steps"], key=lambda step: step["at"]["done"])
        assert sorted(step["broker"] for step in ended[3:]) == list(CONTROLLERS)
        now = {node.id: node.pid for node in lab.nodes}
        assert not [node for node, pid in before.items() if now[node] == pid]
        last = quorum_of(lab)
        assert last.epoch > first.epoch
        # The active one came last, and handed over.
        assert "no longer leads the controllers" in ended[-1]["seen_by"]
        assert replicas_of(cluster, TOPIC) == [tuple(ids) for ids in replicas]
        assert leaders_of(cluster, TOPIC) == [ids[0] for ids in replicas]
    assert settled.acknowledged
    assert not settled.failed
    assert not check(settled, Reader(lab.bootstrap_server, TOPIC, PARTITIONS))
