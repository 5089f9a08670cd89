"""A cluster behind its bootstrap servers: who is asked, and what happens when brokers are gone."""

import socket
from contextlib import ExitStack

import pytest
from scripted_broker import HANG_UP, VERSIONS, ScriptedBroker

from kipctl.errors import RefusedError, UnreachableError, UsageError
from kipctl.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kipctl.transport.access import parse_bootstrap_servers
from kipctl.transport.request import Cluster


class Brokers:
    """Scripted brokers with ids from 1 that all know one another."""

    def __init__(self, stack, count=3):
        self.controller_id = 1
        self.lists = {}
        self.list = [
            stack.enter_context(ScriptedBroker(self.script(node_id)))
            for node_id in range(1, count + 1)
        ]
        self.alive = dict(enumerate(self.list, 1))

    def script(self, node_id):
        def answers(asked):
            match asked.request:
                case MetadataRequest():
                    return self.metadata()
                case ListPartitionReassignmentsRequest():
                    code = 0 if node_id == self.controller_id else 41
                    return ListPartitionReassignmentsResponse(error_code=code)
                case DescribeClusterRequest():
                    return DescribeClusterResponse(controller_id=node_id)
            return None

        return answers

    def metadata(self):
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id, "127.0.0.1", broker.port)
                for node_id, broker in self.alive.items()
            ),
            controller_id=self.controller_id,
        )


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def brokers(stack):
    return Brokers(stack)


def unused_address():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def who(connection):
    return connection.request(DescribeClusterRequest()).controller_id


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b.example:65535", [("a", 1), ("b.example", 65535)]),
        ("[::1]:9092,[fe80::1%eth0]:1", [("::1", 9092), ("fe80::1%eth0", 1)]),
    ],
)
def test_bootstrap_servers(text, addresses):
    parsed = parse_bootstrap_servers(text)
    assert parsed == addresses
    assert ",".join(map(str, parsed)) == text.replace(" ", "")


BAD_SERVERS = """
localhost|localhost:|:9092|localhost:kafka|localhost:0|localhost:65536|localhost:-1|::1:9092|[::1]
|[]:9092|a:1,|PLAINTEXT://a:1|a:1 b:2"""


@pytest.mark.parametrize("text", ["", *BAD_SERVERS.replace("\n", "").split("|")])
def test_bad_bootstrap_servers_are_refused_with_the_right_form(text):
    with pytest.raises(UsageError, match="Write HOST:PORT"):
        Cluster(text)


def test_metadata_asks_for_all_topics_for_some_or_for_none(brokers):
    with Cluster(brokers.list[0].address, "me") as cluster:
        assert cluster.metadata() == brokers.metadata()
        cluster.metadata(["a", "b"])
        cluster.metadata(())
        a, b = MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")
        assert brokers.list[0].requests() == [
            MetadataRequest(topics, allow_auto_topic_creation=False)
            for topics in (None, (a, b), ())
        ]
        assert brokers.list[0].asked[0].client_id == "me"


def test_the_first_bootstrap_server_that_answers_is_used(brokers):
    addresses = f"{unused_address()},{brokers.list[2].address},{brokers.list[0].address}"
    with Cluster(addresses) as cluster:
        assert cluster.metadata().controller_id == 1
        assert who(cluster.any_broker()) == 3
        assert brokers.list[0].asked == []


def test_when_none_answers_each_is_named_with_its_reason(stack):
    rude = stack.enter_context(ScriptedBroker(lambda asked: HANG_UP))
    nobody = unused_address()
    with (
        Cluster(f"{nobody},{rude.address}") as cluster,
        pytest.raises(UnreachableError, match="No broker answered") as caught,
    ):
        cluster.metadata()
    assert f"{nobody} cannot be reached for Metadata: Connection refused" in caught.value.what
    assert f"{rude.address} cannot be reached for Metadata: it closed" in caught.value.what
    assert "--bootstrap-server" in caught.value.next_step
    assert str(caught.value).count("\n") <= 2


def test_brokers_are_reached_by_id_each_over_one_connection(brokers):
    with Cluster(brokers.list[0].address) as cluster:
        assert sorted(cluster.nodes) == [1, 2, 3]
        assert [who(cluster.broker(node_id)) for node_id in (3, 1, 2, 3)] == [3, 1, 2, 3]
        for broker in brokers.list:
            assert {asked.connection for asked in broker.asked} == {0}


def test_a_broker_that_is_not_in_metadata_is_looked_up_once_more(brokers):
    late = brokers.alive.pop(3)
    with Cluster(brokers.list[0].address) as cluster:
        assert sorted(cluster.nodes) == [1, 2]
        with pytest.raises(UnreachableError, match=r"Broker 3 is not .*\(alive: 1, 2\)"):
            cluster.broker(3)
        brokers.alive[3] = late
        assert who(cluster.broker(3)) == 3


