"""What a doctor finds in a cluster's brokers, partitions, racks and leaders, as they are now."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import (
    Finding,
    Severity,
    brokers,
    capital,
    count,
    having,
    some,
)
from kipctl.cluster.snapshot import Partition

SKEW_LIMIT = 1.5
"""Of a broker's leaders over the mean, when there are at least ten for each broker."""

IMBALANCE_LIMIT = 10.0
"""Percent, Kafka's own default of leader.imbalance.per.broker.percentage, which 4.0 took away."""


def silent_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    """Listed, and no answer."""
    for broker in facts.brokers:
        if broker.no_answer is not None:
            yield Finding(
                "broker-silent",
                Severity.PROBLEM,
                f"Broker {broker.id} is listed as alive and does not answer: {broker.no_answer}",
                "Clients of the partitions that it leads wait until the controller fences it.",
                "Look at the broker, and at the network and the listener it advertises.",
            )


def missing_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    """Replicas on brokers that no Metadata lists."""
    alive = set(facts.snapshot.broker_ids)
    held = Counter(r for p in facts.snapshot.partitions for r in p.replicas)
    for gone in sorted(held.keys() - alive):
        yield Finding(
            "broker-not-alive",
            Severity.PROBLEM,
            f"Broker {gone} is not alive, and {having(held[gone], 'partition')} a replica on it.",
            "They have a replica less than they should; the next broker that stops may stop them.",
            f"Start broker {gone}, or give its replicas to others: kipctl reassign --drain {gone}",
        )


