"""What shells offer of topics, brokers, runs, clusters, arms: quietly, or nothing at all."""

import io
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kipctl.cli.complete import offered, values_of
from kipctl.cli.environment import Environment
from kipctl.cluster.topics import await_topic, create_topics, delete_topics
from kipctl.generate import generated_files
from kipctl.lab.cluster import Lab
from kipctl.report.formats import OutputFormat
from kipctl.transport.access import Access
from kipctl.transport.clusters import NamedCluster, add_cluster, clusters_file
from kipctl.transport.request import Cluster


def at(home: Path, servers: str = "127.0.0.1:1") -> Environment:
    """Two runs and a named cluster."""
    variables = {"XDG_CONFIG_HOME": str(home), "KIPCTL_RUNS": str(home / "runs")}
    for run in ("before", "before-2", "after"):
        (home / "runs" / run).mkdir(parents=True, exist_ok=True)
    add_cluster(clusters_file(variables), NamedCluster("east", servers))
    return Environment(stdin=io.StringIO(), stderr=io.StringIO(), variables=variables)


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("TOPIC", ("TOPIC",)),
        ("[NODE]...", ("NODE",)),
        ("BROKER,...", ("BROKER",)),
        ("BROKER|RACK", ("BROKER", "RACK")),
        ("CLUSTER|LAB", ("CLUSTER", "LAB")),
        ("NAME|DIR", ()),
        ("TOPIC:PARTITION", ("TOPIC:PARTITION",)),
        ("", ()),
    ],
)
def test_the_word_in_help_says_which_values_there_are(word: str, values: tuple[str, ...]) -> None:
    assert values_of(word) == values


@pytest.mark.parametrize(
    ("word", "line", "values"),
    [
        ("RUN...", "kipctl runs show ", ["after", "before", "before-2"]),
        ("RUN...", "kipctl runs remove after be", ["before", "before-2"]),
        ("CLUSTER|LAB", "kipctl inspect leaders --cluster=", ["east"]),
        ("CLUSTER", "kipctl clusters show w", []),
        ("ARM,...", "kipctl x --arms probe-kip", ["probe-kip951"]),
        ("ARM,...", "kipctl x --arms librdkafka,librd", ["librdkafka,librdkafka-1ms"]),
        ("[PAGE]", "kipctl explain under-", ["under-min-isr", "under-replicated"]),
        ("FINDING", "kipctl tap --fail-if hint-hot", ["hint-hot-loop"]),
        ("A", "kipctl runs compare bef", ["before", "before-2"]),
        ("CLIENT,...", "kipctl x --arms 'probe-l", ["probe-legacy"]),
        ("STATE,...", "kipctl wait --until in-sync,con", ["in-sync,converged"]),
        ("KEY,...", "kipctl analyze runs --by topic,pa", ["topic,partition"]),
        ("KEY,...", "kipctl analyze request-log --by so", ["software"]),
    ],
)
def test_what_folders_and_kipctl_itself_know(
    tmp_path: Path, word: str, line: str, values: list[str]
) -> None:
    assert offered(word, line, at(tmp_path)) == values


def test_a_name_that_a_shell_would_take_apart_is_not_offered(tmp_path: Path) -> None:
    for name in ("$(reboot)", "two words", "quote'd", "good"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert offered("RUN", "kipctl runs show ", at(tmp_path)) == [
        *("after", "before", "before-2", "good"),
    ]


def completing(line: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "kipctl", "__complete", "TOPIC", line],
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_cluster_that_does_not_answer_offers_nothing_and_says_nothing() -> None:
    with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as silent:
        closed.bind(("127.0.0.1", 0))
        for port in (closed.getsockname()[1], silent.getsockname()[1]):
            line = f"kipctl inspect leaders --bootstrap-server 127.0.0.1:{port} --topic o"
            assert completing(line) == (0, "", "")


@pytest.mark.parametrize(
    "line", ["kipctl x --cluster nosuch --topic o", "kipctl x --command-config /none --topic ", ""]
)
def test_a_line_that_is_wrong_offers_nothing_and_says_nothing(line: str) -> None:
    assert completing(line) == (0, "", "")


def in_bash(lines: Sequence[str], folder: Path, variables: Mapping[str, str]) -> list[list[str]]:
    """What bash offers at the end of each line, by the script and the kipctl of this test."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "kipctl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kipctl "$@"\n')
    program.chmod(0o755)
    script = f"{generated_files()['completions/kipctl.bash']}\n"
    for line in lines:
        words = re.split(r" |(?=[=:])|(?<=[=:])", line)  # "=" and ":" are words, as in bash
        script += (
            f"COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}\n"
            f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}\n"
            'COMPREPLY=(); _kipctl; echo "${COMPREPLY[*]}"\n'
        )
    shown = subprocess.run(
        ["bash", "-u", "-c", script],
        env={**os.environ, **variables, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr == ""
    return [offered.split() for offered in shown.stdout.splitlines()]


def test_bash_completes(tmp_path: Path) -> None:
    """Runs are asked of kipctl; all else stands in the script."""
    offers = {
        "kipctl la": ["lab"],
        "kipctl --v": ["--version"],
        "kipctl --debug lab stat": ["status"],
        "kipctl lab status --out": ["--output"],
        "kipctl lab status --output ": [*OutputFormat],
        "kipctl lab status -o j": ["json"],
        "kipctl lab status --output=c": ["csv"],
        "kipctl lab status --output=": [*OutputFormat],
        "kipctl lab up --kafka-version ": [],
        "kipctl no-such-command --x": [],
        "kipctl runs show be": ["before", "before-2"],
        "kipctl runs show --ou": ["--output"],
        "kipctl wait --until in-sync,con": ["in-sync,converged"],
        "kipctl runs show t:": ["0", "10"],
        "kipctl runs show t:1": ["10"],
        "kipctl reassign --leader orders:0=": [],
        "kipctl reassign --replace 1=": [],
        "kipctl runs show --output=json t:1 bef": ["before", "before-2"],
    }
    for name in ("t:0", "t:10"):  # a value with a colon in it, as topic:partition
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert in_bash([*offers], tmp_path, at(tmp_path).variables) == [*offers.values()]


@pytest.mark.kafka
def test_topics_brokers_and_racks_are_those_of_the_cluster_that_the_line_names(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kipctl.cli.complete.PATIENCE_S", 60.0)
    environment = at(tmp_path, lab.bootstrap_server)
    ids = sorted(str(node.id) for node in lab.nodes if node.id < 100)
    create_topics(lab.bootstrap_server, ["complete-me"], 1, 1)
    try:
        with Cluster(Access(lab.bootstrap_server)) as cluster:
            await_topic(cluster, "complete-me", 1)
        for named in (f"--bootstrap-server {lab.bootstrap_server}", "--cluster=east"):
            for word, ending, values in (
                ("TOPIC", "--topic complete-", ["complete-me"]),
                ("TOPIC:PARTITION", "--partition complete-me:", ["complete-me:0"]),
                ("BROKER", "--drain ", ids),
                ("BROKER", f"--broker {ids[0]} --broker ", ids),
                ("BROKER|RACK", "--leaders-off rack-1", ["rack-1"]),
                ("ENTRY", "undo never-", []),
            ):
                environment.connecting.clear()
                line = f"kipctl reassign {named} {ending}"
                assert offered(word, line, environment) == values, line
    finally:
        delete_topics(lab.bootstrap_server, ["complete-me"])
