"""A producer that is any program: started with a bootstrap server and a topic, ended on time."""

import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.load.clients.child import Child
from kipctl.load.clients.client import ConsumerLoad, Produced, ProducerLoad
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.reachable import require_reachable

_FOREVER_US = 1 << 62
_STARTS_S = 60.0
"""A program may take so long before its first record: on a busy machine Python or a JVM do."""
_SAID = 300
"""So many characters of what it said last are told where it fails."""


def parse_command(text: str, option: str) -> tuple[str, ...]:
    """Its words, as a shell splits them. Raises UsageError for a quote that is not closed, and for
    none."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {str(error)[:1].lower()}{str(error)[1:]}.") from None
    if not words:
        raise UsageError(f"{option} needs a command.")
    return words


def runnable(words: Sequence[str], option: str) -> tuple[str, ...]:
    """The same with the program's path, if it has one, made whole, as it works elsewhere. Raises
    UsageError for a program that cannot be run: ask before anything is begun for it."""
    program, *others = words
    if shutil.which(program) is None:
        why = "it may not be executed" if Path(program).exists() else os.strerror(errno.ENOENT)
        raise UsageError(f"{option}: {program} cannot be run: {why}.", "Give its whole path.")
    return (str(Path(program).absolute()) if "/" in program else program, *others)


class RunningCommand:
    """At work until it ends, or until its load should be over: then it is asked to (SIGTERM)."""

    def __init__(self, words: Sequence[str], child: Child, seconds: float) -> None:
        self._name, self._child, self._seconds = words[0], child, seconds
        self.software, self.version = Path(words[0]).name, ""
        self.start_us = now_us()
        self._until_us = self._after(self.start_us, _STARTS_S)
        self.stopped = False

    def sends_since(self, time_us: int) -> None:
        """Its first record was seen: its load takes its time from then on."""
        self._until_us = self._after(time_us)

    def _after(self, time_us: int, more_s: float = 0.0) -> int:
        return time_us + round((self._seconds + more_s) * 1e6) if self._seconds else _FOREVER_US

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""
        is_over = self._child.is_over_by(min(time_us, self._until_us))
        return is_over or now_us() >= self._until_us

    def stop(self) -> None:
        """Ask it to end."""
        self.stopped = True
        self._child.terminate()

    def outcome(self) -> Produced:
        """What is known of it once it is done: its own account is not read.

        Raises RefusedError where it ended by itself, and not well.
        """
        is_over = self._child.is_over_by(self._until_us)
        code = self._child.exit_code
        if is_over and code and not self.stopped:
            raise self._failure(code)
        self._child.close()
        return Produced(
            software=self.software,
            version=self.version,
            records=None,
            failed=None,
            seconds=(now_us() - self.start_us) / 1e6,
            latency_ms={},
            cpu_s=self._child.cpu_s,
            stopped=self.stopped,
        )

    def _failure(self, code: int) -> KipctlError:
        said = " ".join((self._child.new_stderr() or self._child.stdout()).split())[-_SAID:]
        ended = f"ended with status {code}" if code > 0 else f"was ended by signal {-code}"
        return RefusedError(f"{self._name} {ended}{f': {said}' if said else ''}.")


@dataclass(frozen=True, slots=True)
class CommandClient:
    """A command line; in its words {bootstrap}, {topic}, {partitions}, {records}, {rate}, {size}
    and {acks} stand for what it is given: a server, a topic and how many partitions it has, how
    many records of how many bytes, how many a second, and who has to acknowledge them. `software`
    is what it is, where that is not its program's name.
    """

    words: tuple[str, ...]
    version: str = ""
    software: str = ""

    @contextmanager
    def producer(self, load: ProducerLoad, access: Access) -> Iterator[RunningCommand]:
        """It, started in a folder of its own. Raises KipctlError where it cannot be."""
        require_reachable(access)
        given = {
            "bootstrap": str(access),
            "topic": load.topic,
            "records": str(load.num_records),
            "rate": str(load.throughput),
            "size": str(load.record_size),
            "partitions": str(load.partitions),
            "acks": load.properties.get("acks", "all"),
        }
        seconds = load.num_records / load.throughput if load.throughput > 0 else 0.0
        with running_command(self.words, given, seconds) as running:
            running.software = self.software or running.software
            running.version = self.version
            yield running

    def consumer(self, load: ConsumerLoad, access: Access) -> NoReturn:
        """Raises UsageError: who reads is not asked yet."""
        raise UsageError("A command is measured as a producer.", "Name another client to read.")


@contextmanager
def running_command(
    words: Sequence[str], given: Mapping[str, str], seconds: float = 0.0
) -> Iterator[RunningCommand]:
    """A command line with what is `given` in place of {NAME}, started in a folder of its own; it is
    over after so many seconds (0: when it is). Raises UsageError where it cannot be started."""
    words = [filled(word, given) for word in words]
    with tempfile.TemporaryDirectory(prefix="kipctl-command-") as folder:
        try:
            child = Child(words, Path(folder))
        except OSError as error:
            raise UsageError(
                f"{words[0]} cannot be run: {error.strerror}.", "Give its whole path."
            ) from None
        try:
            yield RunningCommand(words, child, seconds)
        finally:
            child.close_all()


def filled(word: str, given: Mapping[str, str]) -> str:
    """The word with what stands for something replaced; other braces stay as they are."""
    for name, value in given.items():
        word = word.replace(f"{{{name}}}", value)
    return word
