"""Batches followed through their attempts: which is which, and where the time went."""

from uuid import UUID

import pytest
from one_connection import START_US, TOPIC, ask_metadata, metadata, produce, produced, records
from record_batches import Record, encode_batch

from kipctl.tap.clients import Identity
from kipctl.tap.leaders import PartitionId
from kipctl.tap.retries import split_seen_wait
from kipctl.trace.codes import Decision
from kipctl.trace.redirect_phases import Wait

NOT_LEADER = 6
PHASES = ("queued", "detect", "backoff", "metadata", "connect", "not_ready", "acknowledge")


def shares(row):
    return {name: row[f"{name}_us"] for name in PHASES if row[f"{name}_us"]}


def test_a_batch_that_succeeds_at_once(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(3))), 9)
    wire.after(1500)
    peer.answer(produced((0, 0)))
    (row,) = wire.rows("batches")
    assert (row["topic"], row["partition"], row["records"], row["first_seq"]) == (TOPIC, 0, 3, 0)
    assert row["acked_us"] - row["sent_us"] == 1500
    assert (row["attempts"], row["error"], row["base_offset"]) == (1, 0, 100)
    assert wire.rows("redirects") == []


def redirected(wire, hint, between=lambda: None, back_us=2000):
    """A batch refused by broker 1 after 500 us, sent to 2, acknowledged after 300."""
    old, new = wire.connect(1), wire.connect(2)
    old.ask(ask_metadata(), 12)
    old.answer(metadata((1, 0)))
    batch = records(2)
    old.ask(produce((0, batch)), 12)
    wire.after(500)
    old.answer(produced((0, NOT_LEADER), hint=hint))
    between()
    wire.after(back_us)
    new.ask(produce((0, batch)), 12)
    wire.after(300)
    new.answer(produced((0, 0)))


def test_a_followed_hint(wire):
    redirected(wire, (2, 1))
    (row,) = wire.rows("redirects")
    assert (row["decision"], row["hint_leader"], row["hint_epoch"]) == ("followed", 2, 1)
    assert (row["from_broker"], row["from_epoch"]) == (1, 0)
    assert (row["to_broker"], row["to_epoch"]) == (2, 1)
    assert shares(row) == {"detect": 500, "backoff": 2000, "acknowledge": 300}
    (batch,) = wire.rows("batches")
    assert (batch["attempts"], batch["error"], batch["broker"]) == (2, 0, 2)
    assert batch["acked_us"] - batch["sent_us"] == 2800
    (client,) = wire.observer.clients.values()
    assert client.counts.decisions == {Decision.FOLLOWED: 1}
    assert (client.counts.moves, client.waits_us) == (1, (2000, 2000, 2000))
    assert +wire.observer.leaders.leading == {2: 1}


def test_of_batches_that_met_the_same_moved_leader_the_longest_wait_counts(wire):
    client = wire.observer.client(Identity("c", "", ""))
    for wait_us in (10, 30, 20):
        client.met(PartitionId(TOPIC, 0), 0, 1, wait_us)
    client.met(PartitionId(TOPIC, 0), 0, 2, 5)
    assert (client.counts.moves, client.waits_us) == (2, (5, 30, 30))


def test_a_batch_refused_across_two_moves_waited_for_each_by_itself(wire):
    """As `kipctl.measure.moves` counts what was recorded."""
    peers = [wire.connect(broker) for broker in (1, 2, 3)]
    peers[0].ask(ask_metadata(), 12)
    peers[0].answer(metadata((1, 0)))
    batch = records(2)
    for peer, hint, back_us in ((peers[0], (2, 1), 2000), (peers[1], (3, 2), 5000)):
        peer.ask(produce((0, batch)), 12)
        wire.after(500)
        peer.answer(produced((0, NOT_LEADER), hint=hint))
        wire.after(back_us)
    peers[2].ask(produce((0, batch)), 12)
    peers[2].answer(produced((0, 0)))
    assert [row["to_epoch"] for row in wire.rows("redirects")] == [1, 2]
    (client,) = wire.observer.clients.values()
    assert (client.counts.moves, client.waits_us) == (2, (2000, 5000, 5000))


