"""Batches followed through their attempts: which is which, and where the time went."""

from dataclasses import replace
from uuid import UUID

import pytest
from one_connection import START_US
from record_batches import Record, encode_batch
from tap_messages import (
    DONE,
    HINTED,
    METADATA,
    NOT_LEADER,
    REFUSED,
    TOPIC,
    ask_metadata,
    metadata,
    produce,
    produced,
    records,
)

from kipctl.client_behaviour.behaviour import Waits
from kipctl.tap.batches import Batch
from kipctl.tap.produce_requests import Refusal
from kipctl.tap.retries import Flight, split_seen_wait
from kipctl.trace.codes import Decision
from kipctl.trace.redirect_phases import FailedAttempt, Wait

PHASES = ("queued", "detect", "backoff", "metadata", "connect", "not_ready", "acknowledge")


def shares(row):
    return {name: row[f"{name}_us"] for name in PHASES if row[f"{name}_us"]}


def sent(batch: bytes):
    return produce((0, batch))


def met(wire) -> tuple[int, Waits]:
    """Moved leaders that the client met and found, and how long it waited for them."""
    waits = wire.client.seen(False).waits
    return waits.met, replace(waits, met=0)


def waiting(wire) -> int:
    """Batches that met an error, and have not been sent again."""
    return sum(client.waiting for client in wire.observer.clients.values())


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_batch_that_succeeds_at_once(wire, version):
    wire.connect(1).call(sent(records(3)), DONE, took_us=1500, version=version)
    (row,) = wire.rows("batches")
    assert (row["topic"], row["partition"], row["records"], row["first_seq"]) == (TOPIC, 0, 3, 0)
    assert row["acked_us"] - row["sent_us"] == 1500
    assert (row["attempts"], row["error"], row["base_offset"]) == (1, 0, 100)
    assert wire.rows("redirects") == []


def redirected(wire, refused, between=lambda: None, back_us=2000):
    """A batch refused by broker 1 after 500 us, sent to 2, acknowledged after 300."""
    old, new = wire.connect_to(1, 2)
    batch = records(2)
    old.call(sent(batch), refused, took_us=500)
    between()
    wire.after(back_us)
    new.call(sent(batch), DONE, took_us=300)


def test_a_followed_hint(wire):
    redirected(wire, HINTED)
    (row,) = wire.rows("redirects")
    assert (row["decision"], row["hint_leader"], row["hint_epoch"]) == ("followed", 2, 1)
    assert (row["from_broker"], row["from_epoch"]) == (1, 0)
    assert (row["to_broker"], row["to_epoch"]) == (2, 1)
    assert shares(row) == {"detect": 500, "backoff": 2000, "acknowledge": 300}
    (batch,) = wire.rows("batches")
    assert (batch["attempts"], batch["error"], batch["broker"]) == (2, 0, 2)
    assert batch["acked_us"] - batch["sent_us"] == 2800
    assert wire.counts.decisions == {Decision.FOLLOWED: 1}
    assert met(wire) == (1, Waits(1, 2000, 2000, 2000))
    assert +wire.observer.leaders.leading == {2: 1}


def test_a_batch_refused_across_two_moves_waited_for_each_by_itself(wire):
    first, second, third = wire.connect_to(1, 2, 3)
    batch = records(2)
    for peer, hint, back_us in ((first, (2, 1), 2000), (second, (3, 2), 5000)):
        peer.call(sent(batch), produced((0, NOT_LEADER), hint=hint), took_us=500)
        wire.after(back_us)
    third.call(sent(batch), DONE)
    assert wire.rows("redirects", "to_epoch") == [(1,), (2,)]
    assert met(wire) == (2, Waits(2, 2000, 5000, 5000))


def test_a_leader_that_is_not_ready_is_another_wait_than_the_clients(wire):
    old, new = wire.connect_to(1, 2)
    batch = records(1)
    for peer, answer in ((old, HINTED), (new, REFUSED)):
        peer.call(sent(batch), answer, took_us=500)
        wire.after(1000)
    new.call(sent(batch), DONE)
    assert met(wire) == (1, Waits(1, 1000, 1000, 1000))


