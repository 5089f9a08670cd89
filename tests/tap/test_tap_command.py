"""`kipctl tap` as its users run it: a real cluster, a real terminal's signals, what it prints."""

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from raw_peers import RawBroker, RawClient
from tap_messages import ask_metadata

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.lab.cluster import Lab
from kipctl.load.execute import Listeners
from kipctl.load.measure import run as measured
from kipctl.load.plan import OWN_TOPIC
from kipctl.load.produce import PerfPlan, ProduceLoad
from kipctl.probe.produce.run import ProduceSpec
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run
from kipctl.transport.access import Access

KIPCTL = [sys.executable, "-m", "kipctl"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 3, "No bootstrap server of 127.0.0.1:1 answers"),
        (["--cap", "Produce"], 2, "--cap 'Produce'"),
        (["--stale-metadata", "soon"], 2, "'soon' is not a duration"),
        (["--reset", "often"], 2, "'often' is no rate"),
        (
            ["--listen", "9092"],
            2,
            "'9092' in '--listen 9092' is no address.\nWrite HOST:PORT; an IPv6",
        ),
        (["--certificate", "/no.pem"], 2, "/no.pem"),
        (["--fail-if", "hint-hotloop"], 2, "Did you mean 'hint-hot-loop'?"),
        (["--bootstrap-server", "somewhere"], 2, "'somewhere' is no address"),
        (["--run", "/no/app {bootstrap}"], 2, "/no/app cannot be run: No such file"),
        (["--run", "sh {bootstrap} {topic}"], 2, "{topic}, which stands for the topic of"),
        (
            ["--rotate", "t", "--and-without-hints", "--cap", "Produce=9"],
            2,
            "--cap and --and-without-hints exclude one another",
        ),
    ],
)
def test_what_cannot_be_is_told_in_three_lines(
    arguments: list[str], status: int, said: str
) -> None:
    out, err = io.StringIO(), io.StringIO()
    environment = Environment(io.StringIO(), out, err, {"KIPCTL_BOOTSTRAP_SERVER": "127.0.0.1:1"})
    assert run(["tap", *arguments], environment) == status
    assert said in err.getvalue()
    assert len(err.getvalue().splitlines()) <= 3
    assert out.getvalue() == ""


def test_both_records_are_looked_for_before_anything_is_done(tmp_path: Path) -> None:
    taken = tmp_path / "x-without-hints"
    taken.mkdir()
    (taken / "run.json").write_text("{}")
    err = io.StringIO()
    environment = Environment(
        io.StringIO(), io.StringIO(), err, {"KIPCTL_BOOTSTRAP_SERVER": "127.0.0.1:1"}
    )
    options = ["--rotate", "t", "--and-without-hints", "--yes", "--record", str(tmp_path / "x")]
    assert run(["tap", *options], environment) == 2
    assert "x-without-hints is not empty" in err.getvalue()


@pytest.mark.parametrize(
    ("fail_if", "asks", "status"),
    [("metadata-storm", 60, 7), ("any", 60, 7), ("hint-ignored", 60, 0), ("any", 20, 0)],
)
def test_it_fails_if_what_was_looked_for_is_found(fail_if: str, asks: int, status: int) -> None:
    with (
        RawBroker() as broker,
        subprocess.Popen(
            [
                *KIPCTL,
                *("tap", "--bootstrap-server", broker.address, "--fail-if", fail_if),
                *("--print", "--output", "json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as tap,
    ):
        assert tap.stdout
        assert tap.stderr
        address = tap.stderr.readline().split()[3]
        with RawClient(address) as client:
            client.exchange()
            for _ in range(asks):
                client.ask(ask_metadata("t"), 12)
            lines = [tap.stderr.readline()] if status else []
            tap.send_signal(signal.SIGINT)
            document = json.loads(tap.stdout.read())
        assert tap.wait(timeout=60) == status
        rest = tap.stderr.read()
    (seen,) = document["clients"]
    assert [finding["id"] for finding in seen["findings"]] == ["metadata-storm"] * (asks == 60)
    assert all("metadata-storm: raw at broker 1" in line for line in lines)
    if status:
        assert "Found (--fail-if): metadata-storm." in rest
        assert "kipctl explain metadata-storm" in rest


@pytest.mark.kafka
def test_it_ends_with_ctrl_c_and_tells_what_clients_did(lab: Lab, tmp_path: Path) -> None:
    with subprocess.Popen(
        [
            *KIPCTL,
            *("tap", "--bootstrap-server", lab.bootstrap_server, "--drop-hints"),
            *("--record", str(tmp_path / "run"), "--output", "json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tap:
        assert tap.stdout
        assert tap.stderr
        address = tap.stderr.readline().split()[3]
        spec = ProduceSpec(Access(address), OWN_TOPIC, num_records=200, throughput=200)
        measured(ProduceLoad(PerfPlan(probe=spec, partitions=3)), Listeners())
        tap.send_signal(signal.SIGINT)
        document = json.loads(tap.stdout.read())
        assert tap.wait(timeout=60) == 0
        assert tap.stderr.read() == ""
    assert document["conditions"] == {"drop_hints": True}
    assert document["cluster_id"] == lab.cluster_id
    assert len(document["listeners"]) == 3
    (client,) = (client for client in document["clients"] if client["client_id"] == "kipctl-perf")
    assert client["software_name"] == "kipctl"
    run = Run(tmp_path / "run")
    assert run.description["summary"].items() <= document.items()
    batches = [row for row in run.read("batches").to_pylist() if row["client"] == "kipctl-perf"]
    assert sum(row["records"] for row in batches) == 200
    assert client["requests"]["by_api"]["Produce"] == sum(
        row["api_key"] == 0 for row in run.read("rpcs").to_pylist()
    )
    assert all((tmp_path / "run" / dataset).is_dir() for dataset in DATASETS)


@pytest.mark.kafka
def test_a_program_that_cannot_listen_says_so_with_its_status(lab: Lab) -> None:
    taken = lab.bootstrap_server.split(",")[0]
    command = [*KIPCTL, "tap", "--bootstrap-server", lab.bootstrap_server, "--listen", taken]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert f"cannot listen at {taken}" in ended.stderr
    assert len(ended.stderr.splitlines()) <= 3
    assert ended.stdout == ""
