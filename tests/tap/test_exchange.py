"""What a connection's requests and answers mean to the tap, and what clients get to see."""

import threading
from dataclasses import replace
from uuid import UUID

import pytest
from one_connection import TAP_PORTS, Wire
from tap_messages import (
    API_VERSIONS,
    FETCH,
    HINTED,
    HOST,
    METADATA,
    NOT_LEADER,
    PORTS,
    PRODUCE,
    REFUSED,
    TOPIC,
    ask_metadata,
    framed,
    metadata,
    produce,
    produced,
    records,
    request_frame,
)

from kipctl.protocol.api import encode_request
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.leader_hints import LeaderHint, drafted_in_fetch, drafted_in_produce
from kipctl.protocol.message import decode, encode
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse
from kipctl.protocol.records import BATCH_HEADER_SIZE
from kipctl.tap import recorder as recorder_module
from kipctl.tap.rewrite import read_answer

GARBAGE = b"\0\0\0\6\0\0\0\7!!"
"""An answer to request 7."""


def test_a_client_calls_itself_by_id_name_and_version(wire):
    peer = wire.connect(1)
    versions = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2")
    peer.call(versions, ApiVersionsResponse(), version=3)
    peer.call(ask_metadata(), metadata((1, 0)))
    assert wire.rows("rpcs", "client", "software_name", "software_version") == [
        ("c", "lib", "1.2"),
        ("c", "lib", "1.2"),
    ]
    assert wire.rows("rpcs", "api_key", "api_version") == [(API_VERSIONS, 3), (METADATA, 12)]
    assert wire.counts.requests == {API_VERSIONS: 1, METADATA: 1}


def test_beyond_ten_thousand_clients_the_rest_is_counted_as_one(wire):
    """A client that calls itself otherwise with each request must not fill the tap's memory."""
    peer, most = wire.connect(1), 10_000
    for number in (*range(most + 500), 0):
        frame = encode_request(MetadataRequest(), 12, number, f"client-{number}")
        peer.exchange.request(frame, wire.now)
    clients = wire.observer.clients.values()
    counted = {client.identity.client_id: client.counts.requests[METADATA] for client in clients}
    assert len(counted) == len(wire.observer.recorder.names["client"]) == most + 1
    assert counted["(other clients)"] == 500
    assert counted["client-0"] == 2  # whoever was known before stays so
    assert sum(counted.values()) == most + 501


def test_endpoints_are_the_taps_and_a_hint_agrees_with_its_endpoint(wire):
    peer = wire.connect(1)
    seen = peer.call(ask_metadata(), metadata((1, 0)))
    assert {b.node_id: (b.host, b.port) for b in seen.brokers} == {
        node: ("tap", port + TAP_PORTS) for node, port in PORTS.items()
    }
    seen = peer.call(produce((0, records(1))), HINTED)
    leader = seen.responses[0].partition_responses[0].current_leader
    (at,) = seen.node_endpoints
    assert (leader.leader_id, at.node_id) == (2, 2)
    assert (at.host, at.port) == ("tap", PORTS[2] + TAP_PORTS)


def test_endpoints_of_other_answers_are_the_taps_too(wire):
    brokers = tuple(DescribeClusterBroker(node, HOST, port) for node, port in PORTS.items())
    answer = DescribeClusterResponse(brokers=brokers)
    seen = wire.connect(1).call(DescribeClusterRequest(), answer, version=1)
    assert [(at.host, at.port) for at in seen.brokers] == [
        ("tap", port + TAP_PORTS) for port in PORTS.values()
    ]


@pytest.mark.parametrize(("version", "topics"), [(0, 1), (1, 0)])
def test_metadata_of_no_topic_is_that_of_all_in_version_0_alone(wire, version, topics):
    wire.connect(1).call(MetadataRequest(topics=()), metadata((1, 0)), version=version)
    assert wire.rows("rpcs", "topics") == [(topics,)]


AT_TAP = LeaderHint(2, 1, NodeEndpoint(2, "tap", PORTS[2] + TAP_PORTS), is_draft=True)
"""A client that reads a draft's hints stays with the tap, too."""


def test_endpoints_of_a_drafts_hints_in_answers_to_produce_9(wire):
    drafted = decode(ProduceResponse, encode(HINTED, 10), 9)
    seen = wire.connect(1).call(produce((0, records(1))), drafted, version=9)
    (partition,) = seen.responses[0].partition_responses
    assert drafted_in_produce(9, partition.unknown_tags, seen.unknown_tags) == AT_TAP


