"""Where the time of a redirected batch went: its failed attempts, and the phases they add up to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision


class Wait(NamedTuple):
    """The time between an error and the next attempt, by what it was spent on (microseconds)."""

    queued: int = 0
    backoff: int = 0
    metadata: int = 0
    connect: int = 0
    throttled: int = 0


def split_wait(
    error_us: int,
    resent_us: int,
    allowed_us: int,
    leader_us: int,
    connected_us: int,
    unblocked_us: int,
    throttled_us: int = 0,
) -> Wait:
    """Split the time from an error to the retry; the parts add up to `resent_us - error_us`.

    The retry had to wait, one after the other, for the backoff (until `allowed_us`), for Metadata
    to name the leader (`leader_us`), for a connection to it (`connected_us`), until the leader's
    quota let it (`throttled_us`, KIP-219), and for its turn behind batches ahead of it, a full
    in-flight window, or a request that the socket had not taken yet (`unblocked_us`, counted as
    queued). What was over before the step before it cost nothing. The client's own slowness after
    all five is charged to what it waited for: metadata if it did, else backoff.
    """
    ends = [error_us]
    for end in (allowed_us, leader_us, connected_us, throttled_us, unblocked_us):
        ends.append(min(max(end, ends[-1]), resent_us))
    backoff, metadata, connect, throttled, queued = (b - a for a, b in pairwise(ends))
    rest = resent_us - ends[-1]
    if metadata:
        return Wait(queued, backoff, metadata + rest, connect, throttled)
    return Wait(queued, backoff + rest, metadata, connect, throttled)


_NO_WAIT = Wait()


@dataclass(slots=True)
class FailedAttempt:
    """An attempt that ended in an error after which the batch was to be sent again."""

    attempt: int
    sent_us: int
    error_us: int
    error: int
    is_leader_error: bool
    broker: int
    epoch: int
    base_offset: int
    decision: Decision
    generation: int = 0
    """Which of the topics of its name, numbered in the order in which their ids came up: each has
    epochs of its own."""
    hint_leader: int = -1
    hint_epoch: int = -1
    hint_endpoint: int = -1
    """Position in the producer's list of endpoints; -1 for none."""
    backoff_us: int = 0
    to_broker: int = -1
    to_epoch: int = -1
    """-1 too where the next attempt went to another generation."""
    wait: Wait = _NO_WAIT
    metadata_queued_us: int = 0

    def apply_hint(
        self, leader: int, epoch: int, address: str | None, endpoints: dict[str, int]
    ) -> None:
        """Note what the error's hint says; `endpoints` numbers those that hints have named."""
        self.hint_leader, self.hint_epoch = leader, epoch
        if address is not None:
            self.hint_endpoint = endpoints.setdefault(address, len(endpoints))


def _are_not_ready(failures: Sequence[FailedAttempt]) -> list[bool]:
    """Of each answer: whether it came from a leader that had not heard yet that it leads.

    So it is when the broker says that the client's epoch is newer than its own
    (UNKNOWN_LEADER_EPOCH); and of a leader error when its hint is older than what the client knew,
    when the attempt followed a leader error to a newer epoch, or when the batch was sent to the
    leader of that very epoch in the end: it was the right one. Any other error is an old leader's
    (phase `detect`); so is that of a broker that knows a newer epoch than the client, as its hint
    or FENCED_LEADER_EPOCH says: it led, and leads no more.
    Epochs of a topic that was made anew meanwhile are others.
    """
    last = failures[-1]
    sent_last = last.to_epoch if last.to_broker != -1 else -1
    lowest: dict[int, int] = {}
    not_ready = []
    for failed in failures:
        if failed.is_leader_error:
            before = lowest.get(failed.generation, failed.epoch)
            is_older = 0 <= failed.hint_epoch < failed.epoch
            is_last = failed.generation == last.generation and 0 <= failed.epoch == sent_last
            may_be = before < failed.epoch or is_older or is_last
            not_ready.append(may_be and not _knows_newer(failed))
            lowest[failed.generation] = min(before, failed.epoch)
        else:
            not_ready.append(failed.error == ErrorCode.UNKNOWN_LEADER_EPOCH)
    return not_ready


def _knows_newer(failed: FailedAttempt) -> bool:
    """Whether the broker said that it knows a newer leader epoch than the client."""
    return failed.hint_epoch > failed.epoch or failed.error == ErrorCode.FENCED_LEADER_EPOCH


class Phases(NamedTuple):
    """One row's share of its batch's latency, in microseconds, in the order of `schema.PHASES`."""

    queued: int
    detect: int
    backoff: int
    metadata: int
    connect: int
    throttled: int
    not_ready: int
    acknowledge: int


def phases(
    failures: Sequence[FailedAttempt], intended_us: int, last_sent_us: int, done_us: int
) -> list[Phases]:
    """The phases of each failed attempt of a batch; together they are `done_us - intended_us`.

    The first row holds the time before the first attempt, the last one the time from the last
    attempt to its success (or final failure). A batch given up while it waited has been sent last
    in the last failed attempt: its wait is in that row, and nothing is acknowledged.
    """
    rows = []
    are_not_ready = _are_not_ready(failures) if failures else []
    for position, (failed, not_ready) in enumerate(zip(failures, are_not_ready, strict=True)):
        first = position == 0
        last = position == len(failures) - 1
        answered_in = failed.error_us - failed.sent_us
        rows.append(
            Phases(
                queued=failed.wait.queued + (failed.sent_us - intended_us if first else 0),
                detect=0 if not_ready else answered_in,
                backoff=failed.wait.backoff,
                metadata=failed.wait.metadata,
                connect=failed.wait.connect,
                throttled=failed.wait.throttled,
                not_ready=answered_in if not_ready else 0,
                acknowledge=done_us - last_sent_us if last and failed.to_broker != -1 else 0,
            )
        )
    return rows


def redirect_columns(failed: FailedAttempt, share: Phases) -> tuple[int, ...]:
    """A failed attempt as the columns of `redirects`, from `attempt` on."""
    return (
        failed.attempt,
        failed.error,
        failed.error_us,
        failed.broker,
        failed.epoch,
        failed.base_offset,
        failed.hint_leader,
        failed.hint_epoch,
        failed.hint_endpoint,
        failed.decision,
        failed.to_broker,
        failed.to_epoch,
        *share,
        failed.metadata_queued_us,
        failed.to_broker != -1 and failed.to_epoch <= failed.epoch,
        failed.generation,
    )


def redirect_rows(
    failures: Sequence[FailedAttempt], intended_us: int, last_sent_us: int, done_us: int
) -> Iterator[tuple[int, ...]]:
    """The failed attempts of a batch that is done, as `redirect_columns`, with their `phases`."""
    shares = phases(failures, intended_us, last_sent_us, done_us)
    return map(redirect_columns, failures, shares)
