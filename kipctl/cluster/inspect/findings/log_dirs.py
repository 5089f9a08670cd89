"""Findings about log directories: failed, cordoned, or not known."""

from collections import Counter
from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, capital, note, problem, warning
from kipctl.counts import broker_list, counted, first_few
from kipctl.next_step import Command


def failed_directories(facts: ClusterFacts) -> Iterator[Finding]:
    """Log directories that failed, and replicas that are offline on brokers that are alive."""
    offline = Counter(broker for p in facts.snapshot.partitions for broker in p.offline)
    for broker in facts.brokers:
        failed = [directory for directory in broker.directories if directory.error]
        if not failed and not offline[broker.id]:
            continue
        where = first_few([f"{directory.path} ({directory.error})" for directory in failed])
        what = (
            f"Broker {broker.id} is alive, and "
            f"{counted(offline[broker.id], 'replica', 'have')} gone offline"
        )
        directory = "directory" if len(failed) == 1 else "directories"
        yield problem(
            "log-directory-failed",
            f"{what} there{f': failed log {directory} {where}' if failed else ''}.",
            "They have a replica less than they should, and it does not come back by itself.",
            f"See to the disk and restart broker {broker.id}; or give its replicas to "
            "others: " + Command("reassign", drain=broker.id),
        )


def cordoned_directories(facts: ClusterFacts) -> Iterator[Finding]:
    """Log directories that get no new replicas (KIP-1066), and directories not known."""
    cordoned = {b.id: [d.path for d in b.directories if d.is_cordoned] for b in facts.brokers}
    all_of = [
        b.id for b in facts.brokers if b.directories and len(cordoned[b.id]) == len(b.directories)
    ]
    some_of = [broker for broker, paths in cordoned.items() if paths and broker not in all_of]
    uncordon = (
        "When that is over: kafka-configs --alter --entity-type brokers --entity-name ID"
        " --delete-config cordoned.log.dirs"
    )
    if all_of:
        yield warning(
            "log-directory-cordoned",
            f"All log directories of {broker_list(all_of)} are cordoned (KIP-1066).",
            "New topics get no replica there. A reassignment, or a topic made with a list of"
            " replicas, still brings them: Kafka does not refuse that.",
            uncordon,
        )
    if some_of:
        paths = [path for broker in some_of for path in cordoned[broker]]
        yield note(
            "log-directory-cordoned",
            f"Some log directories of {broker_list(some_of)} are cordoned (KIP-1066):"
            f" {first_few(paths)}.",
            "New replicas go to the other directories there, which fill up sooner.",
            uncordon,
        )
    if mute := {b.id: b.directories_error for b in facts.brokers if b.directories_error}:
        yield note(
            "log-directories-not-known",
            f"{capital(broker_list(mute, 'do'))} not report log"
            f" directories: {first_few(sorted(set(mute.values())))}.",
            "Whether one has failed or is cordoned is not known.",
            "Ask as a user who may Describe the cluster.",
        )