def test_a_leader_that_was_not_ready_is_waited_for_in_its_own_epoch(wire):
    old, new = wire.connect(1), wire.connect(2)
    old.ask(ask_metadata(), 12)
    old.answer(metadata((1, 0)))
    batch = records(1)
    for peer, hint in ((old, (2, 1)), (new, None)):
        peer.ask(produce((0, batch)), 12)
        wire.after(500)
        peer.answer(produced((0, NOT_LEADER), hint=hint))
        wire.after(1000)
    new.ask(produce((0, batch)), 12)
    new.answer(produced((0, 0)))
    (client,) = wire.observer.clients.values()
    assert (client.counts.moves, client.waits_us) == (1, (2000, 2000, 2000))


def test_without_a_hint_metadata_has_its_share(wire):
    asking = wire.connect(3)

    def ask():
        wire.after(100)
        asking.ask(ask_metadata(), 12)
        wire.after(400)
        asking.answer(metadata((2, 1)))

    redirected(wire, None, ask)
    (row,) = wire.rows("redirects")
    assert row["decision"] == "absent"
    assert shares(row) == {"detect": 500, "backoff": 2100, "metadata": 400, "acknowledge": 300}
    (_, rpc) = (r for r in wire.rows("rpcs") if r["api_key"] == 3)
    assert (rpc["cause"], rpc["critical"]) == ("leader_change", True)


def test_a_hint_that_metadata_overtook_was_not_followed_as_far_as_is_seen(wire):
    asking = wire.connect(3)

    def ask():
        asking.ask(ask_metadata(), 12)
        wire.after(10)
        asking.answer(metadata((2, 1)))

    redirected(wire, (2, 1), ask)
    assert [row["decision"] for row in wire.rows("redirects")] == ["ignored"]


def test_metadata_that_still_shows_the_old_leader_is_waited_for_longer(wire):
    asking = wire.connect(3)

    def ask():
        asking.ask(ask_metadata(), 12)
        wire.after(100)
        asking.answer(metadata((1, 0)))
        wire.after(1000)
        asking.ask(ask_metadata(), 12)
        wire.after(100)
        asking.answer(metadata((2, 1)))

    redirected(wire, None, ask, back_us=50)
    (row,) = wire.rows("redirects")
    assert shares(row) == {"detect": 500, "metadata": 1200, "backoff": 50, "acknowledge": 300}


def test_a_leader_that_does_not_know_yet(wire):
    old, new = wire.connect(1), wire.connect(2)
    old.ask(ask_metadata(), 12)
    old.answer(metadata((1, 0)))
    batch = records(1)
    old.ask(produce((0, batch)), 12)
    wire.after(500)
    old.answer(produced((0, NOT_LEADER), hint=(2, 1)))
    new.ask(produce((0, batch)), 12)
    wire.after(200)
    new.answer(produced((0, NOT_LEADER)))
    wire.after(1000)
    new.ask(produce((0, batch)), 12)
    wire.after(300)
    new.answer(produced((0, 0)))
    first, second = wire.rows("redirects")
    assert shares(first) == {"detect": 500}
    assert shares(second) == {"not_ready": 200, "backoff": 1000, "acknowledge": 300}
    assert [first["attempt"], second["attempt"]] == [1, 2]


def test_a_broker_that_leads_again_when_it_answers_was_asked_in_the_epoch_of_before(wire):
    """It refuses in epoch 0, and by then another connection has shown its next time: epoch 2."""
    old, new, asking = wire.connect(1), wire.connect(2), wire.connect(3)
    old.ask(ask_metadata(), 12)
    old.answer(metadata((1, 0)))
    batch = records(1)
    old.ask(produce((0, batch)), 12)
    wire.after(500)
    for leader, epoch in ((2, 1), (1, 2)):
        asking.ask(ask_metadata(), 12)
        asking.answer(metadata((leader, epoch)))
    old.answer(produced((0, NOT_LEADER), hint=(2, 1)))
    new.ask(produce((0, batch)), 12)
    wire.after(200)
    new.answer(produced((0, 0)))
    (row,) = wire.rows("redirects")
    assert (row["from_broker"], row["from_epoch"]) == (1, 0)
    assert row["not_ready_us"] == 0


