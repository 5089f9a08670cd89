"""Operators' commands while a broker is paused or the only controller is gone, on real brokers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from commands import OnLab
from confluent_kafka.admin import AdminClient, NewTopic
from lab_state import UNASKED_NOTHING
from on_lab import Kipctl, Ran, in_sync, wait_until_everywhere

from kipctl.lab.cluster import Lab, take_down
from kipctl.lab.properties import LabSpec
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
CONTROLLER = 101


@pytest.fixture(scope="module")
def faulty(guard: None) -> Iterator[Lab]:
    """A lab of its own (as of make_lab), with two topics of three partitions.

    A paused broker stays listed and in sync, however long a busy machine looks at it.
    """
    kept = ("broker.session.timeout.ms", "replica.lag.time.max.ms")
    config = (*UNASKED_NOTHING, *((name, "600000") for name in kept))
    lab = Lab.up(LabSpec(name="faulty", c1_only=True, config=config), lambda text: None)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    topics = [NewTopic(name, len(replicas), replica_assignment=replicas) for name in ("t", "u")]
    with Cluster(lab.bootstrap_server) as cluster:
        for name, made in admin.create_topics(topics).items():
            made.result()
            wait_until_everywhere(cluster, name, in_sync)
    yield lab
    take_down("faulty")


@pytest.fixture
def timeout_s() -> float:
    """For each request: only who is paused, or has no controller, takes so long."""
    return 8.0


@pytest.fixture
def kipctl(
    faulty: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> Kipctl:
    """Command lines on it; they are told of brokers 1 and 2."""
    for module in ("brokers", "inspect_metadata", "wait"):
        monkeypatch.setattr(f"kipctl.cli.commands.{module}.TIMEOUT_S", timeout_s)
    monkeypatch.setattr("kipctl.cluster.metadata_convergence.CONNECTION_TIMEOUT_S", timeout_s)
    monkeypatch.setattr(Cluster.__init__, "__defaults__", ("kipctl", timeout_s))
    servers = faulty.bootstrap_server.rpartition(",")[0]
    return OnLab(servers, tmp_path).kipctl


def at_once(kipctl: Kipctl, **commands: tuple[str, int | tuple[int, ...]]) -> dict[str, Ran]:
    """What each of these leaves behind, by its name here: they wait for the same."""
    with ThreadPoolExecutor(len(commands)) as pool:
        running = {
            name: pool.submit(partial(kipctl, words, status=status))
            for name, (words, status) in commands.items()
        }
        return {name: future.result() for name, future in running.items()}


def whats(ran: Ran) -> list[str]:
    return [finding["what"] for finding in ran.document["findings"]]


def test_a_paused_broker_is_not_taken_for_one_that_knows(
    faulty: Lab, kipctl: Kipctl, timeout_s: float
) -> None:
    faulty.pause(3)
    ran = at_once(
        kipctl,
        wait=("wait --until in-sync,converged --timeout 3", 6),
        brokers=("inspect brokers -o json", 0),
        metadata=("inspect metadata --topic t -o json", 0),
        reassign=("reassign --leader u-0=2 --yes -o json", 0),
    )
    # The wait between two restarts is not over, though every partition is in sync.
    assert "broker 3 does not answer" in ran["wait"].err
    (silent,) = [what for what in whats(ran["brokers"]) if "does not answer" in what]
    assert silent.startswith("Broker 3 is listed as alive and does not answer: ")
    # Leaders that the others hold are moved all the same, and who does not know is named.
    assert ran["reassign"].document["silent_brokers"] == [3]
    shown = ran["metadata"].document
    costs = [(cost["broker"], cost["error"] is None) for cost in shown["request_costs"]]
    assert costs == [(1, True), (2, True), (3, False)] * 2
    assert [broker["error"] is None for broker in shown["brokers"]] == [True, True, False]
    assert f"did not answer Metadata in {timeout_s:g} s" in shown["brokers"][2]["error"]
    # It is not asked for again and again.
    assert (shown["agree"], shown["looks"]) == (False, 1)

    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(kipctl, "wait --until converged --timeout 300")
        faulty.resume(3)
        waiting.result()


def test_without_a_controller_it_is_said_and_all_works_again_once_it_is_back(
    faulty: Lab, kipctl: Kipctl
) -> None:
    faulty.kill(CONTROLLER)
    ran = at_once(
        kipctl,
        # Brokers still know what they knew.
        known=("wait --until in-sync,converged --timeout 60", 0),
        leaders=("inspect leaders --topic t -o json", 0),
        wait=("wait --until no-reassignment --timeout 2", (3, 6)),
        brokers=("inspect brokers -o json", 0),
        reassign=("reassign --leader u-1=1 --yes --timeout 5", (3, 6)),
    )
    not_known = "What is being reassigned is not known: "
    assert any(what.startswith(not_known) for what in whats(ran["brokers"]))

    faulty.start(CONTROLLER)
    kipctl("wait --until no-reassignment,converged --timeout 120")
    assert not any("is not known" in what for what in whats(kipctl("inspect brokers -o json")))
    kipctl("reassign --leader u-1=3 --yes")
