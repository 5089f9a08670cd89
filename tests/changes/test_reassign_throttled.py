"""`kipctl reassign --throttle`: set before anything is copied, and put back however it ends."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from reassigning import Reassigning

from kipctl.changes.execution.throttled_change import applies_to, entries_with_throttles
from kipctl.changes.journal.entry import Entry, EntryState, ExecutionOptions
from kipctl.changes.throttle import Change, Setting, Throttle
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.describe_configs import ResourceType

T = [PartitionId("t", n) for n in range(2)]
REPLICAS = dict.fromkeys(T, (1, 2, 3))
TOPIC, BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)
DRAIN = "reassign --drain 3 --yes --throttle 50MB/s"
RATES = dict.fromkeys(
    ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "50000000"
)
BEFORE = {
    (TOPIC, "t"): {"leader.replication.throttled.replicas": "*"},
    (BROKER, "1"): {"leader.replication.throttled.rate": "7"},
}


@pytest.fixture(autouse=True)
def throttled_before(fake: Reassigning) -> None:
    fake.configs = deepcopy(BEFORE)


def own(fake: Reassigning) -> dict[tuple[int, str], dict[str, str]]:
    return {resource: configs for resource, configs in fake.configs.items() if configs}


def notes(fake: Reassigning) -> list[Entry]:
    """The entries that have a throttle to put back."""
    return entries_with_throttles(fake.kept)


def test_it_is_there_while_data_is_copied_and_gone_afterwards(fake: Reassigning) -> None:
    seen = []
    fake.changes = [lambda: seen.append((deepcopy(fake.configs), len(notes(fake))))]
    ran = fake.kipctl(DRAIN)
    ((during, written),) = seen
    assert written == 1
    assert during[BROKER, "1"] == during[BROKER, "2"] == during[BROKER, "4"] == RATES
    assert during[TOPIC, "t"] == {
        "leader.replication.throttled.replicas": "*",
        "follower.replication.throttled.replicas": "0:4,1:4",
    }
    assert own(fake) == BEFORE
    assert notes(fake) == []
    assert "at most 50.0 MB/s in and out of each broker" in ran.err


def test_while_data_is_still_copied_it_stays_and_is_put_back_later(fake: Reassigning) -> None:
    """As after SIGKILL: what it replaced is written down."""
    fake.moves_at_once = False
    ran = fake.kipctl(DRAIN, "--timeout 20", status=6)
    assert "Data is still copied, so the throttle stays." in ran.err
    assert "kipctl changes clear-throttles" in ran.err
    assert fake.configs[BROKER, "4"] == RATES
    assert len(notes(fake)) == 1
    ran = fake.kipctl("changes clear-throttles --yes", status=4)
    assert "still being reassigned" in ran.err
    fake.finish()
    listed = fake.kipctl("changes clear-throttles --dry-run -o json").document
    assert len(listed["throttles"]) == 9
    assert fake.configs[BROKER, "4"] == RATES
    fake.moves_at_once = True
    ran = fake.kipctl("reassign --drain 2 --yes")
    assert "Throttles of earlier changes are still set." in ran.err
    fake.kipctl("changes clear-throttles --yes")
    assert own(fake) == BEFORE
    assert notes(fake) == []


def test_what_somebody_else_has_set_meanwhile_is_left_and_named(fake: Reassigning) -> None:
    fake.changes = [
        lambda: fake.configs[BROKER, "4"].update({"follower.replication.throttled.rate": "99"})
    ]
    ran = fake.kipctl(DRAIN, status=5)
    assert "STILL SET: follower.replication.throttled.rate of broker 4" in ran.err
    assert own(fake) == {**BEFORE, (BROKER, "4"): {"follower.replication.throttled.rate": "99"}}
    fake.kipctl("changes clear-throttles --yes --force", status=5)
    assert notes(fake) == []


def test_a_way_back_that_copies_is_throttled_too(fake: Reassigning) -> None:
    fake.kipctl("reassign --drain 3 --yes")
    seen = []
    fake.changes = [lambda: seen.append(deepcopy(fake.configs))]
    fake.kipctl("undo --yes --throttle 50MB/s")
    assert seen[0][BROKER, "3"] == RATES
    assert own(fake) == BEFORE
    assert set(fake.replicas().values()) == {(1, 2, 3)}


def test_without_data_to_copy_nothing_is_set(fake: Reassigning) -> None:
    fake.kipctl("reassign --drain 4 --yes --throttle 1MB/s")
    assert own(fake) == BEFORE
    ran = fake.kipctl("changes clear-throttles")
    assert "is still set" in ran.out


def test_a_refusal_puts_it_back(fake: Reassigning) -> None:
    fake.refused = set(T)
    fake.kipctl(DRAIN, status=4)
    assert own(fake) == BEFORE
    assert notes(fake) == []


def test_rates_stay_while_data_is_copied_that_was_throttled_for_good_before(
    fake: Reassigning,
) -> None:
    """Then the throttle has rates alone: the topic's replicas were as wanted already."""
    both = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    fake.configs = {(TOPIC, "t"): dict.fromkeys(both, "*")}
    before = deepcopy(fake.configs)
    fake.moves_at_once = False
    fake.kipctl(DRAIN, "--timeout 20", status=6)
    ran = fake.kipctl("changes clear-throttles --yes", status=4)
    assert "still being reassigned" in ran.err
    assert fake.configs[BROKER, "4"] == RATES
    fake.finish()
    fake.kipctl("changes clear-throttles --yes")
    assert own(fake) == before


