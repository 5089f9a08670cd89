"""What a connection's requests and answers mean to the tap, and what clients get to see."""

import threading
from dataclasses import replace

import pytest
from one_connection import (
    HOST,
    PORTS,
    TAP_PORTS,
    TOPIC,
    ask_metadata,
    metadata,
    produce,
    produced,
    records,
)

from kipctl.protocol.api import encode_request
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint
from kipctl.tap import recorder as recorder_module
from kipctl.tap.rewrite import read_answer

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
NOT_LEADER = 6


def counts(wire):
    """Of the only client, whatever it says of its software at last."""
    known = (client.counts for client in wire.observer.clients.values() if client.counts.requests)
    (found,) = (counts for counts in known if counts.requests.total())
    return found


def test_a_client_calls_itself_by_id_name_and_version(wire):
    peer = wire.connect(1)
    peer.ask(ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"), 3)
    peer.answer(ApiVersionsResponse())
    peer.ask(ask_metadata(), 12)
    peer.answer(metadata((1, 0)))
    rows = wire.rows("rpcs")
    assert {(r["client"], r["software_name"], r["software_version"]) for r in rows} == {
        ("c", "lib", "1.2")
    }
    assert [(r["api_key"], r["api_version"]) for r in rows] == [(18, 3), (3, 12)]
    assert counts(wire).requests == {18: 1, 3: 1}


def test_endpoints_are_the_taps_and_a_hint_agrees_with_its_endpoint(wire):
    peer = wire.connect(1)
    peer.ask(ask_metadata(), 12)
    seen = read_answer(METADATA, 12, peer.answer(metadata((1, 0))))
    assert {b.node_id: (b.host, b.port) for b in seen.brokers} == {
        node: ("tap", port + TAP_PORTS) for node, port in PORTS.items()
    }
    peer.ask(produce((0, records(1))), 12)
    seen = read_answer(PRODUCE, 12, peer.answer(produced((0, NOT_LEADER), hint=(2, 1))))
    leader = seen.responses[0].partition_responses[0].current_leader
    (at,) = seen.node_endpoints
    assert (leader.leader_id, at.node_id) == (2, 2)
    assert (at.host, at.port) == ("tap", PORTS[2] + TAP_PORTS)


def test_a_broker_that_appears_or_moves_gets_a_listener(wire):
    peer = wire.connect(1)
    for port in (9009, 9010):
        peer.ask(ask_metadata(), 12)
        came = metadata((1, 0))
        new = replace(came.brokers[0], node_id=9, port=port)
        seen = read_answer(METADATA, 12, peer.answer(replace(came, brokers=(*came.brokers, new))))
        assert (seen.brokers[-1].node_id, seen.brokers[-1].port) == (9, port + TAP_PORTS)
        assert wire.observer.addresses.broker_at((HOST, port)) == 9
    assert f"{HOST}:9010" in wire.observer.addresses.ports


def test_an_answer_without_endpoints_passes_as_it_came(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1)), (1, records(2))), 9)
    frame = peer.answer(produced((1, 0), (0, 0)))
    assert read_answer(PRODUCE, 9, frame) == produced((1, 0), (0, 0))


def test_a_request_without_answer_is_not_waited_for(wire):
    peer = wire.connect(1)
    peer.exchange.request(encode_request(produce((0, records(1)), acks=0), 9, 1, "c"), wire.now)
    assert peer.exchange.in_flight == 0
    peer.ask(ask_metadata(), 12)
    peer.answer(metadata((1, 0)))
    assert [(r["api_key"], r["received_us"] is None) for r in wire.rows("rpcs")] == [
        (PRODUCE, True),
        (METADATA, False),
    ]


@pytest.mark.parametrize(("api_key", "version", "counted"), [(999, 0, 1), (3, 99, 1), (11, 9, 0)])
def test_what_is_not_known_passes_and_is_counted(wire, api_key, version, counted):
    """JoinGroup (11) is known, and need not be read."""
    peer = wire.connect(1)
    head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7\0\1c"
    frame = (len(head) + 3).to_bytes(4, "big") + head + b"???"
    peer.exchange.request(frame, wire.now)
    answer = b"\0\0\0\6\0\0\0\7!!"
    assert peer.exchange.answer(answer, wire.now).frame == answer
    assert counts(wire).not_decoded == counted
    assert counts(wire).requests == {api_key: 1}


