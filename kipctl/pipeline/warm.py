"""A JVM that is kept warm between analyses: how it is known, asked, taken and given back.

One process holds it (`kipctl.pipeline.holder`), for one user and one analysis at a time. Holder and
JVM have a lock from their start to their end, however that comes: who gets the lock knows that both
are gone. The file beside it says which process the holder is, from its start on, and later that it
listens: at a socket beside it, in a folder that is its user's alone.
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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from kipctl.errors import PipelineError, RefusedError
from kipctl.next_step import Command
from kipctl.pipeline.launch import java_program, require_one_version, spark_home
from kipctl.pipeline.place import Place
from kipctl.pipeline.start import conf_of, configured
from kipctl.process import Process, identify, is_alive, send_signal, wait_until
from kipctl.state import make_private, state_folder
from kipctl.typed_json import DamagedError, decoded, encoded, plain_json

_ANSWER_TIMEOUT_S = 10.0
"""For a holder to answer: it asks the JVM only for what takes milliseconds."""
_START_TIMEOUT_S = 300.0
"""For Spark to start, on a machine however busy; it ends at once where it cannot."""
_END_TIMEOUT_S = 30.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """Which process of which machine a holder is, and what its JVM is (`key`).

    It does not listen while it starts.
    """

    host: str
    pid: int
    started: str
    key: str
    is_listening: bool = False

    @property
    def process(self) -> Process:
        """It, and no other process that was given its number later."""
        return Process(self.pid, self.started)


Asked = Literal["lease", "status", "stop"]


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


@dataclass(frozen=True, slots=True)
class HolderRequest:
    """What is asked for, the process that asks, and what goes with it."""

    request: Asked
    pid: int
    folder: str = ""
    """Where the analysis works (lease)."""
    force: bool = False
    """End it though an analysis uses it (stop)."""


@dataclass(frozen=True, slots=True)
class HolderAnswer:
    """What was asked for, and else nothing: Py4J's port and secret, or the status."""

    port: int = 0
    secret: str = field(default="", repr=False)
    status: WarmStatus | None = None
    used_by: int = 0
    """The process whose analysis is in the way."""


def holder_file() -> Path:
    """What a holder writes, for its user alone to read."""
    return state_folder() / "spark-jvm.json"


def socket_path() -> Path:
    """Where a holder listens, for its user alone: nobody else comes into the folder."""
    return state_folder() / "spark-jvm.sock"


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
    settings = sorted({**configured(place), **conf_of(place, {})}.items())
    return hashlib.sha256(repr((files, settings)).encode()).hexdigest()


def holder_of(process: Process, key: str, is_listening: bool = False) -> Holder:
    """The record of a process of this machine."""
    return Holder(socket.gethostname(), process.pid, process.started, key, is_listening)


def record(holder: Holder) -> None:
    """Put a holder on record, for its user alone to read."""
    beside = holder_file().with_suffix(".new")
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(holder), file)
    beside.replace(holder_file())


def forget() -> None:
    """Remove what a holder has left."""
    holder_file().unlink(missing_ok=True)
    socket_path().unlink(missing_ok=True)