class TestABrokerThatIsGone:
    """Drained, and gone before its throttle could be put back."""

    FORCED = "kipctl changes clear-throttles --force"

    @pytest.fixture(autouse=True)
    def gone(self, fake: Reassigning) -> None:
        fake.changes = [lambda: setattr(fake, "brokers", (1, 2, 4))]

    @pytest.mark.parametrize("way", ["--drain", "--plan", "undo"])
    def test_what_was_done_is_reported_all_the_same(self, fake: Reassigning, way: str) -> None:
        if way == "undo":
            fake.changes = []
            for one in T:
                fake.partitions[one].replicas = (1, 2, 4)
            fake.kipctl("reassign --add 3 --yes --topic t")
            fake.changes = [lambda: setattr(fake, "brokers", (1, 2, 4))]
        command = {
            "--drain": "reassign --drain 3",
            "--plan": f"reassign --plan {fake.plan_file(dict.fromkeys(T, (1, 2, 4)))}",
        }.get(way, way)
        ran = fake.kipctl(command, "--yes --throttle 50MB/s", status=5)
        assert "Undo: kipctl undo" in ran.out
        assert "Copied " in ran.out
        assert "STILL SET: leader.replication.throttled.rate of broker 3" in ran.err
        assert ran.err.splitlines()[-1].endswith(f"forget its throttle: {self.FORCED}")
        assert not any(3 in replicas for replicas in fake.replicas().values())

    def test_what_has_ended_is_not_said_to_go_on(self, fake: Reassigning) -> None:
        """An undo, followed, would copy all of it back."""
        fake.kipctl(DRAIN, status=5)
        for _ in range(2):  # the second time it is behind an entry that is newer
            ran = fake.kipctl("reassign --rotate --topic t --yes")
            assert "Throttles of earlier changes are still set." in ran.err
            assert "Broker 3 is away: if for good, with --force." in ran.err
            assert "Entry " not in ran.err
        ran = fake.kipctl("changes clear-throttles --yes", status=5)
        assert self.FORCED in ran.err
        ran = fake.kipctl("changes clear-throttles --yes --force", status=5)
        assert "STILL SET" in ran.err
        assert "--entity-name 3 --delete-config" in ran.err
        assert notes(fake) == []

    def test_behind_a_newer_change_that_was_cut_off_it_is_told_too(self, fake: Reassigning) -> None:
        fake.kipctl(DRAIN, status=5)
        newer = fake.kept.save(fake.replicas(), fake.replicas(), how=ExecutionOptions(1, 0.0, True))
        ran = fake.kipctl("reassign --rotate --topic t --yes")
        assert "Throttles of earlier changes are still set." in ran.err
        assert f"Entry {newer.id} was stopped before its end." in ran.err
        assert f"kipctl undo {newer.id}" in ran.err


@pytest.mark.parametrize(
    ("setting", "busy", "expected"),
    [
        (Setting("broker", "4", "leader.replication.throttled.rate"), (4, 1), True),
        (Setting("broker", "4", "leader.replication.throttled.rate"), (3, 1), False),
        (Setting("topic", "u", "leader.replication.throttled.replicas"), (3, 1), True),
        (Setting("topic", "t", "leader.replication.throttled.replicas"), (3, 1), False),
    ],
)
def test_what_a_throttle_holds_for(setting: Setting, busy: tuple[int, int], expected: bool) -> None:
    """Of a reassignment of topic u, by whomever; one of the entry's own partitions always."""
    throttle = Throttle((Change(setting, None, "1"),))
    entry = Entry(Path("x"), "x", "c", {T[0]: (1, 2)}, {}, EntryState.SUBMITTED, throttle=throttle)
    other, mine = (Reassignment(one, busy, busy[:1], ()) for one in (PartitionId("u", 0), T[0]))
    assert applies_to(entry, [other]) is expected
    assert applies_to(entry, [mine])
    assert not applies_to(entry, [])
    assert not applies_to(replace(entry, throttle=None), [mine])