@pytest.mark.parametrize(
    "garbage",
    [b"\0\0\0\2\0\0", b"\0\0\0\x0a\0\3\0\0\0\0\0\1\x7f\xff"],
)
def test_a_request_that_is_none_is_refused(wire, garbage):
    with pytest.raises(MalformedFrame):
        wire.connect(1).exchange.request(garbage, wire.now)


@pytest.mark.parametrize(
    ("api_key", "version"), [(PRODUCE, 9), (PRODUCE, 12), (FETCH, 12), (FETCH, 17), (METADATA, 12)]
)
def test_a_request_that_cannot_be_read_passes_and_is_counted(wire, api_key, version):
    peer = wire.connect(1)
    head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7\0\1c"
    peer.exchange.request((len(head) + 3).to_bytes(4, "big") + head + b"\0\xff\xff", wire.now)
    assert counts(wire).not_decoded == 1
    assert peer.exchange.in_flight == 1
    garbage = b"\0\0\0\6\0\0\0\7!!"
    if (api_key, version) in ((PRODUCE, 9), (FETCH, 12)):
        assert peer.exchange.answer(garbage, wire.now).frame == garbage
    else:  # it may name brokers
        with pytest.raises(MalformedFrame):
            peer.exchange.answer(garbage, wire.now)


def test_an_answer_to_another_request_is_refused(wire):
    peer = wire.connect(1)
    peer.ask(ask_metadata(), 12)
    with pytest.raises(MalformedFrame, match="request 77, not 1"):
        peer.exchange.answer(b"\0\0\0\4\0\0\0\x4d", wire.now)
    with pytest.raises(MalformedFrame, match="nobody asked"):
        peer.exchange.answer(b"\0\0\0\4\0\0\0\1", wire.now)


def test_tokens_of_old_sasl_are_refused_in_words(wire):
    with pytest.raises(MalformedFrame, match="SaslHandshake 0"):
        wire.connect(1).exchange.request(b"\0\0\0\x0b\0\x11\0\0\0\0\0\1\0\1c", wire.now)


def test_versions_are_capped(make_wire):
    wire = make_wire(caps=((PRODUCE, 9),))
    peer = wire.connect(1)
    peer.ask(ApiVersionsRequest(), 3)
    body = ApiVersionsResponse(api_keys=(ApiVersion(PRODUCE, 0, 13), ApiVersion(FETCH, 4, 18)))
    seen = read_answer(API_VERSIONS, 3, peer.answer(body))
    assert [one.max_version for one in seen.api_keys] == [9, 18]


def test_dropped_hints_are_counted_and_not_seen(make_wire):
    wire = make_wire(drop_hints=True)
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))), 12)
    seen = read_answer(PRODUCE, 12, peer.answer(produced((0, NOT_LEADER), hint=(2, 1))))
    assert seen.node_endpoints == ()
    assert seen.responses[0].partition_responses[0].current_leader == LeaderIdAndEpoch()
    assert (counts(wire).hints, counts(wire).dropped_hints) == (1, 1)
    (row,) = wire.rows("redirects")
    assert (row["decision"], row["hint_leader"]) == ("absent", None)


def test_a_drafts_hint_is_counted_apart(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))), 9)
    body = produced((0, NOT_LEADER))
    (topic,) = body.responses
    (partition,) = topic.partition_responses
    hinted = replace(partition, unknown_tags=((0, b"\0\0\0\2\0\0\0\1\0"),))
    peer.answer(replace(body, responses=(replace(topic, partition_responses=(hinted,)),)))
    assert (counts(wire).hints, counts(wire).draft_hints) == (0, 1)
    (row,) = wire.rows("redirects")
    assert (row["decision"], row["hint_leader"], row["hint_epoch"]) == ("draft", 2, 1)


def test_answers_of_an_api_are_held(make_wire):
    wire = make_wire(delays=((METADATA, 300_000),))
    peer = wire.connect(1)
    frame = encode_request(ask_metadata(), 12, 1, "c")
    peer.exchange.request(frame, wire.now)
    content = b"\0\0\0\1\0" + b"\0\0\0\0\1\0\0\0\0\0\1\0"
    answer = peer.exchange.answer(len(content).to_bytes(4, "big") + content, wire.now)
    assert answer.delay_us == 300_000


