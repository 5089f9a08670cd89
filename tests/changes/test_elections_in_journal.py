"""Elections are changes as others: written down, listed, gone on with; but not undone."""

import pytest
from passing_clock import PassingClock
from reassigning import Held, Reassigning
from scripted_broker import HANG_UP

from kipctl.changes.journal.entry import ChangeKind, EntryState, Origin
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.elect_leaders import ElectLeadersRequest
from kipctl.protocol.error_codes import ErrorCode

T = [PartitionId("t", n) for n in range(6)]
REPLICAS = dict.fromkeys(T, (1, 2, 3))
ELECT = "elect preferred --topic t --yes"


@pytest.fixture(autouse=True)
def astray(fake: Reassigning) -> None:
    """Four of them are led by their second replica."""
    for partition in T[:4]:
        fake.partitions[partition] = Held((1, 2, 3), leader=2)


def test_an_election_is_in_the_journal_with_the_leaders_of_before(fake: Reassigning) -> None:
    fake.kipctl(ELECT)
    (entry,) = fake.entries()
    assert (entry.kind, entry.state) == (ChangeKind.ELECT_PREFERRED, EntryState.DONE)
    assert entry.leaders == dict.fromkeys(T[:4], 2)
    assert entry.before == entry.after == dict.fromkeys(T[:4], (1, 2, 3))
    assert not list(fake.kept.unfinished())
    (listed,) = fake.kipctl("changes list -o json").document["entries"]
    assert (listed["kind"], listed["state"]) == ("elect preferred", "done")
    shown = fake.kipctl("changes show -o json").document["partitions"]
    assert {(row["leader_before"], row["leader"]) for row in shown} == {(2, 1)}
    assert {row["state"] for row in shown} == {"led by its preferred replica"}


def test_where_nothing_is_to_be_elected_nothing_is_written_down(fake: Reassigning) -> None:
    for words in ("--topic t --dry-run", "--partition t:5 --yes"):
        fake.kipctl("elect preferred", words)
    assert fake.entries() == []


def test_it_has_no_way_back_and_what_to_do_instead_is_said(fake: Reassigning) -> None:
    fake.kipctl("reassign --drain 3 --yes")
    for partition in T[:4]:
        fake.partitions[partition].leader = 2
    fake.kipctl(ELECT)
    election, drain = fake.entries()
    ran = fake.kipctl("undo --yes", election.id, status=4)
    assert "is an election (elect preferred), which has no way back" in ran.err
    assert "kipctl reassign --leader t-0=2 --leader t-1=2 --leader t-2=2 and so on" in ran.err
    # The change before it is undone when it is named, or somebody says so.
    ran = fake.kipctl("undo --yes", status=4)
    assert f"The newest change, entry {election.id}, is an election" in ran.err
    assert f"kipctl undo {drain.id} --yes" in ran.err
    fake.kipctl("undo", typed="y\n")
    assert set(fake.replicas().values()) == {(1, 2, 3)}


@pytest.mark.parametrize("until", ["", "--until balanced --as-they-come"])
def test_what_was_cut_off_is_gone_on_with(
    fake: Reassigning, clock: PassingClock, until: str
) -> None:
    fake.stumbles[ElectLeadersRequest] = [0, *[HANG_UP] * 50]
    ran = fake.kipctl(ELECT, "--batch 2 --timeout 20", until, status=(3, 6))
    (entry,) = fake.entries()
    assert f"Go on: kipctl changes resume {entry.id}" in ran.err
    assert entry.may_be_resumed
    history = fake.kipctl("changes list").out
    done = "4 of 6" if until else "2 of 4"
    assert f"{done} partitions are led by their preferred replica" in history
    assert f"kipctl changes resume {entry.id}" in history
    assert f"undo {entry.id}" not in history
    fake.stumbles.clear()
    fake.kipctl("changes resume --yes")
    assert set(fake.leaders().values()) == {1}
    assert fake.states() == ["done"]
    assert "Nothing is left to resume" in fake.kipctl("changes resume").err


def test_an_election_of_the_same_partitions_ends_what_was_cut_off(fake: Reassigning) -> None:
    fake.stumbles[ElectLeadersRequest] = [HANG_UP] * 2
    fake.kipctl("elect preferred --partition t:0 --yes", status=(3, 6))
    fake.stumbles.clear()
    fake.kipctl(ELECT)
    assert fake.states() == ["done", "done"]


