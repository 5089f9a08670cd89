"""All findings, those that were seen, and those that are known of a software."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.facts import Fact
from kipctl.client_behaviour.findings import hints, metadata, produce, replicas
from kipctl.client_behaviour.findings.finding import (
    NAMESAKES_TELL_NOTHING,
    Affected,
    Finding,
    Times,
)
from kipctl.client_behaviour.software import Software
from kipctl.documents.tap import TapDocument
from kipctl.errors import UsageError, did_you_mean
from kipctl.severity import Severity

_SUBJECTS = (hints, metadata, produce, replicas)
FINDINGS = {finding.id: finding for subject in _SUBJECTS for finding in subject.FINDINGS}


ANY = "any"
"""Stands for all findings but notes."""


class Seen(NamedTuple):
    """A finding that was seen of a client; `known` if that is known of its software's version."""

    finding: Finding
    times: Times
    known: Affected | None


def seen(
    facts: Mapping[Fact, int], software: Software, doubts: Collection[Doubt] = ()
) -> list[Seen]:
    """What the facts come to, the worst first, and the most frequent of these.

    Where several processes may share the client's name nothing is said of what a client does.
    """
    is_one = NAMESAKES_TELL_NOTHING.isdisjoint(doubts)
    were_seen = [
        Seen(finding, times, finding.affected(software))
        for finding in FINDINGS.values()
        if (is_one or not finding.is_clients) and (times := finding.times_seen(facts))
    ]
    return sorted(were_seen, key=lambda entry: (entry.finding.severity.rank, -entry.times.seen))


@lru_cache(maxsize=4096)
def matching(fact: Fact) -> tuple[Finding, ...]:
    """The findings of which a fact is a sign."""
    return tuple(finding for finding in FINDINGS.values() if finding.matches(fact))


def known_of_version(software: Software) -> list[tuple[Finding, Affected]]:
    """What is known to hurt clients of that version, whether it was seen or not."""
    return [
        (finding, known)
        for finding in FINDINGS.values()
        if finding.severity is not Severity.NOTE and (known := finding.affected(software))
    ]


def known_bug(software: Software) -> str:
    """What is known to be wrong with it when leaders move, as a sentence; "" if nothing is."""
    known = known_of_version(software)
    if not known:
        return ""
    told = "; ".join(
        f"it {finding.does} ({at.source}, "
        + (f"mended in {at.mended_in})" if at.until else "not mended in any version yet)")
        for finding, at in known
    )
    return f"Known of {software}: {told}."


def wanted_findings(names: Sequence[str]) -> frozenset[str]:
    """The findings of --fail-if. Raises UsageError for what is none."""
    for name in names:
        if name not in FINDINGS and name != ANY:
            raise UsageError(
                f"--fail-if {name!r} is no finding of a client.{did_you_mean(name, FINDINGS)}",
                "There are: " + ", ".join((*FINDINGS, ANY)) + ".",
            )
    every = (id for id, finding in FINDINGS.items() if finding.severity is not Severity.NOTE)
    return frozenset((*(name for name in names if name != ANY), *(every if ANY in names else ())))


def failed_findings(document: TapDocument, names: Collection[str]) -> list[str]:
    """Which of those some client has, each once."""
    every = (finding["id"] for client in document["clients"] for finding in client["findings"])
    return [name for name in dict.fromkeys(every) if name in names]
