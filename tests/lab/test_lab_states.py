"""What a node's state is, and when nodes are ready, whatever changes while it is looked at."""

from pathlib import Path

import pytest
from scripted_broker import Asked, ScriptedBroker

from kipctl import process
from kipctl.lab.node import Node, NodeState
from kipctl.lab.properties import LabSpec, NodeSpec, Role, node_specs
from kipctl.lab.ready import wait_until_ready
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker


def test_a_node_that_ends_as_it_was_told_while_it_is_looked_at_did_not_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(node_specs(LabSpec(brokers=1), 20000)[0], tmp_path)
    this = process.current_process()
    process.write_record(tmp_path / "process", this)
    assert node.state is NodeState.RUNNING

    def told_and_gone(_: process.Process) -> bool:
        process.write_record(tmp_path / "told-to-stop", this)
        return False

    monkeypatch.setattr(process, "is_alive", told_and_gone)
    assert node.state is NodeState.STOPPED


def listing(looks: list[set[int]]) -> ScriptedBroker:
    """Lists these nodes, look by look, and the last ones ever after."""

    def answers(asked: Asked) -> MetadataResponse | None:
        if isinstance(asked.request, ApiVersionsRequest):
            return None
        listed = looks.pop(0) if looks[1:] else looks[0]
        return MetadataResponse(brokers=tuple(map(MetadataResponseBroker, sorted(listed))))

    return ScriptedBroker(answers)


def running(folder: Path, id: int, role: Role, port: int) -> Node:
    (folder / str(id)).mkdir()
    process.write_record(folder / str(id) / "process", process.current_process())
    return Node(NodeSpec(id, role, None, port), folder / str(id))


def test_brokers_are_ready_when_one_look_finds_them_all_so(tmp_path: Path) -> None:
    """Broker 1 lists broker 2 from before its restart, then does not, then does again."""
    looks = {1: [{1, 2}, {1}, {1, 2}], 2: [{2}, {1, 2}, {1, 2}]}
    with listing(looks[1]) as first, listing(looks[2]) as second:
        ports = {1: first.port, 2: second.port}
        nodes = [running(tmp_path, id, Role.BROKER, port) for id, port in ports.items()]
        wait_until_ready(nodes, 60)
    assert looks == {1: [{1, 2}], 2: [{1, 2}]}


def test_a_controller_is_ready_once_it_answers_whatever_apis_it_has(tmp_path: Path) -> None:
    """In Kafka 2.8 a controller has Metadata too, and lists controllers."""
    with listing([{1}]) as first, listing([{101}]) as second:
        broker = running(tmp_path, 1, Role.BROKER, first.port)
        wait_until_ready([broker, running(tmp_path, 101, Role.CONTROLLER, second.port)], 0)
