"""`kipctl elect` on a scripted cluster: what is asked first, and what is sent after the answer."""

from functools import partial

import pytest
from electing_broker import ElectingCluster, partition

from kipctl.changes.journal.entry import ChangeKind, EntryState
from kipctl.cluster.snapshot import NO_LEADER, PartitionId
from kipctl.protocol.error_codes import ErrorCode


@pytest.fixture
def cluster() -> ElectingCluster:
    """Broker 7 is down: two partitions have lost their leader, and one of an internal topic."""
    cluster = ElectingCluster.of(
        partition("__transaction_state", 0, (7, 2), NO_LEADER, (7,)),
        partition("orders", 0, (7, 1, 2), NO_LEADER, (7,)),
        partition("orders", 1, (1, 2), leader=2),
        partition("orders", 2, (7, 3), NO_LEADER, (7,)),
        partition("orders", 3, (1, 2), leader=1),
    )
    cluster.log_ends = {PartitionId("orders", 0): 1234}
    return cluster


INTERNAL, LOST = PartitionId("__transaction_state", 0), PartitionId("orders", 0)
ASTRAY, OTHER = PartitionId("orders", 1), PartitionId("orders", 2)


def test_an_unclean_election_is_of_those_without_a_leader_alone(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect unclean --all --yes -o json")
    assert cluster.elected == [[LOST, OTHER]]
    assert (
        "Left alone without --internal: 1 partition of internal topics without a leader." in ran.err
    )
    assert [(p["partition"], p["leader"]) for p in ran.document["partitions"]] == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("options", "elected"),
    [
        ("--all --internal", [INTERNAL, LOST, OTHER]),
        ("--topic __transaction_state", [INTERNAL]),
        ("--partition orders:2", [OTHER]),
        ("--topic orders", [LOST, OTHER]),
    ],
)
def test_internal_topics_are_to_be_named_or_asked_for(
    cluster: ElectingCluster, options: str, elected: list[PartitionId]
) -> None:
    cluster.kipctl(f"elect unclean {options} --yes")
    assert cluster.elected == [elected]


def test_internal_goes_with_all(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect unclean --topic orders --internal --yes", status=2)
    assert "--internal goes only with --all" in ran.err


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("orders:7", "There is no partition orders-7"),
        ("nowhere:0", "There is no topic of partition nowhere-0"),
    ],
)
def test_partitions_that_do_not_exist_are_wrong_usage(
    cluster: ElectingCluster, named: str, said: str
) -> None:
    assert said in cluster.kipctl(f"elect preferred --partition {named}", status=2).err


@pytest.mark.parametrize("options", ["--yes", "--dry-run", ""])
def test_without_a_partition_that_has_no_leader_nothing_is_done(
    cluster: ElectingCluster, options: str
) -> None:
    ran = cluster.kipctl(f"elect unclean --partition orders:1 {options}")
    assert "0 of 1 partitions have no leader. Nothing was changed." in ran.out
    assert cluster.elected == []


@pytest.mark.parametrize("answer", ["y\n", "yes\n", "4\n", "\n", "02\n", ""])
def test_a_y_is_not_enough_for_what_cannot_be_undone(cluster: ElectingCluster, answer: str) -> None:
    ran = cluster.kipctl("elect unclean --topic orders", typed=answer, status=4)
    assert "Nothing was changed" in ran.err
    assert cluster.elected == []


def test_the_question_shows_what_may_be_lost_and_the_number_answers_it(
    cluster: ElectingCluster,
) -> None:
    ran = cluster.kipctl("elect unclean --topic orders", typed="2\n")
    assert "2 of 4 partitions have no leader." in ran.err
    assert "Nothing was changed" not in ran.err
    assert "Type 2: " in ran.err
    row = next(
        line for line in ran.err.splitlines() if line.startswith("orders") and "7, 1" in line
    )
    assert "1: 1,234, 2: 1,234" in row
    assert row.endswith("broker 7 (down) may have records from offset 1,234 on: they will be lost")
    assert cluster.elected == [[LOST, OTHER]]


def test_partitions_have_a_leader_again_that_had_none(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect unclean --topic orders --yes")
    assert ran.out.startswith("2 partitions have a leader again.")
    assert "Nothing was changed" not in ran.out + ran.err
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("orders")]
    assert [row[2:5] for row in rows] == [["elected", "none", "1"], ["elected", "none", "3"]]


@pytest.mark.parametrize("answer", ["--yes", ""])
def test_while_the_last_in_sync_may_come_back_it_takes_force(
    cluster: ElectingCluster, answer: str
) -> None:
    cluster.stopped = (7,)
    ran = cluster.kipctl(f"elect unclean --topic orders {answer}", typed="2\n", status=4)
    assert "Broker 7 was in sync last with orders-0 and 1 more, and may come back" in ran.err
    assert "Start it: no unclean election is needed then." in ran.err
    assert cluster.elected == []
    ran = cluster.kipctl("elect unclean --topic orders --dry-run")
    assert "It is refused without --force while brokers that may have been in sync" in ran.out
    cluster.kipctl(f"elect unclean --topic orders --force {answer}", typed="2\n")
    assert cluster.elected == [[LOST, OTHER]]


def test_an_unclean_election_is_in_the_journal_and_is_not_undone(cluster: ElectingCluster) -> None:
    cluster.kipctl("elect unclean --topic orders --dry-run")
    assert not list(cluster.kept.entries())
    cluster.kipctl("elect unclean --topic orders --force", typed="2\n")
    (entry,) = cluster.kept.entries()
    assert (entry.kind, entry.state) == (ChangeKind.ELECT_UNCLEAN, EntryState.DONE)
    assert entry.leaders == {LOST: NO_LEADER, OTHER: NO_LEADER}
    assert not list(cluster.kept.unfinished())
    assert "are lost" in cluster.kipctl("undo --yes", entry.id, status=4).err


