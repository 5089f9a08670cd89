"""Findings of clients by when they ask for Metadata: each played, and what only looks like it."""

import pytest
from tap_messages import (
    DONE,
    NOT_LEADER,
    REFUSED,
    TOPIC,
    ask_metadata,
    batch,
    metadata,
    produced,
)

from kipctl.client_behaviour.episode import REFRESH_US


@pytest.mark.parametrize("asks", [True, False])
def test_a_client_that_is_refused_is_to_ask_for_metadata(wire, asks):
    (peer,) = wire.connect_to(1)
    wire.after(10 * REFRESH_US)
    for number in range(8):
        peer.call(batch(number), REFUSED)
        if asks:
            peer.call(ask_metadata(TOPIC), metadata((1, 0)))
        wire.after(1_000_000)
    assert wire.findings() == ({} if asks else {"no-metadata-after-6": (1, 1)})


@pytest.mark.parametrize("what", ["answered first", "answered later", "lost", "none"])
def test_metadata_that_is_under_way_will_do(wire, what):
    """A client asks for it once at a time, and a broker that was paused answers all at once: then
    it goes by what it was asked for seconds before (kafkajs 2.2.4)."""
    first, third = wire.connect_to(1, 3)
    wire.after(10 * REFRESH_US)
    if what != "none":
        third.ask(ask_metadata(TOPIC))
    first.ask(batch())
    wire.after(3_000_000)
    if what == "answered first":
        third.answer(metadata((1, 0)))
    first.answer(REFUSED)
    wire.after(1000)
    if what == "answered later":
        third.answer(metadata((1, 0)))
    if what == "lost":
        third.exchange.lost(wire.now)
    for number in range(8):
        first.call(batch(1 + number), REFUSED)
        wire.after(1_000_000)
    assert wire.findings() == ({"no-metadata-after-6": (1, 1)} if what == "none" else {})


@pytest.mark.parametrize("knows", [True, False])
def test_a_client_that_knows_the_leader_is_not_to_ask_where_it_is(wire, knows):
    """It is refused what it had sent before it knew; the leader itself is slow to answer."""
    first, second = wire.connect_to(1, 2)
    first.ask(batch())
    second.call(ask_metadata(TOPIC), metadata((2, 1)))
    wire.after(10 * REFRESH_US)
    first.answer(REFUSED)
    wire.after(1000 if knows else 7_000_000)
    second.call(batch(1), DONE, took_us=7_000_000)
    assert wire.findings() == ({} if knows else {"no-metadata-after-6": (1, 1)})


@pytest.mark.parametrize("ends", [True, False])
def test_a_client_that_ends_or_rests_is_not_refused_for_long(wire, ends):
    (peer,) = wire.connect_to(1)
    wire.after(10 * REFRESH_US)
    for number in range(5):
        peer.call(batch(number), REFUSED)
        wire.after(100_000)
    if ends:
        peer.exchange.lost(wire.now)
    for _ in range(12):
        wire.after(1_000_000)
        wire.observer.tick(wire.now)
        assert wire.findings() == {}


@pytest.mark.parametrize(
    ("every_us", "times", "late_us", "is_found"),
    [
        (14_000, 110, 0, True),  # kafkajs 2.2.4
        (100_000, 600, 0, False),  # a minute of a backoff that does not grow
        (1_000_000, 100, 0, False),
        (14_000, 110, 99_000, True),
        # What was sent in some seconds is read together.
        (14_000, 110, 100_000, False),
    ],
)
def test_a_storm_of_metadata_requests(wire, every_us, times, late_us, is_found):
    (peer,) = wire.connect_to(1)
    wire.observer.watch.look(late_us)
    for _ in range(times):
        peer.call(ask_metadata(TOPIC), metadata((1, 0)))
        wire.after(every_us)
    assert ("metadata-storm" in wire.findings()) == is_found


def test_processes_of_one_name_are_no_storm_together(wire):
    peers = [wire.connect(1) for _ in range(3)]
    for _ in range(200):
        for peer in peers:
            peer.call(ask_metadata(TOPIC), metadata((1, 0)))
        wire.after(100_000)
    assert wire.findings() == {}


def test_topics_renewed_one_by_one_are_no_storm(wire):
    (peer,) = wire.connect_to(1)
    for number in range(200):
        name = TOPIC if number % 2 else "another"
        peer.call(ask_metadata(name), metadata((1, 0)))
        wire.after(10_000)
    assert wire.findings() == {}


@pytest.mark.parametrize("produces", [True, False])
def test_a_producer_that_asks_for_all_topics(wire, produces):
    (peer,) = wire.connect_to(1)
    for number in range(6):
        wire.after(10_000_000)
        if produces:
            peer.call(batch(number), DONE)
        peer.call(ask_metadata(), metadata((1, 0)))
    assert set(wire.findings()) == ({"metadata-everything"} if produces else set())


@pytest.mark.parametrize("alone", [True, False])
def test_new_topics_are_to_be_asked_for_alone(wire, alone):
    peer = wire.connect(1)
    peer.call(ask_metadata(TOPIC), metadata((1, 0)))
    for number in range(6):
        wire.after(1_000_000)
        known = () if alone else (TOPIC,)
        peer.call(ask_metadata(*known, f"new-{number}"), metadata((1, 0)))
    assert set(wire.findings()) == (set() if alone else {"metadata-all-for-one"})


def test_metadata_just_before_a_refusal_will_do(wire):
    (first, second) = wire.connect_to(1, 2)
    for number in range(3):
        wire.after(10 * REFRESH_US)
        second.call(ask_metadata(TOPIC), metadata((1, 2 * number)))
        first.call(batch(number), produced((0, NOT_LEADER), hint=(2, 2 * number + 1)))
        wire.after(1000)
        second.call(batch(10 + number), DONE)
    assert wire.findings() == {}
