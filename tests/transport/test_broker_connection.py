"""A connection to one broker: versions, and every way in which the other side can fail."""

import socket
import struct
from dataclasses import replace

import pytest
from scripted_broker import HANG_UP, VERSIONS, ScriptedBroker

import kipctl
from kipctl.errors import ExitStatus, RefusedError, TimedOutError, UnreachableError
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import ProduceRequest
from kipctl.transport.request import BrokerConnection

ASK = DescribeClusterRequest()
ANSWER = DescribeClusterResponse(cluster_id="the cluster")


def connect(broker, timeout_s=20.0):
    return BrokerConnection("127.0.0.1", broker.port, "a client", timeout_s)


def answering(asked):
    return ANSWER if asked.request == ASK else None


@pytest.mark.parametrize(("known", "highest"), [((1, 7), 2), ((0, 1), 1), ((0, 0), 0)])
def test_a_request_goes_out_in_the_highest_version_that_both_know(known, highest):
    with ScriptedBroker(answering, VERSIONS | {60: known}) as broker, connect(broker) as connection:
        assert connection.request(ASK) == ANSWER
        assert connection.request(ASK, version=known[0]) == ANSWER
        assert [(a.version, a.client_id) for a in broker.asked] == [
            (4, "a client"),
            (highest, "a client"),
            (known[0], "a client"),
        ]
        assert len({asked.correlation_id for asked in broker.asked}) == 3


def test_an_answer_that_is_the_last_one_again_is_the_same_object():
    answers = [ANSWER, ANSWER, replace(ANSWER, cluster_id="another"), ANSWER]

    def in_turn(asked):
        return answers.pop(0) if asked.request == ASK else None

    with ScriptedBroker(in_turn) as broker, connect(broker) as connection:
        first, again, other, back = (connection.request(ASK) for _ in range(4))
    assert again is first == ANSWER
    assert other.cluster_id == "another"
    assert back is not first
    assert back == first


@pytest.mark.parametrize(
    ("versions", "version", "says"),
    [
        (
            {18: (0, 4)},
            None,
            r"does not know the API DescribeCluster\.\nIt may be a controller: name a broker",
        ),
        ({60: (3, 5)}, None, "knows DescribeCluster in versions 3 to 5, kipctl 0 to 2"),
        ({60: (0, 1)}, 2, "knows DescribeCluster in versions 0 to 1, asked was 2"),
    ],
)
def test_no_version_in_common_is_said_and_nothing_is_sent(versions, version, says):
    with ScriptedBroker(answering, versions) as broker, connect(broker) as connection:
        with pytest.raises(RefusedError, match=says) as caught:
            connection.request(ASK, version)
        assert broker.address in str(caught.value)
        assert broker.requests() == []


def test_the_broker_is_told_who_asks():
    with ScriptedBroker() as broker, connect(broker) as connection:
        assert connection.api_versions == VERSIONS
        assert broker.asked[0].request == ApiVersionsRequest(
            client_software_name="kipctl", client_software_version=kipctl.__version__
        )


@pytest.mark.parametrize(
    ("known", "second"),
    [
        (ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(18, 0, 3),)), 3),
        (ApiVersionsResponse(error_code=35), 0),
    ],
    ids=["since 2.4", "before"],
)
def test_a_broker_that_does_not_know_our_api_versions_is_asked_again(known, second):
    def answers(asked):
        if isinstance(asked.request, ApiVersionsRequest) and asked.version == 4:
            return asked.answer(known, version=0)
        return answering(asked)

    with ScriptedBroker(answers) as broker, connect(broker) as connection:
        assert connection.request(ASK) == ANSWER
        assert [asked.version for asked in broker.asked] == [4, second, 2]


def test_refused_api_versions_say_why():
    refusal = ApiVersionsResponse(error_code=58)
    with ScriptedBroker(lambda asked: refusal) as broker, connect(broker) as connection:
        with pytest.raises(RefusedError, match="refuses ApiVersions: SASL_AUTHENTICATION_FAILED"):
            connection.request(ASK)
        broker.answers = answering
        assert connection.request(ASK) == ANSWER
        assert broker.asked[-1].connection == 1


