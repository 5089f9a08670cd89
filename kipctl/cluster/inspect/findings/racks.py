"""Findings about racks: brokers without, replicas that share one, reads that leave it."""

from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import (
    Finding,
    capital,
    named_for_command,
    note,
    warning,
)
from kipctl.cluster.snapshot import Partition
from kipctl.counts import broker_list, counted, first_few
from kipctl.next_step import Command
from kipctl.severity import Severity

_SELECTOR = "replica.selector.class"
_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def racks(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers without a rack, and partitions whose replicas share one."""
    rack_of = {broker.id: broker.rack for broker in facts.snapshot.brokers}
    without = [broker for broker, rack in rack_of.items() if rack is None]
    if len(without) == len(rack_of):
        if len(rack_of) == 1:
            return
        yield note(
            "no-racks",
            "No broker has a rack.",
            "Replicas are not spread over zones, and consumers cannot read from a near one"
            " (KIP-392).",
            "Set broker.rack to each broker's zone, and restart one after the other.",
        )
        return
    if without:
        yield warning(
            "broker-without-rack",
            f"{capital(broker_list(without, 'have'))} no rack, the others do.",
            "Replicas are placed as if those were in a rack of their own, and no consumer is sent"
            " to them (KIP-392).",
            "Set broker.rack there, and restart.",
        )
    if len(set(rack_of.values())) > 1:

        def is_in_one_rack(partition: Partition) -> bool:
            replicas = facts.replicas(partition)
            its_racks = {rack_of.get(replica) for replica in replicas}
            return len(replicas) > 1 and len(its_racks) == 1 and None not in its_racks

        topics = facts.topics_with(is_in_one_rack)
        if topics:
            yield warning(
                "replicas-in-one-rack",
                f"{counted(len(topics), 'topic', 'have')} partitions with all replicas in one"
                " rack:"
                f" {first_few(topics)}.",
                "If that rack fails they are gone; consumers elsewhere read across racks.",
                "Spread them: " + Command("reassign --rack-aware", topic=named_for_command(topics)),
            )


def selector(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers that send consumers nowhere else."""
    reported = [broker.id for broker in facts.answering if _SELECTOR in broker.settings]
    chosen = facts.values(_SELECTOR)
    without = [broker for broker in reported if broker not in chosen]
    in_racks = {broker.rack for broker in facts.snapshot.brokers} - {None}
    if without and (chosen or len(in_racks) > 1):
        yield Finding(
            "replica-selector-not-set",
            Severity.WARNING if chosen else Severity.NOTE,
            f"{capital(broker_list(without))}: replica.selector.class is not set.",
            "Of partitions led there consumers read from the leader, also those that name their"
            " rack (KIP-392): traffic crosses racks.",
            f"Set replica.selector.class={_RACK_AWARE}, and restart one after the other.",
        )
