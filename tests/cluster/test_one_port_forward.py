"""Brokers that only this machine cannot reach, while the bootstrap server answers: one tunnel."""

import socket
from collections.abc import Callable

import pytest
from reassigning import Reassigning

from kipctl.cluster.snapshot import PartitionId

REPLICAS = {PartitionId("t", 0): (1, 2), PartitionId("t", 1): (2, 3)}
AWAY = "Broker 127.0.0.1:1 cannot be reached for"


@pytest.fixture
def tunnelled(fake: Reassigning) -> Reassigning:
    """Brokers 1 to 4, listed at addresses at which nobody listens."""
    fake.unreached = True
    assert fake.broker is not None
    fake.broker.versions = {**fake.broker.versions, 0: (0, 13), 1: (4, 18)}
    return fake


def test_they_are_one_note_and_no_problem_of_the_cluster(tunnelled: Reassigning) -> None:
    findings = tunnelled.kipctl("inspect brokers -o json").document["findings"]
    assert not [finding for finding in findings if finding["id"] == "broker-silent"]
    (note,) = [finding for finding in findings if finding["id"] == "brokers-not-reached-from-here"]
    assert note["severity"] == "note"
    assert note["what"].startswith(
        "Brokers 1, 2, 3, 4 cannot be reached from this machine where the cluster lists them,"
        f" as 127.0.0.1:1: {AWAY} ApiVersions"
    )
    assert "--map '127.0.0.1:*=127.0.0.1:*'" in note["change"]


def test_clusters_test_tries_each_broker(tunnelled: Reassigning) -> None:
    ran = tunnelled.kipctl("clusters test", status=3)
    assert ran.out.splitlines()[0].startswith(
        "All 1 servers can be reached, but none of 4 brokers where the cluster lists them, as"
        " 127.0.0.1:1: TCP: Connection refused."
    )
    assert "kipctl clusters test --map '127.0.0.1:*=127.0.0.1:*'" in ran.out
    tunnelled.unreached = False
    assert "but" not in tunnelled.kipctl("clusters test").out.splitlines()[0]


def test_where_they_are_can_be_said_by_one_pattern(tunnelled: Reassigning) -> None:
    tested = tunnelled.kipctl(f"clusters test --map *:?=127.0.0.1:{tunnelled.port}", status=2)
    assert "'*:?' in '*:?=127.0.0.1:" in tested.err
    mapped = f"--map 127.0.0.1:*=127.0.0.1:{tunnelled.port}"
    shown = tunnelled.kipctl(f"clusters test {mapped} -o json").document
    brokers = [step for step in shown["steps"] if step["broker"] is not None]
    assert [(step["broker"], step["ok"]) for step in brokers] == [(b, True) for b in (1, 2, 3, 4)]
    assert "is the address of no broker" not in tunnelled.kipctl(f"inspect leaders {mapped}").err


def test_a_map_that_fits_no_broker_is_said(tunnelled: Reassigning) -> None:
    ran = tunnelled.kipctl("inspect leaders --map *.demo.svc:*=127.0.0.1:*")
    assert (
        "--map *.demo.svc:* is the address of no broker; they are at 127.0.0.1:1, 127.0.0.1:2,"
        in ran.err
    )
    assert ran.err.count("is the address of no broker") == 1


def test_a_change_that_nobody_could_watch_is_refused_before_the_question(
    tunnelled: Reassigning,
) -> None:
    before = tunnelled.replicas()
    ran = tunnelled.kipctl("reassign --rotate --all-topics --yes", status=4)
    assert "No broker can be reached where the cluster lists it" in ran.err
    assert "--map '127.0.0.1:*=127.0.0.1:*'" in ran.err
    assert (tunnelled.altered, tunnelled.elected, tunnelled.entries()) == ([], [], [])
    assert tunnelled.replicas() == before
    tunnelled.kipctl("reassign --rotate --all-topics --dry-run")
    asked = tunnelled.kipctl("reassign --rotate --all-topics --force", status=2)
    assert "There is no terminal to ask on" in asked.err


def test_hints_that_nobody_could_be_asked_for_say_how_to_ask(tunnelled: Reassigning) -> None:
    ran = tunnelled.kipctl("inspect hints")
    assert ran.out.splitlines()[0].startswith("0 of 4 brokers named a leader.")
    assert "No broker can be reached where the cluster lists it. Behind tunnels:" in ran.out
    assert "--map '127.0.0.1:*=127.0.0.1:*'" in ran.out


def test_a_name_that_only_this_machine_does_not_know_is_its_own_matter_beside_others_that_answer(
    fake: Reassigning, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: Callable[..., object] = socket.getaddrinfo

    def resolved(host: str, *more: object, **others: object) -> object:
        if host.endswith(".svc"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(
        type(fake),
        "at",
        lambda self, b: (f"k{b}.svc", 9092) if b > 1 else ("127.0.0.1", self.port),
    )
    findings = fake.kipctl("inspect brokers -o json").document["findings"]
    (note,) = [finding for finding in findings if finding["id"].startswith("broker")]
    assert note["id"] == "brokers-not-reached-from-here"
    assert note["what"].startswith("Brokers 2, 3, 4 cannot be reached from this machine")
    assert "--map k2.svc:9092=127.0.0.1:PORT" in note["change"]
    assert "but only 1 of 4 brokers where" in fake.kipctl("clusters test").out