def test_a_broker_that_comes_back_on_another_port_is_found(stack, brokers):
    with Cluster(brokers.list[0].address) as cluster:
        assert who(cluster.broker(2)) == 2
        brokers.alive[2] = stack.enter_context(ScriptedBroker(brokers.script(22)))
        cluster.metadata(())
        assert who(cluster.broker(2)) == 22


def test_when_the_bootstrap_server_is_gone_the_known_brokers_are_asked(stack):
    gone = stack.enter_context(ExitStack())
    brokers = Brokers(stack, count=2)
    first = gone.enter_context(ScriptedBroker(brokers.script(9)))
    with Cluster(first.address) as cluster:
        cluster.metadata()
        gone.close()
        assert cluster.metadata() == brokers.metadata()
        assert who(cluster.any_broker()) in (1, 2)


def test_changes_go_to_the_controller_that_metadata_names(brokers):
    brokers.controller_id = 2
    with Cluster(brokers.list[0].address) as cluster:
        assert cluster.ask_controller(ListPartitionReassignmentsRequest()).error_code == 0
        assert brokers.list[1].requests() == [ListPartitionReassignmentsRequest()]


def test_a_controller_that_moved_is_looked_up_and_asked_once_more(brokers):
    with Cluster(brokers.list[0].address) as cluster:
        cluster.metadata(())
        brokers.controller_id = 3
        assert cluster.ask_controller(ListPartitionReassignmentsRequest()).error_code == 0
        assert brokers.list[2].requests() == [ListPartitionReassignmentsRequest()]


def test_a_controller_that_cannot_be_found_is_not_looked_for_for_ever(brokers):
    with Cluster(brokers.list[0].address) as cluster:
        cluster.metadata(())
        brokers.controller_id = 3
        brokers.list[2].answers = lambda asked: (
            ListPartitionReassignmentsResponse(error_code=41)
            if isinstance(asked.request, ListPartitionReassignmentsRequest)
            else None
        )
        assert cluster.ask_controller(ListPartitionReassignmentsRequest()).error_code == 41
        assert len(brokers.list[2].requests()) == 1


def test_a_broker_that_learns_its_controllers_versions_by_forwarding_is_asked_again(brokers):
    """In the middle of an upgrade: see `_forwarded`."""
    broker = brokers.list[0]
    broker.versions = {**VERSIONS, 45: (0, 1)}
    answers = broker.answers

    def forward(asked):
        if not isinstance(asked.request, AlterPartitionReassignmentsRequest):
            return answers(asked)
        broker.versions = {**VERSIONS, 45: (0, 0)}
        return HANG_UP if asked.version else AlterPartitionReassignmentsResponse()

    broker.answers = forward
    with Cluster(broker.address) as cluster:
        request = AlterPartitionReassignmentsRequest(allow_replication_factor_change=False)
        assert cluster.ask_controller(request).error_code == 0
    asked = [a.version for a in broker.asked if isinstance(a.request, type(request))]
    assert asked == [1, 0]


def test_a_broker_that_hangs_up_and_announces_what_it_did_is_not_asked_again(brokers):
    broker = brokers.list[0]
    answers = broker.answers
    broker.answers = lambda asked: (
        HANG_UP if isinstance(asked.request, ListPartitionReassignmentsRequest) else answers(asked)
    )
    with Cluster(broker.address) as cluster:
        with pytest.raises(UnreachableError, match="closed the connection instead of answering"):
            cluster.ask_controller(ListPartitionReassignmentsRequest())
        assert broker.requests().count(ListPartitionReassignmentsRequest()) == 1


def test_a_controller_that_does_not_answer_is_replaced_and_not_tried_with_every_request(brokers):
    """One that hangs costs its time-out each time: a wait asks many times."""
    with Cluster(brokers.list[1].address) as cluster:
        cluster.metadata(())
        brokers.list[0].answers = lambda asked: HANG_UP
        assert who(cluster.controller()) == 2
        tried = len(brokers.list[0].asked)
        assert tried > 0
        for _ in range(3):
            assert who(cluster.controller()) == 2
        assert len(brokers.list[0].asked) == tried
        assert brokers.list[0].requests() == []


def test_without_a_controller_any_broker_is_asked(brokers):
    brokers.controller_id = -1
    with Cluster(brokers.list[1].address) as cluster:
        assert who(cluster.controller()) == 2


def test_metadata_that_is_refused_as_a_whole_says_why(stack):
    refusal = MetadataResponse(error_code=129)
    broker = stack.enter_context(
        ScriptedBroker(lambda a: refusal if isinstance(a.request, MetadataRequest) else None)
    )
    with (
        Cluster(broker.address) as cluster,
        pytest.raises(RefusedError, match="refuses Metadata: REBOOTSTRAP_REQUIRED"),
    ):
        cluster.metadata()