@pytest.mark.parametrize("version", [13, 14, 15])
def test_endpoints_of_a_drafts_hints_in_answers_to_fetch_13_to_15(wire, version):
    topic_id = UUID(int=9)
    topic = FetchTopic(topic_id=topic_id, partitions=(FetchPartition(),))
    refused = PartitionData(error_code=NOT_LEADER, current_leader=LeaderIdAndEpoch(2, 1))
    answer = FetchResponse(
        responses=(FetchableTopicResponse(topic_id=topic_id, partitions=(refused,)),),
        node_endpoints=(NodeEndpoint(2, HOST, PORTS[2]),),
    )
    drafted = decode(FetchResponse, encode(answer, 16), version)
    seen = wire.connect(1).call(FetchRequest(topics=(topic,)), drafted, version=version)
    assert drafted_in_fetch(version, (2, 1), seen.unknown_tags) == AT_TAP
    assert seen.responses == drafted.responses


def test_a_broker_that_appears_or_moves_gets_a_listener(wire):
    peer = wire.connect(1)
    for port in (9009, 9010):
        seen = peer.call(ask_metadata(), metadata((1, 0), ports=PORTS | {9: port}))
        assert (seen.brokers[-1].node_id, seen.brokers[-1].port) == (9, port + TAP_PORTS)
        assert wire.observer.addresses.broker_at((HOST, port)) == 9
    assert f"{HOST}:9010" in wire.observer.addresses.ports


def test_an_answer_without_endpoints_passes_as_it_came(wire):
    asked, answer = produce((0, records(1)), (1, records(2))), produced((1, 0), (0, 0))
    assert wire.connect(1).call(asked, answer, version=9) == answer
    assert wire.rows("batches", "partition", "records") == [(1, 2), (0, 1)]


def test_batches_of_any_length_are_read(wire):
    """Lengths from 128 on take two bytes."""
    peer, batches = wire.connect(1), [records(1, bytes(size)) for size in range(50, 200)]
    for batch in batches:
        peer.call(produce((0, batch), (1, batch)), produced((0, 0), (1, 0)))
    rows = sorted(wire.rows("batches", "partition", "bytes"))
    assert rows == [(at, len(batch) - BATCH_HEADER_SIZE) for at in (0, 1) for batch in batches]


def test_a_request_without_answer_is_not_waited_for(wire):
    peer = wire.connect(1)
    peer.send(encode_request(produce((0, records(1)), acks=0), 9, 1, "c"))
    assert peer.exchange.in_flight == 0
    peer.call(ask_metadata(), metadata((1, 0)), took_us=7)
    assert wire.rows("rpcs", "api_key", "received_us") == [(PRODUCE, None), (METADATA, wire.now)]


@pytest.mark.parametrize(("api_key", "version", "counted"), [(999, 0, 1), (3, 99, 1), (11, 9, 0)])
def test_what_is_not_known_passes_and_is_counted(wire, api_key, version, counted):
    """JoinGroup (11) is known, and need not be read."""
    peer = wire.connect(1)
    peer.send(request_frame(api_key, version, b"???"))
    assert peer.get(GARBAGE) == GARBAGE
    assert wire.counts.not_decoded == counted
    assert wire.counts.requests == {api_key: 1}


@pytest.mark.parametrize(
    ("garbage", "said"),
    [
        (b"\0\0", "a request of 2 bytes"),
        (b"\0\3\0\0\0\0\0\1\x7f\xff", "a client id of 32767 bytes"),
        # Its tokens would be no requests.
        (b"\0\x11\0\0\0\0\0\1\0\1c", "SaslHandshake 0"),
    ],
)
def test_a_request_that_is_none_is_refused_in_words(wire, garbage, said):
    with pytest.raises(MalformedFrame, match=said):
        wire.connect(1).send(framed(garbage))


@pytest.mark.parametrize(
    ("api_key", "version", "may_name_brokers"),
    [
        (PRODUCE, 9, False),
        (PRODUCE, 12, True),
        (FETCH, 12, False),
        (FETCH, 17, True),
        (METADATA, 12, True),
    ],
)
def test_a_request_that_cannot_be_read_passes_and_is_counted(
    wire, api_key, version, may_name_brokers
):
    peer = wire.connect(1)
    peer.send(request_frame(api_key, version, b"\0\xff\xff"))
    assert wire.counts.not_decoded == 1
    assert peer.exchange.in_flight == 1
    if may_name_brokers:
        with pytest.raises(MalformedFrame):
            peer.get(GARBAGE)
    else:
        assert peer.get(GARBAGE) == GARBAGE


