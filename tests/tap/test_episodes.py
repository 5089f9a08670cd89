"""What a client does for a partition after a refusal, whatever it makes of its batches."""

import itertools
from dataclasses import replace
from uuid import UUID

import pytest
from record_batches import Record, encode_batch
from tap_messages import (
    DONE,
    HINTED,
    HOST,
    NOT_LEADER,
    PORTS,
    REFUSED,
    TOPIC,
    ask_metadata,
    metadata,
    produce,
    produced,
    records,
)

from kipctl.client_behaviour.behaviour import Behaviour, judge
from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import HintFault, Outcome
from kipctl.protocol.api import encode_request
from kipctl.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint
from kipctl.protocol.share_groups import (
    AcknowledgedPartition,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
    ShareLeader,
    SharePartitionData,
)

BACKOFF_US = 100_000
MOMENTS = itertools.count(1)
FENCED = 74


def batch(*words: bytes, **of_producer):
    """Of a client that encodes its records anew each time: no two are alike."""
    record = Record(value=b" ".join(words), timestamp_ms=next(MOMENTS))
    return produce((0, encode_batch([record], **of_producer)))


def seen(wire):
    return wire.client.seen(wire.observer.spec.drop_hints)


def told(wire) -> tuple[Behaviour, HintFault | None]:
    verdict = judge(seen(wire))
    return verdict.behaviour, verdict.fault


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_client_that_encodes_anew_has_its_wait(wire, is_recorded, version):
    wire.observer.directory = wire.folder if is_recorded else None
    old, new = wire.connect_to(1, 2)
    old.call(batch(b"first"), REFUSED, took_us=500, version=version)
    old.call(ask_metadata(), metadata((2, 1)))
    wire.after(BACKOFF_US)
    new.call(batch(b"anew"), DONE, took_us=300, version=version)
    assert (wire.client.episodes.moves.total, wire.client.episodes.open) == (1, {})
    assert (seen(wire).waits.episodes, seen(wire).waits.max_us) == (1, BACKOFF_US)
    assert told(wire) == (Behaviour.NO_HINTS, None)


def test_metadata_without_epochs_shows_moves_all_the_same(wire):
    """As of clients that ask for versions before 7."""
    old, new = wire.connect(1), wire.connect(2)
    for peer, leader in ((old, 2), (new, 1), (old, 2)):
        peer.call(ask_metadata(), metadata((3 - leader, -1)), version=6)
        peer.call(batch(b"first"), REFUSED)
        peer.call(ask_metadata(), metadata((leader, -1)), version=6)
        wire.after(BACKOFF_US)
        other = old if peer is new else new
        for _ in range(2):
            other.call(batch(b"anew"), DONE)
            peer.call(batch(b"was under way"), REFUSED)
        other.call(batch(b"anew"), DONE)
    assert wire.client.episodes.moves.total == 3
    assert seen(wire).waits.max_us == BACKOFF_US


def loop(wire, refusal, times: int, every_us: int):
    (peer,) = wire.connect_to(1)
    for number in range(times):
        peer.call(batch(b"%d" % number), refusal, took_us=500)
        wire.after(every_us)


def test_a_loop_is_named_and_is_no_wait(wire):
    itself = produced((0, NOT_LEADER), hint=(1, 0))
    loop(wire, itself, 2000, 500)
    assert told(wire) == (Behaviour.LOOPS, HintFault.REFUSER)
    assert seen(wire).leader_errors == 2000
    wire.connect(2).call(batch(b"at last"), DONE)
    assert (told(wire)[0], seen(wire).loops) == (Behaviour.LOOPS, 1)
    assert seen(wire).waits.episodes == 0


def test_many_batches_that_back_off_by_themselves_are_no_loop(wire):
    """As of clients that send each record by itself, and any number at once."""
    (peer,) = wire.connect_to(1)
    batches = [batch(b"%d" % number) for number in range(50)]
    for _ in range(5):
        for request in batches:
            peer.call(request, REFUSED, took_us=1000)
            wire.after(5000)
    assert (seen(wire).leader_errors, seen(wire).loops) == (250, 0)


