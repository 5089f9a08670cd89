"""What reads something that others say or leave, given what nobody should: what may happen then.

A target is a number of readers. Whatever a reader is given it ends with a value or with an error
that it declares, in a time and with memory in proportion to the length of what it was given.
"""

import re
import signal
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from mutations import Change

from kipctl.errors import ExitStatus, KipctlError
from kipctl.protocol.primitives import EncodeError, MalformedFrame

DECLARED = tuple(cls for cls in KipctlError.__subclasses__() if cls.status is not ExitStatus.FAULT)
"""The errors that end a command with a status of its own."""
MALFORMED = (MalformedFrame, EncodeError)
"""Those of codecs: whoever calls one makes another of them."""

MIB = 1 << 20
_MEASURED = 20
"""One case of so many has its memory measured, which takes three times as long."""
_MOST_S = 20
"""Of processor time, for a case: none takes a tenth of it."""
_SHRINK_S = 5.0


@dataclass(frozen=True, slots=True)
class Reader:
    """`sound` inputs, how they are `changed`, and what reads them.

    It may need MIB and `memory` times the input's length; 0 for where that is another process'.
    """

    sound: Sequence[bytes]
    read: Callable[[bytes], object]
    changed: Change
    declared: tuple[type[Exception], ...] = DECLARED
    memory: int = 64


Target = Callable[[Path], AbstractContextManager[Mapping[str, Reader]]]
"""Readers by name, for as long as the block runs; the folder is theirs."""


class FaultError(Exception):
    """A command has ended with the status of a fault: its words, and what it has written."""

    def place(self) -> str:
        """The last line of kipctl's in its traceback, and the error."""
        _, written = self.args
        lines = re.findall(r"/kipctl/([\w/]+\.py).*?, line (\d+)", written) or [("", "")]
        error = re.search(r"a fault in kipctl: (\w+)", written)
        return f"{error[1] if error else 'fault'} at {':'.join(lines[-1])}"


class Fault(NamedTuple):
    """What must not happen, in a line; two of the same `place` are taken for one."""

    what: str
    place: str
    trace: str = ""


class Found(NamedTuple):
    """A fault, and the shortest input that was found to lead to it."""

    fault: Fault
    reader: str
    case: int
    content: bytes


@dataclass(slots=True)
class Tally:
    """What became of the cases of a target."""

    ends: Counter[str] = field(default_factory=Counter)
    """`read`, or the name of the declared error."""
    slowest: tuple[float, str, int] = (0.0, "", -1)
    """Seconds of processor time, the reader, and the case."""
    failures: dict[str, Found] = field(default_factory=dict)
    """By the place of the fault."""

    @property
    def cases(self) -> int:
        return self.ends.total()


class _TookLong(BaseException):
    """Passes through whatever expects errors."""


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    def end(*_: object) -> None:
        raise _TookLong

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def fault_in(reader: Reader, content: bytes, *, is_measured: bool) -> Fault | str:
    """What is wrong with how this is read; else how it ended: `read`, or with which error."""
    if is_measured:
        tracemalloc.start()
    try:
        with _no_longer_than(_MOST_S):
            end = _end(reader, content)
        peak = tracemalloc.get_traced_memory()[1] if is_measured else 0
    except _TookLong:
        trace = traceback.format_exc()
        return Fault(f"more than {_MOST_S} s for {len(content)} bytes", "time", trace)
    finally:
        tracemalloc.stop()
    if is_measured and peak > MIB + reader.memory * len(content):
        return Fault(f"{peak:,} bytes of memory for {len(content):,} bytes", "memory")
    return end


def _end(reader: Reader, content: bytes) -> Fault | str:
    try:
        reader.read(content)
    except reader.declared as declared:
        return type(declared).__name__
    except FaultError as fault:
        return Fault(f"kipctl {fault.args[0]}: {fault.place()}", fault.place(), fault.args[1])
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        *_, last = [frame for frame in frames if "/kipctl/" in frame.filename] or frames
        place = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        return Fault(f"{place}: {str(error)[:300]!r}", place, traceback.format_exc())
    return "read"


def case_of(
    target: str, readers: Mapping[str, Reader], seed: str, number: int
) -> tuple[str, bytes]:
    """The name of a reader, and what it is given: the same for the same seed and number."""
    choose = Random(f"{seed} {target} {number}")
    name = choose.choice([*readers])
    return name, readers[name].changed(choose.choice(readers[name].sound), choose)


def fuzz(
    target: str, readers: Mapping[str, Reader], seed: str, numbers: Iterable[int], tally: Tally
) -> Tally:
    """Read these cases; what is found is shrunk at once."""
    for number in numbers:
        name, content = case_of(target, readers, seed, number)
        reader = readers[name]
        began = time.process_time()
        is_measured = bool(reader.memory and not number % _MEASURED)
        end = fault_in(reader, content, is_measured=is_measured)
        if isinstance(end, Fault) and end.place == "memory":  # not of what grows now and then
            end = fault_in(reader, content, is_measured=True)
        tally.slowest = max(tally.slowest, (time.process_time() - began, name, number))
        if isinstance(end, Fault):
            if end.place not in tally.failures:
                shortest = shrunk(reader, content, end)
                tally.failures[end.place] = Found(end, name, number, shortest)
            end = "FAULT"
        tally.ends[end] += 1
    return tally


def shrunk(reader: Reader, content: bytes, fault: Fault) -> bytes:
    """The shortest input found in a while, without parts of this one, that has the same fault."""
    if fault.place in ("time", "memory"):
        return content
    until, size = time.monotonic() + _SHRINK_S, len(content) // 2
    while size and time.monotonic() < until:
        at = 0
        while at < len(content) and time.monotonic() < until:
            less = content[:at] + content[at + size :]
            end = fault_in(reader, less, is_measured=False)
            if isinstance(end, Fault) and end.place == fault.place:
                content = less
            else:
                at += size
        size //= 2
    return content
