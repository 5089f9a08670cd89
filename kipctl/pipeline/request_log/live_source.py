"""Request logs that are still written, as a source of Spark Structured Streaming.

Spark's own source of files reads each file once, and never what is written to it later. The offset
of this one is where each file has been read to: a batch is what came since.
"""

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kipctl.pipeline.request_log.live_files import LiveFiles, Piece, pieces_of

NAME = "kipctl-live-request-log"
PATHS, EARLIEST = "paths", "earliest_us"
"""Options: a JSON list of paths, and `LiveFiles.earliest_us`."""
_PIECE_BYTES = 32 << 20
"""Of a file is read at a time, by one task."""
_BATCH_BYTES = 4 << 20
_LINES = pa.schema(
    [("value", pa.binary()), ("file", pa.string()), ("block", pa.int64()), ("id", pa.int64())]
)

Offset = dict[str, int]
"""Where each file has been read to (bytes), by key."""


class LiveLogs(DataSource):
    """Lines (`value`, not decoded) of the `file` of a key (`LiveFile.key`): of its `block` that
    begins there, with an `id` that grows by one."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "value binary, file string, block long, id long"

    def streamReader(self, schema: StructType) -> "LiveReader":  # noqa: N802
        paths = json.loads(self.options[PATHS])
        return LiveReader(paths, int(self.options[EARLIEST]))


class LiveReader(DataSourceStreamReader):
    """Plans batches, in a process of its own, and reads them, in the executors."""

    def __init__(self, paths: Sequence[str], earliest_us: int) -> None:
        self._files = LiveFiles(paths, earliest_us)
        self._paths: dict[str, str] = {}
        self._end: Offset = {}

    def initialOffset(self) -> Offset:  # noqa: N802
        return {}

    # PySpark hands over no more where the method takes no more, as in all of its versions.
    def latestOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802
        for key, file in self._files.scan(self._end).items():
            self._paths[key] = file.path
            self._end[key] = max(file.end, self._end.get(key, 0))
        return self._end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        pieces = pieces_of(self._paths, start, end, _PIECE_BYTES)
        return [InputPartition(tuple(piece)) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        piece = Piece(*partition.value)
        lines: list[bytes] = []
        held = passed = 0
        for line in self._files.lines(piece):
            lines.append(line)
            held += len(line)
            if held > _BATCH_BYTES:
                yield _batch(piece, lines, passed)
                passed += len(lines)
                lines, held = [], 0
        yield _batch(piece, lines, passed)


def _batch(piece: Piece, lines: list[bytes], passed: int) -> pa.RecordBatch:
    count = len(lines)
    columns = [lines, [piece.key] * count, [piece.start] * count, range(passed, passed + count)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type) for column, type in zip(columns, _LINES.types, strict=True)],
        schema=_LINES,
    )