def test_many_batches_that_were_under_way_are_no_loop(wire):
    """Brokers that are busy may answer them seconds later."""
    (peer,) = wire.connect_to(1)
    for number in range(200):
        peer.ask(batch(b"%d" % number))
    for _ in range(200):
        wire.after(10_000)
        peer.answer(REFUSED)
    assert (seen(wire).leader_errors, seen(wire).loops) == (200, 0)


def test_a_batch_that_is_sent_again_and_again_is_a_loop_among_others(wire):
    (peer,) = wire.connect_to(1)
    again = batch(b"again")
    for number in range(100):
        for request in (again, batch(b"%d" % number)):
            peer.call(request, REFUSED, took_us=1000)
    assert seen(wire).loops == 1


def test_a_client_that_goes_back_to_the_refuser_ignores_hints(wire):
    loop(wire, HINTED, 14, 250_000)
    assert told(wire) == (Behaviour.IGNORES, None)
    assert wire.rows("redirects", "decision") == [("ignored",)] * 14


def test_a_client_that_goes_where_hints_say_follows_them(wire):
    first, second, third = wire.connect_to(1, 2, 3)
    first.call(batch(b"first"), HINTED)
    wire.after(1000)
    second.call(batch(b"anew"), DONE)
    assert told(wire) == (Behaviour.FOLLOWS, None)
    assert seen(wire).outcomes == {Outcome.FOLLOWED: 1}
    second.call(batch(b"then"), produced((0, NOT_LEADER), hint=(3, 2)))
    wire.after(3000)
    third.call(batch(b"anew"), DONE)
    assert (seen(wire).outcomes[Outcome.FOLLOWED], seen(wire).reaction_p50_us) == (2, 1000)


@pytest.mark.parametrize(
    ("shown", "hint", "endpoint", "fault"),
    [
        ((1, 0), (2, 1), PORTS[2], None),
        ((1, 0), (2, 1), None, None),
        ((1, 0), (9, 1), None, HintFault.NO_ENDPOINT),
        ((1, 0), (2, 1), PORTS[3], HintFault.OTHER_ENDPOINT),
        ((1, 0), (2, 1), 9999, HintFault.OTHER_ENDPOINT),
        ((1, 0), (1, 0), PORTS[1], HintFault.REFUSER),
        ((3, 5), (2, 1), PORTS[2], HintFault.OLDER),
        ((1, 1), (2, 1), PORTS[2], HintFault.SAME_EPOCH),
        # A broker that Metadata has not named yet.
        ((1, 0), (9, 1), 9009, None),
    ],
)
def test_what_is_wrong_with_a_hint_is_judged_by_what_this_client_was_shown(
    wire, shown, hint, endpoint, fault
):
    """Another was shown a newer leader: that is nothing to this one."""
    other = wire.connect(1, "other")
    other.call(ask_metadata(), metadata((3, 9)))
    peer = wire.connect(1)
    peer.call(ask_metadata(), metadata(shown))
    refusal = produced((0, NOT_LEADER), hint=(2, 0))
    at = (NodeEndpoint(hint[0], HOST, endpoint),) if endpoint else ()
    (topic,) = refusal.responses
    (partition,) = topic.partition_responses
    leader = replace(partition.current_leader, leader_id=hint[0], leader_epoch=hint[1])
    partition = replace(partition, current_leader=leader)
    topic = replace(topic, partition_responses=(partition,))
    peer.call(batch(b"first"), replace(refusal, responses=(topic,), node_endpoints=at))
    (client,) = (client for client in wire.observer.clients.values() if client.counts.hints)
    assert client.seen(False).faults == ({fault: 1} if fault else {})
    wire.after(1000)
    wire.connect(hint[0] if hint[0] in PORTS else 2).call(batch(b"anew"), DONE)
    if fault:
        verdict = judge(client.seen(False))
        assert (verdict.behaviour, verdict.fault) == (Behaviour.UNUSABLE, fault)
    decisions = {
        None: "ignored",  # no batch is known again
        HintFault.NO_ENDPOINT: "unknown_node",
        HintFault.OTHER_ENDPOINT: "other_endpoint",
        HintFault.REFUSER: "refuser",
        HintFault.OLDER: "stale",
        HintFault.SAME_EPOCH: "same_epoch",
    }
    assert wire.rows("redirects", "decision") == [(decisions[fault],)]


