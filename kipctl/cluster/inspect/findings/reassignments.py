"""Findings about reassignments, and those of them that stand still."""

from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, note, warning
from kipctl.cluster.snapshot import PartitionId
from kipctl.cluster.throttle_configs import RATES
from kipctl.counts import agreeing, counted, first_few
from kipctl.next_step import Command


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
    for reassignment in copying.busy:
        for broker in set(reassignment.adding) - alive:
            gone.setdefault(broker, []).append(reassignment.id)
    for broker, partitions in sorted(gone.items()):
        yield _stands_still(
            f"Broker {broker} is not alive, and {counted(len(partitions), 'partition')}"
            f" {agreeing(len(partitions), 'are')} on the way to it: {first_few(partitions)}.",
            f"Start broker {broker}",
        )
    for broker, still in copying.stalled.items():
        of_broker = next((b.throttles for b in facts.brokers if b.id == broker), {})
        rates = [of_broker[config] for config in RATES if config in of_broker]
        throttled = f" (throttled to {min(rates):,} B/s)" if rates else ""
        yield _stands_still(
            f"Broker {broker} copied nothing in {copying.looked_s:g} s{throttled}, though"
            f" {counted(len(still), 'partition')} {'is' if len(still) == 1 else 'are'} on the way"
            f" to it: {first_few(still)}.",
            "Raise the throttle, if there is one; look for disk errors, and for leaders that it"
            " cannot reach, in its log",
        )
    yield note(
        "reassignment-in-progress",
        f"{counted(len(copying.busy), 'partition')}"
        f" {'is' if len(copying.busy) == 1 else 'are'} being reassigned:"
        f" {first_few([reassignment.id for reassignment in copying.busy])}.",
        "Leaders move when their data is copied; other reassignments have to wait.",
        "Watch: " + Command("reassign --list"),
    )


def _stands_still(what: str, cure: str) -> Finding:
    return warning(
        "reassignment-stands-still",
        what,
        "Its reassignments stand still: old replicas are not removed, throttles stay, and nothing"
        " else is reassigned.",
        f"{cure}; or stop them: " + Command("changes cancel --all --dry-run"),
    )
