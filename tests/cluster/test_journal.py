"""The journal: what was saved comes back, one step further at each rollback."""

from pathlib import Path

import pytest

from kipctl.cluster.journal import journal
from kipctl.cluster.reassign import retire
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import UsageError

FIRST = {PartitionId("t", 0): (1, 2)}
SECOND = {PartitionId("t", 0): (2, 1)}


def test_rollbacks_go_back_one_by_one(tmp_path: Path) -> None:
    kept = journal("cluster", {"XDG_STATE_HOME": str(tmp_path)})
    assert kept.last() is None
    kept.save(FIRST)
    kept.save(SECOND)
    for expected in (SECOND, FIRST):
        last = kept.last()
        assert last is not None
        assert last.assignment() == expected
        last.mark_undone()
    assert kept.last() is None
    assert len(list(kept.folder.iterdir())) == 2


def test_clusters_have_journals_of_their_own(tmp_path: Path) -> None:
    journal("one", {"XDG_STATE_HOME": str(tmp_path)}).save(FIRST)
    assert journal("other", {"XDG_STATE_HOME": str(tmp_path)}).last() is None


def test_a_discarded_entry_is_not_rolled_back(tmp_path: Path) -> None:
    kept = journal("cluster", {"XDG_STATE_HOME": str(tmp_path)})
    kept.save(FIRST)
    kept.save(SECOND).discard()
    last = kept.last()
    assert last is not None
    assert last.assignment() == FIRST


def test_a_folder_that_cannot_be_made_stops_everything(tmp_path: Path) -> None:
    (tmp_path / "kipctl").write_text("a file stands in the way")
    with pytest.raises(UsageError, match="cannot be saved") as error:
        journal("cluster", {"XDG_STATE_HOME": str(tmp_path)}).save(FIRST)
    assert "Nothing was changed" in error.value.next_step


def test_entries_that_the_cluster_is_back_at_are_retired(tmp_path: Path) -> None:
    kept = journal("cluster", {"XDG_STATE_HOME": str(tmp_path)})
    kept.save(FIRST)
    kept.save(SECOND)
    retire(kept, Snapshot("c", (), (Partition(PartitionId("t", 0), (2, 1), (2, 1), 2, 0),)))
    assert [entry.assignment() for entry in kept.entries()] == [FIRST]
