"""Whether a lab's nodes are ready, and what they lead: what brokers say of it over the wire."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from kipctl.errors import KipctlError, TimedOutError
from kipctl.lab.node import Node, NodeState
from kipctl.lab.properties import HOST, Role
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, metadata_request
from kipctl.transport.request import BrokerConnection

CLIENT_ID = "kipctl-lab"
_POLL_INTERVAL_S = 0.02
_REQUEST_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node as `kipctl lab status` shows it; `leaders` counts the partitions that it leads."""

    id: int
    role: Role
    rack: str | None
    port: int
    pid: int | None
    state: NodeState
    leaders: int | None


def wait_until_ready(nodes: Sequence[Node], timeout_s: float) -> None:
    """Wait until each of these brokers lists them all as registered and unfenced.

    Metadata leaves fenced brokers out. Raises NodeDiedError when one of the nodes has died,
    TimedOutError after `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    brokers = {node.id for node in nodes if node.role is not Role.CONTROLLER}
    with ExitStack() as opened:
        connections = [(node, opened.enter_context(_connection(node))) for node in nodes]
        while True:
            for node in nodes:
                if node.state is NodeState.CRASHED:
                    raise node.died_error()
            # All are asked each time: what a broker lists may be from before another's restart.
            waiting = [node for node, link in connections if not _ready(node, link, brokers)]
            if not waiting:
                return
            if time.monotonic() > deadline:
                names = ", ".join(node.spec.label for node in waiting)
                raise TimedOutError(
                    f"Not ready after {timeout_s:g} s: {names}.",
                    f"See the log: {waiting[0].log_path}",
                )
            time.sleep(_POLL_INTERVAL_S)


def node_statuses(nodes: Sequence[Node]) -> tuple[NodeStatus, ...]:
    """Every node with its state; the brokers' according to the first of them that answers."""
    states = {node.id: node.state for node in nodes}
    metadata = _metadata_of_any(
        [n for n in nodes if n.role is Role.BROKER and states[n.id] is NodeState.RUNNING]
    )
    listed = {broker.node_id for broker in metadata.brokers} if metadata else set()
    leaders = Counter(
        partition.leader_id
        for topic in (metadata.topics if metadata else ())
        for partition in topic.partitions
    )
    statuses = []
    for node in nodes:
        state = states[node.id]
        is_broker = node.role is Role.BROKER
        if is_broker and state is NodeState.RUNNING and node.id not in listed:
            state = NodeState.STARTING
        leader_count = leaders[node.id] if is_broker and metadata else None
        statuses.append(
            NodeStatus(node.id, node.role, node.rack, node.port, node.pid, state, leader_count)
        )
    return tuple(statuses)


def _connection(node: Node) -> BrokerConnection:
    return BrokerConnection(HOST, node.spec.plaintext_port, CLIENT_ID, _REQUEST_TIMEOUT_S)


def _ready(node: Node, connection: BrokerConnection, brokers: set[int]) -> bool:
    """A broker lists all of these brokers; a controller answers at all."""
    try:
        if node.role is Role.CONTROLLER:  # in Kafka 2.8 it has Metadata too, of controllers
            return bool(connection.api_versions)
        listed = connection.request(MetadataRequest(topics=())).brokers
    except KipctlError:
        return False
    return brokers <= {broker.node_id for broker in listed}


def _metadata_of_any(brokers: Sequence[Node]) -> MetadataResponse | None:
    for node in brokers:
        with _connection(node) as connection:
            try:
                return connection.request(metadata_request(None))
            except KipctlError:
                continue
    return None
