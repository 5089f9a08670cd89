"""Findings about reassignments that stand still, and throttles that they have left."""

from collections.abc import Iterator, Mapping

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import (
    Finding,
    Severity,
    brokers,
    note,
    some,
    warning,
)
from kipctl.cluster.reassignments import topics_and_brokers
from kipctl.cluster.snapshot import PartitionId
from kipctl.cluster.throttle_configs import RATES, REPLICAS
from kipctl.counts import counted


def throttles(facts: ClusterFacts) -> Iterator[Finding]:
    """Replication throttles (KIP-73) of brokers and topics that no reassignment concerns.

    A rate holds back nothing without a topic's list of replicas, and the other way round.
    """
    if facts.copying.error:
        return  # nobody knows what is needed
    busy_topics, busy_brokers = topics_and_brokers(facts.copying.busy)
    rates = {b.id: min(b.throttles.values()) for b in facts.brokers if b.throttles}
    left_rates = {b: rate for b, rate in rates.items() if b not in busy_brokers}
    left_topics = sorted(
        topic for topic, f in facts.topics.items() if f.throttled and topic not in busy_topics
    )
    if not left_rates and not left_topics:
        return
    parts = []
    if left_rates:
        parts.append(f"a rate on {brokers(left_rates)} ({_rates(left_rates)})")
    if left_topics:
        parts.append(f"replicas of {counted(len(left_topics), 'topic')} ({some(left_topics)})")
    other_half = "replicas are listed" if left_rates else "a rate is set"
    holds = left_topics and rates
    yield Finding(
        "throttle-left-behind",
        Severity.WARNING if holds else Severity.NOTE,
        f"A replication throttle is still set, and nothing that needs it is being reassigned:"
        f" {' and '.join(parts)}.",
        "Replicas that fall behind, as in a restart, catch up no faster, and stay out of sync"
        " longer."
        if holds
        else f"It holds back nothing until {other_half} too.",
        f"If kipctl set it here: kipctl changes clear-throttles. Else: {_removal(left_rates)}",
    )


def _rates(rates: Mapping[int, int]) -> str:
    lowest, highest = min(rates.values()), max(rates.values())
    return f"{lowest:,} B/s" if lowest == highest else f"{lowest:,} to {highest:,} B/s"


def _removal(rates: Mapping[int, int]) -> str:
    """Kafka's own command; of brokers it is needed once for each, of topics too."""
    kind, names, configs = ("brokers", "ID", RATES) if rates else ("topics", "TOPIC", REPLICAS)
    return (
        f"kafka-configs --alter --entity-type {kind} --entity-name {names} --delete-config"
        f" {','.join(configs)}"
    )


def reassignments(facts: ClusterFacts) -> Iterator[Finding]:
    """Reassignments in progress, and those of them that do not go on."""
    copying = facts.copying
    if copying.error:
        yield note(
            "reassignments-not-known",
            f"What is being reassigned is not known: {copying.error}",
            "Whether throttles are left behind is not known either.",
            "Repeat it when there is a controller, as somebody who may Describe the cluster.",
        )
        return
    if not copying.busy:
        return
    alive = set(facts.snapshot.broker_ids)
    gone: dict[int, list[PartitionId]] = {}
    for one in copying.busy:
        for broker in set(one.adding) - alive:
            gone.setdefault(broker, []).append(one.id)
    for broker, partitions in sorted(gone.items()):
        yield _stands_still(
            f"Broker {broker} is not alive, and {counted(len(partitions), 'partition')}"
            f" {'is' if len(partitions) == 1 else 'are'} on the way to it: {some(partitions)}.",
            f"Start broker {broker}",
        )
    for broker, still in copying.stalled.items():
        rates = next((b.throttles for b in facts.brokers if b.id == broker), {})
        throttled = f" (throttled to {min(rates.values()):,} B/s)" if rates else ""
        yield _stands_still(
            f"Broker {broker} copied nothing in {copying.looked_s:g} s{throttled}, though"
            f" {counted(len(still), 'partition')} {'is' if len(still) == 1 else 'are'} on the way"
            f" to it: {some(still)}.",
            "Raise the throttle, if there is one; look for disk errors, and for leaders that it"
            " cannot reach, in its log",
        )
    yield note(
        "reassignment-in-progress",
        f"{counted(len(copying.busy), 'partition')}"
        f" {'is' if len(copying.busy) == 1 else 'are'} being reassigned:"
        f" {some([one.id for one in copying.busy])}.",
        "Leaders move when their data is copied; other reassignments have to wait.",
        "Watch: kipctl reassign --list",
    )


def _stands_still(what: str, cure: str) -> Finding:
    return warning(
        "reassignment-stands-still",
        what,
        "Its reassignments stand still: old replicas are not removed, throttles stay, and nothing"
        " else is reassigned.",
        f"{cure}; or stop them: kipctl changes cancel --all --dry-run",
    )