@contextlib.contextmanager
def _socket_address() -> Iterator[str]:
    """Of `socket_path`, in the 107 bytes that an address may have, however long the path is."""
    folder = os.open(socket_path().parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{socket_path().name}"
    finally:
        os.close(folder)


def listen() -> socket.socket:
    """The holder's own socket; whoever calls it has the lock."""
    socket_path().unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    with _socket_address() as address:
        server.bind(address)
    server.listen()
    return server


def running_holder() -> Holder | None:
    """The holder on record, if it lives on this machine."""
    holder = _recorded_holder()
    return holder if holder and _is_here(holder) and is_alive(holder.process) else None


def _recorded_holder() -> Holder | None:
    try:
        return Holder(**plain_json(holder_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _is_here(holder: Holder) -> bool:
    return holder.host == socket.gethostname()


def _check_same_host() -> None:
    """Raises PipelineError when it is another machine with the same home that keeps one warm."""
    holder = _recorded_holder()
    if holder and not _is_here(holder) and is_running():
        raise PipelineError(
            f"A JVM is kept warm on {holder.host}, which has the same {state_folder()}.",
            "End it there: " + Command("spark stop") + ".",
        )


def is_running() -> bool:
    """Whether a holder or its JVM lives."""
    try:
        handle = os.open(lock_path(), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # two may look at a time
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
    holder = running_holder()
    if holder is None or not place.is_local or holder.key != key_of(place, os.environ):
        return None
    try:
        connection = _send_request("lease", folder=os.getcwd())
    except OSError:
        return None
    answer = _read_answer(connection)
    if answer is None or not answer.port:
        connection.close()
        return None
    connection.settimeout(None)
    return Lease(connection, answer.port, answer.secret)


def start(place: Place, idle_timeout_s: float) -> WarmStatus:
    """Start a holder and its JVM, and wait until they can be used.

    Returns the status of one of the same kind that runs already, or that another process starts.
    Raises PipelineError when one of another kind does, or when Spark does not start, and UsageError
    for a Spark of another version.
    """
    _check_same_host()
    require_one_version(os.environ)
    order = {"place": asdict(place), "idle_timeout_s": idle_timeout_s}
    key = key_of(place, os.environ)
    own: Process | None = None
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        holder = running_holder()
        if own and not is_alive(own):
            break
        if holder and holder.key != key:
            raise PipelineError(
                "Another JVM is kept warm, with other settings, Java or Spark.",
                "End it first: " + Command("spark stop") + ".",
            )
        if holder and (running := status()):
            return running
        with contextlib.nullcontext() if own else locked() as lock:
            if lock is not None:
                own = _spawn(order, key, lock)
        time.sleep(_POLL_S)
    else:
        if own:
            send_signal(own, signal.SIGKILL)
    raise PipelineError(
        "Spark did not start, or not in time, and is not kept warm.",
        f"Its own words are in {warm_log_path()}.",
    )


def _spawn(order: Mapping[str, Any], key: str, lock: int) -> Process:
    """A holder that is on record, has the lock, and has its order.

    It outlives this process, in a session of its own; its words go to its log.
    """
    made = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    heard, reported = os.pipe()  # settings may be secret, and all users see a command's words
    os.set_inheritable(lock, True)
    # One that was ended before it has its order is missed by who waits for it.
    with (
        contextlib.suppress(BrokenPipeError),
        os.fdopen(reported, "w", encoding="utf-8") as orders,
    ):
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", "kipctl.pipeline.holder"],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, heard, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(warm_log_path()), made | os.O_APPEND, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
            )
        finally:
            os.close(heard)
        process = identify(pid)
        record(holder_of(process, key))
        json.dump({**order, "lock": lock}, orders)
    return process


def status() -> WarmStatus | None:
    """What the holder says of itself; None when there is none that answers."""
    answer = _request("status") if running_holder() else None
    return answer.status if answer else None


def is_starting() -> bool:
    """Whether there is a holder that cannot be asked yet."""
    holder = running_holder()
    return holder is not None and not holder.is_listening


def stop(*, force: bool = False) -> bool:
    """End the holder and its JVM, also while they start; False when there is none.

    One that does not answer is killed. Raises RefusedError when an analysis uses it, unless by
    `force`, and PipelineError if they live on.
    """
    _check_same_host()
    if not is_running():
        return False
    if holder := running_holder():
        answer = _request("stop", force=force)
        if answer and answer.used_by:
            raise RefusedError(
                f"An analysis uses the JVM that is kept warm: process {answer.used_by}.",
                "Wait until it is done, or end both: " + Command("spark stop --force") + ".",
            )
        if answer is None:
            send_signal(holder.process, signal.SIGKILL)  # its JVM ends when its input does
    if not wait_until(lambda: not is_running(), _END_TIMEOUT_S):
        raise PipelineError(
            "The JVM that is kept warm does not end.", f"Its own words are in {warm_log_path()}."
        )
    forget()
    return True


def _send_request(request: Asked, *, folder: str = "", force: bool = False) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_ANSWER_TIMEOUT_S)
        with _socket_address() as address:
            connection.connect(address)
        asked = HolderRequest(request, os.getpid(), folder, force)
        connection.sendall(encoded(asked) + b"\n")
    except OSError:
        connection.close()
        raise
    return connection


def _request(request: Asked, *, force: bool = False) -> HolderAnswer | None:
    """What the holder says to a request; None when it has ended or does not answer."""
    try:
        with _send_request(request, force=force) as connection:
            return _read_answer(connection)
    except OSError:
        return None


def _read_answer(connection: socket.socket) -> HolderAnswer | None:
    """One line of JSON; None when none comes."""
    received = b""
    try:
        while not received.endswith(b"\n"):
            if not (more := connection.recv(4096)):
                return None
            received += more
        return decoded(received, HolderAnswer, "the answer")
    except (OSError, DamagedError):
        return None


@contextlib.contextmanager
def locked() -> Iterator[int | None]:
    """Have the lock while inside, as a file descriptor; None when another process has it."""
    path = lock_path()
    make_private(path.parent)
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
