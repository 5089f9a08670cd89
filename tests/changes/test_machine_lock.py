"""Two users of one machine: the kipctl of one is seen by the other, and keeps it from changing."""

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from reassigning import reassigning

from kipctl.changes.journal import machine_lock
from kipctl.changes.journal.entry import Origin
from kipctl.changes.journal.journal import Journal, journal
from kipctl.changes.journal.machine_lock import exclusive_lock, held_by, lock_path
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import RefusedError

OTHER_UID = 65534 if os.getuid() == 0 else os.getuid()
"""Another user, where this one may become it; else it has another state folder alone."""
OTHER = f"{pwd.getpwuid(OTHER_UID).pw_name} (uid {OTHER_UID})"
HOLD = """
import os, sys
from kipctl.changes.journal.journal import journal
from kipctl.changes.journal.entry import Origin
uid, state = sys.argv[1:]
if int(uid) != os.getuid():
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
os.umask(0o077)
with journal("cluster", {"XDG_STATE_HOME": state}).locked(Origin()):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of locks that everybody can get at, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        monkeypatch.setenv("KIPCTL_LOCK_FOLDER", folder)
        yield Path(folder)


@pytest.fixture
def mine(shared: Path, tmp_path: Path) -> Journal:
    return journal("cluster", {"XDG_STATE_HOME": str(tmp_path)})


@contextmanager
def held_by_another(shared: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another user's kipctl is changing the cluster."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(OTHER_UID), str(shared / "theirs")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_a_change_is_refused_with_who_is_at_it(shared: Path, mine: Journal) -> None:
    with held_by_another(shared) as holder:
        who = f"a kipctl of {OTHER}, process {holder.pid}"
        assert mine.changed_by() == who
        assert mine.locked_by() == ""  # no entry of this journal is what it carries out
        with pytest.raises(RefusedError) as refused, mine.locked(Origin()):
            pytest.fail("two change it")
        assert refused.value.what == f"Another kipctl is changing this cluster: {who}."
        with pytest.raises(RefusedError, match=f"process {holder.pid}: who has begun it"):
            mine.ask_to_pause()
        with journal("another", {"XDG_STATE_HOME": str(shared)}).locked(Origin()):
            pass
        holder.kill()
        holder.wait()
        assert mine.changed_by() == ""
        with mine.locked(Origin()):  # by a file that is the other's
            assert f"process {os.getpid()}" in held_by(lock_path("cluster"))


def test_kipctl_alone_says_that_another_user_is_changing_the_cluster(shared: Path) -> None:
    with reassigning({PartitionId("t", 0): (1, 2)}) as (fake, _), held_by_another(shared) as holder:
        fake.cluster_id = "cluster"
        ran = fake.kipctl()
    assert f"Changing it now: a kipctl of {OTHER}, process {holder.pid}." in ran.out
    assert "kipctl changes pause" not in ran.out  # its own user alone may pause it


def test_the_file_may_be_opened_by_all_and_has_nothing_in_it(shared: Path, mine: Journal) -> None:
    assert mine.changed_by() == ""
    assert list(shared.iterdir()) == []  # looking makes nothing
    before = os.umask(0o077)
    try:
        with mine.locked(Origin(("roll",), "me", "here")):
            pass
    finally:
        os.umask(before)
    (file,) = shared.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert file.stat().st_size == 0
    assert "cluster" not in file.name


def test_a_link_that_somebody_has_put_there_is_not_followed(shared: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.touch()
    lock_path("cluster").symlink_to(theirs)
    whose = rf"\.lock of .* \(uid {os.getuid()}\), which .* cannot be opened"
    with pytest.raises(RefusedError, match=whose), exclusive_lock(lock_path("cluster")):
        pytest.fail("it was opened")


@pytest.mark.parametrize("planted", ["fifo", "folder", "text"])
def test_what_else_somebody_has_put_there_is_a_lock_as_well(shared: Path, planted: str) -> None:
    path = lock_path("cluster")
    match planted:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.write_text("process 1")
    with (
        exclusive_lock(path),
        pytest.raises(RefusedError, match=f"process {os.getpid()}"),
        exclusive_lock(path),
    ):
        pytest.fail("two hold it")


@pytest.mark.parametrize("comes_first", [False, True])
def test_a_file_that_was_removed_before_it_was_locked_is_no_lock(
    comes_first: bool, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by who clears folders of what is old; another kipctl may have made it anew by then."""
    path, lock, others = lock_path("cluster"), machine_lock.try_lock, ExitStack()

    def removed_before(handle: int) -> bool:
        monkeypatch.setattr(machine_lock, "try_lock", lock)
        path.unlink()
        if comes_first:
            others.enter_context(exclusive_lock(path))
        return lock(handle)

    monkeypatch.setattr(machine_lock, "try_lock", removed_before)
    with others:
        if comes_first:
            with pytest.raises(RefusedError, match=f"process {os.getpid()}"), exclusive_lock(path):
                pytest.fail("two hold it")
        else:
            with exclusive_lock(path):
                assert f"process {os.getpid()}" in held_by(path)
                with pytest.raises(RefusedError), exclusive_lock(path):
                    pytest.fail("two hold it")
    with exclusive_lock(path):
        pass
    assert [*shared.iterdir()] == [path]


@pytest.mark.parametrize("mode", [0o700, 0o777, 0o1775, 0o1777])
def test_it_is_a_folder_where_everybody_may_make_files_and_remove_their_own(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is root's: another owner may put another file in place of one."""
    tmp_path.chmod(mode)
    if os.getuid() == 0 and mode == 0o1777:
        os.chown(tmp_path, OTHER_UID, -1)
    monkeypatch.delenv("KIPCTL_LOCK_FOLDER")
    monkeypatch.setattr(machine_lock, "_FOLDERS", (tmp_path / "none", tmp_path, Path("/tmp")))
    assert lock_path("cluster").parent == Path("/tmp")
