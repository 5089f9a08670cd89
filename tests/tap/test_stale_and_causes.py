"""Metadata of before, and why a client asks for Metadata: the rules, by table."""

import pytest

from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.tap.metadata_causes import cause_of
from kipctl.tap.stale_metadata import StaleLeaders
from kipctl.trace.codes import MetadataCause

P = ("t", 0)
STALE = 1000


def test_a_change_is_shown_so_long_after_it_was_first_seen():
    stale = StaleLeaders(STALE)
    assert stale.leader_to_show(P, 1, 5, 100) == (1, 5)
    assert stale.leader_to_show(P, 2, 6, 200) == (1, 5)
    assert stale.leader_to_show(P, 2, 6, 1199) == (1, 5)
    assert stale.leader_to_show(P, 2, 6, 1200) == (2, 6)


def test_a_refusal_dates_the_change():
    stale = StaleLeaders(STALE)
    stale.leader_to_show(P, 1, 5, 100)
    stale.refused(P, 1, 200)
    stale.refused(P, 1, 300)  # of the same change
    assert stale.leader_to_show(P, 2, 6, 1100) == (1, 5)
    assert stale.leader_to_show(P, 2, 6, 1200) == (2, 6)


def test_a_refusal_by_a_leader_of_before_dates_nothing():
    """Clients that were shown it are refused by it once more: the next change has its own time."""
    stale = StaleLeaders(STALE)
    stale.leader_to_show(P, 1, 5, 0)
    stale.refused(P, 1, 100)
    assert stale.leader_to_show(P, 2, 6, 110) == (1, 5)
    stale.refused(P, 1, 150)
    assert stale.leader_to_show(P, 2, 6, 1100) == (2, 6)
    stale.refused(P, 2, 9000)
    assert stale.leader_to_show(P, 3, 7, 9010) == (2, 6)
    assert stale.leader_to_show(P, 3, 7, 9999) == (2, 6)
    assert stale.leader_to_show(P, 3, 7, 10_000) == (3, 7)


def test_changes_on_the_heels_of_one_another_are_each_shown_late():
    stale = StaleLeaders(STALE)
    stale.leader_to_show(P, 1, 5, 0)
    stale.leader_to_show(P, 2, 6, 100)
    assert stale.leader_to_show(P, 3, 7, 600) == (1, 5)
    assert stale.leader_to_show(P, 3, 7, 1100) == (2, 6)
    assert stale.leader_to_show(P, 3, 7, 1600) == (3, 7)


def test_a_broker_that_is_really_behind_is_shown_as_it_is():
    stale = StaleLeaders(STALE)
    stale.leader_to_show(P, 1, 5, 0)
    stale.leader_to_show(P, 2, 6, 100)
    assert stale.leader_to_show(P, 2, 6, 2000) == (2, 6)
    assert stale.leader_to_show(P, 1, 5, 2001) == (1, 5)


def test_what_is_first_seen_is_no_change():
    stale = StaleLeaders(STALE)
    stale.refused(P, 1, 50)
    assert stale.leader_to_show(P, 2, 6, 100) == (2, 6)
    assert stale.leader_to_show(("t", 1), 3, 0, 100) == (3, 0)


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


@pytest.mark.parametrize(
    ("asked", "is_first", "leader_error", "trouble", "cause"),
    [
        (None, True, False, False, MetadataCause.START),
        (["new"], True, True, True, MetadataCause.START),
        (["new"], False, False, False, MetadataCause.NEW_TOPIC),
        (["a", "new"], False, True, True, MetadataCause.NEW_TOPIC),
        (["a", "b"], False, True, True, MetadataCause.LEADER_CHANGE),
        (None, False, True, False, MetadataCause.LEADER_CHANGE),
        (["a", "b"], False, False, True, MetadataCause.ERROR_RETRY),
        (["a"], False, False, False, MetadataCause.IDLE_EVICTION),
        (["a", "b"], False, False, False, MetadataCause.MAX_AGE),
        (None, False, False, False, MetadataCause.MAX_AGE),
        ([], False, False, False, MetadataCause.MAX_AGE),
    ],
)
def test_why_a_client_asks(asked, is_first, leader_error, trouble, cause):
    assert cause_of(asked, is_first, {"a", "b"}, leader_error, trouble) is cause
