"""Findings of clients by what passes the tap: each played, and what only looks like it."""

from unittest.mock import ANY

import pytest
from one_connection import START_US
from record_batches import Record, encode_batch
from tap_messages import (
    DONE,
    HINTED,
    NOT_LEADER,
    PORTS,
    REFUSED,
    TOPIC,
    ask_metadata,
    batch,
    fetch,
    fetched,
    metadata,
    produce,
    produced,
)

from kipctl.client_behaviour.episode import REFRESH_US
from kipctl.load.tap import client_document
from kipctl.protocol.api import encode_request
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.tap.process import _seen

FENCED = 74
BACKOFF_US = 100_000
TO_ANOTHER_AT_THE_SAME_EPOCH = produced((0, NOT_LEADER), hint=(2, 5))


def moved(wire, times: int, after_us: int, asks: bool = True) -> None:
    """Leaders that move to and fro, and a client that goes where hints say, after so long."""
    peers = dict(zip((1, 2), wire.connect_to(1, 2), strict=True))
    wire.after(REFRESH_US)
    epoch, leader = 0, 1
    for number in range(times):
        old, leader, epoch = leader, 3 - leader, epoch + 1
        peers[old].call(batch(number), produced((0, NOT_LEADER), hint=(leader, epoch)))
        wire.after(after_us)
        peers[leader].call(batch(1000 + number), DONE)
        if asks:
            wire.after(1000)
            peers[leader].call(ask_metadata(TOPIC), metadata((leader, epoch)))
        wire.after(2 * REFRESH_US)


@pytest.mark.parametrize("asks", [True, False])
def test_a_client_that_follows_hints_and_asks_for_metadata_has_no_finding(wire, asks):
    moved(wire, 20, 2000, asks)
    assert wire.findings() == ({} if asks else {"hint-no-refresh": (20, 20)})


@pytest.mark.parametrize("times", [19, 20])
def test_twenty_waits_are_a_client_that_waits(wire, times):
    moved(wire, times, BACKOFF_US)
    assert wire.findings() == ({"hint-waited": (20, 20)} if times == 20 else {})


def test_a_loop_is_told_while_it_lasts(wire):
    (peer,) = wire.connect_to(1)
    itself = produced((0, NOT_LEADER), hint=(1, 0))
    for number in range(500):
        peer.call(batch(number), itself, took_us=500)
        wire.after(500)
    wire.observer.tick(wire.now)
    wire.observer.tick(wire.now)
    (sign,) = wire.observer.signs.last
    assert (sign.finding, sign.topic, sign.partition, sign.broker) == ("hint-hot-loop", TOPIC, 0, 1)
    assert wire.findings() == {"hint-hot-loop": (1, 1)}
    wire.connect(2).call(batch(1), DONE)
    assert wire.findings() == {"hint-hot-loop": (1, 1)}
    assert wire.observer.signs.total == 1


def test_the_version_of_a_software_makes_it_known(wire):
    peer = wire.connect(1)
    asks = ApiVersionsRequest("kgo", "v1.21.6")
    peer.send(encode_request(asks, 3, 1, "c"))
    peer.exchange._flights.clear()
    peer.call(ask_metadata(), metadata((1, 0)))
    for number in range(500):
        peer.call(batch(number), produced((0, NOT_LEADER), hint=(1, 0)), took_us=500)
        wire.after(500)
    assert wire.findings() == {"hint-hot-loop": (1, 1)}
    (seen,) = _seen([wire.client], wire.observer.spec)
    document = client_document(seen, START_US, seconds=1.0)
    (told,) = document["findings"]
    assert (told["severity"], told["is_known"]) == ("problem", True)
    assert told["known"] == {
        "source": "twmb/franz-go#1412",
        "address": "https://github.com/twmb/franz-go/issues/1412",
        "mended_in": "1.21.7",
    }
    assert told["first"] == {"ms": 4500.0, "topic": TOPIC, "partition": 0, "broker": 1}


@pytest.mark.parametrize(
    ("times", "late_us", "is_found"), [(2, 0, False), (3, 0, True), (3, 40_000, False)]
)
def test_a_client_that_is_sent_back_ignores_hints(wire, times, late_us, is_found):
    """Of a tap that is late nobody knows whether the client had read the refusal."""
    (first, second) = wire.connect_to(1, 2)
    for number in range(times):
        wire.observer.watch.look(late_us)
        epoch = 2 * number + 1
        hinted = produced((0, NOT_LEADER), hint=(2, epoch))
        first.call(batch(number), hinted)
        wire.after(2 * BACKOFF_US)
        first.call(batch(10 + number), hinted)
        first.call(ask_metadata(TOPIC), metadata((2, epoch)))
        wire.after(2 * BACKOFF_US)
        second.call(batch(20 + number), DONE)
        second.call(ask_metadata(TOPIC), metadata((1, epoch + 1)))
        wire.after(4 * REFRESH_US)
    assert wire.findings() == ({"hint-ignored": (3, 3)} if is_found else {})


