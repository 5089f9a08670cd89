"""Records counted from batch headers, against batches that are really unpacked."""

import struct

import pytest
from campaigns import as_many, campaign, chance
from crc32c import crc32c
from looped import looped
from record_batches import (
    BATCH_LENGTH_AT,
    LAST_OFFSET_DELTA_AT,
    RECORDS_COUNT_AT,
    Record,
    decode_batch,
    encode_batch,
)
from spoilt import flipped

from kipctl.protocol.compression import Compression
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.record_counts import CorruptBatchError, Counted, OldFormatError, count_records
from kipctl.protocol.records import (
    ATTRIBUTES_AT,
    CONTROL,
    CRC_AT,
    MAGIC_AT,
    PARTITION_LEADER_EPOCH_AT,
    TRANSACTIONAL,
)

ABORT, COMMIT = 0, 1


def sealed(batch: bytearray) -> bytes:
    """The batch with the CRC that its bytes give."""
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[ATTRIBUTES_AT:])))
    return bytes(batch)


def a_batch(
    base: int,
    count: int,
    producer: int = -1,
    attributes: int = 0,
    epoch: int = 3,
    compression: Compression = Compression.NONE,
    delta: int | None = None,
) -> bytes:
    """A batch as it lies in a log; with a greater `delta` it was compacted."""
    values = [Record(b"value %d" % (base + i), timestamp_ms=i) for i in range(count)]
    batch = bytearray(encode_batch(values, compression, producer, 0, 0))
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">i", batch, PARTITION_LEADER_EPOCH_AT, epoch)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, compression | attributes)
    if delta is not None:
        struct.pack_into(">i", batch, LAST_OFFSET_DELTA_AT, delta)
    return sealed(batch)


def a_marker(base: int, producer: int, kind: int, epoch: int = 3) -> bytes:
    """The control batch that ends a transaction."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    batch = bytearray(encode_batch([Record(value, key)], Compression.NONE, producer, 0))
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">i", batch, PARTITION_LEADER_EPOCH_AT, epoch)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, TRANSACTIONAL | CONTROL)
    return sealed(batch)


def without_records(batch: bytes) -> bytes:
    """What compaction leaves of a batch, to keep its producer's last sequence number."""
    emptied = bytearray(batch[:61])
    struct.pack_into(">i", emptied, BATCH_LENGTH_AT, 61 - PARTITION_LEADER_EPOCH_AT)
    struct.pack_into(">i", emptied, RECORDS_COUNT_AT, 0)
    return sealed(emptied)


def unpacked(fetched: bytes, offset: int) -> Counted:
    """The same of batches without transactions, by decoding every record."""
    records = size = at = 0
    following, epoch = offset, -1
    while at < len(fetched):
        try:
            batch = decode_batch(fetched, at)
        except MalformedFrame:
            break  # cut off
        wanted = [record for record in batch.records if record.offset >= offset]
        records += len(wanted)
        if wanted:
            size += batch.header.size
            following, epoch = wanted[-1].offset + 1, batch.header.partition_leader_epoch
        at += batch.header.size
    return Counted(records, size, following, epoch)


@campaign
@looped("compression", Compression)
def test_as_many_as_are_unpacked_wherever_the_offset_lies_and_the_answer_ends(
    compression: Compression,
) -> None:
    choose = chance(f"record counts {compression}")
    for _ in range(as_many(10, 1000)):
        base, log = 1000, b""
        for epoch in range(choose.randint(1, 5)):
            count = choose.choice([1, 2, 30])
            log += a_batch(base, count, epoch=epoch, compression=compression)
            base += count
        offset = choose.randrange(1000, base + 1)
        for cut in (len(log), choose.randrange(len(log)), len(log) - 1):
            fetched = log[:cut]
            assert count_records(memoryview(fetched), offset) == unpacked(fetched, offset)


def test_nothing_fetched_leaves_the_position_where_it_is() -> None:
    assert count_records(memoryview(b""), 42) == Counted(0, 0, 42, -1)


def test_where_records_were_compacted_away_the_position_still_moves_past_the_batch() -> None:
    log = a_batch(10, 2, delta=9) + without_records(a_batch(20, 3))
    assert count_records(memoryview(log), 10)[0::2] == (2, 23)
    assert count_records(memoryview(log), 18)[0::2] == (2, 23)


# --- transactions ---

OPEN_TO_ABORT = [
    a_batch(0, 3, producer=7, attributes=TRANSACTIONAL),
    a_batch(3, 2),
    a_batch(5, 4, producer=8, attributes=TRANSACTIONAL),
    a_marker(9, 7, ABORT),
    a_batch(10, 5, producer=7, attributes=TRANSACTIONAL),
    a_marker(15, 8, COMMIT),
    a_marker(16, 7, COMMIT),
]


@pytest.mark.parametrize(
    ("aborted", "offset", "records"),
    [
        (None, 0, 14),
        ([], 0, 14),
        ([(7, 0)], 0, 11),
        ([(7, 0)], 3, 11),
        ([(7, 0)], 6, 8),
        ([(8, 5)], 0, 10),
        ([(8, 5), (7, 0)], 0, 7),
        ([(7, 10), (7, 0)], 0, 6),
        ([(9, 0)], 0, 14),
    ],
)
def test_aborted_transactions_are_left_out_until_their_marker(
    aborted: list[tuple[int, int]] | None, offset: int, records: int
) -> None:
    log = b"".join(OPEN_TO_ABORT)
    counted = count_records(memoryview(log), offset, aborted=aborted)
    assert (counted.records, counted.next_offset) == (records, 17)


