"""What a client tries again after an error: what the wire shows of why, and where the time went."""

from collections import Counter
from collections.abc import Sequence

from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.tap.clients import Client
from kipctl.tap.leaders import UNKNOWN, Leaders, PartitionId
from kipctl.tap.produce_requests import Refusal
from kipctl.trace.codes import Decision
from kipctl.trace.redirect_phases import FailedAttempt, Phases, Wait, split_wait

_NOWHERE = -1


def failed_attempt(
    attempt: int,
    client: Client,
    partition: PartitionId,
    broker: int,
    epoch: int,
    generation: int,
    leaders: Leaders,
    refusal: Refusal,
    sent_us: int,
    now_us: int,
    endpoints: dict[str, int],
) -> FailedAttempt:
    """The record of an attempt that met an error; what the hint was good for is settled later.

    `epoch` is the one in which the broker led as far as was known when it was sent: by the time of
    the answer it may lead again. `generation` is the topic's (`Leaders.generation`) then.
    """
    decision = Decision.NOT_APPLICABLE
    if refusal.error in LEADER_ERRORS:
        decision = _hint_decision(client, partition, refusal, leaders)
    failed = FailedAttempt(
        attempt=attempt,
        sent_us=sent_us,
        error_us=now_us,
        error=refusal.error,
        is_leader_error=refusal.error in LEADER_ERRORS,
        broker=broker,
        epoch=epoch,
        base_offset=refusal.base_offset,
        decision=decision,
        generation=generation,
    )
    failed.apply_hint(refusal.hint_leader, refusal.hint_epoch, refusal.address, endpoints)
    return failed


def _hint_decision(
    client: Client, partition: PartitionId, refusal: Refusal, leaders: Leaders
) -> Decision:
    """What a client can do with the hint; FOLLOWED says only that it would be news to it."""
    if refusal.hint_leader < 0 or refusal.hint_epoch < 0:
        return Decision.ABSENT
    if refusal.is_draft:
        return Decision.DRAFT
    if refusal.hint_epoch < leaders.epoch(partition):
        return Decision.STALE
    if refusal.address is None:
        return Decision.UNKNOWN_NODE
    if client.hinted.get(partition) == refusal.hint_epoch:
        return Decision.KNOWN
    return Decision.FOLLOWED


def retried(
    failed: FailedAttempt,
    client: Client,
    partition: PartitionId,
    broker: int,
    leaders: Leaders,
    now_us: int,
    connected_us: int,
) -> None:
    """Complete the record of a failed attempt, as the next one goes out.

    A hint was followed if the next attempt goes to the leader that it names before Metadata has
    named that one; otherwise it was ignored, as far as anybody can see. What Metadata named while
    the attempt was under way, the hint said too late. `connected_us` is when the connection of the
    next attempt was made.
    """
    is_same = leaders.generation(partition.topic) == failed.generation
    failed.to_broker = broker
    failed.to_epoch = leaders.epoch_of(partition, broker) if is_same else UNKNOWN
    asked_us, named_us = client.metadata_named_us(partition, broker, failed.sent_us, now_us)
    if failed.decision is Decision.FOLLOWED and (broker != failed.hint_leader or named_us):
        is_known = broker == failed.hint_leader and named_us <= failed.error_us
        failed.decision = Decision.KNOWN if is_known else Decision.IGNORED
    failed.wait = split_seen_wait(failed.error_us, now_us, asked_us, named_us, connected_us)


def settled(
    client: Client,
    partition: PartitionId,
    failures: Sequence[FailedAttempt],
    shares: Sequence[Phases],
) -> None:
    """A batch or fetch is over: count what became of the hints, and the leaders that it met.

    `shares` are the phases of its failed attempts.
    """
    refused = (failed for failed in failures if failed.is_leader_error)
    client.counts.decisions.update(int(failed.decision) for failed in refused)
    for (generation, epoch), wait_us in _waits_us(failures, shares).items():
        client.met(partition, generation, epoch, wait_us)


def _waits_us(
    failures: Sequence[FailedAttempt], shares: Sequence[Phases]
) -> Counter[tuple[int, int]]:
    """What it waited for each moved leader, by generation and epoch.

    Which attempt waited for which epoch is what `kipctl.measure.moves` says.
    """
    waits: Counter[tuple[int, int]] = Counter()
    for generation in {failed.generation for failed in failures}:
        attempts = [
            (failed, share)
            for failed, share in zip(failures, shares, strict=True)
            if failed.generation == generation
        ]
        epochs = [_epoch(failed, share) for failed, share in attempts]
        for i in reversed(range(len(epochs) - 1)):
            if epochs[i] == UNKNOWN:
                epochs[i] = epochs[i + 1]
        is_refused, epoch = False, UNKNOWN
        for (failed, share), known in zip(attempts, epochs, strict=True):
            is_refused = is_refused or failed.is_leader_error or share.not_ready > 0
            epoch = epoch if known == UNKNOWN else known
            if is_refused and epoch != UNKNOWN:
                waits[generation, epoch] += failed.wait.backoff + failed.wait.metadata
    return waits


def _epoch(failed: FailedAttempt, share: Phases) -> int:
    """The epoch that it waited for, as far as the attempt itself says."""
    is_refused = failed.is_leader_error or share.not_ready > 0
    if is_refused and failed.to_epoch > failed.epoch:
        return failed.to_epoch
    return failed.epoch if share.not_ready > 0 else UNKNOWN


def given_up(failed: FailedAttempt) -> None:
    """The client gave it up: with the last hint it did nothing, as far as is seen."""
    if failed.to_broker == _NOWHERE and failed.decision is Decision.FOLLOWED:
        failed.decision = Decision.IGNORED


def split_seen_wait(
    error_us: int, resent_us: int, asked_us: int, named_us: int, connected_us: int
) -> Wait:
    """Split the time from an error to the next attempt, as the wire shows it.

    Metadata had it from its first request after the error until an answer named the leader, if one
    did (0: none); then a connection to it, if it was made later. What is left the client held the
    batch back for reasons of its own: a backoff.
    """
    end_us = min(resent_us, max(error_us, named_us, connected_us))
    wait = split_wait(error_us, end_us, asked_us if named_us else 0, named_us, connected_us, 0)
    return wait._replace(backoff=wait.backoff + resent_us - end_us)
