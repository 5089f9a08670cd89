"""Findings about replicas out of sync, and about what is left when one more is."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import (
    Finding,
    named_for_command,
    note,
    partition_list,
    problem,
    warning,
)
from kipctl.cluster.snapshot import Partition, PartitionId
from kipctl.counts import broker_list, counted, first_few
from kipctl.next_step import Command


def leaderless(facts: ClusterFacts) -> Iterator[Finding]:
    """Partitions that nobody leads, without those of which more is known (eligible leaders)."""
    if without := [p for p in facts.snapshot.leaderless if p.id not in facts.eligible]:
        last = {broker for p in without for broker in p.isr}
        alive = facts.snapshot.broker_ids
        down = {b for p in without if not p.isr for b in p.replicas if b not in alive}
        yield problem(
            "no-leader",
            f"{counted(len(without), 'partition', 'have')} no leader"
            f"{f'; {broker_list(last)} had all acknowledged records at last' if last else ''}:"
            f" {partition_list(without)}.",
            "Nobody can write there or read from there.",
            (
                f"Start {broker_list(last | down)}. Who has no leader then either, as who was in"
                " sync last is not known any more, needs "
                if last | down
                else "Their brokers are alive, and who was in sync last is not known any more: it"
                " takes "
            )
            + Command("elect unclean --longest --all --dry-run")
            + "."
            if down or not last
            else f"Start {broker_list(last)}; only if that cannot be think of "
            + Command("elect unclean")
            + ", which loses records.",
        )


def eligible_leaders(facts: ClusterFacts) -> Iterator[Finding]:
    """Partitions that need a replica out of sync that has all acknowledged records (KIP-966)."""
    if not facts.eligible:
        return
    leaderless = [p for p in facts.snapshot.leaderless if p.id in facts.eligible]
    can = [p for p in leaderless if facts.eligible[p.id].replicas]
    if can:
        hold = {broker for p in can for broker in (*p.isr, *facts.eligible[p.id].replicas)}
        yield problem(
            "no-leader-one-eligible",
            f"{counted(len(can), 'partition', 'have')} no leader; {broker_list(hold)} had all"
            " acknowledged"
            f" records at last (KIP-966): {partition_list(can)}.",
            "Nobody can write to them or read from them until one of their brokers is back. One"
            " that crashed may count no more when it comes back; the last in sync leads then.",
            f"Start {'all of ' if len(hold) > 1 else ''}{broker_list(hold)} with the data there"
            " is. No"
            " unclean election is needed as long as that can be.",
        )
    cannot = [p for p in leaderless if not facts.eligible[p.id].replicas]
    if cannot:
        hold = {broker for p in cannot for broker in facts.eligible[p.id].last_known}
        yield problem(
            "no-leader-none-eligible",
            f"{counted(len(cannot), 'partition', 'have')} no leader, and no replica that can lead"
            " without"
            f" loss (KIP-966); the last one known is on {broker_list(hold)}:"
            f" {partition_list(cannot)}.",
            "Nobody can write to them or read from them, and no broker that comes back is sure to"
            " have all acknowledged records.",
            f"Start {broker_list(hold)} first, then see what would be lost: "
            + Command("elect unclean --all --dry-run"),
        )
    led = [p for p in facts.below_min_insync if p.id in facts.eligible]
    led = [p for p in led if facts.eligible[p.id].replicas]
    if led:
        hold = {broker for p in led for broker in facts.eligible[p.id].replicas}
        yield note(
            "eligible-leader-replicas",
            f"{counted(len(led), 'partition', 'have')} eligible leader replicas (KIP-966) out of"
            " sync, on"
            f" {broker_list(hold)}: {partition_list(led)}.",
            "If the leader stops as well, one of these leads and nothing is lost, as long as their"
            " disks are as they are.",
            f"Do not wipe {broker_list(hold)}; start them.",
        )


def topics_not_known(facts: ClusterFacts) -> Iterator[Finding]:
    """Topics whose min.insync.replicas is not known: nothing is said of their acks=all."""
    if without := facts.topics_with(lambda p: facts.min_insync_replicas(p) is None):
        why = facts.topics_error
        yield warning(
            "min-insync-not-known",
            f"min.insync.replicas of {counted(len(without), 'topic')} is not known:"
            f" {first_few(without)}. {why.what if why else ''}".rstrip(),
            "Whether writes with acks=all are refused there, now or at the next restart, is not"
            " known either.",
            (why and why.next_step) or "Repeat it when brokers have less to do.",
        )


def under_replicated(facts: ClusterFacts) -> Iterator[Finding]:
    """Replicas out of sync; those that stop writes are a finding of their own.

    As Kafka counts (UnderReplicatedPartitions): not those that a reassignment is about to add.
    """
    missing = {p.id: set(facts.replicas(p)) - set(p.isr) for p in _with_leader(facts)}
    behind = [p for p in _with_leader(facts) if missing[p.id]]
    spare = {p.id: _spare(facts, p) for p in behind}
    not_known = [p for p in behind if spare[p.id] is None]
    stopped = [p for p in behind if (spare[p.id] or 0) < 0]
    last = [p for p in behind if spare[p.id] == 0]
    rest = [p for p in behind if (spare[p.id] or 0) > 0]
    lagging = {broker for p in behind for broker in missing[p.id]}
    follow = f"See to {broker_list(lagging)}: stopped, out of disk or network, or still copying."
    if stopped:
        yield problem(
            "under-min-isr",
            f"{counted(len(stopped), 'partition', 'have')} fewer replicas in sync than"
            f" min.insync.replicas: {partition_list(stopped)}.",
            "Writes with acks=all are refused there (NOT_ENOUGH_REPLICAS).",
            follow,
        )
    if not_known:
        yield warning(
            "under-replicated",
            f"{counted(len(not_known), 'partition', 'have')} replicas out of sync, and their"
            f" min.insync.replicas is not known: {partition_list(not_known)}.",
            "Writes with acks=all may be refused there.",
            follow,
        )
    if last:
        yield warning(
            "at-min-isr",
            f"{counted(len(last), 'partition', 'have')} replicas out of sync, and just"
            f" min.insync.replicas left: {partition_list(last)}.",
            "When another broker stops, writes with acks=all are refused there.",
            follow,
        )
    if rest:
        yield warning(
            "under-replicated",
            f"{counted(len(rest), 'partition', 'have')} replicas out of sync:"
            f" {partition_list(rest)}.",
            "A replica that is out of sync cannot take over, and no consumer is sent to it.",
            follow,
        )


def too_few_replicas(facts: ClusterFacts) -> Iterator[Finding]:
    """Topics that a restart of one broker stops, even when all is well."""
    several = len(facts.snapshot.brokers) > 1
    single = facts.topics_with(lambda p: len(facts.replicas(p)) == 1)
    if single and several:
        yield warning(
            "single-replica",
            f"{counted(len(single), 'topic', 'have')} partitions with one replica:"
            f" {first_few(single)}.",
            "Their leaders cannot move: while the broker restarts, nobody writes or reads there.",
            "Add replicas: "
            + Command("reassign --replication-factor 3", topic=named_for_command(single)),
        )
    tight = facts.topics_with(
        lambda p: 2 == len(facts.replicas(p)) <= (facts.min_insync_replicas(p) or 0)
    )
    if tight:
        yield _no_more_than_min_insync(
            tight,
            "Raise the replication factor to 3 first: "
            + Command("reassign --replication-factor 3", topic=named_for_command(tight))
            + ". With min.insync.replicas 1 instead, acks=all could mean the leader alone.",
        )
    tight = facts.topics_with(
        lambda p: 2 < len(facts.replicas(p)) <= (facts.min_insync_replicas(p) or 0)
    )
    if tight:
        yield _no_more_than_min_insync(
            tight,
            "Add a replica ("
            + Command("reassign --replication-factor N", topic=named_for_command(tight))
            + "), or set min.insync.replicas one lower than the number of replicas: 2 or "
            "more.",
        )


def _no_more_than_min_insync(topics: Sequence[str], change: str) -> Finding:
    return warning(
        "no-spare-replica",
        f"{counted(len(topics), 'topic', 'have')} no more replicas than min.insync.replicas:"
        f" {first_few(topics)}.",
        "Whenever one of their brokers restarts, writes with acks=all are refused.",
        change,
    )


def weak_acks(facts: ClusterFacts) -> Iterator[Finding]:
    """acks=all that means the leader alone."""
    weak = facts.topics_with(
        lambda p: (
            len(p.replicas) > 2
            and not facts.adding(p)  # how many it is to have is seen when that is over
            and not p.internal
            and facts.min_insync_replicas(p) == 1
        ),
    )
    if weak:
        yield note(
            "min-insync-1",
            f"{counted(len(weak), 'topic', 'have')} min.insync.replicas 1, with three replicas or"
            f" more: {first_few(weak)}.",
            "While the others are out of sync, acks=all means the leader alone; if that one is"
            " lost, so are the records.",
            "Set min.insync.replicas to 2, as a topic's or a broker's setting.",
        )


def needed_by(facts: ClusterFacts) -> dict[int, list[PartitionId]]:
    """By broker, the partitions that would refuse acks=all, or have no leader, if it stopped now.

    Those that refuse it already are left out, unless the broker is the last one in sync. Where
    `min.insync.replicas` is not known, only the last one in sync is counted (`may_be_needed`).
    """
    needed: dict[int, list[PartitionId]] = defaultdict(list)
    for p in facts.snapshot.partitions:
        least = facts.min_insync_replicas(p) or 1
        if p.leader >= 0 and (len(p.isr) == least or len(p.isr) == 1):
            for broker in p.isr:
                needed[broker].append(p.id)
    return dict(needed)


def may_be_needed(facts: ClusterFacts) -> frozenset[int]:
    """Brokers in sync with partitions of which min.insync.replicas is not known."""
    return frozenset(
        broker
        for p in facts.snapshot.partitions
        if p.leader >= 0 and len(p.isr) > 1 and facts.min_insync_replicas(p) is None
        for broker in p.isr
    )


def _with_leader(facts: ClusterFacts) -> list[Partition]:
    return [p for p in facts.snapshot.partitions if p.leader >= 0]


def _spare(facts: ClusterFacts, partition: Partition) -> int | None:
    """How many replicas may still fall out of sync before acks=all is refused, if it is known."""
    least = facts.min_insync_replicas(partition)
    return None if least is None else len(partition.isr) - least
