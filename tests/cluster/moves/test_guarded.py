"""Reassignments and elections under a guard, on a simulated cluster: held up, going on, given up.

What the guard looks at is a partition of a topic that the change has nothing to do with.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from many_brokers import ManyBrokers, many_brokers, uneven
from on_lab import Kipctl, Ran
from reassigning import VERSIONS, Held, Reassigning, Replicas, kipctl_on
from scripted_broker import ScriptedBroker

from kipctl.cli.environment import Environment
from kipctl.cli.guard import GuardOptions, guarded, read_guard
from kipctl.cluster.moves.plan import Move, Plan
from kipctl.cluster.moves.planners.rotate_leaders import rotate
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.guard.canary_moves import add_canary_moves
from kipctl.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kipctl.runs.plan import OWN_TOPIC
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

ASTRAY = PartitionId("other", 0)
GUARD = ("--guard", "urp > 0", "--guard-quiet", "0s")
IMPATIENT = (*GUARD, "--guard-patience", "0.1s")
PATIENT = (*GUARD, "--guard-patience", "10m")
PACED = ("--batch", "1", "--between", "0s", "--yes", "-o", "json")
ROTATE = ("reassign", "--rotate", "--topic", "t", *PACED)
ELECT = ("elect", "preferred", "--topic", "t", *PACED)


@dataclass
class Suffering(Reassigning):
    """A partition apart from the change falls behind when so many requests that change the cluster
    have come, and is in sync again when all topics were looked at `heals_after` times since."""

    suffers_after: int = 0
    heals_after: int = 10**9
    looks_since: int = 0
    changing: int = 0
    meanwhile: int = 0
    """Requests that changed the cluster while it was behind."""

    def __post_init__(self) -> None:
        self.partitions[ASTRAY] = Held((1, 2), 1)
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


@dataclass
class World:
    """The cluster, command lines on it, and what they say."""

    fake: Suffering
    kipctl: Kipctl
    before: dict[PartitionId, Replicas] = field(default_factory=dict)
    led: dict[PartitionId, int] = field(default_factory=dict)

    def of_topic(self) -> list[tuple[Replicas, int]]:
        held = self.fake.partitions
        return [(held[one].replicas, held[one].leader) for one in sorted(held) if one != ASTRAY]

    def states(self) -> list[str]:
        """Of the journal's entries, the newest first."""
        told = json.loads(self.kipctl("reassign", "--history", "-o", "json").out)
        return [entry["state"] for entry in told["entries"]]


@contextmanager
def world(folder: Path, leaders: Replicas = (1, 1, 1), **how: Any) -> Iterator[World]:
    held = {PartitionId("t", n): Held((1, 2), leader) for n, leader in enumerate(leaders)}
    fake = Suffering(held, **how)
    with ScriptedBroker(fake.answer, VERSIONS) as broker:
        fake.port = broker.port
        yield World(fake, kipctl_on(broker, folder), fake.replicas(), fake.leaders())


def guard_of(ran: Ran) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(ran.out)["guard"]
    return seen


def test_it_is_looked_at_before_the_first_batch(tmp_path: Path) -> None:
    with world(tmp_path, suffers_after=0) as w:
        ran = w.kipctl(*ROTATE, *IMPATIENT)
        assert ran.status == 4
        assert "Given up after 0.1 s of patience" in ran.err
        assert "urp > 0 (now 1)" in ran.err
        assert "Nothing was changed." in ran.err
        assert (w.fake.altered, w.fake.elected) == ([], [])
        assert w.states() == ["refused"]
    assert guard_of(ran)["given_up"] is True
    assert guard_of(ran)["conditions"][0]["crossed"] == 1


