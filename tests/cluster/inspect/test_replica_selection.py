"""Which replica a consumer in a rack gets: each rule of KIP-392, and each reason, by table."""

from dataclasses import replace

import pytest

from kipctl.cluster.inspect.replica_selection import (
    NO_SELECTOR,
    RACK_AWARE,
    Answer,
    Choice,
    Flip,
    PartitionFacts,
    Reason,
    Replica,
    apply_rules,
    explain_choice,
    flips,
)
from kipctl.cluster.snapshot import PartitionId

RACKS = ("a", "b", "c")
OFFSET = 100


def replica(broker: int, rack: str | None, **more: object) -> Replica:
    return Replica(broker, rack, **{"in_sync": True, "log_start": 0, "log_end": OFFSET, **more})


def partition(
    *replicas: Replica, leader: int = 1, selector: str | None = RACK_AWARE
) -> PartitionFacts:
    return PartitionFacts(PartitionId("t", 0), leader, selector, OFFSET, replicas)


LEADER = replica(1, "a")
IN_B = replica(2, "b")
IN_C = replica(3, "c")
ALL = partition(LEADER, IN_B, IN_C)


def two(**of_b: object) -> PartitionFacts:
    """The leader in a, and a follower in b of which this is so."""
    return partition(LEADER, replace(IN_B, **of_b))


NO_RACK = partition(LEADER, replica(2, None, in_sync=False, online=False))
OTHER = "org.example.Nearest"
UNTOLD_RACK = "the rack of broker 2, offline, is not known"
NOT_KNOWN = "broker 2 does not report its log end, so how far behind is not known"
IF_FETCHED = "they say broker 2, if its followers have fetched yet"


@pytest.mark.parametrize(
    ("facts", "rack", "expected"),
    [
        (ALL, "a", (1,)),
        (ALL, "b", (2,)),
        (ALL, "c", (3,)),
        (ALL, "d", (1,)),
        (replace(ALL, leader=3), "a", (1,)),
        (replace(ALL, leader=-1), "a", ()),
        (replace(ALL, selector=NO_SELECTOR), "b", (1,)),
        (replace(ALL, selector=OTHER), "b", ()),
        (replace(ALL, selector=None), "b", ()),
        (partition(LEADER, IN_B), "c", (1,)),
        (partition(LEADER, replace(IN_B, in_sync=False), IN_C), "b", (1,)),
        # A leader stays a candidate whatever is known of it.
        (partition(replace(LEADER, in_sync=False, log_end=None), IN_B), "a", (1,)),
        (two(log_end=OFFSET - 1), "b", (1,)),
        (two(log_end=OFFSET), "b", (2,)),
        (two(log_end=None), "b", (2,)),
        (two(log_start=OFFSET + 1), "b", (1,)),
        (two(log_start=OFFSET), "b", (2,)),
        # The leader goes before a longer log, a longer log before a higher id.
        (partition(LEADER, replica(2, "a", log_end=OFFSET + 5)), "a", (1,)),
        (partition(LEADER, replica(2, "b", log_end=OFFSET + 5), replica(3, "b")), "b", (2,)),
        (partition(LEADER, replica(2, "b"), replica(3, "b")), "b", (2, 3)),
        (partition(LEADER, replica(2, "b"), replica(3, "b", log_end=None)), "b", (2, 3)),
    ],
)
def test_the_rules(facts: PartitionFacts, rack: str, expected: tuple[int, ...]) -> None:
    assert apply_rules(facts, rack)[-1].left == expected


IN_SYNC = "1 in sync, 2 not in sync, 3 in sync, 4 in sync"
ENDS, STARTS = "log ends: 1 100, 2 100, 3 105, 4 109", "log starts: 1 0, 2 0, 3 0, 4 0"


def test_a_walk_tells_each_rule_with_its_facts_and_who_is_left() -> None:
    facts = partition(
        LEADER,
        replica(2, "b", in_sync=False),
        replica(3, "b", log_end=OFFSET + 5),
        replica(4, "b", log_end=OFFSET + 9),
    )
    assert [(step.rule, step.facts, step.left) for step in apply_rules(facts, "b")] == [
        ("the leader chooses", "leader 1 in a", (1, 2, 3, 4)),
        ("replica.selector.class of broker 1", "RackAwareReplicaSelector", (1, 2, 3, 4)),
        ("the leader, and replicas in sync", IN_SYNC, (1, 3, 4)),
        ("the log reaches the offset", f"offset 100; {ENDS}", (1, 3, 4)),
        ("the log starts at or before the offset", f"offset 100; {STARTS}", (1, 3, 4)),
        ("in b", "1 a, 2 b, 3 b, 4 b", (3, 4)),
        ("the longest log", ENDS, (4,)),
    ]