def test_bytes_are_those_of_the_batches_whose_records_are_read() -> None:
    log = b"".join(OPEN_TO_ABORT)
    read = sum(len(OPEN_TO_ABORT[i]) for i in (1, 2, 4))
    assert count_records(memoryview(log), 0, aborted=[(7, 0)]).bytes == read


def test_batches_without_a_transaction_are_read_also_of_a_producer_that_aborts() -> None:
    log = a_batch(0, 2, producer=7) + a_batch(2, 3, producer=7, attributes=TRANSACTIONAL)
    assert count_records(memoryview(log), 0, aborted=[(7, 0)]).records == 2


def test_a_marker_whose_record_was_compacted_away_ends_nothing() -> None:
    """As in Java: an abort marker goes only when no record of its transaction is left."""
    marker = without_records(a_marker(2, 7, ABORT))
    log = a_batch(0, 2) + marker + a_batch(3, 2)
    for aborted in (None, [(7, 0)]):
        assert count_records(memoryview(log), 0, aborted=aborted)[0::2] == (4, 5)


# --- what is not a batch ---


def spoilt(batch: bytes, at: int, layout: str, value: int, seal: bool = False) -> memoryview:
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    return memoryview(sealed(changed) if seal else bytes(changed))


def test_a_byte_that_is_not_what_was_written_is_found_unless_crcs_are_not_checked() -> None:
    good = a_batch(5, 3)
    for at in range(ATTRIBUTES_AT, len(good)):
        bad = memoryview(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(CorruptBatchError, match="offset 5"):
            count_records(bad, 5)
    assert count_records(bad, 5, check_crcs=False) == count_records(memoryview(good), 5)


REFUSED = [
    *((MAGIC_AT, ">b", magic, OldFormatError, "magic") for magic in (0, 1)),
    *((MAGIC_AT, ">b", magic, MalformedFrame, "magic") for magic in (3, -1)),
    # A length that leads nowhere.
    *((BATCH_LENGTH_AT, ">i", n, MalformedFrame, "length") for n in (-(1 << 31), -12, -1, 0, 48)),
    # More records than offsets, or fewer than none.
    *((RECORDS_COUNT_AT, ">i", n, MalformedFrame, "records") for n in (-1, 4, 1 << 30)),
]


@looped("at, layout, value, error, words", REFUSED)
def test_a_batch_that_cannot_be_is_refused(
    at: int, layout: str, value: int, error: type[MalformedFrame], words: str
) -> None:
    with pytest.raises(error, match=words) as raised:
        count_records(spoilt(a_batch(0, 3), at, layout, value, seal=True), 0)
    assert raised.type is error


def test_a_message_of_the_old_formats_is_shorter_than_the_header_of_a_batch() -> None:
    for magic in (0, 1):  # offset, size, CRC, magic, attributes, no time in format 0, no key
        body = struct.pack(">IbbQ" if magic else ">Ibb", 0, magic, 0, *([0] if magic else ()))
        body += struct.pack(">ii", -1, 1) + b"v"
        with pytest.raises(OldFormatError, match=f"magic {magic}"):
            count_records(memoryview(struct.pack(">qi", 0, len(body)) + body), 0)


@pytest.mark.parametrize(
    "bad",
    [
        spoilt(a_batch(5, 3), CRC_AT, ">I", 1),
        spoilt(a_batch(5, 3), MAGIC_AT, ">b", 1),
        spoilt(a_batch(5, 3), BATCH_LENGTH_AT, ">i", 3),
        spoilt(a_batch(5, 3), RECORDS_COUNT_AT, ">i", 9, seal=True),
        sealed(bytearray(a_marker(5, 7, ABORT)[:61]) + b"\xff" * 17),
    ],
    ids=["CRC", "magic", "length", "count", "marker"],
)
def test_what_comes_before_a_bad_batch_is_counted_and_the_next_answer_begins_with_it(
    bad: memoryview | bytes,
) -> None:
    good = a_batch(0, 2) + a_batch(2, 3)
    aborted = [(7, 0)]
    counted = count_records(memoryview(good + bytes(bad)), 0, aborted=aborted)
    assert counted == count_records(memoryview(good), 0)
    with pytest.raises(MalformedFrame):
        count_records(memoryview(bytes(bad)), counted.next_offset, aborted=aborted)


def test_a_length_beyond_the_answer_is_a_batch_cut_off() -> None:
    log = spoilt(a_batch(0, 1), BATCH_LENGTH_AT, ">i", (1 << 31) - 1)
    assert count_records(log, 0) == Counted(0, 0, 0, -1)


@campaign
def test_random_bytes_never_raise_anything_else() -> None:
    choose = chance("record counts flipped")
    good = a_batch(0, 3) + a_marker(3, 7, ABORT) + a_batch(4, 2)
    for _ in range(as_many(500, 200_000)):
        spoilt = memoryview(flipped(good, choose, most=4))
        try:
            counted = count_records(spoilt, 0, check_crcs=False, aborted=[(7, 0)])
        except MalformedFrame:
            continue
        assert counted.records >= 0
        assert counted.next_offset >= 0
