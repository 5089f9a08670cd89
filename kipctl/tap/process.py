"""The tap in a process of its own, so that nothing its starter does holds up what passes it."""

import asyncio
import gc
import multiprocessing
import resource
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import uvloop

from kipctl.errors import KipctlError
from kipctl.protocol.address import host_port
from kipctl.signals import leave_to_starter
from kipctl.tap.clients import Counts, Identity
from kipctl.tap.proxy import Tap
from kipctl.tap.spec import TapSpec
from kipctl.trace.clock import now_us

_START_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 60.0
_MOST_MESSAGES = 1000
_SHOW, _STOP = "show", "stop"


class TapDiedError(KipctlError):
    """The tap's process ended by itself: killed, or a fault in kipctl."""


@dataclass(frozen=True, slots=True)
class ClientSeen:
    """A client, what it did since it was first seen, and how many connections it has now."""

    identity: Identity
    counts: Counts
    connections: int


@dataclass(frozen=True, slots=True)
class TapOutcome:
    """What a tap has seen. Times are monotonic microseconds, `cpu_s` is of its process.

    `messages` are lines on connections that it had to drop, the last 1,000 of `dropped`.
    `names` are the texts that its rows give by number, known once it has stopped.
    """

    start_us: int
    now_us: int
    wall_start_us: int
    cluster_id: str
    clients: tuple[ClientSeen, ...]
    ports: Mapping[str, int]
    """The tap's ports by brokers' addresses, as host:port."""
    messages: tuple[str, ...]
    dropped: int
    cpu_s: float
    peak_memory_bytes: int
    names: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Started:
    bootstrap_server: str
    start_us: int


async def _serve(spec: TapSpec, directory: Path | None, pipe: Pipe) -> None:
    start_us = now_us()
    wall_start_us = time.time_ns() // 1000
    messages: deque[str] = deque(maxlen=_MOST_MESSAGES)
    dropped = 0

    def note(line: str) -> None:
        nonlocal dropped
        dropped += 1
        messages.append(line)

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        problem = context.get("exception")
        what = f"{type(problem).__name__}: {problem}" if problem else context.get("message")
        note(f"A connection failed: {what}.")

    tap = Tap(spec, directory, wall_start_us - start_us, note)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(failed)
    over = asyncio.Event()

    def told(names: Mapping[str, tuple[str, ...]]) -> TapOutcome:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        observer = tap.observer
        return TapOutcome(
            start_us,
            now_us(),
            wall_start_us,
            observer.cluster_id,
            tuple(
                ClientSeen(client.identity, client.counts, client.open_connections)
                for client in observer.clients.values()
                if client.counts.connections
            ),
            observer.addresses.ports,
            tuple(messages),
            dropped,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024,
            names,
        )

    def asked() -> None:
        try:
            wanted = pipe.recv()
        except EOFError:  # the starter is gone
            wanted = _STOP
        if wanted == _SHOW:
            pipe.send(told({}))
        else:
            loop.remove_reader(pipe.fileno())
            over.set()

    await tap.start()
    gc.collect()
    gc.freeze()
    pipe.send(_Started(host_port(*tap.bootstrap), start_us))
    loop.add_reader(pipe.fileno(), asked)
    await over.wait()
    await tap.stop()
    pipe.send(told(tap.observer.recorder.names))


def _work(spec: TapSpec, directory: Path | None, pipe: Pipe) -> None:
    """The child."""
    leave_to_starter()
    try:
        uvloop.run(_serve(spec, directory, pipe))
    except KipctlError as error:
        pipe.send(error)
    except BrokenPipeError:
        return
    except BaseException:
        pipe.send(TapDiedError("The tap failed:\n" + traceback.format_exc()))
    finally:
        pipe.close()


class RunningTap:
    """A tap at work. Clients connect to `bootstrap_server`; times are relative to `start_us`."""

    def __init__(self, spec: TapSpec, directory: Path | None) -> None:
        """Start it; returns when it listens. Raises KipctlError."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(spec, directory, theirs), name="kipctl-tap", daemon=True
        )
        self._process.start()
        theirs.close()
        self._outcome: TapOutcome | None = None
        try:
            started = self._receive(_START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        assert isinstance(started, _Started)
        self.bootstrap_server = started.bootstrap_server
        self.start_us = started.start_us

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def show(self) -> TapOutcome:
        """What it has seen so far."""
        return self._ask(_SHOW)

    def stop(self) -> TapOutcome:
        """End it: connections are closed, its rows are whole. Raises TapDiedError."""
        if self._outcome is None:
            self._outcome = self._ask(_STOP)
            self._process.join()
        return self._outcome

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._pipe.close()

    def _ask(self, what: str) -> TapOutcome:
        try:
            self._pipe.send(what)
        except OSError:
            raise self._died() from None
        outcome = self._receive(_ANSWER_TIMEOUT_S)
        assert isinstance(outcome, TapOutcome)
        return outcome

    def _receive(self, timeout_s: float) -> object:
        try:
            if not self._pipe.poll(timeout_s):
                raise TapDiedError(f"The tap did not answer within {timeout_s:.0f} s.")
            message = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        if isinstance(message, KipctlError):
            raise message
        return message

    def _died(self) -> TapDiedError:
        self._process.join(_ANSWER_TIMEOUT_S)
        return TapDiedError(f"The tap's process ended (exit code {self._process.exitcode}).")


@contextmanager
def running_tap(spec: TapSpec, directory: Path | None) -> Iterator[RunningTap]:
    """A tap that listens; its process is gone when the block is left.

    Its rows are written into `directory`, if there is one.
    """
    tap = RunningTap(spec, directory)
    try:
        yield tap
    finally:
        tap.close()