def stale_metadata(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers that do not list each other."""
    everyone = set().union(*(b.lists for b in facts.brokers if b.lists is not None))
    for broker in facts.brokers:
        if broker.lists is not None and (unlisted := everyone - broker.lists):
            yield Finding(
                "metadata-behind",
                Severity.WARNING,
                f"Broker {broker.id} does not list {brokers(unlisted)}, which others list.",
                "Its Metadata is behind: clients that ask it go to leaders of before.",
                f"Wait and repeat; if it stays, look into the log of broker {broker.id}.",
            )


def leaderless(facts: ClusterFacts) -> Iterator[Finding]:
    """Partitions that nobody leads, without those of which more is known (eligible leaders)."""
    if without := [p for p in facts.snapshot.leaderless if p.id not in facts.eligible]:
        yield Finding(
            "no-leader",
            Severity.PROBLEM,
            f"{having(len(without), 'partition')} no leader: {_ids(without)}.",
            "Nobody can write to them or read from them.",
            "Start the brokers that were in sync last; only then think of kipctl elect unclean,"
            " which loses records.",
        )


def topics_not_known(facts: ClusterFacts) -> Iterator[Finding]:
    """Topics whose min.insync.replicas nobody told: nothing is said of their acks=all."""
    if without := _topics(facts, lambda p: facts.min_insync_replicas(p) is None):
        why = facts.topics_error
        yield Finding(
            "min-insync-not-known",
            Severity.WARNING,
            f"min.insync.replicas of {count(len(without), 'topic')} is not known:"
            f" {some(without)}. {why.what if why else ''}".rstrip(),
            "Whether writes with acks=all are refused there, now or at the next restart, is not"
            " known either.",
            (why and why.next_step) or "Repeat it when brokers have less to do.",
        )


def under_replicated(facts: ClusterFacts) -> Iterator[Finding]:
    """Replicas out of sync: those that stop writes are told apart.

    As Kafka counts (UnderReplicatedPartitions): not those that a reassignment is about to add.
    """
    missing = {p.id: set(p.replicas) - set(p.isr) - set(facts.adding(p)) for p in _led(facts)}
    behind = [p for p in _led(facts) if missing[p.id]]
    spare = {p.id: _spare(facts, p) for p in behind}
    not_known = [p for p in behind if spare[p.id] is None]
    stopped = [p for p in behind if (spare[p.id] or 0) < 0]
    last = [p for p in behind if spare[p.id] == 0]
    rest = [p for p in behind if (spare[p.id] or 0) > 0]
    lagging = {broker for p in behind for broker in missing[p.id]}
    follow = f"See to {brokers(lagging)}: stopped, out of disk or network, or still copying."
    if stopped:
        yield Finding(
            "under-min-isr",
            Severity.PROBLEM,
            f"{having(len(stopped), 'partition')} fewer replicas in sync than"
            f" min.insync.replicas: {_ids(stopped)}.",
            "Writes with acks=all are refused there (NOT_ENOUGH_REPLICAS).",
            follow,
        )
    if not_known:
        yield Finding(
            "under-replicated",
            Severity.WARNING,
            f"{having(len(not_known), 'partition')} replicas out of sync, and their"
            f" min.insync.replicas is not known: {_ids(not_known)}.",
            "Writes with acks=all may be refused there.",
            follow,
        )
    if last:
        yield Finding(
            "at-min-isr",
            Severity.WARNING,
            f"{having(len(last), 'partition')} replicas out of sync, and just"
            f" min.insync.replicas left: {_ids(last)}.",
            "When another broker stops, writes with acks=all are refused there.",
            follow,
        )
    if rest:
        yield Finding(
            "under-replicated",
            Severity.WARNING,
            f"{having(len(rest), 'partition')} replicas out of sync: {_ids(rest)}.",
            "A replica that is out of sync cannot take over, and no consumer is sent to it.",
            follow,
        )


def too_few_replicas(facts: ClusterFacts) -> Iterator[Finding]:
    """Topics that a restart of one broker stops, even when all is well."""
    several = len(facts.snapshot.brokers) > 1
    single = _topics(facts, lambda p: _replicas(p) == 1)
    if single and several:
        yield Finding(
            "single-replica",
            Severity.WARNING,
            f"{having(len(single), 'topic')} partitions with one replica: {some(single)}.",
            "Their leaders cannot move: while the broker restarts, nobody writes or reads there.",
            "Add replicas: kipctl reassign --replication-factor 3 --topic TOPIC",
        )
    tight = _topics(facts, lambda p: 2 == _replicas(p) <= (facts.min_insync_replicas(p) or 0))
    if tight:
        yield _no_more_than_min_insync(
            tight,
            "Raise the replication factor to 3 first: kipctl reassign --replication-factor 3"
            " --topic TOPIC. With min.insync.replicas 1 instead, acks=all could mean the leader"
            " alone.",
        )
    tight = _topics(facts, lambda p: 2 < _replicas(p) <= (facts.min_insync_replicas(p) or 0))
    if tight:
        yield _no_more_than_min_insync(
            tight,
            "Add a replica (kipctl reassign --replication-factor N --topic TOPIC), or set"
            " min.insync.replicas one lower than the number of replicas: 2 or more.",
        )


def _no_more_than_min_insync(topics: Sequence[str], change: str) -> Finding:
    return Finding(
        "no-spare-replica",
        Severity.WARNING,
        f"{having(len(topics), 'topic')} no more replicas than min.insync.replicas:"
        f" {some(topics)}.",
        "Whenever one of their brokers restarts, writes with acks=all are refused.",
        change,
    )


def weak_acks(facts: ClusterFacts) -> Iterator[Finding]:
    """acks=all that means the leader alone."""
    weak = _topics(
        facts,
        lambda p: _replicas(p) > 2 and not p.internal and facts.min_insync_replicas(p) == 1,
    )
    if weak:
        yield Finding(
            "min-insync-1",
            Severity.NOTE,
            f"{count(len(weak), 'topic')} of three replicas or more have min.insync.replicas 1:"
            f" {some(weak)}.",
            "While the others are out of sync, acks=all means the leader alone; if that one is"
            " lost, so are the records.",
            "Set min.insync.replicas to 2, as a topic's or a broker's setting.",
        )


def imbalance(facts: ClusterFacts) -> Iterator[Finding]:
    """Leaders that are not the preferred ones, and brokers that lead too many."""
    snapshot = facts.snapshot
    # A reassignment puts the new replicas first before they can lead.
    astray = [
        p
        for p in snapshot.not_led_by_preferred
        if p.leader >= 0 and p.preferred_leader not in facts.adding(p)
    ]
    if astray:
        percent = 100 * len(astray) / len(snapshot.partitions)
        unasked = set(facts.values("auto.leader.rebalance.enable").values()) == {"true"}
        every = max(facts.numbers("leader.imbalance.check.interval.seconds").values(), default=0)
        yield Finding(
            "not-preferred-leader",
            Severity.WARNING if percent > IMBALANCE_LIMIT else Severity.NOTE,
            f"{len(astray)} of {count(len(snapshot.partitions), 'partition')}"
            f" ({percent:.1f} %) are not led by their preferred replica.",
            f"Within {every} s the controller moves them back unasked, each once more a redirect"
            " for its clients."
            if unasked
            else "They stay where they are: the brokers that lead more have more to do.",
            "Move them when it suits: kipctl elect preferred --all",
        )
    skew = snapshot.leader_skew
    enough = len(snapshot.partitions) >= 10 * len(snapshot.brokers) > 10
    if skew is not None and skew > SKEW_LIMIT and enough and not astray:
        leader_counts = snapshot.leaders_per_broker
        most = max(leader_counts, key=lambda broker: leader_counts[broker])
        yield Finding(
            "leader-skew",
            Severity.WARNING,
            f"Broker {most} leads {leader_counts[most]} partitions, {skew:.1f} times the mean, and"
            " is the preferred leader of all of them.",
            "When it stops, that many more leaders move at once; until then it has most to do.",
            "Put other replicas first: kipctl reassign --balance leaders",
        )


def racks(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers without a rack, and partitions whose replicas share one."""
    rack_of = {broker.id: broker.rack for broker in facts.snapshot.brokers}
    without = [broker for broker, rack in rack_of.items() if rack is None]
    if len(without) == len(rack_of):
        if len(rack_of) == 1:
            return
        yield Finding(
            "no-racks",
            Severity.NOTE,
            "No broker has a rack.",
            "Replicas are not spread over zones, and consumers cannot read from a near one"
            " (KIP-392).",
            "Set broker.rack to each broker's zone, and restart one after the other.",
        )
        return
    if without:
        yield Finding(
            "broker-without-rack",
            Severity.WARNING,
            f"{capital(brokers(without))} {'has' if len(without) == 1 else 'have'} no rack, the"
            " others do.",
            "Replicas are placed as if those were in a rack of their own, and no consumer is sent"
            " to them (KIP-392).",
            "Set broker.rack there, and restart.",
        )
    if len(set(rack_of.values())) > 1:

        def is_in_one_rack(partition: Partition) -> bool:
            its_racks = {rack_of.get(replica) for replica in partition.replicas}
            return _replicas(partition) > 1 and len(its_racks) == 1 and None not in its_racks

        together = _topics(facts, is_in_one_rack)
        if together:
            yield Finding(
                "replicas-in-one-rack",
                Severity.WARNING,
                f"{having(len(together), 'topic')} partitions with all replicas in one rack:"
                f" {some(together)}.",
                "If that rack fails they are gone; consumers elsewhere read across racks.",
                "Spread them: kipctl reassign --rack-aware",
            )


STATE_RULES = (
    silent_brokers,
    missing_brokers,
    stale_metadata,
    leaderless,
    topics_not_known,
    under_replicated,
    too_few_replicas,
    weak_acks,
    imbalance,
    racks,
)


def _led(facts: ClusterFacts) -> list[Partition]:
    return [p for p in facts.snapshot.partitions if p.leader >= 0]


def _replicas(partition: Partition) -> int:
    return len(partition.replicas)


def _spare(facts: ClusterFacts, partition: Partition) -> int | None:
    """How many replicas may still fall out of sync before acks=all is refused, if it is known."""
    least = facts.min_insync_replicas(partition)
    return None if least is None else len(partition.isr) - least


def _ids(partitions: list[Partition] | tuple[Partition, ...]) -> str:
    return some([p.id for p in partitions])


def _topics(facts: ClusterFacts, holds: Callable[[Partition], bool]) -> list[str]:
    """Topics with a partition for which it holds, sorted."""
    return sorted({p.id.topic for p in facts.snapshot.partitions if holds(p)})
