"""`kipctl request-log` on a real cluster: lines come while it is on, and it never stays on."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_lab import Kipctl

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.request_log import read_levels, set_level
from kipctl.cluster.request_log_record import read_records, record_switched_off
from kipctl.lab.cluster import Lab
from kipctl.protocol.metadata import MetadataRequest
from kipctl.transport.request import BrokerConnection, Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def off_afterwards(lab: Lab, cluster: Cluster) -> Iterator[None]:
    yield
    for broker in (1, 2, 3):
        set_level(cluster, broker, "WARN")
    record_switched_off({lab.cluster_id}, (1, 2, 3))


def levels(cluster: Cluster) -> list[str | None]:
    return [logger.level for logger in read_levels(cluster, (1, 2, 3))]


def ask(lab: Lab, broker: int, client_id: str) -> None:
    """One Metadata request to this broker, by a client of this name.

    A request is logged after its answer, and before the next of its connection is read: once that
    is answered it is in the log, or never will be.
    """
    with BrokerConnection("127.0.0.1", lab.node(broker).port, client_id, 60.0) as connection:
        connection.request(MetadataRequest(topics=()))
        connection.client_id = "another"
        connection.request(MetadataRequest(topics=()))


def logged_clients(path: Path) -> set[str]:
    """The clients whose requests are in a request log."""
    text = path.read_text()
    lines = text[: text.rfind("\n") + 1].splitlines()  # the last may be half written
    return {
        json.loads(line.split("Completed request:")[1].rpartition(" (")[0])["requestHeader"][
            "clientId"
        ]
        for line in lines
        if "Completed request:" in line
    }


def wait_for_client(lab: Lab, broker: int, client_id: str) -> set[str]:
    """Ask as this client until its line is there; the lines before it are there too, then."""
    path = lab.node(broker).request_log_path
    while client_id not in (clients := logged_clients(path)):
        ask(lab, broker, client_id)
    return clients


def test_lines_come_while_it_is_on_and_none_while_it_is_off(
    lab: Lab, kipctl: Kipctl, cluster: Cluster
) -> None:
    ask(lab, 1, "before")
    ran = kipctl("request-log on --all-brokers --until-off -o json")
    assert ran.document["brokers"][0] == {
        "broker": 1,
        "on": True,
        "level": "DEBUG",
        "level_before": "WARN",
        "error": None,
    }
    assert "It stays on at brokers 1, 2, 3, at the cost of about 2 kB" in ran.err
    assert ran.err.splitlines()[-1] == "Switch it off: kipctl request-log off"
    for broker in (1, 2, 3):
        wait_for_client(lab, broker, "while-on")

    ran = kipctl("request-log off")
    assert levels(cluster) == ["WARN"] * 3
    ask(lab, 1, "while-off")
    kipctl("request-log on --all-brokers --until-off")
    clients = wait_for_client(lab, 1, "on-again")
    assert "while-on" in clients
    assert not clients & {"before", "while-off"}


def test_one_broker_alone(kipctl: Kipctl, cluster: Cluster) -> None:
    ran = kipctl("request-log on --broker 2 --until-off")
    assert ran.err.splitlines()[-1] == "Switch it off: kipctl request-log off --broker 2"
    assert levels(cluster) == ["WARN", "DEBUG", "WARN"]
    ran = kipctl("request-log status -o json")
    assert [(b["broker"], b["on"], b["level"]) for b in ran.document["brokers"]] == [
        (1, False, "WARN"),
        (2, True, "DEBUG"),
        (3, False, "WARN"),
    ]
    kipctl("request-log off --broker 1")
    assert levels(cluster) == ["WARN", "DEBUG", "WARN"]


@pytest.mark.parametrize("action", ["on", "off", "status"])
def test_a_broker_that_is_not_there_is_wrong_usage(
    kipctl: Kipctl, cluster: Cluster, action: str
) -> None:
    more = "--until-off" if action == "on" else ""
    ran = kipctl("request-log", action, "--broker 1 --broker 7", more, status=2)
    assert ran.out == ""
    assert "The cluster lists no broker 7; it lists 1, 2, 3." in ran.err
    assert levels(cluster) == ["WARN"] * 3


def test_for_some_time(lab: Lab, kipctl: Kipctl, cluster: Cluster) -> None:
    set_level(cluster, 2, "DEBUG")
    set_level(cluster, 3, "INFO")
    path = lab.node(1).request_log_path
    size = path.stat().st_size
    ran = kipctl("request-log on --all-brokers --for 1s -o json")
    assert path.stat().st_size > size
    result = ran.document
    assert result["seconds"] >= 1
    assert [(b["on"], b["level"]) for b in result["brokers"]] == [
        (False, "WARN"),
        (True, "DEBUG"),
        (False, "INFO"),
    ]
    assert levels(cluster) == ["WARN", "DEBUG", "INFO"]
    assert ran.err.splitlines()[-1] == (
        "The request log is off again at brokers 1, 3. It stays on at broker 2, as it was before."
    )


def on_for_an_hour(lab: Lab, *more: str) -> subprocess.Popen[str]:
    """kipctl in a process of its own, once it says that the request log is on."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kipctl",
            "request-log",
            "on",
            "--all-brokers",
            "--for",
            "1h",
            *more,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
    )
    assert process.stderr is not None
    if not any(line.startswith("The request log is on") for line in process.stderr):
        pytest.fail(f"it ended with {process.wait()}")
    return process


