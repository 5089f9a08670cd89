"""The way back, by table: what comes back, what is left alone and why, which entry is undone."""

from pathlib import Path

import pytest

from kipctl.changes.execution.remaining import (
    ALREADY_BACK,
    CHANGED,
    DELETED,
    RECREATED,
    UNKNOWN_STATE,
    WOULD_COPY,
    plan_rollback,
)
from kipctl.changes.execution.safety_checks import BUSY
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.plans.plan import Move
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot

T0 = PartitionId("t", 0)
Replicas = tuple[int, ...]


def entry(
    before: Replicas = (1, 2),
    after: Replicas | None = (2, 1),
    state: EntryState = EntryState.DONE,
    name: str = "1.entry.json",
) -> Entry:
    path = Path(name)
    return Entry(path, name[0], "c", {T0: before}, {T0: after}, state, topic_ids={"t": "old"})


def cluster(
    replicas: Replicas | None, leader: int = 0, isr: Replicas | None = None, alive: str = "1234"
) -> Snapshot:
    brokers = tuple(Broker(int(b), "h", 1, None) for b in alive)
    if replicas is None:
        return Snapshot("c", brokers, ())
    leader = leader or replicas[0]
    return Snapshot("c", brokers, (Partition(T0, replicas, isr or replicas, leader, 0),))


@pytest.mark.parametrize(
    ("was", "now", "left_alone", "insisted"),
    [
        # As kipctl left it.
        (entry(), cluster((2, 1)), None, None),
        (entry((1, 2), (3, 2)), cluster((3, 2)), None, None),
        # Not any more.
        (entry((1, 2, 3), (2, 3, 1)), cluster((3, 1, 2)), CHANGED, None),
        (entry((1, 2), (3, 2)), cluster((4, 2)), CHANGED, None),
        (entry(), cluster((4, 2)), WOULD_COPY, None),
        (entry(), cluster(None), DELETED, DELETED),
        (entry(), cluster((1, 2)), ALREADY_BACK, ALREADY_BACK),
        # It is not known how it was left.
        (entry(after=None), cluster((2, 1)), None, None),
        (entry(after=None), cluster((3, 2)), UNKNOWN_STATE, None),
        # Brokers that it would go back to.
        (
            entry((1, 2), (3, 2)),
            cluster((3, 2), alive="23"),
            "broker 1 is not alive",
            "broker 1 is not alive",
        ),
        (entry(), cluster((2, 1), isr=(2,)), "broker 1 is not in sync", "broker 1 is not in sync"),
    ],
)
def test_only_what_is_as_kipctl_left_it_comes_back(
    was: Entry, now: Snapshot, left_alone: str | None, insisted: str | None
) -> None:
    for force, reason in ((False, left_alone), (True, insisted)):
        way = plan_rollback(was, now, {"t": "old"}, force=force)
        assert [skipped.reason for skipped in way.skipped] == ([reason] if reason else [])
        assert [move.after for move in way.moves] == ([] if reason else [was.before[T0]])


@pytest.mark.parametrize(
    ("topic_ids", "is_anew"), [({"t": "old"}, False), ({"t": "new"}, True), ({}, False)]
)
def test_a_topic_made_anew_is_another_one(topic_ids: dict[str, str], is_anew: bool) -> None:
    way = plan_rollback(entry(), cluster((2, 1)), topic_ids)
    assert [skipped.reason for skipped in way.skipped] == ([RECREATED] if is_anew else [])


def test_what_is_back_but_led_by_another_is_elected_only() -> None:
    way = plan_rollback(entry(), cluster((1, 2), leader=2), {})
    assert way.moves == way.elections == (Move(T0, (1, 2), (1, 2), leader=2),)


@pytest.mark.parametrize(
    ("now", "busy", "is_whole"),
    [
        (cluster((2, 1)), [], True),
        (cluster((2, 1)), [T0], False),
        (cluster((2, 1), isr=(2,)), [], False),
        (cluster((4, 2)), [], True),  # it is not going to be kipctl's again
    ],
)
def test_what_has_to_wait_keeps_the_entry_open(
    now: Snapshot, busy: list[PartitionId], is_whole: bool
) -> None:
    way = plan_rollback(entry(), now, {}, busy)
    assert way.is_whole is is_whole
    if busy:
        assert [skipped.reason for skipped in way.skipped] == [BUSY]
