"""The rows of `reads`: what each answer said of each partition."""

from kipctl.probe.consume.broker_link import Asked, ConsumerLink
from kipctl.probe.consume.fetch_session import FetchPosition
from kipctl.probe.consume.positions import Partition
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.probe.tracing import Tracing
from kipctl.protocol.fetch_frames import Fetched
from kipctl.protocol.record_counts import Counted
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.trace.columns import ReadRow

UNKNOWN = -1


class ReadRows:
    """Makes rows and writes them; `racks` are those of brokers that answered, numbered as in them.

    Times are microseconds (monotonic).
    """

    def __init__(
        self, metadata: MetadataUpdater[Partition, ConsumerLink], tracing: Tracing
    ) -> None:
        self.racks: dict[str, int] = {}
        tracing.names["broker_rack"] = self.racks
        self._metadata = metadata
        self.write = tracing.rows["reads"]
        """Appends a row to the trace."""

    def row(
        self, asked: Asked, fetched: Fetched, now_us: int, counted: Counted | None = None
    ) -> ReadRow:
        """What a broker said of a partition that it was asked for."""
        partition, link, want, _ = asked
        rack = link.node.rack
        case = handling = UNKNOWN
        is_short = 0 <= fetched.high_watermark < want.offset and not len(fetched.records)
        if is_short and not fetched.error_code and fetched.preferred_read_replica == UNKNOWN:
            case, handling = RangeCase.UNCOMMITTED, RangeHandling.WAIT
        return ReadRow(
            partition.topic_position,
            partition.index,
            link.node.id,
            UNKNOWN if rack is None else self.racks.setdefault(rack, len(self.racks)),
            self._metadata.link(partition) is link,
            fetched.preferred_read_replica,
            counted.records if counted else 0,
            counted.bytes if counted else 0,
            fetched.error_code,
            want.offset,
            counted.next_offset if counted else UNKNOWN,
            fetched.high_watermark,
            case,
            handling,
            now_us,
        )

    def row_without_answer(self, partition: Partition, now_us: int) -> ReadRow:
        """A row for a position that its leader has judged, though no Fetch of it was refused."""
        leader = self._metadata.link(partition)
        assert leader is not None
        want = FetchPosition(partition.offset, self._metadata.epoch(partition))
        nothing = Fetched(
            "", partition.index, 0, UNKNOWN, UNKNOWN, UNKNOWN, (), UNKNOWN, memoryview(b"")
        )
        return self.row(Asked(partition, leader, want), nothing, now_us)