def test_an_unclean_election_that_is_refused_as_a_whole_has_changed_nothing(
    cluster: ElectingCluster,
) -> None:
    cluster.codes = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    cluster.kipctl("elect unclean --topic orders --yes", status=4)
    (entry,) = cluster.kept.entries()
    assert (entry.state, cluster.elected) == (EntryState.REFUSED, [])


def test_what_has_a_leader_again_when_the_question_is_answered_is_left_alone(
    cluster: ElectingCluster,
) -> None:
    ran = cluster.kipctl(
        "elect unclean --topic orders", typed="2\n", meanwhile=lambda: cluster.lead(LOST, 7)
    )
    assert cluster.elected == [[OTHER]]
    assert "as they have a leader again or are gone: 1 partition." in ran.err


def test_what_another_broker_would_lead_when_the_question_is_answered_is_left_out(
    cluster: ElectingCluster,
) -> None:
    dies = partial(setattr, cluster, "brokers", (2, 3))
    ran = cluster.kipctl(
        "elect unclean --topic orders -o json", typed="2\n", meanwhile=dies, status=5
    )
    assert cluster.elected == [[OTHER]]
    assert "1 partition is done, 1 is not: orders-0: broker 2 would lead by now, not 1" in ran.err
    assert [row["partition"] for row in ran.document["partitions"]] == [2]


def test_without_any_that_is_as_it_was_shown_nothing_is_elected(cluster: ElectingCluster) -> None:
    dies = partial(setattr, cluster, "brokers", (2, 3))
    ran = cluster.kipctl(
        f"elect unclean --partition {LOST.topic}:0", typed="1\n", meanwhile=dies, status=4
    )
    assert "No partition was done: orders-0: broker 2 would lead by now, not 1" in ran.err
    assert "look at what would be lost again" in ran.err
    assert cluster.elected == []


def test_a_topic_that_is_deleted_while_the_question_stands_is_gone(
    cluster: ElectingCluster,
) -> None:
    cluster.kipctl(
        "elect unclean --topic orders", typed="2\n", meanwhile=lambda: cluster.delete("orders")
    )
    assert cluster.elected == []


def test_a_dry_run_shows_who_would_lead(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect unclean --topic orders --dry-run -o json")
    assert ran.document["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "replicas": [7, 1, 2],
        "live": [1, 2],
        "last_in_sync": [7],
        "log_ends": {"1": 1234, "2": 1234},
        "may_come_back": [],
        "would_lead": 1,
        "known_loss": 0,
        "loss": "broker 7 (down) may have records from offset 1,234 on: they will be lost",
    }
    assert cluster.elected == []


def test_what_is_shown_before_the_question_is_bounded() -> None:
    cluster = ElectingCluster.of(
        *(partition("many", n, (7, 1), NO_LEADER, (7,)) for n in range(300))
    )
    ran = cluster.kipctl("elect unclean --topic many", typed="no\n", status=4)
    assert sum(line.startswith("many") for line in ran.err.splitlines()) == 20
    assert "And 280 more" in ran.err


def test_a_preferred_election_asks_and_is_of_those_led_by_another(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect preferred --topic orders --partition x:1", status=2)
    cluster.delete("__transaction_state")
    for partition_id in (LOST, OTHER):
        cluster.lead(partition_id, 7)
    asked = "1 of 4 partitions, of topic orders, not led by the preferred replica."
    ran = cluster.kipctl("elect preferred --topic orders", status=2)
    assert asked in ran.err
    ran = cluster.kipctl("elect preferred --topic orders", typed="no\n", status=4)
    assert cluster.elected == []
    ran = cluster.kipctl("elect preferred --topic orders -o json", typed="y\n")
    assert cluster.elected == [[ASTRAY]]
    assert [(p["partition"], p["outcome"]) for p in ran.document["partitions"]] == [(1, "elected")]


@pytest.mark.parametrize("options", ["", "--dry-run", "--yes"])
def test_when_all_are_led_by_their_preferred_replica_nothing_is_asked(
    cluster: ElectingCluster, options: str
) -> None:
    ran = cluster.kipctl(f"elect preferred --partition orders:3 {options}")
    assert "Nothing to do: preferred replicas lead all of 1 partition." in ran.out
    assert cluster.elected == []


def test_a_broker_that_is_preferred_nowhere_gets_nothing_by_an_election(
    cluster: ElectingCluster,
) -> None:
    """As one whose leaders were taken off."""
    ran = cluster.kipctl("elect preferred --broker 3")
    assert "What --leaders-off has taken from them comes back by kipctl undo" in ran.out
    assert cluster.elected == []


def test_what_somebody_else_has_elected_meanwhile_is_left_alone(cluster: ElectingCluster) -> None:
    cluster.kipctl(
        "elect preferred --partition orders:1",
        typed="y\n",
        meanwhile=lambda: cluster.lead(ASTRAY, 1),
    )
    assert cluster.elected == []


def test_a_preferred_election_is_paced() -> None:
    cluster = ElectingCluster.of(*(partition("t", n, (1, 2), leader=2) for n in range(3)))
    cluster.kipctl("elect preferred --all --yes --batch 2 --between 0.01s")
    assert [len(batch) for batch in cluster.elected] == [2, 1]


def test_a_topic_that_is_deleted_meanwhile_is_said_to_be_gone() -> None:
    cluster = ElectingCluster.of(
        partition("t", 0, (1, 2), leader=2), partition("u", 0, (1, 2), leader=2)
    )
    cluster.after_election = lambda: cluster.delete("u")
    ran = cluster.kipctl("elect preferred --all --yes")
    assert "1 partition is gone (such as u-0)" in ran.out
