"""The requests that a verdict was drawn from, as lines."""

from test_judgements import BEGAN_US, PLACE, fetch, metadata, produce

from kipctl.conform.cluster import Connection
from kipctl.conform.rules import BY_ID
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Role, Status
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.metadata import metadata_request


def test_the_request_that_decided_is_among_those_that_are_shown() -> None:
    """951-5 fails at the 80th, long after the first sixteen."""
    loop = [produce(2 + 10 * k, 2, 6) for k in range(80)]
    trace = Trace(Role.PRODUCER, PLACE, [produce(0, 1, 6), *loop, produce(1100, 2)], [], BEGAN_US)
    judged = BY_ID["951-5"]().judged(trace)
    assert judged.status is Status.FAIL
    lines = trace.evidence(judged.ms)
    assert [line for line in lines if line.startswith(">")] == [
        ">    792.0 ms  broker 2 #0  Produce v13  t-0 NOT_LEADER_OR_FOLLOWER hint (2, 6)"
    ]
    assert lines[0].startswith("       0.0 ms")
    assert "  68 more" in lines
    assert len(lines) < 20


def test_without_a_request_that_decided_the_last_ones_are_shown() -> None:
    seen = [produce(k, 1, 6) for k in range(40)]
    lines = Trace(Role.PRODUCER, PLACE, seen, [], BEGAN_US).evidence()
    assert "      39.0 ms" in lines[-1]
    assert "  28 more" in lines


def test_lines_have_all_that_rules_judge_by() -> None:
    asked, read, sent = metadata(1), fetch(2, 3, offset=1200), produce(3, 2, sequence=7)
    asked.request = metadata_request(["t", "u"])
    read.request, read.connection = FetchRequest(rack_id="c"), 4
    tried = sent.tried[PLACE]
    tried.producer, tried.offset = (4000, 0), 12
    connections = [Connection(4, 3, BEGAN_US + 1500, BEGAN_US + 9000, by_client=True)]
    seen = [produce(0, 1, 6), asked, read, sent, fetch(4, 3, None)]
    trace = Trace(Role.PRODUCER, PLACE, seen, connections, BEGAN_US)
    assert trace.evidence(2.0)[1:] == (
        "       1.0 ms  broker 1 #0  Metadata v13  of t, u",
        "       1.5 ms  broker 3 #4  opened",
        ">      2.0 ms  broker 3 #4  Fetch v16  rack c  t-0 at 1,200 epoch 5 ok",
        "       3.0 ms  broker 2 #0  Produce v13  t-0 sequence 7 of producer 4000 ok at 12",
        "       4.0 ms  broker 3 #0  Fetch v16  no answer",
        "       9.0 ms  broker 3 #4  closed by the client",
    )
