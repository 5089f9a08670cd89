"""Findings about brokers' releases, features and API versions."""

from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, capital, note, warning
from kipctl.cluster.kafka_release import release_of
from kipctl.counts import broker_list
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey

METADATA_VERSION = "metadata.version"


def releases(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers of different releases, and features that are not in use yet."""
    newest = {
        broker.id: broker.supported[METADATA_VERSION][1]
        for broker in facts.answering
        if METADATA_VERSION in broker.supported
    }
    exact = {b.id: m.kafka_version for b in facts.brokers if (m := facts.metrics_of(b.id))}
    if len(set(newest.values())) > 1 or len(set(exact.values()) - {None}) > 1:
        reported = ", ".join(
            f"{broker}: {exact.get(broker) or release_of(level) or 'before 3.3'}"
            for broker, level in newest.items()
        )
        yield warning(
            "releases-differ",
            f"Brokers run different releases of Kafka ({reported}).",
            "What a client gets, leader hints for instance, depends on who leads.",
            "Finish the rolling upgrade.",
        )
        return
    in_use = {v for b in facts.answering if (v := b.finalized.get(METADATA_VERSION)) is not None}
    if newest and in_use and min(in_use) < (level := min(newest.values())):
        yield note(
            "feature-level-behind",
            f"metadata.version is {min(in_use)} ({release_of(min(in_use)) or 'before 3.3'}), the"
            f" brokers know {level} ({release_of(level)}).",
            "Features of the newer release stay off.",
            f"When no downgrade is planned: kafka-features.sh upgrade --release-version"
            f" {release_of(level)}",
        )


def apis(facts: ClusterFacts) -> Iterator[Finding]:
    """Versions that clients, or kipctl, would need."""

    def older(api: ApiKey, version: int) -> list[int]:
        return [
            broker.id
            for broker in facts.answering
            if broker.api_versions.get(api, (0, -1))[1] < version
        ]

    without_hints = sorted({*older(ApiKey.PRODUCE, 10), *older(ApiKey.FETCH, 16)})
    if without_hints:
        yield warning(
            "no-leader-hints",
            f"{capital(broker_list(without_hints, 'have'))} no leader hints (Produce 10, Fetch 16;"
            " KIP-951).",
            "A client that comes too late for a leader asks for Metadata and waits out its"
            " backoff, longer still while Metadata is stale.",
            "Upgrade to Kafka 3.7 or newer; then see: " + Command("inspect hints"),
        )
    if without_rack := older(ApiKey.FETCH, 11):
        yield note(
            "no-preferred-read-replica",
            f"{capital(broker_list(without_rack, 'have'))} no preferred read replica (Fetch 11;"
            " KIP-392).",
            "Consumers read from the leader, across racks.",
            "Upgrade to Kafka 2.4 or newer.",
        )
    if without_reassignment := older(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0):
        yield warning(
            "no-reassignment-api",
            f"{capital(broker_list(without_reassignment, 'have'))} no AlterPartitionReassignments"
            " (KIP-455).",
            "Partitions cannot be reassigned through them.",
            "Upgrade to Kafka 2.4 or newer.",
        )
