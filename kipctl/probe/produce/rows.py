"""The rows that the producer writes down of each batch, and of what it met on its way."""

from kipctl.probe.produce.batches import Batch
from kipctl.probe.tracing import Tracing


def batch_done(tracing: Tracing, batch: Batch, done_us: int, error: int, base_offset: int) -> None:
    """A batch was acknowledged (error 0) or given up."""
    partition = batch.partition
    attempts = batch.attempts
    tracing.rows["batches"](
        (
            partition.topic_position,
            partition.index,
            batch.first_seq,
            batch.stride,
            batch.records,
            batch.variant.value_ends[batch.records - 1],
            batch.intended_us,
            batch.sent_us,
            done_us,
            attempts.count if attempts else 0,
            error,
            batch.broker,
            attempts.epoch if attempts else -1,
            base_offset,
        )
    )
    if batch.failures:
        tracing.redirects(
            partition,
            batch.first_seq,
            batch.records,
            batch.failures,
            batch.intended_us,
            batch.last_sent_us,
            done_us,
        )
