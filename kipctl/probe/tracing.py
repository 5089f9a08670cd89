"""What a client writes down while it runs: the rows of `kipctl.trace.columns`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kipctl.probe.leadership import ClientPartition
from kipctl.trace.codes import RangeCase
from kipctl.trace.columns import COLUMNS, ReadRow, RpcRow, raw_path
from kipctl.trace.names import NamesWriter
from kipctl.trace.redirect_phases import FailedAttempt, redirect_rows
from kipctl.trace.row_writer import RowWriter
from kipctl.transport.loop_connection import InFlight

_RANGE_CASE = COLUMNS["reads"].index("range_case")
_CRITICAL = COLUMNS["rpcs"].index("critical")


class Tracing:
    """The row files of one probe. Times are absolute monotonic microseconds; 0 is never."""

    def __init__(self, directory: Path, datasets: Iterable[str], rotate_us: int = 0) -> None:
        """With `rotate_us` rows go on in other files every so many microseconds."""
        self._rotate_us = rotate_us
        self._rotates_at_us = 0
        self._writers = {
            name: RowWriter(raw_path(directory, name), len(COLUMNS[name])) for name in datasets
        }
        self.rows = {name: writer.append for name, writer in self._writers.items()}
        """For each dataset, what appends a row of its columns."""
        self.names: dict[str, Mapping[str, int]] = {}
        """By column, names that the client comes to know, numbered as in the rows from 0 on."""
        self._names = NamesWriter(directory, self.names)

    def rpc(
        self,
        broker: int,
        connection: int,
        flight: InFlight,
        received_us: int,
        response_bytes: int,
        behind_us: int,
        topics: int,
        error: int,
        cause: int = -1,
    ) -> int:
        """A request was answered, or its connection lost (`received_us` 0); returns the number of
        its row.
        """
        row = self._writers["rpcs"].rows
        self.rows["rpcs"](
            RpcRow(
                connection,
                broker,
                flight.api_key,
                flight.api_version,
                flight.size,
                response_bytes,
                flight.sent_us,
                received_us,
                flight.ahead,
                behind_us,
                cause,
                topics,
                False,
                error,
            )
        )
        return row

    def mark_critical(self, row: int) -> None:
        """Of a request that was written: a batch waited for its answer."""
        self._writers["rpcs"].amend(row, _CRITICAL, True)

    def read_row(self, row: ReadRow) -> int:
        """Append a row to `reads`; returns its number, for `amend_range_case`."""
        number = self._writers["reads"].rows
        self.rows["reads"](row)
        return number

    def amend_range_case(self, number: int, case: RangeCase) -> None:
        """Of a read that was written: what its position was has turned out."""
        self._writers["reads"].amend(number, _RANGE_CASE, case)

    def redirects(
        self,
        partition: ClientPartition,
        first_seq: int,
        records: int,
        failures: Sequence[FailedAttempt],
        intended_us: int,
        last_sent_us: int,
        done_us: int,
    ) -> None:
        """What was sent again is done: its failed attempts, and their shares of the time."""
        whose = partition.topic_position, partition.index, first_seq, records
        for columns in redirect_rows(failures, intended_us, last_sent_us, done_us):
            self.rows["redirects"]((*whose, *columns))

    def flush(self, now_us: int = 0) -> bool:
        """Write what there is. Returns whether it goes on in other files; `now_us` decides."""
        begins_anew = 0 < self._rotates_at_us <= now_us
        if self._rotate_us and (begins_anew or not self._rotates_at_us):
            self._rotates_at_us = now_us + self._rotate_us
        self._names.flush()  # first: rows without names, as of who is killed between, tell nothing
        for writer in self._writers.values():
            if begins_anew:
                writer.rotate()
            else:
                writer.flush()
        return begins_anew

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