@pytest.mark.parametrize("after_us", [1000, BACKOFF_US])  # librdkafka 2.16 backs off first
@pytest.mark.parametrize(("goes_to", "named", "is_found"), [(2, False, True), (3, True, False)])
def test_a_hint_at_the_epoch_that_is_known_is_not_to_be_followed(
    wire, goes_to, named, is_found, after_us
):
    peers = dict(zip((1, 2, 3), [wire.connect(broker) for broker in (1, 2, 3)], strict=True))
    peers[1].call(ask_metadata(TOPIC), metadata((1, 5)))
    peers[1].call(batch(), TO_ANOTHER_AT_THE_SAME_EPOCH)
    if named:
        peers[1].call(ask_metadata(TOPIC), metadata((3, 6)))
    wire.after(after_us)
    peers[goes_to].call(batch(1), DONE)
    peers[1].call(ask_metadata(TOPIC), metadata((goes_to, 7)))
    assert wire.findings() == ({"hint-same-epoch-followed": (1, 1)} if is_found else {})


@pytest.mark.parametrize("over", ["the same", "another"])
def test_what_waited_for_a_connection_follows_no_hint(wire, over):
    """A client that has five requests under way at most goes on, where it was refused, with what
    stood behind them (@platformatic/kafka 2.12.1); the new leader is not ready yet."""
    first, second = wire.connect_to(1, 2)
    first.call(ask_metadata(TOPIC), metadata((1, 1)))
    first.call(batch(), produced((0, NOT_LEADER), hint=(2, 2)))
    first.call(ask_metadata(TOPIC), metadata((2, 2)))
    second.call(batch(1), DONE)
    second.call(batch(2), produced((0, NOT_LEADER), hint=(1, 1)))
    wire.after(20_000)
    goes_to = first if over == "the same" else wire.connect(1)
    goes_to.call(batch(3), produced((0, NOT_LEADER), hint=(2, 2)))
    second.call(batch(3), DONE)
    is_found = over == "another"
    assert ("hint-same-epoch-followed" in wire.findings()) == is_found


@pytest.mark.parametrize(
    ("shown", "is_of_another"), [((1, 0), False), ((2, 1), False), ((1, 0), True)]
)
def test_stale_metadata_is_not_to_undo_a_hint(wire, shown, is_of_another):
    """Who is still at the older leader, over a connection of its own, is another of the name."""
    first, second = wire.connect_to(1, 2)
    for number in range(2):
        first.call(batch(number), HINTED)
        first = wire.connect(1) if is_of_another else first
        wire.after(1000)
        second.call(batch(10 + number), DONE)
        wire.after(BACKOFF_US)
        second.call(ask_metadata(TOPIC), metadata(shown))
        wire.after(1000)
    # It goes back by stale Metadata; or because the leader moved back, which it was not shown.
    first.call(batch(20), HINTED)
    wire.after(1000)
    second.call(batch(21), DONE)
    assert ("hint-undone" in wire.findings()) == (shown == (1, 0) and not is_of_another)


@pytest.mark.parametrize("other_is_refused", ["never", "first", "last"])
def test_a_hint_is_undone_by_who_followed_it(wire, other_is_refused):
    """The new leader is not ready at first; or another of the name is refused too, and stays."""
    first, second = wire.connect_to(1, 2)
    other = wire.connect(1)
    refused = {"never": [first, second], "first": [other, first], "last": [first, other]}
    for number in range(3):
        for at, answer in zip(refused[other_is_refused], (HINTED, REFUSED), strict=True):
            at.call(batch(number), answer)
        wire.after(1000)
        second.call(batch(10 + number), DONE)
        wire.after(BACKOFF_US)
        second.call(ask_metadata(TOPIC), metadata((1, 0)))
        wire.after(1000)
        if other_is_refused != "never":
            other.call(batch(200 + number), HINTED)
            second.call(batch(300 + number), DONE)
            wire.after(20_000_000)
            wire.observer.tick(wire.now)
    assert ("hint-undone" in wire.findings()) == (other_is_refused == "never")


