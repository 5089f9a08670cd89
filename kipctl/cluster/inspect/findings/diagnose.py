"""The judgement: from what is known of a cluster to what is wrong with it, and what to change."""

from collections.abc import Callable, Iterator

from kipctl.cluster.inspect.findings import (
    broker_settings,
    brokers,
    isr,
    leaders,
    log_dirs,
    racks,
    reassignments,
    releases,
    throttles,
    transactions,
)
from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding
from kipctl.protocol.api import ApiKey
from kipctl.severity import Severity

API_MEANINGS: dict[ApiKey, dict[int, str]] = {
    ApiKey.PRODUCE: {
        10: "leader hints (KIP-951)",
        13: "topics by id (KIP-516)",
    },
    ApiKey.FETCH: {
        11: "preferred read replica (KIP-392)",
        12: "truncation seen by epoch (KIP-595)",
        13: "topics by id (KIP-516)",
        16: "leader hints with endpoints (KIP-951)",
    },
    ApiKey.METADATA: {
        10: "topic ids (KIP-516)",
        13: "clients told to rebootstrap (KIP-1102)",
    },
    ApiKey.LIST_OFFSETS: {
        4: "leader epochs (KIP-320)",
        7: "offset of the newest timestamp (KIP-734)",
        8: "offsets of tiered storage (KIP-405)",
    },
    ApiKey.FIND_COORDINATOR: {
        4: "several groups at once (KIP-699)",
        6: "share groups (KIP-932)",
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
        0: "reassignment, as kipctl does it (KIP-455)",
        1: "replication factor kept unless meant (KIP-860)",
    },
}
"""The APIs that decide how clients find leaders, and what came with which version."""


RULES: tuple[Callable[[ClusterFacts], Iterator[Finding]], ...] = (
    brokers.silent_brokers,
    brokers.unreached_brokers,
    brokers.missing_brokers,
    brokers.stale_metadata,
    isr.leaderless,
    isr.topics_not_known,
    isr.under_replicated,
    isr.too_few_replicas,
    isr.weak_acks,
    transactions.hanging,
    leaders.imbalance,
    leaders.diskless,
    racks.racks,
    throttles.throttles,
    reassignments.reassignments,
    log_dirs.failed_directories,
    log_dirs.cordoned_directories,
    isr.eligible_leaders,
    releases.releases,
    releases.apis,
    racks.selector,
    broker_settings.followers,
    broker_settings.crashes,
    broker_settings.placement,
    broker_settings.differences,
    brokers.exporters,
)


def diagnose(facts: ClusterFacts) -> tuple[Finding, ...]:
    """Every finding, the worst first."""
    findings = [finding for rule in RULES for finding in rule(facts)]
    order = list(Severity)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.severity)))


def highest_of_all(facts: ClusterFacts, api: ApiKey) -> int:
    """The highest version that every broker that answers knows; -1 when one does not know any."""
    return min((broker.api_versions.get(api, (0, -1))[1] for broker in facts.answering), default=-1)
