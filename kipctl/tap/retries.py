"""What a client tries again after an error: what the wire shows of why, and where the time went."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from kipctl.client_behaviour.episode import HintFault
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.tap.clients import Client
from kipctl.tap.leaders import UNKNOWN, Leaders, PartitionId
from kipctl.tap.produce_requests import Refusal
from kipctl.tap.recorder import Recorder
from kipctl.trace.codes import Decision
from kipctl.trace.redirect_phases import FailedAttempt, Wait, redirect_rows, split_wait

_NOWHERE = -1
_OF_NO_USE = {
    HintFault.NO_ENDPOINT: Decision.UNKNOWN_NODE,
    HintFault.OTHER_ENDPOINT: Decision.OTHER_ENDPOINT,
    HintFault.REFUSER: Decision.REFUSER,
    HintFault.OLDER: Decision.STALE,
    HintFault.SAME_EPOCH: Decision.SAME_EPOCH,
}
_TO_BE_SEEN = (Decision.FOLLOWED, Decision.KNOWN)
"""Hints that a client may follow: by where it goes it is seen whether it did."""


class Flight(NamedTuple):
    """An attempt of an idempotent producer that was answered: monotonic microseconds, and which
    batch it was of, by its first record."""

    sent_us: int
    answered_us: int
    producer: int
    first_seq: int


def failed_attempt(
    attempt: int,
    broker: int,
    epoch: int,
    generation: int,
    refusal: Refusal,
    sent_us: int,
    now_us: int,
    endpoints: dict[str, int],
) -> FailedAttempt:
    """The record of an attempt that met an error; what the hint was good for is settled later.

    `epoch` is the one in which the broker led as far as was known when it was sent: by the time of
    the answer it may lead again. `generation` is the topic's (`Leaders.generation`) then.
    """
    is_leader_error = refusal.error in LEADER_ERRORS
    failed = FailedAttempt(
        attempt=attempt,
        sent_us=sent_us,
        error_us=now_us,
        error=refusal.error,
        is_leader_error=is_leader_error,
        broker=broker,
        epoch=epoch,
        base_offset=refusal.base_offset,
        decision=_hint_decision(refusal) if is_leader_error else Decision.NOT_APPLICABLE,
        generation=generation,
    )
    failed.apply_hint(refusal.hint_leader, refusal.hint_epoch, refusal.address, endpoints)
    return failed


def _hint_decision(refusal: Refusal) -> Decision:
    """What the client can do with the hint; FOLLOWED says only that it would be news to it."""
    if refusal.is_draft and refusal.hint_leader >= 0 and refusal.hint_epoch >= 0:
        return Decision.DRAFT
    if not refusal.has_hint:
        return Decision.ABSENT
    if refusal.fault is not None:
        return _OF_NO_USE[refusal.fault]
    return Decision.FOLLOWED if refusal.is_news else Decision.KNOWN


def retried(
    failed: FailedAttempt,
    client: Client,
    partition: PartitionId,
    broker: int,
    leaders: Leaders,
    now_us: int,
    connected_us: int,
    ahead: Sequence[Flight] = (),
) -> None:
    """Complete the record of a failed attempt, as the next one goes out.

    A hint was followed if the next attempt goes to the leader that it names before Metadata has
    named that one; otherwise it was ignored, as far as anybody can see. What Metadata named while
    the attempt was under way, the hint said too late. `connected_us` is when the connection of the
    next attempt was made, `ahead` are attempts of batches ahead of it that were answered meanwhile.
    """
    is_same = leaders.generation(partition.topic) == failed.generation
    failed.to_broker = broker
    failed.to_epoch = leaders.epoch_of(partition, broker) if is_same else UNKNOWN
    asked_us, named_us = client.metadata_named_us(partition, broker, failed.sent_us, now_us)
    if failed.decision in _TO_BE_SEEN and broker != failed.hint_leader:
        failed.decision = Decision.IGNORED
    elif failed.decision is Decision.FOLLOWED and named_us:
        is_known = named_us <= failed.error_us
        failed.decision = Decision.KNOWN if is_known else Decision.IGNORED
    failed.wait = split_seen_wait(failed.error_us, now_us, asked_us, named_us, connected_us, ahead)


def settled(
    recorder: Recorder,
    client: Client,
    whose: tuple[int, ...],
    failures: Sequence[FailedAttempt],
    *times_us: int,
) -> None:
    """A batch or fetch is over: count what became of the hints, and write its failed attempts.

    `whose` are the columns of `redirects` from `api` to `records`, `times_us` those of
    `redirect_rows`.
    """
    refused = (failed for failed in failures if failed.is_leader_error)
    client.counts.decisions.update(failed.decision for failed in refused)
    for columns in redirect_rows(failures, *times_us):
        recorder.redirect((client.number[0], *whose, *columns))


def given_up(failed: FailedAttempt) -> None:
    """The client gave it up: with the last hint it did nothing, as far as is seen."""
    if failed.to_broker == _NOWHERE and failed.decision in _TO_BE_SEEN:
        failed.decision = Decision.IGNORED


def split_seen_wait(
    error_us: int,
    resent_us: int,
    asked_us: int,
    named_us: int,
    connected_us: int,
    ahead: Sequence[Flight] = (),
) -> Wait:
    """Split the time from an error to the next attempt, as the wire shows it.

    Metadata had it from its first request after the error until an answer named the leader, if one
    did (0: none); then a connection to it, if it was made later. What is left the client held the
    batch back for reasons of its own: a backoff. But while a batch `ahead` of it, which it cannot
    overtake, was with a broker, it was queued.
    """
    end_us = min(resent_us, max(error_us, named_us, connected_us))
    wait = split_wait(error_us, end_us, asked_us if named_us else 0, named_us, connected_us, 0)
    ends = accumulate((wait.backoff, wait.metadata, wait.connect), initial=error_us)
    ahead = sorted(ahead)
    parts = [_held_us(ahead, *part) for part in pairwise((*ends, resent_us))]
    backoff, metadata, connect, rest = parts
    return Wait(
        queued=sum(parts),
        backoff=wait.backoff - backoff + resent_us - end_us - rest,
        metadata=wait.metadata - metadata,
        connect=wait.connect - connect,
    )


def _held_us(ahead: Sequence[Flight], from_us: int, to_us: int) -> int:
    """For how long one of them was under way in this time; they are in the order of `sent_us`."""
    held_us = 0
    for flight in ahead:
        from_us = max(from_us, flight.sent_us)
        if (until_us := min(to_us, flight.answered_us)) > from_us:
            held_us, from_us = held_us + until_us - from_us, until_us
    return held_us
