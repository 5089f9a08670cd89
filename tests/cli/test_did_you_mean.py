"""Whatever a command line misspells, the name that was probably meant is said."""

import re
from pathlib import Path

import pytest
from in_process import kipctl

from kipctl.cluster.moves.election_request import require_known
from kipctl.cluster.moves.election_until_balanced import preferred_on
from kipctl.cluster.moves.planners.options import brokers_of
from kipctl.cluster.moves.wait_conditions import Condition
from kipctl.cluster.snapshot import (
    Broker,
    Partition,
    PartitionId,
    Snapshot,
    select,
    take_snapshot,
)
from kipctl.cluster.topics import await_topic, create_topics, delete_topics
from kipctl.errors import ExitStatus, UsageError, did_you_mean
from kipctl.lab.cluster import Lab
from kipctl.trace.stored_runs import runs_folder
from kipctl.transport.access import Access
from kipctl.transport.clusters import NamedCluster, add_cluster, clusters_file
from kipctl.transport.request import Cluster

SNAPSHOT = Snapshot(
    "id",
    tuple(Broker(number, "localhost", number, f"rack-{number}") for number in (1, 2)),
    tuple(
        Partition(PartitionId(topic, 0), (1, 2), (1, 2), 1, 0)
        for topic in ("orders", "orders-dlq", "payments")
    ),
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("ordres", "orders"),
        ("order", "orders"),
        ("orders-dlx", "orders-dlq"),
        ("Payments", "payments"),
        ("inventory", ""),
        ("", ""),
    ],
)
def test_only_what_is_near_is_named(given: str, meant: str) -> None:
    expected = f" Did you mean '{meant}'?" if meant else ""
    assert did_you_mean(given, SNAPSHOT.topics) == expected


def refused(tmp_path: Path, *arguments: str) -> str:
    variables = {"XDG_CONFIG_HOME": str(tmp_path), "KIPCTL_RUNS": str(tmp_path / "runs")}
    add_cluster(clusters_file(variables), NamedCluster("staging-east", "127.0.0.1:1"))
    (runs_folder(variables) / "before-upgrade").mkdir(parents=True, exist_ok=True)
    said = kipctl(*arguments, **variables)
    assert said.status == ExitStatus.USAGE
    return said.err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("inspct brokers", "inspect"),
        ("rotate --topic orders", "kipctl reassign --rotate"),
        ("rollback", "kipctl reassign --rollback"),
        ("leaders", "kipctl inspect leaders"),
        ("undo", "kipctl reassign --rollback"),
        ("reassign --undo", "--rollback"),
        ("reassign --rotate --every 5s", "--between"),
        ("inspect leadrs", "leaders"),
        ("reassign --rotat", "--rotate"),
        ("perf produce --num-record 5", "--num-records"),
        ("inspect leaders --cluster staging-est", "staging-east"),
        ("clusters show stagingeast", "staging-east"),
        ("runs show before-upgrad", "before-upgrade"),
        ("analyze runs before-upgrde", "before-upgrade"),
        ("experiment redirect --arms probe-kip591", "probe-kip951"),
        ("experiment metadata --arms probe-legcy", "probe-legacy"),
    ],
)
def test_a_command_line_that_misspells_a_name(tmp_path: Path, line: str, meant: str) -> None:
    assert f"Did you mean '{meant}'?" in refused(tmp_path, *line.split())


def test_a_command_of_several_groups_is_said_to_be_in_each(tmp_path: Path) -> None:
    said = refused(tmp_path, "show")
    assert "'kipctl clusters show'" in said
    assert "'kipctl runs show'" in said


def test_a_missing_option_says_what_may_be_given(tmp_path: Path) -> None:
    said = refused(tmp_path, "wait")
    assert said.startswith("kipctl: Missing option '--until'. in-sync: every replica is in sync; ")
    for condition in Condition:
        assert f"{condition}: " in said


@pytest.mark.parametrize("command", ["show", "compare a"])
def test_a_missing_run_says_how_runs_are_listed(tmp_path: Path, command: str) -> None:
    said = refused(tmp_path, "runs", *command.split())
    assert said.startswith("kipctl: Missing argument ")
    assert "kipctl runs list" in said


@pytest.mark.parametrize("line", ["", "reassign", "inspect", "inspect leaders", "runs compare"])
def test_h_is_help(line: str) -> None:
    assert kipctl(*line.split(), "-h").status == ExitStatus.DONE


def test_a_command_that_is_nowhere_is_no_other(tmp_path: Path) -> None:
    assert refused(tmp_path, "frobnicate") == (
        "kipctl: No such command 'frobnicate'.\nSee `kipctl --help`.\n"
    )


def test_a_topic_and_a_glob_that_match_nothing() -> None:
    for pattern, near in (("ordes", "orders"), ("paymnts*", "payments")):
        with pytest.raises(UsageError, match=re.escape(f"Did you mean '{near}'?")):
            select(SNAPSHOT, [pattern])


def test_a_partition_of_a_misspelt_topic_and_of_a_right_one() -> None:
    with pytest.raises(UsageError, match=r"Did you mean 'payments'\?"):
        require_known([PartitionId("payment", 0)], SNAPSHOT)
    with pytest.raises(UsageError) as too_high:
        require_known([PartitionId("payments", 7)], SNAPSHOT)
    assert "Did you mean" not in str(too_high.value)


def test_a_rack_and_a_broker() -> None:
    with pytest.raises(UsageError, match=r"Did you mean 'rack-2'\?"):
        brokers_of(SNAPSHOT, "rack2")
    with pytest.raises(UsageError, match="There is no broker 9; there are 1, 2"):
        preferred_on(SNAPSHOT, [9])


@pytest.mark.kafka
def test_a_lab_and_a_topic_that_is_asked_for_by_its_name_alone(lab: Lab) -> None:
    with pytest.raises(UsageError, match=re.escape(f"Did you mean {lab.name!r}?")):
        Lab.load(f"{lab.name}s")
    create_topics(lab.bootstrap_server, ["misspelt-often"], 1, 1)
    try:
        with Cluster(Access(lab.bootstrap_server)) as cluster:
            await_topic(cluster, "misspelt-often", 1)
            with pytest.raises(UsageError, match=r"Did you mean 'misspelt-often'\?"):
                take_snapshot(cluster, ["mispelt-often"])
    finally:
        delete_topics(lab.bootstrap_server, ["misspelt-often"])