def test_what_was_known_of_a_topic_holds_no_more_when_it_is_made_anew(wire):
    """Also if another client was shown that before."""
    other, peer = wire.connect(1, "other"), wire.connect(1)
    peer.call(ask_metadata(), metadata((1, 9), topic_id=UUID(int=1)))
    for connection in (other, peer):
        connection.call(ask_metadata(), metadata((1, 0), topic_id=UUID(int=2)))
    peer.call(batch(b"first"), HINTED)
    (client,) = (client for client in wire.observer.clients.values() if client.counts.hints)
    assert client.seen(False).faults == {}


def test_an_endpoint_of_another_node_does_not_rename_that_node(wire):
    (peer,) = wire.connect_to(1)
    wrong = replace(HINTED, node_endpoints=(NodeEndpoint(2, HOST, PORTS[1]),))
    peer.call(batch(b"first"), wrong)
    assert wire.observer.addresses.broker_at((HOST, PORTS[1])) == 1


def test_hints_that_the_tap_drops_were_not_there(make_wire):
    wire = make_wire(drop_hints=True)
    loop(wire, HINTED, 3, 250_000)
    assert told(wire) == (Behaviour.NO_HINTS, None)


def test_what_metadata_named_too_may_have_been_followed_for_either(wire):
    old, new = wire.connect_to(1, 2)
    old.call(batch(b"first"), HINTED)
    old.call(ask_metadata(), metadata((2, 1)))
    new.call(batch(b"anew"), DONE)
    assert seen(wire).outcomes == {Outcome.BY_METADATA: 1}


def test_a_leader_is_met_where_only_metadata_without_epochs_named_it(wire):
    """kafka-go's readers ask for Metadata 6, while others through the tap are shown epochs."""
    first, second, third = wire.connect_to(1, 2, 3)
    first.call(batch(b"first"), REFUSED)
    first.call(ask_metadata(), metadata((2, -1)), version=6)
    second.ask(batch(b"held until the leader moved on"))
    wire.after(1_000_000)
    second.answer(REFUSED)
    first.call(ask_metadata(), metadata((3, -1)), version=6)
    third.call(batch(b"and again"), DONE)
    assert wire.client.episodes.moves.total == 2


def test_a_client_that_is_refused_through_two_moves_has_met_both(wire):
    """kafka-go's writer waits for its next Metadata, up to 6 s, and goes on asking meanwhile."""
    first, _, third = wire.connect_to(1, 2, 3)
    first.call(batch(b"accepted"), DONE)
    for _ in range(3):
        first.call(batch(b"first"), REFUSED)
        wire.after(1_000_000)
    first.call(ask_metadata(), metadata((3, 2)))
    third.call(batch(b"anew"), DONE)
    assert (wire.client.episodes.moves.total, seen(wire).waits.episodes) == (2, 1)


def test_a_client_that_was_idle_has_met_only_the_last_move(wire):
    """It was refused once, whoever has led since it sent last."""
    first, _, third = wire.connect_to(1, 2, 3)
    first.call(batch(b"first"), REFUSED)
    first.call(ask_metadata(), metadata((3, 7)))
    third.call(batch(b"anew"), DONE)
    assert wire.client.episodes.moves.total == 1


def test_two_moves_without_a_success_between_are_two_waits(wire):
    first, second, third = wire.connect_to(1, 2, 3)
    first.call(batch(b"first"), REFUSED)
    first.call(ask_metadata(), metadata((2, 1)))
    wire.after(1000)
    second.call(batch(b"anew"), REFUSED)
    first.call(ask_metadata(), metadata((3, 2)))
    wire.after(4000)
    third.call(batch(b"and again"), DONE)
    assert wire.client.episodes.moves.total == 2
    assert (seen(wire).waits.p50_us, seen(wire).waits.max_us) == (1000, 4000)


