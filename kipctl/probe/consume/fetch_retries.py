"""What Fetches of a partition met since its last good answer: their record, their backoff."""

from kipctl.probe.backoff import Attempts
from kipctl.probe.consume.broker_link import Asked, ConsumerLink
from kipctl.probe.consume.positions import Partition
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.retries import Retries
from kipctl.probe.tracing import Tracing
from kipctl.protocol.leader_hints import NO_HINT, LeaderHint
from kipctl.trace.codes import Decision

_NOTHING = -1


class FetchRetries:
    """Keeps the failed attempts of partitions, and writes them when an answer ends them.

    Times are microseconds (monotonic).
    """

    def __init__(
        self,
        retries: Retries,
        tracing: Tracing,
        metadata: MetadataUpdater[Partition, ConsumerLink],
    ) -> None:
        self._retries = retries
        self._tracing = tracing
        self._metadata = metadata

    def failed(
        self,
        asked: Asked,
        error: int,
        now_us: int,
        decision: Decision = Decision.NOT_APPLICABLE,
        hint: LeaderHint = NO_HINT,
        is_read_elsewhere: bool = False,
    ) -> None:
        """A Fetch failed; there is nothing to wait for where it is read elsewhere next."""
        partition, link, want, sent_us = asked
        if partition.attempts is None:
            partition.attempts = Attempts()
            partition.attempts.sent(want.leader_epoch, partition.generation)
            partition.sent_us = partition.last_sent_us = sent_us
        elif partition.failures[-1].to_broker == _NOTHING:
            # This was under way before that failed: what was waited until now is that one's.
            self._given_up(partition, now_us)
            partition.last_sent_us = now_us
        # It may have been sent to a newer leader while the retry to an older one was under way.
        partition.attempts.sent_to(want.leader_epoch, partition.generation)
        failed = self._retries.failed(
            partition.attempts,
            link.node.id,
            want.leader_epoch,
            partition.last_sent_us,
            now_us,
            error,
            decision,
            hint,
        )
        if is_read_elsewhere:
            failed.backoff_us = 0
        partition.failures.append(failed)

    def wait_us(self, partition: Partition, known_epoch: int) -> int:
        """How long after its last failure it may be read again, if this leader epoch is known."""
        return self._retries.wait_us(partition.attempts, partition.failures, partition, known_epoch)

    def retried(self, partition: Partition, link: ConsumerLink, epoch: int, now_us: int) -> None:
        """A Fetch for it goes out, to the leader of that epoch or its replica."""
        if not partition.failures or partition.failures[-1].to_broker != _NOTHING:
            return
        assert partition.attempts
        self._retries.retried(
            partition.attempts,
            partition.failures[-1],
            partition,
            link,
            epoch,
            now_us,
            unblocked_us=max(partition.unblocked_us, link.fetched_us),
        )
        partition.attempts.sent(epoch, partition.generation)
        partition.last_sent_us = now_us

    def _given_up(self, partition: Partition, now_us: int) -> None:
        """What failed last is not sent again: it waited until now."""
        self._retries.given_up(
            partition.attempts,
            partition.failures[-1],
            partition,
            self._metadata.link(partition),
            self._metadata.epoch(partition),
            now_us,
        )

    def finish(self, partition: Partition, records: int, now_us: int) -> None:
        """It was answered without error, or is given up: write what it met, the time from the first
        Fetch on. The answer may be to a Fetch from before its last failure, which was under way.
        """
        if not partition.failures:
            return
        if partition.failures[-1].to_broker == _NOTHING:
            self._given_up(partition, now_us)
        self._tracing.redirects(
            partition,
            partition.offset,
            records,
            partition.failures,
            partition.sent_us,
            partition.last_sent_us,
            now_us,
        )
        partition.failures, partition.attempts = [], None
