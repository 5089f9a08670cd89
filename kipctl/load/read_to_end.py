"""Waiting until a consumer has read all that a producer wrote."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kipctl.measure.probe_results import ProbeResult
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.trace.columns import BATCH, COLUMNS, READ, raw_path
from kipctl.trace.rows import IntRows, chunks

_LOOK_S = 0.02


class WrittenTo(NamedTuple):
    """How far a partition was written: the offset after the last record, in what was under way
    together with the batch that was acknowledged last; from when to when, monotonic."""

    end: int
    sent_us: int
    acked_us: int


def acknowledged_ends(results: Sequence[ProbeResult[ProduceOutcome]]) -> dict[int, WrittenTo]:
    """By partition, how far it was written."""
    ends: dict[int, WrittenTo] = {}
    for part in results:
        for rows in chunks(raw_path(part.directory, "batches"), len(COLUMNS["batches"])):
            for partition, end in ends_of(rows).items():
                former = ends.get(partition, end)
                first, last = sorted((former, end), key=lambda written: written.acked_us)
                ends[partition] = (
                    WrittenTo(
                        max(first.end, last.end), min(first.sent_us, last.sent_us), last.acked_us
                    )
                    if first.acked_us >= last.sent_us
                    else last
                )
    return ends


def ends_of(batches: IntRows) -> dict[int, WrittenTo]:
    """The same, of rows of one topic's batches.

    What was acknowledged before the last batch was sent does not count: a leader that had lost it
    gave its offsets to others.
    """
    ends: dict[int, WrittenTo] = {}
    acknowledged = batches[(batches[:, BATCH["error"]] == 0)]
    acknowledged = acknowledged[acknowledged[:, BATCH["base_offset"]] >= 0]
    partition, sent, acked = (
        acknowledged[:, BATCH[name]] for name in ("partition", "sent_us", "acked_us")
    )
    after = acknowledged[:, BATCH["base_offset"]] + acknowledged[:, BATCH["records"]]
    for index in np.unique(partition).tolist():
        own = np.flatnonzero(partition == index)
        last = own[np.argmax(acked[own])]
        concurrent = own[acked[own] >= sent[last]]
        ends[index] = WrittenTo(
            int(after[concurrent].max()), int(sent[concurrent].min()), int(acked[last])
        )
    return ends


class Reads(Protocol):
    """A consumer at work, whose rows of `reads` can be followed."""

    def new_rows(self, dataset: str) -> IntRows:
        """The rows of a dataset written since the last call."""

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""


def await_offsets(
    reader: Reads,
    ends: Mapping[int, WrittenTo],
    quiet_s: float,
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Wait until every partition was read to its end, or no record has come for so long.

    It ends too when the reader is done, and when it should stop: then it returns False, as what has
    not come might have.
    """
    missing, quiet_since = dict(ends), time.monotonic()
    while missing and not reader.is_done_by(0):
        if should_stop():
            return False
        was_quiet = time.monotonic() - quiet_since >= quiet_s
        rows = reader.new_rows("reads")
        rows = rows[rows[:, READ["records"]] > 0]
        if len(rows):
            quiet_since = time.monotonic()
        elif was_quiet:
            return True
        else:
            time.sleep(_LOOK_S)
        columns = [READ[name] for name in ("partition", "next_offset", "time_us")]
        for partition, after, time_us in rows[:, columns].tolist():
            written = missing.get(partition)
            if written and after >= written.end and time_us >= written.sent_us:
                del missing[partition]
    return True