def test_batches_of_one_answer_that_learn_the_same(wire):
    peer, new = wire.connect(1), wire.connect(2)
    first, second = records(1, b"a"), records(1, b"b")
    peer.ask(produce((0, first)), 12)
    peer.ask(produce((0, second)), 12)
    peer.answer(produced((0, NOT_LEADER), hint=(2, 1)))
    peer.answer(produced((0, NOT_LEADER), hint=(2, 1)))
    for batch in (first, second):
        new.ask(produce((0, batch)), 12)
        new.answer(produced((0, 0)))
    assert [row["decision"] for row in wire.rows("redirects")] == ["followed", "known"]


def stamped(batch: bytes, sequence: int, crc: int) -> bytes:
    """The batch as an idempotent producer (id 7) would send it."""
    whole = bytearray(batch)
    whole[17:21] = crc.to_bytes(4, "big")
    whole[43:51] = (7).to_bytes(8, "big")
    whole[53:57] = sequence.to_bytes(4, "big")
    return bytes(whole)


def test_with_idempotence_the_sequence_tells_batches_apart(wire):
    peer = wire.connect(1)
    batch = records(1)
    peer.ask(produce((0, stamped(batch, 0, 11))), 12)
    peer.ask(produce((0, stamped(batch, 1, 12))), 12)
    peer.answer(produced((0, NOT_LEADER)))
    peer.answer(produced((0, NOT_LEADER)))
    peer.ask(produce((0, stamped(batch, 1, 99))), 12)  # rewritten: another CRC
    peer.answer(produced((0, 0)))
    peer.ask(produce((0, stamped(batch, 0, 98))), 12)
    peer.answer(produced((0, 0)))
    rows = wire.rows("batches")
    assert [(row["first_seq"], row["attempts"]) for row in rows] == [(1, 2), (0, 2)]


def in_epoch(batch: bytes, epoch: int) -> bytes:
    return batch[:51] + epoch.to_bytes(2, "big") + batch[53:]


def test_another_batch_of_the_same_producer_is_not_taken_for_one_that_waits(wire):
    peer = wire.connect(1)
    batch = records(1)
    peer.ask(produce((0, stamped(batch, 1, 11))), 12)
    peer.answer(produced((0, NOT_LEADER)))
    peer.ask(produce((0, stamped(batch, 2, 12))), 12)  # created in the same millisecond
    peer.answer(produced((0, 0)))
    peer.ask(produce((0, in_epoch(stamped(batch, 0, 13), 1))), 12)  # sequences begin anew
    peer.answer(produced((0, 0)))
    rows = wire.rows("batches")
    assert [(row["first_seq"], row["attempts"], row["error"]) for row in rows] == [
        (1, 1, 0),
        (0, 2, 0),
    ]


def test_a_batch_that_waited_for_longer_than_any_client_lets_it_is_over(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))), 12)
    peer.answer(produced((0, NOT_LEADER), hint=(2, 1)))
    wire.after(121_000_000)
    wire.observer.tick(wire.now)
    assert not any(client.waiting for client in wire.observer.clients.values())
    peer.ask(produce((0, records(1))), 12)
    peer.answer(produced((0, 0)))
    assert [(row["error"], row["attempts"]) for row in wire.rows("batches")] == [
        (NOT_LEADER, 1),
        (0, 1),
    ]
    (row,) = wire.rows("redirects")
    assert (row["decision"], row["to_broker"]) == ("ignored", None)


def test_metadata_that_is_held_counts_from_when_the_client_gets_it(make_wire):
    wire = make_wire(delays=((3, 300_000),))
    asking = wire.connect(3)

    def ask():
        asking.ask(ask_metadata(), 12)
        asking.answer(metadata((2, 1)))

    redirected(wire, (2, 1), ask)  # sent again 2 ms later: by the hint
    (row,) = wire.rows("redirects")
    assert row["decision"] == "followed"


