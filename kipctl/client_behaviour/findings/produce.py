"""What idempotent producers do when leaders move (KIP-98)."""

from kipctl.client_behaviour.facts import Event
from kipctl.client_behaviour.findings.finding import Finding, events
from kipctl.severity import Severity

FINDINGS = (
    Finding(
        id="sequence-trouble",
        severity=Severity.WARNING,
        does="sends batches of one partition whose sequence is refused, many in a row",
        costs="Batches that were in order wait, or are given up; with a raised producer epoch those"
        " of other partitions may be written twice.",
        change="Update the client, or have it send fewer requests at once while leaders move.",
        is_it=events(Event.SEQUENCE_REFUSED),
    ),
)