def test_requests_stand_behind_others(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))), 12)
    wire.after(100)
    peer.ask(ask_metadata(), 12)
    wire.after(900)
    peer.answer(produced((0, 0)))
    wire.after(50)
    peer.answer(metadata((1, 0)))
    first, second = wire.rows("rpcs")
    assert (first["queued_behind"], first["queued_behind_us"]) == (0, 0)
    assert (second["queued_behind"], second["queued_behind_us"]) == (1, 900)
    assert second["received_us"] - second["sent_us"] == 950


def fetch(offset=5, epoch=0):
    partition = FetchPartition(0, fetch_offset=offset, current_leader_epoch=epoch)
    return FetchRequest(topics=(FetchTopic(TOPIC, partitions=(partition,)),), rack_id="rack-2")


def fetched(error=0, hint=None, batch=b""):
    leader = LeaderIdAndEpoch(*hint) if hint else LeaderIdAndEpoch()
    partition = PartitionData(0, error, high_watermark=9, current_leader=leader, records=batch)
    at = (NodeEndpoint(hint[0], HOST, PORTS[hint[0]]),) if hint else ()
    return FetchResponse(
        responses=(FetchableTopicResponse(TOPIC, partitions=(partition,)),), node_endpoints=at
    )


def test_reads_say_who_read_how_much_from_where(wire):
    peer = wire.connect(2)
    peer.ask(ask_metadata(), 12)
    peer.answer(metadata((1, 0)))
    peer.ask(fetch(), 12)
    batch = records(3)
    peer.answer(fetched(batch=batch[:7] + b"\5" + batch[8:]))  # base offset 5
    (row,) = wire.rows("reads")
    assert (row["broker"], row["broker_rack"], row["client_rack"]) == (2, "rack-2", "rack-2")
    assert (row["records"], row["bytes"], row["next_offset"]) == (3, len(batch), 8)
    assert (row["fetch_offset"], row["is_leader"], row["high_watermark"]) == (5, False, 9)


def test_a_fetch_that_is_turned_away_and_read_elsewhere_is_a_redirect(wire):
    old, new = wire.connect(1), wire.connect(2)
    old.ask(ask_metadata(), 12)
    old.answer(metadata((1, 0)))
    old.ask(fetch(), 12)
    wire.after(500)
    old.answer(fetched(error=NOT_LEADER))
    wire.after(2000)
    new.ask(fetch(epoch=1), 12)
    wire.after(300)
    new.answer(fetched())
    (row,) = wire.rows("redirects")
    assert (row["api"], row["error"], row["decision"]) == ("fetch", NOT_LEADER, "absent")
    assert (row["from_broker"], row["to_broker"]) == (1, 2)
    assert (row["detect_us"], row["backoff_us"], row["acknowledge_us"]) == (500, 2000, 300)
    assert counts(wire).redirects == 1


@pytest.mark.parametrize("error", [NOT_LEADER, 75])
def test_a_fetch_that_the_new_leader_turns_away_too(wire, error):
    """75 is UNKNOWN_LEADER_EPOCH: the new leader does not know yet that it leads."""
    old, new = wire.connect(1), wire.connect(2)
    old.ask(ask_metadata(), 12)
    old.answer(metadata((1, 0)))
    old.ask(fetch(), 16)
    wire.after(500)
    old.answer(fetched(error=NOT_LEADER, hint=(2, 1)))
    new.ask(fetch(epoch=1), 16)
    wire.after(200)
    new.answer(fetched(error=error))
    wire.after(1000)
    new.ask(fetch(epoch=1), 16)
    wire.after(300)
    new.answer(fetched())
    first, second = wire.rows("redirects")
    assert (first["detect_us"], first["decision"]) == (500, "followed")
    assert second["not_ready_us"] == 200
    assert (second["backoff_us"], second["acknowledge_us"]) == (1000, 300)
    assert counts(wire).redirects == 1


def test_a_fetch_session_that_is_gone_is_no_answer_to_a_redirect(wire):
    old, new = wire.connect(1), wire.connect(2)
    old.ask(fetch(), 12)
    old.answer(fetched(error=NOT_LEADER))
    new.ask(fetch(epoch=1), 12)
    new.answer(FetchResponse(error_code=70))
    assert counts(wire).redirects == 0
    assert counts(wire).fetch_errors == {NOT_LEADER: 1, 70: 1}
    new.ask(fetch(epoch=1), 12)
    new.answer(fetched())
    assert counts(wire).redirects == 1
    assert [row["error"] for row in wire.rows("redirects")] == [NOT_LEADER, 70]


