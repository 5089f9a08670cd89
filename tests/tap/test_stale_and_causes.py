"""Metadata of before, and why a client asks for Metadata: the rules, by table."""

import pytest

from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.tap import metadata_causes
from kipctl.tap.metadata_causes import MetadataRequests
from kipctl.tap.stale_metadata import StaleLeaders
from kipctl.trace.codes import MetadataCause

P = ("t", 0)
STALE = 1000


@pytest.mark.parametrize(
    "happened",
    [
        # A change is shown so long after it was first seen; what is first seen is no change.
        [(1, 5, 100, (1, 5)), (2, 6, 200, (1, 5)), (2, 6, 1199, (1, 5)), (2, 6, 1200, (2, 6))],
        [("refused by", 1, 50), (2, 6, 100, (2, 6))],
        # A refusal dates it, the first of them.
        [
            (1, 5, 100, (1, 5)),
            *(("refused by", 1, 200), ("refused by", 1, 300)),
            *((2, 6, 1100, (1, 5)), (2, 6, 1200, (2, 6))),
        ],
        # Who was shown a leader of before is refused by it once more: that dates nothing.
        [
            *((1, 5, 0, (1, 5)), ("refused by", 1, 100), (2, 6, 110, (1, 5))),
            *(("refused by", 1, 150), (2, 6, 1100, (2, 6)), ("refused by", 2, 9000)),
            *((3, 7, 9010, (2, 6)), (3, 7, 9999, (2, 6)), (3, 7, 10_000, (3, 7))),
        ],
        # Changes on the heels of one another are each shown late.
        [
            *((1, 5, 0, (1, 5)), (2, 6, 100, (1, 5)), (3, 7, 600, (1, 5))),
            *((3, 7, 1100, (2, 6)), (3, 7, 1600, (3, 7))),
        ],
        # A broker that is really behind is shown as it is.
        [(1, 5, 0, (1, 5)), (2, 6, 100, (1, 5)), (2, 6, 2000, (2, 6)), (1, 5, 2001, (1, 5))],
    ],
)
def test_a_change_is_shown_so_long_after_it_was(happened):
    """Answers are (leader, epoch, at, shown)."""
    stale = StaleLeaders(STALE)
    for event in happened:
        match event:
            case "refused by", leader, at_us:
                stale.refused(P, leader, at_us)
            case leader, epoch, at_us, shown:
                assert stale.leader_to_show(P, leader, epoch, at_us) == shown
    assert stale.leader_to_show(("t", 1), 3, 0, 100) == (3, 0)  # another partition's is its own


def answer(leader, epoch, error=0):
    partition = MetadataResponsePartition(
        error_code=error, partition_index=0, leader_id=leader, leader_epoch=epoch, isr_nodes=(9,)
    )
    return MetadataResponse(topics=(MetadataResponseTopic(name="t", partitions=(partition,)),))


def test_an_answer_shows_leaders_and_epochs_of_before_and_is_else_as_it_was():
    stale = StaleLeaders(STALE)
    assert stale.with_stale_leaders(answer(1, 5), 0) == answer(1, 5)
    assert stale.with_stale_leaders(answer(2, 6), 10) == answer(1, 5)
    assert stale.with_stale_leaders(answer(-1, 7, error=5), 20) == answer(1, 5)
    assert stale.with_stale_leaders(answer(2, 8), 2000) == answer(-1, 7, error=5)
    assert stale.with_stale_leaders(answer(2, 8), 3000) == answer(2, 8)


ALL, T = None, MetadataCause
AB, ABC = ["a", "b"], ["a", "b", "c"]


def causes(*requests, shown=("a", "b", "c")):
    """Of requests at (seconds, topics): after the first all of `shown` were shown."""
    asked, reasons = MetadataRequests(), []
    for at_s, topics, *had in requests:
        known = shown if reasons else ()
        told = asked.cause(topics, known, "leader" in had, "error" in had, round(1e6 * at_s))
        reasons.append(told)
    return reasons[1:]


@pytest.mark.parametrize(
    ("request_", "cause"),
    [
        ((9, ["new"]), T.NEW_TOPIC),
        ((9, ["a", "new"], "leader", "error"), T.NEW_TOPIC),
        ((9, AB, "leader", "error"), T.LEADER_CHANGE),
        ((9, ALL, "leader"), T.LEADER_CHANGE),
        ((9, ABC, "error"), T.ERROR_RETRY),
        ((9, ["a"]), T.IDLE_EVICTION),
        ((9, ABC), T.UNEXPLAINED),
        ((9, []), T.UNEXPLAINED),
        ((250, ABC), T.MAX_AGE),
    ],
)
def test_why_a_client_asks(request_, cause):
    assert causes((1, ABC), request_) == [cause]


@pytest.mark.parametrize(
    ("requests", "reasons"),
    [
        # Its max age may be less than 5 minutes: then its requests are regular.
        ([(10, ALL), (20.2, ALL), (30, ALL)], [T.UNEXPLAINED, T.MAX_AGE, T.MAX_AGE]),
        # A backoff that grows, and then stays at a second.
        ([(1 + at / 10, ABC) for at in (1, 3, 7, 15, 25, 35)], [T.UNEXPLAINED] * 6),
        # Topics are renewed one by one, by age.
        ([(s, [t]) for s in (301, 601) for t in "abc"], [T.MAX_AGE] * 6),
        # The others were renewed without it, one at a time or together.
        ([(250, AB), (260, ["c"])], [T.MAX_AGE, T.IDLE_EVICTION]),
        # It was dropped as all were renewed; again it cannot have been, since.
        ([(2, ["c"]), (3, ["c"])], [T.IDLE_EVICTION, T.UNEXPLAINED]),
    ],
)
def test_why_it_asks_again_and_again(requests, reasons):
    assert causes((0.001, ABC), *requests) == reasons


def test_topics_that_are_renewed_one_by_one_are_not_back_from_idle():
    started = [(0.001, ["a"]), (0.002, ["b"]), (0.003, ["c"])]
    renewed = [(at, [topic]) for at in (10, 20, 30, 40) for topic in "abc"]
    reasons = causes(*started, *renewed)[2:]
    assert reasons == [T.UNEXPLAINED] * 3 + [T.MAX_AGE] * 9


def test_of_what_a_client_names_the_last_is_remembered(monkeypatch):
    """An old topic that is asked for again is taken for back from idle."""
    monkeypatch.setattr(metadata_causes, "MOST_TOPICS", 500)
    asked, many = MetadataRequests(), [f"t{n}" for n in range(1000)]
    for at in range(0, 1000, 100):
        asked.cause(many[at : at + 100], many, False, False, 1 + at)
    assert len(asked._topics) <= 500
    now_us = 300_000_000
    assert asked.cause(many[900:], many, False, False, 2_000_000) == T.UNEXPLAINED
    assert asked.cause(many[:100], many, False, False, now_us) == T.IDLE_EVICTION
    asked.cause(["x" * 32_000], many, False, False, now_us)  # no broker has it
    for topic in many:  # sets of topics, each asked for once
        asked.cause(["t0", topic], ["t0", topic], False, False, now_us)
    assert not [name for name in asked._topics if len(name) > 249]
    assert max(len(asked._topics), len(asked._periods)) <= 500
