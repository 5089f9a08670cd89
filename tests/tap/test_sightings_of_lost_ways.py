"""Findings of clients that do not find their way: to a leader, to a topic that was made anew, to a
position, to another cluster. Each played, and what only looks like it."""

from uuid import UUID

import pytest
from tap_messages import (
    DONE,
    NOT_LEADER,
    PORTS,
    TOPIC,
    ask_metadata,
    batch,
    fetch,
    fetched,
    framed,
    metadata,
    produced,
    request_frame,
)

from kipctl.client_behaviour.unreachable import AWAY_US, REBOOTSTRAP_US
from kipctl.protocol.address import Address
from kipctl.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kipctl.protocol.message import Request, Response
from kipctl.protocol.metadata import MetadataResponse
from kipctl.protocol.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kipctl.tap.frames import client_id_of

SECOND_US = 1_000_000
OUT_OF_RANGE, UNKNOWN_EPOCH, UNKNOWN_ID, INCONSISTENT_ID = 1, 75, 100, 103
OLD, NEW = UUID(int=7), UUID(int=8)


def not_reached(wire, *brokers: int | None) -> None:
    """The client connects to these brokers (None: to its bootstrap server), which are gone."""
    for broker in brokers:
        address = broker and Address("127.0.0.1", PORTS[broker])
        wire.observer.not_reached(request_frame(18, 3, b""), address, "", wire.now)


@pytest.mark.parametrize(
    ("tries", "every_us", "asks", "is_found"),
    [
        (17, SECOND_US, False, True),
        (5, 4 * SECOND_US, False, True),
        (4, 6 * SECOND_US, False, False),
        (12, SECOND_US, False, False),  # kafka-go looks at intervals of 6 s
        (60, 100_000, False, False),  # shorter than clients wait that ask at intervals
        (20, SECOND_US, True, False),
    ],
)
def test_a_client_that_tries_a_broker_that_is_gone_is_to_look(
    wire, tries, every_us, asks, is_found
):
    _, other = wire.connect_to(1, 2)
    for _ in range(tries):
        not_reached(wire, 1)
        if asks:
            other.call(ask_metadata(TOPIC), metadata((1, 0)))
        wire.after(every_us)
    assert ("dead-leader-retried" in wire.findings()) == is_found


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("goes", [True, False])
def test_a_client_that_is_told_of_the_new_leader_is_to_go_there(wire, goes, reads):
    gone, other = wire.connect_to(1, 2)
    asks, answer = (fetch(), fetched()) if reads else (batch(), DONE)
    gone.ask(asks)
    gone.exchange.lost(wire.now)
    for _ in range(8):
        not_reached(wire, 1)
        other.call(ask_metadata(TOPIC), metadata((2, 1)))
        if goes:
            other.call(asks, answer)
        wire.after(SECOND_US)
    assert ("dead-leader-retried" in wire.findings()) == (not goes)


def test_a_broker_that_is_back_is_not_gone(wire):
    (peer,) = wire.connect_to(1)
    for _ in range(8):
        not_reached(wire, 1)
        wire.after(SECOND_US)
        peer.call(fetch(), fetched())
    assert wire.findings() == {}


def test_who_it_was_is_told_by_what_it_says_first(wire):
    assert client_id_of(request_frame(18, 3, b"")) == "c"
    assert client_id_of(b"") == client_id_of(framed(b"\0")) == ""
    wire.observer.not_reached(b"", Address("127.0.0.1", PORTS[1]), "", wire.now)
    assert not wire.observer.clients


# --- Topics that were made anew ---


@pytest.mark.parametrize("error", [UNKNOWN_ID, INCONSISTENT_ID])
@pytest.mark.parametrize(
    ("seconds", "asks_for", "is_found"),
    [
        (16, OLD, True),
        (14, OLD, False),
        # A broker that does not know the new one yet.
        (30, NEW, False),
    ],
)
def test_a_topic_that_was_made_anew_is_to_be_asked_for_by_its_new_id(
    wire, seconds, asks_for, error, is_found
):
    (peer,) = wire.connect_to(1)
    for topic_id in (OLD, NEW):
        peer.call(ask_metadata(TOPIC), metadata((1, 0), topic_id=topic_id))
    for _ in range(seconds):
        peer.call(fetch(topic_id=asks_for), fetched(error, topic_id=asks_for), version=13)
        wire.after(SECOND_US)
    assert ("recreated-ignored" in wire.findings()) == is_found


@pytest.mark.parametrize("is_gone_meanwhile", [True, False])
@pytest.mark.parametrize(("made_anew", "is_found"), [(NEW, True), (OLD, False)])
def test_it_is_another_topic_by_its_id_alone(wire, made_anew, is_gone_meanwhile, is_found):
    (peer,) = wire.connect_to(1)
    peer.call(ask_metadata(TOPIC), metadata((1, 0), topic_id=OLD))
    if is_gone_meanwhile:
        peer.call(ask_metadata(TOPIC), metadata())
    peer.call(ask_metadata(TOPIC), metadata((1, 0), topic_id=made_anew))
    for _ in range(20):
        peer.call(fetch(topic_id=OLD), fetched(UNKNOWN_ID, topic_id=OLD), version=13)
        wire.after(SECOND_US)
    assert ("recreated-ignored" in wire.findings()) == is_found