def test_two_consumers_of_one_name_do_not_disturb_each_other(wire):
    """Their redirects are told as one client's; nothing is dropped for it."""
    old = [wire.connect(1), wire.connect(1)]
    new = [wire.connect(2), wire.connect(2)]
    for peer in old:
        peer.ask(fetch(), 12)
        peer.answer(fetched(error=NOT_LEADER))
    for peer in new:
        peer.ask(fetch(epoch=1), 12)
    for peer in new:
        assert peer.answer(fetched())
    assert len(wire.rows("reads")) == 4


def test_a_client_newer_than_kipctl_is_asked_to_try_an_older_api_versions(wire):
    """KIP-511: error 35 in version 0, with the versions of ApiVersions that are known."""
    peer = wire.connect(1)
    head = b"\0\x12\0\6\0\0\0\7\0\1c\0"
    peer.exchange.request(len(head).to_bytes(4, "big") + head, wire.now)
    answer = peer.exchange.answer(b"\0\0\0\6\0\0\0\7??", wire.now).frame
    seen = read_answer(API_VERSIONS, 4, answer)
    assert seen.error_code == 35
    assert seen.api_keys == (ApiVersion(API_VERSIONS, 0, 5),)


def test_a_broken_produce_of_which_nothing_is_recorded_ends_in_order(wire):
    """The broker closes the connection: then the tap has a look, and makes nothing of it."""
    wire.observer.directory = None
    peer = wire.connect(1)
    frame = bytearray(encode_request(produce((0, records(1))), 9, 1, "c"))
    frame[30] = 0xFF
    peer.exchange.request(bytes(frame), wire.now)
    peer.exchange.lost(wire.now)
    assert counts(wire).lost == 1


def test_a_client_that_was_gone_for_minutes_begins_anew(wire):
    peer = wire.connect(1)
    peer.ask(ask_metadata(TOPIC), 12)
    peer.answer(metadata((1, 0)))
    peer.exchange.lost(wire.now)
    for us in (0, 200_000_000, 200_000_000):
        wire.after(us)
        wire.observer.tick(wire.now)
    again = wire.connect(1)
    again.ask(ask_metadata(TOPIC), 12)
    assert counts(wire).metadata == {"start": 2}


def test_a_full_disk_ends_the_record_and_nothing_else(make_wire, tmp_path):
    (tmp_path / "rpcs.i64").symlink_to("/dev/full")
    wire = make_wire()
    peer = wire.connect(1)
    said = []
    while len(said) < 4 or not any(said):  # a thread writes
        peer.ask(ask_metadata(), 12)
        assert peer.answer(metadata((1, 0)))
        said.append(wire.observer.tick(wire.now))
    assert set(said) == {"", "No more rows are recorded: No space left on device."}
    for _ in range(3):
        peer.ask(ask_metadata(), 12)
        assert wire.observer.tick(wire.now) == ""


def test_a_lost_connection_leaves_its_requests_without_answer(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))), 12)
    peer.ask(ask_metadata(), 12)
    wire.after(700)
    peer.exchange.lost(wire.now)
    assert counts(wire).lost == 1
    assert [row["received_us"] for row in wire.rows("rpcs")] == [None, None]
    (batch,) = wire.rows("batches")
    assert (batch["error"], batch["attempts"]) == (13, 1)


def test_a_disk_that_is_too_slow_holds_up_nobody_and_ends_the_record(make_wire, monkeypatch):
    monkeypatch.setattr(recorder_module, "MOST_HELD_BYTES", 4000)
    wire = make_wire()
    disk = threading.Event()
    write = wire.observer.recorder.write
    monkeypatch.setattr(wire.observer.recorder, "write", lambda taken: disk.wait() and write(taken))
    peer = wire.connect(1)
    said = []
    try:
        for _ in range(100):
            peer.ask(ask_metadata(), 12)
            assert peer.answer(metadata((1, 0)))
            said.append(wire.observer.tick(wire.now))
    finally:
        disk.set()
    assert list(filter(None, said)) == ["No more rows are recorded: the disk is too slow for them."]