def test_an_answer_to_another_request_is_refused(wire):
    peer = wire.connect(1)
    with pytest.raises(MalformedFrame, match="nobody asked"):
        peer.get(framed(b"\0\0\0\1"))
    peer.ask(ask_metadata())
    with pytest.raises(MalformedFrame, match="request 77, not 1"):
        peer.get(framed(b"\0\0\0\x4d"))
    assert peer.exchange.in_flight == 1  # it is lost with the connection


def test_versions_are_capped(make_wire):
    body = ApiVersionsResponse(api_keys=(ApiVersion(PRODUCE, 0, 13), ApiVersion(FETCH, 4, 18)))
    seen = make_wire(caps=((PRODUCE, 9),)).connect(1).call(ApiVersionsRequest(), body, version=3)
    assert [api.max_version for api in seen.api_keys] == [9, 18]


def test_dropped_hints_are_counted_and_not_seen(make_wire):
    wire = make_wire(drop_hints=True)
    seen = wire.connect(1).call(produce((0, records(1))), HINTED)
    assert seen.node_endpoints == ()
    assert seen.responses[0].partition_responses[0].current_leader == LeaderIdAndEpoch()
    assert (wire.counts.hints, wire.counts.dropped_hints) == (1, 1)
    assert wire.rows("redirects", "decision", "hint_leader") == [("absent", None)]


def test_a_drafts_hint_is_counted_apart(wire):
    (topic,) = REFUSED.responses
    (partition,) = topic.partition_responses
    hinted = replace(partition, unknown_tags=((0, b"\0\0\0\2\0\0\0\1\0"),))
    drafted = replace(REFUSED, responses=(replace(topic, partition_responses=(hinted,)),))
    wire.connect(1).call(produce((0, records(1))), drafted, version=9)
    assert (wire.counts.hints, wire.counts.draft_hints) == (0, 1)
    rows = wire.rows("redirects", "decision", "hint_leader", "hint_epoch")
    assert rows == [("draft", 2, 1)]


def test_answers_of_an_api_are_held(make_wire):
    peer = make_wire(delays=((METADATA, 300_000),)).connect(1)
    peer.ask(ask_metadata())
    answer = framed(b"\0\0\0\1\0" + b"\0\0\0\0\1\0\0\0\0\0\1\0")
    assert peer.exchange.answer(answer, peer.wire.now).delay_us == 300_000


def test_requests_stand_behind_others(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))))
    wire.after(100)
    peer.ask(ask_metadata())
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


TURNED_AWAY = fetched(error=NOT_LEADER)


def test_reads_say_who_read_how_much_from_where(wire):
    (peer,) = wire.connect_to(2)
    batch = records(3)
    peer.call(fetch(), fetched(batch=batch[:7] + b"\5" + batch[8:]))  # base offset 5
    (row,) = wire.rows("reads")
    assert (row["broker"], row["broker_rack"], row["client_rack"]) == (2, "rack-2", "rack-2")
    assert (row["records"], row["bytes"], row["next_offset"]) == (3, len(batch), 8)
    assert (row["fetch_offset"], row["is_leader"], row["high_watermark"]) == (5, False, 9)


def test_a_fetch_that_is_turned_away_and_read_elsewhere_is_a_redirect(wire):
    old, new = wire.connect_to(1, 2)
    old.call(fetch(), TURNED_AWAY, took_us=500)
    wire.after(2000)
    new.call(fetch(epoch=1), fetched(), took_us=300)
    (row,) = wire.rows("redirects")
    assert (row["api"], row["error"], row["decision"]) == ("fetch", NOT_LEADER, "absent")
    assert (row["from_broker"], row["to_broker"]) == (1, 2)
    assert (row["detect_us"], row["backoff_us"], row["acknowledge_us"]) == (500, 2000, 300)
    assert wire.counts.redirects == 1


@pytest.mark.parametrize("error", [NOT_LEADER, 75])
def test_a_fetch_that_the_new_leader_turns_away_too(wire, error):
    """75 is UNKNOWN_LEADER_EPOCH: the new leader does not know yet that it leads."""
    old, new = wire.connect_to(1, 2)
    hinted = fetched(error=NOT_LEADER, hint=(2, 1))
    old.call(fetch(), hinted, took_us=500, version=16)
    new.call(fetch(epoch=1), fetched(error=error), took_us=200, version=16)
    wire.after(1000)
    new.call(fetch(epoch=1), fetched(), took_us=300, version=16)
    first, second = wire.rows("redirects")
    assert (first["detect_us"], first["decision"]) == (500, "followed")
    assert second["not_ready_us"] == 200
    assert (second["backoff_us"], second["acknowledge_us"]) == (1000, 300)
    assert wire.counts.redirects == 1


