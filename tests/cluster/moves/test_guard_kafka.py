"""What moves leaders that are not kipctl's own, or makes many topics, is asked for on a cluster."""

import json

import pytest
from no_own_topics import await_no_own_topics
from on_lab import Kipctl, MakeTopic, leaders_of

from kipctl.lab.cluster import Lab
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's lab is taken for somebody's cluster."""
    monkeypatch.setattr("kipctl.runs.actions.running_labs", list)


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (
            "perf produce --topic guarded --num-records 9 --throughput 5 --record-size 9"
            " --during rotate",
            "--during rotate moves the leaders of 2 partitions of topic 'guarded'",
        ),
        (
            "perf produce --topic guarded --num-records 9 --throughput 5 --record-size 9"
            " --during elect --force",
            "--during elect moves the leaders",
        ),
        ("perf e2e --topic guarded --num-records 9 --during reassign", "--during reassign moves"),
        ("perf consume --topic guarded --num-records 9 --during rotate", "--during rotate moves"),
        ("perf metadata --topics 50", "It makes 50 topics with 300 replicas in all"),
        ("experiment metadata --topics 50 --arms probe-kip526", "It makes 50 topics"),
        ("inspect metadata --measure-convergence", "--measure-convergence makes a topic of 30"),
    ],
)
@pytest.mark.usefixtures("production")
def test_it_asks_before_anything_is_done_and_says_on_which_cluster(
    command: str,
    question: str,
    lab: Lab,
    cluster: Cluster,
    kipctl: Kipctl,
    make_topic: MakeTopic,
) -> None:
    make_topic("guarded", [[1, 2], [2, 3]])
    more = ("--bootstrap-server", lab.bootstrap_server) if "experiment" in command else ()
    ran = kipctl(*command.split(), *more)
    assert (ran.status, ran.out) == (2, "")
    assert question in ran.err
    assert f"id {lab.cluster_id}, at {lab.bootstrap_server}" in ran.err
    assert ran.err.endswith("Repeat with --yes.\n")
    assert leaders_of(cluster, "guarded") == [1, 2]
    await_no_own_topics(cluster)


@pytest.mark.usefixtures("production")
def test_who_says_yes_is_not_asked(cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic) -> None:
    make_topic("guarded", [[1, 2], [2, 3]])
    ran = kipctl("inspect", "metadata", "--measure-convergence", "--moves", "1", "--yes")
    assert ran.status == 0, ran.err
    words = "--topic guarded --num-records 60 --throughput 30 --record-size 9 --partitions 1"
    more = "--during rotate --every 0.5 --count 1 --yes"
    ran = kipctl("perf", "produce", *words.split(), *more.split())
    assert ran.status == 0, ran.err
    assert leaders_of(cluster, "guarded") == [2, 3]
    await_no_own_topics(cluster)


@pytest.mark.usefixtures("production")
def test_a_topic_that_is_not_there_is_not_asked_about(kipctl: Kipctl) -> None:
    ran = kipctl(
        *[
            "perf",
            "consume",
            "--topic",
            "nowhere",
            "--num-records",
            "9",
            "--during",
            "rotate",
            "--yes",
        ]
    )
    assert ran.status == 2
    assert "There is no topic 'nowhere'." in ran.err


@pytest.mark.parametrize(
    "command",
    [
        "inspect leaders",
        "inspect hints",
        "inspect brokers",
        "inspect metadata",
        "inspect replica-selection",
        "request-log status",
        "request-log off",
        "elect preferred --all --dry-run",
        "perf produce --num-records 9 --throughput -1 --record-size 9 --partitions 1",
        "clusters test",
    ],
)
def test_every_document_says_which_cluster_it_is_about(
    command: str, lab: Lab, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    make_topic("guarded", [[1, 2], [2, 3]])
    ran = kipctl(*command.split(), "-o", "json")
    assert ran.status == 0, ran.err
    assert json.loads(ran.out)["_cluster"] == {
        "name": "",
        "id": lab.cluster_id,
        "bootstrap_servers": lab.bootstrap_server,
    }