def test_records_put_together_anew_are_the_batches_that_waited(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(2, b"a"))), 12)
    peer.ask(produce((0, records(3, b"b"))), 12)
    peer.answer(produced((0, NOT_LEADER)))
    peer.answer(produced((0, NOT_LEADER)))
    peer.ask(produce((0, records(5, b"c"))), 12)
    peer.answer(produced((0, 0)))
    (row,) = wire.rows("batches")
    assert (row["records"], row["attempts"], row["error"]) == (5, 2, 0)
    assert not any(client.waiting for client in wire.observer.clients.values())


def test_a_part_that_is_sent_by_itself_leaves_the_rest_waiting(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(5, b"a"))), 12)
    peer.answer(produced((0, NOT_LEADER)))
    for count in (2, 3):
        peer.ask(produce((0, records(count, b"b"))), 12)
        peer.answer(produced((0, 0)))
    rows = wire.rows("batches")
    assert [(row["records"], row["first_seq"], row["error"]) for row in rows] == [
        (2, 0, 0),
        (3, 2, 0),
    ]


def test_what_is_never_sent_again_failed(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))), 12)
    wire.after(400)
    peer.answer(produced((0, NOT_LEADER)))
    wire.after(5000)
    (row,) = wire.rows("batches")
    assert (row["error"], row["acked_us"] - row["sent_us"]) == (NOT_LEADER, 400)


def test_an_error_that_no_retry_helps_ends_the_batch(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))), 12)
    peer.answer(produced((0, 10)))
    assert not any(client.waiting for client in wire.observer.clients.values())
    assert [row["error"] for row in wire.rows("batches")] == [10]


@pytest.mark.parametrize(
    ("created_ms", "waited_us"),
    [(-10, 10_000), (0, 0), (1000, 0), (-500_000, 0)],
    ids=["before", "now", "by a clock ahead", "a time of somebody's own"],
)
def test_latency_counts_from_the_records_creation(wire, created_ms, waited_us):
    peer = wire.connect(1)
    stamp = START_US // 1000 + created_ms
    peer.ask(produce((0, encode_batch([Record(value=b"v", timestamp_ms=stamp)]))), 12)
    peer.answer(produced((0, 0)))
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


def test_epochs_of_a_topic_made_anew_are_others(wire):
    """Both topics of the name had their leader moved in epoch 1: the record tells them apart."""
    first, second = UUID(int=1), UUID(int=2)
    old, new = wire.connect(1), wire.connect(2)
    for topic_id in (first, second):
        old.ask(ask_metadata(), 12)
        old.answer(metadata((1, 0), topic_id=topic_id))
        batch = records(2)
        old.ask(produce((0, batch)), 12)
        old.answer(produced((0, NOT_LEADER), hint=None))
        old.ask(ask_metadata(), 12)
        old.answer(metadata((2, 1), topic_id=topic_id))
        new.ask(produce((0, batch)), 12)
        new.answer(produced((0, 0)))
    seen = [
        (row["topic_generation"], row["from_epoch"], row["to_epoch"])
        for row in wire.rows("redirects")
    ]
    assert seen == [(0, 0, 1), (1, 0, 1)]
    (client,) = wire.observer.clients.values()
    assert client.counts.moves == 2


def test_where_a_batch_goes_of_a_topic_made_anew_is_no_newer_epoch(wire):
    def made_anew():
        old = wire.connect(1)
        old.ask(ask_metadata(), 12)
        old.answer(metadata((2, 3), topic_id=UUID(int=2)))

    before = wire.connect(1)
    before.ask(ask_metadata(), 12)
    before.answer(metadata((1, 0), topic_id=UUID(int=1)))
    batch = records(2)
    before.ask(produce((0, batch)), 12)
    before.answer(produced((0, NOT_LEADER)))
    made_anew()
    new = wire.connect(2)
    new.ask(produce((0, batch)), 12)
    new.answer(produced((0, 0)))
    (row,) = wire.rows("redirects")
    assert (row["topic_generation"], row["to_broker"], row["to_epoch"]) == (0, 2, None)