def test_crossed_it_is_held_up_and_goes_on_when_it_is_quiet(tmp_path: Path) -> None:
    with world(tmp_path, suffers_after=2, heals_after=2) as w:  # reordered and elected: one batch
        ran = w.kipctl(*ROTATE, *PATIENT)
        assert ran.status == 0, ran.err
        assert w.of_topic() == [((2, 1), 2)] * 3
        assert w.fake.meanwhile == 0
        assert len(w.fake.altered) == 3
        assert w.states() == ["done"]
    assert "Paused: the guard is crossed: urp > 0 (now 1)" in ran.err
    assert "The guard is quiet: going on" in ran.err
    seen = guard_of(ran)
    assert (seen["pauses"], seen["given_up"], seen["conditions"][0]["worst"]) == (1, False, 1.0)


def test_no_leader_is_elected_while_it_is_crossed(tmp_path: Path) -> None:
    with world(tmp_path, leaders=(1,), suffers_after=1, heals_after=2) as w:
        w.fake.moves_at_once = False
        w.fake.looks = 3
        ran = w.kipctl("reassign", "--drain", "2", *PACED, *PATIENT)
        assert ran.status == 0, ran.err
        assert w.fake.meanwhile == 0
    assert guard_of(ran)["pauses"] == 1


def test_given_up_between_batches_it_is_gone_on_with_by_resume(tmp_path: Path) -> None:
    with world(tmp_path, suffers_after=2) as w:
        ran = w.kipctl(*ROTATE, *IMPATIENT)
        assert ran.status == 5
        assert "Of 3 partitions 1 have their new replicas" in ran.err
        assert ran.err.endswith(
            "Go on: kipctl reassign --resume. Undo: kipctl reassign --rollback\n"
        )
        assert w.of_topic() == [((2, 1), 2), ((1, 2), 1), ((1, 2), 1)]
        assert w.fake.meanwhile == 0
        assert w.states() == ["submitted"]
        told = json.loads(ran.out)
        assert (told["state"], told["rolled_back"]) == ("submitted", False)
        assert told["guard"]["given_up"] is True
        again = w.kipctl("reassign", "--resume", "--yes", "-o", "json", *IMPATIENT)
        assert again.status == 5  # it is crossed still
        assert w.fake.meanwhile == 0
        w.fake.heal()
        again = w.kipctl("reassign", "--resume", "--yes", "-o", "json", *IMPATIENT)
        assert again.status == 0, again.err
        assert w.of_topic() == [((2, 1), 2)] * 3
        assert w.states() == ["done"]
        assert guard_of(again)["pauses"] == 0


def test_given_up_it_is_rolled_back_if_that_was_asked(tmp_path: Path) -> None:
    with world(tmp_path, suffers_after=4) as w:
        ran = w.kipctl(*ROTATE, *IMPATIENT, "--guard-action", "rollback")
        assert ran.status == 5
        assert "Then it was rolled back: 2 partitions brought back." in ran.err
        assert w.fake.replicas() == w.before
        assert w.fake.leaders() == w.led
        assert w.states() == ["done", "undone"]
        nothing = w.kipctl("reassign", "--resume")
        assert "Nothing is left to resume" in nothing.err
    told = json.loads(ran.out)
    assert (told["state"], told["rolled_back"], told["counts"]["done"]) == ("undone", True, 2)
    assert told["guard"]["given_up"] is True


def test_a_rollback_that_fails_is_told_and_can_be_repeated(tmp_path: Path) -> None:
    with world(tmp_path, suffers_after=4) as w:
        w.fake.changes = [lambda: None, lambda: None, lambda: w.fake.refused.update(w.before)]
        ran = w.kipctl(*ROTATE, *IMPATIENT, "--guard-action", "rollback")
        assert ran.status == 5
        assert "It was not all rolled back: " in ran.err
        assert "Try again: kipctl reassign --rollback" in ran.err
        w.fake.refused.clear()
        assert w.kipctl("reassign", "--rollback", *PACED).status == 0
        assert w.fake.replicas() == w.before