def test_a_hint_is_undone_also_after_the_leader_moved_on(wire):
    """It has followed two hints, one after the other, and goes back to the first leader."""
    first, second, third = wire.connect_to(1, 2, 3)
    for number in range(3):
        epoch = 2 * number + 1
        first.call(batch(number), produced((0, NOT_LEADER), hint=(2, epoch)))
        wire.after(1000)
        second.call(batch(number), produced((0, NOT_LEADER), hint=(3, epoch + 1)))
        wire.after(1000)
        third.call(batch(10 + number), DONE)
        wire.after(BACKOFF_US)
        third.call(ask_metadata(TOPIC), metadata((1, 0)))
        wire.after(1000)
    assert "hint-undone" in wire.findings()


def test_hints_of_fenced_answers_are_to_be_read(wire):
    first, second = wire.connect_to(1, 2)
    for number in range(3):
        epoch = 2 * number + 1
        first.call(batch(number), produced((0, FENCED), hint=(2, epoch)))
        wire.after(1000)
        first.call(ask_metadata(TOPIC), metadata((2, epoch)))
        wire.after(BACKOFF_US)
        second.call(batch(10 + number), DONE)
        wire.after(4 * REFRESH_US)
        second.call(ask_metadata(TOPIC), metadata((1, epoch + 1)))
    assert wire.findings() == {"fenced-ignored": (3, 3)}


@pytest.mark.parametrize("times", [2, 3])
def test_endpoints_that_a_proxy_has_not_rewritten(wire, times):
    first, second = wire.connect_to(1, 2)
    for number in range(times):
        answer = produced((0, NOT_LEADER), hint=(2, number + 1))
        (endpoint,) = answer.node_endpoints
        object.__setattr__(endpoint, "port", PORTS[3])
        first.call(batch(number), answer)
        wire.after(BACKOFF_US)
        first.call(ask_metadata(TOPIC), metadata((2, number + 1)))
        wire.after(BACKOFF_US)
        second.call(batch(10 + number), DONE)
        wire.after(4 * REFRESH_US)
    assert wire.findings() == ({"endpoint-differs": (3, 3)} if times == 3 else {})


@pytest.mark.parametrize(("refusals", "is_found"), [(4, True), (5, False)])
def test_a_producer_that_stays_and_gives_up(wire, refusals, is_found):
    (peer,) = wire.connect_to(1)
    for number in range(refusals):
        peer.call(batch(number), REFUSED)
        peer.call(ask_metadata(TOPIC), metadata((1, 0)))
        wire.after(BACKOFF_US)
    wire.after(130_000_000)
    wire.observer.tick(wire.now)
    assert wire.findings() == ({"retries-exhausted": (1, 1)} if is_found else {})


@pytest.mark.parametrize("restarts", [True, False])
def test_a_producer_that_was_restarted_under_its_name_gave_nothing_up(wire, restarts):
    (peer,) = wire.connect_to(1)
    peer.call(batch(), REFUSED)
    peer.call(ask_metadata(TOPIC), metadata((1, 0)))
    wire.after(BACKOFF_US)
    if restarts:
        peer.exchange.lost(wire.now)
    wire.observer.tick(wire.now)
    wire.after(1_000_000)
    wire.connect(1).call(ask_metadata(TOPIC), metadata((1, 0)))
    wire.after(130_000_000)
    wire.observer.tick(wire.now)
    assert wire.findings() == ({} if restarts else {"retries-exhausted": (1, 1)})


@pytest.mark.parametrize(("goes_on_as", "is_found"), [(7, True), (8, False)])
def test_a_producer_with_a_new_id_gave_nothing_up(wire, goes_on_as, is_found):
    """What was refused may be sent again under the new one, or a new process has it."""
    (peer,) = wire.connect_to(1)
    peer.call(batch(producer=7), REFUSED)
    peer.call(ask_metadata(TOPIC), metadata((1, 0)))
    wire.after(BACKOFF_US)
    other = produce((1, encode_batch([Record(value=b"", timestamp_ms=1)], producer_id=7)))
    peer.call(other if goes_on_as == 7 else batch(1, goes_on_as), DONE)
    wire.after(130_000_000)
    wire.observer.tick(wire.now)
    assert wire.findings() == ({"retries-exhausted": (1, 1)} if is_found else {})


def test_a_producer_that_has_ended_gave_nothing_up(wire):
    (peer,) = wire.connect_to(1)
    peer.call(batch(), REFUSED)
    peer.call(ask_metadata(TOPIC), metadata((1, 0)))
    peer.exchange.lost(wire.now)
    for _ in range(2):
        wire.after(20_000_000)
        wire.observer.tick(wire.now)
    assert wire.findings() == {}


