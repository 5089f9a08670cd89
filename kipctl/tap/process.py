"""The tap in a process of its own, so that nothing its starter does holds up what passes it."""

import asyncio
import gc
import resource
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import uvloop

from kipctl.child_process import ChildProcess
from kipctl.client_behaviour.behaviour import Seen
from kipctl.protocol.address import host_port
from kipctl.tap.clients import Client, Counts, Identity
from kipctl.tap.proxy import Tap
from kipctl.tap.sightings import FindingSeen, Sign
from kipctl.tap.spec import TapSpec
from kipctl.trace.clock import now_us
from kipctl.trace.folder_lock import in_use
from kipctl.trace.run_start import RunStart, write_whole
from kipctl.typed_json import decoded, encoded

_START_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 60.0
_MOST_MESSAGES = 1000
_CLIENTS_AT_ONCE = 50
"""Told in about a millisecond, in which no other client is served."""
_SHOW, _STOP = "show", "stop"
OUTCOME_FILE = "outcome"
_NO_NAMES: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class ClientSeen:
    """A client, what it did since it was first seen, and how many connections it has now."""

    identity: Identity
    counts: Counts
    connections: int
    seen: Seen = field(default_factory=Seen)
    """What is judged; its waits are those of the last 10,000 moved leaders."""
    moves: int = 0
    """Moved leaders that it met and found."""
    given_up: int = 0
    """Partitions that it was refused and did not try again, or not with success."""
    took_us: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Of its batches: how many, p50, p99 and the longest."""
    findings: tuple[FindingSeen, ...] = ()
    """The worst first."""
    knows_topic: bool = True
    """Whether Metadata has shown it the topic that the tap is about (`TapSpec.topic`)."""


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
    failure: str = ""
    """Why it ended by itself: then it counts what was known of it."""
    leading: Mapping[int, int] = field(default_factory=dict)
    """Partitions by their leader, as far as what passed has shown it."""
    busy: float | None = None
    """The share of the machine's CPU time that was used, 0 to 1; None if it is not known."""
    most_busy: float = 0.0
    """The largest share in the 5 s before a client was done with a refusal."""
    signs: tuple[Sign, ...] = ()
    """Of findings, the last 1,000 of `signs_seen`."""
    signs_seen: int = 0
    late_us: int = 0
    """How much later than it should have the tap went on (p99)."""


@dataclass(frozen=True, slots=True)
class _Started:
    bootstrap_server: str
    start_us: int


@dataclass(frozen=True, slots=True)
class _Shown:
    """An answer to `show`: the outcome without its clients, and these, some at a time, as JSON."""

    outcome: TapOutcome
    clients: tuple[bytes, ...]

    def whole(self) -> TapOutcome:
        told = (decoded(some, tuple[ClientSeen, ...], "The answer") for some in self.clients)
        return replace(self.outcome, clients=tuple(chain.from_iterable(told)))


async def _serve(spec: TapSpec, directory: Path | None, pipe: Pipe) -> TapOutcome:
    begun = RunStart.on_this_machine(now_us())
    if directory:
        begun.write(directory)
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

    tap = Tap(spec, directory, begun.wall_start_us - begun.start_us, note)
    watch = tap.observer.watch
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(failed)
    over = asyncio.Event()

    def outcome(
        clients: Iterable[Client], names: Mapping[str, tuple[str, ...]] = _NO_NAMES
    ) -> TapOutcome:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return TapOutcome(
            begun.start_us,
            now_us(),
            begun.wall_start_us,
            tap.observer.cluster_id,
            _seen(clients, spec),
            tap.observer.addresses.ports,
            tuple(messages),
            dropped,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024,
            names,
            leading={
                broker: count for broker, count in tap.observer.leaders.leading.items() if count
            },
            busy=watch.busy,
            most_busy=watch.most_busy,
            late_us=watch.late.summary[2],
            signs=tuple(tap.observer.signs.last),
            signs_seen=tap.observer.signs.total,
        )

    async def show() -> None:
        """Clients go on meanwhile: some are told at a time, and a thread waits for the pipe."""
        known, clients = [*tap.observer.clients.values()], []
        for first in range(0, len(known), _CLIENTS_AT_ONCE):
            clients.append(encoded(_seen(known[first : first + _CLIENTS_AT_ONCE], spec)))
            await asyncio.sleep(0)
        shown = _Shown(outcome(()), tuple(clients))
        await loop.run_in_executor(None, pipe.send, shown)

    showing: asyncio.Task[None] | None = None

    def show_now() -> None:
        nonlocal showing
        showing = loop.create_task(show())

    def listen() -> None:
        """In a thread: a reset pipe, of a starter killed before it read an answer, is told to a
        reader that waits for it, and not to libuv's poll."""
        wanted = _SHOW
        while wanted == _SHOW:
            try:
                wanted = pipe.recv()
            except (EOFError, OSError):  # the starter is gone
                wanted = _STOP
            loop.call_soon_threadsafe(show_now if wanted == _SHOW else over.set)

    await tap.start()
    gc.collect()
    gc.freeze()
    pipe.send(_Started(host_port(*tap.bootstrap), begun.start_us))
    threading.Thread(target=listen, daemon=True).start()
    await over.wait()
    await tap.stop()
    whole = outcome(tap.observer.clients.values(), tap.observer.recorder.names)
    if directory:
        write_whole(directory / OUTCOME_FILE, encoded(whole))
    if showing:  # the starter was killed before it had it all
        with suppress(OSError):
            await showing
    return whole


def _seen(clients: Iterable[Client], spec: TapSpec) -> tuple[ClientSeen, ...]:
    return tuple(
        ClientSeen(
            client.identity,
            client.counts,
            client.open_connections,
            client.seen(spec.drop_hints),
            client.episodes.moves.total,
            client.episodes.given_up,
            client.took.summary,
            client.findings(spec.drop_hints, now_us()),
            not spec.topic or spec.topic in client.topics,
        )
        for client in clients
        if client.counts.connections
    )


def _in_child(spec: TapSpec, directory: Path | None, pipe: Pipe) -> TapOutcome:
    with in_use(directory) if directory else nullcontext():
        return uvloop.run(_serve(spec, directory, pipe))


class RunningTap:
    """A tap at work. Clients connect to `bootstrap_server`; times are relative to `start_us`."""

    def __init__(self, spec: TapSpec, directory: Path | None) -> None:
        """Start it; returns when it listens. Raises KipctlError."""
        self._child = ChildProcess(
            "The tap", _in_child, spec, directory, start_timeout_s=_START_TIMEOUT_S
        )
        self.close = self._child.close
        self._outcome: TapOutcome | None = None
        self.shown: TapOutcome | None = None
        """What it has shown last."""
        started = self._child.started
        assert isinstance(started, _Started)
        self.bootstrap_server = started.bootstrap_server
        self.start_us = started.start_us

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def show(self) -> TapOutcome:
        """What it has seen so far. Raises ChildDiedError."""
        self.shown = self._ask(_SHOW)
        return self.shown

    def stop(self) -> TapOutcome:
        """End it: connections are closed, its rows are whole. Raises ChildDiedError."""
        if self._outcome is None:
            self._outcome = self._ask(_STOP)
            self._child.join()
        return self._outcome

    def _ask(self, what: str) -> TapOutcome:
        try:
            self._child.send(what)
        except OSError:
            raise self._child.died() from None
        answer = self._child.receive(_ANSWER_TIMEOUT_S)
        outcome = answer.whole() if isinstance(answer, _Shown) else answer
        assert isinstance(outcome, TapOutcome)
        return outcome


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
