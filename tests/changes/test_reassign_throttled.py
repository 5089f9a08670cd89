"""`kipctl reassign --throttle`: set before anything is copied, and put back however it ends."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from reassigning import Held, Reassigning

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


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("", "at most 50.0 MB/s in and out of each broker"),
        ("--throttle 7MB/s", "at most 7.0 MB/s in and out of each broker"),
        ("--no-throttle", "not throttled"),
    ],
)
def test_an_undo_copies_as_slowly_as_its_change_unless_it_is_told_otherwise(
    fake: Reassigning, option: str, said: str
) -> None:
    ran = fake.kipctl(DRAIN)
    assert f"Undo: kipctl undo {fake.entries()[0].id} (at most 50.0 MB/s a broker, as it was" in (
        ran.out
    )
    assert said in fake.kipctl("undo --dry-run", option).out
    seen = []
    fake.changes = [lambda: seen.append(deepcopy(fake.configs))]
    ran = fake.kipctl("undo --yes", option)
    assert said in ran.err
    assert (seen[0][BROKER, "2"].get("follower.replication.throttled.rate") is None) == (
        option == "--no-throttle"
    )
    assert own(fake) == BEFORE
    fake.kipctl("undo --yes --no-throttle --throttle 1MB/s", status=2)


def test_while_data_is_still_copied_it_stays_and_is_put_back_later(fake: Reassigning) -> None:
    """As after SIGKILL: what it replaced is written down."""
    fake.moves_at_once = False
    ran = fake.kipctl(DRAIN, "--timeout 20", status=6)
    assert "Data is still copied, so the throttle stays until" in ran.err
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
    assert notes(fake) == []
    assert "STILL SET: follower.replication.throttled.rate of broker 4" in ran.err
    assert own(fake) == {**BEFORE, (BROKER, "4"): {"follower.replication.throttled.rate": "99"}}
    ran = fake.kipctl("changes clear-throttles --yes")
    assert "clear-throttles --all" in ran.out


class TestWhatOthersSet:
    """Another tool, or a kipctl on another machine, throttles the same brokers."""

    OTHER = PartitionId("u", 0)

    @pytest.fixture(autouse=True)
    def another_copies(self, fake: Reassigning) -> None:
        """A partition of another topic is on its way to broker 4, at 7 B/s."""
        fake.partitions[self.OTHER] = Held((1, 2, 3), 1, target=(1, 2, 4))
        fake.configs[BROKER, "4"] = dict.fromkeys(RATES, "7")
        fake.moves_at_once = False

    def test_it_is_said_before_whose_rates_are_replaced_in_a_dry_run_too(
        self, fake: Reassigning
    ) -> None:
        ran = fake.kipctl("reassign --drain 3 --topic t --throttle 50MB/s --dry-run")
        assert "leader.replication.throttled.rate of broker 1: 7 B/s" in ran.err
        assert "50.0 MB/s takes its place" in ran.err
        assert "stay as they are" not in ran.err

    def test_a_rate_that_is_in_use_at_the_end_stays_without_an_error(
        self, fake: Reassigning
    ) -> None:
        def others_rate() -> None:
            fake.configs[BROKER, "4"] = dict.fromkeys(RATES, "5000000")
            fake.arriving = set(T)

        fake.changes = [others_rate]
        ran = fake.kipctl("reassign --drain 3 --topic t --throttle 50MB/s --additional --yes")
        assert fake.configs[BROKER, "4"] == dict.fromkeys(RATES, "5000000")
        assert (
            "of broker 4: somebody else has set it to 5.0 MB/s, and data is still copied there: it"
            " stays." in ran.err
        )
        assert "STILL SET" not in ran.err
        assert notes(fake) == []

    def test_the_rate_of_a_change_that_has_ended_is_not_set_again(self, fake: Reassigning) -> None:
        fake.changes = [lambda: setattr(fake, "moves_at_once", True)]
        ran = fake.kipctl("reassign --drain 3 --topic t --throttle 50MB/s --additional --yes")
        assert "was 7 B/s, of a reassignment that has ended since: it is not set again" in ran.err
        assert not fake.configs[BROKER, "4"]
        assert notes(fake) == []


def test_a_rate_that_somebody_changes_in_mid_copy_is_said_at_once(fake: Reassigning) -> None:
    fake.moves_at_once, fake.looks = False, 200

    def change() -> None:
        fake.configs[BROKER, "4"] = dict.fromkeys(RATES, "99000")

    fake.changes = [change]
    ran = fake.kipctl(DRAIN, status=(0, 5))
    said = [line for line in ran.err.splitlines() if "Somebody else has set" in line]
    assert len(said) == 1
    assert "of broker 4 to 99.0 kB/s, and so 1 more: it holds for what is copied" in said[0]


def test_what_others_have_taken_off_is_not_said_to_be_set(fake: Reassigning) -> None:
    """As kafka-reassign-partitions --verify does: the journal alone does not know."""
    fake.moves_at_once = False
    fake.kipctl(DRAIN, "--timeout 20", status=6)
    fake.finish()
    fake.moves_at_once = True
    fake.configs = {}
    ran = fake.kipctl("reassign --drain 2 --yes")
    assert "Throttles of earlier changes" not in ran.err
    ran = fake.kipctl("changes clear-throttles --yes")
    assert notes(fake) == []


class TestClearAll:
    """`changes clear-throttles --all`: what others have left, by name."""

    ALL = "changes clear-throttles --all"

    @pytest.fixture(autouse=True)
    def left(self, fake: Reassigning) -> None:
        fake.configs[BROKER, ""] = dict.fromkeys(RATES, "1000")

    def test_without_it_what_others_have_set_is_told(self, fake: Reassigning) -> None:
        ran = fake.kipctl("changes clear-throttles --yes")
        assert "No throttle of this user on this machine is still set." in ran.out
        assert "4 throttles that kipctl here has not set:" in ran.out
        assert "clear-throttles --all" in ran.out

    def test_it_shows_who_set_what_and_kafkas_own_lines(self, fake: Reassigning) -> None:
        before = deepcopy(fake.configs)
        ran = fake.kipctl(self.ALL, "--dry-run")
        assert "leader.replication.throttled.rate of all brokers" in ran.out
        assert "not kipctl here" in ran.out
        assert (
            f"kafka-configs --bootstrap-server {fake.bootstrap_server} --alter --entity-type"
            " brokers --entity-default --delete-config" in ran.out
        )
        assert "--entity-type topics --entity-name t --delete-config" in ran.out
        assert fake.configs == before

    def test_it_takes_all_of_them_off(self, fake: Reassigning) -> None:
        fake.kipctl(self.ALL, "--yes")
        assert own(fake) == {}

    def test_while_something_is_reassigned_under_them_it_is_refused(
        self, fake: Reassigning
    ) -> None:
        fake.partitions[T[0]].target = (1, 2, 4)
        ran = fake.kipctl(self.ALL, "--yes", status=4)
        assert "still being reassigned" in ran.err
        assert own(fake) != {}

    def test_while_a_broker_catches_up_under_them_it_is_refused(self, fake: Reassigning) -> None:
        fake.partitions[T[0]].isr = (1, 2)
        ran = fake.kipctl(self.ALL, "--yes", status=4)
        assert "Broker 3 catches up under them: 1 partition (t-0) out of sync." in ran.err
        fake.kipctl(self.ALL, "--yes --force")
        assert own(fake) == {}


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
            for partition in T:
                fake.partitions[partition].replicas = (1, 2, 4)
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
        assert "When broker 3 is back: kipctl changes clear-throttles --all" in ran.err
        assert notes(fake) == []

    def test_only_what_is_left_of_it_is_asked_about(self, fake: Reassigning) -> None:
        fake.kipctl(DRAIN, status=5)
        ran = fake.kipctl("changes clear-throttles", typed="y\n", status=5)
        (entry,) = fake.entries()
        assert f"2 settings of broker 3, set by entry {entry.id}" in ran.err
        assert "Remove 2 throttles?" in ran.err
        assert "0 of 2 throttles are removed." in ran.out
        assert "the running kipctl" not in ran.out

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
    other = Reassignment(PartitionId("u", 0), busy, busy[:1], ())
    mine = replace(other, id=T[0])
    assert applies_to(entry, [other]) is expected
    assert applies_to(entry, [mine])
    assert not applies_to(entry, [])
    assert not applies_to(replace(entry, throttle=None), [mine])