def test_a_broker_that_hangs_up_is_named_with_what_was_asked():
    def answers(asked):
        return HANG_UP if asked.request == ASK and asked.connection == 0 else answering(asked)

    with ScriptedBroker(answers) as broker, connect(broker) as connection:
        with pytest.raises(UnreachableError, match="for DescribeCluster: it closed") as caught:
            connection.request(ASK)
        assert broker.address in str(caught.value)
        assert caught.value.next_step
        assert connection.request(ASK) == ANSWER, "the next request opens a new connection"


def test_an_idle_connection_that_was_closed_is_opened_again_and_the_request_sent_once():
    with ScriptedBroker(answering) as broker, connect(broker) as connection:
        assert connection.request(ASK) == ANSWER
        broker.hang_up()
        broker.versions = VERSIONS | {60: (0, 1)}
        assert connection.request(ASK) == ANSWER
        assert broker.requests() == [ASK, ASK]
        assert broker.asked[-1].version == 1, "a restarted broker may be another version"


def test_a_silent_broker_times_out_and_its_late_answer_is_not_taken_for_another():
    def answers(asked):
        return None if asked.request == ASK and asked.connection == 0 else answering(asked)

    with ScriptedBroker(answers) as broker, connect(broker) as connection:
        assert connection.api_versions
        connection.timeout_s = 0.05
        with pytest.raises(TimedOutError, match=r"did not answer DescribeCluster in 0.05 s"):
            connection.request(ASK)
        connection.timeout_s = 20.0
        assert connection.request(ASK) == ANSWER
        assert [asked.connection for asked in broker.asked][-2:] == [1, 1]


def test_a_large_answer():
    large = MetadataResponse(cluster_id="x" * 30_000, topics=(MetadataResponseTopic(),) * 12_000)
    with ScriptedBroker() as broker, connect(broker) as connection:
        broker.answers = lambda asked: large if asked.request == MetadataRequest() else None
        assert connection.request(MetadataRequest()) == large


def framed(content):
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "length 1213486160, as an HTTP server answers."),
        (b"\xff\xff\xff\xff", "length -1"),
        (b"\0\0\0\3abc", "length 3"),
        (b"\0\0\0\x05\0\0\0\2\0", "DescribeClusterResponse v2 throttle_time_ms: 4 bytes"),
        (framed(b"\0\0\0\x4d\0" + encode(ANSWER, 2)), "answer to request 77 where 2 was asked"),
    ],
    ids=["http", "negative", "short", "cut", "to another request"],
)
def test_what_is_no_kafka_answer_is_malformed_and_says_who_sent_it(answer, says):
    with (
        ScriptedBroker(lambda asked: answer if asked.request == ASK else None) as broker,
        connect(broker) as connection,
    ):
        with pytest.raises(MalformedFrame) as caught:
            connection.request(ASK)
        assert f"Broker {broker.address} sent a malformed frame: {says}" in str(caught.value)
        assert caught.value.status is ExitStatus.UNREACHABLE
        broker.answers = answering
        assert connection.request(ASK) == ANSWER


def test_a_listener_that_speaks_tls_is_told_apart():
    alert = b"\x15\x03\x03\x00\x02\x02\x46"
    with (
        ScriptedBroker(lambda asked: alert) as broker,
        connect(broker) as connection,
        pytest.raises(UnreachableError, match="it speaks TLS"),
    ):
        connection.request(ASK)


def test_a_port_where_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    connection = BrokerConnection("127.0.0.1", port, "a client", 20.0)
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port} .*: Connection refused"):
        connection.request(ASK)


def test_a_host_that_does_not_exist():
    connection = BrokerConnection("no-such-host.invalid", 9092, "a client", 20.0)
    with pytest.raises(UnreachableError, match=r"no-such-host\.invalid:9092 cannot be reached"):
        connection.request(ASK)


def test_produce_without_acks_has_no_answer_to_wait_for():
    connection = BrokerConnection("127.0.0.1", 1, "a client", 20.0)
    with pytest.raises(ValueError, match="acks=0"):
        connection.request(ProduceRequest(acks=0))
