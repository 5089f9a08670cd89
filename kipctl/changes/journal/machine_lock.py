"""One lock for each cluster that all users of this machine share, whatever their state folders.

It is the kernel's lock on an empty file in a folder where everybody may make files and nobody can
remove another's. Nothing is read from the file or written to it, whoever made it; who holds the
lock is what the kernel says. It lets go of the lock when the holder ends, however that ends.
"""

import fcntl
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from kipctl.errors import RefusedError
from kipctl.next_step import Command
from kipctl.process import wait_until

TIMEOUT_S = 0.2
"""Who only looks whether a lock is held holds it too, for a moment."""
_FOLDERS = (Path("/run/lock"), Path("/tmp"))
_FOR_ALL = stat.S_ISVTX | stat.S_IWOTH
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def lock_path(cluster_id: str) -> Path:
    """The file of a cluster, in $KIPCTL_LOCK_FOLDER, or /run/lock, or /tmp where that is not for
    all. The id is not to be read there."""
    given = os.environ.get("KIPCTL_LOCK_FOLDER")
    folders = [Path(given)] if given else list(filter(_is_for_all, _FOLDERS)) or _FOLDERS
    name = sha256(cluster_id.encode(errors="surrogatepass")).hexdigest()[:32]
    return folders[0] / f"kipctl-{name}.lock"


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold the lock. Raises RefusedError, which names the holder, when somebody else has it, and
    when it cannot be had for another reason."""
    while True:
        handle = _open(path)
        try:
            if not wait_until(partial(try_lock, handle), TIMEOUT_S):
                raise RefusedError(
                    f"Another kipctl is changing this cluster: {_holder(handle)}.",
                    "Wait until it has ended. See what is being reassigned: "
                    + Command("reassign --list"),
                )
            if _is_at(path, handle):
                yield
                return
            # Somebody has removed the file meanwhile: who comes next locks another one.
        finally:
            os.close(handle)


def held_by(path: Path, name_holder: Callable[[int], str] | None = None) -> str:
    """Who holds the lock on this file now, in words, by the open file; "" for nobody."""
    try:
        handle = os.open(path, _LOOK)
    except OSError:
        return ""
    try:
        return "" if try_lock(handle) else (name_holder or _holder)(handle)
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Take the lock on an open file, unless somebody has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_for_all(folder: Path) -> bool:
    with suppress(OSError):
        status = folder.stat()
        return status.st_uid == 0 and status.st_mode & _FOR_ALL == _FOR_ALL
    return False


def _open(path: Path) -> int:
    try:
        with suppress(FileExistsError):
            handle = os.open(path, _LOOK | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(handle, 0o644)  # whatever the umask: others have to open it
            return handle
        return os.open(path, _LOOK)
    except OSError as failed:
        raise RefusedError(
            f"{path}{_owned_by(path)}, which keeps users of this machine from changing one cluster"
            f" at a time, cannot be opened: {failed.strerror}.",
            "There has to be an empty file that all may read, or none and room for one. Else let"
            " KIPCTL_LOCK_FOLDER name another folder, for all users the same.",
        ) from None


def _is_at(path: Path, handle: int) -> bool:
    """Whether the open file is the one that is there now."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), path.lstat())
    return False


def _holder(handle: int) -> str:
    """By what the kernel has of it; other systems than Linux do not tell."""
    status = os.fstat(handle)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
            match line.split():
                case [_, "FLOCK", _, "WRITE", pid, at, *_] if at == place and int(pid) > 0:
                    return f"a kipctl{_owned_by(Path('/proc') / pid)}, process {pid}"
    return "a kipctl of another user, or with another state folder"


def _owned_by(path: Path) -> str:
    """` of NAME (uid N)`; "" when that is not known."""
    try:
        uid = path.lstat().st_uid
    except OSError:
        return ""
    try:
        return f" of {pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f" of uid {uid}"
