"""Changes that stop halfway: what is said of the half that is done."""

import pytest
from scripted_broker import Asked, ScriptedBroker

from kipctl.cluster import change
from kipctl.cluster.change import Reassigned, rotate_leaders
from kipctl.cluster.plan import Plan, rotate
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.errors import PartlyDoneError, RefusedError
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kipctl.protocol.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kipctl.transport.request import Cluster


def test_a_rotation_whose_election_is_refused_is_partly_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka 3.0 reassigns in KRaft, and elects nobody when asked."""

    def reassigned(cluster: object, plan: Plan, *_: object) -> Reassigned:
        return Reassigned(plan, (), 0, 0, 0, None)

    def refused(*_: object, **__: object) -> None:
        raise RefusedError("The cluster refused the election: UNSUPPORTED_VERSION.")

    monkeypatch.setattr(change, "_submit_and_wait", reassigned)
    monkeypatch.setattr(change, "elect_preferred", refused)

    def answers(asked: Asked) -> Response | None:
        match asked.request:
            case MetadataRequest():
                return MetadataResponse(brokers=(MetadataResponseBroker(1, "127.0.0.1", one.port),))
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse()
        return None

    orders = Partition(PartitionId("orders", 0), (1, 2), (1, 2), 1, 0)
    with ScriptedBroker(answers) as one, Cluster(one.address) as cluster:
        before = Snapshot("", (Broker(1, "127.0.0.1", one.port, None),), (orders,))
        with pytest.raises(PartlyDoneError) as partly:
            rotate_leaders(cluster, rotate(before), before)
    assert partly.value.what == (
        "The replicas are in their new order, and led as before: "
        "The cluster refused the election: UNSUPPORTED_VERSION."
    )
    assert "inspect leaders" in partly.value.next_step