def test_what_the_cluster_refuses_as_a_whole_has_changed_nothing(fake: Reassigning) -> None:
    fake.stumbles[ElectLeadersRequest] = [int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    fake.kipctl(ELECT, status=4)
    assert fake.states() == ["refused"]
    assert "Nothing is left to resume" in fake.kipctl("changes resume").err


def test_a_pause_stops_it_between_two_batches(fake: Reassigning, clock: PassingClock) -> None:
    clock.meanwhile = [(lambda: len(fake.elected) == 1, lambda: fake.kipctl("changes pause"))]
    ran = fake.kipctl(ELECT, "--batch 2 --between 5s", status=5)
    assert "Paused: 1 of 2 batches is done." in ran.err
    assert "Go on: kipctl changes resume" in ran.err
    fake.kipctl("changes resume --yes")
    assert set(fake.leaders().values()) == {1}


def test_what_is_being_reassigned_is_left_alone(fake: Reassigning) -> None:
    fake.partitions[T[0]].target = (1, 2, 4)
    with fake.kept.locked(Origin(("reassign", "--drain", "3"), "bob", "bastion")):
        ran = fake.kipctl(ELECT)
    assert fake.elected == [set(T[1:4])]
    assert "Left alone, as 1 partition is being reassigned, by kipctl reassign --drain 3" in ran.err
    assert "such as t-0" in ran.err
    assert "What it reassigns is left alone." in ran.err


def test_an_unclean_election_is_not_gone_on_with(fake: Reassigning) -> None:
    was = fake.kept.save(REPLICAS, REPLICAS, kind=ChangeKind.ELECT_UNCLEAN)
    was.mark(EntryState.SUBMITTED)
    ran = fake.kipctl("changes resume --yes", was.id, status=4)
    assert "kipctl elect unclean --all --dry-run" in ran.err
    ran = fake.kipctl("undo --yes", was.id, status=4)
    assert "are lost" in ran.err
    assert "Nothing is left to resume" in fake.kipctl("changes resume").err
    assert fake.elected == []


def test_what_waits_for_a_broker_is_said_before_the_question(fake: Reassigning) -> None:
    """Such as at night, while a broker is down: an election does nothing for it."""
    fake.brokers = (2, 3, 4)
    ran = fake.kipctl("elect preferred --topic t --dry-run")
    assert (
        "4 of 4 partitions cannot be elected now: broker 1 is down. --until balanced waits"
        " for that." in ran.err
    )


def test_an_election_that_elects_nobody_is_refused_not_done(fake: Reassigning) -> None:
    fake.unelected = {*T[:4]}
    fake.kipctl(ELECT, status=4)
    assert fake.states() == ["refused"]


def cut_off(fake: Reassigning, words: str) -> None:
    """An election that ended before it had elected all."""
    fake.stumbles[ElectLeadersRequest] = [0, *[HANG_UP] * 50]
    fake.kipctl(words, "--yes --timeout 20", status=(3, 6))
    fake.stumbles.clear()


def test_one_that_elects_nobody_does_not_end_what_was_cut_off(
    fake: Reassigning, clock: PassingClock
) -> None:
    cut_off(fake, "elect preferred --partition t:0 --partition t:1 --batch 1 --until balanced")
    fake.unelected = {*T[:4]}
    fake.kipctl(ELECT, status=4)
    assert fake.states() == ["refused", "submitted"]
    fake.unelected = set()
    fake.kipctl("changes resume --yes")
    assert {fake.leaders()[partition] for partition in T[:2]} == {1}
    assert fake.states() == ["refused", "done"]


def test_one_that_was_gone_on_with_and_elects_nobody_more_was_not_refused(
    fake: Reassigning, clock: PassingClock
) -> None:
    cut_off(fake, "elect preferred --topic t --batch 2")
    fake.unelected = {*T[:4]}
    ran = fake.kipctl("changes resume --yes", status=4)
    assert "No partition was done" in ran.err
    assert fake.states() == ["done"]


def test_where_every_partition_has_to_wait_nobody_is_asked(fake: Reassigning) -> None:
    fake.brokers = (2, 3, 4)
    ran = fake.kipctl("elect preferred --topic t", typed="y\n", status=4)
    assert "[y/N]" not in ran.err
    assert "No partition can be elected now." in ran.err
    assert "Choose the same with --until balanced" in ran.err
    assert (fake.elected, fake.entries()) == ([], [])


def test_one_that_has_to_wait_altogether_stays_open(fake: Reassigning, clock: PassingClock) -> None:
    cut_off(fake, "elect preferred --topic t --batch 2")
    fake.brokers = (2, 3, 4)
    ran = fake.kipctl("changes resume --yes", status=4)
    assert f"Go on when they can: kipctl changes resume {fake.entries()[0].id}" in ran.err
    assert fake.states() == ["submitted"]
