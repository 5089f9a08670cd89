"""What a message refuses to encode, and how it says so."""

import pickle
from uuid import UUID

import pytest

from kipctl.errors import KipctlError
from kipctl.protocol.api import encode_request
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.message import decode, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kipctl.protocol.primitives import EncodeError, MalformedFrame
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

HINT = PartitionProduceResponse(current_leader=LeaderIdAndEpoch(1, 2))
HINTED = TopicProduceResponse(partition_responses=(PartitionProduceResponse(), HINT))


@pytest.mark.parametrize(
    ("body", "version", "says"),
    [
        (
            *(DescribeClusterRequest(include_fenced_brokers=True), 1),
            "include_fenced_brokers: not in this version, yet it is True",
        ),
        (
            *(ProduceResponse(responses=(HINTED,)), 9),
            "responses[0].partition_responses[1].current_leader: not in this version",
        ),
        (*(MetadataRequest(topics=None), 0), "topics: None, which this version does not allow"),
        (
            *(MetadataRequest(topics=(MetadataRequestTopic(name=None),)), 9),
            "topics[0].name: None, which this version does not allow",
        ),
        (
            *(MetadataResponse(brokers=(MetadataResponseBroker(port=1 << 31),)), 12),
            "brokers[0].port: 2147483648 is not an integer of 32 bits",
        ),
        (
            *(MetadataResponse(topics=(MetadataResponseTopic(name="x" * 32768),)), 12),
            "topics[0].name: string of 32768 bytes, 32767 are allowed",
        ),
        (
            *(MetadataResponse(unknown_tags=((9, b"x"),)), 8),
            "unknown_tags: this version has no tagged fields",
        ),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_a_value_that_the_version_cannot_carry_is_named(body, version, says):
    with pytest.raises(EncodeError) as caught:
        encode(body, version)
    assert str(caught.value).startswith(f"{type(body).__name__} v{version} {says}")


def test_an_ignorable_field_is_left_out_by_a_version_that_lacks_it():
    topic = MetadataRequestTopic(topic_id=UUID(int=7), name="t")
    read = decode(MetadataRequest, encode(MetadataRequest(topics=(topic,)), 9), 9)
    assert read.topics == (MetadataRequestTopic(name="t"),)


@pytest.mark.parametrize("version", [-1, 14])
def test_a_version_that_kipctl_does_not_know_is_a_fault_of_the_caller(version):
    with pytest.raises(ValueError, match="MetadataRequest has versions 0 to 13"):
        encode(MetadataRequest(), version)
    with pytest.raises(ValueError, match="MetadataResponse has versions 0 to 13"):
        decode(MetadataResponse, b"", version)


def test_a_client_id_that_does_not_fit_is_refused():
    with pytest.raises(EncodeError, match="client id of 40000 bytes"):
        encode_request(MetadataRequest(), 12, 1, "x" * 40000)


@pytest.mark.parametrize("error", [MalformedFrame("a: b", "look"), EncodeError("c: d")])
def test_errors_survive_the_way_to_another_process(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert isinstance(error, KipctlError)
