"""What a rule says of a client."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    """What software is held against the rules as."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    PROXY = "proxy"


class Status(StrEnum):
    """The verdicts."""

    PASS = "PASS"
    SLOW = "SLOW"
    """It does what the rule asks, later than the rule gains by."""
    FAIL = "FAIL"
    NOT_APPLICABLE = "N/A"
    """It asks in a version that has none of this."""
    NOT_REACHED = "NOT REACHED"
    """It did not come to where the rule could be judged."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one run, with what was seen, as a sentence; `ms` is when the request came that decided,
    in ms since the first refusal, where one did."""

    status: Status
    seen: str
    ms: float | None = None


class Outcome(NamedTuple):
    """A judgement, and what it is by."""

    judgement: Judgement
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of a rule, by several runs; `evidence` are the requests of one that decided."""

    rule: str
    status: Status
    seen: str
    runs: tuple[Judgement, ...] = ()
    evidence: tuple[str, ...] = ()
    has_not_started: bool = False
    """In no run the client sent or read enough to be judged."""


def decided(runs: tuple[Judgement, ...], most: int) -> Status | None:
    """The status that most of the runs have, once the others cannot outweigh it.

    That is two of three; three that all differ are NOT REACHED. What does not apply, by the
    client's version or kind, does not in any. None: another run is needed.
    """
    if runs and runs[0].status is Status.NOT_APPLICABLE:
        return Status.NOT_APPLICABLE
    for status in Status:
        if 2 * sum(run.status is status for run in runs) > most:
            return status
    return Status.NOT_REACHED if len(runs) >= most else None


def outcome(status: Status, seen: str, evidence: Iterable[str] = ()) -> Outcome:
    return Outcome(Judgement(status, seen), tuple(evidence))


def judged(problems: Sequence[str], well: str) -> Outcome:
    """FAIL with all problems as evidence, or PASS."""
    if not problems:
        return outcome(Status.PASS, well)
    more = f" And {len(problems) - 1:,} more." if len(problems) > 1 else ""
    return outcome(Status.FAIL, f"{problems[0]}.{more}", problems)
