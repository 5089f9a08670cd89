"""What consumers make of the replicas that leaders name to them (KIP-392), of fetch sessions
(KIP-227), and of positions (KIP-320)."""

from kipctl.client_behaviour.facts import Event
from kipctl.client_behaviour.findings.finding import Affected, Finding, events
from kipctl.severity import Severity

FINDINGS = (
    Finding(
        id="replica-flip-flop",
        severity=Severity.WARNING,
        does="goes back to the leader again and again, which sends it to the replica that it left",
        costs="Each time is a request more without records, and reads cross zones in between.",
        change="Update the client: it is to keep a replica until that errs, or metadata.max.age.ms"
        " is over.",
        is_it=events(Event.REPLICA_FLIP),
    ),
    Finding(
        id="replica-kept",
        severity=Severity.PROBLEM,
        does="asks a replica again and again that says that it is none any more",
        costs="Nothing of that partition is read until something else makes it ask the leader.",
        change="Update the client; until then restart it.",
        is_it=events(Event.REPLICA_KEPT),
    ),
    Finding(
        id="replica-ignored",
        severity=Severity.WARNING,
        does="asks the leader again that has named a replica to it, and does not go there",
        costs="The leader sends no records to it: nothing is read, as fast as it can ask.",
        change="Update the client, or leave client.rack out.",
        is_it=events(Event.REPLICA_IGNORED),
    ),
    Finding(
        id="refetch-after-recheck",
        severity=Severity.WARNING,
        does="reads the same offsets again when it changes between leader and replica",
        costs="Records come twice, to the program or over the wire alone.",
        change="Update the client.",
        is_it=events(Event.READ_TWICE),
        least=3,
    ),
    Finding(
        id="epoch-loop",
        severity=Severity.PROBLEM,
        does="asks with a leader epoch that is refused, more than five times a second",
        costs="Nothing of that partition is read, and the broker answers errors all the time.",
        change="Update the client; until then restart it.",
        is_it=events(Event.EPOCH_REFUSED),
    ),
    Finding(
        id="session-churn",
        severity=Severity.WARNING,
        does="begins a fetch session anew with most of its requests",
        costs="Each request names all of its partitions, and takes another client's place in the"
        " broker's cache of sessions.",
        change="Update the client.",
        is_it=events(Event.SESSION_LOST),
        least=2,
        known=(Affected("platformatic-kafka", (0,), (2, 3), "platformatic/kafka#315"),),
    ),
    Finding(
        id="position-loop",
        severity=Severity.PROBLEM,
        does="asks again and again for what a position cannot be had by: offsets of a broker that"
        " does not lead, or records at an offset that is out of range",
        costs="Nothing of that partition is read, as fast as it can ask.",
        change="Update the client; until then restart it.",
        is_it=events(Event.POSITION_REFUSED),
        known=(Affected("librdkafka", (1, 3), (2, 6, 1), "confluentinc/librdkafka#4616"),),
    ),
)
