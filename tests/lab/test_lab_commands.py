"""`kipctl lab` as a user types it: what it prints, and how it ends."""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.lab.cluster import Lab


def outcome(*arguments: str) -> tuple[int, str, str]:
    environment = Environment(stdin=io.StringIO(), stdout=io.StringIO(), stderr=io.StringIO())
    status = run(["lab", *arguments], environment)
    return status, environment.stdout.getvalue(), environment.stderr.getvalue()


@pytest.fixture
def no_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "kipctl" / "labs"


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["down"], 0, "There is no lab named 'default': nothing to do.\n"),
        (["down", "--name", "../x"], 0, "There is no lab named '../x': nothing to do.\n"),
        (
            ["stop", "1", "--name", "x"],
            2,
            "kipctl: There is no lab named 'x'; there is: none.\n"
            "Start one: kipctl lab up --name x\n",
        ),
        (
            ["up", "--config", "num.io.threads"],
            2,
            "kipctl: --config 'num.io.threads' is not KEY=VALUE.\n"
            "For instance: --config num.io.threads=4\n",
        ),
        (
            ["up", "--config", "node.id=7"],
            2,
            "kipctl: --config node.id cannot be set: the lab decides it for each node.\n"
            "Choose with --brokers, --controllers, --racks, --port and --security instead.\n",
        ),
        (["up", "--brokers", "0"], 2, "kipctl: A lab has 1 to 100 brokers, not 0.\n"),
    ],
)
def test_without_a_lab(no_labs: Path, arguments: list[str], status: int, told: str) -> None:
    assert outcome(*arguments) == (status, "", told)


def test_status_of_no_lab_is_an_answer_and_json_too(no_labs: Path) -> None:
    assert outcome("status") == (0, "There is no lab. Start one: kipctl lab up\n", "")
    status, out, _ = outcome("status", "--output", "json")
    assert (status, json.loads(out)["labs"]) == (0, [])


def test_what_a_start_left_without_a_record_is_told_and_removed(no_labs: Path) -> None:
    (no_labs / "half" / "broker-1").mkdir(parents=True)
    _, _, told = outcome("status")
    assert told.startswith("A start that was cut off left 'half' behind")
    assert outcome("down", "--name", "half") == (
        0,
        "",
        "Lab 'half' is down; nothing of it is left.\n",
    )
    assert not (no_labs / "half").exists()


@pytest.mark.kafka
def test_status_shows_every_node(lab: Lab) -> None:
    status, out, _ = outcome("status", "--name", "session", "--output", "json")
    assert status == 0
    (document,) = json.loads(out)["labs"]
    assert document["bootstrap_server"] == lab.bootstrap_server
    assert document["state"] == "running"
    assert [(n["id"], n["role"], n["rack"], n["pid"], n["state"]) for n in document["nodes"]] == [
        (n.id, n.role.value, n.rack, n.pid, "running") for n in lab.nodes
    ]
    assert document["request_log"] is False
    assert [n["request_log"] for n in document["nodes"]] == [
        str(n.request_log_path) for n in lab.nodes
    ]
    _, out, _ = outcome("status", "--name", "session", "--output", "plain")
    lines = out.splitlines()
    assert lines[0] == "Lab session is running, with Kafka 4.3.1; nodes: 4 running."
    (first,) = (words for line in lines if (words := line.split())[:1] == ["1"])
    assert first[:6] == [
        "1",
        "broker",
        "rack-1",
        str(lab.nodes[0].port),
        str(lab.nodes[0].pid),
        "running",
    ]
    assert lines[-1] == f"Bootstrap server: {lab.bootstrap_server}"


@pytest.mark.kafka
def test_a_node_is_paused_and_resumed(lab: Lab) -> None:
    status, out, _ = outcome("pause", "3", "--name", "session", "--output", "json")
    nodes = {node["id"]: node["state"] for node in json.loads(out)["labs"][0]["nodes"]}
    assert (status, nodes[3]) == (0, "paused")
    assert outcome("resume", "3", "--name", "session")[0] == 0
    lab.wait_ready()
    status, _, told = outcome("pause", "3", "7", "--name", "session")
    assert (status, told.splitlines()[0]) == (2, "kipctl: Lab 'session' has no node 7.")
    assert lab.node(3).state.value == "running"


@pytest.mark.kafka
def test_logs_of_one_node_and_of_all(lab: Lab) -> None:
    status, out, _ = outcome("logs", "2", "--name", "session", "--lines", "3")
    assert status == 0
    assert len(out.splitlines()) == 3
    assert out.splitlines()[0] in lab.log_path(2).read_text()
    _, out, _ = outcome("logs", "--name", "session", "--lines", "1")
    assert [line.partition(" | ")[0] for line in out.splitlines()] == [
        "broker-1",
        "broker-2",
        "broker-3",
        "controller-101",
    ]


@pytest.mark.kafka
def test_logs_are_followed_until_ctrl_c(lab: Lab) -> None:
    command = ["lab", "logs", "1", "--follow", "--lines", "1", "--name", "session"]
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as kipctl:
        assert kipctl.stdout is not None
        assert kipctl.stdout.readline() != ""
        with lab.log_path(1).open("a") as log:
            log.write("a line of the test\n")
        assert "a line of the test\n" in iter(kipctl.stdout.readline, "")
        kipctl.send_signal(signal.SIGINT)
    assert kipctl.returncode == 130


@pytest.mark.kafka
def test_a_request_log_is_told_of_where_it_is(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(name="logging", brokers=1, request_log=True)
    _, out, _ = outcome("status", "--name", "logging", "--output", "plain")
    assert out.splitlines()[-1] == f"Request logs: {lab.folder}/broker-*/request.log*"
    assert lab.node(1).request_log_path in lab.folder.glob("broker-*/request.log*")
    _, out, _ = outcome("status", "--name", "logging", "--output", "json")
    assert json.loads(out)["labs"][0]["request_log"] is True