def test_given_up_while_a_batch_is_copied(tmp_path: Path) -> None:
    """What is on its way is left on it; a rollback cancels it and puts its throttle back."""
    drain = ("reassign", "--drain", "2", "--throttle", "1MB/s", *PACED, *IMPATIENT)
    with world(tmp_path, suffers_after=1) as w:
        w.fake.moves_at_once = False
        ran = w.kipctl(*drain, "--topic", "t")
        assert ran.status == 5
        assert "2 their old ones and 1 are under way" in ran.err
        assert [held.target is not None for held in w.fake.partitions.values()].count(True) == 1
        assert any(w.fake.configs.values())
        assert w.kipctl("reassign", "--rollback", "--yes").status == 0
        assert w.fake.replicas() == w.before
        assert not any(w.fake.configs.values())
        w.fake.altered.clear()
        ran = w.kipctl(*drain, "--topic", "t", "--guard-action", "rollback")
        assert ran.status == 4  # crossed from the first: nothing was begun
        assert w.fake.altered == []
        w.fake.heal()
        w.fake.suffers_after = w.fake.changing + 1
        ran = w.kipctl(*drain, "--topic", "t", "--guard-action", "rollback")
        assert ran.status == 5
        assert "Then it was rolled back" in ran.err
        assert w.fake.replicas() == w.before
        assert not any(held.target for held in w.fake.partitions.values())
        assert not any(w.fake.configs.values())


def test_while_it_is_crossed_no_further_move_of_a_batch_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kipctl.guard.monitor._AT_LEAST_EVERY_S", 0.0)  # each time it is asked
    with world(tmp_path, suffers_after=1, heals_after=3) as w:
        w.fake.moves_at_once = False
        w.fake.looks = 3
        ran = w.kipctl(
            *("reassign", "--drain", "2", "--topic", "t", "--concurrent-moves", "1", "--yes"),
            *("-o", "json", *PATIENT),
        )
        assert ran.status == 0, ran.err
        assert [len(one) for one in w.fake.altered] == [1, 1, 1]
        assert w.fake.meanwhile == 0
    assert guard_of(ran)["pauses"] == 1


def test_the_time_for_the_whole_ends_in_a_pause_too(tmp_path: Path) -> None:
    with world(tmp_path, suffers_after=0) as w:
        ran = w.kipctl(*ROTATE, *PATIENT, "--timeout", "1")
        assert ran.status == 6
        assert "The time allowed has ended in a pause: the guard is crossed: urp > 0" in ran.err
        assert "Nothing was changed." in ran.err
        assert w.fake.altered == []
        assert w.states() == ["refused"]
    assert guard_of(ran)["given_up"] is False


@pytest.mark.parametrize("until", [(), ("--until", "balanced")])
def test_elections_are_held_up_and_go_on(tmp_path: Path, until: tuple[str, ...]) -> None:
    with world(tmp_path, (2, 2, 2), suffers_after=1, heals_after=2) as w:
        ran = w.kipctl(*ELECT, *until, *PATIENT)
        assert ran.status == 0, ran.err
        assert [leader for _, leader in w.of_topic()] == [1, 1, 1]
        assert (len(w.fake.elected), w.fake.meanwhile) == (3, 0)
    assert guard_of(ran)["pauses"] == 1


@pytest.mark.parametrize(
    ("suffers_after", "until", "status", "leaders", "said"),
    [
        (0, (), 4, [2, 2, 2], "No leader was moved."),
        (1, (), 5, [1, 2, 2], "1 of 3 partitions have had their election; 2 have not."),
        (0, ("--until", "balanced"), 4, [2, 2, 2], "No leader was moved."),
        (1, ("--until", "balanced"), 5, [1, 2, 2], "1 leaders were moved."),
    ],
)
def test_elections_are_given_up(
    tmp_path: Path,
    suffers_after: int,
    until: tuple[str, ...],
    status: int,
    leaders: list[int],
    said: str,
) -> None:
    with world(tmp_path, (2, 2, 2), suffers_after=suffers_after) as w:
        ran = w.kipctl(*ELECT, *until, *IMPATIENT)
        assert ran.status == status
        assert said in ran.err
        assert [leader for _, leader in w.of_topic()] == leaders
        assert w.fake.meanwhile == 0
    assert guard_of(ran)["given_up"] is True