def test_without_a_hint_metadata_has_its_share(wire):
    asking = wire.connect(3)

    def ask():
        wire.after(100)
        asking.call(ask_metadata(), metadata((2, 1)), took_us=400)

    redirected(wire, REFUSED, ask)
    (row,) = wire.rows("redirects")
    assert row["decision"] == "absent"
    assert shares(row) == {"detect": 500, "backoff": 2100, "metadata": 400, "acknowledge": 300}
    _, rpc = (rpc for rpc in wire.rows("rpcs") if rpc["api_key"] == METADATA)
    assert (rpc["cause"], rpc["critical"]) == ("leader_change", True)


@pytest.mark.parametrize(
    ("held_us", "decision"), [(0, "ignored"), (300_000, "followed")], ids=["at once", "held"]
)
def test_a_hint_that_metadata_overtook_was_not_followed_as_far_as_is_seen(
    make_wire, held_us, decision
):
    """Metadata that the tap holds counts from when the client gets it: it was sent on before."""
    wire = make_wire(delays=((METADATA, held_us),))
    asking = wire.connect(3)
    redirected(wire, HINTED, lambda: asking.call(ask_metadata(), metadata((2, 1)), took_us=10))
    assert wire.rows("redirects", "decision") == [(decision,)]


def test_metadata_that_still_shows_the_old_leader_is_waited_for_longer(wire):
    asking = wire.connect(3)

    def ask():
        asking.call(ask_metadata(), metadata((1, 0)), took_us=100)
        wire.after(1000)
        asking.call(ask_metadata(), metadata((2, 1)), took_us=100)

    redirected(wire, REFUSED, ask, back_us=50)
    (row,) = wire.rows("redirects")
    assert shares(row) == {"detect": 500, "metadata": 1200, "backoff": 50, "acknowledge": 300}


def test_a_leader_that_does_not_know_yet(wire):
    old, new = wire.connect_to(1, 2)
    batch = records(1)
    old.call(sent(batch), HINTED, took_us=500)
    new.call(sent(batch), REFUSED, took_us=200)
    wire.after(1000)
    new.call(sent(batch), DONE, took_us=300)
    first, second = wire.rows("redirects")
    assert shares(first) == {"detect": 500}
    assert shares(second) == {"not_ready": 200, "backoff": 1000, "acknowledge": 300}
    assert [first["attempt"], second["attempt"]] == [1, 2]


def test_a_broker_that_leads_again_when_it_answers_was_asked_in_the_epoch_of_before(wire):
    """It refuses in epoch 0, and by then another connection has shown its next time: epoch 2."""
    old, new, asking = wire.connect_to(1, 2, 3)
    batch = records(1)
    old.ask(sent(batch))
    wire.after(500)
    for leader in ((2, 1), (1, 2)):
        asking.call(ask_metadata(), metadata(leader))
    old.answer(HINTED)
    new.call(sent(batch), DONE, took_us=200)
    rows = wire.rows("redirects", "from_broker", "from_epoch", "not_ready_us")
    assert rows == [(1, 0, 0)]


def refused_at_once(wire, *batches: bytes, answer=REFUSED):
    """A connection on which all of these were asked before the first is refused."""
    peer = wire.connect(1)
    for batch in batches:
        peer.ask(sent(batch))
    for _ in batches:
        peer.answer(answer)
    return peer


def test_batches_of_one_answer_that_learn_the_same(wire):
    batches = records(1, b"a"), records(1, b"b")
    refused_at_once(wire, *batches, answer=HINTED)
    new = wire.connect(2)
    for batch in batches:
        new.call(sent(batch), DONE)
    assert wire.rows("redirects", "decision") == [("followed",), ("known",)]


