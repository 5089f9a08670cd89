"""Findings about leaders: not the preferred ones, or too many on a broker."""

from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import (
    Finding,
    note,
    warning,
)
from kipctl.counts import agreeing, counted, first_few
from kipctl.next_step import Command
from kipctl.severity import Severity

SKEW_LIMIT = 1.5
"""Of a broker's leaders over the mean, when there are at least ten for each broker."""
IMBALANCE_LIMIT = 10.0
"""Percent, Kafka's own default of leader.imbalance.per.broker.percentage, which 4.0 took away."""


def imbalance(facts: ClusterFacts) -> Iterator[Finding]:
    """Leaders that are not the preferred ones, and brokers that lead too many."""
    snapshot = facts.snapshot
    # A reassignment puts the new replicas first before they can lead.
    not_preferred = [
        p for p in snapshot.led_by_another if p.preferred_leader not in facts.adding(p)
    ]
    if not_preferred:
        percent = 100 * len(not_preferred) / len(snapshot.partitions)
        unasked = set(facts.values("auto.leader.rebalance.enable").values()) == {"true"}
        every = max(facts.numbers("leader.imbalance.check.interval.seconds").values(), default=0)
        yield Finding(
            "not-preferred-leader",
            Severity.WARNING if percent > IMBALANCE_LIMIT else Severity.NOTE,
            f"{counted(len(not_preferred), 'partition', total=len(snapshot.partitions))}"
            f" ({percent:.1f} %) {agreeing(len(not_preferred), 'are')} not led by the preferred"
            " replica.",
            f"Within {every} s the controller moves them back unasked, each once more a redirect"
            " for its clients."
            if unasked
            else "They stay where they are: the brokers that lead more have more to do.",
            "Move them when it suits, to brokers that have copied all they missed: "
            + Command("elect preferred --all --until balanced"),
        )
    skew = snapshot.leader_skew
    enough = len(snapshot.partitions) >= 10 * len(snapshot.brokers) > 10
    if skew is not None and skew > SKEW_LIMIT and enough and not not_preferred:
        leader_counts = snapshot.leaders_per_broker
        most = max(leader_counts, key=lambda broker: leader_counts[broker])
        yield warning(
            "leader-skew",
            f"Broker {most} leads {counted(leader_counts[most], 'partition')}, {skew:.1f} times"
            " the mean, and"
            " is the preferred leader of all of them.",
            "When it stops, that many more leaders move at once; until then it has most to do.",
            "Put other replicas first: " + Command("reassign --balance leaders"),
        )


def diskless(facts: ClusterFacts) -> Iterator[Finding]:
    """Topics whose leaders are not what they are on Kafka's own disks."""
    topics = sorted(topic for topic, known in facts.topics.items() if known.diskless)
    if topics:
        yield note(
            "diskless-topics",
            f"{counted(len(topics), 'topic', 'are')} diskless: {first_few(topics)}.",
            "Each client is shown a broker of its own rack as their leader, at the same epoch: to"
            " look at leaders or to move them means nothing there.",
            "Leave them out of what elect, reassign and wait are given: --topic.",
        )
