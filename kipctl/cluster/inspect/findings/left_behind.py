"""What a doctor finds that somebody has left behind, or that is half done: throttles,
reassignments, failed and cordoned directories, partitions whose last good replica is not in sync.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kipctl.cluster.inspect.findings.facts import BrokerFacts, ClusterFacts
from kipctl.cluster.inspect.findings.finding import (
    Finding,
    Severity,
    brokers,
    capital,
    count,
    having,
    some,
)
from kipctl.cluster.reassignments import topics_and_brokers
from kipctl.cluster.snapshot import Partition, PartitionId
from kipctl.cluster.throttle_configs import RATES, REPLICAS


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
        parts.append(f"replicas of {count(len(left_topics), 'topic')} ({some(left_topics)})")
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
        f"If kipctl set it here: kipctl reassign --clear-throttles. Else: {_removal(left_rates)}",
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
        yield Finding(
            "reassignments-not-known",
            Severity.NOTE,
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
            f"Broker {broker} is not alive, and {count(len(partitions), 'partition')}"
            f" {'is' if len(partitions) == 1 else 'are'} on the way to it: {some(partitions)}.",
            f"Start broker {broker}",
        )
    for broker, still in copying.stalled.items():
        rates = next((b.throttles for b in facts.brokers if b.id == broker), {})
        throttled = f" (throttled to {min(rates.values()):,} B/s)" if rates else ""
        yield _stands_still(
            f"Broker {broker} copied nothing in {copying.looked_s:g} s{throttled}, though"
            f" {count(len(still), 'partition')} {'is' if len(still) == 1 else 'are'} on the way"
            f" to it: {some(still)}.",
            "Raise the throttle, if there is one; look for disk errors, and for leaders that it"
            " cannot reach, in its log",
        )
    yield Finding(
        "reassignment-in-progress",
        Severity.NOTE,
        f"{count(len(copying.busy), 'partition')}"
        f" {'is' if len(copying.busy) == 1 else 'are'} being reassigned:"
        f" {some([one.id for one in copying.busy])}.",
        "Leaders move when their data is copied; other reassignments have to wait.",
        "Watch: kipctl reassign --list",
    )


def _stands_still(what: str, cure: str) -> Finding:
    return Finding(
        "reassignment-stands-still",
        Severity.WARNING,
        what,
        "Its reassignments stand still: old replicas are not removed, throttles stay, and nothing"
        " else is reassigned.",
        f"{cure}; or stop them: kipctl reassign --cancel --all --dry-run",
    )


def failed_directories(facts: ClusterFacts) -> Iterator[Finding]:
    """Log directories that failed, and replicas that are offline on brokers that are alive."""
    offline = Counter(broker for p in facts.snapshot.partitions for broker in p.offline)
    for one in facts.brokers:
        failed = [directory for directory in one.directories if directory.error]
        if not failed and not offline[one.id]:
            continue
        where = some([f"{directory.path} ({directory.error})" for directory in failed])
        what = f"Broker {one.id} is alive, and {having(offline[one.id], 'replica')} gone offline"
        directory = "directory" if len(failed) == 1 else "directories"
        yield Finding(
            "log-directory-failed",
            Severity.PROBLEM,
            f"{what} there{f': failed log {directory} {where}' if failed else ''}.",
            "They have a replica less than they should, and it does not come back by itself.",
            f"See to the disk and restart broker {one.id}; or give its replicas to others: kipctl"
            f" reassign --drain {one.id}",
        )


def cordoned_directories(facts: ClusterFacts) -> Iterator[Finding]:
    """Log directories that get no new replicas (KIP-1066), and directories not known."""
    all_of: list[BrokerFacts] = []
    some_of: list[BrokerFacts] = []
    for one in facts.brokers:
        cordoned = [directory for directory in one.directories if directory.is_cordoned]
        if cordoned:
            (all_of if len(cordoned) == len(one.directories) else some_of).append(one)
    uncordon = (
        "When that is over: kafka-configs --alter --entity-type brokers --entity-name ID"
        " --delete-config cordoned.log.dirs"
    )
    if all_of:
        yield Finding(
            "log-directory-cordoned",
            Severity.WARNING,
            f"All log directories of {_ids(all_of)} are cordoned (KIP-1066).",
            "New topics get no replica there. A reassignment, or a topic made with a list of"
            " replicas, still brings them: Kafka does not refuse that.",
            uncordon,
        )
    if some_of:
        paths = [d.path for one in some_of for d in one.directories if d.is_cordoned]
        yield Finding(
            "log-directory-cordoned",
            Severity.NOTE,
            f"Some log directories of {_ids(some_of)} are cordoned (KIP-1066): {some(paths)}.",
            "New replicas go to the other directories there, which fill up sooner.",
            uncordon,
        )
    if mute := [one for one in facts.brokers if one.directories_error]:
        yield Finding(
            "log-directories-not-known",
            Severity.NOTE,
            f"{capital(_ids(mute))} {'does' if len(mute) == 1 else 'do'} not tell of log"
            f" directories: {some(sorted({str(one.directories_error) for one in mute}))}.",
            "Whether one has failed or is cordoned is not known.",
            "Ask as a user who may Describe the cluster.",
        )


def eligible_leaders(facts: ClusterFacts) -> Iterator[Finding]:
    """Partitions that need a replica out of sync that has all acknowledged records (KIP-966)."""
    if not facts.eligible:
        return
    leaderless = [p for p in facts.snapshot.leaderless if p.id in facts.eligible]
    can = [p for p in leaderless if facts.eligible[p.id].replicas]
    if can:
        hold = {broker for p in can for broker in (*p.isr, *facts.eligible[p.id].replicas)}
        yield Finding(
            "no-leader-one-eligible",
            Severity.PROBLEM,
            f"{having(len(can), 'partition')} no leader; {brokers(hold)} had all acknowledged"
            f" records at last (KIP-966): {_named(can)}.",
            "Nobody can write to them or read from them until one of their brokers is back. One"
            " that crashed may count no more when it comes back; the last in sync leads then.",
            f"Start {'all of ' if len(hold) > 1 else ''}{brokers(hold)} with the data there is. No"
            " unclean election is needed as long as that can be.",
        )
    cannot = [p for p in leaderless if not facts.eligible[p.id].replicas]
    if cannot:
        hold = {broker for p in cannot for broker in facts.eligible[p.id].last_known}
        yield Finding(
            "no-leader-none-eligible",
            Severity.PROBLEM,
            f"{having(len(cannot), 'partition')} no leader, and no replica that can lead without"
            f" loss (KIP-966); the last one known is on {brokers(hold)}: {_named(cannot)}.",
            "Nobody can write to them or read from them, and no broker that comes back is sure to"
            " have all acknowledged records.",
            f"Start {brokers(hold)} first, then see what would be lost: kipctl elect unclean"
            " --all --dry-run",
        )
    led = [p for p in facts.below_min_insync if p.id in facts.eligible]
    led = [p for p in led if facts.eligible[p.id].replicas]
    if led:
        hold = {broker for p in led for broker in facts.eligible[p.id].replicas}
        yield Finding(
            "eligible-leader-replicas",
            Severity.NOTE,
            f"{having(len(led), 'partition')} eligible leader replicas (KIP-966) out of sync, on"
            f" {brokers(hold)}: {_named(led)}.",
            "If the leader stops as well, one of these leads and nothing is lost, as long as their"
            " disks are as they are.",
            f"Do not wipe {brokers(hold)}; start them.",
        )


LEFT_BEHIND_RULES = (
    throttles,
    reassignments,
    failed_directories,
    cordoned_directories,
    eligible_leaders,
)


def needed_by(facts: ClusterFacts) -> Counter[int]:
    """By broker, the partitions that would refuse acks=all, or have no leader, if it stopped now.

    Those that refuse it already are left out, unless the broker is the last one in sync. Where
    `min.insync.replicas` is not known, only the last one in sync is counted (`may_be_needed`).
    """
    found: Counter[int] = Counter()
    for p in facts.snapshot.partitions:
        least = facts.min_insync_replicas(p) or 1
        if p.leader >= 0 and (len(p.isr) == least or len(p.isr) == 1):
            found.update(p.isr)
    return found


def may_be_needed(facts: ClusterFacts) -> frozenset[int]:
    """Brokers in sync with partitions of which min.insync.replicas is not known."""
    return frozenset(
        broker
        for p in facts.snapshot.partitions
        if p.leader >= 0 and len(p.isr) > 1 and facts.min_insync_replicas(p) is None
        for broker in p.isr
    )


def _ids(of: Iterable[BrokerFacts]) -> str:
    return brokers(one.id for one in of)


def _named(partitions: list[Partition]) -> str:
    return some([p.id for p in partitions])