def in_sequence(sequence: int, value: bytes = b"v", epoch: int = 0, producer: int = 7) -> bytes:
    """A batch of one record of an idempotent producer's."""
    return records(1, value, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def test_with_idempotence_the_sequence_tells_batches_apart(wire):
    peer = refused_at_once(wire, in_sequence(0), in_sequence(1))
    for sequence in (1, 0):
        peer.call(sent(in_sequence(sequence, b"rewritten")), DONE)
    assert wire.rows("batches", "first_seq", "attempts") == [(1, 2), (0, 2)]


def test_another_batch_of_the_same_producer_is_not_taken_for_one_that_waits(wire):
    peer = refused_at_once(wire, in_sequence(1))
    peer.call(sent(in_sequence(2)), DONE)  # created in the same millisecond
    peer.call(sent(in_sequence(0, b"w", epoch=1)), DONE)  # sequences begin anew
    rows = wire.rows("batches", "first_seq", "attempts", "error")
    assert rows == [(1, 1, 0), (0, 2, 0)]


def test_a_batch_that_waited_for_longer_than_any_client_lets_it_is_over(wire):
    peer = refused_at_once(wire, in_sequence(0), answer=HINTED)
    wire.after(60_000_000)
    peer.call(sent(in_sequence(1)), REFUSED)
    wire.after(61_000_000)
    wire.observer.tick(wire.now)
    assert waiting(wire) == 1
    for sequence in (0, 1):
        peer.call(sent(in_sequence(sequence)), DONE)
    assert waiting(wire) == 0
    rows = wire.rows("batches", "first_seq", "error", "attempts")
    assert rows == [(0, NOT_LEADER, 1), (2, 0, 1), (1, 0, 2)]
    assert wire.rows("redirects", "decision", "to_broker")[0] == ("ignored", None)


def test_records_put_together_anew_are_the_batches_that_waited(wire):
    peer = refused_at_once(wire, records(2, b"a"), records(3, b"b"))
    peer.call(sent(records(5, b"c")), DONE)
    assert wire.rows("batches", "records", "attempts", "error") == [(5, 2, 0)]
    assert waiting(wire) == 0


def test_a_part_that_is_sent_by_itself_leaves_the_rest_waiting(wire):
    peer = refused_at_once(wire, records(5, b"a"))
    for count in (2, 3):
        peer.call(sent(records(count, b"b")), DONE)
    assert wire.rows("batches", "records", "first_seq", "error") == [(2, 0, 0), (3, 2, 0)]


def test_what_is_never_sent_again_failed(wire):
    wire.connect(1).call(sent(records(1)), REFUSED, took_us=400)
    wire.after(5000)
    (row,) = wire.rows("batches")
    assert (row["error"], row["acked_us"] - row["sent_us"]) == (NOT_LEADER, 400)


def test_an_error_that_no_retry_helps_ends_the_batch(wire):
    wire.connect(1).call(sent(records(1)), produced((0, 10)))
    assert waiting(wire) == 0
    assert wire.rows("batches", "error") == [(10,)]


@pytest.mark.parametrize(
    ("created_ms", "waited_us"),
    [(-10, 10_000), (0, 0), (1000, 0), (-500_000, 0)],
    ids=["before", "now", "by a clock ahead", "a time of somebody's own"],
)
def test_latency_counts_from_the_records_creation(wire, created_ms, waited_us):
    stamp = START_US // 1000 + created_ms
    wire.connect(1).call(sent(encode_batch([Record(value=b"v", timestamp_ms=stamp)])), DONE)
    (row,) = wire.rows("batches")
    assert row["sent_us"] - row["intended_us"] == waited_us


@pytest.mark.parametrize(
    ("asked", "named", "connected", "wait"),
    [
        (0, 0, 0, Wait(backoff=1000)),
        (1100, 1400, 0, Wait(backoff=700, metadata=300)),
        (900, 1400, 0, Wait(backoff=600, metadata=400)),
        (1100, 1400, 1900, Wait(backoff=200, metadata=300, connect=500)),
        (0, 0, 1300, Wait(backoff=700, connect=300)),
        (0, 0, 900, Wait(backoff=1000)),
    ],
)
def test_the_wait_before_the_next_attempt_as_the_wire_shows_it(asked, named, connected, wait):
    assert split_seen_wait(1000, 2000, asked, named, connected) == wait


@pytest.mark.parametrize(
    ("ahead", "wait"),
    [
        ([], Wait(backoff=700, metadata=300)),
        ([(500, 1000)], Wait(backoff=700, metadata=300)),
        ([(1500, 1900)], Wait(queued=400, backoff=300, metadata=300)),
        ([(1600, 1900), (1500, 1700)], Wait(queued=400, backoff=300, metadata=300)),
        ([(1050, 1200)], Wait(queued=150, backoff=650, metadata=200)),
        ([(900, 2500)], Wait(queued=1000)),
    ],
)
def test_what_goes_ahead_of_it_holds_the_next_attempt_up(ahead, wait):
    flights = [Flight(sent_us, answered_us, 7, 0) for sent_us, answered_us in ahead]
    assert split_seen_wait(1000, 2000, 1100, 1400, 0, flights) == wait


def test_a_batch_behind_another_s_retry_is_queued_while_a_broker_has_that(wire):
    old, new = wire.connect_to(1, 2)
    first, second = (sent(in_sequence(number)) for number in (0, 1))
    for batch in (first, second):
        old.ask(batch)
    wire.after(500)
    for _ in (first, second):
        old.answer(HINTED)
    wire.after(2000)
    new.call(first, DONE, took_us=400_000)
    new.call(second, DONE, took_us=300)
    assert [shares(row) for row in wire.rows("redirects")] == [
        {"detect": 500, "backoff": 2000, "acknowledge": 400_000},
        {"queued": 400_000, "detect": 500, "backoff": 2000, "acknowledge": 300},
    ]
    assert met(wire)[1].max_us == 2000


@pytest.mark.parametrize(
    ("producer", "other"), [(7, 8), (-1, -1)], ids=["another", "not idempotent"]
)
def test_batches_are_held_up_by_those_of_the_same_idempotent_producer_only(wire, producer, other):
    """Another process of the client id, or a producer that need not keep the order, backs off."""
    old, new = wire.connect_to(1, 2)
    first = sent(in_sequence(0, b"a", producer=producer))
    second = sent(in_sequence(1, b"b", producer=other))
    for batch in (first, second):
        old.ask(batch)
    for _ in (first, second):
        old.answer(HINTED)
    new.call(first, DONE, took_us=90_000)
    wire.after(10_000)
    new.call(second, DONE)
    assert wire.rows("redirects", "first_seq", "backoff_us", "queued_us") == [
        (0, 0, 0),
        (1, 100_000, 0),
    ]


@pytest.mark.parametrize("queued_us", [0, 390_000])
def test_who_is_queued_for_long_has_not_paused(queued_us):
    """Of 400 ms all were its own pause, or 10 ms."""
    failed = FailedAttempt(1, 0, 1000, NOT_LEADER, True, 1, 0, -1, Decision.FOLLOWED)
    failed.wait = Wait(queued=queued_us, backoff=400_000 - queued_us)
    batch = Batch(None, None, 0, None, 0, 0, 401_000, broker=2, epoch=1, failures=[failed])
    assert batch.has_paused is not bool(queued_us)


def test_of_a_hot_loop_before_a_batch_that_waits_little_is_kept(wire):
    old = wire.connect(1)
    first, second = (sent(in_sequence(number)) for number in (0, 1))
    for batch in (first, second):
        old.ask(batch)
    for _ in (first, second):
        old.answer(REFUSED)
    for _ in range(1100):
        old.call(first, REFUSED, took_us=10)
    (of_client,) = wire.observer.batches._waiting.values()
    (held,) = of_client.values()
    (behind,) = (batch for batch in held.batches if batch.first_seq)
    assert len(held.answered) == len(held.ahead_of(behind)) == 1000
    old.call(second, REFUSED)
    old.call(first, REFUSED, took_us=10)
    assert len(held.ahead_of(behind)) == 1  # each attempt looks at what came since the last


def test_epochs_of_a_topic_made_anew_are_others(wire):
    """Both topics of the name had their leader moved in epoch 1: the record tells them apart."""
    old, new = wire.connect(1), wire.connect(2)
    for topic_id in (UUID(int=1), UUID(int=2)):
        old.call(ask_metadata(), metadata((1, 0), topic_id=topic_id))
        old.call(sent(records(2)), REFUSED)
        old.call(ask_metadata(), metadata((2, 1), topic_id=topic_id))
        new.call(sent(records(2)), DONE)
    seen = wire.rows("redirects", "topic_generation", "from_epoch", "to_epoch")
    assert seen == [(0, 0, 1), (1, 0, 1)]
    assert met(wire)[0] == 2


def test_where_a_batch_goes_of_a_topic_made_anew_is_no_newer_epoch(wire):
    before = wire.connect(1)
    before.call(ask_metadata(), metadata((1, 0), topic_id=UUID(int=1)))
    before.call(sent(records(2)), REFUSED)
    wire.connect(1).call(ask_metadata(), metadata((2, 3), topic_id=UUID(int=2)))
    wire.connect(2).call(sent(records(2)), DONE)
    assert wire.rows("redirects", "topic_generation", "to_broker", "to_epoch") == [(0, 2, None)]


@pytest.mark.parametrize(
    ("leader", "epoch", "is_draft", "has_hint"),
    [(0, 0, False, True), (-1, 5, False, False), (2, -1, False, False), (2, 5, True, False)],
)
def test_a_hint_names_a_leader_and_its_epoch(leader, epoch, is_draft, has_hint):
    refusal = Refusal(NOT_LEADER, -1, leader, epoch, "127.0.0.1:9001", is_draft)
    assert refusal.has_hint is has_hint
