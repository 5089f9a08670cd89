"""Guards that are certainly crossed, on real brokers: nothing begins, or it is all undone."""

from pathlib import Path

import pytest
from no_own_topics import await_no_own_topics
from on_lab import Kipctl, MakeTopic, leaders_of

from kipctl.changes.journal.entry import EntryState
from kipctl.changes.journal.journal import journal
from kipctl.cluster.snapshot import take_snapshot
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

IMPATIENT = "--guard-patience 1s --guard-quiet 1s --yes -o json"


def test_waits_for_moved_leaders_are_noticed_and_the_change_is_undone(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    """Leaders of the canary's topic move along, and whoever waits for one waits more than 0 ms."""
    make_topic("guarded-waits", [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]])
    before = take_snapshot(cluster, ["guarded-waits"])
    ran = kipctl(
        "reassign --rotate --topic guarded-waits --batch 1 --between 2s",
        "--guard 'moved-wait p50 > 0ms' --guard-action rollback",
        IMPATIENT,
        status=5,
    )
    assert "Given up after 1 s of patience: the guard is crossed: moved-wait p50 > 0ms" in ran.err
    told = ran.document
    assert (told["state"], told["rolled_back"]) == ("undone", True)
    assert told["counts"]["done"] > 0
    assert told["guard"]["conditions"][0]["worst"] > 0
    after = take_snapshot(cluster, ["guarded-waits"])
    assert after.assignment == before.assignment
    leaders = [partition.leader for partition in before.partitions]
    assert leaders_of(cluster, "guarded-waits") == leaders
    await_no_own_topics(cluster)


def test_what_a_canary_saw_before_the_change_is_compared_with_and_kept_for_resume(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, state: Path
) -> None:
    make_topic("compared", [[1, 2], [2, 3]])
    guard = "--guard 'p99 > 1000x and > 60s'"
    ran = kipctl("reassign --rotate --topic compared", guard, IMPATIENT)
    seen = ran.document["guard"]["conditions"][0]
    assert 0 < seen["undisturbed"] < 60
    assert "Undisturbed, p99 is " in ran.err
    entry = next(
        journal(take_snapshot(cluster).cluster_id, {"XDG_STATE_HOME": str(state)}).entries()
    )
    assert entry.guard is not None
    assert entry.guard.undisturbed == {"p99 > 1000x and > 60s": seen["undisturbed"]}
    entry.mark(EntryState.SUBMITTED, dict.fromkeys(entry.after))  # as if it had been cut off
    again = kipctl("changes resume -o json --yes")
    assert "Undisturbed" not in again.err
    assert leaders_of(cluster, "compared") == [2, 3]
    await_no_own_topics(cluster)
