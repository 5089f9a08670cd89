"""951-21 looks at what a log has in the end: records lost, twice, or in another order."""

import pytest
from test_judgements import BEGAN_US, PLACE, produce

from kipctl.conform.cluster import Exchange
from kipctl.conform.cluster.log import Log, records_in
from kipctl.conform.rules import BY_ID
from kipctl.conform.trace import Trace, most_tries
from kipctl.conform.verdict import Role, Status
from kipctl.protocol.compression import Compression
from kipctl.protocol.records import batch_header, encode_record


def batch(values: str, sequence: int, epoch: int = 0, id: int = 4000, attributes: int = 0) -> bytes:
    """A record a letter; each has a time of its own."""
    first = ord(values[0])
    records = (
        encode_record(k, ord(value) - first, None, value.encode()) for k, value in enumerate(values)
    )
    content = memoryview(b"".join(records))
    header = batch_header(attributes, len(values), first, id, epoch, sequence, content)
    return header + bytes(content)


A, B, C = batch("a", 0), batch("b", 1), batch("c", 2)


def sent(ms: float, broker: int, content: bytes, error: int = 0) -> Exchange:
    exchange = produce(ms, broker, error)
    tried = exchange.tried[PLACE]
    header = content[43:57]
    tried.content = content
    tried.producer = int.from_bytes(header[:8], "big"), int.from_bytes(header[8:10], "big")
    tried.sequence = int.from_bytes(header[10:], "big", signed=True)
    return exchange


@pytest.mark.parametrize(
    ("anew", "logged", "status", "seen"),
    [
        ((A, B, C), (A, B, C), Status.PASS, "0 records lost, 0 records twice"),
        ((A, B, C), (A, B), Status.PASS, "0 records lost"),
        ((batch("abc", 0, 1),), (batch("abc", 0, 1),), Status.PASS, "0 records lost"),
        ((batch("a", 0, 1), batch("c", 1, 1)), (A, batch("c", 0, 1)), Status.FAIL, "1 record lost"),
        ((batch("ab", 0, 1), C), (A, batch("ab", 0, 1)), Status.FAIL, "1 record twice"),
        ((B, A), (batch("b", 0, 1), batch("a", 1, 1)), Status.FAIL, "1 record out of order"),
        ((B, A), (batch("b", 0, 0, 4001), batch("a", 1, 0, 4001)), Status.FAIL, "out of order"),
    ],
    ids=["as sent", "the last is under way", "anew", "lost", "twice", "turned", "another id"],
)
def test_a_log_has_each_record_once_in_order(
    anew: tuple[bytes, ...], logged: tuple[bytes, ...], status: Status, seen: str
) -> None:
    """Whatever the answers were: these are all good."""
    log = Log()
    for content in logged:
        assert log.append(content, 0)[0] == 0
    refused = [sent(k / 10, 1, content, 6) for k, content in enumerate((A, B, C))]
    again = [sent(9 + k, 2, content) for k, content in enumerate(anew)]
    trace = Trace(Role.PRODUCER, PLACE, [*refused, *again], [], BEGAN_US, log=log.batches)
    judged = BY_ID["951-21"]().judged(trace)
    assert (judged.status, seen in judged.seen) == (status, True), judged


def test_equal_records_of_one_time_are_not_taken_for_one_that_came_twice() -> None:
    """Some clients send one value again and again."""
    alike = [batch("a", k) for k in range(3)]
    log = Log()
    for content in alike:
        log.append(content, 0)
    seen = [sent(0, 1, alike[0], 6), *(sent(k, 2, content) for k, content in enumerate(alike, 5))]
    trace = Trace(Role.PRODUCER, PLACE, seen, [], BEGAN_US, log=log.batches)
    assert BY_ID["951-21"]().judged(trace).status is Status.PASS


def test_records_are_told_by_their_time_and_their_bytes() -> None:
    split = [*records_in(batch("ab", 0)), *records_in(batch("c", 7, 3))]
    assert split == [*records_in(batch("abc", 0, 9, 1))]
    assert len({*split}) == 3
    packed = batch("ab", 0, attributes=Compression.GZIP)
    assert len([*records_in(packed)]) == 1


@pytest.mark.parametrize(
    ("contents", "tries"),
    [
        ((A, A, A), 3),
        ((A, B, C), 1),
        ((A, batch("ab", 0)), 2),  # it has taken more records into the batch meanwhile
        ((batch("a", -1, -1, -1), batch("ab", -1, -1, -1)), 2),
        ((batch("a", -1, -1, -1), batch("b", -1, -1, -1)), 1),
    ],
)
def test_a_batch_is_the_same_if_it_begins_with_the_same_record(
    contents: tuple[bytes, ...], tries: int
) -> None:
    seen = [
        sent(0, 1, batch("z", 9), 6),
        *(sent(k, 1, content) for k, content in enumerate(contents, 1)),
    ]
    trace = Trace(Role.PRODUCER, PLACE, seen, [], BEGAN_US)
    assert most_tries(trace.after) == tries