def test_producers_of_one_id_are_told_apart_by_their_producer_ids(wire):
    """One is there already as the other is refused, and waits."""
    old, new, again = wire.connect_to(1, 2, 2)
    old.call(batch(b"a", producer_id=1, base_sequence=0), HINTED)
    new.call(batch(b"b", producer_id=2, base_sequence=0), DONE)
    wire.after(BACKOFF_US)
    again.call(batch(b"a", producer_id=1, base_sequence=0), DONE)
    assert seen(wire).waits.max_us == BACKOFF_US
    assert Doubt.NAMESAKES not in seen(wire).doubts


def test_producers_of_one_id_that_cannot_be_told_apart_are_not_judged(wire):
    old, new, again = wire.connect_to(1, 2, 2)
    old.call(batch(b"a"), HINTED)
    for peer in (new, again, new, again):
        wire.after(BACKOFF_US)
        peer.call(batch(b"either"), DONE)
    assert seen(wire).doubts == (Doubt.NAMESAKES,)
    assert told(wire) == (Behaviour.UNKNOWN, None)


def test_a_client_that_connects_anew_is_one_process(wire):
    old, *new = wire.connect_to(1, 2, 2, 2)
    old.call(batch(b"a"), HINTED)
    for peer in new:
        wire.after(BACKOFF_US)
        peer.call(batch(b"again"), DONE)
    assert Doubt.NAMESAKES not in seen(wire).doubts


def test_what_was_under_way_to_a_third_broker_is_no_other_process(wire):
    """A client may know more than it was seen to be shown; a busy machine answers it late."""
    old, third, new = wire.connect_to(1, 3, 2)
    for _ in range(3):
        third.ask(batch(b"ahead"))
        wire.after(100)
        old.call(batch(b"a"), HINTED)
        third.answer(DONE)
        new.call(batch(b"a"), DONE)
        wire.after(20_000_000)
    assert Doubt.NAMESAKES not in seen(wire).doubts


def test_a_leader_that_fences_off_an_older_epoch_gives_no_hint_at_another_broker(wire):
    """It leads again, and the client has not heard."""
    (peer,) = wire.connect_to(1)
    peer.call(batch(b"a"), produced((0, FENCED), hint=(1, 2)))
    wire.after(BACKOFF_US)
    peer.call(batch(b"again"), DONE)
    assert (seen(wire).faults, seen(wire).outcomes) == ({}, {Outcome.NOT_HINTED: 1})
    assert (wire.client.episodes.moves.total, seen(wire).waits.max_us) == (1, BACKOFF_US)


def test_as_long_as_it_looks_for_a_leader_it_asks_for_metadata_because_of_that(wire):
    (peer,) = wire.connect_to(1)
    peer.call(batch(b"a"), REFUSED)
    for _ in range(3):
        peer.call(ask_metadata(), metadata((1, 0)))
    assert wire.counts.metadata == {"start": 1, "leader_change": 3}


def test_what_it_was_just_told_is_counted_where_nothing_explains_that_it_asks(wire):
    (peer,) = wire.connect_to(1)
    for leader in (1, 1, 2):
        peer.call(ask_metadata(), metadata((leader, leader - 1)))
    assert (wire.counts.metadata["unexplained"], wire.counts.same_again) == (3, 2)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_client_that_does_nothing_more_has_given_up(wire, is_gone):
    (old,) = wire.connect_to(1)
    old.call(batch(b"first"), REFUSED)
    if is_gone:
        old.exchange.lost(wire.now)
    for _ in range(2):
        wire.observer.tick(wire.now)
        wire.after(20_000_000 if is_gone else 130_000_000)
    wire.observer.tick(wire.now)
    assert (wire.client.episodes.open, wire.client.episodes.given_up) == ({}, 1)
    # It comes back: that is no wait.
    wire.connect(2).call(batch(b"another"), DONE)
    assert (wire.client.episodes.moves.total, seen(wire).waits.episodes) == (0, 0)


def test_a_producer_that_wants_no_answer_is_never_refused(wire):
    peer = wire.connect(1)
    peer.send(encode_request(produce((0, records(1)), acks=0), 9, 1, "c"))
    assert (wire.counts.acks_0, seen(wire).leader_errors) == (1, 0)


def test_how_long_batches_took_is_counted_with_and_without_a_record(wire):
    for is_recorded in (True, False):
        wire.observer.directory = wire.folder if is_recorded else None
        wire.connect(1).call(batch(b"first"), DONE, took_us=1 << 15)
    assert wire.client.took.summary == (2, *(1 << 15,) * 3)


