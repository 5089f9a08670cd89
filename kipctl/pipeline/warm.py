"""A JVM that is kept warm between analyses: how it is known, asked, taken and given back.

One process holds it (`kipctl.pipeline.holder`), for one user and one analysis at a time. Holder and
JVM have a lock from their start to their end, however that comes: who gets the lock knows that both
are gone. The file beside it says where the holder listens, and the secret that it wants to hear.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kipctl.errors import PipelineError
from kipctl.pipeline.launch import java_program, spark_home, state_folder
from kipctl.pipeline.place import Place
from kipctl.pipeline.start import conf_of

IDLE_TIMEOUT_S = 600.0
_ANSWER_TIMEOUT_S = 10.0
"""For a holder to answer: it asks the JVM only for what takes milliseconds."""
_START_TIMEOUT_S = 300.0
"""For Spark to start, on a machine however busy; it ends at once where it cannot."""
_END_TIMEOUT_S = 30.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """Where a holder listens on loopback, the secret it wants, and what its JVM is (`key`)."""

    pid: int
    port: int
    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class WarmStatus:
    """What a holder says of itself: times are seconds since the Unix epoch, memory is resident."""

    pid: int
    jvm_pid: int
    java: str
    spark: str
    driver_memory: str
    since: float
    last_used: float
    idle_timeout_s: float
    analyses: int
    memory_bytes: int
    is_busy: bool


def holder_file() -> Path:
    """What a holder writes, for its user alone to read."""
    return state_folder() / "spark-jvm.json"


def warm_log_path() -> Path:
    """Where the warm JVM's own messages go."""
    return state_folder() / "spark-jvm.log"


def lock_path() -> Path:
    """The file that holder and JVM have locked as long as one of them lives."""
    return state_folder() / "spark-jvm.lock"


def key_of(place: Place, environment: Mapping[str, str]) -> str:
    """What two sessions have in common that can use the same JVM: Java, Spark, and settings."""
    java, jars = java_program(environment), spark_home(environment) / "jars"
    files = [(str(path.resolve()), path.stat().st_mtime_ns) for path in (java, jars)]
    settings = sorted(conf_of(place, {}).items())
    return hashlib.sha256(repr((files, settings)).encode()).hexdigest()


def found() -> Holder | None:
    """The holder on record, whether it lives or not."""
    try:
        return Holder(**json.loads(holder_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def is_running() -> bool:
    """Whether a holder or its JVM lives."""
    try:
        handle = os.open(lock_path(), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


class Lease:
    """A warm JVM that is this process's to use until it says that it is done, or ends."""

    def __init__(self, connection: socket.socket, port: int, secret: str) -> None:
        self._connection = connection
        self.port = port
        self.secret = secret

    def cancel(self) -> None:
        """Have all jobs cancelled, those too that are still to come, until the lease ends."""
        with contextlib.suppress(OSError):
            self._connection.send(b"cancel\n")

    def end(self) -> None:
        """Give the JVM back."""
        with contextlib.suppress(OSError):
            self._connection.sendall(b"done\n")
        self._connection.close()


def lease(place: Place) -> Lease | None:
    """The warm JVM, if there is one of this kind that nobody uses."""
    holder = found()
    if holder is None or not place.is_local or holder.key != key_of(place, os.environ):
        return None
    try:
        connection = _asked(holder, "lease", folder=os.getcwd())
    except OSError:
        return None
    answer = _answer(connection)
    if "port" not in answer:
        connection.close()
        return None
    connection.settimeout(None)
    return Lease(connection, int(answer["port"]), str(answer["secret"]))


def start(place: Place, idle_timeout_s: float) -> WarmStatus:
    """Start a holder and its JVM, and wait until they can be used.

    Returns the status of one of the same kind that runs already. Raises PipelineError when one of
    another kind does, or when Spark does not start.
    """
    if is_running():
        holder = found()
        running = status()
        if running is None or holder is None or holder.key != key_of(place, os.environ):
            raise PipelineError(
                "Another JVM is kept warm, with other settings, Java or Spark.",
                "End it first: kipctl spark stop.",
            )
        return running
    order = {"place": asdict(place), "idle_timeout_s": idle_timeout_s}
    state_folder().mkdir(parents=True, exist_ok=True)
    pid = _spawned([sys.executable, "-m", "kipctl.pipeline.holder", json.dumps(order)])
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not os.waitpid(pid, os.WNOHANG)[0]:
        holder = found()
        if holder and holder.pid == pid and (running := status()):
            return running
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(_POLL_S)
    raise PipelineError(
        "Spark did not start, or not in time, and is not kept warm.",
        f"Its own words are in {warm_log_path()}.",
    )


def _spawned(command: list[str]) -> int:
    """A process that outlives this one, in a session of its own; its words go to its log."""
    made = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(warm_log_path()), made | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )


def status() -> WarmStatus | None:
    """What the holder says of itself; None when there is none that answers."""
    holder = found()
    if holder is None or not is_running():
        return None
    try:
        with _asked(holder, "status") as connection:
            return WarmStatus(**_answer(connection))
    except (OSError, TypeError):
        return None


def stop() -> bool:
    """End the holder and its JVM; False when there is none. Raises PipelineError if they live on.

    A holder that does not answer is killed: it has the lock, so the process is the one on record.
    Its JVM ends when its input does.
    """
    holder = found()
    if not is_running() or holder is None:
        return False
    try:
        with _asked(holder, "stop") as connection:
            _answer(connection)
    except OSError:
        if is_running():
            os.kill(holder.pid, signal.SIGKILL)
    if not _waited(lambda: not is_running(), _END_TIMEOUT_S):
        raise PipelineError(
            f"Spark's JVM of process {holder.pid} does not end.",
            f"Its own words are in {warm_log_path()}.",
        )
    holder_file().unlink(missing_ok=True)
    return True


def _waited(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _asked(holder: Holder, request: str, **more: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", holder.port), _ANSWER_TIMEOUT_S)
    try:
        question = {"secret": holder.secret, "request": request, "pid": os.getpid(), **more}
        connection.sendall(json.dumps(question).encode() + b"\n")
    except OSError:
        connection.close()
        raise
    return connection


def _answer(connection: socket.socket) -> dict[str, Any]:
    """One line of JSON; empty when the holder has ended or does not answer."""
    received = b""
    try:
        while not received.endswith(b"\n"):
            if not (more := connection.recv(4096)):
                return {}
            received += more
        answer = json.loads(received)
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


@contextlib.contextmanager
def locked() -> Iterator[int | None]:
    """Have the lock while inside, as a file descriptor; None when another process has it."""
    path = lock_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
