"""Operators' commands while a broker is paused or the only controller is gone, on real brokers."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from on_lab import Kipctl, Ran, in_sync, wait_until_everywhere

from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
CONTROLLER = 101
# A paused broker stays listed until its session is over: long enough to be looked at.
SESSION = (("broker.session.timeout.ms", "600000"),)


@pytest.fixture
def faulty(make_lab: Callable[..., Lab]) -> Lab:
    """A lab of three brokers, with a topic of three partitions."""
    lab = make_lab(name="faulty", config=SESSION)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    admin.create_topics([NewTopic("t", len(replicas), replica_assignment=replicas)])["t"].result()
    with Cluster(lab.bootstrap_server) as cluster:
        wait_until_everywhere(cluster, "t", in_sync)
    return lab


@pytest.fixture
def on_faulty(faulty: Lab, kipctl: Kipctl) -> Kipctl:
    """Command lines on it; they are told of brokers 1 and 2."""
    servers = ",".join(faulty.bootstrap_server.split(",")[:2])
    return lambda *words: kipctl(*words, "--bootstrap-server", servers)


@contextmanager
def begun(kipctl: Kipctl, *words: str) -> Iterator[list[Ran]]:
    """The command runs meanwhile; at the end it is waited for, and what it left behind is there."""
    found: list[Ran] = []
    thread = threading.Thread(target=lambda: found.append(kipctl(*words)))
    thread.start()
    try:
        yield found
    finally:
        thread.join()


def findings(kipctl: Kipctl) -> dict[str, str]:
    ran = kipctl("inspect", "brokers", "-o", "json")
    assert ran.status == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["findings"]
    return {one["what"]: one["severity"] for one in found}


def test_a_paused_broker_is_not_taken_for_one_that_knows(
    faulty: Lab, on_faulty: Kipctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kipctl.cli.brokers.TIMEOUT_S", 8.0)
    monkeypatch.setattr("kipctl.cluster.metadata_convergence.CONNECTION_TIMEOUT_S", 8.0)
    faulty.pause(3)

    # The wait between two restarts is not over, though every partition is in sync.
    ran = on_faulty("wait", "--until", "in-sync,converged", "--timeout", "3")
    assert ran.status == 6, ran.out
    assert "broker 3 does not answer" in ran.err

    (silent,) = [what for what in findings(on_faulty) if "does not answer" in what]
    assert silent.startswith("Broker 3 is listed as alive and does not answer: ")

    # Leaders that the others hold are moved all the same, and who does not know is named.
    ran = on_faulty("reassign", "--leader", "t-0=2", "--yes", "-o", "json")
    assert ran.status == 0, ran.err
    assert json.loads(ran.out)["silent_brokers"] == [3]

    with begun(on_faulty, "wait", "--until", "converged", "--timeout", "300") as ended:
        faulty.resume(3)
    assert [ran.status for ran in ended] == [0]


def test_without_a_controller_it_is_said_and_all_works_again_once_it_is_back(
    faulty: Lab, on_faulty: Kipctl
) -> None:
    faulty.kill(CONTROLLER)

    # Brokers still know what they knew.
    assert on_faulty("wait", "--until", "in-sync,converged", "--timeout", "60").status == 0
    ran = on_faulty("wait", "--until", "no-reassignment", "--timeout", "2")
    assert ran.status in (3, 6), ran.err
    assert any(
        what.startswith("What is being reassigned is not known: ") for what in findings(on_faulty)
    )
    ran = on_faulty("reassign", "--leader", "t-0=2", "--yes", "--timeout", "5")
    assert ran.status in (3, 6), ran.err
    leaders = on_faulty("inspect", "leaders", "--topic", "t", "-o", "json")
    assert leaders.status == 0, leaders.err

    faulty.start(CONTROLLER)
    ran = on_faulty("wait", "--until", "no-reassignment,converged", "--timeout", "120")
    assert ran.status == 0, ran.err
    assert not any("is not known" in what for what in findings(on_faulty))
    ran = on_faulty("reassign", "--leader", "t-0=3", "--yes")
    assert ran.status == 0, ran.err