# --- those that read ---


def fetch(*partitions: int, session: tuple[int, int] = (0, -1)):
    topic = FetchTopic(TOPIC, partitions=tuple(FetchPartition(index) for index in partitions))
    topics = (topic,) if partitions else ()
    return FetchRequest(topics=topics, session_id=session[0], session_epoch=session[1])


def fetched(*errors: int):
    partitions = tuple(PartitionData(n, error) for n, error in enumerate(errors))
    topics = (FetchableTopicResponse(TOPIC, partitions=partitions),) if partitions else ()
    return FetchResponse(responses=topics)


def test_a_fetch_session_asks_for_what_its_requests_do_not_name(wire):
    """An answer that does not name a partition has nothing new of it, and no error."""
    old, new = wire.connect_to(1, 2)
    old.call(fetch(0, session=(0, 0)), fetched(NOT_LEADER))
    for epoch in (1, 2):
        wire.after(50_000)
        old.call(fetch(session=(7, epoch)), fetched(NOT_LEADER))
    (state,) = wire.client.episodes.open.values()
    assert state.episode.refusals == 3
    new.call(ask_metadata(), metadata((2, 1)))
    new.call(fetch(0, session=(8, 3)), fetched())
    assert (wire.client.episodes.moves.total, seen(wire).waits.max_us) == (1, 100_000)


@pytest.mark.parametrize("is_fenced", [False, True])
def test_a_follower_that_is_read_from_is_no_leader_that_was_met(wire, is_fenced):
    """@platformatic/kafka asks the broker that fenced it off once more, without an epoch: that is
    a follower now, and serves it."""
    topic_id = UUID(int=9)
    ask = FetchRequest(topics=(FetchTopic(topic_id=topic_id, partitions=(FetchPartition(0),)),))
    hint = PartitionData(0, FENCED, current_leader=LeaderIdAndEpoch(2, 1))
    hinted = FetchResponse(
        responses=(FetchableTopicResponse(topic_id=topic_id, partitions=(hint,)),),
        node_endpoints=(NodeEndpoint(2, HOST, PORTS[2]),),
    )
    old, new = wire.connect(1), wire.connect(2)
    old.call(ask_metadata(), metadata((1, 0), topic_id=topic_id))
    old.call(ask, hinted, version=16)
    wire.after(1_000_000)
    if is_fenced:
        new.call(ask, hinted, version=16)
    old.call(ask, FetchResponse(), version=16)
    assert (wire.client.episodes.moves.total, seen(wire).waits.episodes) == (1, is_fenced)


def test_a_leader_that_metadata_named_before_the_refusal_is_met_once(wire):
    old, new = wire.connect_to(1, 2)
    old.ask(batch(b"held"))
    new.call(ask_metadata(), metadata((2, 1)))
    old.answer(HINTED)
    new.call(batch(b"anew"), DONE)
    assert (wire.client.episodes.moves.total, seen(wire).waits.episodes) == (1, 1)


def test_two_brokers_that_lead_in_turn_are_met_each_time(wire):
    """Metadata without epochs, where others through the tap are shown the epochs."""
    old, new = wire.connect_to(1, 2)
    for epoch, (refuses, leads) in enumerate(((old, new), (new, old), (old, new)), 1):
        broker = 2 if leads is new else 1
        refuses.call(batch(b"first"), REFUSED)
        refuses.call(ask_metadata(), metadata((broker, -1)), version=6)
        leads.call(batch(b"anew"), DONE)
        if epoch == 1:
            leads.call(ask_metadata(), metadata((2, 1)))
    assert wire.client.episodes.moves.total == 3


def share_fetch(topic_id):
    topic = ShareFetchTopic(topic_id, (ShareFetchPartition(0),))
    return ShareFetchRequest(topics=(topic,))


def shared(topic_id, error=0, leader=(0, 0), acknowledged=0):
    part = SharePartitionData(0, error, None, acknowledged, current_leader=ShareLeader(*leader))
    at = (NodeEndpoint(leader[0], HOST, PORTS[leader[0]]),) if leader[0] else ()
    return ShareFetchResponse(
        responses=(ShareFetchableTopicResponse(topic_id, (part,)),), node_endpoints=at
    )