@pytest.mark.parametrize(
    ("by_client", "after_us", "closes", "is_found"),
    [
        (True, 2000, (3, 4), True),
        (False, 2000, (3, 4), False),
        (True, 200_000, (3, 4), False),
        (True, 2000, (1, 3), False),
        (True, 2000, (2, 3), False),
        # It ends.
        (True, 2000, (1, 2, 3, 4), False),
    ],
)
def test_connections_to_others_are_to_stay(wire, by_client, after_us, closes, is_found):
    for number in range(2):
        peers = dict(zip((1, 2, 3, 4), wire.connect_to(1, 2, 3, 4), strict=True))
        for peer in peers.values():
            peer.call(ask_metadata(TOPIC), metadata((1, 2 * number), ports=PORTS))
        peers[1].call(batch(number), produced((0, NOT_LEADER), hint=(2, 2 * number + 1)))
        wire.after(after_us)
        for broker in closes:
            peers.pop(broker).exchange.lost(wire.now, by_client)
        wire.after(1_000_000)
        wire.observer.tick(wire.now)
        for peer in peers.values():
            peer.call(ask_metadata(TOPIC), metadata((2, 2 * number + 1), ports=PORTS))
    assert ("other-connections-cut" in wire.findings()) == is_found


@pytest.mark.parametrize(
    ("asks", "answer", "is_found"),
    [
        ((7, 0), fetched(session=7), True),
        ((0, 0), fetched(session=7), True),
        ((7, 3), fetched(session=7), False),
        # The broker keeps none, or has dropped it.
        ((0, 0), fetched(), False),
        ((7, 0), fetched(whole=70), False),
    ],
)
def test_a_fetch_session_is_to_go_on(wire, asks, answer, is_found):
    (peer,) = wire.connect_to(1)
    for _ in range(110):
        peer.call(fetch(*asks), answer)
        wire.after(500_000)
    assert ("session-churn" in wire.findings()) == is_found


@pytest.mark.parametrize(
    ("every_us", "seconds", "partitions", "is_found"),
    [
        (20_000, 7, 1, True),
        (100_000, 7, 1, True),
        # Six times in each of five seconds, and once less, or a second less.
        (190_000, 6, 1, True),
        (200_000, 60, 1, False),
        (20_000, 5, 1, True),
        (20_000, 4, 1, False),
        # As long as a new leader may be late on a busy machine: Java 3.6 asked 30 times.
        (100_000, 4, 1, False),
        # One move of many partitions.
        (20_000, 3, 20, False),
        (1_000_000, 60, 1, False),
    ],
)
@pytest.mark.parametrize("error", [FENCED, 75])
def test_a_loop_of_refused_epochs(wire, every_us, seconds, partitions, error, is_found):
    (peer,) = wire.connect_to(1)
    for _ in range(seconds * 1_000_000 // every_us):
        for partition in range(partitions):
            peer.call(fetch(partition=partition), fetched(error, partition=partition))
        wire.after(every_us)
    assert wire.findings() == ({"epoch-loop": ANY} if is_found else {})


@pytest.mark.parametrize(
    ("error", "seconds", "partitions", "is_found"),
    [(45, 3, 1, True), (47, 3, 1, True), (45, 1, 1, False), (45, 1, 10, False), (19, 3, 1, False)],
)
def test_sequences_that_are_refused_in_a_row(wire, error, seconds, partitions, is_found):
    (peer,) = wire.connect_to(1)
    for number in range(seconds * 50):
        for partition in range(partitions):
            sent = encode_batch([Record(value=b"%d" % number, timestamp_ms=number + 1)])
            peer.call(produce((partition, sent)), produced((partition, error)))
        wire.after(20_000)
    assert wire.findings() == ({"sequence-trouble": ANY} if is_found else {})


def test_what_happened_in_other_seconds_is_not_in_a_row(wire):
    (peer,) = wire.connect_to(1)
    for _ in range(20):
        for _ in range(6):
            peer.call(fetch(), fetched(FENCED))
        wire.after(2_000_000)
    assert wire.findings() == {}


@pytest.mark.parametrize(("goes", "is_found"), [(False, True), (True, False)])
def test_a_named_replica_is_to_be_asked(wire, goes, is_found):
    leader, replica = wire.connect_to(1, 3)
    for _ in range(6):
        leader.call(fetch(), fetched(preferred=3))
        wire.after(1000)
        if goes:
            replica.call(fetch(), fetched())
            wire.after(300_000_000)
    assert ("replica-ignored" in wire.findings()) == is_found