@pytest.mark.parametrize(
    ("facts", "rack", "named", "reason", "detail"),
    [
        (ALL, "a", 1, "LEADER_IN_RACK", ""),
        (ALL, "b", 2, "FOLLOWER_IN_RACK", ""),
        (replace(ALL, leader=-1), "b", None, "NO_LEADER", ""),
        (ALL, "d", 1, "UNKNOWN_RACK", "it has a, b, c"),
        (two(), "c", 1, "NO_REPLICA", ""),
        (NO_RACK, "d", 1, "UNKNOWN_RACK", f"it has a, b, c; {UNTOLD_RACK}"),
        (NO_RACK, "b", 1, "NO_REPLICA", UNTOLD_RACK),
        # Without a replica there, no setting would help.
        (partition(LEADER, selector=NO_SELECTOR), "c", 1, "NO_REPLICA", ""),
        (replace(ALL, selector=NO_SELECTOR), "b", 1, "NO_SELECTOR", "broker 1"),
        (two(in_sync=False, online=False, log_end=None), "b", 1, "OFFLINE", "broker 2"),
        (two(in_sync=False, log_end=58), "b", 1, "OUT_OF_SYNC", "broker 2 is 42 records behind"),
        (two(in_sync=False, log_end=None), "b", 1, "OUT_OF_SYNC", NOT_KNOWN),
        (two(log_end=99), "b", 1, "BEHIND", "broker 2 is 1 record behind"),
        (two(log_start=101), "b", 1, "STARTS_LATER", "broker 2"),
        (replace(ALL, selector=OTHER), "b", 1, "OTHER_SELECTOR", OTHER),
        (replace(ALL, selector=None), "b", 1, "OTHER_SELECTOR", "broker 1 did not report which"),
        (ALL, "b", 1, "UNFORESEEN", IF_FETCHED),
        (ALL, "b", 3, "UNFORESEEN", IF_FETCHED),
        # A selector of one's own may well name a replica in the rack.
        (replace(ALL, selector=OTHER), "b", 2, "FOLLOWER_IN_RACK", ""),
    ],
)
def test_the_reason(
    facts: PartitionFacts, rack: str, named: int | None, reason: str, detail: str
) -> None:
    choice = explain_choice(facts, rack, Answer(named), RACKS)
    assert (choice.reason, choice.detail, choice.reads_from) == (Reason[reason], detail, named)
    is_local = reason in ("LEADER_IN_RACK", "FOLLOWER_IN_RACK")
    assert choice.local == is_local
    # Nothing closer could serve it.
    assert choice.closest == (is_local or reason in ("UNKNOWN_RACK", "NO_REPLICA"))


def test_an_answer_against_the_rules_is_told() -> None:
    assert explain_choice(ALL, "b", Answer(2), RACKS).as_expected is True
    assert explain_choice(ALL, "b", Answer(3), RACKS).as_expected is False
    assert explain_choice(ALL, "b", Answer(None, "X"), RACKS).as_expected is None
    unknown = replace(ALL, selector=OTHER)
    assert explain_choice(unknown, "b", Answer(3), RACKS).as_expected is None


def test_a_broker_that_does_not_answer_serves_nobody() -> None:
    named = explain_choice(ALL, "b", Answer(2), RACKS, silent=(2,))
    assert (named.reason, named.why) == (
        Reason.SILENT,
        "the broker that was named does not answer: broker 2",
    )
    assert not named.local
    assert not named.closest
    lagging = partition(LEADER, replace(IN_B, in_sync=False, log_end=None))
    assert explain_choice(lagging, "b", Answer(1), RACKS, silent=(2,)).detail == (
        "broker 2 does not answer, so how far behind is not known"
    )
    failed = explain_choice(ALL, "b", Answer(None, "Broker 1 is away."), RACKS)
    assert failed.why == "the leader gave no answer: Broker 1 is away."


def chosen(named: int | None, facts: PartitionFacts = ALL, rack: str = "b", **more: int) -> Choice:
    return explain_choice(replace(facts, **more), rack, Answer(named), RACKS)


NOT_SET = replace(ALL, selector=NO_SELECTOR)


@pytest.mark.parametrize(
    ("before", "after", "flip"),
    [
        (chosen(2), chosen(2), None),
        (chosen(2), chosen(2, leader=3), None),
        (
            chosen(2),
            chosen(1, NOT_SET),
            (2, 1, "no replica.selector.class on the leader's broker: broker 1"),
        ),
        (
            chosen(1, NOT_SET),
            chosen(3, NOT_SET, leader=3),
            (1, 3, "leader 1 -> 3; no replica.selector.class on the leader's broker: broker 3"),
        ),
        (chosen(2), chosen(None), (2, None, "the leader gave no answer")),
    ],
)
def test_flips(before: Choice, after: Choice, flip: tuple[int, int | None, str] | None) -> None:
    expected = (Flip(ALL.id, "b", *flip),) if flip else ()
    assert flips([before], [after]) == expected


def test_what_is_new_or_gone_is_no_flip() -> None:
    assert flips([chosen(2)], []) == flips([], [chosen(2)]) == ()
    assert flips([chosen(1, rack="a")], [chosen(2)]) == ()