@pytest.mark.parametrize("command", [ROTATE, ELECT])
def test_a_dry_run_shows_what_it_sees(tmp_path: Path, command: tuple[str, ...]) -> None:
    with world(tmp_path, (1, 1, 1), suffers_after=0) as w:
        ran = w.kipctl(*command, *IMPATIENT, "--guard", "offline > 0", "--dry-run")
        assert ran.status == 0, ran.err
        assert w.fake.changing == 0
    shown = guard_of(ran)
    assert [(one["last"], one["crossed"]) for one in shown["conditions"]] == [(1.0, 1), (0.0, 0)]


def test_what_is_copied_does_not_count_as_under_replicated(tmp_path: Path) -> None:
    held, sizes = uneven(60, 6)
    large = ManyBrokers(held, tuple(range(1, 7)), sizes=sizes, copy_s=1.2)
    with many_brokers(large) as first:
        kipctl = kipctl_on(first, tmp_path)
        ran = kipctl("reassign", "--drain", "1", "--yes", "-o", "json", *IMPATIENT)
    assert ran.status == 0, ran.err
    assert not any(1 in replicas for replicas in large.replicas().values())
    one = guard_of(ran)["conditions"][0]
    assert (one["crossed"], one["worst"], one["looks"] > 1) == (0, 0.0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("reassign --list --guard urp>0", "--guard does not go with --list"),
        ("reassign --verify F --guard urp>0", "--guard does not go with --verify"),
        ("reassign --cancel --guard urp>0", "--guard does not go with --cancel"),
        (
            "reassign --rollback --guard urp>0 --guard-action rollback",
            "--guard-action does not go with --rollback",
        ),
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
        ("reassign --plan F --guard moved-wait_p50>20ms", "would see nothing: no leader"),
        ("reassign --resume --guard moved-wait_p50>20ms", "would see nothing: no leader"),
        ("elect preferred --all --guard moved-wait_p50>20ms", "would see nothing: no leader"),
        ("elect preferred --all --guard metric_up<1", "where metrics are is not known"),
        ("reassign --drain 1 --guard metric_up<1", "where metrics are is not known"),
        ("reassign --rotate --topic t --measure --guard p99>1s", "exclude one another"),
    ],
)
def test_a_guard_that_would_do_nothing_is_refused(tmp_path: Path, words: str, said: str) -> None:
    with world(tmp_path, suffers_after=-1) as w:
        ran = w.kipctl(*(word.replace("_", " ") for word in words.split()))
        assert ran.status == 2, ran.err
        assert said in ran.err
        assert w.fake.changing == 0


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
    batches = ["".join(move.id.topic for move in one.moves) for one in plan.batches(size)]
    assert " ".join(batches) == in_batches
    of_plan = [move for move in plan.moves if move.id.topic == "m"]
    assert of_plan == list(some("m", moves))


@pytest.mark.parametrize(("batch", "own"), [(2, 2), (1, 3), (10, 1)])
def test_the_canarys_leaders_move_along_and_are_no_part_of_the_plan(
    tmp_path: Path, batch: int, own: int
) -> None:
    with world(tmp_path, suffers_after=-1) as w:
        w.fake.partitions |= {PartitionId(OWN_TOPIC, n): Held((1, 2), 1) for n in range(4)}
        with Cluster(Access(f"127.0.0.1:{w.fake.port}"), "test") as cluster:
            asked = read_guard(GuardOptions(["p99 > 1s"]), moves_along=True)
            watched = guarded(Environment(), cluster, asked)
            now = take_snapshot(cluster)
            assert watched.without_canary(now) == now
            assert watched.along(rotate(now), batch) == (rotate(now), batch)  # no canary
            watched.has_canary = True
            left = watched.without_canary(now)
            assert set(left.topics) == {"t", "other"}
            plan = rotate(left.only(one.id for one in left.partitions if one.id != ASTRAY))
            whole, size = watched.along(plan, batch)
    topics = [move.id.topic for move in whole.moves]
    assert (topics.count("t"), topics.count(OWN_TOPIC), size) == (3, own, batch + 1)