@pytest.mark.parametrize(
    ("asks", "refuses", "is_found"),
    [
        # Who keeps the old leader for its higher epoch (Java before 3.0).
        (fetch(), fetched(UNKNOWN_EPOCH), True),
        (fetch(), fetched(NOT_LEADER), True),
        (batch(), produced((0, NOT_LEADER)), True),
        (fetch(), fetched(9), False),
    ],
)
@pytest.mark.parametrize("succeeds", [True, False])
def test_who_asks_by_name_is_to_leave_the_leader_of_the_old_one(
    wire, asks, refuses, succeeds, is_found
):
    first, second = wire.connect_to(1, 2)
    for at, topic_id in (((1, 5), OLD), ((2, 0), NEW)):
        second.call(ask_metadata(TOPIC), metadata(at, topic_id=topic_id))
    for _ in range(20):
        if succeeds:
            second.call(fetch(), fetched())
        first.call(asks, refuses)
        wire.after(SECOND_US)
    assert ("recreated-ignored" in wire.findings()) == (is_found and not succeeds)


# --- Positions ---


def asked_for_offsets(error: int) -> tuple[Request, Response]:
    asked = ListOffsetsTopic(name=TOPIC, partitions=(ListOffsetsPartition(0),))
    told = ListOffsetsPartitionResponse(0, error_code=error)
    answer = ListOffsetsTopicResponse(name=TOPIC, partitions=(told,))
    return ListOffsetsRequest(topics=(asked,)), ListOffsetsResponse(topics=(answer,))


def asked_for_epochs(
    error: int,
) -> tuple[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse]:
    asked = OffsetForLeaderTopic(topic=TOPIC, partitions=(OffsetForLeaderPartition(0),))
    told = OffsetForLeaderTopicResult(TOPIC, (EpochEndOffset(error_code=error, partition=0),))
    return OffsetForLeaderEpochRequest(topics=(asked,)), OffsetForLeaderEpochResponse(
        topics=(told,)
    )


@pytest.mark.parametrize(("asked", "version"), [(asked_for_offsets, 6), (asked_for_epochs, 4)])
@pytest.mark.parametrize(
    ("leader", "error", "times", "is_found"),
    [
        (2, NOT_LEADER, 5, True),
        (2, NOT_LEADER, 4, False),
        # The leader that it was shown is late.
        (1, NOT_LEADER, 30, False),
        (2, 9, 30, False),
    ],
)
def test_offsets_are_to_be_asked_of_the_leader(
    wire, asked, version, leader, error, times, is_found
):
    (peer,) = wire.connect_to(1)
    peer.call(ask_metadata(TOPIC), metadata((leader, 1)))
    for _ in range(times):
        peer.call(*asked(error), version=version)
        wire.after(100_000)
    assert wire.findings().keys() == ({"position-loop"} if is_found else set())


def test_an_answer_in_between_ends_a_row(wire):
    (peer,) = wire.connect_to(1)
    peer.call(ask_metadata(TOPIC), metadata((2, 1)))
    for error in (*[NOT_LEADER] * 4, 0, *[NOT_LEADER] * 4):
        peer.call(*asked_for_offsets(error), version=6)
    assert wire.findings() == {}


@pytest.mark.parametrize(("asked", "version"), [(asked_for_offsets, 6), (asked_for_epochs, 4)])
def test_epochs_that_are_refused_there_are_a_loop_too(wire, asked, version):
    (peer,) = wire.connect_to(1)
    for _ in range(7 * 50):
        peer.call(*asked(UNKNOWN_EPOCH), version=version)
        wire.after(20_000)
    assert wire.findings().keys() == {"epoch-loop"}


@pytest.mark.parametrize(
    ("times", "moves_on", "is_found"), [(5, False, True), (4, False, False), (30, True, False)]
)
def test_an_offset_that_is_out_of_range_is_not_to_be_asked_for_again(
    wire, times, moves_on, is_found
):
    (peer,) = wire.connect_to(1)
    for number in range(times):
        peer.call(fetch(offset=number if moves_on else 5), fetched(OUT_OF_RANGE))
        wire.after(100_000)
    assert wire.findings().keys() == ({"position-loop"} if is_found else set())


def test_what_was_under_way_is_not_again(wire):
    peers = [wire.connect(1) for _ in range(9)]
    for peer in peers:
        peer.ask(fetch(offset=5))
    for peer in peers:
        peer.answer(fetched(OUT_OF_RANGE))
    assert wire.findings() == {}


# --- Another cluster ---


@pytest.mark.parametrize(
    ("after_us", "begins_again", "is_found"),
    [
        (REBOOTSTRAP_US, False, True),
        (REBOOTSTRAP_US - 1, False, False),
        (REBOOTSTRAP_US, True, False),
    ],
)
def test_a_client_that_is_told_to_begin_again_is_to_leave(wire, after_us, begins_again, is_found):
    first, second = wire.connect_to(1, 2)
    wire.after(1)
    told = MetadataResponse(error_code=129)
    first.call(ask_metadata(TOPIC), told, version=13)
    wire.after(after_us)
    if begins_again:
        again = wire.connect(1, is_bootstrap=True)
        again.call(ask_metadata(TOPIC), metadata((1, 0)))
    second.call(batch(), DONE)
    assert wire.findings().keys() == ({"rebootstrap-ignored"} if is_found else set())


@pytest.mark.parametrize(
    ("brokers", "seconds", "is_found"),
    [
        ((1, 2, 3, 4), AWAY_US // SECOND_US, True),
        ((1, 2, 3, 4), AWAY_US // SECOND_US - 1, False),
        # One is not tried: it may be there.
        ((1, 2, 3), 2 * AWAY_US // SECOND_US, False),
        ((1, 2, 3, 4, None), 2 * AWAY_US // SECOND_US, False),
    ],
)
def test_a_client_whose_brokers_are_all_away_is_to_begin_again(wire, brokers, seconds, is_found):
    wire.connect_to(1)
    for _ in range(0, seconds + 1, 10):
        not_reached(wire, *brokers)
        wire.after(10 * SECOND_US)
    assert ("rebootstrap-ignored" in wire.findings()) == is_found
