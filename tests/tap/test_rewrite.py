"""Answers as clients get them: on random messages of every version, and by table."""

from dataclasses import replace

import pytest
from campaigns import as_many, campaign, chance
from looped import looped
from protocol_oracles import ALL_VERSIONS, random_message
from tap_messages import answer_frame

from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import NEWEST_API, ApiVersion, ApiVersionsResponse
from kipctl.protocol.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataResponse
from kipctl.protocol.metadata_frames import MetadataFrame
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kipctl.tap.rewrite import (
    REQUESTS,
    WITH_ENDPOINTS,
    is_known,
    read_answer,
    translated,
    with_body,
    with_brokers_translated,
    without_hints,
)
from kipctl.tap.version_caps import capped

CASES = as_many(3, 200)
ANSWERS = [
    (cls, version)
    for cls, version in ALL_VERSIONS
    if issubclass(cls, Response) and cls.api.key in REQUESTS
]


def endpoints(value):
    """Every (host, port) in a message, wherever it is."""
    addresses = []
    if hasattr(value, "host") and hasattr(value, "port"):
        addresses.append((value.host, value.port))
    for name in getattr(value, "__dataclass_fields__", ()):
        inner = getattr(value, name)
        if isinstance(inner, tuple):
            for item in inner:
                addresses += endpoints(item)
        elif hasattr(inner, "__dataclass_fields__"):
            addresses += endpoints(inner)
    return addresses


def messages(cls, version):
    choose = chance(f"tap {cls.__name__} {version}")
    bodies = [random_message(cls, version, choose) for _ in range(CASES)]
    if cls is ApiVersionsResponse:  # 35 says that the body is in version 0
        bodies = [replace(body, error_code=0) for body in bodies]
    return bodies


@campaign
@looped("cls, version", ANSWERS)
def test_what_is_not_changed_keeps_every_byte(cls, version):
    for body in messages(cls, version):
        frame = answer_frame(body, version, 7, tags=b"\1\5\2hi")
        read = read_answer(cls.api.key, version, frame)
        assert read == body
        assert with_body(cls.api.key, version, frame, read) == frame


METADATA = ApiKey.METADATA
ALL_BUT_METADATA = [
    answer for answer in ANSWERS if answer[0].api.key in WITH_ENDPOINTS - {METADATA}
]


@campaign
@looped("version", range(MetadataResponse.api.versions[1] + 1))
def test_of_metadata_the_brokers_places_are_replaced_and_not_a_byte_besides(version):
    def there(host, port):
        return f"~{host}" * 40, port ^ 1

    for body in messages(MetadataResponse, version):
        frame = answer_frame(body, version, 7, tags=b"\1\5\2hi")
        brokers = tuple(
            replace(broker, host=there(broker.host, broker.port)[0], port=broker.port ^ 1)
            for broker in body.brokers
        )
        rewritten = with_brokers_translated(MetadataFrame(frame[4:], version), there)
        assert rewritten == with_body(METADATA, version, frame, replace(body, brokers=brokers))


@campaign
@looped("cls, version", ALL_BUT_METADATA)
def test_every_endpoint_is_replaced_and_nothing_else(cls, version):
    only_named = cls.__name__ == "FindCoordinatorResponse"  # without one it names no host

    def there(host, port):
        return f"~{host}", port ^ 1

    def back(host, port):
        return host.removeprefix("~"), port ^ 1

    for body in messages(cls, version):
        changed = translated(body, there)
        assert endpoints(changed) == [
            there(host, port) if host or not only_named else (host, port)
            for host, port in endpoints(body)
        ]
        assert translated(changed, back) == body


def test_an_answer_in_an_unknown_version_is_none_to_read():
    assert is_known(ApiKey.PRODUCE, 13)
    assert not is_known(ApiKey.PRODUCE, 14)
    assert not is_known(999, 0)


def test_garbage_is_told_from_an_answer():
    with pytest.raises(MalformedFrame):
        read_answer(ApiKey.METADATA, 13, b"\0\0\0\6\0\0\0\7\0\xff")


def test_versions_are_capped_by_what_is_asked_and_by_what_is_known():
    spoken = {ApiKey.PRODUCE: (0, 99), ApiKey.FETCH: (4, 18), ApiKey.METADATA: (9, 13)}
    spoken |= {NEWEST_API: (0, 99), NEWEST_API + 1: (0, 0)}
    keys = tuple(ApiVersion(key, *versions) for key, versions in spoken.items())
    body = ApiVersionsResponse(api_keys=keys)

    def seen(caps):
        return {api.api_key: api.max_version for api in capped(body, caps).api_keys}

    assert seen({ApiKey.FETCH: 15, ApiKey.METADATA: 2, NEWEST_API: 5}) == {
        ApiKey.PRODUCE: 13,  # newer ones may carry what is not known here
        ApiKey.FETCH: 15,
        ApiKey.METADATA: 9,  # the broker speaks no lower one
        NEWEST_API: 5,
        # Answers of newer APIs may carry endpoints: clients are not told of them.
    }
    assert seen({})[NEWEST_API] == 99


LEADER = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
AT = NodeEndpoint(node_id=2, host="b", port=9092)


def test_hints_are_taken_out_and_nothing_else():
    partition = PartitionProduceResponse(
        index=3, error_code=6, base_offset=-1, current_leader=LEADER, unknown_tags=((9, b"kept"),)
    )
    body = ProduceResponse(
        responses=(TopicProduceResponse(name="t", partition_responses=(partition,)),),
        throttle_time_ms=7,
        node_endpoints=(AT,),
    )
    seen = without_hints(body)
    (left,) = seen.responses[0].partition_responses
    assert left == replace(partition, current_leader=LeaderIdAndEpoch())
    assert seen.node_endpoints == ()
    assert seen.throttle_time_ms == 7


def test_hints_of_fetch_and_of_the_draft_are_taken_out():
    partition = PartitionData(error_code=6, records=b"abc", current_leader=LEADER)
    body = FetchResponse(
        responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),),
        node_endpoints=(AT,),
        unknown_tags=((0, b"draft"), (5, b"kept")),
    )
    seen = without_hints(body)
    assert seen.responses[0].partitions[0].current_leader == LeaderIdAndEpoch()
    assert seen.responses[0].partitions[0].records == b"abc"
    assert seen.node_endpoints == ()
    assert seen.unknown_tags == ((5, b"kept"),)
