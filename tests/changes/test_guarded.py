"""Reassignments and elections under a guard, on a simulated cluster: held up, going on, given up.

What the guard looks at is a partition of a topic that the change has nothing to do with.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from many_brokers import ManyBrokers, many_brokers, uneven
from on_lab import Ran
from passing_clock import PassingClock
from reassigning import Held, Reassigning, Replicas, running

from kipctl.changes.plans.plan import Move, Plan
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cli.commands.guard import GuardOptions, read_guard
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.guard.session import add_canary_moves, guarded
from kipctl.load.plan import OWN_TOPIC
from kipctl.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kipctl.report.guard_tables import guard_table
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

ASTRAY = PartitionId("other", 0)
IMPATIENT = "--guard 'urp > 0' --guard-quiet 0s --guard-patience 0.1s"
PATIENT = "--guard 'urp > 0' --guard-quiet 0s --guard-patience 10m"
PACED = "--batch 1 --between 0s --yes -o json"
ROTATE = f"reassign --rotate --topic t {PACED}"
ELECT = f"elect preferred --topic t {PACED}"


@dataclass
class Suffering(Reassigning):
    """A partition apart from the change falls behind when so many requests that change the cluster
    have come, and is in sync again when all topics were looked at `heals_after` times since."""

    suffers_after: int = -1
    heals_after: int = 10**9
    looks_since: int = 0
    changing: int = 0
    meanwhile: int = 0
    """Requests that changed the cluster while it was behind."""

    def suffer_after(self, changing: int, heals_after: int = 10**9) -> None:
        self.suffers_after, self.heals_after = changing, heals_after
        self._suffer()

    @property
    def is_behind(self) -> bool:
        return self.partitions[ASTRAY].isr is not None

    def heal(self) -> None:
        self.partitions[ASTRAY].isr = None
        self.suffers_after = -1

    def _suffer(self) -> None:
        if self.changing == self.suffers_after:
            self.partitions[ASTRAY].isr = (1,)

    def _changed(self) -> None:
        self.meanwhile += self.is_behind
        self.changing += 1
        self._suffer()

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        answer = super()._metadata(request)
        if self.is_behind and request.topics is None:
            self.looks_since += 1
            if self.looks_since >= self.heals_after:
                self.heal()
        return answer

    def _alter(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        self._changed()
        return super()._alter(request)

    def _elect(self, request: ElectLeadersRequest, code: int) -> ElectLeadersResponse:
        self._changed()
        return super()._elect(request, code)

    def led_by_others(self) -> None:
        for partition, held in self.partitions.items():
            held.leader = 1 if partition == ASTRAY else 2

    def of_topic(self) -> list[tuple[Replicas, int]]:
        held = sorted(self.partitions.items())
        return [(now.replicas, now.leader) for partition, now in held if partition != ASTRAY]


@pytest.fixture
def fake(clock: PassingClock) -> Iterator[Suffering]:
    held = {PartitionId("t", n): Held((1, 2), 1) for n in range(3)}
    with running(fake := Suffering({**held, ASTRAY: Held((1, 2), 1)})):
        yield fake


def guard_of(ran: Ran) -> dict[str, Any]:
    seen: dict[str, Any] = ran.document["guard"]
    return seen


def test_copies_between_disks_wait_for_it_and_are_not_begun_where_it_gives_up(
    fake: Suffering,
) -> None:
    fake.log_dirs = ("/data", "/data2")
    path = fake.state / "disks.json"
    to = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["/data2", "any"]}
    path.write_text(json.dumps({"version": 1, "partitions": [to]}))
    fake.suffer_after(0)
    ran = fake.kipctl("reassign --plan", str(path), "--yes", IMPATIENT, status=4)
    assert "Nothing was changed." in ran.err
    assert (fake.disks_asked, fake.states()) == ([], ["refused"])


def test_it_is_looked_at_before_the_first_batch(fake: Suffering) -> None:
    fake.suffer_after(0)
    ran = fake.kipctl(ROTATE, IMPATIENT, status=4)
    assert "Given up after 0.1 s of patience" in ran.err
    assert "urp > 0 (now 1)" in ran.err
    assert "Nothing was changed." in ran.err
    assert (fake.altered, fake.elected) == ([], [])
    assert fake.states() == ["refused"]
    assert guard_of(ran)["is_given_up"] is True
    assert guard_of(ran)["conditions"][0]["crossed"] == 1


def test_crossed_it_is_held_up_and_goes_on_when_it_is_quiet(fake: Suffering) -> None:
    fake.suffer_after(2, heals_after=2)  # reordered and elected: one batch
    began = datetime.now(UTC)
    ran = fake.kipctl(ROTATE, PATIENT)
    assert fake.of_topic() == [((2, 1), 2)] * 3
    assert fake.meanwhile == 0
    assert len(fake.altered) == 3
    assert fake.states() == ["done"]
    assert "Paused: the guard is crossed: urp > 0 (now 1)" in ran.err
    assert "The guard is quiet: going on" in ran.err
    seen = guard_of(ran)
    assert (seen["pauses"], seen["is_given_up"], seen["conditions"][0]["worst"]) == (1, False, 1.0)
    worst_at = datetime.fromisoformat(seen["conditions"][0]["worst_at"])
    assert began <= worst_at <= datetime.now(UTC)
    when, paused = guard_table(ran.document["guard"]).notes
    assert when == f"The worst was seen: urp > 0 at {worst_at:%H:%M:%S} (UTC)."
    assert str(paused).startswith("It paused 1 time, ")


def test_no_leader_is_elected_while_it_is_crossed(fake: Suffering) -> None:
    fake.partitions = {part: fake.partitions[part] for part in (PartitionId("t", 0), ASTRAY)}
    fake.suffer_after(1, heals_after=2)
    fake.moves_at_once = False
    fake.looks = 3
    ran = fake.kipctl("reassign --drain 2", PACED, PATIENT)
    assert fake.meanwhile == 0
    assert guard_of(ran)["pauses"] == 1


def test_given_up_between_batches_it_is_gone_on_with_by_resume(fake: Suffering) -> None:
    fake.suffer_after(2)
    ran = fake.kipctl(ROTATE, IMPATIENT, status=5)
    assert "Of 3 partitions 1 has their new replicas" in ran.err
    named = fake.entries()[0].id
    assert ran.err.endswith(f"Go on: kipctl changes resume {named} or undo: kipctl undo {named}\n")
    assert fake.of_topic() == [((2, 1), 2), ((1, 2), 1), ((1, 2), 1)]
    assert fake.meanwhile == 0
    assert fake.states() == ["submitted"]
    told = ran.document
    assert (told["state"], told["rolled_back"]) == ("submitted", False)
    assert told["guard"]["is_given_up"] is True
    ran = fake.kipctl("changes resume --yes", status=5)  # by its guard, which is crossed still
    assert "Guarded as it was begun: urp > 0." in ran.err
    assert fake.meanwhile == 0
    fake.heal()
    again = fake.kipctl("changes resume --yes -o json")
    assert fake.of_topic() == [((2, 1), 2)] * 3
    assert fake.states() == ["done"]
    assert guard_of(again)["pauses"] == 0


@pytest.mark.parametrize("begun", [ROTATE, ELECT])
def test_a_guard_that_is_given_to_resume_is_taken_instead_of_its_own(
    fake: Suffering, begun: str
) -> None:
    if begun == ELECT:
        fake.led_by_others()
    fake.suffer_after(1 if begun == ELECT else 2)
    fake.kipctl(begun, IMPATIENT, status=5)
    ran = fake.kipctl("changes resume --yes --guard 'urp > 7' -o json")
    assert guard_of(ran)["conditions"][0]["condition"] == "urp > 7"
    assert fake.states() == ["done"]
    assert [leader for _, leader in fake.of_topic()] == ([1] if begun == ELECT else [2]) * 3


def test_given_up_it_is_rolled_back_if_that_was_asked(fake: Suffering) -> None:
    fake.suffer_after(4)
    ran = fake.kipctl(ROTATE, IMPATIENT, "--guard-action rollback", status=5)
    assert "Then it was undone: 2 partitions brought back." in ran.err
    assert set(fake.replicas().values()) == {(1, 2)}
    assert set(fake.leaders().values()) == {1}
    assert fake.states() == ["done", "undone"]
    nothing = fake.kipctl("changes resume")
    assert "Nothing is left to resume" in nothing.err
    told = ran.document
    assert (told["state"], told["rolled_back"], told["counts"]["done"]) == ("undone", True, 2)
    assert told["guard"]["is_given_up"] is True


def test_a_rollback_that_fails_is_told_and_can_be_repeated(fake: Suffering) -> None:
    fake.suffer_after(4)
    fake.changes = [lambda: None, lambda: None, lambda: fake.refused.update(fake.partitions)]
    ran = fake.kipctl(ROTATE, IMPATIENT, "--guard-action rollback", status=5)
    assert "It was not all undone: " in ran.err
    assert "Try again: kipctl undo" in ran.err
    fake.refused.clear()
    fake.kipctl("undo", PACED)
    assert set(fake.replicas().values()) == {(1, 2)}


def test_given_up_while_a_batch_is_copied(fake: Suffering) -> None:
    """What is on its way is left on it; a rollback cancels it and puts its throttle back."""
    drain = f"reassign --drain 2 --throttle 1MB/s --topic t {PACED} {IMPATIENT}"
    fake.suffer_after(1)
    fake.moves_at_once = False
    ran = fake.kipctl(drain, status=5)
    assert "2 have their old ones and 1 is under way" in ran.err
    assert [held.target is not None for held in fake.partitions.values()].count(True) == 1
    assert any(fake.configs.values())
    fake.kipctl("undo --yes")
    assert set(fake.replicas().values()) == {(1, 2)}
    assert not any(fake.configs.values())
    fake.altered.clear()
    fake.kipctl(drain, "--guard-action rollback", status=4)  # crossed from the first
    assert fake.altered == []
    fake.heal()
    fake.suffers_after = fake.changing + 1
    ran = fake.kipctl(drain, "--guard-action rollback", status=5)
    assert "Then it was undone" in ran.err
    assert set(fake.replicas().values()) == {(1, 2)}
    assert not any(held.target for held in fake.partitions.values())
    assert not any(fake.configs.values())


def test_while_it_is_crossed_no_further_move_of_a_batch_is_submitted(
    fake: Suffering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kipctl.guard.monitor._AT_LEAST_EVERY_S", 0.0)  # each time it is asked
    fake.suffer_after(1, heals_after=3)
    fake.moves_at_once = False
    fake.looks = 3
    ran = fake.kipctl("reassign --drain 2 --topic t --concurrent-moves 1 --yes -o json", PATIENT)
    assert [len(request) for request in fake.altered] == [1, 1, 1]
    assert fake.meanwhile == 0
    assert guard_of(ran)["pauses"] == 1


def test_the_time_for_the_whole_ends_in_a_pause_too(fake: Suffering) -> None:
    fake.suffer_after(0)
    ran = fake.kipctl(ROTATE, PATIENT, "--timeout 1", status=6)
    assert "The time allowed has ended in a pause: the guard is crossed: urp > 0" in ran.err
    assert "Nothing was changed." in ran.err
    assert fake.altered == []
    assert fake.states() == ["refused"]
    assert guard_of(ran)["is_given_up"] is False


@pytest.mark.parametrize("until", ["", "--until balanced"])
def test_elections_are_held_up_and_go_on(fake: Suffering, until: str) -> None:
    fake.led_by_others()
    fake.suffer_after(1, heals_after=2)
    ran = fake.kipctl(ELECT, until, PATIENT)
    assert [leader for _, leader in fake.of_topic()] == [1, 1, 1]
    assert (len(fake.elected), fake.meanwhile) == (3, 0)
    assert guard_of(ran)["pauses"] == 1


@pytest.mark.parametrize(
    ("suffers_after", "until", "status", "leaders", "said"),
    [
        (0, "", 4, [2, 2, 2], "Nothing was changed."),
        (1, "", 5, [1, 2, 2], "1 of 3 partitions is led by the preferred replica."),
        (0, "--until balanced", 4, [2, 2, 2], "Nothing was changed."),
        (1, "--until balanced", 5, [1, 2, 2], "1 of 3 partitions is led by the preferred replica."),
    ],
)
def test_elections_are_given_up(
    fake: Suffering, suffers_after: int, until: str, status: int, leaders: list[int], said: str
) -> None:
    fake.led_by_others()
    fake.suffer_after(suffers_after)
    ran = fake.kipctl(ELECT, until, IMPATIENT, status=status)
    assert said in ran.err
    assert [leader for _, leader in fake.of_topic()] == leaders
    assert fake.meanwhile == 0
    assert guard_of(ran)["is_given_up"] is True


@pytest.mark.parametrize("command", [ROTATE, ELECT])
def test_a_dry_run_shows_what_it_sees(fake: Suffering, command: str) -> None:
    fake.suffer_after(0)
    ran = fake.kipctl(command, IMPATIENT, "--guard 'offline > 0' --dry-run")
    assert fake.changing == 0
    shown = guard_of(ran)
    assert [(row["last"], row["crossed"]) for row in shown["conditions"]] == [(1.0, 1), (0.0, 0)]


def test_a_dry_run_names_the_guard_of_which_it_has_measured_nothing(fake: Suffering) -> None:
    ran = fake.kipctl(ROTATE, "--guard 'p99 > 50ms' --dry-run")
    (shown,) = guard_of(ran)["conditions"]
    assert (shown["condition"], shown["last"], shown["looks"]) == ("p99 > 50ms", None, 0)


def test_what_is_copied_does_not_count_as_under_replicated(clock: PassingClock) -> None:
    held, sizes = uneven(60, 6)
    large = ManyBrokers(held, tuple(range(1, 7)), sizes=sizes, copy_s=9.0, clock=clock.monotonic)
    with many_brokers(large):
        ran = large.kipctl("reassign --drain 1 --yes -o json", IMPATIENT)
    assert not any(1 in replicas for replicas in large.replicas().values())
    condition = guard_of(ran)["conditions"][0]
    assert (condition["crossed"], condition["worst"], condition["looks"] > 1) == (0, 0.0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("reassign --list --guard urp>0", "--guard goes only with --rotate or"),
        ("reassign --verify F --guard urp>0", "--guard goes only with --rotate or"),
        (
            "reassign --rotate --topic t --guard-action rollback",
            "--guard-action does nothing without --guard",
        ),
        (
            "reassign --rotate --topic t --metrics-url http://h:1/m",
            "--metrics-url does nothing without --guard",
        ),
        ("reassign --rotate --topic t --guard urp>0 --guard-action off", "is none of stop"),
        ("reassign --rotate --topic t --guard loud", "'loud' is no guard"),
        ("reassign --plan F --guard 'moved-wait p50>20ms'", "would see nothing: no leader"),
        ("changes resume --guard 'moved-wait p50>20ms'", "would see nothing: no leader"),
        ("elect preferred --all --guard 'moved-wait p50>20ms'", "would see nothing: no leader"),
        ("elect preferred --all --guard 'metric up<1'", "where metrics are is not known"),
        ("reassign --drain 1 --guard 'metric up<1'", "where metrics are is not known"),
        ("reassign --rotate --topic t --measure --guard p99>1s", "exclude one another"),
    ],
)
def test_a_guard_that_would_do_nothing_is_refused(fake: Suffering, words: str, said: str) -> None:
    ran = fake.kipctl(words, status=2)
    assert said in ran.err
    assert fake.changing == 0


@pytest.mark.parametrize(
    ("moves", "own", "batch", "in_batches"),
    [
        (4, 0, 2, "mm mm"),
        (4, 9, 4, "ommmm"),
        (4, 9, 2, "omm omm"),
        (5, 9, 2, "omm omm om"),
        (3, 9, 1, "om om om"),
        (3, 9, 10, "ommm"),
        (0, 9, 10, ""),
        # More batches than leaders that could move along.
        (8, 2, 2, "om mm mo mm mm"),
    ],
)
def test_one_of_the_canarys_leaders_moves_in_each_batch(
    moves: int, own: int, batch: int, in_batches: str
) -> None:
    def some(topic: str, count: int) -> tuple[Move, ...]:
        return tuple(Move(PartitionId(topic, n), (1, 2), (2, 1), 1) for n in range(count))

    plan, size = add_canary_moves(Plan(some("m", moves)), some("o", own), batch)
    batches = ["".join(move.id.topic for move in part.moves) for part in plan.batches(size)]
    assert " ".join(batches) == in_batches
    of_plan = [move for move in plan.moves if move.id.topic == "m"]
    assert of_plan == list(some("m", moves))


@pytest.mark.parametrize(("batch", "own"), [(2, 2), (1, 3), (10, 1)])
def test_the_canarys_leaders_move_along_and_are_no_part_of_the_plan(
    fake: Suffering, batch: int, own: int
) -> None:
    fake.partitions |= {PartitionId(OWN_TOPIC, n): Held((1, 2), 1) for n in range(4)}
    with Cluster(Access(fake.bootstrap_server), "test") as cluster:
        asked = read_guard(GuardOptions(["p99 > 1s"]), moves_along=True)
        watched = guarded(cluster, asked, print)
        now = take_snapshot(cluster)
        assert watched.without_canary(now) == now
        assert watched.with_canary_moves(rotate(now), batch) == (rotate(now), batch)  # no canary
        watched.has_canary = True
        left = watched.without_canary(now)
        assert set(left.topics) == {"t", "other"}
        plan = rotate(left.only(left.by_id.keys() - {ASTRAY}))
        whole, size = watched.with_canary_moves(plan, batch)
    topics = [move.id.topic for move in whole.moves]
    assert (topics.count("t"), topics.count(OWN_TOPIC), size) == (3, own, batch + 1)