def test_a_fetch_session_that_is_gone_is_no_answer_to_a_redirect(wire):
    old, new = wire.connect(1), wire.connect(2)
    old.call(fetch(), TURNED_AWAY)
    new.call(fetch(epoch=1), FetchResponse(error_code=70))
    assert wire.counts.redirects == 0
    assert wire.counts.fetch_errors == {NOT_LEADER: 1, 70: 1}
    new.call(fetch(epoch=1), fetched())
    assert wire.counts.redirects == 1
    assert wire.rows("redirects", "error") == [(NOT_LEADER,), (70,)]


def test_two_consumers_of_one_name_do_not_disturb_each_other(wire):
    """Their redirects are told as one client's; nothing is dropped for it."""
    for _ in range(2):
        wire.connect(1).call(fetch(), TURNED_AWAY)
    new = [wire.connect(2), wire.connect(2)]
    for peer in new:
        peer.ask(fetch(epoch=1))
    for peer in new:
        assert peer.answer(fetched()) == fetched()
    assert len(wire.rows("reads")) == 4


def test_a_client_newer_than_kipctl_is_asked_to_try_an_older_api_versions(wire):
    """KIP-511: error 35 in version 0, with the versions of ApiVersions that are known."""
    peer = wire.connect(1)
    peer.send(request_frame(API_VERSIONS, 6, b"\0"))
    seen = read_answer(API_VERSIONS, 4, peer.get(GARBAGE))
    assert seen.error_code == 35
    assert seen.api_keys == (ApiVersion(API_VERSIONS, 0, 5),)


def test_a_broken_produce_of_which_nothing_is_recorded_ends_in_order(wire):
    """The broker closes the connection: then the tap has a look, and makes nothing of it."""
    wire.observer.directory = None
    peer = wire.connect(1)
    frame = bytearray(encode_request(produce((0, records(1))), 9, 1, "c"))
    frame[30] = 0xFF
    peer.send(bytes(frame))
    peer.exchange.lost(wire.now)
    assert wire.counts.lost == 1


def test_a_client_that_was_gone_for_minutes_begins_anew(wire):
    peer = wire.connect(1)
    peer.call(ask_metadata(TOPIC), metadata((1, 0)))
    peer.exchange.lost(wire.now)
    for us in (0, 200_000_000, 200_000_000):
        wire.after(us)
        wire.observer.tick(wire.now)
    wire.connect(1).ask(ask_metadata(TOPIC))
    assert wire.counts.metadata == {"start": 2}


def test_a_lost_connection_leaves_its_requests_without_answer(wire):
    peer = wire.connect(1)
    peer.ask(produce((0, records(1))))
    peer.ask(ask_metadata())
    wire.after(700)
    peer.exchange.lost(wire.now)
    assert wire.counts.lost == 1
    assert wire.rows("rpcs", "received_us") == [(None,), (None,)]
    assert wire.rows("batches", "error", "attempts") == [(13, 1)]


def said_of_the_disk(wire: Wire, requests: int) -> list[str]:
    """What the tap says after each request, all of which pass."""
    peer, said = wire.connect(1), []
    for _ in range(requests):
        assert peer.call(ask_metadata(), metadata((1, 0)))
        said.append(wire.observer.tick(wire.now))
    return said


def test_a_full_disk_ends_the_record_and_nothing_else(make_wire, tmp_path):
    (tmp_path / "rpcs.i64").symlink_to("/dev/full")
    wire = make_wire()
    said: list[str] = []
    while not any(said):  # a thread writes
        said += said_of_the_disk(wire, 4)
    assert set(said) == {"", "No more rows are recorded: No space left on device."}
    assert not any(said_of_the_disk(wire, 3))


def test_a_disk_that_is_too_slow_holds_up_nobody_and_ends_the_record(make_wire, monkeypatch):
    monkeypatch.setattr(recorder_module, "MOST_HELD_BYTES", 4000)
    wire = make_wire()
    disk = threading.Event()
    write = wire.observer.recorder.write
    monkeypatch.setattr(wire.observer.recorder, "write", lambda taken: disk.wait() and write(taken))
    try:
        said = said_of_the_disk(wire, 100)
    finally:
        disk.set()
    assert list(filter(None, said)) == ["No more rows are recorded: the disk is too slow for them."]
