"""A request that failed is sent again: where the time since then went."""

from kipctl.probe.leader_finder import Led, MetadataCall
from kipctl.probe.leadership import Attempts, LeaderDiscovery
from kipctl.probe.links import Link
from kipctl.trace.redirects import FailedAttempt, split_wait


def resent(
    failed: FailedAttempt,
    attempts: Attempts,
    discovery: LeaderDiscovery,
    partition: Led,
    link: Link,
    epoch: int,
    sent_us: int,
    turn_us: int,
) -> None:
    """Complete the record of a failed attempt, as its retry goes out over `link`.

    `epoch` is the leader epoch that the client believes in by now, `turn_us` when what was ahead of
    the retry made way.
    """
    failed.to_broker, failed.to_epoch = link.node.id, epoch
    backoff_us = attempts.backoff_us(discovery, epoch, failed.backoff_us)
    failed.wait = split_wait(
        failed.error_us,
        sent_us,
        failed.error_us + backoff_us,
        partition.leader_us,
        link.ready_us,
        turn_us,
        link.throttled_until_us,
    )
    call = partition.leader_rpc
    if failed.wait.metadata and isinstance(call, MetadataCall):
        call.was_waited_for()
        behind_us = max(0, call.behind_until_us - failed.error_us)
        failed.metadata_queued_us = min(failed.wait.metadata, behind_us)
