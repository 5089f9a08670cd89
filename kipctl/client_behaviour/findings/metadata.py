"""What clients ask for Metadata, and how often (KIP-526); whether they go where it says."""

from kipctl.client_behaviour.facts import Event
from kipctl.client_behaviour.findings.finding import Affected, Finding, events
from kipctl.severity import Severity

FINDINGS = (
    Finding(
        id="metadata-storm",
        severity=Severity.WARNING,
        does="asks for Metadata more than ten times a second, and is told what it was told before",
        costs="Brokers answer it with all partitions of its topics each time, just when leaders"
        " move; many such clients slow down all others.",
        change="Update the client, or set its retry backoff and Metadata interval higher.",
        is_it=events(Event.ALIKE_METADATA),
        least=2,
        known=(
            Affected("librdkafka", (2, 1), (2, 4), "confluentinc/librdkafka#4577"),
            Affected("platformatic-kafka", (0,), None, "platformatic/kafka@9031cc4"),
        ),
    ),
    Finding(
        id="metadata-everything",
        severity=Severity.NOTE,
        does="produces, and asks for the Metadata of all topics of the cluster",
        costs="Answers grow with the cluster and not with what it uses: megabytes where there are"
        " many partitions.",
        change="Have it ask for its own topics (sarama: Metadata.Full = false).",
        is_it=events(Event.ALL_TOPICS),
        least=5,
    ),
    Finding(
        id="metadata-all-for-one",
        severity=Severity.NOTE,
        does="asks for all of its topics again when it meets a new one",
        costs="With many topics each new one costs an answer with all of them (KIP-526).",
        change="Update the client.",
        is_it=events(Event.KNOWN_WITH_NEW),
        least=5,
        known=(Affected("apache-kafka-java", (0,), (2, 5), "KAFKA-8904"),),
    ),
    Finding(
        id="dead-leader-retried",
        severity=Severity.WARNING,
        does="tries again and again to reach a broker that is gone, and does not look, or go,"
        " where Metadata says",
        costs="What that broker led stands still for this client, though another leads it.",
        change="Update the client, or set metadata.max.age.ms lower.",
        is_it=events(Event.DEAD_LEADER_RETRIED),
    ),
    Finding(
        id="recreated-ignored",
        severity=Severity.PROBLEM,
        does="asks for a topic that was deleted and made again as if it were the old one",
        costs="Nothing of that topic is written or read until the client is restarted.",
        change="Update the client; until then restart it when a topic is made again.",
        is_it=events(Event.RECREATED_IGNORED),
        known=(Affected("apache-kafka-java", (0,), (3, 0), "KAFKA-12257"),),
    ),
    Finding(
        id="rebootstrap-ignored",
        severity=Severity.WARNING,
        does="is to begin again at its bootstrap servers, and stays with the brokers that it knows",
        costs="Where the cluster has moved it never finds it, until it is restarted.",
        change="Update the client, or set metadata.recovery.strategy to rebootstrap.",
        is_it=events(Event.REBOOTSTRAP_IGNORED),
        known=(Affected("librdkafka", (2, 11), (2, 16), "confluentinc/librdkafka#5605"),),
    ),
)
