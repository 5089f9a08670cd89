"""Every error a user can meet, and the exit statuses."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Self


class ExitStatus(IntEnum):
    """The exit statuses, and their meaning in the manual. Scripts may rely on the numbers."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        status = int.__new__(cls, value)
        status._value_ = value
        status.meaning = meaning
        return status

    DONE = 0, "Done."
    FAULT = 1, "A fault in kipctl."
    USAGE = 2, "Wrong usage: the options or an input file; nothing was done."
    UNREACHABLE = 3, "The cluster cannot be reached."
    REFUSED = 4, "Refused by the cluster, or by a guard of kipctl."
    PARTLY_DONE = 5, "Partly done; what was done is printed."
    TIMED_OUT = 6, "It did not finish in the time allowed."
    THRESHOLD_NOT_MET = 7, "A threshold asked for was not met."
    PIPELINE_FAILED = 8, "The Spark pipeline failed."
    HUNG_UP = 129, "Interrupted: its terminal was closed (SIGHUP)."
    INTERRUPTED = 130, "Interrupted (Ctrl-C)."
    TERMINATED = 143, "Interrupted by SIGTERM."


class KipctlError(Exception):
    """An error with a message for the user: what happened, to what, and what to do next.

    `what` says the first two in one or two sentences; `next_step` the third. Together they are at
    most three lines. `status` is the exit status that `main` returns when the error reaches it.
    """

    status = ExitStatus.FAULT

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.what}\n{self.next_step}" if self.next_step else self.what

    def __reduce__(self) -> tuple[type["KipctlError"], tuple[str, str]]:
        return (type(self), (self.what, self.next_step))


class UsageError(KipctlError):
    """The options or an input file are wrong; nothing was done."""

    status = ExitStatus.USAGE


class UnreachableError(KipctlError):
    """No broker answered, or a broker went away for good."""

    status = ExitStatus.UNREACHABLE


class RefusedError(KipctlError):
    """The cluster, or a guard of kipctl's own, said no."""

    status = ExitStatus.REFUSED


class PartlyDoneError(KipctlError):
    """Some of what was asked is done, some is not; the message says which."""

    status = ExitStatus.PARTLY_DONE


class TimedOutError(KipctlError):
    """It did not finish in the time allowed."""

    status = ExitStatus.TIMED_OUT


class ThresholdError(KipctlError):
    """A threshold that the user asked for was not met."""

    status = ExitStatus.THRESHOLD_NOT_MET


class PipelineError(KipctlError):
    """The Spark pipeline failed."""

    status = ExitStatus.PIPELINE_FAILED


class InterruptedRunError(KipctlError):
    """The user interrupted; the message says what was done, what not, and how to undo it."""

    status = ExitStatus.INTERRUPTED


_KINDS = (
    UsageError,
    UnreachableError,
    RefusedError,
    PartlyDoneError,
    TimedOutError,
    ThresholdError,
    PipelineError,
    InterruptedRunError,
)


def error_of(status: ExitStatus, what: str, next_step: str = "") -> KipctlError:
    """The error that ends with this status, as another process has told it."""
    kind = next((kind for kind in _KINDS if kind.status is status), KipctlError)
    return kind(what, next_step)


@contextmanager
def refusals_reported() -> Iterator[None]:
    """An OSError about a path becomes a UsageError that names it."""
    try:
        yield
    except OSError as refused:
        raise UsageError(
            f"{refused.filename} cannot be looked at: {refused.strerror}.",
            "See who may read it, and the folders above it.",
        ) from refused


def did_you_mean(given: object, known: Iterable[object], alike: float = 0.6) -> str:
    """` Did you mean 'orders'?`, to follow a refusal of a name; empty where none is so much alike,
    as difflib counts, and where two are equally so: of rack-1 and rack-2 none is meant by rack-9.
    """
    from difflib import SequenceMatcher, get_close_matches

    near = get_close_matches(str(given), map(str, known), n=2, cutoff=alike)
    likeness = [SequenceMatcher(None, name, str(given)).ratio() for name in near]
    return f" Did you mean {near[0]!r}?" if near and likeness[0] not in likeness[1:] else ""


def no_such(kind: str, name: str, known: Collection[str]) -> str:
    """A refusal of a name that no thing of the kind has, with those that they have."""
    listed = f"; there is: {', '.join(known)}" if known else ", and no other"
    return f"There is no {kind} {name!r}{listed}.{did_you_mean(name, known)}"
