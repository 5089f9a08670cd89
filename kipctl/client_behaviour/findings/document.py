"""A finding as it stands in documents of the tap and of request logs."""

from kipctl.client_behaviour.findings.finding import Affected, Finding, Times
from kipctl.documents.common import ClientFinding


def finding_document(finding: Finding, times: Times, known: Affected | None) -> ClientFinding:
    """What was seen, what it leads to, and what to do about it."""
    return {
        "id": finding.id,
        "severity": finding.severity.value,
        "is_known": known is not None,
        "times": times.seen,
        "of": times.of,
        "does": finding.does,
        "costs": finding.costs,
        "change": finding.change,
        "known": known
        and {
            "source": known.source,
            "address": known.address,
            "mended_in": known.mended_in or None,
        },
    }
