"""The process that keeps a JVM warm: it starts Spark, lends it, cleans up after, and ends.

It ends with its JVM, when it is told to, and when nobody has used it for some time. A client that
goes, in whatever way, without saying that it is done leaves jobs behind: they are cancelled.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from kipctl.pipeline.class_archive import class_archive
from kipctl.pipeline.jvm import JavaObjects, begin, has_jobs, work_in
from kipctl.pipeline.launch import Launched, java_program, launch
from kipctl.pipeline.place import Place
from kipctl.pipeline.start import conf_of
from kipctl.pipeline.warm import (
    HolderAnswer,
    HolderRequest,
    WarmStatus,
    forget,
    holder_of,
    key_of,
    listen,
    record,
    warm_log_path,
)
from kipctl.process import current_process
from kipctl.typed_json import DamagedError, decoded, encoded

_TICK_S = 0.5
_CANCEL_S = 0.05
_QUIET_TICKS = 4
"""Looks that find no job, until those of a client that has gone are taken for ended."""
_END_TIMEOUT_S = 10.0
_LONGEST_REQUEST = 1 << 16
_REQUEST_TIMEOUT_S = 10.0


class _Client:
    """The one that has the JVM: its connection, and whether it is, or left, in good order."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        self.is_done = False
        self.is_cancelling = False
        self.is_gone = False
        self.quiet_ticks = 0


class _Keeper:
    """Spark in a JVM of its own, and who uses it."""

    def __init__(
        self, place: Place, idle_timeout_s: float, launched: Launched, gateway: JavaGateway
    ) -> None:
        conf = SparkConf().setAll(list(conf_of(place, {}).items()))
        self._context = SparkContext(conf=conf, gateway=gateway)
        SparkSession(self._context).range(1).count()  # its first query loads most of its classes
        self._process = launched.process
        self._gateway = gateway
        self._key = key_of(place, os.environ)
        self._idle_timeout_s = idle_timeout_s
        self._since = self._last_used = time.time()
        self._used_at = time.monotonic()
        self._analyses = 0
        self._client: _Client | None = None
        self._must_end = False
        self._selector = selectors.DefaultSelector()
        self._server = listen()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._objects = JavaObjects(self._context)

    def request_end(self, *_: object) -> None:
        """Take a signal to end."""
        self._must_end = True

    def record(self) -> None:
        """Say that it listens."""
        record(holder_of(current_process(), self._key, is_listening=True))

    def run(self) -> None:
        """Lend the JVM until there is a reason to end."""
        while not self._must_end and self._process.poll() is None:
            idle_s = time.monotonic() - self._used_at
            if self._client is None and idle_s >= self._idle_timeout_s:
                return
            busy = self._client is not None and self._client.is_cancelling
            for key, _ in self._selector.select(_CANCEL_S if busy else _TICK_S):
                if key.fileobj is self._server:
                    self._accept()
                else:
                    self._read_client()
            if self._client and self._client.is_cancelling:
                self._cancel(self._client)

    def _accept(self) -> None:
        connection, _ = self._server.accept()
        connection.settimeout(_REQUEST_TIMEOUT_S)
        try:
            with connection.makefile("rb") as lines:
                request = decoded(lines.readline(_LONGEST_REQUEST), HolderRequest, "the request")
            answer = self._handle(request, connection)
            connection.sendall(encoded(answer) + b"\n")
        except (OSError, DamagedError):
            connection.close()
            return
        if not answer.port:
            connection.close()

    def _handle(self, asked: HolderRequest, connection: socket.socket) -> HolderAnswer:
        """What is said to a request; the connection of a lease stays."""
        if asked.request == "stop":
            if self._client and not self._client.is_gone and not asked.force:
                return HolderAnswer(used_by=self._client.pid)
            self._must_end = True
            return HolderAnswer()
        if asked.request == "status":
            return HolderAnswer(status=self._status())
        if self._client is not None:
            return HolderAnswer(used_by=self._client.pid)
        self._lend(_Client(connection, asked.pid), asked.folder)
        parameters = self._gateway.gateway_parameters
        return HolderAnswer(parameters.port, parameters.auth_token)

    def _status(self) -> WarmStatus:
        return WarmStatus(
            pid=os.getpid(),
            jvm_pid=self._process.pid,
            java=str(java_program(os.environ).resolve()),
            spark=pyspark.__version__,
            driver_memory=self._context.getConf().get("spark.driver.memory") or "",
            since=self._since,
            last_used=self._last_used,
            idle_timeout_s=self._idle_timeout_s,
            analyses=self._analyses,
            memory_bytes=sum(map(_resident_bytes, (os.getpid(), self._process.pid))),
            is_busy=self._client is not None,
        )

    def _lend(self, client: _Client, folder: str) -> None:
        """Make it as if the JVM had been started for this client, in this folder."""
        warm_log_path().write_bytes(b"")
        work_in(self._context, folder)
        self._client = client
        self._analyses += 1
        self._selector.register(client.connection, selectors.EVENT_READ)

    def _read_client(self) -> None:
        """What the client says, or that it has gone."""
        client = self._client
        assert client is not None
        try:
            words = client.connection.recv(4096).split()
        except OSError:
            words = []
        client.is_done |= b"done" in words
        client.is_cancelling |= b"cancel" in words
        if words:
            return
        self._selector.unregister(client.connection)
        client.connection.close()
        client.is_gone = True
        if client.is_done and not client.is_cancelling:
            self._clean_up()
        else:
            client.is_cancelling = True

    def _cancel(self, client: _Client) -> None:
        """Cancel what runs; when the client has gone and nothing runs, that is over."""
        is_quiet = not has_jobs(self._context)
        self._context.cancelAllJobs()
        client.quiet_ticks = client.quiet_ticks + 1 if is_quiet and client.is_gone else 0
        if client.quiet_ticks >= _QUIET_TICKS:
            self._clean_up()

    def _clean_up(self) -> None:
        """Forget what the client had: what it kept, and what of the JVM it held on to."""
        self._objects.let_go()
        self._client = None
        self._last_used, self._used_at = time.time(), time.monotonic()


def _resident_bytes(pid: int) -> int:
    """Its resident memory; 0 where that cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def main() -> None:
    """Keep a JVM warm, as the order in the input says; the lock is this process's already."""
    order = json.load(sys.stdin)
    place = Place(**order["place"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    archive = class_archive(os.environ)
    options = archive.options() if archive and not archive.is_missing else []
    launched = launch(conf_of(place, {}), warm_log_path(), options, pass_fds=(order["lock"],))
    try:
        gateway = begin(launched, warm_log_path())
        keeper = _Keeper(place, order["idle_timeout_s"], launched, gateway)
        signal.signal(signal.SIGTERM, keeper.request_end)
        keeper.record()
        try:
            keeper.run()
        except (Py4JError, OSError):
            print("The JVM has ended.", file=sys.stderr)
    finally:
        forget()
        launched.end_in_order(_END_TIMEOUT_S)


if __name__ == "__main__":
    main()