@pytest.mark.parametrize("errors", [(NOT_LEADER, 0), (0, NOT_LEADER)])
@pytest.mark.parametrize("drops", [False, True])
def test_refusals_and_hints_of_share_groups_count_too(make_wire, drops, errors):
    wire, topic_id = make_wire(drop_hints=drops), UUID(int=9)
    old, new = wire.connect_to(1, 2)
    old.call(ask_metadata(), metadata((1, 0), topic_id=topic_id))
    refused = shared(topic_id, errors[0], (2, 1), errors[1])
    got = old.call(share_fetch(topic_id), refused, version=1)
    assert bool(got.node_endpoints) is not drops
    leader = ShareLeader() if drops else ShareLeader(2, 1)
    assert got.responses[0].partitions[0].current_leader == leader
    wire.after(1000)
    new.call(share_fetch(topic_id), shared(topic_id), version=1)
    assert (wire.counts.leader_errors, wire.counts.hints) == (1, 1)
    assert wire.counts.fetch_errors == {NOT_LEADER: 1}
    assert told(wire)[0] is (Behaviour.NO_HINTS if drops else Behaviour.FOLLOWS)


def test_acknowledgements_of_share_groups_are_refused_too(wire):
    topic_id = UUID(int=9)
    (peer,) = wire.connect_to(1)
    partition = AcknowledgedPartition(0, NOT_LEADER, None, ShareLeader(2, 1))
    answer = ShareAcknowledgeResponse(
        responses=(ShareAcknowledgeTopicResponse(topic_id, (partition,)),),
        node_endpoints=(NodeEndpoint(2, HOST, PORTS[2]),),
    )
    topic = AcknowledgeTopic(topic_id, (AcknowledgePartition(0),))
    peer.call(ShareAcknowledgeRequest(topics=(topic,)), answer, version=1)
    assert (wire.counts.leader_errors, wire.counts.hints) == (1, 1)


# --- who is who ---

NAMED = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2")


def test_software_named_on_one_connection_is_that_of_all(wire):
    first, second, third = wire.connect(1), wire.connect(2), wire.connect(3)
    first.call(ask_metadata(), metadata((1, 0)))
    second.call(NAMED, ApiVersionsResponse(), version=3)
    third.call(ask_metadata(), metadata((1, 0)))
    (client,) = wire.observer.clients.values()
    assert client.identity[:3] == ("c", "lib", "1.2")
    assert (client.counts.connections, client.counts.requests.total()) == (3, 3)


def test_a_client_that_names_no_software_is_another_than_one_that_does(wire):
    wire.connect(1).call(NAMED, ApiVersionsResponse(), version=3)
    wire.connect(1).call(ApiVersionsRequest(), ApiVersionsResponse(), version=2)
    names = {client.identity.software_name for client in wire.observer.clients.values()}
    assert names == {"lib", ""}
    assert [client.counts.connections for client in wire.observer.clients.values()] == [1, 1]


def test_clients_of_one_id_are_told_apart_by_their_host(wire):
    hosts = ["10.0.0.1", "10.0.0.2"]
    for host in hosts:
        wire.connect(1, host=host).call(ask_metadata(), metadata((1, 0)))
    assert [client.identity.host for client in wire.observer.clients.values()] == hosts
    assert wire.rows("rpcs", "client") == [("c",), ("c (10.0.0.2)",)]


@pytest.mark.parametrize(("log_start", "appended"), [(-1, False), (0, True)])
def test_a_refusal_with_an_offset_is_an_append_if_it_says_where_the_log_began(
    wire, log_start, appended
):
    """As brokers do; kfake refuses with base offset 0."""
    (topic,) = REFUSED.responses
    (partition,) = topic.partition_responses
    partition = replace(partition, base_offset=0, log_start_offset=log_start)
    refused = replace(REFUSED, responses=(replace(topic, partition_responses=(partition,)),))
    wire.connect(1).call(batch(b"first"), refused)
    assert wire.rows("redirects", "base_offset") == [(0 if appended else None,)]
