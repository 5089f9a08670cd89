"""Whatever a command line misspells, the name that was probably meant is said."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from in_process import kipctl

from kipctl.changes.execution.election_until_balanced import preferred_on
from kipctl.changes.plans.plan import require_partitions
from kipctl.changes.plans.planners.options import brokers_of
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


def test_of_two_that_are_equally_near_none_is_named() -> None:
    assert did_you_mean("rack-9", ["rack-1", "rack-2"]) == ""
    assert did_you_mean("rack-11", ["rack-1", "rack-2"]) == " Did you mean 'rack-1'?"


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
        ("rollback", "kipctl undo"),
        ("leaders", "kipctl inspect leaders"),
        ("history", "kipctl changes list"),
        ("undoo", "undo"),
        ("reassign --undo", "kipctl undo"),
        ("cancel", "kipctl changes cancel"),
        ("undo --all", "kipctl changes list"),
        ("reassign --execute", "kipctl reassign --plan FILE"),
        ("elect --election-type preferred", "kipctl elect preferred"),
        ("elect preferred --all-topic-partitions", "kipctl elect preferred --all"),
        ("reassign --entry x", "kipctl undo ENTRY"),
        ("reassign --pause", "kipctl changes pause"),
        ("reassign --rollback", "kipctl undo"),
        ("reassign undo", "kipctl changes undo"),
        ("reassign rotate", "--rotate"),
        ("reassign --reassignment-json-file f", "kipctl reassign --plan FILE"),
        ("elect preferred --path-to-json-file f", "kipctl elect preferred --json-file FILE"),
        ("reassign --rotate --every 5s", "--between"),
        ("inspect leadrs", "leaders"),
        ("inspect broker", "brokers"),
        ("reassign --concurrent 5", "--concurrent-moves"),
        ("reassign --preview", "--dry-run"),
        ("elect --preferred", "kipctl elect preferred"),
        ("elect --broker 3", "kipctl elect preferred --broker BROKER"),
        ("throttle --clear", "kipctl throttle clear"),
        ("throttle list", "kipctl throttle show"),
        ("throttle remove", "kipctl throttle clear' or 'kipctl changes clear-throttles"),
        ("changes undo --all", "kipctl changes list"),
        ("changes stop", "kipctl changes pause' or 'kipctl changes cancel"),
        ("roll --cancel", "kipctl changes pause' or 'kipctl roll --abandon"),
        ("roll 3", "--broker 3"),
        ("restart 3", "kipctl roll' or 'kipctl lab restart"),
        ("reassign --rotate orders", "--topic orders"),
        ("elect preferred orders:3", "--partition orders:3"),
        ("lab down mine", "--name mine"),
        ("health", "kipctl inspect brokers' or 'kipctl roll --dry-run"),
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


@pytest.mark.parametrize(
    "line",
    [
        *("reassign --from 3", "reassign --broker 3", "reassign --demote 3", "undo --last"),
        *("reassign plan.json", "perf produce 1000", "wait 1,2"),
    ],
)
def test_no_option_is_proposed_that_only_looks_a_little_like_it(tmp_path: Path, line: str) -> None:
    """--rotate, which moves leaders, is no answer to --broker, nor --force to --from."""
    assert "Did you mean '--" not in refused(tmp_path, *line.split())


@pytest.mark.parametrize(
    ("line", "begins", "says"),
    [
        # A command of several groups is said to be in each.
        ("show", "kipctl: No such command", ("'kipctl clusters show'", "'kipctl runs show'")),
        # Who types that looks for what goes on in the cluster, before anything else.
        (
            *("status", "kipctl: No such command 'status'. Did you mean 'kipctl' or"),
            ("'kipctl changes list'", "'kipctl throttle show'"),
        ),
        ("stop", "kipctl: No such command 'stop'. Did you mean 'kipctl changes pause'", ()),
        (
            "--cluster prod inspect leaders",
            "kipctl: There is no option --cluster.",
            ("as in: kipctl COMMAND --cluster ...",),
        ),
        (
            *(
                "clusters add x",
                "kipctl: Missing option '--bootstrap-server'. Brokers to ask first.",
            ),
            [],
        ),
        ("runs show", "kipctl: Missing argument ", ["kipctl runs list"]),
        ("runs compare a", "kipctl: Missing argument ", ["kipctl runs list"]),
    ],
)
def test_what_is_missing_or_in_several_groups_is_said(
    tmp_path: Path, line: str, begins: str, says: Sequence[str]
) -> None:
    said = refused(tmp_path, *line.split())
    assert said.startswith(begins)
    assert [word for word in says if word not in said] == []


@pytest.mark.parametrize("line", ["", "reassign", "inspect", "inspect leaders", "runs compare"])
def test_h_is_help(line: str) -> None:
    assert kipctl(*line.split(), "-h").status == ExitStatus.DONE


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: select(SNAPSHOT, ["ordes"]), "Did you mean 'orders'?"),
        (lambda: select(SNAPSHOT, ["paymnts*"]), "Did you mean 'payments'?"),
        (
            lambda: require_partitions(SNAPSHOT, [PartitionId("payment", 0)]),
            "Did you mean 'payments'?",
        ),
        (lambda: require_partitions(SNAPSHOT, [PartitionId("payments", 7)]), "payments"),
        (lambda: brokers_of(SNAPSHOT, "rack2"), "Did you mean 'rack-2'?"),
        (lambda: preferred_on(SNAPSHOT, [9]), "There is no broker 9; there are 1, 2"),
    ],
)
def test_a_topic_a_partition_a_rack_and_a_broker(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as refusal:
        ask()
    assert ("Did you mean" in str(refusal.value)) == said.startswith("Did")


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