def test_a_signal_to_end_switches_it_off(lab: Lab, cluster: Cluster) -> None:
    with on_for_an_hour(lab, "-o", "json") as process:
        assert levels(cluster) == ["DEBUG"] * 3
        assert [record.brokers for record in read_records({lab.cluster_id})] == [(1, 2, 3)]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert err.startswith("kipctl: Interrupted after ")
    assert err.endswith("The request log is off again at brokers 1, 2, 3.\n")
    assert [b["on"] for b in json.loads(out)["brokers"]] == [False] * 3
    assert levels(cluster) == ["WARN"] * 3
    assert read_records({lab.cluster_id}) == ()


def test_after_a_kipctl_that_was_killed_later_ones_say_that_it_is_on_until_it_is_off(
    lab: Lab, cluster: Cluster
) -> None:
    with on_for_an_hour(lab) as process:
        # While somebody is there to switch it off nothing is said.
        assert "request log was switched on" not in on_its_own(lab, "inspect leaders")
        process.kill()
    assert levels(cluster) == ["DEBUG"] * 3
    for command in ("inspect leaders", "request-log status"):
        err = on_its_own(lab, command)
        assert "The request log was switched on at brokers 1, 2, 3 of this cluster" in err
        assert "kipctl request-log off --broker 1 --broker 2 --broker 3" in err
    err = on_its_own(lab, "request-log off --broker 2")
    assert "was switched on at brokers 1, 3 of this cluster" in err
    assert "request log was switched on" not in on_its_own(lab, "request-log off")
    assert read_records({lab.cluster_id}) == ()


def on_its_own(lab: Lab, command: str) -> str:
    """What a kipctl with the state folder of the session says beside its result."""
    err = io.StringIO()
    variables = os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server}
    status = run(command.split(), Environment(io.StringIO(), io.StringIO(), err, variables))
    assert status == 0, err.getvalue()
    return err.getvalue()


@pytest.mark.parametrize(("yes", "status"), [((), 2), (("--yes",), 0)])
def test_where_it_is_no_lab_it_is_asked_with_what_it_will_cost(
    kipctl: Kipctl,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    yes: tuple[str, ...],
    status: int,
) -> None:
    monkeypatch.setattr("kipctl.load.actions.running_labs", list)
    ran = kipctl("request-log on --all-brokers --for 1s", *yes, status=status)
    assert "How many requests they answer is not known" in ran.err
    if not yes:
        assert "Log every request that brokers 1, 2, 3 answer, for 1s?" in ran.err
        assert "Repeat with --yes." in ran.err
    assert levels(cluster) == ["WARN"] * 3
